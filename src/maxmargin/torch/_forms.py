"""The forms of a batch: a list of tensors, a padded tensor with a mask, or one flat tensor.

All of them become consecutive rows and a :class:`Layout`, which maps rows to examples. Padded
tensors are not copied: ``places`` lists the rows that are not padding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._kernels.checks import all_finite, narrow
from .._validation import has_length, is_text

_FLOATS = (torch.float32, torch.float64)
_NO_PLACES = np.empty(0, np.int64)
_announced: set[str] = set()  # devices for which the warning was given


class Layout:
    """Which positions belong to which example.

    Parameters
    ----------
    form : {"list", "padded", "flat"}
    lengths : integer array
        Number of positions of each example.
    padded_to : int
        Number of positions of a padded batch.
    mask : bool array, optional
        Of a padded batch with examples of different lengths.
    """

    def __init__(
        self, form: str, lengths: np.ndarray, padded_to: int = 0, mask: np.ndarray | None = None
    ):
        self.form = form
        self.lengths = lengths
        self.padded_to = padded_to
        self.mask = mask
        self.n = len(lengths)
        # where the positions of each example start, without padding
        self.indptr = np.zeros(self.n + 1, np.int64)
        np.cumsum(lengths, out=self.indptr[1:])
        self.size, self.longest = int(self.indptr[-1]), int(lengths.max())
        self._known: dict[Callable, Any] = {}

    def once(self, make: Callable[[Layout], Any]) -> Any:
        """``make(layout)``, which a structure derives from the layout alone; computed once."""
        if make not in self._known:
            self._known[make] = make(self)
        return self._known[make]

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of positions of each example, padding included."""
        return np.full(self.n, self.padded_to) if self.form == "padded" else self.lengths

    @cached_property
    def places(self) -> np.ndarray:
        """Rows of a padded batch that are not padding; empty if none is padding."""
        return _NO_PLACES if self.mask is None else np.flatnonzero(self.mask)

    def per_position(self, values: Tensor, padding: float) -> Any:
        """Values of all positions, in the form of the batch."""
        if self.form == "list":
            return list(values.split(self.lengths.tolist()))
        if self.form == "flat":
            return values
        shape = (self.n, self.padded_to, *values.shape[1:])
        if self.mask is None:
            return values.reshape(shape)
        found = values.new_full((shape[0] * shape[1], *shape[2:]), padding)
        found[torch.from_numpy(self.places)] = values
        return found.reshape(shape)


def to_cpu(tensor: Tensor) -> Tensor:
    """The tensor on the CPU, where kernels run; warns at the first copy."""
    if tensor.device.type == "cpu":
        return tensor
    if tensor.device.type == "meta":
        raise ValueError("scores are on meta, which has no values; pass scores on another device.")
    if tensor.device.type not in _announced:
        _announced.add(tensor.device.type)
        warnings.warn(
            f"scores are on {tensor.device}; the kernels of maxmargin run on the CPU, so scores "
            "and gradients are copied once per batch. This warning is given once.",
            UserWarning,
            stacklevel=4,
        )
    return tensor.cpu()


def as_rows(scores: Tensor, width: int) -> np.ndarray:
    """Scores as rows of a matrix; not copied if they are contiguous and on the CPU."""
    return np.ascontiguousarray(to_cpu(scores.detach()).numpy().reshape(-1, width))


def check_scores(name: str, scores: Any, ndim: int) -> Tensor:
    """A tensor of scores, or an error that names it."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; received {type(scores).__name__}.")
    if scores.dtype not in _FLOATS:
        raise TypeError(
            f"{name} must be float32 or float64; received {scores.dtype}. Convert with .float()."
        )
    if scores.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} dimension{'s' * (ndim != 1)}; received shape "
            f"{tuple(scores.shape)}."
        )
    return scores


def check_shape(name: str, value: Any, *shapes: tuple[int, ...]) -> Tensor:
    """A tensor of one of some shapes, or an error that names it."""
    if isinstance(value, Tensor) and value.shape in shapes:
        return value
    expected = " or ".join(str(tuple(map(int, shape))) for shape in shapes)
    raise ValueError(f"{name} must be a tensor of shape {expected}; received {describe(value)}.")


def check_device(name: str, tensor: Tensor, device: torch.device) -> None:
    """Refuse tensors on different devices."""
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, but the scores are on {device}.")


def _check_mask(mask: Any, shape: tuple[int, ...], device: torch.device) -> np.ndarray | None:
    """The mask; None if all of it is True."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a bool tensor; received {type(mask).__name__}.")
    if mask.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"mask must be a bool tensor; received {mask.dtype}.")
    if mask.shape != shape:
        raise ValueError(
            f"mask must have shape {shape}, as the first two dimensions of the scores; received "
            f"{tuple(mask.shape)}."
        )
    check_device("mask", mask, device)
    found = mask.cpu().numpy().astype(bool, copy=False)
    if found.all():
        return None
    lengths = found.sum(1)
    if not np.array_equal(found, np.arange(shape[1]) < lengths[:, None]):
        bad = int(np.flatnonzero((found != (np.arange(shape[1]) < lengths[:, None])).any(1))[0])
        raise ValueError(
            f"mask of example {bad} must be True first and False after the end of the example; "
            "received a mask with gaps."
        )
    return found


@lru_cache(maxsize=64)
def full_layout(n: int, longest: int) -> Layout:
    """The layout of a padded tensor without padding."""
    return Layout("padded", np.full(n, longest), longest)


