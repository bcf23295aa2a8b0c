"""Block-coordinate ascent over a working set of structures.

Example i has a completed truth with features ``phi_i`` and stored structures k with features
``psi_ik``, a loss and a factor. The convex problem over the stored structures, and its dual::

    min_w  alpha/2 |w|^2 + 1/W sum_i s_i max(0, max_k [ loss_ik - factor_ik w @ (phi_i - psi_ik) ])
    max_a  1/W sum_i s_i sum_k a_ik loss_ik - alpha/2 |w(a)|^2,   a_i >= 0, sum_k a_ik <= 1
           w(a) = sum_i scales_i sum_k a_ik factor_ik (phi_i - psi_ik),   scales_i = s_i / (alpha W)

``factor = loss`` is slack re-scaling, ``factor = 1`` margin re-scaling. A step moves mass from the
worst structure with positive mass to the best one; the zero of the maximum counts as a structure.
The set of feasible points does not depend on the truths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import compiled, leaf


class Rows(NamedTuple):
    """Features, sparse: row i has ``counts[i]`` entries; values beyond are 0."""

    indices: np.ndarray  # (n, width) int32
    values: np.ndarray
    counts: np.ndarray  # (n,) int32

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Inner products with the weights."""
        return (self.values * weights[self.indices]).sum(axis=1)


class WorkingSet(NamedTuple):
    """Stored structures and their mass: a point of the dual.

    At most ``capacity`` structures per example, whose rows have at most ``width`` entries.
    """

    indices: np.ndarray  # (n, capacity, width) int32
    values: np.ndarray
    counts: np.ndarray  # (n, capacity) int32
    losses: np.ndarray
    factors: np.ndarray
    mass: np.ndarray
    used: np.ndarray  # (n,) int32: number of stored structures


def empty_working_set(n: int, capacity: int, width: int) -> WorkingSet:
    """A working set without structures: w = 0."""
    shape = (n, capacity)
    return WorkingSet(
        np.zeros((*shape, width), np.int32), np.zeros((*shape, width)), np.zeros(shape, np.int32),
        np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(n, np.int32),
    )  # fmt: skip


@leaf
def _product(weights, indices, values, count):
    total = 0.0
    for p in range(count):
        total += values[p] * weights[indices[p]]
    return total


@leaf
def _add(weights, indices, values, count, scale):
    for p in range(count):
        weights[indices[p]] += scale * values[p]


@leaf
def _add_structure(store, truths, weights, i, k, scale):
    """``weights += scale * factor_ik (phi_i - psi_ik)``."""
    step = scale * store.factors[i, k]
    _add(weights, truths.indices[i], truths.values[i], truths.counts[i], step)
    _add(weights, store.indices[i, k], store.values[i, k], store.counts[i, k], -step)


@leaf
def _drain(indices, count, scratch):
    """Sum of the squares of ``scratch`` at some entries, which are set to zero."""
    total = 0.0
    for p in range(count):
        j = indices[p]
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total


@leaf
def _direction(store, truths, scratch, i, best, away):
    """Squared norm of the step from ``away`` to ``best`` (-1: zero); ``scratch`` stays zero."""
    if best >= 0:
        _add_structure(store, truths, scratch, i, best, 1.0)
    if away >= 0:
        _add_structure(store, truths, scratch, i, away, -1.0)
    total = _drain(truths.indices[i], truths.counts[i], scratch)
    if best >= 0:
        total += _drain(store.indices[i, best], store.counts[i, best], scratch)
    if away >= 0:
        total += _drain(store.indices[i, away], store.counts[i, away], scratch)
    return total


@leaf
def _slacks(store, truths, weights, i, out):
    """Write ``loss - factor w @ (phi - psi)`` of the stored structures."""
    truth = _product(weights, truths.indices[i], truths.values[i], truths.counts[i])
    for k in range(store.used[i]):
        score = _product(weights, store.indices[i, k], store.values[i, k], store.counts[i, k])
        out[k] = store.losses[i, k] - store.factors[i, k] * (truth - score)


