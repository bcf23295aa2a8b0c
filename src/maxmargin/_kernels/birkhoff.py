"""Doubly stochastic matrices: projection onto them, and repair of a nearly doubly stochastic one.

The Birkhoff polytope is the set of non-negative matrices whose rows and columns sum to one: the
convex hull of permutation matrices. The Euclidean projection of Z is ``(Z - p_i - q_j)_+`` with
potentials p of the rows and q of the columns. For given q the rows are projections onto the
simplex; the remaining problem is a smooth convex function of q alone, minimised by Newton steps.
Its Hessian is the Laplacian of a graph in which columns are joined that are positive in the same
row. The function is piecewise quadratic, so the last step is exact.

References
----------
Blondel, Seguy, Rolet. Smooth and sparse optimal transport. AISTATS 2018.
Altschuler, Weed, Rigollet. Near-linear time approximation algorithms for optimal transport via
Sinkhorn iteration. NeurIPS 2017.
"""

from __future__ import annotations

import numpy as np

from .assignment import assignment_work, best_weight
from .jit import leaf

# Allowed error of the sum of a column: a few rounding errors.
PROJECTION_ERROR = 1e-13
_MOST_STEPS = 100
# Rounding error of sums near one; divided by a small weight of the graph it would be a long step.
_NOISE = 1e-15
_NO_LINK = 1e-100


@leaf
def birkhoff_work(n):
    """Length of the scratch vector of :func:`project_birkhoff` for n rows."""
    return n * n + 3 * n + assignment_work(n)


@leaf
def _project_rows(matrix, q, out, sums):
    """Row by row ``out = (matrix - q - p)_+`` with sum one; ``sums`` receives sums of columns."""
    n = matrix.shape[0]
    for j in range(n):
        sums[j] = 0.0
    for i in range(n):
        row = out[i]
        top = -np.inf
        for j in range(n):
            row[j] = matrix[i, j] - q[j]
            top = max(top, row[j])
        total, count = 0.0, 0
        for j in range(n):  # only entries within 1 of the largest can stay positive
            row[j] -= top
            if row[j] > -1.0:
                total += row[j]
                count += 1
        threshold = (total - 1.0) / count
        while True:  # drop entries below the threshold, which never decreases
            total, kept = 0.0, 0
            for j in range(n):
                if row[j] > threshold:
                    total += row[j]
                    kept += 1
            if kept >= count:
                break
            count = kept
            threshold = (total - 1.0) / kept
        for j in range(n):
            row[j] = max(row[j] - threshold, 0.0)
            sums[j] += row[j]


@leaf
def solve_laplacian(laplacian, right):
    """Solve ``laplacian @ x = right`` in place, for a graph Laplacian of which only the
    off-diagonal part (negative weights, lower triangle) is given.

    Elimination turns a Laplacian into a Laplacian; its diagonal is computed as a sum at each step,
    without subtraction, and so loses no digits for any weights. A component has a residual at its
    root, zero if the system has a solution; the root is changed by this amount.
    """
    n = laplacian.shape[0]
    for k in range(n - 1, 0, -1):
        degree = 0.0
        for j in range(k):
            degree -= laplacian[k, j]
        laplacian[k, k] = degree
        if abs(right[k]) <= _NOISE:
            right[k] = 0.0
        if degree <= _NO_LINK:
            continue
        share = right[k] / degree
        for j in range(k):
            link = laplacian[k, j]
            if link != 0.0:
                right[j] -= link * share
                factor = link / degree
                for m in range(j):
                    laplacian[j, m] -= factor * laplacian[k, m]
    for k in range(1, n):
        degree = laplacian[k, k]
        if degree <= _NO_LINK:
            continue
        total = right[k]
        for j in range(k):
            total -= laplacian[k, j] * right[j]
        right[k] = total / degree


