"""Rows of features, dense or CSR, with an optional constant column that is never stored.

A weight matrix is kept feature by class, ``(n_inputs, n_classes)``, so that the classes, over
which every inner loop runs, are contiguous. The constant column of an intercept is its last row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._kernels.jit import compiled, implements, leaf, seldom
from .._kernels.protocol import (
    add_row,
    clear_rows,
    cross_products,
    drain_row,
    prefetch_rows,
    prefetch_weights,
    products_with,
    row_product,
    score_row,
    score_rows,
)
from .._kernels.vector import (
    add_scaled,
    dot,
    mask_row,
    prefetch,
    spread_row,
    spread_seen,
    sum_rows,
    take_masked,
)

# Below this density, products with a dense array are faster after compression.
SPARSE_BELOW = 0.3
# The same for rows that are looked at once, where the compression is part of the work.
SKIP_BELOW = 0.6
_NO_SQUARES = np.empty(0)
_NO_FLAGS, _NO_LABELS = np.empty(0, np.uint8), np.empty(0, np.int32)
# What the weights of a model belong to: features, those of a hash of features, training rows.
FEATURES, HASHED, COEFFICIENTS = "features", "hashed features", "training rows"
# Weights that a cache near the processor holds. Of more, those of the next row are asked for ahead.
_CACHED = 1 << 16
# Stored values that are squared at a time: a few MB of intermediate results.
_SQUARES_AT_ONCE = 1 << 17
_ROUNDING = 1e-14
# Bytes of single precision numbers that are worth kernels of their own. Fewer are converted.
NARROW_FROM = 1 << 26


class FeatureRows(NamedTuple):
    """Rows of numbers: features, dense or CSR, or inner products with all training rows.

    Row r is ``values[r]``, or ``data`` at ``indices`` from ``indptr[r]`` to ``indptr[r+1]``; then
    ``bias`` if it is not zero. It is one class for all, so that what works with rows is compiled
    once: arrays that are not used have no entries, and a branch per row takes no time.
    """

    values: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    squares: np.ndarray
    bias: float
    n_inputs: int
    in_kernel_space: bool = False  # weights belong to training rows: see kernels.py
    # Where columns have weights for some labels only, indices are places of weights: see states.py
    n_wide: int = 0
    seen: np.ndarray = _NO_FLAGS
    labels: np.ndarray = _NO_LABELS

    @property
    def is_dense(self) -> bool:
        """Whether every number is stored."""
        return not len(self.indptr)

    @property
    def n_columns(self) -> int:
        """Number of columns that have weights."""
        if not len(self.seen):
            return self.n_inputs
        return self.n_wide + int(np.count_nonzero(self.labels < 0))

    @property
    def most_indices(self) -> int:
        """Upper bound on the indices of columns."""
        return max(self.n_inputs, self.n_wide + len(self.labels))

    @property
    def weighs(self) -> str:
        """What weights belong to."""
        return COEFFICIENTS if self.in_kernel_space else FEATURES

    @property
    def without_bias(self) -> FeatureRows:
        """The same rows for scores without the constant."""
        return self._replace(bias=0.0)

    @property
    def for_reading(self) -> FeatureRows:
        """The same rows, for threads."""
        return self


class FreshRows(NamedTuple):
    """Dense features that are looked at once, so that zeros are skipped on the way."""

    values: np.ndarray
    data: np.ndarray  # scratch: what is not zero in a row,
    indices: np.ndarray  # where it is,
    words: np.ndarray  # and the same in bits
    bias: float
    n_inputs: int


def pack_rows(
    X, *, fit_intercept: bool, compress: bool = True, squares: bool = True
) -> FeatureRows:
    """Pack a validated dense array or sparse matrix, to be used many times.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_features)
        Less than 64 MB in single precision are converted to double.
    fit_intercept : bool
        Whether every row gets a constant 1 behind its features.
    compress : bool
        Whether a mostly zero dense array may be stored as CSR; products are the same up to
        the order of summation, and faster.
    squares : bool
        Whether the squared norms of the rows are needed: in training they are.
    """
    bias = 1.0 if fit_intercept else 0.0
    n_inputs = X.shape[1] + int(fit_intercept)
    X = widened(X)
    if not sp.issparse(X):
        X = np.ascontiguousarray(X)
        if compress and X.size and np.count_nonzero(X) < SPARSE_BELOW * X.size:
            X = _compressed(X)
        else:
            norms = _NO_SQUARES
            if squares:
                norms = np.einsum("ij,ij->i", X, X, dtype=np.float64) + bias
            return dense_rows(X, norms, bias, n_inputs)
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    norms = _NO_SQUARES
    if squares:
        norms = _squared_norms(X) + bias
    indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64)
    return _csr_rows(X.data, indices, indptr, norms, bias, n_inputs)


def _compressed(X: np.ndarray) -> sp.csr_array:
    """A CSR matrix of the numbers that are not zero; several times as fast as SciPy's."""
    if X.dtype != np.float64:
        return sp.csr_array(X)
    words = np.empty(X.shape[1] // 64 + 1, np.int64)
    indptr = np.zeros(len(X) + 1, np.int64)
    count_stored(X, words, indptr)
    data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int32)
    take_stored(X, words, indptr, indices, data)
    found = sp.csr_array((data, indices, indptr), shape=X.shape)
    found.has_canonical_format = True
    return found


