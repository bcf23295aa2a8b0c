"""Distributions over directed spanning trees: log partition function and marginals of arcs.

A tree has the probability ``exp(score) / Z``. With ``A[d, h]`` the exponential of an arc's score
and T the Laplacian, ``T[d, d] = sum_h A[d, h]`` and ``T[d, h] = -A[d, h]``, the matrix-tree theorem
says ``Z = det T``, and, with S the inverse of T,
``P(h is the head of d) = A[d, h] (S[d, d] - S[h, d])``.

*A single root*: T without the arcs rho of the root is singular, and ``Z = det(T + rho 1'/n)``.

Elimination needs no pivoting: the leading minors of T are positive, and with a single root that of
a set J of words is ``det(T_J) (1 + 1' inverse(T_J) rho_J / n)``, where no term is negative; rows of
the factors are at most n times their diagonals.

Rows are scaled by their largest entry. The differences above lose digits where the arcs of cycles
have large scores; then (this is checked) marginals are computed without any subtraction, in
logarithms: ``P(h is the head of d)`` is proportional to ``A[d, h] u_h``, where u_h is the
probability that a random walk from h, which moves to heads with probability proportional to A,
reaches the root before d. This needs one linear system per word, solved by the elimination of
Grassmann, Taksar and Heyman: O(n^4), and accurate for any scores.

References
----------
Koo, Globerson, Carreras, Collins. Structured prediction models via the matrix-tree theorem. 2007.
Grassmann, Taksar, Heyman. Regenerative analysis and steady state distributions. 1985.
"""

from __future__ import annotations

import numpy as np

from .elimination import SMALL, even, invert, padded, weigh_differences
from .exponential import exp_row
from .jit import leaf
from .lanes import LANES, invert_lanes, laplacian_column, weigh_lanes
from .maxima import largest
from .vector import add_scaled, to_line

# Marginals of a word whose sum differs from 1 by more than this are not accurate.
_ACCURATE = 1e-11
# Such a difference is rounding, and not corrected.
_ROUNDING = 1e-14
# Logarithm of the factor that makes a second arc from the root impossible, where no other scores
# are as large.
_ONE_ROOT = -3e4


@leaf
def matrix_tree_work(n):
    """Length of the scratch vector of the functions here, for n words."""
    return n * (n + 1) + (even(n) + 4) * padded(n) + 8


@leaf
def scaled_arcs(table, single_root, arcs):
    """Exponentials, each row scaled; for a single root, also the column of the root.

    Returns the sum of the logarithms of all scale factors; minus infinity if there is no tree.
    """
    n = table.shape[0]
    first = 1 if single_root else 0
    total, most = 0.0, -np.inf
    for d in range(n):
        top = largest(table[d, first:])
        if top == -np.inf:
            if not single_root or table[d, 0] == -np.inf:
                return -np.inf
            top = 0.0
        total += top
        for h in range(n + 1):
            arcs[d, h] = table[d, h] - top
        most = max(most, arcs[d, 0])
    if single_root:
        if most == -np.inf:
            return -np.inf
        for d in range(n):
            arcs[d, 0] -= most
        total += most
    flat = arcs.reshape(n * (n + 1))
    exp_row(flat, 0.0, flat)
    return total


@leaf
def laplacian(arcs, single_root, matrix):
    """The transpose of T, padded as :func:`invert` expects; arcs from words to themselves must be
    0."""
    n = arcs.shape[0]
    matrix[:, n:] = 0.0
    if matrix.shape[0] > n:
        matrix[n] = 0.0
        matrix[n, n] = 1.0
    for d in range(n):
        row = arcs[d]
        total = 0.0 if single_root else row[0]
        spread = row[0] / n if single_root else 0.0
        for h in range(n):
            total += row[h + 1]
            matrix[h, d] = spread - row[h + 1]
        matrix[d, d] = spread + total