@leaf
def _newton_direction(out, sums, laplacian, step):
    """Change of the potentials of the columns that makes the sums one, to first order."""
    n = out.shape[0]
    for j in range(n):
        step[j] = sums[j] - 1.0
        for k in range(j):
            laplacian[j, k] = 0.0
    for i in range(n):
        row = out[i]
        count = 0
        for j in range(n):
            if row[j] > 0.0:
                count += 1
        share = 1.0 / count
        for j in range(n):
            if row[j] > 0.0:
                for k in range(j):
                    if row[k] > 0.0:
                        laplacian[j, k] -= share
    solve_laplacian(laplacian, step)


@leaf
def _largest_error(sums):
    error = 0.0
    for j in range(sums.shape[0]):
        error = max(error, abs(sums[j] - 1.0))
    return error


@leaf
def project_birkhoff(matrix, work, out):
    """Write the nearest doubly stochastic matrix; returns the largest error of a sum of a column.

    Rows sum to one up to rounding. ``work`` has length ``birkhoff_work(n)``.
    """
    n = matrix.shape[0]
    laplacian = work[: n * n].reshape(n, n)
    q, sums, step = (
        work[n * n : n * n + n],
        work[n * n + n : n * n + 2 * n],
        work[n * n + 2 * n : n * n + 3 * n],
    )
    rest = work[n * n + 3 * n :]
    # Dual potentials of the assignment put a permutation into the support from the start.
    best_weight(matrix, rest)
    for j in range(n):
        q[j] = rest[n + j]
    scale = 1.0
    for i in range(n):
        scale = max(scale, abs(rest[i]), abs(q[i]))
    tolerance = PROJECTION_ERROR * scale
    _project_rows(matrix, q, out, sums)
    error = _largest_error(sums)
    for _ in range(_MOST_STEPS):
        if error <= tolerance:
            break
        slope = 0.0
        _newton_direction(out, sums, laplacian, step)
        before = rest[n : 2 * n]
        for j in range(n):
            before[j] = q[j]
            slope += (1.0 - sums[j]) * step[j]
        length, low, high = 1.0, 0.0, np.inf
        low_slope = slope
        for _ in range(30):
            for j in range(n):
                q[j] = before[j] + length * step[j]
            _project_rows(matrix, q, out, sums)
            here = 0.0
            for j in range(n):
                here += (1.0 - sums[j]) * step[j]
            if abs(here) <= -0.5 * slope:
                break
            if here < 0.0:
                low, low_slope = length, here
                length = 2.0 * length if high == np.inf else 0.5 * (low + high)
            else:
                high = length
                share = low_slope / (low_slope - here)
                length = low + (high - low) * min(0.9, max(0.1, share))
        error = _largest_error(sums)
    return error


@leaf
def round_to_birkhoff(matrix, work):
    """Make a non-negative matrix doubly stochastic up to rounding, by a small change.

    Rows, then columns, are scaled down to at most one; the missing mass is added as a product of
    the deficits. The change is at most about the sum of all errors. ``work`` holds 2 n numbers.
    """
    n = matrix.shape[0]
    rows, columns = work[:n], work[n : 2 * n]
    columns[:] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += matrix[i, j]
        scale = 1.0 / total if total > 1.0 else 1.0
        for j in range(n):
            matrix[i, j] *= scale
            columns[j] += matrix[i, j]
    for j in range(n):
        columns[j] = 1.0 / columns[j] if columns[j] > 1.0 else 1.0
    for i in range(n):
        rows[i] = 1.0
        for j in range(n):
            matrix[i, j] *= columns[j]
            rows[i] -= matrix[i, j]
        rows[i] = max(rows[i], 0.0)
    missing = 0.0
    for j in range(n):
        columns[j] = 1.0
        for i in range(n):
            columns[j] -= matrix[i, j]
        columns[j] = max(columns[j], 0.0)
        missing += columns[j]
    if missing > 0.0:
        for i in range(n):
            for j in range(n):
                matrix[i, j] += rows[i] * columns[j] / missing
