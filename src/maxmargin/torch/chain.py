"""Label sequences: scores of labels at positions, and of transitions that all positions share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._validation import check_choice
from ..oracles.mirror_prox import chain_pairs
from ..structures.chain import Chain as PackedChain
from ..structures.losses import LabelLoss
from ..structures.masks import TransitionMasks, transition_masks
from ._batch import Batch
from ._forms import (
    Layout,
    check_device,
    check_finite,
    check_scores,
    describe,
    read_labels,
    read_layout,
    to_cpu,
)
from .structures import Structure, label_loss

_NO_PRODUCTS = np.empty(0)


class ChainScores(NamedTuple):
    """Scores of label sequences.

    ``emissions`` are the scores of labels at positions: a padded tensor (n, T, K), a list of
    tensors (T_i, K), or a flat tensor (positions, K) with offsets. ``transitions[j, k]`` is the
    score of label k after label j, of shape (K, K), or (n, K, K) for each sequence its own;
    ``start`` and ``end`` are scores of the first and the last label, of shape (K,) or (n, K).
    """

    emissions: Any
    transitions: Tensor | None = None
    start: Tensor | None = None
    end: Tensor | None = None


class Chain(Structure):
    """Label sequences of any length, K labels at each position.

    Scores are emissions alone or :class:`ChainScores`; targets are labels from 0 to K - 1 in the
    same form.

    Parameters
    ----------
    loss : {"0-1", "absolute"} or matrix of shape (K, K), default="0-1"
        Loss of a label, for max-margin and max-min: rows predicted, columns true.
    scale : {"mean", "sum"}, default="mean"
        Whether the loss of a sequence is the mean or the sum over its positions.
    constraints : None, "bio", "bioes", bool matrix of shape (K, K), or dict, optional
        Which labels may follow each other, begin and end: True is allowed. A dict lists what is
        forbidden: ``{"transitions": [(from, to)], "first": [label], "last": [label]}``.
    classes : sequence of K labels, optional
        Names of the labels, for ``constraints`` that use names. Default: 0 to K - 1.
    """

    name = "chain"

    def __init__(
        self, loss: Any = "0-1", scale: str = "mean", constraints: Any = None, classes: Any = None
    ):
        self.loss = loss
        self.scale = check_choice("scale", scale, ("mean", "sum"))
        self.constraints = constraints
        self.classes = classes
        self._known: dict[int, tuple[LabelLoss, TransitionMasks]] = {}

    def of_size(self, n_labels: int) -> tuple[LabelLoss, TransitionMasks]:
        """Loss and masks for a number of labels."""
        if n_labels not in self._known:
            classes = np.arange(n_labels) if self.classes is None else np.asarray(self.classes)
            if len(classes) != n_labels:
                raise ValueError(
                    f"classes has {len(classes)} labels, but emissions have {n_labels}."
                )
            masks = transition_masks(self.constraints, classes)
            self._known[n_labels] = (label_loss(self.loss, n_labels), masks)
        return self._known[n_labels]

    def batch(self, scores, targets, mask, offsets, allowed=None):
        """Read a batch; ``allowed`` is a bool array (positions, K) of labels that may occur."""
        given = scores if isinstance(scores, ChainScores) else ChainScores(scores)
        values, layout, device = read_emissions(given.emissions, mask, offsets)
        k = int(values.shape[1])
        loss, masks = self.of_size(k)
        truth = np.zeros(int(layout.lengths.sum()), np.int32)
        if targets is not None:
            truth = read_labels("targets", targets, layout, device, 0, k)
            _check_allowed(truth, layout, masks)
        ends = given.start is not None or given.end is not None
        weights = _shared_scores(given, values, layout.n, k, device)
        packed = _pack(truth, layout, k, loss, self.scale, masks, ends, allowed)
        rows = np.full(layout.n, layout.padded_to) if layout.form == "padded" else layout.lengths
        emissions = given.emissions
        shape = tuple(emissions.shape) if isinstance(emissions, Tensor) else ()
        return Batch(
            packed, values, weights, layout.places, rows, layout,
            4.0 * float(layout.lengths.sum()) * k * k, shape, device,
        )  # fmt: skip

    def max_min_oracle(self, packed, iterations):
        """Saddle-point mirror-prox."""
        return chain_pairs(packed, iterations)


def read_emissions(emissions: Any, mask: Any, offsets: Any) -> tuple[Tensor, Layout, torch.device]:
    """Rows of emissions on the CPU, their layout, and the device where they came from."""
    layout = read_layout("emissions", emissions, 2, mask, offsets)
    if layout.form == "list":
        widths = {int(each.shape[1]) for each in emissions}
        if len(widths) > 1:
            raise ValueError(
                f"emissions must all have the same number of labels; received {sorted(widths)}."
            )
        values, device = torch.cat(list(emissions)), emissions[0].device
    else:
        if layout.form == "flat":
            check_scores("emissions", emissions, 2)
            if len(emissions) != layout.lengths.sum():
                raise ValueError(
                    f"emissions must have {layout.lengths.sum()} rows by offsets; received "
                    f"{len(emissions)}."
                )
        values, device = emissions.reshape(-1, emissions.shape[-1]), emissions.device
    if values.shape[1] == 0:
        raise ValueError("emissions have no labels: their last dimension is 0.")
    values = to_cpu(values).contiguous()
    check_finite(values, layout.places, layout.lengths)
    return values, layout, device


def _shared_scores(
    given: ChainScores, values: Tensor, n: int, k: int, device: torch.device
) -> Tensor:
    """Transitions, start and end as one row for all sequences, or one for each."""
    parts = {"transitions": (k, k), "start": (k,), "end": (k,)}
    if given.start is None and given.end is None:
        parts = {"transitions": (k, k)}
    found = []
    for name, shape in parts.items():
        part = getattr(given, name)
        if part is None:
            found.append(values.new_zeros((1, int(np.prod(shape)))))
            continue
        if not isinstance(part, Tensor) or tuple(part.shape) not in (shape, (n, *shape)):
            raise ValueError(
                f"{name} must be a tensor of shape {shape} or {(n, *shape)}; received "
                f"{describe(part)}."
            )
        check_scores(name, part, part.ndim)
        check_device(name, part, device)
        flat = to_cpu(part).reshape(-1 if part.ndim > len(shape) else 1, int(np.prod(shape)))
        _check_shared(name, flat)
        found.append(flat)
    most = max(len(part) for part in found)
    return found[0] if len(found) == 1 else torch.cat([p.expand(most, -1) for p in found], 1)


def _check_shared(name: str, flat: Tensor) -> None:
    if not np.isfinite(float(flat.detach().sum())) and not torch.isfinite(flat).all():
        raise ValueError(
            f"{name} contain NaN or infinity. Forbid transitions by constraints instead of "
            "infinite scores."
        )


def _pack(
    truth: np.ndarray, layout: Layout, k: int, loss: LabelLoss, scale: str,
    masks: TransitionMasks, ends: bool, allowed: np.ndarray | None,
) -> PackedChain:  # fmt: skip
    lengths = layout.lengths
    scales = np.ones(len(truth)) if scale == "sum" else np.repeat(1.0 / lengths, lengths)
    minus = [np.where(mask, 0.0, -np.inf) for mask in masks]
    masked = masks.forbids_anything or allowed is not None
    return PackedChain(
        truth, layout.indptr, int(lengths.max()), k, loss, scales, ends, masked, *minus,
        np.empty((0, k), bool) if allowed is None else allowed, _NO_PRODUCTS,
        np.zeros(layout.n + 1, np.int64),
    )  # fmt: skip


def _check_allowed(truth: np.ndarray, layout: Layout, masks: TransitionMasks) -> None:
    """Refuse targets that the constraints forbid."""
    if not masks.forbids_anything:
        return
    begin, end = layout.indptr[:-1], layout.indptr[1:] - 1
    fine = np.ones(len(truth), bool)
    fine[1:] = masks.transitions[truth[:-1], truth[1:]]
    fine[begin] = masks.first[truth[begin]]
    fine[end] &= masks.last[truth[end]]
    if not fine.all():
        at = int(np.flatnonzero(~fine)[0])
        example = int(np.searchsorted(layout.indptr, at, side="right")) - 1
        raise ValueError(
            f"targets of example {example} break the constraints at position "
            f"{at - layout.indptr[example]}, label {truth[at]}: correct the labels or the "
            "constraints."
        )
