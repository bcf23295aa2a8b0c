"""Block-coordinate ascent over remembered structures.

Example i has a completed truth with features ``phi_i`` and remembered structures k with features
``psi_ik``, a loss and a scale. The convex problem over what is remembered, and its dual::

    min_w  alpha/2 |w|^2 + 1/W sum_i s_i max(0, max_k [ loss_ik - scale_ik w @ (phi_i - psi_ik) ])
    max_a  1/W sum_i s_i sum_k a_ik loss_ik - alpha/2 |w(a)|^2,   a_i >= 0, sum_k a_ik <= 1
           w(a) = 1/(alpha W) sum_i s_i sum_k a_ik scale_ik (phi_i - psi_ik)

``scale = loss`` is slack re-scaling, ``scale = 1`` margin re-scaling. A step moves mass from the
worst structure that has some to the best one; the zero of the maximum counts as a structure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import compiled, leaf


class WorkingSet(NamedTuple):
    """Remembered structures: at most ``capacity`` an example, rows of at most ``width`` entries."""

    truth_indices: np.ndarray  # (n, width) int32
    truth_values: np.ndarray
    truth_counts: np.ndarray  # (n,)
    indices: np.ndarray  # (n, capacity, width)
    values: np.ndarray
    counts: np.ndarray  # (n, capacity)
    losses: np.ndarray
    scales: np.ndarray
    mass: np.ndarray
    used: np.ndarray  # (n,): how many structures are remembered


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
def _add_structure(store, weights, i, k, scale):
    """``weights += scale * scale_ik (phi_i - psi_ik)``."""
    step = scale * store.scales[i, k]
    _add(weights, store.truth_indices[i], store.truth_values[i], store.truth_counts[i], step)
    _add(weights, store.indices[i, k], store.values[i, k], store.counts[i, k], -step)


@leaf
def _square(store, scratch, i, k):
    """Sum of the squares of ``scratch`` at the entries of structure k, which become zero."""
    total = 0.0
    for p in range(store.counts[i, k]):
        j = store.indices[i, k, p]
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    return total


@leaf
def _direction(store, scratch, i, best, away):
    """Squared norm of the step from ``away`` to ``best`` (-1: zero); ``scratch`` stays zero."""
    total = 0.0
    if best >= 0:
        _add_structure(store, scratch, i, best, 1.0)
    if away >= 0:
        _add_structure(store, scratch, i, away, -1.0)
    for p in range(store.truth_counts[i]):
        j = store.truth_indices[i, p]
        total += scratch[j] * scratch[j]
        scratch[j] = 0.0
    if best >= 0:
        total += _square(store, scratch, i, best)
    if away >= 0:
        total += _square(store, scratch, i, away)
    return total


@leaf
def slacks(store, weights, i, out):
    """Write ``loss - scale w @ (phi - psi)`` of the remembered structures."""
    truth = _product(weights, store.truth_indices[i], store.truth_values[i], store.truth_counts[i])
    for k in range(store.used[i]):
        score = _product(weights, store.indices[i, k], store.values[i, k], store.counts[i, k])
        out[k] = store.losses[i, k] - store.scales[i, k] * (truth - score)


@leaf
def _choose(store, i, values):
    """Best structure and the worst that has mass, -1 for the zero, and what a move gains."""
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
def ascend(store, weights, shares, alpha, orders, most_steps, goal, scratch, values):
    """Passes over examples, one for each row of ``orders``, until the gap met on the way of one is
    at most ``goal``; returns that gap."""
    met = np.inf
    for order in orders:
        met = _visit_all(store, weights, shares, alpha, order, most_steps, scratch, values)
        if met <= goal:
            break
    return met


@leaf
def _visit_all(store, weights, shares, alpha, order, most_steps, scratch, values):
    """Visit examples once; returns the mean of their gaps at the visits."""
    total = 0.0
    for i in range(shares.shape[0]):
        total += shares[i]
    gaps = 0.0
    for i in order:
        for step in range(most_steps):
            slacks(store, weights, i, values)
            best, away, gain, rest = _choose(store, i, values)
            if step == 0:
                gap = max(0.0, values[best] if best >= 0 else 0.0)
                for k in range(store.used[i]):
                    gap -= store.mass[i, k] * values[k]
                gaps += shares[i] * gap
            if best == away or gain <= 1e-13:
                break
            curvature = shares[i] * _direction(store, scratch, i, best, away) / (alpha * total)
            limit = store.mass[i, away] if away >= 0 else rest
            move = min(limit, gain / curvature) if curvature > 0.0 else limit
            if move <= 0.0:
                break
            scale = shares[i] * move / (alpha * total)
            if best >= 0:
                store.mass[i, best] += move
                _add_structure(store, weights, i, best, scale)
            if away >= 0:
                store.mass[i, away] = 0.0 if move == limit else store.mass[i, away] - move
                _add_structure(store, weights, i, away, -scale)
    return gaps / total


@compiled
def rebuild(store, shares, alpha, weights):
    """Weights of the dual point, and the linear part of the dual."""
    total = shares.sum()
    weights[:] = 0.0
    linear = 0.0
    for i in range(shares.shape[0]):
        for k in range(store.used[i]):
            if store.mass[i, k] > 0.0:
                linear += shares[i] * store.mass[i, k] * store.losses[i, k]
                _add_structure(store, weights, i, k, shares[i] * store.mass[i, k] / (alpha * total))
    return linear / total


@leaf
def _same(store, i, k, indices, values, count, loss):
    if store.counts[i, k] != count or store.losses[i, k] != loss:
        return False
    for p in range(count):
        if store.indices[i, k, p] != indices[p] or store.values[i, k, p] != values[p]:
            return False
    return True


@leaf
def _room(store, weights, shares, alpha, i, values):
    """A place for one more structure: a free one, or that of the least useful one."""
    if store.used[i] < store.mass.shape[1]:
        store.used[i] += 1
        return store.used[i] - 1
    slacks(store, weights, i, values)
    least, low = 0, np.inf
    for k in range(store.used[i]):
        value = values[k] + (1e6 * store.mass[i, k])
        if value < low:
            least, low = k, value
    if store.mass[i, least] > 0.0:  # its mass goes to the zero: still a point of the dual
        scale = -shares[i] * store.mass[i, least] / (alpha * shares.sum())
        _add_structure(store, weights, i, least, scale)
    return least


@compiled
def remember(
    store, weights, shares, alpha, examples, indices, values, counts, losses, margin, work
):
    """Add one structure to each example, unless it is there or costs nothing; return how many."""
    added = 0
    for i in examples:
        known = losses[i] <= 0.0 and not margin
        for k in range(store.used[i]):
            known = known or _same(store, i, k, indices[i], values[i], counts[i], losses[i])
        if known:
            continue
        k = _room(store, weights, shares, alpha, i, work)
        for p in range(counts[i]):
            store.indices[i, k, p] = indices[i, p]
            store.values[i, k, p] = values[i, p]
        store.counts[i, k] = counts[i]
        store.losses[i, k] = losses[i]
        store.scales[i, k] = 1.0 if margin else losses[i]
        store.mass[i, k] = 0.0
        added += 1
    return added


@compiled
def set_truths(store, weights, shares, alpha, examples, indices, values, counts):
    """New completions; the dual point stays, its weights follow. Returns how many changed."""
    total = shares.sum()
    changed = 0
    for i in examples:
        same = store.truth_counts[i] == counts[i]
        for p in range(counts[i]):
            same = same and store.truth_indices[i, p] == indices[i, p]
            same = same and store.truth_values[i, p] == values[i, p]
        if same:
            continue
        changed += 1
        amount = 0.0
        for k in range(store.used[i]):
            amount += store.mass[i, k] * store.scales[i, k]
        amount *= shares[i] / (alpha * total)
        _add(weights, store.truth_indices[i], store.truth_values[i], store.truth_counts[i], -amount)
        for p in range(counts[i]):
            store.truth_indices[i, p] = indices[i, p]
            store.truth_values[i, p] = values[i, p]
        store.truth_counts[i] = counts[i]
        _add(weights, indices[i], values[i], counts[i], amount)
    return changed
