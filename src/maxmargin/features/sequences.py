"""Sequences as users have them, packed: positions of all sequences below each other.

A sequence is a (T, d) array, a CSR matrix, or a list of T feature dicts (or lists of feature
names) as CRFsuite takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer

_REMEDY = "pass a list with one (T, d) array, CSR matrix or list of T feature dicts a sequence"


class PackedSequences(NamedTuple):
    """Features of all positions, and where each sequence starts."""

    X: Any  # ndarray or CSR matrix of shape (positions, features)
    indptr: np.ndarray


def take_list(X: Any, name: str = "X") -> list:
    """A non-empty list of sequences."""
    if sp.issparse(X) or isinstance(X, (str, bytes, Mapping)) or not hasattr(X, "__iter__"):
        raise ValueError(
            f"{name} must be a list of sequences, but is a {type(X).__name__}; {_REMEDY}."
        )
    listed = list(X)
    if not listed:
        raise ValueError(f"{name} is empty; expected at least one sequence.")
    return listed


def pack(X: Any, vectorizer: DictVectorizer | None = None) -> PackedSequences:
    """Stack sequences of arrays, sparse matrices or (with a fitted vectorizer) feature dicts."""
    sequences = take_list(X)
    if holds_dicts(sequences):
        return _pack_dicts(sequences, vectorizer)
    if vectorizer is not None:
        raise ValueError(
            "X[0] is an array, but the model was fitted on feature dicts; pass lists of dicts."
        )
    if any(sp.issparse(x) for x in sequences):
        matrices = [_take_sparse(x, i) for i, x in enumerate(sequences)]
        _check_widths([m.shape[1] for m in matrices])
        stacked: Any = sp.vstack(matrices, format="csr")
    else:
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


def _refuse_empty(i: int) -> None:
    raise ValueError(
        f"X[{i}] is an empty sequence; every sequence needs at least one position. "
        "Leave it out of X and y."
    )


def _take_dense(x: Any, i: int) -> np.ndarray:
    try:
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"X[{i}] must hold numbers, but could not be converted to a float array; {_REMEDY}."
        ) from None
    if array.ndim == 1 and array.size == 0:
        _refuse_empty(i)
    if array.ndim != 2:
        raise ValueError(
            f"X[{i}] must have shape (length, n_features); received shape {array.shape}. "
            f"If this is one sequence, wrap it in a list; {_REMEDY}."
        )
    return array


def _take_sparse(x: Any, i: int) -> Any:
    matrix = sp.csr_array(x if sp.issparse(x) else _take_dense(x, i))
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


def _check_finite(packed: PackedSequences) -> None:
    sparse = sp.issparse(packed.X)
    values = packed.X.data if sparse else packed.X
    if np.isfinite(np.sum(values, dtype=np.float64)) or np.isfinite(values).all():
        return
    first = int(np.flatnonzero(~np.isfinite(values).ravel())[0])
    if sparse:
        row = int(np.searchsorted(packed.X.indptr, first, side="right") - 1)
        column = int(packed.X.indices[first])
    else:
        row, column = divmod(first, packed.X.shape[1])
    i = int(np.searchsorted(packed.indptr, row, side="right") - 1)
    found = "NaN" if np.isnan(values.ravel()[first]) else "infinity (inf)"
    raise ValueError(
        f"X[{i}] contains {found} at position {row - packed.indptr[i]}, feature {column}; "
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


def _as_dict(features: Any, i: int, t: int) -> Mapping:
    if isinstance(features, Mapping):
        if any(isinstance(value, Mapping) for value in features.values()):
            return dict(_flatten(features, ""))
        return features
    if isinstance(features, (list, tuple, set, frozenset)):
        return dict.fromkeys(features, 1.0)
    raise ValueError(
        f"X[{i}][{t}] must be a dict of features or a list of feature names; received "
        f"{type(features).__name__}."
    )


def _flatten(features: Mapping, prefix: str):
    """Nested dicts as CRFsuite reads them: ``{"a": {"b": 1}}`` is the feature "a:b"."""
    for name, value in features.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}:")
        else:
            yield f"{prefix}{name}", value


def _pack_dicts(sequences: list, vectorizer: DictVectorizer | None) -> PackedSequences:
    if vectorizer is None:
        raise ValueError(
            "X[0] holds feature dicts, but the model was fitted on arrays; pass arrays of shape "
            "(length, n_features)."
        )
    positions, indptr = flat_positions(sequences)
    try:
        X = vectorizer.transform(positions).tocsr()
    except TypeError as error:
        raise ValueError(
            f"X holds a feature value that is no number, string or list of strings: {error}"
        ) from None
    packed = PackedSequences(X, indptr)
    _check_finite(packed)
    return packed
