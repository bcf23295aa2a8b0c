"""Checks of plain arrays that compiled code will trust: index ranges, pools, random states.

All raise ValueError; who reads a file says which file it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._validation import is_array, is_integer

# Numbers that are looked at together: 32 MB.
_AT_ONCE = 1 << 22


def check_array(name: str, value: Any, dtype: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """An array of exactly this type and shape; None is any length."""
    kind = np.dtype(dtype)
    fits = is_array(value) and value.dtype == kind and value.ndim == len(shape)
    if not fits or any(k not in (None, n) for k, n in zip(shape, value.shape, strict=True)):
        found = f"{value.dtype} of shape {value.shape}" if is_array(value) else type(value).__name__
        wanted = ", ".join("any" if k is None else str(k) for k in shape)
        raise ValueError(f"{name} must be {kind} of shape ({wanted}); received {found}")
    return value


def check_finite_array(name: str, value: np.ndarray) -> None:
    """No NaN and no infinity."""
    if not np.isfinite(value).all():
        place = tuple(int(k) for k in np.argwhere(~np.isfinite(value))[0])
        raise ValueError(f"{name} must be finite; received {value[place]} at {place}")


def check_within(name: str, values: np.ndarray, low: int, below: Any) -> None:
    """Integers of at least ``low`` and less than ``below``, a number or an array."""
    wrong = (values < low) | (values >= below)
    if wrong.any():
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        limit = below if np.ndim(below) == 0 else np.asarray(below)[place]
        raise ValueError(
            f"{name} must be at least {low} and less than {limit}; received {values[place]} at "
            f"{place}"
        )


def check_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> None:
    """Arrays that are a CSR matrix of this shape."""
    shape = tuple(shape)
    if len(shape) != 2 or not all(is_integer(k) and k >= 0 for k in shape):
        raise ValueError(f"the shape of a CSR matrix must be two sizes; received {shape}")
    for name, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if not is_array(array) or array.ndim != 1:
            raise ValueError(f"{name} of a CSR matrix must be an array of one dimension")
    for name, array in (("indices", indices), ("indptr", indptr)):
        if array.dtype.str[1:] not in ("i4", "i8"):
            raise ValueError(f"{name} of a CSR matrix must hold integers; received {array.dtype}")
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"indptr of a CSR matrix of {shape[0]} rows must have {shape[0] + 1} entries that "
            "start at 0 and never fall"
        )
    if not len(data) == len(indices) == int(indptr[-1]):
        raise ValueError(
            f"a CSR matrix has {len(data)} values and {len(indices)} indices; expected {indptr[-1]}"
        )
    check_within("indices of a CSR matrix", indices, 0, shape[1])


def check_random_state(state: Mapping[str, Any]) -> None:
    """The state of a Mersenne Twister; numpy accepts any position and any key."""
    if state.get("bit_generator") != "MT19937":
        raise ValueError(f"a RandomState must be MT19937; received {state.get('bit_generator')!r}")
    inner = state["state"]
    key = check_array("the key of a RandomState", inner["key"], np.uint32, (624,))
    if not key.any():
        raise ValueError("the key of a RandomState is 0, which gives 0 forever")
    if type(inner["pos"]) is not int or not 0 <= inner["pos"] <= len(key):
        raise ValueError(f"the position of a RandomState is {inner['pos']!r}; expected 0 to 624")
    if state["has_gauss"] not in (0, 1) or not np.isfinite(state["gauss"]):
        raise ValueError("the saved normal number of a RandomState is none")


# --- pools: pieces of one array, each with a start, a capacity, and a count of entries in use ---


def check_pool(
    name: str, start: np.ndarray, count: np.ndarray, room: np.ndarray, used: int, size: int
) -> None:
    """Pieces that do not overlap, lie in the used part, and hold no more than they can."""
    if not 0 <= used <= size:
        raise ValueError(f"the used part of {name} ends at {used}; expected 0 to {size}")
    for what, values in (("start", start), ("count", count), ("room", room)):
        if (values < 0).any():
            raise ValueError(f"{what} of {name} is negative")
    if (count > room).any():
        raise ValueError(f"{name}: an example has more entries than its capacity")
    if (start > used).any() or (room > used).any():
        raise ValueError(f"{name}: an example lies beyond the used part")
    order = np.lexsort((room, start))
    ends = start[order] + room[order]
    if len(ends) and (ends[-1] > used or (ends[:-1] > start[order][1:]).any()):
        raise ValueError(f"{name}: examples overlap, or lie beyond the used part")


def entries_in_use(start: np.ndarray, count: np.ndarray):
    """Pairs of the places in a pool that are in use and the pieces they belong to, in parts."""
    ends = np.cumsum(count, dtype=np.int64)
    first = 0
    while first < len(count):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _AT_ONCE, "right")))
        counts = count[first:last]
        owner = np.repeat(np.arange(first, last), counts)
        within = np.arange(len(owner)) - np.repeat(ends[first:last] - counts - before, counts)
        yield start[owner] + within, owner
        first = last
