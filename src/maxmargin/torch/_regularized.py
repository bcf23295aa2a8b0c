"""Marginals mu that maximise ``v @ mu - Omega(mu)``, and their derivatives.

Classes and label sets have formulas, which torch differentiates. The smooth max-min margin of a
chain is a game (:mod:`maxmargin.structures.chain_smooth`): mu has the Gibbs distribution of the
scores ``(v + losses of nu) / s``, nu being the best predictions. With C the covariance of the parts
under it, and P the projection onto changes of nu where it is positive, the derivative of mu is
``(C - C P (P C P)^+ P C) / s``: predictions follow such that the most probable labels of a position
stay equally probable. Conjugate gradients solve this for all sequences of a batch at once.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..features.scores import ScoreRows
from ..structures.chain import Chain
from ..structures.chain_smooth import tilted_scores
from ..structures.losses import AbsoluteLoss
from ..structures.multiclass import Multiclass
from ..structures.multilabel import Multilabel
from ..surrogates.smooth_max_min import absolute_response
from ._batch import NO_PLACES, Batch
from ._forms import Layout
from ._threads import over_examples

# Share of a loss above which a label counts as predicted by nu.
_PREDICTED = 1e-9
# Residual of the linear systems, relative to the right-hand side, and the most iterations.
_RESIDUAL, _MOST = 1e-10, 2000
# A residual that is rounding, relative to the direction.
_ROUNDING = 1e-14


def threshold(values: Tensor) -> Tensor:
    """The t of each row with ``sum_j (values_j - t)_+ = 1``."""
    ordered = values.sort(1, descending=True).values
    sums = ordered.cumsum(1) - 1.0
    counts = torch.arange(1, values.shape[1] + 1, device=values.device)
    kept = (ordered * counts > sums).sum(1, keepdim=True)
    return sums.gather(1, kept - 1) / kept


def sparsemax(scores: Tensor, strength: float) -> Tensor:
    """The projection of the scores over s onto the simplex."""
    shares = scores / strength
    return (shares - threshold(shares)).clamp(min=0.0)


def smooth_classes(scores: Tensor, strength: float) -> Tensor:
    """Smooth max-min with the 0-1 loss."""
    return (torch.minimum(scores, threshold(scores)) / strength).softmax(1)


def smooth_ordinal(scores: Tensor, strength: float) -> Tensor:
    """Smooth max-min with the absolute loss: nu is at the median of mu, or between two."""
    given = scores.detach().cpu().double().numpy()
    nu = torch.from_numpy(absolute_response(given, strength).predictions).to(scores.device)
    places = torch.arange(scores.shape[1], device=scores.device)
    last = ((nu > 0) * places).amax(1, keepdim=True)
    between = (last > 0) & (nu.gather(1, (last - 1).clamp(min=0)) > 0)
    away = (places - last).abs()
    tilted = (scores + away) / strength
    below, above = (
        tilted.masked_fill(half, -torch.inf).logsumexp(1, keepdim=True)
        for half in (places >= last.clamp(min=1), places < last)
    )
    share = torch.where(between, 0.5 * strength * (below - above), 0.0)
    return (tilted + share * ((places - last + 1).abs() - away) / strength).softmax(1)


def smooth_labels(scores: Tensor, costs: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Smooth max-min of labels: values, and probabilities of presence.

    The predicted share of presence makes both states cost the same.
    """
    absent, present = costs
    share = (scores + present - strength * (absent / present).log()) / (absent + present)
    share = share.clamp(0.0, 1.0)
    gone, there = share * absent / strength, (scores + (1.0 - share) * present) / strength
    return strength * torch.logaddexp(gone, there), (there - gone).sigmoid()


@singledispatch
def regularized(packed: Any, batch: Batch, regularizer: str, strength: float) -> Any:
    """Marginals of the rows and of the shared scores, for "quadratic" and "max-min"."""
    raise NotImplementedError(type(packed).__name__)


@regularized.register
def _(packed: Multiclass, batch: Batch, regularizer: str, strength: float) -> Any:
    if regularizer == "quadratic":
        mu = sparsemax(batch.scores, strength)
    elif isinstance(packed.loss, AbsoluteLoss):
        mu = smooth_ordinal(batch.scores, strength)
    else:
        mu = smooth_classes(batch.scores, strength)
    return mu, mu.new_zeros((batch.n, 0))


@regularized.register
def _(packed: Multilabel, batch: Batch, regularizer: str, strength: float) -> Any:
    if regularizer == "quadratic":
        mu = (batch.scores / strength).clamp(0.0, 1.0)
    else:
        costs = torch.from_numpy(packed.costs).to(batch.scores)
        mu = smooth_labels(batch.scores, costs, strength)[1]
    return mu, mu.new_zeros((batch.n, 0))


