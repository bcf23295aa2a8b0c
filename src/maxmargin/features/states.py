"""Weights only for the labels that were seen together with an attribute.

A feature of a label sequence is a pair of an attribute (a column of the features) and a label. Most
attributes of text are seen with one or two labels, so that few of all pairs have data. The weights
are still the rows of a matrix with one column per label, of fewer rows: first one per attribute
that was seen with many labels (those of the others stay 0), then the weights of all the others one
after another, and last the row of the intercept. So structures and solvers see nothing of it. The
column indices of rows of features are replaced by places of weights: the row of an attribute of the
first kind, or their number plus the place of its first weight among those of the second kind, whose
labels end with a negative number, ``~label``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._kernels.jit import compiled, seldom
from .rows import FeatureRows

# From this number of labels on, an attribute has a row of weights. Rows are faster than lists.
_WIDE_FROM = 3

# Positions that are looked at together: a few MB of intermediate results.
_AT_ONCE = 1 << 13


class States(NamedTuple):
    """Places of weights: ``places`` by attribute (-1 without any), ``labels`` of the short lists,
    ``seen`` flags of the entries of rows, ``slots`` of the entries of a CSC matrix of shape
    (n_labels, n_attributes) with ``indptr``."""

    places: np.ndarray
    n_wide: int
    seen: np.ndarray
    labels: np.ndarray
    slots: np.ndarray
    indptr: np.ndarray
    n_labels: int

    @property
    def n_rows(self) -> int:
        """Rows of ``n_labels`` weights that hold all of them."""
        return max(1, self.n_wide - (-len(self.labels) // self.n_labels))

    def restrict(self, rows: FeatureRows) -> FeatureRows:
        """The same rows, with these weights only; their arrays are overwritten."""
        data = rows.data.view()
        data.flags.writeable = True
        longest = int(np.diff(rows.indptr).max(initial=0))
        kept = np.empty(longest, data.dtype), np.empty(longest, np.int32)
        end = replace_columns(data, rows.indices, rows.indptr, self.places, self.n_wide, *kept)
        n_inputs = self.n_rows + int(rows.bias != 0.0)
        return rows._replace(
            data=rows.data[:end], indices=rows.indices[:end],
            n_inputs=n_inputs, n_wide=self.n_wide, seen=self.seen, labels=self.labels,
        )  # fmt: skip

    def coef(self, weights: np.ndarray) -> sp.csr_array:
        """Weights by label and attribute, of a vector that begins with these weights."""
        wide = self.slots < self.n_wide * self.n_labels
        labels = self.slots % self.n_labels
        short = self.labels[self.slots[~wide] - self.n_wide * self.n_labels]
        labels[~wide] = np.where(short < 0, ~short, short)
        shape = (self.n_labels, len(self.indptr) - 1)
        return sp.csc_array((weights[self.slots], labels, self.indptr), shape=shape).tocsr()

    def weights(self, coef: Any) -> np.ndarray:
        """These weights, by rows, from those by label and attribute: inverts :meth:`coef`."""
        flat = np.zeros(self.n_rows * self.n_labels)
        flat[self.slots] = sp.csc_array(coef).data
        return flat.reshape(-1, self.n_labels)


@compiled
@seldom
def replace_columns(data, indices, indptr, places, n_wide, values, lists):
    """Places of weights instead of columns, those of rows of weights first; entries of columns
    without weights are left out. ``values`` and ``lists`` are scratch; returns the new length."""
    end = begin = 0
    for row in range(indptr.shape[0] - 1):
        count = 0
        for entry in range(begin, indptr[row + 1]):
            place, value = places[indices[entry]], data[entry]
            if place >= n_wide:
                lists[count], values[count] = place, value
                count += 1
            elif place >= 0:
                indices[end], data[end] = place, value
                end += 1
        for entry in range(count):
            indices[end], data[end] = lists[entry], values[entry]
            end += 1
        begin = indptr[row + 1]
        indptr[row + 1] = end
    return end


def seen_states(X: sp.csr_array, truth: np.ndarray, known: np.ndarray, n_labels: int) -> States:
    """Places for the pairs of attributes and labels that are at one position; a label that is not
    ``known`` may be any."""
    seen = np.zeros((X.shape[1], n_labels), bool)
    for first in range(0, len(truth), _AT_ONCE):
        indptr = X.indptr[first : first + _AT_ONCE + 1]
        counts, columns = np.diff(indptr), X.indices[indptr[0] : indptr[-1]]
        seen[columns, np.repeat(truth[first : first + _AT_ONCE], counts)] = True
        seen[columns[np.repeat(~known[first : first + _AT_ONCE], counts)]] = True
    return _places(np.nonzero(seen)[1], seen.sum(axis=1), n_labels)


def states_of(coef: Any) -> States:
    """Places for the stored entries of weights by label and attribute."""
    stored = sp.csc_array(coef)
    return _places(stored.indices, np.diff(stored.indptr), coef.shape[0])


def _places(labels: np.ndarray, counts: np.ndarray, n_labels: int) -> States:
    """Places for the labels of the attributes, ``counts`` of each, in increasing order."""
    wide, indptr = counts >= _WIDE_FROM, _ends(counts)
    n_wide, lengths = int(wide.sum()), np.where(wide, 0, counts)
    before = _ends(lengths)
    places = np.where(wide, np.cumsum(wide) - 1, n_wide + before[:-1])
    places[counts == 0] = -1
    in_rows = np.repeat(wide, counts)
    slots = np.empty(len(labels), np.int32)
    slots[in_rows] = np.repeat(places[wide] * n_labels, counts[wide]) + labels[in_rows]
    slots[~in_rows] = n_wide * n_labels + np.arange(before[-1])
    seen = np.zeros(max(1, n_wide * n_labels), np.uint8)
    seen[slots[in_rows]] = 1
    short = labels[~in_rows].astype(np.int32)
    last = before[1:][lengths > 0] - 1
    short[last] = ~short[last]
    return States(places.astype(np.int32), n_wide, seen, short, slots, indptr, n_labels)


def _ends(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