@leaf
def _finish_word(row, spread, corner, sums, into):
    """Marginals of a word from those of its other heads; False if they are not accurate.

    ``row[0] * spread`` is that of the root; ``sums`` are the sum of the others and the smallest.
    """
    total, lowest = sums
    at_root = row[0] * spread
    into[0] = at_root
    total += at_root
    size = max(abs(at_root), abs(corner))  # of the numbers subtracted: arcs are at most 1
    if not (abs(total - 1.0) <= _ACCURATE and size * 1e-16 <= _ACCURATE):
        return False
    lowest = min(lowest, at_root)
    if lowest < -_ACCURATE:
        return False
    if lowest < 0.0:
        for h in range(into.shape[0]):
            into[h] = max(into[h], 0.0)
    if abs(total - 1.0) > _ROUNDING:
        add_scaled(into, into, 1.0 / total - 1.0)
    return True


@leaf
def read_marginals(arcs, single_root, inverse, mu):
    """Marginals from the transposed inverse; False if they are not accurate."""
    n = arcs.shape[0]
    for d in range(n):
        row, into = arcs[d], mu[d]
        corner = inverse[d, d]
        total, lowest, column = weigh_differences(row[1:], inverse[d, :n], corner, into[1:])
        spread = column / n if single_root else corner
        if not _finish_word(row, spread, corner, (total, lowest), into):
            return False
    return True


@leaf
def tree_marginals(table, single_root, work, mu):
    """Write the probability of every arc and return ``log Z``.

    Parameters
    ----------
    table : (n, n + 1) array
        ``table[d, h]`` is the score of node h as the head of word d + 1; minus infinity forbids an
        arc, and is required at ``table[d, d + 1]``.
    single_root : bool
        Whether exactly one word must have the root, node 0, as its head.
    work : array
        Scratch of length ``matrix_tree_work(n)``.
    mu : (n, n + 1) array

    Returns
    -------
    float
        Minus infinity if no tree is allowed; ``mu`` is then meaningless.
    """
    n = table.shape[0]
    size = n * (n + 1)
    arcs = work[:size].reshape(n, n + 1)
    room = work[size + to_line(work[size:]) :]
    square = even(n) * padded(n)
    matrix = room[:square].reshape(even(n), padded(n))
    scale = scaled_arcs(table, single_root, arcs)
    if scale == -np.inf:
        return -np.inf
    laplacian(arcs, single_root, matrix)
    log_det = invert(matrix, room[square:])
    if log_det > -np.inf and read_marginals(arcs, single_root, matrix, mu):
        return scale + log_det
    return careful_marginals(table, single_root, work, mu)


# --- four trees at a time ---------------------------------------------------------------------


