"""Sequences as users have them, packed: positions of all sequences below each other.

A sequence is a (T, d) array, a CSR matrix, or a list of T feature dicts (or lists of feature
names) as CRFsuite takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, compress, islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .._matrix_checks import check_rows_of_numbers, refuse_times_and_texts
from .._validation import (
    first_unusable,
    has_length,
    is_array,
    is_frame,
    is_iterable,
    is_iterator,
    is_mapping,
    is_text,
    take_examples,
    unusable,
)
from .column_names import common_names
from .dicts import Columns, Triplets, columns_of, new_vectorizer
from .rows import FeatureRows, FreshRows, fresh_rows, sparse_rows

if TYPE_CHECKING:
    from sklearn.feature_extraction import DictVectorizer

_REMEDY = "pass a list with one (T, d) array, CSR matrix or list of T feature dicts per sequence"
_FEATURES_OF_WORDS = (
    "Describe every word by features, such as "
    "[{'word': w.lower(), 'suffix': w[-3:], 'capital': w[0].isupper()} for w in words], with "
    "those of the neighbours where they help."
)
# What is packed at a time for prediction: it should stay in the cache of a core.
_BYTES_AT_ONCE = 1 << 20
_POSITIONS_AT_ONCE = 1 << 11
# Sequences that are read at a time for training.
_SEQUENCES_AT_ONCE = 1 << 7


class Sequences:
    """Checked sequences of one kind, packed when needed.

    Attributes
    ----------
    indptr : array
        Sequence i holds positions ``indptr[i]`` to ``indptr[i+1]``.
    n_features : int
    names : list of str or None
        Names of the columns, if sequences are data frames.
    at_once : int
        How many positions are best packed together.
    """

    indptr: np.ndarray
    n_features: int
    names: list[str] | None = None
    at_once = _POSITIONS_AT_ONCE

    def stack(self) -> Any:
        """All positions below each other, an array or a CSR matrix: for training."""
        raise NotImplementedError

    def rows(self, first: int, last: int, bias: float) -> FreshRows | FeatureRows:
        """The positions of some sequences, with finite features: for one look at them."""
        raise NotImplementedError

    def chunks(self) -> list[tuple[int, int]]:
        """First and last (exclusive) sequence of what is best packed together."""
        bounds = [0]
        while bounds[-1] < len(self.indptr) - 1:
            most = self.indptr[bounds[-1]] + self.at_once
            fit = int(np.searchsorted(self.indptr, most, side="right")) - 1
            bounds.append(max(fit, bounds[-1] + 1))
        return list(zip(bounds[:-1], bounds[1:], strict=True))

    def _set_lengths(self, lengths: np.ndarray) -> None:
        if not lengths.all():
            _refuse_empty(int(np.flatnonzero(lengths == 0)[0]))
        self.indptr = np.concatenate([[0], np.cumsum(lengths)])

    def _place(self, position: int) -> tuple[int, int]:
        """Sequence of a position, and its place there."""
        i = int(np.searchsorted(self.indptr, position, side="right")) - 1
        return i, position - int(self.indptr[i])

    def _refuse(self, value: float, position: int, feature: Any) -> None:
        i, t = self._place(position)
        raise ValueError(
            f"X[{i}] contains {unusable(value)} at position {t}, feature {feature}; "
            "expected finite numbers. Impute, drop or scale it first."
        )

    def _check_stored(self, stored: Triplets, first: int, names: Any = None) -> None:
        """Refuse what is not finite in the sparse rows of some sequences."""
        at = first_unusable(stored.data)
        if at >= 0:
            row = int(np.searchsorted(stored.indptr, at, side="right")) - 1
            column = int(stored.indices[at])
            feature = column if names is None else repr(list(names)[column])
            self._refuse(stored.data[at], int(self.indptr[first]) + row, feature)


def open_sequences(
    X: Any,
    vectorizer: DictVectorizer | None = None,
    sparse: bool = False,
    names: list[str] | None = None,
) -> Sequences:
    """Sequences for a fitted model, which may have a vectorizer or names of columns, as the user
    has them, or with arrays as ``sparse`` matrices."""
    sequences = take_list(X)
    if holds_dicts(sequences):
        if vectorizer is None:
            raise ValueError(
                "X[0] holds feature dicts, but the model was fitted on arrays; pass arrays of "
                "shape (length, n_features)."
            )
        return DictSequences(sequences, columns_of(vectorizer))
    if vectorizer is not None:
        raise ValueError(
            "X[0] is no list of feature dicts, but the model was fitted on them; pass lists of "
            "dicts."
        )
    return _open_numbers(sequences, sparse, names)


def learn_sequences(X: Any, min_count: int = 1) -> tuple[Sequences, DictVectorizer | None]:
    """Sequences for training; also the vectorizer, if they are feature dicts, of the features that
    at least ``min_count`` positions have. Feature dicts of an iterator are never all in memory."""
    sequences: Any = X if is_iterator(X) else take_list(X)
    if is_iterator(X):
        first = list(islice(X, 1))
        described = bool(first) and holds_dicts(first)
        sequences = chain(first, X) if described else take_list([*first, *X])
    else:
        described = holds_dicts(sequences)
    if described:
        learned = LearnedSequences(sequences, min_count)
        return learned, new_vectorizer(learned.vocabulary)
    if min_count > 1:
        raise ValueError(
            f"StateFeatures(min_count={min_count}) is for feature dicts and lists of feature "
            "names, but X[0] is a matrix; leave out its rare columns, or use min_count=1."
        )
    return _open_numbers(sequences), None


def _open_numbers(
    sequences: list, sparse: bool = False, names: list[str] | None = None
) -> Sequences:
    plain = _plain_arrays(sequences)
    names = None if plain else common_names(sequences, names)
    opened: Sequences
    if sparse or (not plain and any(sp.issparse(x) for x in sequences)):
        opened = SparseSequences([_take_sparse(x, i) for i, x in enumerate(sequences)])
    elif plain:
        opened = ArraySequences(sequences)
    else:
        opened = ArraySequences([_take_dense(x, i) for i, x in enumerate(sequences)])
    opened.names = names
    return opened


def take_list(X: Any) -> list:
    """A non-empty list of sequences."""
    listed = take_examples(X, "sequence", _REMEDY, ndim=2)
    if is_mapping(listed[0]):
        raise ValueError(
            "X must be a list of sequences, but X[0] is a dict; if this is one sequence of "
            "feature dicts, wrap it in a list: [X]."
        )
    return listed


def _iterable(value: Any) -> bool:
    return is_iterable(value)


# --- arrays ---------------------------------------------------------------------------------


class ArraySequences(Sequences):
    """Sequences as matrices of numbers."""

    def __init__(self, arrays: list[np.ndarray]):
        self.arrays = arrays
        self.n_features = _common_width(arrays)
        self._set_lengths(np.fromiter(map(len, arrays), np.int64, len(arrays)))
        self.at_once = max(1, _BYTES_AT_ONCE // (8 * self.n_features))

    def stack(self) -> np.ndarray:
        stacked = _one_array(self.arrays)
        if stacked is None:
            stacked = np.concatenate(self.arrays)
        if stacked.dtype not in (np.float32, np.float64):
            stacked = stacked.astype(np.float64)
        self._check_finite(stacked, 0)
        return stacked

    def rows(self, first: int, last: int, bias: float) -> FreshRows:
        if last == first + 1:
            values = np.ascontiguousarray(self.arrays[first], dtype=np.float64)
        else:
            n_rows = int(self.indptr[last] - self.indptr[first])
            values = np.empty((n_rows, self.n_features))
            np.concatenate(self.arrays[first:last], out=values, casting="same_kind")
        self._check_finite(values, first)
        return fresh_rows(values, bias)

    def _check_finite(self, values: np.ndarray, first: int) -> None:
        at = first_unusable(values)
        if at >= 0:
            row, column = divmod(at, self.n_features)
            self._refuse(values[row, column], int(self.indptr[first]) + row, column)


def _plain_arrays(sequences: list) -> bool:
    """Whether all are matrices of real numbers: nothing to convert or to check one by one."""
    if set(map(type, sequences)) != {np.ndarray}:
        return False
    if set(map(attrgetter("ndim"), sequences)) != {2}:
        return False
    return all(dtype.kind in "fiub" for dtype in set(map(attrgetter("dtype"), sequences)))


def _owner(array: Any) -> Any:
    """What holds the memory of an array."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _one_array(arrays: list[np.ndarray]) -> np.ndarray | None:
    """The array that these are slices of, one after another, as from a memory map: no copy."""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    owner, end = _owner(first), first.ctypes.data
    for array in arrays:
        follows = array.ctypes.data == end and array.flags.c_contiguous
        if not follows or array.dtype != first.dtype or _owner(array) is not owner:
            return None
        end += array.nbytes
    shape = (sum(map(len, arrays)), first.shape[1])
    return np.lib.stride_tricks.as_strided(first, shape, writeable=False)


