"""Classes, ordered classes and sets of labels: outputs without ragged parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .._validation import is_text
from ..structures.multiclass import Multiclass as PackedClasses
from ..structures.multilabel import HIDDEN
from ..structures.multilabel import Multilabel as PackedLabels
from ._batch import Batch
from ._forms import (
    Layout,
    as_rows,
    check_finite,
    check_scores,
    check_shape,
    full_layout,
    read_labels,
)
from ._structure import Structure, label_loss, native

_HALF = float(np.sqrt(0.5))


def _refuse_ragged(name: str, mask: Any, offsets: Any) -> None:
    if mask is not None or offsets is not None:
        raise ValueError(f"{name} scores have one row per example; mask and offsets do not apply.")


def _table(scores: Any) -> tuple[np.ndarray, Layout]:
    """Scores of examples that all have the same parts: one row per example."""
    check_scores("scores", scores, 2)
    if min(scores.shape) == 0:
        raise ValueError(f"scores are empty: they have shape {tuple(scores.shape)}.")
    layout = full_layout(len(scores), 1)
    values = as_rows(scores, int(scores.shape[1]))
    check_finite(values, layout.places, layout.lengths)
    return values, layout


class Multiclass(Structure):
    """One of K classes: scores of shape (n, K), targets of shape (n,).

    Parameters
    ----------
    loss : {"0-1", "absolute"} or matrix of shape (K, K), default="0-1"
        Loss of predicting the row when the column is true; for max-margin and max-min.
    """

    name = "multiclass"

    def __init__(self, loss: Any = "0-1"):
        self.loss = loss

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        _refuse_ragged(self.name, mask, offsets)
        values, layout = _table(scores)
        n, k = values.shape
        truth = np.zeros(n, np.int32)
        if targets is not None:
            given = check_shape("targets", targets, (n,))[:, None]
            truth = read_labels("targets", given, layout, scores.device, 0, k)
        packed = PackedClasses(truth, k, label_loss(self.loss, k))
        return Batch(packed, scores, values, layout, layout.lengths, 10.0 * n * k)

    # Sums over classes are computed and differentiated by torch.

    def crf(self, batch, factors):
        """Cross entropy."""
        truth = torch.from_numpy(batch.structure.truth.astype(np.int64)).to(batch.device)
        each = nn.functional.cross_entropy(batch.scores, truth, reduction="none")
        return native(each, factors)

    def log_partition(self, batch):
        """Log of the sum of exponentials."""
        return batch.scores.logsumexp(1)

    def marginals(self, batch):
        """Softmax."""
        return batch.scores.softmax(1), batch.scores.new_zeros((batch.n, 0))

    def entropy(self, batch):
        """Entropy of the softmax."""
        logs = batch.scores.log_softmax(1)
        return -(logs.exp() * logs).sum(1)

    def draw(self, batch, generator):
        """Draw one class per example."""
        likely = batch.scores.detach().softmax(1)
        return torch.multinomial(likely, 1, generator=generator)[:, 0]

    def topk(self, batch, k):
        """The best classes of each example."""
        values, labels = batch.scores.detach().topk(min(k, batch.scores.shape[1]))
        missing = k - values.shape[1]
        values = nn.functional.pad(values, (0, missing), value=-np.inf)
        labels = nn.functional.pad(labels, (0, missing), value=-1)
        return list(labels.T.contiguous()), values

    def refuse_regularizer(self, regularizer):
        """Refuse max-min for a loss matrix."""
        if regularizer == "max-min" and not is_text(self.loss):
            raise ValueError(
                "regularizer='max-min' has formulas for the 0-1 and the absolute loss of classes; "
                "use MaxMinLoss for other losses."
            )

    def form(self, batch, labels):
        """One class per example."""
        return torch.from_numpy(labels.astype(np.int64)).to(batch.device)


class Ordinal(Multiclass):
    """One of K ordered classes: as :class:`Multiclass`, with the absolute loss."""

    name = "ordinal"

    def __init__(self, loss: Any = "absolute"):
        super().__init__(loss)


class Multilabel(Structure):
    """Any subset of L labels: scores of shape (n, L), that of presence less that of absence.

    Targets have shape (n, L): 1 present, 0 absent, -1 not known, which costs nothing.

    Parameters
    ----------
    costs : array of shape (2, L), optional
        Cost of an error on each label: where it is absent (first row) or present (second row).
        Default: 1/L each.
    """

    name = "multilabel"

    def __init__(self, costs: Any = None):
        self.costs = costs

    def _costs(self, n_labels: int) -> np.ndarray:
        if self.costs is None:
            return np.full((2, n_labels), 1.0 / n_labels)
        costs = np.array(self.costs, np.float64)
        if costs.shape != (2, n_labels) or not (np.isfinite(costs) & (costs > 0)).all():
            raise ValueError(
                f"costs must be positive numbers of shape (2, {n_labels}); received shape "
                f"{costs.shape}."
            )
        return costs

    def batch(self, scores, targets, mask, offsets):
        """Read a batch."""
        _refuse_ragged(self.name, mask, offsets)
        values, layout = _table(scores)
        n, k = values.shape
        truth = np.zeros(n * k, np.int32)
        if targets is not None:
            truth = read_labels("targets", targets, full_layout(n, k), scores.device, -1, 2)
            truth[truth < 0] = HIDDEN
        packed = PackedLabels(truth, k, self._costs(k))
        # The compiled structure has opposite scores of presence and absence, of unit norm.
        return Batch(
            packed, scores, values * _HALF, layout, layout.lengths, 10.0 * n * k, factor=_HALF
        )

    # Labels are independent given the scores, so that torch can compute the sums.

    def crf(self, batch, factors):
        """Sum of the binary cross entropies of the labels that are known."""
        truth = torch.from_numpy(batch.structure.truth).reshape(batch.scores.shape).to(batch.device)
        known = truth != HIDDEN
        target = (truth == 1).to(batch.scores.dtype)
        each = nn.functional.binary_cross_entropy_with_logits(
            batch.scores, target, reduction="none"
        )
        return native((each * known).sum(1), factors)

    def log_partition(self, batch):
        """Sum over labels; absence has score 0."""
        return nn.functional.softplus(batch.scores).sum(1)

    def marginals(self, batch):
        """Probabilities of presence."""
        return batch.scores.sigmoid(), batch.scores.new_zeros((batch.n, 0))

    def entropy(self, batch):
        """Sum of the entropies of the labels."""
        logits = batch.scores
        return (nn.functional.softplus(logits) - logits * logits.sigmoid()).sum(1)

    def draw(self, batch, generator):
        """0 or 1 for each label."""
        likely = batch.scores.detach().sigmoid()
        return torch.bernoulli(likely, generator=generator).long()

    def topk(self, batch, k):
        """The best label sets: those with the smallest sums of scores of changed labels."""
        scores = batch.scores.detach()
        n, n_labels = scores.shape
        lost, changed = scores.new_zeros((n, 1)), torch.zeros((n, 1, 0), dtype=torch.bool)
        changed = changed.to(scores.device)
        for label in range(n_labels):  # the best sets of the labels so far, with and without it
            both = torch.cat([lost, lost + scores[:, label : label + 1].abs()], 1)
            lost, places = both.topk(min(k, both.shape[1]), largest=False)
            old, is_new = places % changed.shape[1], places >= changed.shape[1]
            kept = changed.gather(1, old[:, :, None].expand(-1, -1, label))
            changed = torch.cat([kept, is_new[:, :, None]], 2)
        missing = k - lost.shape[1]
        labels = ((scores > 0)[:, None] ^ changed).long()
        labels = nn.functional.pad(labels, (0, 0, 0, missing), value=-1)
        values = scores.clamp(min=0.0).sum(1, keepdim=True) - lost
        values = nn.functional.pad(values, (0, missing), value=-np.inf)
        return list(labels.transpose(0, 1).contiguous()), values

    def refuse_regularizer(self, regularizer):
        """Refuse none: there is a formula for each."""

    def form(self, batch, labels):
        """0 or 1 for each label."""
        return (
            torch.from_numpy(labels.astype(np.int64)).reshape(batch.scores.shape).to(batch.device)
        )
