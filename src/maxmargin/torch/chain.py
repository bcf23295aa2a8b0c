"""Label sequences: scores of labels at positions, and of transitions that all positions share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._kernels.checks import all_finite
from .._validation import check_choice, is_name
from ..features.scores import ScoreRows
from ..oracles.mirror_prox import chain_pairs
from ..structures.chain import Chain as PackedChain
from ..structures.chain_best import best_labellings
from ..structures.chain_likelihood import chain_likelihoods
from ..structures.losses import LabelLoss
from ..structures.masks import TransitionMasks, transition_masks
from ._autograd import Marginals, loss_values
from ._batch import Batch
from ._forms import (
    Layout,
    as_rows,
    check_device,
    check_finite,
    check_scores,
    check_shape,
    read_labels,
    read_layout,
)
from ._structure import Structure, label_loss
from ._threads import over_examples

_NO_PRODUCTS = np.empty(0)
_SHARED = ("transitions", "start", "end")


class ChainScores(NamedTuple):
    """Scores of label sequences.

    ``emissions`` are the scores of labels at positions: a padded tensor (n, T, K), a list of
    tensors (T_i, K), or a flat tensor (positions, K) with offsets. ``transitions[j, k]`` is the
    score of label k after label j, of shape (K, K), or (n, K, K) for one matrix per sequence;
    ``start`` and ``end`` are scores of the first and the last label, of shape (K,) or (n, K).
    """

    emissions: Any
    transitions: Tensor | None = None
    start: Tensor | None = None
    end: Tensor | None = None


def _minus(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, 0.0, -np.inf)


class Limits(NamedTuple):
    """Loss and constraints for a number of labels."""

    loss: LabelLoss
    masks: TransitionMasks
    forbid_anything: bool
    scores: tuple[
        np.ndarray, np.ndarray, np.ndarray
    ]  # of the masks: minus infinity where they forbid


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
        self._known: dict[int, Limits] = {}

    def of_size(self, n_labels: int) -> Limits:
        """Loss and masks for a number of labels."""
        if n_labels not in self._known:
            classes = np.arange(n_labels) if self.classes is None else np.asarray(self.classes)
            if len(classes) != n_labels:
                raise ValueError(
                    f"classes has {len(classes)} labels, but emissions have {n_labels}."
                )
            masks = transition_masks(self.constraints, classes)
            self._known[n_labels] = Limits(
                label_loss(self.loss, n_labels), masks, masks.forbids_anything,
                (_minus(masks.transitions), _minus(masks.first), _minus(masks.last)),
            )  # fmt: skip
        return self._known[n_labels]

    def batch(self, scores, targets, mask, offsets, allowed=None):
        """Read a batch; ``allowed`` is a bool array (positions, K) of labels that may occur."""
        given = scores if isinstance(scores, ChainScores) else ChainScores(scores)
        emissions, layout = read_emissions(given.emissions, mask, offsets)
        k = int(emissions.shape[-1])
        values = as_rows(emissions, k)
        check_finite(values, layout.places, layout.lengths)
        limits = self.of_size(k)
        if targets is None:
            truth = np.zeros(layout.size, np.int32)
        else:
            truth = read_labels("targets", targets, layout, emissions.device, 0, k)
            _check_allowed(truth, layout, limits)
        ends = given.start is not None or given.end is not None
        packed = _pack(truth, layout, limits, self.scale, ends, allowed)
        work = 4.0 * len(truth) * k * k
        shared = _shared_scores(given, layout.n, k, ends, emissions.device)
        return Batch(packed, emissions, values, layout, layout.rows, work, layout.places, *shared)

    def crf(self, batch, factors):
        """Negative log likelihoods; chains without constraints have a faster kernel."""
        if batch.structure.masked or not batch.shares_all:
            return super().crf(batch, factors)
        losses = batch.likelihoods(chain_likelihoods)
        return loss_values(batch, losses, factors, smooth=Marginals.apply)

    def refuse_regularizer(self, regularizer):
        """Refuse all but the entropy, and max-min for the 0-1 loss."""
        if regularizer != "max-min":
            super().refuse_regularizer(regularizer)
        elif not is_name(self.loss, "0-1"):
            raise ValueError(
                "regularizer='max-min' has a formula for the 0-1 loss of labels; use MaxMinLoss "
                "for other losses of chains."
            )

    def best(self, batch):
        """Best labels; chains without constraints have a faster kernel."""
        if batch.structure.masked or not batch.shares_all:
            return super().best(batch)
        return batch.best_paths()

    def topk(self, batch, k):
        """The k best labellings of each sequence."""
        if len(batch.weights) > 1:
            raise ValueError("topk needs transitions that all sequences share: shape (K, K).")
        labels = np.full((k, len(batch.structure.truth)), -1, np.int32)
        values = np.full((batch.n, k), -np.inf)
        counts = np.zeros(batch.n, np.int64)
        rows, weights = ScoreRows(batch.values, batch.places), batch.weights[0]

        def work(first: int, last: int) -> None:
            best_labellings(batch.structure, rows, weights, first, last, labels, values, counts)

        over_examples(work, batch.n, k * batch.operations)
        return [self.form(batch, each) for each in labels], batch.per_example(values)

    def transitions(self, batch, weights):
        """Expected number of each transition."""
        k = batch.structure.n_labels
        return weights[:, : k * k].reshape(batch.n, k, k)

    def max_min_oracle(self, packed, iterations):
        """Saddle-point mirror-prox."""
        return chain_pairs(packed, iterations)


def read_emissions(emissions: Any, mask: Any, offsets: Any) -> tuple[Tensor, Layout]:
    """Emissions as one tensor, and their layout."""
    layout = read_layout("emissions", emissions, 2, mask, offsets)
    if layout.form == "list":
        widths = {int(each.shape[1]) for each in emissions}
        if len(widths) > 1:
            raise ValueError(
                f"emissions must all have the same number of labels; received {sorted(widths)}."
            )
        emissions = torch.cat(list(emissions))
    elif layout.form == "flat":
        check_scores("emissions", emissions, 2)
        if len(emissions) != layout.lengths.sum():
            raise ValueError(
                f"emissions must have {layout.lengths.sum()} rows by offsets; received "
                f"{len(emissions)}."
            )
    if emissions.shape[-1] == 0:
        raise ValueError("emissions have no labels: their last dimension is 0.")
    return emissions, layout


def _shared_scores(
    given: ChainScores, n: int, k: int, ends: bool, device: torch.device
) -> tuple[tuple[Tensor, ...], tuple[tuple[int, int, bool], ...], np.ndarray]:
    """Transitions, start and end, their columns, and one row of all for every sequence or each."""
    parts, columns, begin = [], [], 0
    for name, part in zip(_SHARED if ends else _SHARED[:1], given[1:]):
        shape = (k, k) if begin == 0 else (k,)
        end = begin + k ** len(shape)
        if part is not None:
            check_shape(name, part, shape, (n, *shape))
            check_scores(name, part, part.ndim)
            check_device(name, part, device)
            parts.append(part)
            columns.append((begin, end, part.ndim > len(shape)))
        begin = end
    weights = np.zeros((n if any(own for _, _, own in columns) else 1, begin))
    for part, (begin, end, _) in zip(parts, columns):
        weights[:, begin:end] = as_rows(part, end - begin)
    if not all_finite(weights):
        names = [name for name, part in zip(_SHARED, given[1:]) if part is not None]
        raise ValueError(
            f"{' or '.join(names)} contain NaN or infinity. Forbid transitions by constraints "
            "instead of infinite scores."
        )
    return tuple(parts), tuple(columns), weights


def _ones(layout: Layout) -> np.ndarray:
    return np.ones(layout.size)


def _shares(layout: Layout) -> np.ndarray:
    return np.repeat(1.0 / layout.lengths, layout.lengths)


def _no_offsets(layout: Layout) -> np.ndarray:
    return np.zeros(layout.n + 1, np.int64)


def _pack(
    truth: np.ndarray, layout: Layout, limits: Limits, scale: str, ends: bool,
    allowed: np.ndarray | None,
) -> PackedChain:  # fmt: skip
    k = len(limits.masks.first)
    scales = layout.once(_ones if scale == "sum" else _shares)
    masked = limits.forbid_anything or allowed is not None
    return PackedChain(
        truth, layout.indptr, layout.longest, k, limits.loss, scales, ends, masked,
        *limits.scores, np.empty((0, k), bool) if allowed is None else allowed, _NO_PRODUCTS,
        layout.once(_no_offsets),
    )  # fmt: skip


def _check_allowed(truth: np.ndarray, layout: Layout, limits: Limits) -> None:
    """Refuse targets that the constraints forbid."""
    if not limits.forbid_anything:
        return
    masks = limits.masks
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