def _common_width(matrices: list) -> int:
    """Number of features of all sequences."""
    shapes = list(map(attrgetter("shape"), matrices))
    width = shapes[0][1]
    if set(map(itemgetter(1), shapes)) != {width}:
        i = next(i for i, shape in enumerate(shapes) if shape[1] != width)
        raise ValueError(
            f"X[{i}] has {shapes[i][1]} features but X[0] has {width}; all sequences must "
            "have the same features in the same columns."
        )
    if width == 0:
        raise ValueError("X[0] has 0 features; expected at least one column.")
    return width


def _matrix(data, indices, indptr, n_features: int) -> sp.csr_array:
    """A CSR matrix of these arrays. Offsets of 64 bits would make SciPy widen all indices."""
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))


def _refuse_empty(i: int) -> None:
    raise ValueError(
        f"X[{i}] is an empty sequence; every sequence needs at least one position. "
        "Leave it out of X and y."
    )


def _take_dense(x: Any, i: int) -> np.ndarray:
    if is_text(x):
        raise ValueError(f"X[{i}] is a string; split it into words first. {_FEATURES_OF_WORDS}")
    if is_frame(x):
        x = np.asarray(x)  # going through a frame gives its names
    if not _iterable(x):
        raise ValueError(f"X[{i}] must be a sequence; received {type(x).__name__}; {_REMEDY}.")
    try:
        array = np.asarray(x)
    except (TypeError, ValueError):
        array = np.empty(0, "U")
    if array.dtype.kind in "OMm":
        refuse_times_and_texts(array, f"X[{i}]", "position")
    try:
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.empty(0, "U")
    if array.dtype.kind not in "fiub":
        _refuse_no_numbers(x, i, array.dtype)
    if array.ndim == 1 and array.size == 0:
        _refuse_empty(i)
    if array.ndim != 2:
        raise ValueError(
            f"X[{i}] must have shape (length, n_features); received shape {array.shape}; {_REMEDY}."
        )
    return array


