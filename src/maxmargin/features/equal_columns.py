"""Columns of sparse features that are equal, merged into one.

Features of text are many, and most are rare: two names that are at the same positions of all
training data have equal columns x, and with a squared penalty equal weights w. Of k such columns
one is left, ``sqrt(k) x``, whose weight is ``sqrt(k) w``: scores, norms and the objective do not
change. Columns that are left are ordered from frequent to rare, so that the weights that are read
most are next to each other in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._kernels.jit import compiled, leaf, seldom

# Multipliers of the finaliser of MurmurHash3, which mixes the bits of a number.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT, _ODD = np.uint64(33), np.uint64(0x9E3779B97F4A7C15)


class EqualColumns(NamedTuple):
    """Which column each feature became.

    Attributes
    ----------
    place : int32 array of shape (n_features,)
    factor : array of shape (n_features,)
        Weight of the feature, in units of that of the merged column.
    """

    place: np.ndarray
    factor: np.ndarray

    def spread(self, weights: np.ndarray, n_labels: int) -> np.ndarray:
        """Weights of all features, from those of the merged columns; what follows is copied."""
        matrix = weights.reshape(-1, n_labels)
        n_columns = int(self.place.max()) + 1
        others = matrix[n_columns:]
        whole = np.empty((len(self.place) + len(others), n_labels))
        np.take(matrix, self.place, axis=0, out=whole[: len(self.place)], mode="clip")
        whole[: len(self.place)] *= self.factor[:, None]
        whole[len(self.place) :] = others
        return whole.ravel()


def merge_columns(X: Any) -> tuple[sp.csr_array, EqualColumns]:
    """A CSR matrix with equal columns merged, with sorted indices; and which these are."""
    codes, counts = _hashes(X)
    if not len(codes):  # some entry is stored in parts
        X = X.copy()
        X.sum_duplicates()
        codes, counts = _hashes(X)
    _, first, group, sizes = np.unique(
        codes, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(-counts[first], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    place, leader = rank[group], first[order].astype(np.int32)
    roots = np.sqrt(sizes[order].astype(np.float64))
    indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64)
    merged = np.empty_like(X.data), np.empty_like(indices), np.empty_like(indptr)
    n_stored = -1
    if np.array_equal(counts, counts[leader][place]):
        scratch = np.full(len(order), -1, np.int64), np.empty(len(order))
        n_stored = _merge((X.data, indices, indptr), (place, leader, roots), scratch, merged)
    if n_stored < 0:  # columns with the same hash are not equal
        return X, EqualColumns(np.arange(X.shape[1], dtype=np.int32), np.ones(X.shape[1]))
    data, indices, indptr = merged
    shape = (X.shape[0], len(order))
    small = sp.csr_array((data[:n_stored], indices[:n_stored], indptr), shape=shape)
    small.has_canonical_format = small.has_sorted_indices = True
    return small, EqualColumns(place, (1.0 / roots)[place])


def _hashes(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the columns, and their numbers of entries; none if a row has a column twice."""
    codes = np.zeros(X.shape[1], np.uint64)
    counts = np.zeros(X.shape[1], np.int64)
    last = np.full(X.shape[1], -1, np.int64)
    bits = X.data.view(np.uint64 if X.data.itemsize == 8 else np.uint32)
    indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64)
    once = _hash_columns(bits, indices, indptr, last, codes, counts)
    return (codes, counts) if once else (codes[:0], counts[:0])


@leaf
def _mixed(number):
    """All bits depend on all bits."""
    number = (number ^ (number >> _SHIFT)) * _MIX_1
    number = (number ^ (number >> _SHIFT)) * _MIX_2
    return number ^ (number >> _SHIFT)


@compiled
@seldom
def _hash_columns(bits, indices, indptr, last, codes, counts):
    """Sums over the entries of columns of hashes of row and value."""
    for row in range(indptr.shape[0] - 1):
        key = _mixed(np.uint64(row + 1) * _ODD)
        for at in range(indptr[row], indptr[row + 1]):
            column = indices[at]
            if last[column] == row:
                return False
            last[column] = row
            codes[column] += _mixed(key ^ np.uint64(bits[at]))
            counts[column] += 1
    return True


@leaf
def _sort_pairs(keys, values, begin, end):
    """Shell sort: rows are short."""
    gap = 1
    while 3 * gap < end - begin:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(begin + gap, end):
            key, value = keys[at], values[at]
            to = at
            while to - gap >= begin and keys[to - gap] > key:
                keys[to], values[to] = keys[to - gap], values[to - gap]
                to -= gap
            keys[to], values[to] = key, value
        gap //= 3


@compiled
@seldom
def _merge(stored, columns, scratch, out):
    """Write the merged rows; returns the number of entries, or -1 where columns differ that were
    taken to be equal: their numbers of entries are equal, so a row that has a column must have its
    leader, with the same value."""
    data, indices, indptr = stored
    place, leader, roots = columns
    seen, value = scratch
    out_data, out_indices, out_indptr = out
    end = 0
    out_indptr[0] = 0
    for row in range(indptr.shape[0] - 1):
        begin = end
        for at in range(indptr[row], indptr[row + 1]):
            to = place[indices[at]]
            if leader[to] == indices[at]:
                seen[to], value[to] = row, data[at]
                out_indices[end], out_data[end] = to, data[at] * roots[to]
                end += 1
        for at in range(indptr[row], indptr[row + 1]):
            to = place[indices[at]]
            if seen[to] != row or value[to] != data[at]:
                return -1
        _sort_pairs(out_indices, out_data, begin, end)
        out_indptr[row + 1] = end
    return end
