"""Sequences as users have them, packed: positions of all sequences below each other.

A sequence is a (T, d) array, a CSR matrix, or a list of T feature dicts (or lists of feature
names) as CRFsuite takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer

from .._validation import check_rows_of_numbers, first_not_finite

_REMEDY = "pass a list with one (T, d) array, CSR matrix or list of T feature dicts a sequence"


class PackedSequences(NamedTuple):
    """Features of all positions, and where each sequence starts."""

    X: Any  # ndarray or CSR matrix of shape (positions, features)
    indptr: np.ndarray


def take_list(X: Any, name: str = "X") -> list:
    """A non-empty list of sequences."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object:
        raise ValueError(
            f"{name} must be a list of sequences, but is one array of shape {X.shape}; if this is "
            f"one sequence, wrap it in a list: [{name}]."
        )
    single = (str, bytes, Mapping)
    if sp.issparse(X) or isinstance(X, single) or hasattr(X, "columns") or not _iterable(X):
        raise ValueError(
            f"{name} must be a list of sequences; received {type(X).__name__}; {_REMEDY}."
        )
    listed = list(X)
    if not listed:
        raise ValueError(f"{name} is empty; expected at least one sequence.")
    if isinstance(listed[0], Mapping):
        raise ValueError(
            f"{name} must be a list of sequences, but {name}[0] is a dict; if this is one sequence "
            f"of feature dicts, wrap it in a list: [{name}]."
        )
    return listed


def _iterable(value: Any) -> bool:
    return hasattr(value, "__iter__")


def pack(X: Any, vectorizer: DictVectorizer | None = None) -> PackedSequences:
    """Stack sequences of arrays, sparse matrices or (with a fitted vectorizer) feature dicts."""
    sequences = take_list(X)
    if holds_dicts(sequences):
        return _pack_dicts(sequences, vectorizer)
    if vectorizer is not None:
        raise ValueError(
            "X[0] is no list of feature dicts, but the model was fitted on them; pass lists of "
            "dicts."
        )
    plain = _plain_arrays(sequences)
    if not plain and any(sp.issparse(x) for x in sequences):
        matrices = [_take_sparse(x, i) for i, x in enumerate(sequences)]
        _check_widths([m.shape[1] for m in matrices])
        stacked: Any = sp.vstack(matrices, format="csr")
    else:
        arrays = sequences
        if not plain:
            arrays = [_take_dense(x, i) for i, x in enumerate(sequences)]
            _check_widths([a.shape[1] for a in arrays])
        stacked = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        if stacked.dtype not in (np.float32, np.float64):
            stacked = stacked.astype(np.float64)
        matrices = arrays
    lengths = np.array([m.shape[0] for m in matrices], dtype=np.int64)
    if not lengths.all():
        _refuse_empty(int(np.flatnonzero(lengths == 0)[0]))
    if stacked.shape[1] == 0:
        raise ValueError("X[0] has 0 features; expected at least one column.")
    packed = PackedSequences(stacked, np.concatenate([[0], np.cumsum(lengths)]))
    _check_finite(packed)
    return packed


def _plain_arrays(sequences: list) -> bool:
    """Whether all are matrices of one float type and width: nothing to convert, nothing to check
    one by one."""
    if set(map(type, sequences)) != {np.ndarray} or {x.ndim for x in sequences} != {2}:
        return False
    kinds = {x.dtype for x in sequences}
    return kinds <= {np.dtype(float)} and len({x.shape[1] for x in sequences}) == 1


def _refuse_empty(i: int) -> None:
    raise ValueError(
        f"X[{i}] is an empty sequence; every sequence needs at least one position. "
        "Leave it out of X and y."
    )


def _take_dense(x: Any, i: int) -> np.ndarray:
    if not _iterable(x) or isinstance(x, str):
        raise ValueError(f"X[{i}] must be a sequence; received {type(x).__name__}; {_REMEDY}.")
    try:
        array = np.asarray(x)
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
    if any(isinstance(position, Mapping) for position in x):
        raise ValueError(
            f"X[{i}] holds feature dicts, but X[0] is an array; describe all sequences in one way."
        )
    if dtype.kind == "U":  # also where numpy could not make an array at all
        check_rows_of_numbers(x, f"X[{i}]", "position")
    raise ValueError(f"X[{i}] must hold real numbers; received {dtype}; {_REMEDY}.")


def _take_sparse(x: Any, i: int) -> Any:
    matrix = sp.csr_array(x if sp.issparse(x) else _take_dense(x, i))
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"X[{i}] must hold real numbers; received {matrix.dtype}.")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    return matrix


