"""Conditional random field: ``H_i(mu)`` is the entropy of mu.

Then ``max_mu { H(mu) + v @ mu }`` is the log partition function, the surrogate is the negative log
likelihood of the truth, and the best response is given by the marginals of the current model. The
task loss is not used. Block-coordinate ascent with this surrogate is stochastic dual coordinate
ascent (SDCA): towards the marginals, with a step length from a one-dimensional Newton search.

:class:`BoundedCrf` is the same surrogate for structures whose entropy would need many more numbers
than their marginals. Its blocks store a number h with ``h <= H(mu)``: the dual value with h in
place of H is at most that of a feasible point, so the certificate holds. A step towards the
marginals ``mu_bar`` of the current model preserves this, because entropy is concave; it is even
strongly concave in the distance of distributions (Pinsker's inequality), so

    H((1-g) mu + g mu_bar) >= (1-g) h + g H(mu_bar) + g (1-g)/2 |mu - mu_bar|^2.

The right-hand side becomes the new h, and the best g has a closed form. The error of h shrinks by
1 - g with every step, and g approaches 1 as mu_bar converges: h is exact in the limit.

References
----------
Shalev-Shwartz, Zhang. Stochastic dual coordinate ascent methods for regularized loss minimization.
JMLR 2013.
Le Priol, Piche, Lacoste-Julien. Adaptive stochastic dual coordinate ascent for conditional random
fields. UAI 2018.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .cost import Cost

# Newton's method doubles the number of correct digits with every step: after a step as small as
# this, relative to the distance to both ends, six digits are correct.
_CLOSE = 1e-3
_SMALLEST = 1e-12
_MOST_STEPS = 50


class Crf(NamedTuple):
    """``S_i(v) = log sum_y exp(v @ phi(y)) - v @ phi(y_i)``."""

    slope: float = 1.0

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost("crf", smooth=True, probabilities=True, likelihood=True, fills_blocks=True)

    @property
    def bounded(self) -> BoundedCrf:
        """The same for blocks that store a bound on their entropy."""
        return BoundedCrf()


class BoundedCrf(NamedTuple):
    """The same for structures whose blocks store a lower bound on their entropy."""

    slope: float = 1.0

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost("crf", smooth=True, probabilities=True, likelihood=True, fills_blocks=True)


@implements(generic.best_response, (Crf, BoundedCrf))
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    value = generic.gibbs(structure, i, scores, work, mu)
    return value, value


@implements(generic.concave_part, Crf)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.entropy(structure, i, mu, work)


@implements(generic.concave_part, BoundedCrf)
def _bounded_concave_part(surrogate, structure, i, mu, work):
    return generic.entropy_bound(structure, i, mu)


@implements(generic.line_step, BoundedCrf)
def _bounded_line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # The maximum of ``g gap + g (1-g)/2 distance^2 - g^2/2 curvature``.
    distance = generic.distance_bound(structure, i, direction)
    square = distance * distance
    gain, bend = gap + 0.5 * square, curvature + square
    gamma = 1.0 if gain >= bend else gain / bend
    generic.raise_bound(structure, i, direction, 0.5 * (1.0 - gamma) * square)
    return gamma


@implements(generic.line_step, Crf)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # The derivative is infinite at 0 where mu has zeros, and -curvature at 1, where the marginals
    # are the best response: the root is bracketed from the start. The first guess is exact for
    # small steps, where the gap is half the slope.
    if curvature <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    gamma = 2.0 * gap / (2.0 * gap + curvature)
    for _ in range(_MOST_STEPS):
        first, second = generic.entropy_slope(structure, i, mu, direction, gamma, work)
        first += slope - gamma * curvature
        second -= curvature
        if first > 0.0:
            low = gamma
        else:
            high = gamma
        step = -first / second if second < 0.0 else -gamma
        if abs(step) <= max(_CLOSE * min(gamma, 1.0 - gamma), _SMALLEST):
            return min(gamma + step, 1.0)
        gamma += step
        if not low < gamma < high:
            # Near an infinite slope only the order of magnitude matters.
            gamma = 0.5 * (low + high) if low > 0.0 else 0.1 * high
    return gamma


@implements(generic.block_maximum, (Crf, BoundedCrf))
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    # No exact step: for one label there is one (a Newton iteration over the simplex), but it needed
    # as many passes as the line search and more time.
    return -np.inf
