"""Derivatives of marginals with respect to the scores: covariances of parts times a direction.

With ``c(y) = direction @ phi(y)``, that of a marginal is ``E[c 1_part] - E[c] P(part)``.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.elimination import even, invert, padded
from .._kernels.jit import implements, leaf
from .._kernels.matrix_tree import laplacian, read_marginals, scaled_arcs
from .._kernels.permanent import permanent_work, permutation_marginals
from .._kernels.subsets import subset_marginals
from .._kernels.sum_product import forward_step, normalise_last
from .._kernels.vector import add_scaled, copy, dot
from .arborescence import Arborescence, masked_table, words_of
from .chain import Chain
from .chain_sums import apply_masks
from .permutation import Matching
from .subset import Subset

# --- subsets ----------------------------------------------------------------------------------


@implements(generic.change_work, Subset)
def _work_subset(structure):
    v, s = structure.most_elements, structure.most_chosen
    return 3 * v + (v + 3) * (s + 1)


@implements(generic.gibbs_change, Subset)
def _subset(structure, i, scores, direction, work, out):
    # Given that element e is chosen, the others are a subset of size s - 1 of the rest.
    v = scores.shape[0]
    s = structure.indptr[i + 1] - structure.indptr[i]
    mu, others, given, rest = work[:v], work[v : 2 * v], work[2 * v : 3 * v], work[3 * v :]
    subset_marginals(scores, s, rest, mu)
    mean = dot(mu, direction)
    for e in range(v):
        expected = direction[e]
        if s > 1:
            for f in range(v - 1):
                others[f] = scores[f if f < e else f + 1]
            subset_marginals(others[: v - 1], s - 1, rest, given[: v - 1])
            for f in range(v - 1):
                expected += given[f] * direction[f if f < e else f + 1]
        out[e] = mu[e] * (expected - mean)
    return True


# --- permutations -----------------------------------------------------------------------------


@implements(generic.change_work, Matching)
def _work_matching(structure):
    return permanent_work(structure.n_items) + 3 * structure.n_items**2


@leaf
def without(table, row, column, out):
    """Copy a square table without a row and a column."""
    n = table.shape[0]
    for r in range(n - 1):
        for c in range(n - 1):
            out[r, c] = table[r if r < row else r + 1, c if c < column else c + 1]


@implements(generic.gibbs_change, Matching)
def _matching(structure, i, scores, direction, work, out):
    # Given that a row has a column, the others are a permutation of the rest.
    n = structure.indptr[i + 1] - structure.indptr[i]
    size, left = n * n, (n - 1) * (n - 1)
    mu, rest = work[:size], work[3 * size :]
    others, given = work[size : size + left], work[2 * size : 2 * size + left]
    table, along = scores.reshape(n, n), direction.reshape(n, n)
    permutation_marginals(table, rest, mu.reshape(n, n))
    mean = dot(mu, direction)
    for part in range(size):
        expected = direction[part]
        if n > 1:
            square = others.reshape(n - 1, n - 1)
            without(table, part // n, part % n, square)
            permutation_marginals(square, rest, given.reshape(n - 1, n - 1))
            without(along, part // n, part % n, square)
            expected += dot(given, others)
        out[part] = mu[part] * (expected - mean)
    return True


# --- chains -----------------------------------------------------------------------------------


@implements(generic.change_work, Chain)
def _work_chain(structure):
    n, longest = structure.n_labels, structure.longest
    return (4 * longest + 2 * n + 4) * n


@leaf
def _expectations(unary, along, along_pairs, transitions, scratch, messages, means):
    """Forward messages (logarithms), and in ``means[t, k]`` the expectation of the direction up to
    position t given label k there."""
    length, n = unary.shape
    best, sums, ways = scratch[:n], scratch[n : 2 * n], scratch[2 * n :].reshape(n, n)
    copy(messages[0], unary[0])
    copy(means[0], along[0])
    for t in range(1, length):
        forward_step(messages[t - 1], transitions, unary[t], best, sums, ways, messages[t])
        copy(means[t], along[t])
        for j in range(n):
            for k in range(n):
                means[t, k] += ways[j, k] * (means[t - 1, j] + along_pairs[j, k])


@leaf
def _step_back(ways, means, along, along_pairs, mean, ahead, behind, now, change, pairs):
    """Changes at a position from those at the next one, and of the pairs between.

    ``ahead`` holds the marginals of the next position, and ``behind`` these times the expectation
    of the direction after it, which becomes that of this position; ``now`` receives its marginals.
    """
    n = ahead.shape[0]
    for j in range(n):
        mass, after = 0.0, 0.0
        for k in range(n):
            pair = ways[j, k] * ahead[k]
            inside = pair * (along_pairs[j, k] + along[k]) + ways[j, k] * behind[k]
            mass += pair
            after += inside
            pairs[j, k] += pair * (means[j] - mean) + inside
        now[j], change[j] = mass, after
    copy(behind, change)
    for j in range(n):
        change[j] += now[j] * (means[j] - mean)


@implements(generic.gibbs_change, Chain)
def _chain(structure, i, scores, direction, work, out):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size, square = length * n, n * n
    unary, transitions = work[:size].reshape(length, n), work[size : size + square].reshape(n, n)
    work = work[size + square :]
    messages, means = work[:size].reshape(length, n), work[size : 2 * size].reshape(length, n)
    mass = work[2 * size : 3 * size].reshape(length, n)
    scratch, behind = work[3 * size : 3 * size + 2 * n + square], work[3 * size + 2 * n + square :]
    best, sums, ways = scratch[:n], scratch[n : 2 * n], scratch[2 * n :].reshape(n, n)
    along, along_pairs = direction[:size].reshape(length, n), direction[size:].reshape(n, n)
    change, pairs = out[:size].reshape(length, n), out[size:].reshape(n, n)
    apply_masks(
        structure, i, scores[:size].reshape(length, n), scores[size:].reshape(n, n), unary,
        transitions,
    )  # fmt: skip
    _expectations(unary, along, along_pairs, transitions, scratch, messages, means)
    copy(mass[length - 1], messages[length - 1])
    pairs[:] = 0.0
    if normalise_last(mass) == -np.inf:
        return False
    mean = dot(mass[length - 1], means[length - 1])
    for k in range(n):
        change[length - 1, k] = mass[length - 1, k] * (means[length - 1, k] - mean)
        behind[k] = 0.0
    for t in range(length - 2, -1, -1):
        forward_step(messages[t], transitions, unary[t + 1], best, sums, ways, mass[t])
        _step_back(
            ways, means[t], along[t + 1], along_pairs, mean, mass[t + 1], behind[:n], mass[t],
            change[t], pairs,
        )  # fmt: skip
    return True


# --- trees ------------------------------------------------------------------------------------


@implements(generic.change_work, Arborescence)
def _work_trees(structure):
    m = structure.longest
    return 3 * m * (m + 1) + (3 * even(m) + 4) * padded(m)


@leaf
def _multiply(left, right, out):
    out[:] = 0.0
    for a in range(left.shape[0]):
        for b in range(left.shape[0]):
            add_scaled(out[a], right[b], left[a, b])


@leaf
def _moved_laplacian(arcs, moves, single_root, matrix):
    """Derivative of the transposed Laplacian; makes relative changes of the arcs absolute."""
    for d in range(arcs.shape[0]):
        for h in range(arcs.shape[1]):
            moves[d, h] *= arcs[d, h]
    laplacian(moves, single_root, matrix)


@implements(generic.gibbs_change, Arborescence)
def _trees(structure, i, scores, direction, work, out):
    # P(d, h) = A[d, h] (S[d, d] - S[h, d]), and S, the inverse of T, changes by -S dT S. All
    # matrices are transposed.
    m = words_of(structure, i)
    size, width = m * (m + 1), padded(m)
    rows = even(m)
    square = rows * width
    table, arcs = work[:size].reshape(m, m + 1), work[size : 2 * size].reshape(m, m + 1)
    moves = work[2 * size : 3 * size].reshape(m, m + 1)
    rest = work[3 * size :]
    squares = rest[: 3 * square].reshape(3, rows, width)
    inverse, moved, product = squares[0], squares[1], squares[2]
    mu = out.reshape(m, m + 1)
    masked_table(scores, structure.allowed, structure.parts_indptr[i], table)
    single = structure.single_root
    if scaled_arcs(table, single, arcs) == -np.inf:
        return False
    laplacian(arcs, single, inverse)
    if invert(inverse, rest[3 * square :]) == -np.inf:
        return False
    if not read_marginals(arcs, single, inverse, mu):
        return False
    copy(work[2 * size : 3 * size], direction)
    _moved_laplacian(arcs, moves, single, moved)
    _multiply(inverse, moved, product)
    _multiply(product, inverse, moved)
    for d in range(m):
        at_root = moved[d, d]
        if single:
            at_root = 0.0
            for c in range(m):
                at_root += moved[d, c] / m
        mu[d, 0] = mu[d, 0] * direction[d * (m + 1)] - arcs[d, 0] * at_root
        for h in range(m):
            slope = mu[d, h + 1] * direction[d * (m + 1) + h + 1]
            change = 0.0 if h == d else arcs[d, h + 1] * (moved[d, d] - moved[d, h])
            mu[d, h + 1] = slope - change
    return True
