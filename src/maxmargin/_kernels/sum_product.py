"""Sums over all labellings of a chain: log partition function and marginals.

``log sum_y exp( sum_t unary[t, y_t] + sum_t transitions[y_t, y_{t+1}] )``, and the probability of
every label and the expected number of every transition when labellings have probabilities
proportional to the exponentials.

Scores may have any size. In general, forward messages are logarithms, and differences to the best
path to a label are exponentiated, so the largest term of every sum is 1: nothing is clipped,
nothing overflows, and terms that underflow to 0 are below 1e-307 of their sum. The backward pass
multiplies conditional probabilities. Forbidden parts have score minus infinity and probability
exactly 0.

Where the range of the scores is small enough, messages are plain numbers and a step is a product
with the matrix of exponentiated transitions: no exponentials of pairs, several times faster.
"""

from __future__ import annotations

import numpy as np

from .exponential import exp_difference, exp_row, extremes, log_row
from .jit import leaf
from .vector import add_scaled, combine_rows, copy, dot, max_plus, spread_row

# Plain messages are used while all relevant numbers are above exp(-600).
SAFE = 600.0


@leaf
def sum_product_work(length, n):
    """Length of the scratch vector for a chain of ``length`` positions with n labels."""
    return (length + 3 * n + 4) * n


@leaf
def _spread(values):
    """Largest entry, its distance to the smallest finite one, and whether all are finite."""
    low, top = extremes(values)
    if low > -np.inf or top == -np.inf:
        return top, top - low if low > -np.inf else 0.0, low > -np.inf
    low = top
    for p in range(values.shape[0]):
        if -np.inf < values[p] < low:
            low = values[p]
    return top, top - low, False


@leaf
def _is_harmless(unary, transitions):
    """Whether plain messages keep their precision.

    With everything allowed, a label can follow all others, so messages to two labels differ at most
    by the spread of one position and of the transitions. Where something is forbidden their
    difference may grow along the whole chain.
    """
    length, n = unary.shape
    _, spread, all_allowed = _spread(transitions.reshape(n * n))
    widest, steps = 0.0, 1.0
    for t in range(length):
        top, here, allowed = _spread(unary[t])
        widest = max(widest, here)
        all_allowed = all_allowed and allowed
        if top == -np.inf:
            return False
    if not all_allowed:
        steps = 0.5 * length
    return 2.0 * steps * (spread + widest + np.log(n)) <= SAFE


@leaf
def _plain_forward(unary, transitions, table, likelihoods, marginals):
    """Write messages with sum 1 to ``marginals``; returns the log partition function.

    ``table`` receives the exponentiated transitions, ``likelihoods`` those of the labels.
    """
    length, n = unary.shape
    top = extremes(transitions.reshape(n * n))[1]
    top = top if top > -np.inf else 0.0  # a single position needs no transitions
    value = 0.0
    exp_row(transitions.reshape(n * n), top, table.reshape(n * n))
    for t in range(length):
        highest = extremes(unary[t])[1]
        exp_row(unary[t], highest, likelihoods[t])
        message = marginals[t]
        if t == 0:
            copy(message, likelihoods[0])
        else:
            message[:] = 0.0
            combine_rows(table, None, marginals[t - 1], 0, n, message)
            for k in range(n):
                message[k] *= likelihoods[t, k]
            value += top
        total = 0.0
        for k in range(n):
            total += message[k]
        if not total > 0.0:
            return -np.inf
        share = 1.0 / total
        for k in range(n):
            message[k] *= share
        value += highest + np.log(total)
    return value


@leaf
def _plain_back(table, turned, likelihoods, marginals, t, message, ahead, before):
    """Replace the backward message at position t + 1 (``message``) by that at t.

    ``ahead`` receives the factor of the labels at t + 1 in the pairs ``t, t + 1``; the marginal at
    t + 1 replaces the forward message there. Returns the scale of the pairs.
    """
    n = message.shape[0]
    total = 0.0
    for k in range(n):
        ahead[k] = message[k] * likelihoods[t + 1, k]
        marginals[t + 1, k] *= message[k]
        total += marginals[t + 1, k]
        before[k] = 0.0
    share = 1.0 / total
    for k in range(n):
        marginals[t + 1, k] *= share
    combine_rows(turned, None, ahead, 0, n, before)
    mass = dot(marginals[t], before)
    copy(message, before)
    highest = 1.0 / extremes(message)[1]
    for k in range(n):
        message[k] *= highest
    return 1.0 / mass


