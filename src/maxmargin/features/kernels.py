"""Rows given by a kernel: weights are combinations of the training rows.

With features ``f(x)`` of which only the inner products ``k(x, z) = f(x) @ f(z)`` are known, a
weight matrix is stored as one row of coefficients per training row,
``W = sum_j f(x_j) (outer) beta_j``. So the "inputs" of these rows are the training rows: scores
of row r are ``sum_j k(x_r, x_j) beta_j``, and adding ``f(x_r) (outer) v`` changes ``beta_r`` only.
The constant of an intercept is an explicit last row, as in :mod:`maxmargin.features.rows`.

Callers must only treat the norm differently: these are not orthogonal coordinates, and
``|W|^2 = sum_ij k(x_i, x_j) beta_i @ beta_j``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.exponential import exp_row
from .._kernels.jit import compiled, implements, inner, leaf
from .._kernels.protocol import (
    add_row,
    cross_products,
    prefetch_rows,
    products_with,
    row_product,
    score_rows,
)
from .._kernels.vector import add_scaled, dot, sum_rows
from .rows import COEFFICIENTS, FeatureRows, add_coefficients, products_of_pairs

_UNKNOWN = np.inf  # marks a kernel value that was not needed yet
RBF, POLY = 0, 1


class KernelRows(NamedTuple):
    """Inner products computed when needed, with a cache of recent ones.

    Row r is cached in line ``r % len(lines)``; ``owners`` has the row whose values a line holds,
    and values that were not needed yet are infinite. The cache does not change any score.
    """

    features: FeatureRows
    kind: int
    gamma: float
    degree: int
    coef0: float
    lines: np.ndarray
    owners: np.ndarray
    remembers: bool
    squares: np.ndarray
    bias: float
    n_inputs: int

    @property
    def weighs(self) -> str:
        """What weights belong to."""
        return COEFFICIENTS

    @property
    def without_bias(self) -> KernelRows:
        """The same rows for scores without the constant, in threads too."""
        return self._replace(bias=0.0, remembers=False)

    @property
    def for_reading(self) -> KernelRows:
        """The same rows for threads, which read the cache but do not write to it."""
        return self._replace(remembers=False)


# --- values when needed ----------------------------------------------------------------------


@leaf
def _used_rows(matrix, n_rows, used):
    """List the rows of ``matrix`` that are not zero; returns their number."""
    count = 0
    for j in range(n_rows):
        for k in range(matrix.shape[1]):
            if matrix[j, k] != 0.0:
                used[count] = j
                count += 1
                break
    return count


@leaf
def _apply_kernel(rows, row, others, values):
    """Turn inner products of the features of ``row`` and of ``others`` into kernel values."""
    if rows.kind == RBF:
        squares = rows.features.squares
        for p in range(values.shape[0]):
            square = squares[row] + squares[others[p]] - 2.0 * values[p]
            values[p] = -rows.gamma * square if square > 0.0 and others[p] != row else 0.0
        exp_row(values, 0.0, values)
        return
    for p in range(values.shape[0]):
        value = rows.gamma * values[p] + rows.coef0
        power = value
        for _ in range(rows.degree - 1):
            power *= value
        values[p] = power


@inner
def _kernel_values(rows, row, others, values):
    """``values[p] = k(x_row, x_others[p])``, from the cache where possible."""
    count = others.shape[0]
    n_lines = rows.lines.shape[0]
    slot = row % n_lines if n_lines > 0 else 0
    known = n_lines > 0 and rows.owners[slot] == row
    if n_lines > 0 and rows.remembers and not known:
        rows.owners[slot] = row
        rows.lines[slot, :] = _UNKNOWN
        known = True
    if not known:
        products_with(rows.features, row, others, values)
        _apply_kernel(rows, row, others, values)
        return
    line = rows.lines[slot]
    missing = np.empty(count, np.int64)
    n_missing = 0
    for p in range(count):
        values[p] = line[others[p]]
        if values[p] == _UNKNOWN:
            missing[n_missing] = p
            n_missing += 1
    wanted = np.empty(n_missing, np.int64)
    new = np.empty(n_missing)
    for m in range(n_missing):
        wanted[m] = others[missing[m]]
    products_with(rows.features, row, wanted, new)
    _apply_kernel(rows, row, wanted, new)
    for m in range(n_missing):
        values[missing[m]] = new[m]
        if rows.remembers:
            line[wanted[m]] = new[m]


@implements(score_rows, KernelRows, allocates=True)
def _score_kernel(rows, matrix, first, last, out):
    n_rows = rows.features.squares.shape[0]
    used = np.empty(n_rows, np.int64)
    count = _used_rows(matrix, n_rows, used)
    used = used[:count]
    values = np.empty(count)
    constant = matrix[matrix.shape[0] - 1]
    for row in range(first, last):
        _kernel_values(rows, row, used, values)
        sum_rows(matrix, used, values, 0, count, constant, rows.bias, out[row - first])


@implements(row_product, KernelRows, allocates=True)
def _product_kernel(rows, row, other):
    others, values = np.empty(1, np.int64), np.empty(1)
    others[0] = other
    values[0] = row_product(rows.features, row, other)
    _apply_kernel(rows, row, others, values)
    return values[0] + rows.bias * rows.bias


@implements(add_row, KernelRows)
def _add_kernel(rows, matrix, row, values, scale):
    add_coefficients(matrix, row, values, scale)
    if rows.bias != 0.0:
        add_scaled(matrix[rows.n_inputs - 1], values, scale * rows.bias)


@implements(prefetch_rows, KernelRows)
def _prefetch_kernel(rows, first, last):
    pass  # a score reads more than the cache holds: the hardware prefetches a sequential read


@implements(cross_products, KernelRows)
def _cross_products(rows, first, unary, moved_at, moved, scratch):
    return products_of_pairs(rows, first, unary, moved_at, moved)


@compiled
def squared_combination(rows, matrix, first, last):
    """``sum_i beta_i @ (K beta)_i`` over a range of rows; ``rows`` without bias."""
    scores = np.empty((1, matrix.shape[1]))
    total = 0.0
    for row in range(first, last):
        if dot(matrix[row], matrix[row]) != 0.0:
            score_rows(rows, matrix, row, row + 1, scores)
            total += dot(scores[0], matrix[row])
    return total
