"""Negative log likelihoods of many label sequences that share their transitions, with gradients.

What depends on the transitions alone is computed once. As in :mod:`maxmargin._kernels.sum_product`,
messages are plain numbers where these cannot overflow, and logarithms elsewhere.
"""

from __future__ import annotations

import numpy as np

from .._kernels.batches import factor_of
from .._kernels.exponential import exp_row, extremes
from .._kernels.jit import compiled, inner, leaf
from .._kernels.sum_product import SAFE, careful_marginals_summed, sum_product_work
from .._kernels.vector import add_scaled, copy, multiply_rows, sum_rows
from ..features.scores import write_rows
from .chain import score_labels

# Products of the sums of messages stay between this and its inverse.
_SMALL = 1e-200


@leaf
def _shift_rows(unary):
    """Subtract from each row its largest entry; returns the widest range."""
    widest = 0.0
    for t in range(unary.shape[0]):
        low, top = extremes(unary[t])
        widest = max(widest, top - low)
        for k in range(unary.shape[1]):
            unary[t, k] -= top
    return widest


@leaf
def _forward(likelihoods, table, messages, turned, shares):
    """Messages, also transposed, and the inverse of the sum of each; returns the log of the product
    of the sums.

    A message is computed from the one before it times its share, which is not needed before the sum
    over labels: the next sum need not wait for the division.
    """
    length, n = likelihoods.shape
    value, product = 0.0, 1.0
    for t in range(length):
        message, here = messages[t], likelihoods[t]
        if t == 0:
            copy(message, here)
            total = 0.0
            for k in range(n):
                total += here[k]
        else:
            sum_rows(table, None, messages[t - 1], 0, n, here, 0.0, message)
            total = multiply_rows(message, here, shares[t - 1], message)
        shares[t] = 1.0 / total
        for k in range(n):
            turned[k, t] = message[k]
        product *= total
        if product < _SMALL or product > 1.0 / _SMALL:
            value += np.log(product)
            product = 1.0
    return value + np.log(product)


@leaf
def _backward(likelihoods, table, messages, shares, ahead, message):
    """Replace the messages by marginals; ``ahead[t]`` receives the factor of the label at t + 1 in
    the marginals of pairs (t, t + 1). The other factors are the table and the message at t.

    The shares make the products of both messages sum to 1 at every position.
    """
    length, n = likelihoods.shape
    message[:] = shares[length - 1]
    for t in range(length - 1, -1, -1):
        if t < length - 1:
            multiply_rows(message, likelihoods[t + 1], shares[t], ahead[t])
            sum_rows(table, None, ahead[t], 0, n, ahead[t], 0.0, message)
        multiply_rows(messages[t], message, 1.0, messages[t])


@leaf
def _plain(unary, top, table, turned, room, messages, summed):
    """Marginals and expected transitions; returns log Z. Scores are at most ``top``."""
    length, n = unary.shape
    size = length * n
    likelihoods, ahead = room[:size], room[size : 2 * size].reshape(length, n)
    across = room[2 * size : 3 * size].reshape(n, length)
    message, shares = room[3 * size : 3 * size + n], room[3 * size + n :]
    exp_row(unary.reshape(size), top, likelihoods)
    rows = likelihoods.reshape(length, n)
    value = _forward(rows, table, messages, across, shares)
    _backward(rows, turned, messages, shares, ahead, message)
    for j in range(n):
        sum_rows(ahead, None, across[j], 0, length - 1, table[j], 0.0, summed[j])
        for k in range(n):
            summed[j, k] *= table[j, k]
    return value + top * length


@inner
def _subtract_truth(structure, i, transitions, unary, marginals, summed):
    """Turn marginals into gradients; returns the score of the true labels."""
    first, last = structure.indptr[i], structure.indptr[i + 1]
    total = 0.0
    for t in range(last - first):
        here = structure.truth[first + t]
        total += unary[t, here]
        marginals[t, here] -= 1.0
        if t > 0:
            before = structure.truth[first + t - 1]
            total += transitions[before, here]
            summed[before, here] -= 1.0
    return total


@inner
def _add_slopes(structure, slopes, i, marginals, summed):
    """Write the gradients of the labels, and add those of the scores that all positions share."""
    length, n = marginals.shape
    into, factor = slopes.weights[i // slopes.group], factor_of(slopes, i)
    add_scaled(into[: n * n], summed.reshape(n * n), factor)
    if structure.ends:
        add_scaled(into[n * n : n * n + n], marginals[0], factor)
        add_scaled(into[n * n + n :], marginals[length - 1], factor)
    write_rows(slopes.rows, structure.indptr[i], marginals, factor)


@compiled
def chain_likelihoods(structure, rows, weights, slopes, bounds, first, last):
    """Negative log likelihoods of sequences without constraints, and their gradients.

    The rows of ``slopes`` that are not padding are overwritten.
    """
    n, longest = structure.n_labels, structure.longest
    own = weights[0]
    transitions = own[: n * n].reshape(n, n)
    table, turned, summed = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    low, top = extremes(own[: n * n])
    exp_row(own[: n * n], top, table.reshape(n * n))
    for j in range(n):
        for k in range(n):
            turned[k, j] = table[j, k]
    limit = SAFE / 3.0 - (top - low) - np.log(n)
    buffers = np.empty((2, longest, n))
    room = np.empty(max(sum_product_work(longest, n), (3 * longest + 1) * n + longest))
    for i in range(first, last):
        begin, end = structure.indptr[i], structure.indptr[i + 1]
        unary, marginals = buffers[0, : end - begin], buffers[1, : end - begin]
        score_labels(structure, rows, own, i, unary)
        worst, best = extremes(unary.reshape((end - begin) * n))
        widest = best - worst
        if widest > limit:
            widest, best = _shift_rows(unary), 0.0
        if widest <= limit:
            value = _plain(unary, best, table, turned, room, marginals, summed)
            value += top * (end - begin - 1)
        else:
            value = careful_marginals_summed(unary, transitions, room, marginals, summed)
        true = _subtract_truth(structure, i, transitions, unary, marginals, summed)
        bounds.upper[i] = bounds.lower[i] = value - true
        _add_slopes(structure, slopes, i, marginals, summed)