@compiled
@seldom
def count_stored(values, words, indptr):
    """Write where the numbers of each row that are not zero begin."""
    for row in range(values.shape[0]):
        indptr[row + 1] = indptr[row] + mask_row(values[row], words)


@compiled
@seldom
def take_stored(values, words, indptr, indices, data):
    """Write the numbers that are not zero, and their columns."""
    for row in range(values.shape[0]):
        begin, end = indptr[row], indptr[row + 1]
        mask_row(values[row], words)
        take_masked(values[row], words, indices[begin:end], data[begin:end])


def dense_rows(
    values: np.ndarray, squares: np.ndarray, bias: float, n_inputs: int, in_kernel_space=False
) -> FeatureRows:
    """Rows of a contiguous array."""
    nothing = _read_only(np.empty(0, values.dtype)), np.empty(0, np.int32), np.empty(0, np.int64)
    return FeatureRows(_read_only(values), *nothing, squares, bias, n_inputs, in_kernel_space)


def _csr_rows(data, indices, indptr, squares, bias: float, n_inputs: int) -> FeatureRows:
    nothing = _read_only(np.empty((0, 0), data.dtype))
    return FeatureRows(nothing, _read_only(data), indices, indptr, squares, bias, n_inputs)


def widened(X: Any) -> Any:
    """Features in double precision, for which kernels are prebuilt, unless they are many."""
    stored = X.data if sp.issparse(X) else X
    return X if stored.nbytes >= NARROW_FROM else X.astype(np.float64, copy=False)


def _squared_norms(X) -> np.ndarray:
    """Squared norms of the rows of a CSR matrix; of all squares at once there would be a copy.

    In double precision: squares of single precision numbers may be beyond it.
    """
    norms = np.zeros(X.shape[0])
    step = max(1, int(_SQUARES_AT_ONCE * X.shape[0] / max(1, X.nnz)))
    for first in range(0, X.shape[0], step):
        indptr = X.indptr[first : first + step + 1]
        squares = np.square(X.data[indptr[0] : indptr[-1]], dtype=np.float64)
        filled = np.flatnonzero(np.diff(indptr))
        if len(filled):
            sums = np.add.reduceat(squares, (indptr - indptr[0])[filled])
            norms[first : first + step][filled] = sums
    return norms


def _read_only(values: np.ndarray) -> np.ndarray:
    """The same numbers, for reading.

    An array that must not be written to, as from a memory map, is of another type when compiled.
    If all are of that type, no kernel is compiled twice.
    """
    view = values.view()
    view.flags.writeable = False
    return view