@leaf
def _plain_end(marginals, message):
    """The marginal of the first position."""
    total = 0.0
    for k in range(message.shape[0]):
        marginals[0, k] *= message[k]
        total += marginals[0, k]
    share = 1.0 / total
    for k in range(message.shape[0]):
        marginals[0, k] *= share


@leaf
def _turn(table, turned):
    for j in range(table.shape[0]):
        for k in range(table.shape[0]):
            turned[k, j] = table[j, k]


@leaf
def _plain_sums(unary, transitions, work, marginals, summed):
    length, n = unary.shape
    message, ahead, before = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    table = work[4 * n : (4 + n) * n].reshape(n, n)
    turned = work[(4 + n) * n : (4 + 2 * n) * n].reshape(n, n)
    sums = work[(4 + 2 * n) * n : (4 + 3 * n) * n].reshape(n, n)
    likelihoods = work[(4 + 3 * n) * n : (4 + 3 * n + length) * n].reshape(length, n)
    value = _plain_forward(unary, transitions, table, likelihoods, marginals)
    if value == -np.inf:
        marginals[:] = 0.0
        summed[:] = 0.0
        return value
    _turn(table, turned)
    message[:] = 1.0
    sums[:] = 0.0
    for t in range(length - 2, -1, -1):
        scale = _plain_back(table, turned, likelihoods, marginals, t, message, ahead, before)
        spread_row(sums, None, marginals[t], 0, n, ahead, scale)
    _plain_end(marginals, message)
    for j in range(n):
        for k in range(n):
            summed[j, k] = sums[j, k] * table[j, k]
    return value


@leaf
def forward_step(before, table, unary, best, sums, ways, after):
    """One step: ``after`` = log sums with the scores of its labels; ``ways`` = shares of the sums.

    ``ways[j, k]`` becomes the share of label j in the sum over paths to label k.
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
def _backward(ways, ones, marginals, t):
    """Replace the shares by probabilities of the pairs ``t, t + 1``; write the marginal at t."""
    n = marginals.shape[1]
    for j in range(n):
        for k in range(n):
            ways[j, k] *= marginals[t + 1, k]
        marginals[t, j] = dot(ways[j], ones)


@leaf
def normalise_last(marginals):
    """Normalise the last message into a marginal; returns the log of its sum."""
    last = marginals[marginals.shape[0] - 1]
    top = extremes(last)[1]
    if top == -np.inf:
        marginals[:] = 0.0
        return top
    total = exp_row(last, top, last)
    for k in range(last.shape[0]):
        last[k] /= total
    return top + np.log(total)


@leaf
def chain_marginals_summed(unary, transitions, work, marginals, summed):
    """Marginals of a chain whose transitions are the same everywhere.

    Parameters
    ----------
    unary : array of shape (T, K)
    transitions : array of shape (K, K)
    work : array of ``sum_product_work(T, K)``
        Scratch.
    marginals : array of shape (T, K)
        Receives the probability of each label at each position.
    summed : array of shape (K, K)
        Receives the expected number of each transition.

    Returns
    -------
    float
        The log partition function; minus infinity, and marginals of 0, if no labelling is allowed.
    """
    if _is_harmless(unary, transitions):
        return _plain_sums(unary, transitions, work, marginals, summed)
    return careful_marginals_summed(unary, transitions, work, marginals, summed)


@leaf
def careful_marginals_summed(unary, transitions, work, marginals, summed):
    """The same for scores of any size, relative to the maximum for every label."""
    length, n = unary.shape
    best, sums = work[:n], work[n : 2 * n]
    ones, reached = work[2 * n : 3 * n], work[3 * n : 4 * n]
    messages = work[4 * n : (4 + length) * n].reshape(length, n)
    ways = work[(4 + length) * n : (4 + length + n) * n].reshape(n, n)
    ones[:] = 1.0
    summed[:] = 0.0
    copy(marginals[0], unary[0])
    for t in range(length - 1):
        copy(messages[t], marginals[t])
        forward_step(marginals[t], transitions, unary[t + 1], best, sums, ways, marginals[t + 1])
    value = normalise_last(marginals)
    for t in range(length - 2, -1, -1):
        forward_step(messages[t], transitions, unary[t + 1], best, sums, ways, reached)
        _backward(ways, ones, marginals, t)
        add_scaled(summed.reshape(n * n), ways.reshape(n * n), 1.0)
    return value
