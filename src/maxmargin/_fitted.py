"""Fitted attributes of the estimators: what each must be for a model that was read to predict.

A schema is a dict from names of attributes to checks. Sizes have names (``"classes"``,
``"features"``): the first attribute that has a size fixes it, all others must agree with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_extraction import DictVectorizer

from ._codec import ModelFileError
from ._indices import check_array, check_finite_array, check_within
from ._validation import is_array, is_text
from ._value_checks import (
    Check,
    Optional,
    Sizes,
    agree,
    flags,
    indices,
    integer,
    labels,
    list_of,
    number,
    one_of,
    real,
    record,
    short,
    size,
    text,
)

Schema = dict[str, Check]
# A bound is the difference of two numbers, up to rounding.
_ROUNDING = 1e-6


def check_fitted(model: BaseEstimator) -> None:
    """Refuse an estimator of this package whose fitted attributes do not fit each other."""
    schema = _SCHEMAS.get(type(model).__name__)
    if schema is None:
        return
    sizes: Sizes = {}
    fitted = vars(model)
    name = ""
    try:
        for name, check in schema(model).items():
            if name not in fitted and not isinstance(check, Optional):
                raise ValueError("it is missing")
            if name in fitted:
                check(fitted[name], sizes)
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ModelFileError(
            f"the attribute {name} of its {type(model).__name__} is wrong: {error}"
        ) from None


# --- what several estimators share -----------------------------------------------------------

_STATUSES = (
    *("converged", "max_iter", "interrupted", "stopped", "early_stopped", "stationary"),
    *("stalled", "pruned"),
)
_HISTORY: Schema = {"status_": one_of(*_STATUSES), "history_": list_of(record("Check"))}


def _certificate(model: Any) -> Schema:
    """What every fit leaves; the gap must be that of the values beside it."""

    def gap(value: Any, sizes: Sizes) -> None:
        number()(value, sizes)
        expected = model.primal_ - model.dual_
        scale = max(abs(model.primal_), abs(model.dual_))
        if value != expected and not abs(value - expected) <= _ROUNDING * scale < math.inf:
            raise ValueError(f"expected primal_ - dual_ = {expected}, received {value}")

    return {
        "alpha_": number(above=0.0, finite=True),
        "primal_": number(finite=vars(model).get("status_") != "pruned"),
        "dual_": number(),
        "gap_": gap,
        "oracle_error_": number(at_least=-_ROUNDING),
        "n_iter_": integer(1),
        "n_oracle_calls_": integer(0),
        "dual_nbytes_": Optional(integer(0)),
        "objective_": Optional(number()),
        "rounds_": Optional(list_of(record("Round"))),
        "start_objectives_": Optional(real("starts")),
        "unproven_completions_": Optional(integer(0)),
        "bounds_": Optional(_bounds),
        "shards_": Optional(_shards),
        **_HISTORY,
    }


def _bounds(value: Any, sizes: Sizes) -> None:
    if type(value) is not dict:
        raise ValueError(f"expected a dict, received {short(value)}")
    for name, item in value.items():
        text(name, sizes)
        number()(item, sizes)


def _shards(value: Any, sizes: Sizes) -> None:
    """The number of shards of a fit, and the recipe by which they were read."""
    if type(value) is not dict or set(value) != {"number", "recipe"}:
        raise ValueError(f"expected a number and a recipe, received {short(value)}")
    integer(1)(value["number"], sizes)
    recipe = value["recipe"]
    if type(recipe) is not dict or not all(map(is_text, recipe)) or "form" not in recipe:
        raise ValueError(f"expected a recipe with a form, received {short(recipe)}")


def _features(at_least: int = 0) -> Schema:
    return {
        "n_features_in_": size("features", at_least),
        "feature_names_in_": Optional(_names),
    }


def _names(value: Any, sizes: Sizes) -> None:
    if not is_array(value) or not all(map(is_text, value.flat)):
        raise ValueError(f"expected an array of names, received {short(value)}")
    agree(("features",), value.shape, sizes)


def _kernel_weights(model: Any, columns: str | int) -> Schema:
    """Weights of the columns, by features or, with a kernel, by support vectors."""
    kernel = vars(model).get("kernel_")
    common: Schema = {"kernel_": _kernel, "intercept_": real(columns)}
    if kernel is None:
        return common | {"coef_": real(columns, "features", dtype=_precision(model))}
    given = type(kernel).__name__ == "Kernel" and kernel.name == "precomputed"
    return common | {
        "dual_coef_": real("support", columns),
        "support_": indices("support", below="features" if given else None),
        "support_vectors_": real(0, 0) if given else _vectors,
    }


def _precision(model: Any) -> Any:
    """The type of coefficients: pruned ones may have single precision."""
    coef = vars(model).get("coef_")
    single = (is_array(coef) or sparse.issparse(coef)) and coef.dtype == np.float32
    return np.float32 if single and vars(model).get("status_") == "pruned" else np.float64


def _sparse_coef(model: Any) -> Check:
    """Weights of the labels that features were seen with; indices are checked when read."""

    def check(value: Any, sizes: Sizes) -> None:
        if value.format != "csr":
            raise ValueError(f"expected a CSR array, received {short(value)}")
        agree(("classes", "features"), value.shape, sizes)
        check_array("it", value.data, _precision(model), value.data.shape)
        check_finite_array("it", value.data)

    return check


def _kernel(value: Any, sizes: Sizes) -> None:
    if value is None:
        return
    if type(value).__name__ != "Kernel":
        raise ValueError(f"expected None or a Kernel, received {short(value)}")
    one_of("rbf", "poly", "precomputed", "callable")(value.name, sizes)
    number(above=0.0, finite=True)(value.gamma, sizes)
    integer(1)(value.degree, sizes)
    number(at_least=0.0, finite=True)(value.coef0, sizes)


def _vectors(value: Any, sizes: Sizes) -> None:
    found = value.data if sparse.issparse(value) else value  # indices are checked when read
    if not is_array(found) or found.dtype not in (np.float32, np.float64):
        raise ValueError(f"expected a matrix of numbers, received {short(value)}")
    agree(("support", "features"), value.shape, sizes)
    check_finite_array("it", found)


def _vectorizer(value: Any, sizes: Sizes) -> None:
    if value is None:
        return
    if type(value) is not DictVectorizer:
        raise ValueError(f"expected None or a DictVectorizer, received {short(value)}")
    names, vocabulary = value.feature_names_, value.vocabulary_
    agree(("features",), (len(names),), sizes)
    if type(vocabulary) is not dict or set(vocabulary) != set(names):
        raise ValueError("vocabulary_ and feature_names_ must have the same names")
    columns = list(vocabulary.values())
    if not all(type(k) is int for k in columns) or sorted(columns) != list(range(len(names))):
        raise ValueError("vocabulary_ must give every name a column of its own")


# --- the estimators --------------------------------------------------------------------------


def _flat(model: Any) -> Schema:
    return {
        "classes_": labels("classes"),
        **_features(1),
        **_kernel_weights(model, "classes"),
        **_certificate(model),
    }


def _multilabel(model: Any) -> Schema:
    def edges(value: Any, sizes: Sizes) -> None:
        indices("edges", 2, below="classes")(value, sizes)
        if (value[:, 0] == value[:, 1]).any():
            raise ValueError("an edge joins a label with itself")

    return {
        "classes_": labels("classes"),
        "y_format_": one_of("array", "sparse", "collections"),
        "edges_": edges,
        "interactions_": real("edges", 2, 2),
        **_features(1),
        **_kernel_weights(model, "classes"),
        **_certificate(model),
    }


def _sequence(model: Any) -> Schema:
    return {
        "classes_": labels("classes"),
        **_features(1),
        "vectorizer_": _vectorizer,
        **_kernel_weights(model, "classes"),
        **({"coef_": _sparse_coef(model)} if sparse.issparse(vars(model).get("coef_")) else {}),
        "transitions_": real("classes", "classes"),
        "first_": real("classes"),
        "last_": real("classes"),
        "allowed_transitions_": flags("classes", "classes"),
        "allowed_first_": flags("classes"),
        "allowed_last_": flags("classes"),
        "temperature_": Optional(number(above=0.0, finite=True)),
        **_certificate(model),
    }


def _graph(model: Any) -> Schema:
    known = vars(model).get("layout_")
    n_columns = known.n_columns if type(known).__name__ == "Layout" else -1

    def groups(value: Any, sizes: Sizes) -> None:
        every = set(model.classes_.tolist())
        if type(value) is not dict or set(value) != set(known.unary):
            raise ValueError("expected the labels of every group of layout_.unary")
        for group, own in value.items():
            labels(f"states of {group!r}")(own, sizes)
            if len(own) != known.unary[group][1] or not every.issuperset(own.tolist()):
                raise ValueError(f"group {group!r} has other states than in layout_")

    def layout(value: Any, sizes: Sizes) -> None:
        _layout(value, sizes)
        if "group_classes_" not in vars(model):  # of versions without groups
            for _, n_states in value.unary.values():
                agree(("classes",), (n_states,), sizes)

    return {
        "classes_": labels("classes"),
        "layout_": layout,
        "group_classes_": Optional(groups),
        "n_edge_features_": integer(0),
        **_features(),
        **_kernel_weights(model, n_columns),
        "factor_coef_": real("factor inputs", "factor columns"),
        "pairwise_coef_": Optional(real("tables", "classes", "classes")),
        **_certificate(model),
    }


def _layout(value: Any, sizes: Sizes) -> None:
    """Columns of the groups, one after another; entries of tables that name columns of theirs."""
    if type(value).__name__ != "Layout" or not value.unary:
        raise ValueError(f"expected a Layout with groups, received {short(value)}")
    size("factor inputs", 1)(value.n_factor_inputs, sizes)
    size("factor columns")(value.n_factor_columns, sizes)
    _one_after_another([(at[0], at[1], 1) for at in value.unary.values()], value.n_columns)
    _one_after_another([(at[0], at[2], 0) for at in value.factor.values()], value.n_factor_columns)
    for key, (_, ties, n_tied) in value.factor.items():
        known = type(key) is tuple and len(key) == 2 and key[0] in (0, 1, 2)
        if not known or type(ties) is not bytes:
            raise ValueError(f"the group {key!r} of factors is none")
        check_within(f"the table of group {key!r}", np.frombuffer(ties, np.int32), -1, n_tied)


def _one_after_another(pieces: list[tuple[Any, Any, int]], end: Any) -> None:
    at = 0
    for first, width, least in pieces:
        if type(first) is not int or type(width) is not int or first != at or width < least:
            raise ValueError(f"columns of groups must follow each other; received {pieces}")
        at += width
    if type(end) is not int or at != end:
        raise ValueError(f"the columns of the groups end at {at}; received {end!r}")


def _ranker(model: Any) -> Schema:
    n_items = len(vars(model).get("items_", ()))
    return {
        "items_": labels("items"),
        "best_rank_": integer(0, 1),
        **_features(1),
        **_kernel_weights(model, n_items**2),
        **_certificate(model),
    }


def _vector(model: Any) -> Schema:
    return {**_features(1), "coef_": real("features"), **_certificate(model)}


def _subset(model: Any) -> Schema:
    def chosen(value: Any, sizes: Sizes) -> None:
        if value is not None:
            integer(1)(value, sizes)

    return {**_vector(model), "vectorizer_": _vectorizer, "size_": chosen}


def _tree(model: Any) -> Schema:
    def between(value: Any, sizes: Sizes) -> None:
        if value is not None:
            text(value, sizes)

    def templates(value: Any, sizes: Sizes) -> None:
        list_of(text)(value, sizes)
        if value and sizes["features"].bit_count() != 1:
            raise ValueError("features of words are hashed into a power of two of numbers")

    return {
        **_vector(model), "templates_": templates, "between_": between,
        **_second_order(model), **_tree_labels(model),
    }  # fmt: skip


def _second_order(model: Any) -> Schema:
    """Both, or, as in files of older versions, neither."""
    pruner = vars(model).get("pruner_")

    def a_parser(value: Any, sizes: Sizes) -> None:
        if value is None:
            return
        fitted = type(value) is type(model) and "coef_" in vars(value)
        if not fitted or vars(value).get("pruner_") is not None:
            raise ValueError(f"expected a TreeParser of order 1, received {short(value)}")

    def second(value: Any, sizes: Sizes) -> None:
        if pruner is None and value is None:
            return
        list_of(list_of(text))(value, sizes)
        if pruner is None or len(value) != 2 or not all(value):
            raise ValueError("expected templates of siblings and of grandparents, and a pruner_")

    return {"pruner_": Optional(a_parser), "second_templates_": Optional(second)}


def _tree_labels(model: Any) -> Schema:
    """A classifier of as many columns as there are keys, or, without labels, nothing."""
    classifier = vars(model).get("label_model_")

    def a_classifier(value: Any, sizes: Sizes) -> None:
        if value is not None and type(value).__name__ != "MulticlassClassifier":
            raise ValueError(f"expected a MulticlassClassifier, received {short(value)}")

    def templates(value: Any, sizes: Sizes) -> None:
        if classifier is not None:
            list_of(text)(value, sizes)

    def columns(value: Any, sizes: Sizes) -> None:
        if classifier is None:
            return
        check_array("it", value, np.int32, (vars(classifier)["n_features_in_"],))
        if not len(value) or (np.diff(value) <= 0).any():
            raise ValueError("expected increasing numbers")

    return {
        "label_model_": Optional(a_classifier),
        "label_templates_": Optional(templates),
        "label_columns_": Optional(columns),
    }


def _latent(model: Any) -> Schema:
    def gap(value: Any, sizes: Sizes) -> None:
        if value == value:  # some trainers know none: NaN
            number()(value, sizes)

    return {
        "coef_": real("weights"),
        "alpha_": number(above=0.0, finite=True),
        "objective_": number(),
        "gap_": gap,
        "n_iter_": integer(1),
        "n_searches_": integer(0),
        **_HISTORY,
    }


def _position_wise(model: Any) -> Schema:
    return {
        "transformer_": lambda value, sizes: None,
        "n_features_in_": Optional(size("features", 1)),
        "feature_names_in_": Optional(_names),
    }


_SCHEMAS: dict[str, Callable[[Any], Schema]] = {
    "GraphLabeler": _graph,
    "GridLabeler": _graph,
    "LabelRanker": _ranker,
    "LatentPredictor": _latent,
    "Matcher": _vector,
    "MultiLabelClassifier": _multilabel,
    "MulticlassClassifier": _flat,
    "OrdinalClassifier": _flat,
    "PositionWise": _position_wise,
    "SequenceLabeler": _sequence,
    "StructuredPredictor": lambda model: {"coef_": real("weights"), **_certificate(model)},
    "SubsetSelector": _subset,
    "TreeParser": _tree,
}
