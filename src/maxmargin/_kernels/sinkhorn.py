"""Projection onto doubly stochastic matrices in the Kullback-Leibler geometry.

``argmax_X <logits, X> - sum_ij X_ij log X_ij`` over doubly stochastic X is
``exp(logits - p_i - q_j)`` with potentials of rows and columns. Rows and columns are normalised in
turn (Sinkhorn); where that is slow, Newton steps on the potentials of the columns are used, whose
Hessian is a graph Laplacian with weights ``sum_i X_ij X_ik``. The matrix itself is rescaled in
every step, so no factor can overflow. If scores differ so much that entries would underflow, they
are first projected at a higher temperature, whose potentials shift them for a lower one, until the
temperature is one.

References
----------
Cuturi. Sinkhorn distances: lightspeed computation of optimal transport. NeurIPS 2013.
Brauer, Clason, Lorenz, Wirth. A Sinkhorn-Newton method for entropic optimal transport. 2017.
"""

from __future__ import annotations

import numpy as np

from .birkhoff import solve_laplacian
from .jit import leaf
from .vector import add_scaled, dot

# Scores with a larger difference than this are exponentiated at a higher temperature first.
_FAR_APART = 200.0
_COOLING = 4.0
_WARM_TOLERANCE = 1e-3
# Newton steps begin where scaling leaves more than this share of the error.
_SLOW = 0.3
_MOST_STEPS = 200


@leaf
def sinkhorn_work(n):
    """Length of the scratch vector of :func:`sinkhorn` for n rows."""
    return n * n + 8 * n


@leaf
def _spread(logits):
    lowest, highest = np.inf, -np.inf
    for i in range(logits.shape[0]):
        for j in range(logits.shape[0]):
            lowest = min(lowest, logits[i, j])
            highest = max(highest, logits[i, j])
    return highest - lowest


@leaf
def _normalize_rows(out, ones, sums, shrunk):
    """Scale rows to sum one, with factors in ``shrunk``; ``sums`` receives the sums of the columns.

    Returns their largest error.
    """
    n = out.shape[0]
    sums[:] = 0.0
    for i in range(n):
        row = out[i]
        scale = 1.0 / dot(row, ones)
        shrunk[i] *= scale
        for j in range(n):
            row[j] *= scale
        add_scaled(sums, row, 1.0)
    error = 0.0
    for j in range(n):
        error = max(error, abs(sums[j] - 1.0))
    return error


@leaf
def _scale_columns(out, factors, shrunk):
    n = out.shape[0]
    for i in range(n):
        row = out[i]
        for j in range(n):
            row[j] *= factors[j]
    for j in range(n):
        shrunk[j] *= factors[j]


@leaf
def _newton_step(out, ones, sums, laplacian, step, factors, shrunk):
    """One damped Newton step on the potentials of the columns, rows normalised after it."""
    n = out.shape[0]
    for j in range(n):
        step[j] = sums[j] - 1.0
        laplacian[j, :j] = 0.0
    for i in range(n):
        row = out[i]
        for j in range(1, n):
            add_scaled(laplacian[j, :j], row[:j], -row[j])
    solve_laplacian(laplacian, step)
    slope, largest = 0.0, 0.0
    for j in range(n):
        slope += (1.0 - sums[j]) * step[j]
        largest = max(largest, abs(step[j]))
    length = min(1.0, 20.0 / largest) if largest > 0.0 else 1.0
    low, low_slope = 0.0, slope
    applied = 0.0
    error = np.inf
    for _ in range(20):
        for j in range(n):
            factors[j] = np.exp((applied - length) * step[j])
        _scale_columns(out, factors, shrunk[n:])
        applied = length
        error = _normalize_rows(out, ones, sums, shrunk)
        here = 0.0
        for j in range(n):
            here += (1.0 - sums[j]) * step[j]
        if here <= -0.5 * slope:  # a step may be too short, but not too long
            break
        share = low_slope / (low_slope - here)
        length = low + (length - low) * min(0.7, max(0.1, share))
    return error


@leaf
def _balance(out, tolerance, laplacian, vectors, shrunk):
    """Scale rows and columns of a positive matrix until it is doubly stochastic."""
    n = out.shape[0]
    sums, step, ones, factors = (
        vectors[:n],
        vectors[n : 2 * n],
        vectors[2 * n : 3 * n],
        vectors[3 * n : 4 * n],
    )
    ones[:] = 1.0
    shrunk[:] = 1.0
    error = _normalize_rows(out, ones, sums, shrunk)
    for _ in range(_MOST_STEPS):
        if error <= tolerance:
            break
        before = error
        for j in range(n):
            factors[j] = 1.0 / sums[j]
        _scale_columns(out, factors, shrunk[n:])
        error = _normalize_rows(out, ones, sums, shrunk)
        if error > _SLOW * before and error > tolerance:
            error = _newton_step(out, ones, sums, laplacian, step, factors, shrunk)
    return error


@leaf
def sinkhorn(logits, tolerance, work, out):
    """Write the doubly stochastic matrix nearest to ``exp(logits)`` in Kullback-Leibler divergence.

    Parameters
    ----------
    logits : (n, n) array of finite numbers
    tolerance : float
        Largest error of the sum of a column at which to stop; rows sum to one up to rounding.
    work : array
        Scratch of length ``sinkhorn_work(n)``.
    out : (n, n) array
        The answer.

    Returns
    -------
    float
        The largest error of the sum of a column.
    """
    n = logits.shape[0]
    laplacian = work[: n * n].reshape(n, n)
    vectors = work[n * n : n * n + 4 * n]
    shrunk = work[n * n + 4 * n : n * n + 6 * n]  # factors of rows, then of columns
    potentials = work[n * n + 6 * n : n * n + 8 * n]
    potentials[:] = 0.0
    temperature = max(1.0, 2.0 * _spread(logits) / _FAR_APART)
    if temperature <= 2.0:
        temperature = 1.0
    while True:
        for i in range(n):
            top = -np.inf
            for j in range(n):
                out[i, j] = logits[i, j] - potentials[i] - potentials[n + j]
                top = max(top, out[i, j])
            potentials[i] += top
            for j in range(n):
                out[i, j] = np.exp((out[i, j] - top) / temperature)
        if temperature == 1.0:
            return _balance(out, tolerance, laplacian, vectors, shrunk)
        _balance(out, _WARM_TOLERANCE, laplacian, vectors, shrunk)
        for k in range(2 * n):
            potentials[k] -= temperature * np.log(shrunk[k])
        temperature = max(1.0, temperature / _COOLING)