@leaf
def _choose(store, i, values):
    """Best structure, worst structure with positive mass (-1: the zero), and the gain of a move."""
    best, away, top, low, rest = -1, -1, 0.0, np.inf, 1.0
    for k in range(store.used[i]):
        rest -= store.mass[i, k]
        if values[k] > top:
            best, top = k, values[k]
        if store.mass[i, k] > 0.0 and values[k] < low:
            away, low = k, values[k]
    if rest > 1e-14 and low > 0.0:
        away, low = -1, 0.0
    return best, away, top - low, max(rest, 0.0)


@compiled
def ascend(store, truths, weights, scales, orders, most_steps, goal, scratch, values):
    """Passes over examples, one per row of ``orders``, until ``sum_i scales_i gap_i`` is at most
    ``goal``, with the gaps at the visits of a pass."""
    for order in orders:
        if _visit_all(store, truths, weights, scales, order, most_steps, scratch, values) <= goal:
            break


@leaf
def _visit_all(store, truths, weights, scales, order, most_steps, scratch, values):
    """Visit examples once; returns the sum of their gaps at the visits, times their scales."""
    gaps = 0.0
    for i in order:
        for step in range(most_steps):
            _slacks(store, truths, weights, i, values)
            best, away, gain, rest = _choose(store, i, values)
            if step == 0:
                gap = max(0.0, values[best] if best >= 0 else 0.0)
                for k in range(store.used[i]):
                    gap -= store.mass[i, k] * values[k]
                gaps += scales[i] * gap
            if best == away or gain <= 1e-13:
                break
            curvature = scales[i] * _direction(store, truths, scratch, i, best, away)
            limit = store.mass[i, away] if away >= 0 else rest
            move = min(limit, gain / curvature) if curvature > 0.0 else limit
            if move <= 0.0:
                break
            if best >= 0:
                store.mass[i, best] += move
                _add_structure(store, truths, weights, i, best, scales[i] * move)
            if away >= 0:
                store.mass[i, away] = 0.0 if move == limit else store.mass[i, away] - move
                _add_structure(store, truths, weights, i, away, -scales[i] * move)
    return gaps


@compiled
def add_working_set(store, truths, scales, weights):
    """Add the weights of the dual point to zeros."""
    for i in range(scales.shape[0]):
        for k in range(store.used[i]):
            if store.mass[i, k] > 0.0:
                _add_structure(store, truths, weights, i, k, scales[i] * store.mass[i, k])


@leaf
def _same(store, i, k, indices, values, count, loss):
    if store.counts[i, k] != count or store.losses[i, k] != loss:
        return False
    for p in range(count):
        if store.indices[i, k, p] != indices[p] or store.values[i, k, p] != values[p]:
            return False
    return True


@leaf
def _room(store, truths, weights, scales, i, values):
    """Index for a new structure: a free one, or that of the least useful structure."""
    if store.used[i] < store.mass.shape[1]:
        store.used[i] += 1
        return store.used[i] - 1
    _slacks(store, truths, weights, i, values)
    least, low = 0, np.inf
    for k in range(store.used[i]):
        value = values[k] + (1e6 * store.mass[i, k])
        if value < low:
            least, low = k, value
    if store.mass[i, least] > 0.0:  # its mass moves to the zero: still a feasible point
        _add_structure(store, truths, weights, i, least, -scales[i] * store.mass[i, least])
    return least


@compiled
def remember(store, truths, weights, scales, examples, rows, losses, margin, work):
    """Add one structure per example, unless it is already stored or has no loss."""
    for i in examples:
        known = losses[i] <= 0.0 and not margin
        indices, values, count = rows.indices[i], rows.values[i], rows.counts[i]
        for k in range(store.used[i]):
            known = known or _same(store, i, k, indices, values, count, losses[i])
        if known:
            continue
        k = _room(store, truths, weights, scales, i, work)
        for p in range(count):
            store.indices[i, k, p] = indices[p]
            store.values[i, k, p] = values[p]
        store.counts[i, k] = count
        store.losses[i, k] = losses[i]
        store.factors[i, k] = 1.0 if margin else losses[i]
        store.mass[i, k] = 0.0
