"""From what a reader returns to ``X`` and ``y`` of an estimator, and the same way again later.

:func:`learn` looks at the training data and returns a *recipe*: a JSON document with everything
that new data needs (columns, categories, means and scales, names of labels). It is kept in the
model file. :func:`follow` applies it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import table_features as tables
from ._missing import fill_missing
from ._source import FileError
from ._types import Examples, Matrix, Sentences, Sequences, Table, Trees
from .tokens import TokenFeatures, last_column

# Numbers that are standardised at a time: 1 MB of intermediate results.
_NUMBERS_AT_ONCE = 1 << 17
FLAT = ("multiclass", "ordinal", "multilabel", "ranking")


@dataclass
class Choices:
    """What a user may say about the columns of a file."""

    target: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    scale: bool = True
    group: str | None = None
    order: tuple[str, ...] = ()
    missing: str = "error"


@dataclass
class Prepared:
    """Training data, the recipe that made it, and parameters that its estimator needs."""

    X: Any
    y: Any
    recipe: dict[str, Any]
    params: dict[str, Any] = field(default_factory=dict)


def learn(examples: Examples, task: str, choices: Choices) -> Prepared:
    """Features and labels of training data, and how they were made."""
    prepared = _learn_form(examples, task, choices)
    prepared.recipe["task"] = task
    if prepared.y is None:
        raise FileError(f"{examples.path}: holds no labels, which training needs")
    if task == "ordinal":
        prepared.params |= _order_of(examples.path, prepared.y, choices.order)
    if task == "graph" and any("void" in set(np.asarray(labels).tolist()) for labels in prepared.y):
        prepared.params["void"] = "void"
    return prepared


def _learn_form(examples: Any, task: str, choices: Choices) -> Prepared:
    form = _FORMS[examples.form]
    if task not in form.tasks:
        raise FileError(
            f"{examples.path}: holds {form.what}, for task {' or '.join(form.tasks)}; received "
            f"task {task}"
        )
    if examples.form != "table":
        given = {"--target": choices.target, "--drop": choices.drop, "--group": choices.group,
                 "--categorical": choices.categorical}  # fmt: skip
        for option in (name for name, value in given.items() if value):
            raise FileError(
                f"{examples.path}: {option} names columns of a table, but this file holds "
                f"{form.what}; leave {option} out"
            )
    return form.learn(examples, task, choices)


def follow(examples: Examples, recipe: dict[str, Any]) -> tuple[Any, Any]:
    """Features and, where the file has them, labels of new data."""
    if examples.form != recipe["form"]:
        raise FileError(
            f"{examples.path}: is a file of {examples.form}, but the model was trained on one of "
            f"{recipe['form']}; give data in the format of the training data"
        )
    return _FORMS[examples.form].follow(examples, recipe)


def texts_wanted(recipe: dict[str, Any]) -> set[str]:
    """Columns of a table that a recipe needs as texts."""
    found = {c["name"] for c in recipe.get("columns", ()) if c["kind"] == "category"}
    return found | ({recipe["group"]} if "group" in recipe else set())


def _order_of(path: str, y: np.ndarray, order: tuple[str, ...]) -> dict[str, Any]:
    """The parameter of the order of the labels; texts have none of their own."""
    if order:
        return {"classes": _ordered(path, y, order)}
    found = sorted(set(y.tolist()))
    if len(found) > 2 and type(found[0]) is str:
        raise FileError(
            f"{path}: the labels are texts, which do not say their order; name all of them, from "
            f"the lowest to the highest, with --order A,B,C; they are {', '.join(found[:5])}"
            f"{', ...' if found[5:] else ''}"
        )
    return {}


def _ordered(path: str, y: np.ndarray, order: tuple[str, ...]) -> list:
    kind = type(y.tolist()[0])
    try:
        classes = [kind(name) for name in order]
    except ValueError:
        raise FileError(f"--order: {order} cannot be labels of {path}, which are numbers") from None
    unknown = sorted(set(y.tolist()) - set(classes))
    if unknown:
        raise FileError(f"--order does not name {unknown[0]!r}, which is a label of {path}")
    return classes


# --- standardisation ---------------------------------------------------------------------------


def _scaling(X: Any, wanted: bool, which: np.ndarray | None = None) -> dict[str, Any]:
    """Means and scales of the columns of a dense matrix; nothing for a sparse one."""
    if not wanted or sp.issparse(X):
        return {}
    center = X.mean(axis=0, dtype=np.float64)
    scale = np.zeros(len(center))
    for rows in _row_blocks(X):  # X.std(axis=0) would make a copy of X
        scale += np.square(X[rows] - center).sum(axis=0)
    scale = np.sqrt(scale / len(X))
    scale[scale <= 1e-12 * np.maximum(1.0, np.abs(center))] = 1.0  # a constant column
    if which is not None:
        center[~which], scale[~which] = 0.0, 1.0
    return {"center": center.tolist(), "scale": scale.tolist()}


def _row_blocks(X: Any) -> Iterator[slice]:
    step = max(1, _NUMBERS_AT_ONCE // max(1, X.shape[1]))
    return (slice(first, first + step) for first in range(0, len(X), step))


def _scaled(X: Any, recipe: dict[str, Any], *, in_place: bool = False) -> Any:
    """Standardised features; ``in_place`` is for a matrix of float64 that nobody else needs."""
    if "center" not in recipe:
        return X
    center, scale = np.array(recipe["center"]), np.array(recipe["scale"])
    out = X if in_place else np.empty(X.shape)
    for rows in _row_blocks(X):
        out[rows] = (X[rows] - center) / scale
    return out


def scaled_by(prepared: Prepared, rows: np.ndarray) -> Prepared:
    """The same data, standardised by the means and scales of some examples only."""
    recipe, X = prepared.recipe, prepared.X
    if "center" not in recipe:
        return prepared
    which = tables.is_scaled(recipe["columns"]) if "columns" in recipe else None
    if type(X) is list:
        again = _scaling(np.vstack([_features(X[i]) for i in rows]), True, which)
        X = [_rescaled(x, again) for x in X]
    else:
        again = _scaling(X[rows], True, which)
        X = _scaled(X, again)
    scale = np.array(recipe["scale"])
    center = np.array(recipe["center"]) + scale * again["center"]
    scale = scale * again["scale"]
    recipe = {**recipe, "center": center.tolist(), "scale": scale.tolist()}
    return Prepared(X, prepared.y, recipe, prepared.params)


# --- tables ------------------------------------------------------------------------------------


def _learn_table(table: Table, task: str, choices: Choices) -> Prepared:
    targets = tables.find_targets(table, task, choices.target)
    if task in ("multiclass", "ordinal", "sequence") and len(targets) != 1:
        raise FileError(
            f"{table.path}: task {task} needs one column of labels; found {len(targets)}, use "
            "--target to name one (or task multilabel)"
        )
    recipe: dict[str, Any] = {"form": "table", "targets": targets}
    unused = {*targets, *choices.drop}
    if task == "sequence":
        recipe["group"] = choices.group or "sequence"
        if recipe["group"] not in table.names:
            raise FileError(
                f"{table.path}: task sequence needs a column that numbers the sequences; name it "
                f"with --group (there is no column {recipe['group']!r})"
            )
        unused.add(recipe["group"])
    unknown = sorted(set(choices.drop) - set(table.names))
    if unknown:
        raise FileError(f"{table.path}: --drop: there is no column {unknown[0]!r}")
    recipe["task"] = task
    features = [name for name in table.names if name not in unused]
    table, means = fill_missing(table, features, choices.missing)
    recipe["missing"] = choices.missing
    recipe["columns"] = tables.learn_columns(table, unused, set(choices.categorical))
    for column in recipe["columns"]:
        if column["name"] in means:
            column["mean"] = means[column["name"]]
    recipe["feature_names"] = tables.feature_names(recipe["columns"])
    matrix, _ = tables.build(table, recipe["columns"])
    recipe |= _scaling(matrix, choices.scale, tables.is_scaled(recipe["columns"]))
    X, y = _finish_table(table, recipe, matrix)
    return Prepared(X, y, recipe, _label_params(task, recipe))


def _label_params(task: str, recipe: dict[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    if task == "multilabel" and recipe.get("label_names"):
        params["classes"] = recipe["label_names"]
    if task == "ranking":
        params["y_format"] = recipe["y_format"]
        if recipe.get("items"):
            params["items"] = recipe["items"]
    return params


def _table(table: Table, recipe: dict[str, Any]) -> tuple[Any, Any]:
    columns = recipe["columns"]
    known = [column["name"] for column in columns if column["name"] in table.names]
    means = {column["name"]: column["mean"] for column in columns if "mean" in column}
    table, _ = fill_missing(table, known, recipe.get("missing", "error"), means)
    matrix, unseen = tables.build(table, columns)
    if unseen:
        warnings.warn(
            f"{table.path}: {unseen} values of categorical columns were never seen in training; "
            "their indicators are all 0",
            stacklevel=2,
        )
    return _finish_table(table, recipe, matrix)


def _finish_table(table: Table, recipe: dict[str, Any], matrix: np.ndarray) -> tuple[Any, Any]:
    """Standardise the matrix of a table, which is overwritten, and find the labels."""
    X = _scaled(matrix, recipe, in_place=True)
    has_labels = all(name in table.names for name in recipe["targets"])
    y = _table_labels(table, recipe) if has_labels else None
    if recipe["task"] != "sequence":
        return X, y
    if recipe["group"] not in table.names:
        raise FileError(f"{table.path}: column {recipe['group']!r}, of the sequences, is missing")
    groups = table.texts(recipe["group"])
    cuts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    if len({*groups[cuts - 1], groups[-1]}) != len(cuts) + 1:
        raise FileError(
            f"{table.path}: the rows of a sequence must stand together; sort by {recipe['group']!r}"
        )
    return np.split(X, cuts), None if y is None else np.split(y, cuts)


def _table_labels(table: Table, recipe: dict[str, Any]) -> Any:
    """Labels of a table; what is learnt about them goes into the recipe."""
    task, targets = recipe["task"], recipe["targets"]
    if task == "multilabel":
        y, names, unseen = tables.indicator_of(table, targets, recipe.get("label_names"))
        recipe.setdefault("label_names", names)
        _warn_unseen(table.path, unseen)
        return y
    if task == "ranking":
        y, recipe["y_format"], items = tables.rankings_of(table, targets)
        recipe.setdefault("items", items)
        return y
    y, kind = tables.labels_of(table, targets[0], recipe.get("label_kind"))
    recipe.setdefault("label_kind", kind)
    return y


def _warn_unseen(path: str, unseen: int) -> None:
    if unseen:
        warnings.warn(
            f"{path}: {unseen} labels are unknown to the model and were left out", stacklevel=3
        )


# --- matrices, sentences, sequences, graphs ----------------------------------------------------


def _from(X: Any, first: int) -> Any:
    """Columns of a CSR matrix from a number on, 0 or 1; nothing is in the columns before."""
    if not first:
        return X
    return sp.csr_matrix((X.data, X.indices - 1, X.indptr), (X.shape[0], X.shape[1] - 1))


def _learn_matrix(data: Matrix, task: str, choices: Choices) -> Prepared:
    # Features of most files are counted from 1: then there is no column 0.
    first = int(data.is_numbered and data.X.shape[1] > 1 and not (data.X.indices == 0).any())
    X = _from(data.X, first)
    recipe: dict[str, Any] = {"form": "matrix", "task": task, "n_features": X.shape[1]}
    recipe["first_feature"] = first
    recipe["feature_names"] = data.feature_names and data.feature_names[first:]
    y = data.y
    if y is not None and (task == "multilabel") != (np.ndim(y) == 2) and task != "ranking":
        found = "sets of labels" if np.ndim(y) == 2 else "one label per example"
        raise FileError(f"{data.path}: holds {found}, which does not go with task {task}")
    if task == "multilabel" and y is not None:
        recipe["label_names"] = data.label_names or [str(k) for k in range(y.shape[1])]
    if task == "ranking":
        recipe["y_format"] = data.y_format
        if data.y_format is None:
            raise FileError(f"{data.path}: holds no rankings; use a table or npz for task ranking")
    recipe |= _scaling(X, choices.scale)
    return Prepared(_scaled(X, recipe), y, recipe, _label_params(task, recipe))


def _matrix(data: Matrix, recipe: dict[str, Any]) -> tuple[Any, Any]:
    X, wanted = data.X, recipe["n_features"]
    first = recipe.get("first_feature", 0) if data.is_numbered else 0
    if first and (X.indices == 0).any():
        warnings.warn(
            f"{data.path}: has features with the number 0, which the model does not know, as the "
            "training data counted from 1; they were left out",
            stacklevel=2,
        )
        X = X[:, 1:]
    else:
        X = _from(X, first)
    if sp.issparse(X) and X.shape[1] != wanted:
        if X.shape[1] > wanted:
            warnings.warn(
                f"{data.path}: has features up to number {X.shape[1] - 1 + first}, the model knows "
                f"those up to {wanted - 1 + first}; the others were left out",
                stacklevel=2,
            )
            X = X[:, :wanted]
        else:  # rows end with their last feature that is not 0
            X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], wanted))
    if X.shape[1] != wanted:
        raise FileError(
            f"{data.path}: has {X.shape[1]} features, but the model was trained on {wanted}"
        )
    y = data.y
    if recipe["task"] == "multilabel" and y is not None:
        y = _known_labels(data, recipe["label_names"])
    return _scaled(X, recipe), y


def _known_labels(data: Matrix, known: list) -> np.ndarray:
    """The indicator matrix in the order of the labels that a model knows."""
    names = data.label_names or [str(k) for k in range(data.y.shape[1])]
    place = {name: column for column, name in enumerate(names)}
    indicator = np.zeros((len(data.y), len(known)), np.int8)
    for column, name in enumerate(known):
        if name in place:
            indicator[:, column] = data.y[:, place[name]]
    unseen = sum(int(data.y[:, place[name]].sum()) for name in set(names) - set(known))
    _warn_unseen(data.path, unseen)
    return indicator


def _learn_sentences(data: Sentences, task: str, choices: Choices) -> Prepared:
    width = len(data.rows[0][0])
    if width < 2:
        raise FileError(
            f"{data.path}: line {data.lines[0]}: tokens have one column; expected at least a word "
            "and its label, in the last one"
        )
    recipe: dict[str, Any] = {"form": "sentences", "width": width}
    return Prepared(*_sentences(data, recipe), recipe)


def _sentences(data: Sentences, recipe: dict[str, Any]) -> tuple[Any, Any]:
    width, found = recipe["width"], len(data.rows[0][0])
    if found not in (width, width - 1):
        raise FileError(
            f"{data.path}: tokens have {found} columns, but the model was trained on {width} (the "
            f"last one the label; without labels {width - 1})"
        )
    X = TokenFeatures(data.rows, width - 1)
    return X, last_column(data.rows) if found == width else None


def _learn_trees(data: Trees, task: str, choices: Choices) -> Prepared:
    recipe = {"form": "trees", "labels": data.labels is not None}
    return Prepared(*_trees(data, recipe), recipe, {"labels": True} if recipe["labels"] else {})


def _trees(data: Trees, recipe: dict[str, Any]) -> tuple[Any, Any]:
    """Sentences and their heads; pairs of head and label where the model was trained on these."""
    if not recipe.get("labels") or data.heads is None:
        return data.tokens, data.heads
    labels: Sequence[Any] = data.labels or [(None,) * len(heads) for heads in data.heads]
    return data.tokens, [
        list(zip(heads.tolist(), names, strict=True)) for heads, names in zip(data.heads, labels)
    ]


def _learn_packed(data: Sequences, task: str, choices: Choices) -> Prepared:
    features = list(map(_features, data.X))
    stacked = sp.vstack(features, "csr") if sp.issparse(features[0]) else np.vstack(features)
    recipe = {"form": data.form, "n_features": stacked.shape[1]}
    recipe |= _scaling(stacked, choices.scale)
    return Prepared(*_packed(data, recipe), recipe)


def _packed(data: Sequences, recipe: dict[str, Any]) -> tuple[Any, Any]:
    width = _features(data.X[0]).shape[1]
    if width != recipe["n_features"]:
        raise FileError(
            f"{data.path}: has {width} features, but the model was trained on "
            f"{recipe['n_features']}"
        )
    return [_rescaled(x, recipe) for x in data.X], data.y


def _features(x: Any) -> Any:
    """Features of a sequence, or of the nodes of a graph."""
    return x[0] if type(x) is tuple else x


def _rescaled(x: Any, recipe: dict[str, Any]) -> Any:
    return (_scaled(x[0], recipe), *x[1:]) if type(x) is tuple else _scaled(x, recipe)


class _Form(NamedTuple):
    """What a form of examples is, for which tasks, and how features are made of it."""

    what: str
    tasks: tuple[str, ...]
    learn: Callable[[Any, str, Choices], Prepared]
    follow: Callable[[Any, dict[str, Any]], tuple[Any, Any]]


_NUMBERS = ("sequences or graphs of numbers", ("sequence", "graph"), _learn_packed, _packed)
_FORMS = {
    "table": _Form("a table", (*FLAT, "sequence"), _learn_table, _table),
    "matrix": _Form("a matrix with labels", FLAT, _learn_matrix, _matrix),
    "sentences": _Form("columns of tokens", ("sequence",), _learn_sentences, _sentences),
    "trees": _Form("dependency trees", ("tree",), _learn_trees, _trees),
    "sequences": _Form(*_NUMBERS),
    "graphs": _Form(*_NUMBERS),
}  # fmt: skip