@regularized.register
def _(packed: Chain, batch: Batch, regularizer: str, strength: float) -> Any:
    return SmoothChains.apply(batch, strength, batch.scores, *batch.shared)


class SmoothChains(torch.autograd.Function):
    """Marginals of smooth max-min: of the rows, and of the shared scores of each sequence."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, strength: float, scores: Tensor, *shared: Tensor):
        """Find nu, and sum over all labellings."""
        ctx.game = _Game(batch, strength)
        ctx.save_for_backward(scores, *shared)
        return ctx.game.padded(ctx.game.mu), ctx.game.weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along: Tensor, along_weights: Tensor):  # type: ignore[override]
        """The derivative, which is symmetric."""
        game, _ = ctx.game, ctx.saved_tensors
        batch = game.batch
        rows, weights = game.changes(along.double().numpy(), along_weights.contiguous().numpy())
        return None, None, batch.to_scores(None, game.padded(rows)), *batch.to_shared(None, weights)


class _Game:
    """A batch of chains, and the same with the losses of nu in its scores: flat, and over s."""

    def __init__(self, batch: Batch, strength: float):
        packed, layout = batch.structure, batch.layout
        rows = ScoreRows(batch.values, batch.places)
        tilted = np.empty((layout.size, packed.n_labels))

        def work(first: int, last: int) -> None:
            tilted_scores(packed, rows, batch.weights, strength, first, last, tilted)

        over_examples(work, batch.n, 10.0 * batch.operations)
        costs = (packed.loss.costs[0] / strength * packed.loss_scale)[:, None]
        lost = self._flat_rows(batch, batch.values) / strength + costs - tilted
        self.batch, self.strength = batch, strength
        self.flat = batch._replace(
            values=tilted, layout=Layout("flat", layout.lengths), rows=layout.lengths,
            places=NO_PLACES, weights=batch.weights / strength,
        )  # fmt: skip
        _, _, rows_of_mu, self.weights = self.flat.gibbs()
        self.mu = rows_of_mu.numpy()
        self.predicted = (lost > _PREDICTED * costs) & (self.mu > 0.0)  # 0: forbidden

    @staticmethod
    def _flat_rows(batch: Batch, rows: np.ndarray) -> np.ndarray:
        return rows[batch.places] if len(batch.places) else rows

    def padded(self, rows: np.ndarray) -> Tensor:
        """Rows in the form and precision of the scores; padding is 0."""
        values = self.batch.values
        if not len(self.batch.places):
            return torch.from_numpy(rows.astype(values.dtype))
        found = np.zeros(values.shape, values.dtype)
        found[self.batch.places] = rows
        return torch.from_numpy(found)

    def _project(self, rows: np.ndarray) -> np.ndarray:
        """Onto changes of nu: those of the predicted labels of a position sum to 0."""
        kept = np.where(self.predicted, rows, 0.0)
        counts = np.maximum(self.predicted.sum(1), 1)
        return np.where(self.predicted, kept - (kept.sum(1) / counts)[:, None], 0.0)

    def _squares(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Inner products of each sequence."""
        return np.add.reduceat((left * right).sum(1), self.batch.layout.indptr[:-1])

    def changes(self, along: np.ndarray, along_weights: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """Derivatives of the marginals along a direction, by conjugate gradients."""
        lengths = self.batch.layout.lengths
        given = np.ascontiguousarray(self._flat_rows(self.batch, along))
        change, change_weights = self.flat.changes(given, along_weights)
        rows, weights = change.numpy(), change_weights.numpy()
        left = self._project(rows)
        step, size = left.copy(), self._squares(left, left)
        given_size = self._squares(given, given) + np.square(along_weights).sum(1)
        enough = _RESIDUAL**2 * size + _ROUNDING**2 * given_size
        nothing = np.zeros_like(along_weights)
        for _ in range(_MOST):
            active = size > enough
            if not active.any():
                return rows / self.strength, torch.from_numpy(weights / self.strength)
            moved, moved_weights = (each.numpy() for each in self.flat.changes(step, nothing))
            shown = self._project(moved)
            bend = self._squares(step, shown)
            length = np.divide(size, bend, out=np.zeros_like(size), where=active & (bend > 0))
            at = np.repeat(length, lengths)[:, None]
            rows, weights = rows - at * moved, weights - length[:, None] * moved_weights
            left = left - at * shown
            now = self._squares(left, left)
            turn = np.divide(now, size, out=np.zeros_like(size), where=active & (size > 0))
            step, size = left + np.repeat(turn, lengths)[:, None] * step, now
        bad = int(np.flatnonzero(size > enough)[0])
        raise FloatingPointError(
            f"The derivatives of the smooth max-min marginals of example {bad} have too few "
            "digits: its scores are too far apart for this strength. Use a larger strength."
        )