def padded_layout(name: str, tensor: Tensor, mask: Any) -> Layout:
    """The layout of a padded tensor, examples and positions being its first two dimensions."""
    n, longest = int(tensor.shape[0]), int(tensor.shape[1])
    if n == 0 or longest == 0:
        raise ValueError(f"{name} is empty: it has shape {tuple(tensor.shape)}.")
    found = None if mask is None else _check_mask(mask, (n, longest), tensor.device)
    if found is None:
        return full_layout(n, longest)
    lengths = found.sum(1)
    _check_lengths(name, lengths)
    return Layout("padded", lengths, longest, found)


def flat_layout(name: str, offsets: Any) -> Layout:
    """The layout of a flat tensor."""
    ends = np.asarray(offsets.cpu() if isinstance(offsets, Tensor) else offsets)
    if ends.ndim != 1 or len(ends) < 2 or ends.dtype.kind not in "iu" or ends[0] != 0:
        raise ValueError(
            "offsets must be a vector of integers that starts with 0 and has one entry more than "
            f"there are examples; received {offsets!r}."
        )
    lengths = np.diff(ends.astype(np.int64))
    _check_lengths(name, lengths)
    return Layout("flat", lengths)


def list_layout(name: str, scores: Any, ndim: int) -> Layout:
    """The layout of a list of tensors."""
    if not isinstance(scores, Sequence) or is_text(scores):
        raise TypeError(
            f"{name} must be a tensor or a list of tensors; received {type(scores).__name__}."
        )
    if not len(scores):
        raise ValueError(f"{name} is an empty list.")
    for i, each in enumerate(scores):
        check_scores(f"{name}[{i}]", each, ndim)
        if each.dtype != scores[0].dtype or each.device != scores[0].device:
            raise ValueError(
                f"{name}[{i}] is {each.dtype} on {each.device}, but {name}[0] is "
                f"{scores[0].dtype} on {scores[0].device}."
            )
    lengths = np.array([each.shape[0] for each in scores], np.int64)
    _check_lengths(name, lengths)
    return Layout("list", lengths)


def _check_lengths(name: str, lengths: np.ndarray) -> None:
    if (lengths < 1).any():
        bad = int(np.flatnonzero(lengths < 1)[0])
        raise ValueError(f"{name}: example {bad} has no positions; leave it out of the batch.")


def read_layout(name: str, scores: Any, ndim: int, mask: Any, offsets: Any) -> Layout:
    """The layout of scores whose examples have ``ndim`` dimensions each, the first one ragged."""
    if mask is not None and offsets is not None:
        raise ValueError("Give mask (of a padded tensor) or offsets (of a flat one), not both.")
    if not isinstance(scores, Tensor):
        if mask is not None or offsets is not None:
            raise ValueError(f"{name} is a list, whose examples need neither mask nor offsets.")
        return list_layout(name, scores, ndim)
    if offsets is not None:
        return flat_layout(name, offsets)
    check_scores(name, scores, ndim + 1)
    return padded_layout(name, scores, mask)


def check_finite(values: np.ndarray, counted: np.ndarray, sizes: np.ndarray) -> None:
    """Refuse NaN and infinity in ``values``, rows of parts; names the example.

    ``counted`` lists the rows to check (empty: all), ``sizes`` the number of them per example.
    """
    if all_finite(values):
        return
    fine = np.isfinite(values).all(1)
    if len(counted):
        fine = fine[counted]
    if fine.all():  # padding may be infinite or NaN
        return
    row = int(np.flatnonzero(~fine)[0])
    example = int(np.searchsorted(np.cumsum(sizes), row, side="right"))
    raise ValueError(
        f"scores of example {example} contain NaN or infinity. Look for a diverging step or a "
        "division by zero; forbid outputs by constraints instead of infinite scores."
    )


def given_labels(name: str, targets: Any, layout: Layout, device: torch.device) -> np.ndarray:
    """Integers of all positions, without padding."""
    if layout.form == "list":
        if isinstance(targets, Tensor) or len(targets) != layout.n:
            raise ValueError(
                f"{name} must be a list of {layout.n} tensors, as the scores; received "
                f"{describe(targets)}."
            )
        for i, each in enumerate(targets):
            check_shape(f"{name}[{i}]", each, (layout.lengths[i],))
        flat = torch.cat(list(targets))
    else:
        padded = layout.form == "padded"
        shape = (layout.n, layout.padded_to) if padded else (layout.size,)
        flat = check_shape(name, targets, shape)
    check_device(name, flat, device)
    if flat.is_floating_point() or flat.is_complex():
        raise TypeError(f"{name} must hold integers; received {flat.dtype}.")
    given = flat.cpu().numpy().astype(np.int64, copy=False).reshape(-1)
    return given if layout.mask is None else given[layout.places]


def read_labels(
    name: str, targets: Any, layout: Layout, device: torch.device, low: int, high: int | np.ndarray
) -> np.ndarray:
    """Integer labels of all positions, without padding: ``low <= label < high`` each."""
    given = given_labels(name, targets, layout, device)
    found = np.empty(len(given), np.int32)
    least = high if isinstance(high, int) else int(high.min())
    if not narrow(given, low, least, found):
        check_range(name, given, layout, low, high)
    return found


def check_range(
    name: str, given: np.ndarray, layout: Layout, low: int, high: int | np.ndarray
) -> None:
    """Refuse labels out of range."""
    bad = (given < low) | (given >= high)
    if not bad.any():
        return
    row = int(np.flatnonzero(bad)[0])
    example = int(np.searchsorted(layout.indptr, row, side="right")) - 1
    raise ValueError(
        f"{name} of example {example} holds {given[row]} at position "
        f"{row - layout.indptr[example]}; expected integers from {low} to "
        f"{np.broadcast_to(high, bad.shape)[row] - 1}."
    )


def describe(value: Any) -> str:
    """What was received, in a few words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"{type(value).__name__} of length {len(value)}" if has_length(value) else repr(value)