def _refuse_no_numbers(x: Any, i: int, dtype: np.dtype) -> None:
    if any(is_mapping(position) for position in x):
        raise ValueError(
            f"X[{i}] holds feature dicts, but X[0] is an array; describe all sequences in one way."
        )
    if any(is_text(position) for position in x):
        raise ValueError(f"X[{i}] is a list of words. {_FEATURES_OF_WORDS}")
    if dtype.kind == "U":  # also where numpy could not make an array at all
        check_rows_of_numbers(x, f"X[{i}]", "position")
    raise ValueError(f"X[{i}] must hold real numbers; received {dtype}; {_REMEDY}.")


# --- sparse matrices ------------------------------------------------------------------------


class SparseSequences(Sequences):
    """Sequences as CSR matrices."""

    def __init__(self, matrices: list):
        self.matrices = matrices
        self.n_features = _common_width(matrices)
        ends = list(map(attrgetter("indptr"), matrices))
        self._set_lengths(np.fromiter(map(len, ends), np.int64, len(ends)) - 1)

    def stack(self) -> sp.csr_array:
        data, indices, indptr = self._join(0, len(self.matrices))
        if data.dtype not in (np.float32, np.float64):
            data = data.astype(np.float64)
        return _matrix(data, indices, indptr, self.n_features)

    def rows(self, first: int, last: int, bias: float) -> FeatureRows:
        data, indices, indptr = self._join(first, last)
        return sparse_rows(
            data.astype(np.float64, copy=False), indices, indptr, bias, self.n_features
        )

    def _join(self, first: int, last: int) -> Triplets:
        """The rows of some sequences, without a matrix for each."""
        part = self.matrices[first:last]
        counts = np.diff(np.concatenate([x.indptr for x in part]))
        # The step from the end of one matrix to the start of the next is no row.
        ends = self.indptr[first + 1 : last] - self.indptr[first]
        counts = np.delete(counts, ends + np.arange(len(ends)))
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        data = np.concatenate([x.data for x in part])
        indices = np.concatenate([x.indices for x in part])
        if len(data) != indptr[-1]:  # some matrices have spare capacity after their last entry
            data = np.concatenate([x.data[: x.indptr[-1]] for x in part])
            indices = np.concatenate([x.indices[: x.indptr[-1]] for x in part])
        joined = Triplets(data, indices.astype(np.int32, copy=False), indptr)
        self._check_columns(joined, first)
        self._check_stored(joined, first)
        return joined

    def _check_columns(self, joined: Triplets, first: int) -> None:
        """A column that is not there would be read from somewhere in memory."""
        outside = joined.indices.view(np.uint32) >= self.n_features
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            row = int(np.searchsorted(joined.indptr, at, side="right")) - 1
            i, t = self._place(int(self.indptr[first]) + row)
            raise ValueError(
                f"X[{i}] has an entry in column {joined.indices[at]} at position {t}, but "
                f"{self.n_features} columns; build the matrix again from valid indices."
            )


