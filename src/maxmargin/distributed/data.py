"""Partitions of data on workers, and the training problems made from them.

A worker packs its partition as the estimator itself would: it runs ``fit`` of a copy up to the
point where the training problem is passed to a solver. What depends on all data (labels, names of
features, strength of the regularisation) is found in a first pass and merged, in sorted order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils.validation import _num_samples

from .._validation import is_name, is_text
from ..estimators.sequence import SequenceLabeler
from ..features.dicts import new_vectorizer
from ..features.sequences import holds_dicts, learn_sequences, open_sequences
from ..solvers.parts import Part
from .shards import Shard


class _Handed(Exception):
    """Ends a fit and holds its training problem."""

    def __init__(self, problem: Any):
        self.problem = problem


class Found(NamedTuple):
    """What the first pass finds in a partition."""

    n_examples: int
    n_features: int
    sparse: bool
    names: list[str] | None  # of features, if examples have dicts
    classes: list[Any] | None
    size: tuple[float, float]  # sums of the weights of examples, and of these times their lengths
    sample: tuple[Any, Any]
    recipe: dict[str, Any] | None  # of a shard
    columns: list[Any] | None  # names of those of a table in memory


class Common(NamedTuple):
    """What all partitions share."""

    params: dict[str, Any]
    vectorizer: DictVectorizer | None
    n_features: int  # to which sparse matrices are widened; 0: not at all
    mean_length: float  # of the examples
    recipe: dict[str, Any] | None  # of the shards
    columns: list[Any] | None  # names of those of tables, in their order


def unpack(data: Any, where: str) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    """``(X, y)`` or ``(X, y, sample_weight)`` of a partition, and the recipe of a shard."""
    recipe = None
    if isinstance(data, Shard):
        prepared = data.prepared()
        where, recipe = f"{where} ({data.path})", prepared.recipe
        data = prepared.X, prepared.y
    if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
        raise ValueError(
            f"{where} must be (X, y) or (X, y, sample_weight); received {type(data).__name__}."
        )
    if _num_samples(data[0]) == 0:
        raise ValueError(f"{where} is empty; expected at least one example: leave it out.")
    return tuple(data), recipe


def columns_of(frame: Any, target: Any) -> tuple[Any, np.ndarray]:
    """Inputs, with the names of their columns, and outputs of a partition of a table."""
    X = frame.drop(columns=[target] if is_text(target) else list(target))
    return X, frame[target].to_numpy()


def _column_names(X: Any) -> list[Any] | None:
    """Names of the columns of a table; None for other data."""
    return list(X.columns) if hasattr(X, "columns") else None


def _in_order(X: Any, names: Any) -> Any:
    """A table with columns in another order, if it has just these."""
    own = _column_names(X)
    if own is None or names is None or own == list(names) or set(own) != set(names):
        return X
    return X[list(names)]


def problem_of(model: Any, data: tuple[Any, ...], mean_length: float) -> Any:
    """The training problem that a fit of a copy of the model would solve."""

    def hand_over(problem: Any) -> Any:
        raise _Handed(problem)

    model = clone(model)
    model._hand_over, model._mean_length = hand_over, mean_length
    try:
        model.fit(*data)
    except _Handed as handed:
        return handed.problem
    raise ValueError(
        "partitions with hidden labels cannot be trained by distributed.fit; complete or leave out "
        "these examples, or fit on one machine."
    )


def _transformed(X: Any, common: Common) -> Any:
    """Features with the columns of all partitions."""
    if common.vectorizer is not None:
        opened = open_sequences(X, common.vectorizer)
        rows, bounds = sp.csr_matrix(opened.stack()), opened.indptr
        return [rows[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    if common.n_features and sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], common.n_features))
    return _in_order(X, common.columns)


class Held:
    """A partition of the data on a worker, before training."""

    def __init__(self, k: int, data: Any):
        self.data, self.recipe = unpack(data, f"partition {k}")

    def call(self, name: str, share: float, args: tuple) -> Any:
        return getattr(self, name)(*args)

    def kept(self) -> tuple[None, None]:
        """Return nothing to store: the data can be read again."""
        return None, None

    def look(self, model: Any) -> Found:
        """The first pass."""
        X, y = self.data[:2]
        names = None
        if isinstance(model, SequenceLabeler) and holds_dicts(X):
            names = list(getattr(learn_sequences(X)[1], "feature_names_", ()))
            width, sparse = len(names), True
        else:
            first = X if hasattr(X, "shape") else X[0]
            width = first.shape[1] if hasattr(first, "shape") and first.ndim == 2 else 0
            sparse = sp.issparse(first)
        classes = None
        if "classes" in model.get_params(deep=False) and model.classes is None:
            classes = _labels(y)
        size = _size(y, *self.data[2:])
        sample = X[:2], y[:2]
        return Found(
            _num_samples(X), width, sparse, names, classes, size, sample, self.recipe,
            _column_names(X),
        )  # fmt: skip

    def apply(self, model: Any, method: str) -> Any:
        """A method of a fitted model."""
        X, *others = self.data
        X = _in_order(X, vars(model).get("feature_names_in_"))
        if method != "score":
            return getattr(model, method)(X)
        y = others[0]
        n = sum(map(np.size, y)) if isinstance(y, list) else len(y)
        return model.score(X, *others), float(n)


def _size(y: Any, sample_weight: Any = None) -> tuple[float, float]:
    """Sums of weights, and of weights times the lengths of outputs that are lists."""
    lengths = np.array(
        [len(value) for value in y] if isinstance(y, list) else [1] * _num_samples(y)
    )
    weights = np.ones(len(lengths)) if sample_weight is None else np.asarray(sample_weight, float)
    return float(weights.sum()), float(weights @ lengths)


def _labels(y: Any) -> list[Any]:
    if sp.issparse(y) or (hasattr(y, "ndim") and y.ndim == 2):
        return []
    found: set = set()
    for value in y.tolist() if hasattr(y, "tolist") else y:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        found.update(value if isinstance(value, (list, tuple, set, frozenset)) else [value])
    return sorted(found, key=lambda label: (str(type(label)), label))


def merge(model: Any, found: list[Found], recipe: dict[str, Any] | None) -> Common:
    """What the partitions have in common: sorted, so that their order makes no difference.

    ``recipe`` is that of shards, whose sparse matrices end with their last column that is not 0.
    """
    columns = _common_columns([part.columns for part in found])
    vectorizer, width = None, 0
    if any(part.names is not None for part in found):
        if any(part.names is None for part in found):
            raise ValueError("some partitions have feature dicts and some have matrices.")
        names = sorted(set().union(*(part.names or [] for part in found)))
        vectorizer = new_vectorizer({name: j for j, name in enumerate(names)})
    else:
        widths = [part.n_features for part in found]
        if recipe is not None and all(part.sparse for part in found):
            width = max(widths)
        elif len(set(widths)) > 1:
            k = next(k for k, w in enumerate(widths) if w != widths[0])
            raise ValueError(
                f"partition {k} has {widths[k]} columns, but partition 0 has {widths[0]}; all must "
                "have the same columns."
            )
    given = model.get_params(deep=False)
    params = {k: v for k, v in model._of_partitions.items() if is_name(given[k], "auto")}
    if found[0].classes:
        every = set().union(*(part.classes or [] for part in found))
        params["classes"] = sorted(every, key=lambda label: (str(type(label)), label))
    if recipe is not None and found[0].classes is not None:
        named = recipe.get("order") or recipe.get("label_names")
        params.update({"classes": named} if named else {})
    weight, length = np.sum([part.size for part in found], axis=0)
    mean_length = float(length / weight) if weight else 1.0
    return Common(params, vectorizer, width, mean_length, recipe, columns)


def _common_columns(found: list[list[Any] | None]) -> list[Any] | None:
    """Names of the columns of all tables, in the order of the first; None if there are none."""
    first = found[0]
    for k, names in enumerate(found):
        if names == first:
            continue
        if names is None or first is None:
            lacks, has = (k, 0) if names is None else (0, k)
            raise ValueError(
                f"partition {lacks} has no names of columns, but partition {has} has; give all or "
                "none as tables."
            )
        for name in [*first, *names]:
            if name not in names or name not in first:
                lacks, has = (0, k) if name in names else (k, 0)
                raise ValueError(
                    f"partition {lacks} has no column {name!r}, but partition {has} has one; all "
                    "must have the same columns."
                )
            if names.count(name) > 1 or first.count(name) > 1:
                raise ValueError(
                    f"several columns of partition {k} or 0 are called {name!r}, and the order of "
                    "the columns differs; give every column its own name."
                )
    return first


def make_part(k: int, model: Any, common: Common, n_parts: int, strength: float, data: Any) -> Part:
    """The part of a partition; ``strength`` is the ``alpha W`` of the whole, if it is known."""
    (X, y, *others), _ = unpack(data, f"partition {k}")
    model = clone(model).set_params(**common.params)
    try:
        problem = problem_of(model, (_transformed(X, common), y, *others), common.mean_length)
    except ValueError as error:
        raise ValueError(f"partition {k}: {error}") from None
    problem.n_threads = 1
    return Part(problem.with_strength(strength) if strength else problem, n_parts)