def _check_widths(widths: list[int]) -> None:
    for i, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"X[{i}] has {width} features but X[0] has {widths[0]}; all sequences must "
                "have the same features in the same columns."
            )


def _check_finite(packed: PackedSequences, names: Any = None) -> None:
    sparse = sp.issparse(packed.X)
    values = packed.X.data if sparse else packed.X
    first = first_not_finite(values)
    if first < 0:
        return
    if sparse:
        row = int(np.searchsorted(packed.X.indptr, first, side="right") - 1)
        column = int(packed.X.indices[first])
    else:
        row, column = divmod(first, packed.X.shape[1])
    i = int(np.searchsorted(packed.indptr, row, side="right") - 1)
    found = "NaN" if np.isnan(values.ravel()[first]) else "infinity (inf)"
    feature = column if names is None else repr(names[column])
    raise ValueError(
        f"X[{i}] contains {found} at position {row - packed.indptr[i]}, feature {feature}; "
        "expected finite numbers. Impute or drop it first."
    )


# --- feature dicts --------------------------------------------------------------------------


def holds_dicts(sequences: list) -> bool:
    """Whether positions are described by feature dicts, or by lists of feature names."""
    for x in sequences:
        if sp.issparse(x) or isinstance(x, np.ndarray):
            return False
        for position in x if hasattr(x, "__iter__") else ():
            if isinstance(position, Mapping):
                return True
            if isinstance(position, (list, tuple, set, frozenset)):
                return any(isinstance(name, str) for name in position)
            return False
    return False


def new_vectorizer() -> DictVectorizer:
    """Feature names as CRFsuite makes them: ``{"word": "cat"}`` is the feature "word:cat"."""
    return DictVectorizer(sparse=True, separator=":", sort=True)


def flat_positions(sequences: list) -> tuple[list[Mapping], np.ndarray]:
    """Feature dicts of all positions, and where each sequence starts."""
    positions: list[Mapping] = []
    indptr = [0]
    for i, x in enumerate(sequences):
        before = len(positions)
        for t, features in enumerate(x):
            positions.append(_as_dict(features, i, t))
        if len(positions) == before:
            _refuse_empty(i)
        indptr.append(len(positions))
    return positions, np.array(indptr, dtype=np.int64)


# Values that need no look: features are mostly these.
_PLAIN = {str, float, int, bool}


def _as_dict(features: Any, i: int, t: int) -> Mapping:
    if isinstance(features, Mapping):
        usual = all(type(name) is str for name in features)
        if usual and all(type(value) in _PLAIN for value in features.values()):
            return features
        return dict(_flatten(features, "", f"X[{i}][{t}]"))
    if isinstance(features, (list, tuple, set, frozenset)):
        for name in features:
            if not isinstance(name, str):
                raise ValueError(f"X[{i}][{t}] must be a list of feature names; found {name!r}.")
        return dict.fromkeys(features, 1.0)
    raise ValueError(
        f"X[{i}][{t}] must be a dict of features or a list of feature names; received "
        f"{type(features).__name__}."
    )


def _flatten(features: Mapping, prefix: str, where: str) -> Iterator[tuple[str, Any]]:
    """Values as CRFsuite reads them.

    ``{"a": {"b": 1}}`` is the feature "a:b", and ``{"a": ["b", "c"]}`` are "a:b" and "a:c".
    """
    for name, value in features.items():
        if not isinstance(name, str):
            raise ValueError(f"{where} has the feature name {name!r}; names must be strings.")
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{key}:", where)
        elif isinstance(value, np.bool_):
            yield key, bool(value)
        elif isinstance(value, (str, Real)):
            yield key, value
        elif isinstance(value, (list, tuple, set, frozenset)) and all(
            isinstance(item, str) for item in value
        ):
            yield from ((f"{key}:{item}", 1.0) for item in value)
        else:
            raise ValueError(
                f"{where}[{key!r}] must be a number, a string, a list of strings or a dict of "
                f"these; received {value!r}."
            )


def _pack_dicts(sequences: list, vectorizer: DictVectorizer | None) -> PackedSequences:
    if vectorizer is None:
        raise ValueError(
            "X[0] holds feature dicts, but the model was fitted on arrays; pass arrays of shape "
            "(length, n_features)."
        )
    positions, indptr = flat_positions(sequences)
    packed = PackedSequences(vectorizer.transform(positions).tocsr(), indptr)
    _check_finite(packed, vectorizer.feature_names_)
    return packed
