"""Data sets as examples of the command line, and as files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import Examples, Graphs, Matrix, Sentences, Sequences, Trees
from . import Dataset, DatasetError


def as_examples(data: Dataset, task: str, part: str = "all") -> Examples:
    """What a reader would return for a file with these data."""
    if task != data.task and {task, data.task} != {"multiclass", "ordinal"}:
        raise DatasetError(f"data set {data.name} is for task {data.task}; received task {task}")
    if part != "all" and part not in data.splits:
        known = ", ".join(data.splits) or "none"
        raise DatasetError(f"data set {data.name} has no part {part!r}; it has {known}")
    which = np.arange(len(data.y)) if part == "all" else data.splits[part]
    name = f"@{data.name}"
    if data.task == "tree":
        chosen = [[values[i] for i in which] for values in (data.X, data.y, data._rows)]
        return Trees(name, *chosen)
    if data._rows is not None:
        return Sentences(name, [data._rows[i] for i in which], [0] * len(which))
    if data.task in ("sequence", "graph"):
        kind: Any = Sequences if data.task == "sequence" else Graphs
        return kind(name, [data.X[i] for i in which], [data.y[i] for i in which])
    found = Matrix(name, data.X[which], data.y[which], data.feature_names, data.label_names)
    found.y_format = "ranks" if data.task == "ranking" else None
    return found


def export(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as CSV (one label per example, dense), CoNLL or npz, by the suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".npz":
        _export_npz(data, path)
    elif suffix in (".conll", ".txt") and data.task == "sequence" and data._rows is not None:
        _export_text(path, "\n".join("\n".join(map(" ".join, s)) + "\n" for s in data._rows))
    elif suffix == ".conllu" and data.task == "tree":
        _export_text(path, "".join("\n".join(lines) + "\n\n" for lines, _ in data._rows))
    elif suffix == ".csv" and data.task in ("multiclass", "ordinal", "multilabel", "ranking"):
        _export_csv(data, path)
    else:
        raise DatasetError(
            f"{data.name} (task {data.task}) cannot be written as {suffix or 'this'}; use .npz, "
            ".csv for tables, .conll for tokens, or .conllu for trees"
        )


def _export_text(path: Any, text: str) -> None:
    from ..persistence import replacing

    with replacing(path) as file:
        file.write(text.encode())


def _export_csv(data: Dataset, path: Any) -> None:
    import csv
    import io

    X = data.X.toarray() if sp.issparse(data.X) else data.X
    names = data.feature_names or [f"x{k + 1}" for k in range(X.shape[1])]
    titles, labels = ["label"], np.asarray(data.y).reshape(len(X), -1)
    if data.task == "multilabel":
        titles = [f"label:{k}" for k in data.label_names or range(labels.shape[1])]
    elif data.task == "ranking":
        titles = [f"rank:{k}" for k in range(labels.shape[1])]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *titles])
    for row, label in zip(X.tolist(), labels.tolist(), strict=True):
        writer.writerow([*row, *label])
    _export_text(path, out.getvalue())


def _export_npz(data: Dataset, path: Any) -> None:
    from ..persistence import replacing

    arrays: dict[str, Any] = {}
    if data._rows is not None:
        raise DatasetError(f"{data.name} holds words; write it as .conll or .conllu")
    if data.task in ("sequence", "graph"):
        sizes = np.cumsum([0, *map(len, data.y)])
        arrays["y"] = np.concatenate(data.y)
        if data.task == "sequence":
            arrays |= {"X": np.vstack(data.X), "offsets": sizes}
        else:
            nodes, edges, *more = zip(*data.X, strict=True)
            arrays |= {"X": np.vstack(nodes), "node_offsets": sizes, "edges": np.vstack(edges)}
            arrays["edge_offsets"] = np.cumsum([0, *map(len, edges)])
            arrays |= {"edge_X": np.vstack(more[0])} if more else {}
    else:
        key = {"multilabel": "Y", "ranking": "rank"}.get(data.task, "y")
        arrays[key] = data.y.astype(str) if data.y.dtype == object else data.y
        if sp.issparse(data.X):
            for name in ("data", "indices", "indptr", "shape"):
                arrays[f"X_{name}"] = np.asarray(getattr(data.X, name))
        else:
            arrays["X"] = data.X
        if data.feature_names:
            arrays["feature_names"] = np.array(data.feature_names)
        if data.label_names:
            arrays["label_names"] = np.array(data.label_names)
    if "train" in data.splits:
        arrays["is_train"] = np.isin(np.arange(len(data.y)), data.splits["train"])
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
