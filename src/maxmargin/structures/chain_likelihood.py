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
from .._kernels.vector import add_scaled, copy, dot, sum_rows
from .chain import score_labels

# Products of the sums of messages stay between this and its inverse.
_SMALL = 1e-200


@leaf
def _shift_rows(unary):
    """Subtract from each row its largest entry; returns the sum of these, and the widest range."""
    total, widest = 0.0, 0.0
    for t in range(unary.shape[0]):
        low, top = extremes(unary[t])
        widest = max(widest, top - low)
        total += top
        for k in range(unary.shape[1]):
            unary[t, k] -= top
    return total, widest


@leaf
def _forward(likelihoods, table, messages, turned):
    """Messages, each with sum 1, also transposed; returns the log of the product of the sums."""
    length, n = likelihoods.shape
    value, product = 0.0, 1.0
    for t in range(length):
        message, here = messages[t], likelihoods[t]
        total = 0.0
        if t == 0:
            copy(message, here)
            for k in range(n):
                total += message[k]
        else:
            sum_rows(table, None, messages[t - 1], 0, n, here, 0.0, message)
            for k in range(n):
                message[k] *= here[k]
                total += message[k]
        share = 1.0 / total
        for k in range(n):
            message[k] *= share
            turned[k, t] = message[k]
        product *= total
        if product < _SMALL or product > 1.0 / _SMALL:
            value += np.log(product)
            product = 1.0
    return value + np.log(product)


@leaf
def _backward(likelihoods, table, messages, ahead, message):
    """Replace the messages by marginals; ``ahead[t]`` receives the factor of the label at t + 1 in
    the marginals of pairs (t, t + 1). The other factors are the table and the message at t."""
    length, n = likelihoods.shape
    message[:] = 1.0
    for t in range(length - 2, -1, -1):
        behind = ahead[t]
        for k in range(n):
            behind[k] = message[k] * likelihoods[t + 1, k]
        sum_rows(table, None, behind, 0, n, behind, 0.0, message)
        share = 1.0 / dot(messages[t], message)
        for k in range(n):
            behind[k] *= share
            message[k] *= share  # the marginal is then the product of both messages
            messages[t, k] *= message[k]


@leaf
def _plain(unary, table, turned, room, messages, summed):
    """Marginals, and expected transitions without the factor of the table; returns log Z."""
    length, n = unary.shape
    size = length * n
    likelihoods, ahead = room[:size], room[size : 2 * size].reshape(length, n)
    across = room[2 * size : 3 * size].reshape(n, length)
    message = room[3 * size : 3 * size + n]
    exp_row(unary.reshape(size), 0.0, likelihoods)
    rows = likelihoods.reshape(length, n)
    value = _forward(rows, table, messages, across)
    _backward(rows, turned, messages, ahead, message)
    for j in range(n):
        sum_rows(ahead, None, across[j], 0, length - 1, table[j], 0.0, summed[j])
        for k in range(n):
            summed[j, k] *= table[j, k]
    return value


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
    rows = slopes.rows
    for t in range(length):
        row = structure.indptr[i] + t
        at = rows.place[row] if rows.place.shape[0] > 0 else row
        for k in range(n):
            rows.values[at, k] = factor * marginals[t, k]


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
    buffers = np.empty((2, longest, n))
    room = np.empty(max(sum_product_work(longest, n), (3 * longest + 1) * n))
    for i in range(first, last):
        begin, end = structure.indptr[i], structure.indptr[i + 1]
        unary, marginals = buffers[0, : end - begin], buffers[1, : end - begin]
        score_labels(structure, rows, own, i, unary)
        shift, widest = _shift_rows(unary)
        if 2.0 * (top - low + widest + np.log(n)) <= SAFE:
            value = _plain(unary, table, turned, room, marginals, summed) + top * (end - begin - 1)
        else:
            value = careful_marginals_summed(unary, transitions, room, marginals, summed)
        true = _subtract_truth(structure, i, transitions, unary, marginals, summed)
        bounds.upper[i] = bounds.lower[i] = value - true
        _add_slopes(structure, slopes, i, marginals, summed)
