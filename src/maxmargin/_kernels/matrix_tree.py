"""Distributions over directed spanning trees: log partition function and marginals of arcs.

A tree has the probability ``exp(score) / Z``. With ``A[d, h]`` the exponential of an arc's score
and T the Laplacian, ``T[d, d] = sum_h A[d, h]`` and ``T[d, h] = -A[d, h]``, the matrix-tree theorem
says ``Z = det T``, and, with S the inverse of T,
``P(h is the head of d) = A[d, h] (S[d, d] - S[h, d])``.

*A single root*: T without the arcs rho of the root is singular, and ``Z = det(T + rho 1'/n)``.

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

from .exponential import exp_row
from .jit import leaf
from .maxima import largest
from .vector import add_scaled

# Marginals of a word whose sum differs from 1 by more than this are not accurate.
_ACCURATE = 1e-11
# Logarithm of the factor that makes a second arc from the root impossible.
_ONE_ROOT = -3e4


@leaf
def matrix_tree_work(n):
    """Length of the scratch vector of the functions here, for n words."""
    return n * (n + 1) + n * n + 3 * n


@leaf
def _swap_rows(matrix, a, b):
    for k in range(matrix.shape[1]):
        matrix[a, k], matrix[b, k] = matrix[b, k], matrix[a, k]


@leaf
def invert(matrix, pivots):
    """Replace a matrix by its inverse (Gauss-Jordan); returns the log of |det|, -inf if
    singular."""
    n = matrix.shape[0]
    log_det = 0.0
    for k in range(n):
        chosen = k
        for r in range(k + 1, n):
            if abs(matrix[r, k]) > abs(matrix[chosen, k]):
                chosen = r
        pivots[k] = chosen
        if chosen != k:
            _swap_rows(matrix, chosen, k)
        pivot = matrix[k, k]
        if pivot == 0.0:
            return -np.inf
        log_det += np.log(abs(pivot))
        row = matrix[k]
        row[k] = 1.0
        inverse = 1.0 / pivot
        for c in range(n):
            row[c] *= inverse
        for r in range(n):
            if r != k:
                factor = matrix[r, k]
                matrix[r, k] = 0.0
                add_scaled(matrix[r], row, -factor)
    for k in range(n - 1, -1, -1):
        other = int(pivots[k])
        if other != k:
            for r in range(n):
                matrix[r, k], matrix[r, other] = matrix[r, other], matrix[r, k]
    return log_det


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
        exp_row(table[d, first:], top, arcs[d, first:])
        if single_root:
            arcs[d, 0] = table[d, 0] - top
            most = max(most, arcs[d, 0])
    if single_root:
        if most == -np.inf:
            return -np.inf
        for d in range(n):
            arcs[d, 0] = np.exp(arcs[d, 0] - most)
        total += most
    return total


@leaf
def laplacian(arcs, single_root, matrix):
    n = arcs.shape[0]
    for d in range(n):
        total = 0.0 if single_root else arcs[d, 0]
        spread = arcs[d, 0] / n if single_root else 0.0
        for h in range(n):
            if h != d:
                total += arcs[d, h + 1]
                matrix[d, h] = spread - arcs[d, h + 1]
        matrix[d, d] = spread + total


@leaf
def read_marginals(arcs, single_root, inverse, mu):
    """Marginals from the inverse; False if they are not accurate."""
    n = arcs.shape[0]
    for d in range(n):
        corner = inverse[d, d]
        at_root = corner
        if single_root:
            at_root = 0.0
            for c in range(n):
                at_root += inverse[c, d]
            at_root /= n
        mu[d, 0] = arcs[d, 0] * at_root
        total = mu[d, 0]
        size = abs(mu[d, 0])
        for h in range(n):
            value = 0.0 if h == d else arcs[d, h + 1] * (corner - inverse[h, d])
            mu[d, h + 1] = value
            total += value
            size = max(size, arcs[d, h + 1] * abs(corner))
        if not (abs(total - 1.0) <= _ACCURATE and size * 1e-16 <= _ACCURATE):
            return False
        share = 1.0 / total
        for h in range(n + 1):
            if mu[d, h] < -_ACCURATE:
                return False
            mu[d, h] = max(mu[d, h], 0.0) * share
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
    matrix = work[size : size + n * n].reshape(n, n)
    scale = scaled_arcs(table, single_root, arcs)
    if scale == -np.inf:
        return -np.inf
    laplacian(arcs, single_root, matrix)
    log_det = invert(matrix, work[size + n * n :])
    if log_det > -np.inf and read_marginals(arcs, single_root, matrix, mu):
        return scale + log_det
    return careful_marginals(table, single_root, work, mu)


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
def careful_marginals(table, single_root, work, mu):
    """The same as :func:`tree_marginals` for any scores, in O(n^4)."""
    n = table.shape[0]
    size = n * (n + 1)
    arcs = work[:size].reshape(n, n + 1)
    outflow, reach = work[size : size + n], work[size + n : size + 2 * n]
    shift = _ONE_ROOT if single_root else 0.0
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
