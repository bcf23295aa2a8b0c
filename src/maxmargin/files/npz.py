"""numpy archives: plain arrays under documented keys, never pickles.

========== =====================================================================================
task       keys
========== =====================================================================================
all        ``X``, or a CSR matrix as ``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``;
           optional ``feature_names``, and ``is_train`` (bool, an entry an example)
multiclass ``y``, numbers or texts; with ``class_names``, ``y`` are their numbers
ordinal    ``y`` in the order of the classes
multilabel ``Y`` of zeros and ones, or ``Y_packed`` (``np.packbits(Y, axis=1)``) and
           ``n_labels``; optional ``label_names``
ranking    ``rank`` (the rank of each item) or ``order`` (items from the best to the worst)
sequence   rows of ``X`` are positions; ``y`` (or ``labels``) their labels, ``offsets`` where
           sequences start, one more than there are sequences
graph      rows of ``X`` are nodes; ``y``, ``node_offsets``, ``edges`` (pairs of nodes, numbered
           within their graph), ``edge_offsets``, optional ``edge_X``
========== =====================================================================================
"""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from ._source import MAX_SIZE, FileError, check_file
from ._types import Graphs, Matrix, Sequences


def read_npz(
    path: str | os.PathLike[str], task: str, *, part: str = "all", max_size: int = MAX_SIZE
) -> Matrix | Sequences | Graphs:
    """Read the arrays of a task; ``part`` "train" or "test" selects by ``is_train``."""
    name = os.fspath(path)
    check_file(path, max_size)
    if not zipfile.is_zipfile(path):
        raise FileError(f"{name}: this is no whole npz archive; fetch or write the file again")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, AttributeError, TypeError) as error:
        raise FileError(f"{name}: this is no whole npz archive ({error})") from None
    except ValueError:
        raise FileError(
            f"{name}: holds arrays of objects (pickles), which are not read; save numbers or texts"
        ) from None
    return from_arrays(name, arrays, task, part)


def from_arrays(
    path: str, arrays: dict[str, np.ndarray], task: str, part: str = "all"
) -> Matrix | Sequences | Graphs:
    """Examples of a task from arrays under the keys above."""
    readers: dict[str, Any] = {"sequence": _sequences, "graph": _graphs}
    read = readers.get(task, _matrix)
    examples = read(path, arrays, task)
    if part == "all":
        return examples
    if "is_train" not in arrays:
        raise FileError(f"{path}: part {part!r} needs the key 'is_train', which is not there")
    wanted = arrays["is_train"].astype(bool) == (part == "train")
    if len(wanted) != len(examples):
        raise FileError(f"{path}: is_train has {len(wanted)} entries for {len(examples)} examples")
    return _take(examples, np.flatnonzero(wanted))


def _take(examples: Any, which: np.ndarray) -> Any:
    for name in ("X", "y"):
        values = vars(examples)[name]
        if values is not None:
            setattr(examples, name, _safe_indexing(values, which))
    return examples


def _need(path: str, arrays: dict[str, np.ndarray], task: str, *keys: str) -> np.ndarray:
    for key in keys:
        if key in arrays:
            return arrays[key]
    wanted = " or ".join(map(repr, keys))
    raise FileError(
        f"{path}: task {task} needs the key {wanted}; the file has {', '.join(sorted(arrays))}"
    )


def _features(path: str, arrays: dict[str, np.ndarray], task: str) -> Any:
    if "X_indptr" in arrays:
        indices = arrays["X_indices"].astype(np.int32)
        values = arrays["X_data"].astype(np.float64)
        shape = tuple(int(v) for v in arrays["X_shape"])
        X: Any = sp.csr_matrix((values, indices, arrays["X_indptr"].astype(np.int64)), shape=shape)
    else:
        X = _need(path, arrays, task, "X")
        if X.dtype.kind not in "biuf" or X.ndim != 2:
            raise FileError(
                f"{path}: X must be a matrix of numbers; found {X.dtype} of shape {X.shape}"
            )
        X = X.astype(np.float64)
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise FileError(f"{path}: X holds NaN or infinity; fill or drop these values first")
    return X


def _names(arrays: dict[str, np.ndarray], key: str) -> list | None:
    return arrays[key].tolist() if key in arrays else None


def _named_labels(path: str, labels: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Labels by their names, where the file has any."""
    names = arrays.get("class_names")
    if names is None or labels.dtype.kind not in "iu":
        return labels
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(names) + 1:
        raise FileError(f"{path}: y holds {labels.max()}, but there are {len(names)} class_names")
    return np.append(names.astype(object), ["void"])[labels]  # one number beyond: no class


def _matrix(path: str, arrays: dict[str, np.ndarray], task: str) -> Matrix:
    X = _features(path, arrays, task)
    found = Matrix(path, X, feature_names=_names(arrays, "feature_names"))
    if task == "multilabel":
        if "Y_packed" in arrays:
            n_labels = int(_need(path, arrays, task, "n_labels"))
            found.y = np.unpackbits(arrays["Y_packed"], axis=1)[:, :n_labels]
        else:
            found.y = arrays.get("Y")
        found.label_names = _names(arrays, "label_names")
    elif task == "ranking":
        kind = "orderings" if "order" in arrays and "rank" not in arrays else "ranks"
        found.y = arrays.get("order" if kind == "orderings" else "rank")
        found.y_format = kind
    elif "y" in arrays:
        found.y = _named_labels(path, arrays["y"], arrays)
    if found.y is not None and len(found.y) != X.shape[0]:
        raise FileError(f"{path}: X has {X.shape[0]} rows, but there are {len(found.y)} labels")
    return found


def _cut(path: str, values: Any, offsets: np.ndarray, name: str) -> list:
    n = values.shape[0]
    if offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets.astype(np.int64)) < 0).any():
        raise FileError(
            f"{path}: {name} must rise from 0 to {n}; found {offsets[0]} to {offsets[-1]}"
        )
    pairs = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return [values[first:last] for first, last in pairs]


def _sequences(path: str, arrays: dict[str, np.ndarray], task: str) -> Sequences:
    X = _features(path, arrays, task)
    offsets = _need(path, arrays, task, "offsets")
    found = Sequences(path, _cut(path, X, offsets, "offsets"))
    labels = arrays.get("y", arrays.get("labels"))
    if labels is not None:
        found.y = _cut(path, _named_labels(path, labels, arrays), offsets, "offsets")
    return found


def _graphs(path: str, arrays: dict[str, np.ndarray], task: str) -> Graphs:
    X = _features(path, arrays, task)
    nodes = _need(path, arrays, task, "node_offsets")
    all_edges = _need(path, arrays, task, "edges").astype(np.int64)
    edge_offsets = _need(path, arrays, task, "edge_offsets")
    parts = [
        _cut(path, X, nodes, "node_offsets"),
        _cut(path, all_edges, edge_offsets, "edge_offsets"),
    ]
    if "edge_X" in arrays:
        features = arrays["edge_X"].astype(np.float64)
        parts.append(_cut(path, features, edge_offsets, "edge_offsets"))
    found = Graphs(path, list(zip(*parts, strict=True)))
    if "y" in arrays:
        found.y = _cut(path, _named_labels(path, arrays["y"], arrays), nodes, "node_offsets")
    return found