def _take_sparse(x: Any, i: int) -> Any:
    matrix = x
    if not sp.issparse(x):
        matrix = sp.csr_array(_take_dense(x, i))
    elif x.format != "csr" or x.ndim != 2:
        matrix = sp.csr_array(x)
    if matrix.data.dtype.kind not in "fiub":
        raise ValueError(f"X[{i}] must hold real numbers; received {matrix.dtype}.")
    return matrix


# --- feature dicts --------------------------------------------------------------------------


class DictSequences(Sequences):
    """Sequences as lists of feature dicts, or of lists of feature names."""

    def __init__(self, sequences: list, columns: Columns):
        for i, x in enumerate(sequences):
            _check_described(x, i)
        self.sequences = [x if has_length(x) else list(x) for x in sequences]
        self.columns = columns
        self.n_features = len(columns.vocabulary)
        self._set_lengths(np.fromiter(map(len, self.sequences), np.int64, len(self.sequences)))

    def stack(self) -> sp.csr_array:
        found = self._look_up(0, len(self.sequences))
        return sp.csr_array(found, shape=(int(self.indptr[-1]), self.n_features))

    def rows(self, first: int, last: int, bias: float) -> FeatureRows:
        return sparse_rows(*self._look_up(first, last), bias, self.n_features)

    def _look_up(self, first: int, last: int) -> Triplets:
        before = int(self.indptr[first])
        positions = list(chain.from_iterable(self.sequences[first:last]))
        found = self.columns.rows(positions, lambda t: self._place(before + t))
        self._check_stored(found, first, self.columns.vocabulary)
        return found


