"""The max-min loss floor of chains: ``H(mu) = sum_t loss_scale_t min_j (L mu_t)_j``.

The loss depends on labels, not on transitions, so the smallest expected loss of a prediction is
found position by position. Position t may predict any label that is allowed *there*; constraints
on transitions are ignored. Without such constraints this is the minimum over all outputs; with them
it can be lower, and the surrogate is that of a predictor that may violate them.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.protocol import expected_losses, lowest_loss
from .chain import Chain


@implements(generic.forbid_labels, Chain)
def _forbid_labels(structure, i, t, values):
    if not structure.masked:
        return
    first, last = structure.indptr[i], structure.indptr[i + 1]
    for k in range(structure.n_labels):
        if (
            (structure.allowed.shape[0] > 0 and not structure.allowed[first + t, k])
            or (t == 0 and structure.first_mask[k] == -np.inf)
            or (t == last - first - 1 and structure.last_mask[k] == -np.inf)
        ):
            values[k] = -np.inf


@leaf
def _position_losses(structure, i, t, mu, out):
    """Expected loss of each label at a position; infinite for those not allowed there."""
    n = structure.n_labels
    expected_losses(structure.loss, mu, out)
    if structure.masked:
        for k in range(n):
            out[k] = -out[k]
        generic.forbid_labels(structure, i, t, out)
        for k in range(n):
            out[k] = -out[k]


@implements(generic.loss_floor, Chain)
def _loss_floor(structure, i, mu, work):
    n = structure.n_labels
    first, last = structure.indptr[i], structure.indptr[i + 1]
    losses = work[:n]
    total = 0.0
    for t in range(last - first):
        at = mu[t * n : (t + 1) * n]
        if structure.masked:
            _position_losses(structure, i, t, at, losses)
            lowest = losses[0]
            for k in range(1, n):
                lowest = min(lowest, losses[k])
        else:
            lowest = lowest_loss(structure.loss, at, work)
        total += structure.loss_scale[first + t] * lowest
    return total


@leaf
def _next_break(start, change, here, g):
    """The next breakpoint of the lower envelope after line ``here``, and the line after it."""
    nearest = np.inf
    after = here
    for k in range(start.shape[0]):
        fall = change[here] - change[k]
        if fall > 0.0 and start[k] < np.inf:
            meet = (start[k] - start[here]) / fall
            meet = g if meet < g else meet
            if meet < nearest or (meet == nearest and change[k] < change[after]):
                nearest = meet
                after = k
    return nearest, after


@implements(generic.loss_floor_step, Chain)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    # The derivative of the sum of lower envelopes decreases: go from breakpoint to breakpoint until
    # it changes its sign.
    n = structure.n_labels
    first, last = structure.indptr[i], structure.indptr[i + 1]
    length = last - first
    start = work[: length * n].reshape(length, n)
    change = work[length * n : 2 * length * n].reshape(length, n)
    rest = work[2 * length * n :]
    here, breaks, after = rest[:length], rest[length : 2 * length], rest[2 * length : 3 * length]
    ascent = slope
    for t in range(length):
        _position_losses(structure, i, t, mu[t * n : (t + 1) * n], start[t])
        expected_losses(structure.loss, direction[t * n : (t + 1) * n], change[t])
        lowest = 0
        for k in range(1, n):
            if start[t, k] < start[t, lowest] or (
                start[t, k] == start[t, lowest] and change[t, k] < change[t, lowest]
            ):
                lowest = k
        here[t] = lowest
        breaks[t], after[t] = _next_break(start[t], change[t], lowest, 0.0)
        ascent += structure.loss_scale[first + t] * change[t, lowest]
    g = 0.0
    for _ in range(length * n):  # every line of every position is active at most once
        soonest = 0
        for t in range(1, length):
            if breaks[t] < breaks[soonest]:
                soonest = t
        if curvature > 0.0:
            best = ascent / curvature
        else:
            best = np.inf if ascent > 0.0 else -np.inf
        if best <= g:
            return g
        if best <= breaks[soonest] or breaks[soonest] >= 1.0:
            return min(best, 1.0)
        g = breaks[soonest]
        old, new = int(here[soonest]), int(after[soonest])
        fall = change[soonest, old] - change[soonest, new]
        ascent -= structure.loss_scale[first + soonest] * fall
        here[soonest] = new
        breaks[soonest], after[soonest] = _next_break(start[soonest], change[soonest], new, g)
    return min(g, 1.0)
