"""What was read from a model file, looked at as a whole before anyone gets it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ._codec import ModelFileError, is_fitted_name, native_class
from ._dual_checks import check_dual
from ._fitted import check_fitted
from ._indices import check_csr, check_random_state


def check_loaded(value: Any) -> None:
    """Refuse estimators, sparse matrices, dual states and random states that are not whole.

    Walks through everything that estimators, containers and arrays of objects hold.
    """
    waiting, met = [value], {id(value): value}
    while waiting:
        found = waiting.pop()
        _check_one(found)
        for part in _parts(found):
            if id(part) not in met:
                met[id(part)] = part
                waiting.append(part)


def _check_one(value: Any) -> None:
    match value:
        case BaseEstimator() if native_class(type(value).__name__) is type(value):
            check_fitted(value)
            _check_dual(value)
        case np.random.RandomState():
            check_random_state(value.get_state(legacy=False))
        case _ if sparse.issparse(value) and value.format in ("csr", "csc"):
            shape = value.shape if value.format == "csr" else value.shape[::-1]
            check_csr(value.data, value.indices, value.indptr, shape)


def _check_dual(model: Any) -> None:
    """A dual state and the hash of what it belongs to; used when the next fit is a warm start."""
    kept = vars(model).get("_dual")
    if kept is None or not model.__module__.startswith("maxmargin.estimators."):
        return
    if type(kept) is not tuple or len(kept) != 2 or type(kept[0]) is not bytes:
        raise ModelFileError(f"the dual state of its {type(model).__name__} is none")
    try:
        check_dual(kept[1])
    except ValueError as error:
        raise ModelFileError(
            f"the dual state of its {type(model).__name__} is wrong: {error}"
        ) from None


def _is_template(value: Any) -> bool:
    """Whether a value is an estimator that was never fitted: a parameter of another one."""
    return isinstance(value, BaseEstimator) and not any(map(is_fitted_name, vars(value)))


def _parts(value: Any) -> list[Any]:
    match value:
        case BaseEstimator():
            return [part for part in vars(value).values() if not _is_template(part)]
        case dict():
            return [*value.keys(), *value.values()]
        case list() | tuple() | set() | frozenset():
            return list(value)
        case np.ndarray() if value.dtype == object:
            return value.ravel().tolist()
    return []
