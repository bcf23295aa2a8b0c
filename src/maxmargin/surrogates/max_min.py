"""Max-min margin (M4N): ``H_i(mu) = min_nu nu' A mu``, the smallest expected loss under mu.

Concave and piecewise linear, the same for every example. Consistent for the loss, also where
max-margin is not (no majority class).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.maxima import largest
from .._kernels.simplex import project
from .._kernels.vector import copy, dot
from .cost import Cost


class MaxMin(NamedTuple):
    """``S_i(v) = max_mu [ min_nu nu' A mu + v @ mu ] - v @ phi(y_i)``."""

    slope: float = 1.0

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost("max-min")


@implements(generic.best_response, MaxMin)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    return generic.max_min(structure, i, scores, work, mu)


@implements(generic.concave_part, MaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.loss_floor(structure, i, mu, work)


@implements(generic.line_step, MaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    return generic.loss_floor_step(structure, i, mu, direction, slope, curvature, work)


@implements(generic.block_maximum, MaxMin)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    upper, _ = generic.max_min(structure, i, scores, work, out)
    gap = upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, work)
    if gap <= 0.0 or generic.max_min_prox(structure, rows, i, scores, mu, scale, work, out):
        return gap
    return -np.inf


@implements(generic.position_response, MaxMin)
def _position_response(surrogate, structure, i, t, centre, mu, step, work, out):
    n = mu.shape[0]
    values = work[:n]
    copy(values, centre)
    generic.descend_losses(structure.loss, mu, step, work[n:], values)
    generic.forbid_labels(structure, i, t, values)
    top = largest(values)
    for k in range(n):  # a shift does not change the projection, and keeps small steps exact
        values[k] -= top
    project(values, work[n:], 1.0, out)


@implements(generic.add_position_loss, MaxMin)
def _add_position_loss(surrogate, structure, i, t, nu, out):
    position = generic.label_range(structure, i)[0] + t
    generic.add_mixed_losses(structure.loss, nu, structure.loss_scale[position], out)