def fresh_rows(values: np.ndarray, bias: float) -> FreshRows:
    """Rows of a finite, contiguous array of floats, to be scored only."""
    d = values.shape[1]
    scratch = np.empty(d), np.empty(d, np.int32), np.empty(d // 64 + 1, np.int64)
    return FreshRows(_read_only(values), *scratch, bias, d + int(bias != 0.0))


def sparse_rows(data, indices, indptr, bias: float, n_features: int) -> FeatureRows:
    """Rows of the parts of a CSR matrix, to be scored only: columns may come twice in a row."""
    return _csr_rows(data, indices, indptr, _NO_SQUARES, bias, n_features + int(bias != 0.0))


def features_of(rows: FreshRows | FeatureRows) -> Any:
    """The array or CSR matrix that rows without a bias were packed from."""
    if isinstance(rows, FreshRows):
        return rows.values
    shape = (len(rows.indptr) - 1, rows.n_inputs)
    X = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


@implements(score_rows, FreshRows)
def _score_fresh(rows, matrix, first, last, out):
    n_features = rows.values.shape[1]
    constant = matrix[rows.n_inputs - 1]  # without an intercept it counts zero times
    for row in range(first, last):
        scores = out[row - first]
        values = rows.values[row]
        count = mask_row(values, rows.words)
        if count > SKIP_BELOW * n_features:
            sum_rows(matrix, None, values, 0, n_features, constant, rows.bias, scores)
        else:
            take_masked(values, rows.words, rows.indices, rows.data)
            sum_rows(matrix, rows.indices, rows.data, 0, count, constant, rows.bias, scores)


@compiled
def scores_of(rows, weights, out):
    """Write the scores of all rows."""
    n = out.shape[1]
    score_rows(rows, weights[: rows.n_inputs * n].reshape(rows.n_inputs, n), 0, len(out), out)


@leaf
def _is_dense(rows):
    return rows.indptr.shape[0] == 0


@leaf
def _restricted(rows):
    """Whether columns have weights for some labels only."""
    return rows.seen.shape[0] > 0


@leaf
def _first_narrow(rows, row):
    """First of the entries of a row whose columns have few labels: they are the last ones."""
    place = rows.indptr[row + 1]
    while place > rows.indptr[row] and rows.indices[place - 1] >= rows.n_wide:
        place -= 1
    return place


@leaf
def _score_seen(rows, matrix, first, last, out):
    flat = matrix.reshape(matrix.size)
    constant = matrix[rows.n_inputs - 1]
    before = rows.n_wide * (matrix.shape[1] - 1)
    for row in range(first, last):
        begin, narrow, end = rows.indptr[row], _first_narrow(rows, row), rows.indptr[row + 1]
        scores = out[row - first]
        sum_rows(matrix, rows.indices, rows.data, begin, narrow, constant, rows.bias, scores)
        for place in range(narrow, end):
            value = np.float64(rows.data[place])
            slot = before + rows.indices[place]
            label = rows.labels[rows.indices[place] - rows.n_wide]
            while label >= 0:
                scores[label] += value * flat[slot]
                slot += 1
                label = rows.labels[slot - before - rows.n_wide]
            scores[~label] += value * flat[slot]


@leaf
def _add_seen(rows, matrix, row, values, scale):
    flat = matrix.reshape(matrix.size)
    before = rows.n_wide * (matrix.shape[1] - 1)
    begin, narrow, end = rows.indptr[row], _first_narrow(rows, row), rows.indptr[row + 1]
    spread_seen(matrix, rows.indices, rows.data, begin, narrow, values, scale, rows.seen)
    for place in range(narrow, end):
        change = scale * rows.data[place]
        slot = before + rows.indices[place]
        label = rows.labels[rows.indices[place] - rows.n_wide]
        while label >= 0:
            flat[slot] += change * values[label]
            slot += 1
            label = rows.labels[slot - before - rows.n_wide]
        flat[slot] += change * values[~label]


@leaf
def _clear_seen(rows, matrix, first, last):
    flat = matrix.reshape(matrix.size)
    before = rows.n_wide * (matrix.shape[1] - 1)
    for place in range(rows.indptr[first], rows.indptr[last]):
        index = rows.indices[place]
        if index < rows.n_wide:
            matrix[index] = 0.0
            continue
        while rows.labels[index - rows.n_wide] >= 0:
            flat[before + index] = 0.0
            index += 1
        flat[before + index] = 0.0


@implements(score_rows, FeatureRows)
def _score(rows, matrix, first, last, out):
    constant = matrix[rows.n_inputs - 1]
    if _is_dense(rows):
        n = rows.values.shape[1]
        for row in range(first, last):
            sum_rows(matrix, None, rows.values[row], 0, n, constant, rows.bias, out[row - first])
        return
    if _restricted(rows):
        _score_seen(rows, matrix, first, last, out)
        return
    far = matrix.size > _CACHED
    for row in range(first, last):
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        if far and row + 1 < last:
            for place in range(end, rows.indptr[row + 2]):
                prefetch(matrix, rows.indices[place], rows.indices[place] + 1)
        sum_rows(matrix, rows.indices, rows.data, begin, end, constant, rows.bias, out[row - first])


@implements(score_row, FeatureRows)
def _score_one(rows, matrix, row):
    total = rows.bias * matrix[rows.n_inputs - 1, 0]
    if _is_dense(rows):
        for f in range(rows.values.shape[1]):
            total += rows.values[row, f] * matrix[f, 0]
        return total
    for place in range(rows.indptr[row], rows.indptr[row + 1]):
        total += rows.data[place] * matrix[rows.indices[place], 0]
    return total


@implements(add_row, FeatureRows)
def _add(rows, matrix, row, values, scale):
    if rows.in_kernel_space:
        add_coefficients(matrix, row, values, scale)
    elif _is_dense(rows):
        spread_row(matrix, None, rows.values[row], 0, rows.values.shape[1], values, scale)
    elif _restricted(rows):
        _add_seen(rows, matrix, row, values, scale)
    else:
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        spread_row(matrix, rows.indices, rows.data, begin, end, values, scale)
    if rows.bias != 0.0:
        add_scaled(matrix[rows.n_inputs - 1][: values.shape[0]], values, scale * rows.bias)


@leaf
def add_coefficients(matrix, row, values, scale):
    """Add to the coefficients of a training row.

    A row that returns to zero up to rounding is set to zero: otherwise it would cost a kernel value
    in every score. Coefficients are scale times differences of numbers between 0 and 1.
    """
    rounding = _ROUNDING * abs(scale)
    for k in range(values.shape[0]):
        changed = matrix[row, k] + scale * values[k]
        matrix[row, k] = changed if abs(changed) > rounding else 0.0


@implements(clear_rows, FeatureRows)
def _clear(rows, matrix, first, last):
    if _is_dense(rows):
        matrix[:] = 0.0
        return
    matrix[rows.n_inputs - 1] = 0.0
    if _restricted(rows):
        _clear_seen(rows, matrix, first, last)
        return
    for place in range(rows.indptr[first], rows.indptr[last]):
        matrix[rows.indices[place]] = 0.0


@implements(drain_row, FeatureRows)
def _drain(rows, matrix, row):
    if _is_dense(rows):
        total = 0.0
        for f in range(rows.n_inputs):
            total += matrix[f, 0] * matrix[f, 0]
            matrix[f, 0] = 0.0
        return total
    last = rows.n_inputs - 1  # the constant column, if there is one
    total = matrix[last, 0] * matrix[last, 0]
    matrix[last, 0] = 0.0
    for place in range(rows.indptr[row], rows.indptr[row + 1]):
        f = rows.indices[place]
        total += matrix[f, 0] * matrix[f, 0]
        matrix[f, 0] = 0.0
    return total


@implements(prefetch_rows, FeatureRows)
def _prefetch(rows, first, last):
    if rows.in_kernel_space:
        return  # a score reads more than the cache holds: the hardware prefetches such a read
    if _is_dense(rows):
        prefetch(rows.values, first, last)
        return
    prefetch(rows.squares, first, last)
    prefetch(rows.data, rows.indptr[first], rows.indptr[last])
    prefetch(rows.indices, rows.indptr[first], rows.indptr[last])


@implements(prefetch_weights, FeatureRows)
def _prefetch_weights(rows, matrix, row):
    if _is_dense(rows) or _restricted(rows) or matrix.size <= _CACHED:
        return
    for place in range(rows.indptr[row], rows.indptr[row + 1]):
        prefetch(matrix, rows.indices[place], rows.indices[place] + 1)


@implements(row_product, FeatureRows)
def _product(rows, row, other):
    total = rows.bias * rows.bias
    if rows.in_kernel_space:
        return total + np.float64(rows.values[row, other])
    if _is_dense(rows):
        for f in range(rows.values.shape[1]):
            total += np.float64(rows.values[row, f]) * np.float64(rows.values[other, f])
        return total
    a, a_end = rows.indptr[row], rows.indptr[row + 1]
    b, b_end = rows.indptr[other], rows.indptr[other + 1]
    while a < a_end and b < b_end:
        fa, fb = rows.indices[a], rows.indices[b]
        if fa == fb:
            total += np.float64(rows.data[a]) * np.float64(rows.data[b])
        if fa <= fb:
            a += 1
        if fb <= fa:
            b += 1
    return total


@implements(products_with, FeatureRows, allocates=True)
def _products(rows, row, others, out):
    if _is_dense(rows):
        for p in range(others.shape[0]):
            out[p] = row_product(rows, row, others[p])
        return
    # The row is unpacked once: looking up its features is faster than merging two lists.
    unpacked = np.zeros(rows.n_inputs)
    for place in range(rows.indptr[row], rows.indptr[row + 1]):
        unpacked[rows.indices[place]] = rows.data[place]
    for p in range(others.shape[0]):
        total = rows.bias * rows.bias
        for place in range(rows.indptr[others[p]], rows.indptr[others[p] + 1]):
            total += np.float64(rows.data[place]) * unpacked[rows.indices[place]]
        out[p] = total


@implements(cross_products, FeatureRows)
def _cross_products(rows, first, unary, moved_at, moved, scratch):
    if rows.in_kernel_space:
        return products_of_pairs(rows, first, unary, moved_at, moved)
    # In weight space: the inner sum over s is the score of d_t under the weights
    # sum_{s<t} x_s d_s, so the work is linear in the length.
    n = unary.shape[1]
    split = rows.n_inputs * n
    matrix = scratch[:split].reshape(rows.n_inputs, n)
    scores = scratch[split : split + n].reshape(1, n)
    clear_rows(rows, matrix, first, first + unary.shape[0])
    total = 0.0
    for a in range(moved):
        t = int(moved_at[a])
        score_rows(rows, matrix, first + t, first + t + 1, scores)
        total += 2.0 * dot(scores[0], unary[t])
        add_row(rows, matrix, first + t, unary[t], 1.0)
    return total


@leaf
def products_of_pairs(rows, first, unary, moved_at, moved):
    """The same sum for a kernel: in weight space every term would be a pass over all rows."""
    total = 0.0
    for a in range(1, moved):
        t = int(moved_at[a])
        for b in range(a):
            s = int(moved_at[b])
            inner = dot(unary[t], unary[s])
            if inner != 0.0:
                total += 2.0 * inner * row_product(rows, first + t, first + s)
    return total


def products_within(rows: Any, indptr: np.ndarray, wanted, out_indptr, out: np.ndarray) -> None:
    """Lower triangles of the Gram matrices of the wanted groups of rows, packed."""
    if not isinstance(rows, FeatureRows) or rows.is_dense or rows.in_kernel_space:
        _products_within(rows, indptr, wanted, out_indptr, out)
        return
    last = np.full(rows.most_indices, -1, np.int64)
    most = int(np.diff(rows.indptr[indptr]).max())
    scratch = last, np.empty(most, np.int64), np.empty(most, np.int64)
    stored = rows.data, rows.indices, rows.indptr
    _sparse_products_within(stored, rows.bias**2, indptr, wanted, scratch, out_indptr, out)


@compiled
@seldom
def _products_within(rows, indptr, wanted, out_indptr, out):
    for i in range(indptr.shape[0] - 1):
        if wanted[i]:
            place = out_indptr[i]
            for row in range(indptr[i], indptr[i + 1]):
                for other in range(indptr[i], row + 1):
                    out[place] = row_product(rows, row, other)
                    place += 1


@compiled
@seldom
def _sparse_products_within(stored, constant, groups, wanted, scratch, out_indptr, out):
    """The same, feature by feature: ``last`` is its latest entry, ``before`` the one before in the
    same group, ``owner`` the row of an entry. Most pairs of rows have few features in common."""
    data, indices, indptr = stored
    last, before, owner = scratch
    out[out_indptr[0] : out_indptr[groups.shape[0] - 1]] = constant
    for i in range(groups.shape[0] - 1):
        if not wanted[i]:
            continue
        begin, place = indptr[groups[i]], out_indptr[i]
        for t in range(groups[i + 1] - groups[i]):
            for at in range(indptr[groups[i] + t], indptr[groups[i] + t + 1]):
                value = np.float64(data[at])
                other = last[indices[at]]
                before[at - begin], owner[at - begin] = other, t
                last[indices[at]] = at
                while other >= begin:
                    out[place + owner[other - begin]] += value * data[other]
                    other = before[other - begin]
                out[place + t] += value * value
            place += t + 1