@leaf
def four_trees_work(n):
    """Length of the scratch vector of :func:`four_trees`, for n words."""
    return LANES * (n * n + n // LANES + n % LANES + 5)


@leaf
def _laplacians(arcs, single_root, matrices, found):
    """Interleaved transposes of T."""
    n = arcs.shape[1]
    shifts, sums = found[:LANES], found[LANES : 2 * LANES]
    for d in range(n):
        for k in range(LANES):
            shifts[k] = arcs[k, d, 0] / n if single_root else 0.0
        laplacian_column(arcs, d, shifts, matrices, sums)
        corner = LANES * (d * n + d)
        for k in range(LANES):
            root = shifts[k] if single_root else arcs[k, d, 0]
            matrices[corner + k] = root + sums[k]


@leaf
def _read_four(arcs, single_root, matrices, found):
    """Marginals of four trees in place of arcs; a bit for each tree where they are accurate."""
    n = arcs.shape[1]
    bits = 2**LANES - 1
    for d in range(n):
        weigh_lanes(arcs, d, matrices, found)
        place = LANES * (d * n + d)
        for k in range(LANES):
            corner = matrices[place + k]
            spread = found[2 * LANES + k] / n if single_root else corner
            sums = (found[k], found[LANES + k])
            if not _finish_word(arcs[k, d], spread, corner, sums, arcs[k, d]):
                bits &= ~(1 << k)
    return bits


@leaf
def four_trees(arcs, single_root, work, values):
    """Replace the arcs of four trees of n words by their probabilities.

    Parameters
    ----------
    arcs : array of shape (4, n, n + 1)
        Results of :func:`scaled_arcs`.
    single_root : bool
    work : array
        Scratch of length ``four_trees_work(n)``.
    values : array of length 4
        Logarithms of the scales; ``log Z`` of each tree is written to it.

    Returns
    -------
    int
        Bit k is 1 if this worked for tree k; otherwise it needs :func:`tree_marginals`.
    """
    n = arcs.shape[1]
    start, square = to_line(work), LANES * n * n
    matrices, rest = work[start : start + square], work[start + square :]
    found, products = rest[: 3 * LANES], rest[3 * LANES :]
    for scale in values:
        if scale == -np.inf:
            return 0
    _laplacians(arcs, single_root, matrices, found)
    bits = invert_lanes(matrices, n, products)
    for k in range(LANES):
        product = 1.0
        for row in range(n // LANES + n % LANES):
            product *= products[LANES * row + k]
            if product < SMALL or product > 1.0 / SMALL:
                values[k] += np.log(product)
                product = 1.0
        values[k] += np.log(product)
    return bits & _read_four(arcs, single_root, matrices, found)


# --- without subtraction, in logarithms -------------------------------------------------------


@leaf
def _log_add(a, b):
    low, high = min(a, b), max(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@leaf
def _eliminate(arcs, kept, outflow):
    """Remove all words but ``kept`` (-1: all) from the graph, the last one first.

    Probabilities of walks between the remaining words do not change. ``outflow[k]`` is the log of
    the sum of the arcs of word k when it is removed; returns their sum, minus infinity if some word
    has no arc.
    """
    n = arcs.shape[0]
    total = 0.0
    for k in range(n - 1, -1, -1):
        if k == kept:
            continue
        out = arcs[k, 0]
        for h in range(n):
            if h < k or h == kept:
                out = _log_add(out, arcs[k, h + 1])
        outflow[k] = out
        if out == -np.inf:
            return -np.inf
        total += out
        for i in range(n):
            if (i < k or i == kept) and arcs[i, k + 1] > -np.inf:
                through = arcs[i, k + 1] - out
                arcs[i, 0] = _log_add(arcs[i, 0], through + arcs[k, 0])
                for h in range(n):
                    if h != i and (h < k or h == kept):
                        arcs[i, h + 1] = _log_add(arcs[i, h + 1], through + arcs[k, h + 1])
    return total


@leaf
def _reach(arcs, kept, outflow, reach):
    """``reach[k]``: log of the probability to reach the root before ``kept``, from word k."""
    n = arcs.shape[0]
    for k in range(n):
        if k == kept:
            reach[k] = -np.inf
            continue
        value = arcs[k, 0]
        for h in range(k):
            if h != kept:
                value = _log_add(value, arcs[k, h + 1] + reach[h])
        reach[k] = value - outflow[k]


@leaf
def _load(table, shift, arcs):
    n = table.shape[0]
    for d in range(n):
        arcs[d, 0] = table[d, 0] + shift
        for h in range(n):
            arcs[d, h + 1] = table[d, h + 1] if h != d else -np.inf


@leaf
def _of_one_root(table):
    """Logarithm of a factor of arcs from the root that no tree with two of them makes up for."""
    found = _ONE_ROOT
    for row in table:
        low, high = np.inf, -np.inf
        for score in row:
            if score > -np.inf:
                low, high = min(low, score), max(high, score)
        found -= max(0.0, high - low)
    return found


@leaf
def careful_marginals(table, single_root, work, mu):
    """The same as :func:`tree_marginals` for any scores, in O(n^4)."""
    n = table.shape[0]
    size = n * (n + 1)
    arcs = work[:size].reshape(n, n + 1)
    outflow, reach = work[size : size + n], work[size + n : size + 2 * n]
    shift = _of_one_root(table) if single_root else 0.0
    _load(table, shift, arcs)
    log_z = _eliminate(arcs, -1, outflow) - shift
    if log_z == -np.inf:
        return -np.inf
    for d in range(n):
        _load(table, shift, arcs)
        if not _eliminate(arcs, d, outflow) > -np.inf:
            return -np.inf
        _reach(arcs, d, outflow, reach)
        mu[d, 0] = table[d, 0] + shift
        for h in range(n):
            mu[d, h + 1] = table[d, h + 1] + reach[h] if h != d else -np.inf
        top = largest(mu[d])
        if top == -np.inf:
            return -np.inf
        total = exp_row(mu[d], top, mu[d])
        share = 1.0 / total
        for h in range(n + 1):
            mu[d, h] *= share
    roots = 0.0
    for d in range(n):
        roots += mu[d, 0]
    return log_z if roots < 1.5 or not single_root else -np.inf
