"""Saddle-point mirror-prox for the max-min oracle of a chain.

Finds ``max_mu min_nu sum_t s_t nu_t' L mu_t + scores @ mu``, mu the marginals of a distribution
over label sequences and nu_t a distribution over the labels of position t. Steps are taken in
natural parameters: those of mu, with the entropy of the chain, are scores of labels and of
transitions, whose marginals are sums over all sequences; nu is a softmax per position. All
gradients of mu lie in the span of label scores and one table of transitions, and so do its
parameters: pairs of labels at single positions need not be stored.

Sums are over plain exponentials of differences to the largest score, with one table of transitions
for two evaluations. Beginnings of sequences with less than 1e-300 of the weight of others then
count as impossible, which does not change the marginals of the rest. Where the sums are too small
for this, the slower functions of :mod:`.sum_product` are used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import protocol as generic
from .exponential import exp_row
from .jit import inner, leaf
from .maxima import largest
from .sum_product import careful_marginals_summed, sum_product_work
from .vector import add_scaled, combine_rows, copy, dot

# Sums of plain exponentials below this are not trusted.
_SMALLEST = 1e-200
# Largest difference of two parameters at the start of a call. On handwritten words passes are five
# times as fast as without this limit, and the gap after a hundred passes is smaller than with 80.
_REACH = 20.0


@leaf
def _fill_table(pairs, table):
    """Exponentials of the scores of transitions, relative to the largest."""
    top = -np.inf
    for j in range(pairs.shape[0]):
        top = max(top, largest(pairs[j]))
    for j in range(pairs.shape[0]):
        exp_row(pairs[j], top, table[j])


@leaf
def _scale(row, factor):
    for k in range(row.shape[0]):
        row[k] *= factor


@leaf
def _plain_forward(scores, table, unary, forward):
    """Forward messages, each row summing to 1; False if sums became too small."""
    length, n = scores.shape
    for t in range(length):
        exp_row(scores[t], largest(scores[t]), unary[t])
        row = forward[t]
        if t == 0:
            copy(row, unary[0])
        else:
            row[:] = 0.0
            combine_rows(table, None, forward[t - 1], 0, n, row)
            for k in range(n):
                row[k] *= unary[t, k]
        total = 0.0
        for k in range(n):
            total += row[k]
        if total < _SMALLEST:
            return False
        _scale(row, 1.0 / total)
    return True


@leaf
def _plain_marginals(scores, table, unary, forward, mu, share, sums, summed):
    """Marginals from exponentials; adds ``share`` times the transitions to ``summed``.

    ``unary`` is overwritten by the backward messages. Returns False, and adds nothing, if sums
    became too small.
    """
    length, n = scores.shape
    if not _plain_forward(scores, table, unary, forward):
        return False
    copy(mu[length - 1], forward[length - 1])
    if share != 0.0:
        sums[:] = 0.0
    for t in range(length - 2, -1, -1):
        behind = unary[t + 1]
        for j in range(n):
            mu[t, j] = dot(table[j], behind)
        top = largest(mu[t])
        total = dot(forward[t], mu[t])
        if total < _SMALLEST:
            return False
        if share != 0.0:
            for j in range(n):
                add_scaled(sums[j], behind, forward[t, j] * share / total)
        for j in range(n):
            unary[t, j] *= mu[t, j] / top
            mu[t, j] *= forward[t, j] / total
    if share != 0.0:
        for j in range(n):
            for k in range(n):
                summed[j, k] += sums[j, k] * table[j, k]
    return True


@leaf
def _softmax(logits, out):
    """Softmax of each row."""
    for t in range(logits.shape[0]):
        total = exp_row(logits[t], largest(logits[t]), out[t])
        _scale(out[t], 1.0 / total)


@leaf
def _move(structure, i, base, nu, scores, step, out):
    """``out = base + step * (scores + A' nu)``, the part of the labels."""
    n = base.shape[1]
    first = structure.indptr[i]
    for t in range(base.shape[0]):
        copy(out[t], base[t])
        add_scaled(out[t], scores[t * n : (t + 1) * n], step)
        scale = step * structure.loss_scale[first + t]
        generic.add_mixed_losses(structure.loss, nu[t], scale, out[t])


@leaf
def _descend(structure, i, base, mu, step, work, out):
    """``out = base - step * A mu``, up to constants."""
    first = structure.indptr[i]
    for t in range(base.shape[0]):
        copy(out[t], base[t])
        scale = step * structure.loss_scale[first + t]
        generic.descend_losses(structure.loss, mu[t], scale, work, out[t])


@leaf
def step_length(structure, i):
    """Step length for which mirror-prox converges: the coupling of mu and nu is at most
    ``sqrt(T) s c / 2`` for a loss of size ``s c`` at each of T positions."""
    first, last = structure.indptr[i], structure.indptr[i + 1]
    scale = 0.0
    for p in range(first, last):
        scale = max(scale, structure.loss_scale[p])
    scale *= generic.max_cost(structure.loss)
    return 2.0 / (np.sqrt(last - first) * scale) if scale > 0.0 else 1.0


class _Room(NamedTuple):
    """Scratch of one call: arrays of shape (T, K), then (K, K)."""

    unary: np.ndarray
    forward: np.ndarray
    mu: np.ndarray  # at the current point
    nu: np.ndarray
    theta: np.ndarray  # the point that a step would lead to
    logits: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    work: np.ndarray


@inner
def _make_room(length, n):
    return _Room(
        np.empty((length, n)),
        np.empty((length, n)),
        np.empty((length, n)),
        np.empty((length, n)),
        np.empty((length, n)),
        np.empty((length, n)),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(sum_product_work(length, n)),
    )


@leaf
def _look(theta, pairs, logits, share, room, summed):
    """Marginals and predictions at a point; adds a share of the transitions to ``summed``.

    The field ``table`` of the scratch holds the exponentials of ``pairs``.
    """
    if not _plain_marginals(
        theta, room.table, room.unary, room.forward, room.mu, share, room.sums, summed
    ):
        careful_marginals_summed(theta, pairs, room.work, room.mu, room.sums)
        if share != 0.0:
            for j in range(summed.shape[0]):
                add_scaled(summed[j], room.sums[j], share)
    _softmax(logits, room.nu)


@inner
def chain_mirror_prox(structure, i, scores, iterations, factor, theta, pairs, logits, mu, nu):
    """Improve the parameters ``theta, pairs, logits`` of a pair, in place.

    Parameters
    ----------
    iterations : int
        Each takes two prox steps.
    factor : float
        Factor of the step length that is known to be safe.
    theta, pairs : arrays of shape (T, K) and (K, K)
        Natural parameters of mu.
    logits : array of shape (T, K)
        Logarithms of nu, up to constants.
    mu, nu : block vector, and array of shape (T, K)
        Receive the averages of the intermediate points of all iterations: the answer.
    """
    length, n = theta.shape
    size = length * n
    room = _make_room(length, n)
    step = factor * step_length(structure, i)
    share = 1.0 / iterations
    unary, summed = mu[:size].reshape(length, n), mu[size:].reshape(n, n)
    mu[:] = 0.0
    nu[:, :] = 0.0
    _fill_table(pairs, room.table)
    # Two steps per iteration, both from (theta, logits): to the intermediate point, and, with the
    # gradient there, to the next point.
    for half in range(2 * iterations):
        between = half % 2 == 1
        at, at_logits = (room.theta, room.logits) if between else (theta, logits)
        to, to_logits = (theta, logits) if between else (room.theta, room.logits)
        _look(at, pairs, at_logits, share if between else 0.0, room, summed)
        _move(structure, i, theta, room.nu, scores, step, to)
        _descend(structure, i, logits, room.mu, step, room.work, to_logits)
        if between:
            for t in range(length):
                add_scaled(unary[t], room.mu[t], share)
                add_scaled(nu[t], room.nu[t], share)
        else:  # the gradient of transitions is the same at both points
            for j in range(n):
                add_scaled(pairs[j], scores[size + j * n : size + (j + 1) * n], step)
            _fill_table(pairs, room.table)
    _keep_small(theta, pairs, logits)


@leaf
def _lower(row, top):
    """Subtract ``top``, which is the largest; returns the smallest difference."""
    smallest = 0.0
    for k in range(row.shape[0]):
        row[k] -= top
        if row[k] > -np.inf:
            smallest = min(smallest, row[k])
    return smallest


@leaf
def _keep_small(theta, pairs, logits):
    """Shift parameters by constants, without an effect, and shrink them if they differ too much.

    Those of labels without mass decrease with every iteration. For the start of the next call their
    differences are limited: it is then a geometric mixture with the uniform distribution.
    """
    top, spread, spread_nu = -np.inf, 0.0, 0.0
    for j in range(pairs.shape[0]):
        top = max(top, largest(pairs[j]))
    for j in range(pairs.shape[0]):
        spread = min(spread, _lower(pairs[j], top))
    for t in range(theta.shape[0]):
        spread = min(spread, _lower(theta[t], largest(theta[t])))
        spread_nu = min(spread_nu, _lower(logits[t], largest(logits[t])))
    if spread < -_REACH:
        for j in range(pairs.shape[0]):
            _scale(pairs[j], -_REACH / spread)
        for t in range(theta.shape[0]):
            _scale(theta[t], -_REACH / spread)
    if spread_nu < -_REACH:
        for t in range(theta.shape[0]):
            _scale(logits[t], -_REACH / spread_nu)
