"""Sums over all labellings of a chain: log partition function and marginals.

``log sum_y exp( sum_t unary[t, y_t] + sum_t transitions[y_t, y_{t+1}] )``, and the probability of
every label and of every pair of neighbours when labellings are drawn in proportion to the
exponentials.

Forward messages stay logarithms; what is exponentiated are differences to the best way to reach a
label, so the largest term of every sum is 1. Nothing is floored, and nothing overflows: terms that
become 0 are below 1e-307 of the sum they belong to, whatever the size of the scores. The way back
multiplies conditional probabilities. Forbidden parts score minus infinity and get exactly 0.
"""

from __future__ import annotations

import numpy as np

from .exponential import exp_difference, exp_row, log_row
from .jit import leaf
from .vector import add_scaled, copy, dot, max_plus


@leaf
def _forward(before, table, unary, best, sums, ways, after):
    """One step: ``after`` = log sums with the scores of its labels; ``ways`` = shares of the sums.

    ``ways[j, k]`` becomes the share of label j among the ways to reach label k.
    """
    n = before.shape[0]
    max_plus(before, table, best)
    for k in range(n):
        sums[k] = 0.0
        if best[k] == -np.inf:  # cannot be reached: the differences must not become NaN
            best[k] = 0.0
    for j in range(n):
        exp_difference(table[j], before[j], best, ways[j], sums)
    log_row(sums, after)
    add_scaled(after, best, 1.0)
    add_scaled(after, unary, 1.0)
    for k in range(n):
        sums[k] = 1.0 / sums[k] if sums[k] > 0.0 else 0.0
    for j in range(n):
        for k in range(n):
            ways[j, k] *= sums[k]


@leaf
def _backward(marginals, pairs, ones):
    """From the last marginal and the shares in ``pairs`` to all marginals."""
    n = marginals.shape[1]
    for t in range(pairs.shape[0] - 1, -1, -1):
        for j in range(n):
            for k in range(n):
                pairs[t, j, k] *= marginals[t + 1, k]
            marginals[t, j] = dot(pairs[t, j], ones)


@leaf
def _last(marginals):
    """Normalise the last message into a marginal; returns the log of its sum."""
    last = marginals[marginals.shape[0] - 1]
    top = last[0]
    for k in range(1, last.shape[0]):
        top = max(top, last[k])
    if top == -np.inf:
        marginals[:] = 0.0
        return top
    total = exp_row(last, top, last)
    for k in range(last.shape[0]):
        last[k] /= total
    return top + np.log(total)


@leaf
def chain_marginals(unary, transitions, work, marginals, pairs):
    """Marginals of a chain whose transitions are the same everywhere.

    Parameters
    ----------
    unary : array of shape (T, K)
    transitions : array of shape (K, K)
    work : array of at least 3 K
        Scratch.
    marginals : array of shape (T, K)
        Receives the probability of each label at each position.
    pairs : array of shape (T - 1, K, K)
        Receives the probability of each pair of labels at neighbouring positions.

    Returns
    -------
    float
        The log partition function; minus infinity, and marginals of 0, if no labelling is allowed.
    """
    length, n = unary.shape
    best, sums, ones = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    ones[:] = 1.0
    copy(marginals[0], unary[0])
    for t in range(length - 1):
        _forward(marginals[t], transitions, unary[t + 1], best, sums, pairs[t], marginals[t + 1])
    value = _last(marginals)
    _backward(marginals, pairs, ones)
    return value


@leaf
def chain_marginals_by_position(unary, potentials, work, marginals, pairs):
    """The same with ``potentials`` of shape (T - 1, K, K): transitions that depend on the position.

    ``potentials`` and ``pairs`` may be the same array.
    """
    length, n = unary.shape
    best, sums, ones = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    ones[:] = 1.0
    copy(marginals[0], unary[0])
    for t in range(length - 1):
        _forward(marginals[t], potentials[t], unary[t + 1], best, sums, pairs[t], marginals[t + 1])
    value = _last(marginals)
    _backward(marginals, pairs, ones)
    return value
