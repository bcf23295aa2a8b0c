"""Assignment: the permutation of largest weight, by shortest augmenting paths.

``max_y sum_i weights[i, y_i]`` over permutations y; its linear program has the dual
``min sum(u) + sum(v)`` subject to ``u_i + v_j >= weights[i, j]``. Rows are added one at a time
along a shortest path of reduced costs ``u_i + v_j - weights[i, j]``, after a greedy start: exact,
in O(n^3). A weight of minus infinity forbids a pair.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled, leaf


@leaf
def assignment_work(n):
    """Length of the scratch vector of :func:`assign` for n rows."""
    return 7 * n


@leaf
def _start(weights, u, v, match, columns):
    """Feasible potentials, and a matching of rows to columns without reduced cost.

    Returns whether every row and column has a pair that is not forbidden.
    """
    n = weights.shape[0]
    for j in range(n):
        v[j] = -np.inf
        match[j] = -1.0
    for i in range(n):
        top = -np.inf
        for j in range(n):
            top = max(top, weights[i, j])
        if top == -np.inf:
            return False
        u[i] = top
        for j in range(n):
            v[j] = max(v[j], weights[i, j] - top)
    for j in range(n):
        if v[j] == -np.inf:
            return False
    for i in range(n):
        columns[i] = -1.0
        for j in range(n):
            if match[j] < 0.0 and weights[i, j] - u[i] >= v[j]:
                match[j] = i
                columns[i] = j
                break
    return True


@leaf
def _augment(weights, u, v, match, columns, distance, before, scanned, row):
    """Give ``row`` a column along the shortest path; False if there is none."""
    n = weights.shape[0]
    for j in range(n):
        distance[j] = u[row] + v[j] - weights[row, j]
        before[j] = row
        scanned[j] = 0.0
    while True:
        nearest, low = -1, np.inf
        for j in range(n):
            if scanned[j] == 0.0 and distance[j] < low:
                low = distance[j]
                nearest = j
        if nearest < 0:
            return False
        scanned[nearest] = 1.0
        i = int(match[nearest])
        if i < 0:
            break
        # The reduced cost of a matched pair is 0: the path to row i is as long as to its column.
        offset = low + u[i]
        for j in range(n):
            if scanned[j] == 0.0:
                length = offset + v[j] - weights[i, j]
                if length < distance[j]:
                    distance[j] = length
                    before[j] = i
    for j in range(n):
        if scanned[j] > 0.0 and distance[j] < low:
            v[j] += low - distance[j]
            u[int(match[j])] -= low - distance[j]
    u[row] -= low
    j = nearest
    for _ in range(n):  # no path is longer
        i = int(before[j])
        match[j] = i
        following = columns[i]
        columns[i] = j
        if i == row:
            return True
        j = int(following)
    return False


@leaf
def forbid_others(part, width, scores):
    """Forbid the other entries of the row of a flat table that a part is in."""
    begin = part // width * width
    for other in range(begin, begin + width):
        if other != part:
            scores[other] = -np.inf


@leaf
def best_weight(weights, work):
    """Weight of the best permutation; minus infinity if every permutation is forbidden.

    ``work``, of length ``assignment_work(n)``, holds the dual potentials of the rows, then of the
    columns, and, at its end, the column of each row afterwards.
    """
    n = weights.shape[0]
    u, v, match = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    distance, before, scanned = work[3 * n : 4 * n], work[4 * n : 5 * n], work[5 * n : 6 * n]
    columns = work[6 * n : 7 * n]
    if not _start(weights, u, v, match, columns):
        return -np.inf
    total = 0.0
    for i in range(n):
        if columns[i] < 0.0 and not _augment(
            weights, u, v, match, columns, distance, before, scanned, i
        ):
            return -np.inf
    for i in range(n):
        total += weights[i, int(columns[i])]
    return total


@leaf
def assign(weights, work, labels):
    """Write the best column of each row into ``labels`` and return the weight of the permutation.

    Parameters
    ----------
    weights : (n, n) array
        Minus infinity forbids a pair.
    work : array
        Scratch of length ``assignment_work(n)``; holds the dual potentials of the rows, then of
        the columns, afterwards.
    labels : (n,) array of int32

    Returns
    -------
    float
        Minus infinity if every permutation is forbidden; ``labels`` are then meaningless.
    """
    n = weights.shape[0]
    total = best_weight(weights, work)
    for i in range(n):
        labels[i] = int(work[6 * n + i]) if total > -np.inf else 0
    return total


@compiled
def assign_all(weights, labels):
    """Best columns for each of many matrices, ``(m, n, n)`` into ``(m, n)``."""
    work = np.empty(assignment_work(weights.shape[1]))
    for i in range(weights.shape[0]):
        assign(weights[i], work, labels[i])


@compiled
def assign_each(weights, indptr, labels):
    """Best columns for flat matrices of different sizes, concatenated."""
    n_largest = 0
    for i in range(indptr.shape[0] - 1):
        n_largest = max(n_largest, indptr[i + 1] - indptr[i])
    work = np.empty(assignment_work(n_largest))
    first = 0
    for i in range(indptr.shape[0] - 1):
        n = indptr[i + 1] - indptr[i]
        matrix = weights[first : first + n * n].reshape(n, n)
        assign(matrix, work, labels[indptr[i] : indptr[i + 1]])
        first += n * n
