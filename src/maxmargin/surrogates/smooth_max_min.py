"""Smooth max-min margin: ``H_i(mu) = min_nu nu' A mu + s entropy(mu)``.

The sum of max-min margin's H, the smallest expected loss (the Bayes risk), and s times that of a
CRF. Its conjugate is their infimal convolution (a convolutional Fenchel-Young loss)::

    Omega*(v) = min_nu  s log sum_y exp( (v @ phi(y) + nu' A phi(y)) / s )

which is smooth, so that mu is unique and the gradient is ``mu - phi(y_i)``: the expected surrogate
is smallest where mu has the true probabilities, as with a CRF. It is also consistent with a linear
bound, as max-min: with nu a distribution over predictions and y the most probable of them,

    excess surrogate >= sum_j nu_j (expected loss of j - the smallest) >= nu_y * excess risk of y,

hence ``excess risk <= k * excess surrogate`` for k predictions. Any nu gives an upper bound on the
value, any mu a lower bound. The formulas of classes and label sets are exact; for sequences both
bounds meet after some sweeps (:mod:`maxmargin.structures.chain_smooth`).

:class:`BoundedSmoothMaxMin` is for structures whose blocks store a lower bound on their entropy, as
:class:`~maxmargin.surrogates.crf.BoundedCrf` is.

References
----------
Cao, Bao, Feng, An. Establishing linear surrogate regret bounds for convex smooth losses via
convolutional Fenchel-Young losses. 2025.
Shalev-Shwartz, Zhang. Stochastic dual coordinate ascent methods for regularized loss minimization.
JMLR 2013.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .cost import SMOOTH, STRENGTH, Cost


class SmoothMaxMin(NamedTuple):
    """``S_i(v) = Omega*(v) - v @ phi(y_i)``."""

    strength: float = STRENGTH

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost(SMOOTH, smooth=True, probabilities=True, fills_blocks=True)

    @property
    def bounded(self) -> BoundedSmoothMaxMin:
        """The same for blocks that store a bound on their entropy."""
        return BoundedSmoothMaxMin(self.strength)


class BoundedSmoothMaxMin(NamedTuple):
    """The same for structures whose blocks store a lower bound on their entropy."""

    strength: float = STRENGTH

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return SmoothMaxMin().cost


@implements(generic.best_response, (SmoothMaxMin, BoundedSmoothMaxMin))
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    return generic.smooth_max_min(structure, surrogate.strength, i, scores, work, mu)


@implements(generic.concave_part, SmoothMaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    floor = generic.loss_floor(structure, i, mu, work)
    return floor + surrogate.strength * generic.entropy(structure, i, mu, work)


@implements(generic.concave_part, BoundedSmoothMaxMin)
def _bounded_concave_part(surrogate, structure, i, mu, work):
    floor = generic.loss_floor(structure, i, mu, work)
    return floor + surrogate.strength * generic.entropy_bound(structure, i, mu)


@implements(generic.line_step, BoundedSmoothMaxMin)
def _bounded_line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # The loss floor is concave: above its chord. The entropy as with a CRF.
    distance = generic.distance_bound(structure, i, direction)
    square = surrogate.strength * distance * distance
    gain, bend = gap + 0.5 * square, curvature + square
    gamma = 1.0 if gain >= bend else gain / bend
    generic.raise_bound(structure, i, direction, 0.5 * (1.0 - gamma) * distance * distance)
    return gamma


@implements(generic.line_step, SmoothMaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # H is strongly concave in the distance of distributions (Pinsker's inequality), so the dual
    # rises at least by ``g gap + g (1-g)/2 s distance^2 - g^2/2 curvature``: its maximum.
    distance = 0.0
    for part in range(direction.shape[0]):
        distance += abs(direction[part])
    square = surrogate.strength * generic.strong_concavity(structure) * distance * distance
    gain, bend = gap + 0.5 * square, curvature + square
    return 1.0 if gain >= bend else gain / bend


@implements(generic.block_maximum, (SmoothMaxMin, BoundedSmoothMaxMin))
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    return -np.inf


class Response(NamedTuple):
    """Probabilities and predictions for scores, one example per row.

    Attributes
    ----------
    logits : array of shape (n, k)
        Their softmax is mu, the probabilities.
    predictions : array of shape (n, k)
        nu, the mixture of best predictions against mu.
    """

    logits: np.ndarray
    predictions: np.ndarray


def zero_one_response(scores: np.ndarray, strength: float = STRENGTH) -> Response:
    """With the 0-1 loss: ``nu = (v - t)_+`` and ``mu`` in proportion to ``exp(min(v, t) / s)``."""
    ordered = -np.sort(-scores, axis=1)
    sums = ordered.cumsum(axis=1) - 1.0
    counts = np.arange(1, scores.shape[1] + 1)
    kept = (ordered * counts > sums).sum(axis=1, keepdims=True)
    t = np.take_along_axis(sums, kept - 1, axis=1) / kept
    return Response(np.minimum(scores, t) / strength, np.maximum(scores - t, 0.0))


def absolute_response(scores: np.ndarray, strength: float = STRENGTH) -> Response:
    """With the absolute loss: nu is at the median of mu, or between two medians."""
    n, k = scores.shape
    places = np.arange(k)
    logits, predictions = np.empty((n, k)), np.zeros((n, k))
    left = np.arange(n)
    for m in range(k):  # the first m with less than half below it, and not less up to it
        tilted = (scores[left] + np.abs(places - m)) / strength
        mu = softmax(tilted, axis=1)
        below, above = mu[:, :m].sum(axis=1), mu[:, m:].sum(axis=1)
        between = below > above
        ends = between | (below + mu[:, m] >= above - mu[:, m])
        # Between m - 1 and m: the share of m - 1 at which both halves have the same mass.
        share = np.zeros(len(left))
        if m:
            lower, upper = (logsumexp(part, axis=1) for part in np.split(tilted[between], [m], 1))
            share[between] = 0.5 * strength * (lower - upper)
        away = np.abs(places - m) + share[:, None] * (np.abs(places - m + 1) - np.abs(places - m))
        found = left[ends]
        logits[found] = (scores[found] + away[ends]) / strength
        predictions[found, m] = 1.0 - share[ends]
        if m:
            predictions[found, m - 1] = share[ends]
        left = left[~ends]
    return Response(logits, predictions)


def label_logits(scores: np.ndarray, cost: float, strength: float) -> np.ndarray:
    """Log odds of presence, where an error on a label costs ``cost``, present or absent."""
    share = np.clip((scores + cost) / (2.0 * cost), 0.0, 1.0)
    return (scores + (1.0 - 2.0 * share) * cost) / strength
