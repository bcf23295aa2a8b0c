"""Exact draws of outputs, with probability proportional to the exponential of the score."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.matrix_tree import tree_marginals
from .._kernels.maxima import largest
from .._kernels.permanent import permutation_marginals
from .._kernels.sum_product import forward_step
from .._kernels.vector import copy
from .arborescence import Arborescence, masked_table, words_of
from .chain import Chain
from .chain_sums import apply_masks
from .gibbs_changes import without
from .permutation import Matching
from .subset import Subset


@leaf
def _choose(shares, uniform):
    """The entry at which the cumulative sum of shares exceeds ``uniform`` times the total."""
    total = 0.0
    for k in range(shares.shape[0]):
        total += shares[k]
    left, last = uniform * total, 0
    for k in range(shares.shape[0]):
        if shares[k] > 0.0:
            last = k
            left -= shares[k]
            if left < 0.0:
                break
    return last


@leaf
def _choose_by_logs(logs, uniform):
    top = largest(logs)
    for k in range(logs.shape[0]):
        logs[k] = np.exp(logs[k] - top)
    return _choose(logs, uniform)


@implements(generic.draw, Chain)
def _chain(structure, i, scores, uniforms, work, labels):
    # Forward messages, then one label after another from the last to the first.
    n = structure.n_labels
    length = labels.shape[0]
    size, square = length * n, n * n
    unary, transitions = work[:size].reshape(length, n), work[size : size + square].reshape(n, n)
    work = work[size + square :]
    messages, scratch = work[:size].reshape(length, n), work[size:]
    best, sums, ways = scratch[:n], scratch[n : 2 * n], scratch[2 * n : 2 * n + square]
    apply_masks(
        structure, i, scores[:size].reshape(length, n), scores[size:].reshape(n, n), unary,
        transitions,
    )  # fmt: skip
    copy(messages[0], unary[0])
    for t in range(1, length):
        forward_step(
            messages[t - 1], transitions, unary[t], best, sums, ways.reshape(n, n), messages[t]
        )
    if largest(messages[length - 1]) == -np.inf:
        return False
    for t in range(length - 1, -1, -1):
        copy(best, messages[t])
        if t < length - 1:
            for k in range(n):
                best[k] += transitions[k, labels[t + 1]]
        labels[t] = _choose_by_logs(best, uniforms[t])
    return True


@implements(generic.draw, Subset)
def _subset(structure, i, scores, uniforms, work, labels):
    # tails[e, k]: log of the sum over subsets of size k of the elements from e on
    v, s = scores.shape[0], labels.shape[0]
    tails = work[: (v + 1) * (s + 1)].reshape(v + 1, s + 1)
    tails[v] = -np.inf
    tails[v, 0] = 0.0
    for e in range(v - 1, -1, -1):
        tails[e, 0] = 0.0
        for k in range(1, s + 1):
            a, b = tails[e + 1, k], tails[e + 1, k - 1] + scores[e]
            high, low = max(a, b), min(a, b)
            tails[e, k] = high if low == -np.inf else high + np.log1p(np.exp(low - high))
    place = 0
    for e in range(v):
        if place == s:
            break
        taken = np.exp(scores[e] + tails[e + 1, s - place - 1] - tails[e, s - place])
        if uniforms[e] < taken or v - e == s - place:
            labels[place] = e
            place += 1
    return True


@implements(generic.draw, Arborescence)
def _trees(structure, i, scores, uniforms, work, labels):
    # Word after word, by the marginals of its heads given the heads that were drawn before.
    m = words_of(structure, i)
    size = m * (m + 1)
    table, mu = work[:size].reshape(m, m + 1), work[size : 2 * size].reshape(m, m + 1)
    masked_table(scores, structure.allowed, structure.parts_indptr[i], table)
    for d in range(m):
        if tree_marginals(table, structure.single_root, work[2 * size :], mu) == -np.inf:
            return False
        labels[d] = _choose(mu[d], uniforms[d])
        for h in range(m + 1):
            if h != labels[d]:
                table[d, h] = -np.inf
    return True


@implements(generic.draw, Matching)
def _matching(structure, i, scores, uniforms, work, labels):
    # Row after row, by the marginals of its columns among those that are left.
    n = labels.shape[0]
    size = n * n
    rest = work[3 * size :]
    copy(work[:size], scores)
    for row in range(n):
        left = n - row
        table = work[: left * left].reshape(left, left)
        mu = work[size : size + left * left].reshape(left, left)
        permutation_marginals(table, rest, mu)
        chosen = _choose(mu[0], uniforms[row])
        labels[row] = chosen
        if left > 1:
            square = work[2 * size : 2 * size + (left - 1) * (left - 1)]
            without(table, 0, chosen, square.reshape(left - 1, left - 1))
            copy(work[: (left - 1) * (left - 1)], square)
    for row in range(n - 2, -1, -1):  # places among the columns left, as columns
        for later in range(row + 1, n):
            labels[later] += labels[later] >= labels[row]
    return True