def _check_described(x: Any, i: int) -> None:
    if sp.issparse(x) or not _iterable(x):
        raise ValueError(
            f"X[{i}] must be a list of feature dicts, as X[0] is; received "
            f"{type(x).__name__}; describe all sequences in one way."
        )


class LearnedSequences(Sequences):
    """The same for training, read once, some at a time: what was read is not kept.

    Attributes
    ----------
    vocabulary : dict
        Columns of the features of at least ``min_count`` positions, in the order of their first
        appearance.
    """

    def __init__(self, sequences: Iterable, min_count: int = 1):
        columns = Columns()
        data, indices, counts = self._read(sequences, columns)
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        vocabulary = dict(columns.vocabulary)
        if min_count > 1:
            frequent = np.bincount(indices, minlength=len(vocabulary)) >= min_count
            if not frequent.any():
                raise ValueError(
                    f"no feature of X is at {min_count} positions or more; lower min_count."
                )
            vocabulary = {name: j for j, name in enumerate(compress(vocabulary, frequent))}
            kept = frequent[indices]
            indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[indptr]
            data, indices = data[kept], (np.cumsum(frequent, dtype=np.int32) - 1)[indices[kept]]
        self.n_features = len(vocabulary)
        self._check_stored(Triplets(data, indices, indptr), 0, vocabulary)
        self._matrix = _matrix(data, indices, indptr, self.n_features)
        self._matrix.sum_duplicates()  # in place: packing a matrix that is not sorted copies it
        self.vocabulary = vocabulary

    def _read(
        self, sequences: Iterable, columns: Columns
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, columns, and their number at each position, of all sequences.

        Most values are 1, so they are made last; there is never a second copy of the columns.
        """
        indices, end = np.empty(0, np.int32), 0
        counts: list[np.ndarray] = []
        others: list[tuple[np.ndarray, np.ndarray]] = []  # values that are not 1, and where
        for found in self._look_up(sequences, columns):
            counts.append(np.diff(found.indptr))
            if end + len(found.indices) > len(indices):
                indices.resize(end + len(found.indices) + end // 8, refcheck=False)
            indices[end : end + len(found.indices)] = found.indices
            at = np.flatnonzero(found.data != 1.0)
            others.append((end + at, found.data[at]))
            end += len(found.indices)
        indices.resize(end, refcheck=False)
        data = np.ones(end)
        for at, values in others:
            data[at] = values
        return data, indices, np.concatenate(counts)

    def _look_up(self, sequences: Iterable, columns: Columns) -> Iterator[Triplets]:
        """Rows of some sequences after the other."""
        lengths: list[int] = []
        positions: list[Any] = []
        begin, sequences = 0, iter(sequences)
        while batch := list(islice(sequences, _SEQUENCES_AT_ONCE)):
            for x in batch:
                _check_described(x, len(lengths))
                before = len(positions)
                positions.extend(x)
                lengths.append(len(positions) - before)
            self.indptr = np.concatenate([[0], np.cumsum(lengths[begin:], dtype=np.int64)])

            def place(t: int, first: int = begin) -> tuple[int, int]:
                i, t = self._place(t)
                return first + i, t

            known = len(columns.vocabulary)
            yield columns.rows(positions, place)
            columns.check_names(known, positions, place)
            positions.clear()
            batch.clear()
            begin = len(lengths)
        self._set_lengths(np.array(lengths, np.int64))

    def stack(self) -> sp.csr_array:
        return self._matrix


def holds_dicts(sequences: list) -> bool:
    """Whether positions are described by feature dicts, or by lists of feature names."""
    for x in sequences:
        if sp.issparse(x) or is_array(x) or is_frame(x):
            return False
        for position in x if _iterable(x) else ():
            match position:
                case Mapping():
                    return True
                case list() | tuple() | set() | frozenset():
                    return any(map(is_text, position))
            return False
    return False
