"""Checks of what a user hands in: before any work, with the place, the finding and the remedy."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

# The largest magnitude of a number in the data or among the parameters. Solvers multiply two
# features, divide by alpha, and multiply two such quotients: with this limit and the next one the
# results stay far below 1.8e308, where double precision ends.
LARGEST = 1e50
# The smallest divisor: alpha, rho, the sum of the weights of all examples.
SMALLEST = 1e-40


def outside() -> int:
    """The ``stacklevel`` of a warning in the calling function: the first line of other code."""
    own = __name__.partition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == own:
        level, frame = level + 1, frame.f_back
    return level


# --- what a value is -------------------------------------------------------------------------


def is_switch(value: Any) -> TypeGuard[bool]:
    """Whether a value is True or False."""
    return isinstance(value, (bool, np.bool_))


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number; True and False are none."""
    return isinstance(value, numbers.Integral) and not is_switch(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number; True and False are none."""
    return isinstance(value, numbers.Real) and not is_switch(value)


def is_float(value: Any) -> bool:
    """Whether a value is a floating-point number."""
    return isinstance(value, (float, np.floating))


def is_nan(value: Any) -> bool:
    """Whether a value is the number that is not equal to itself."""
    return is_float(value) and bool(np.isnan(value))


def is_text(value: Any) -> TypeGuard[str]:
    """Whether a value is a string."""
    return isinstance(value, str)


def is_name(value: Any, name: str) -> bool:
    """Whether a parameter is this name; it may be an array, which == would go through."""
    return is_text(value) and value == name


def is_array(value: Any) -> TypeGuard[np.ndarray]:
    """Whether a value is an array of numpy."""
    return isinstance(value, np.ndarray)


def is_mapping(value: Any) -> TypeGuard[Mapping]:
    """Whether a value is a dict, or something like it."""
    return isinstance(value, Mapping)


def is_plain_list(value: Any) -> TypeGuard[list | tuple]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_iterable(value: Any) -> bool:
    """Whether a value can be gone through."""
    return hasattr(value, "__iter__")


def is_iterator(value: Any) -> bool:
    """Whether a value can be gone through once only."""
    return hasattr(value, "__next__")


def has_length(value: Any) -> bool:
    """Whether a value has a number of entries."""
    return hasattr(value, "__len__")


def has_items(value: Any) -> bool:
    """Whether a value can be gone through and is no text."""
    return is_iterable(value) and not isinstance(value, (str, bytes))


def is_list(value: Any) -> bool:
    """Whether a value is a list of something: neither a text nor a mapping, and with a length."""
    return has_length(value) and not isinstance(value, (str, bytes, Mapping))


def is_unordered(value: Any) -> bool:
    """Whether a value is a mapping or a set: its entries have no places."""
    return isinstance(value, (Mapping, set, frozenset))


def is_class(value: Any) -> bool:
    """Whether a value is a class, where an object is expected."""
    return isinstance(value, type)


def method_of(value: Any, name: str) -> Callable[..., Any] | None:
    """A method of an object, if it has one of this name."""
    found = getattr(value, name, None)
    return found if callable(found) else None


def fields_of(value: Any) -> tuple[str, ...]:
    """Names of the fields of a NamedTuple, or of its class; none for anything else."""
    return getattr(value, "_fields", ())


def is_frame(value: Any) -> bool:
    """Whether a value is a table with named columns, such as that of pandas."""
    return hasattr(value, "columns")


# --- parameters ------------------------------------------------------------------------------


def check_number(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None
) -> float:
    """A finite number in its range, and not so large or small that products overflow."""
    bound = "a number"
    if above is not None:
        bound = f"a finite number > {above:g}"
    if at_least is not None:
        bound = f"a finite number >= {at_least:g}"
    fits = is_number(value) and -math.inf < value < math.inf
    if fits and abs(value) > LARGEST:
        raise ValueError(f"{name} must be {bound}, at most {LARGEST:g}; received {value!r}.")
    if fits and above == 0 and 0 < value < SMALLEST:
        raise ValueError(f"{name} must be {bound}, at least {SMALLEST:g}; received {value!r}.")
    if (
        not fits
        or (above is not None and not value > above)
        or (at_least is not None and not value >= at_least)
    ):
        raise ValueError(f"{name} must be {bound}; received {value!r}.")
    return float(value)


def check_integer(name: str, value: Any, at_least: int) -> int:
    """An integer in its range."""
    if not is_integer(value) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}; received {value!r}.")
    return int(value)


def is_auto(name: str, value: Any) -> bool:
    """Whether a parameter that is a number or "auto" is the latter; refuses other texts."""
    return is_text(value) and check_choice(name, value, ("auto",)) == "auto"


def check_switch(name: str, value: Any) -> bool:
    """True or False; a word such as "no" would count as True."""
    if not is_switch(value):
        raise ValueError(f"{name} must be True or False; received {value!r}.")
    return bool(value)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of some names."""
    choices = tuple(choices)
    if not (is_text(value) and value in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}; received {value!r}.")
    return value


def check_listed(name: str, value: Any, what: str) -> None:
    """Refuse what is no list of the outputs of all examples."""
    if value is None and name == "y":
        raise ValueError("requires y to be passed, but the target y is None")
    if not is_list(value):
        raise ValueError(f"{name} must be {what}; received {type(value).__name__}.")


def take_examples(
    X: Any, noun: str, remedy: str, *, ndim: int | None = None, single: tuple[type, ...] = ()
) -> list:
    """A non-empty list of examples; refuse one example in the place of a list.

    ``ndim`` is the number of dimensions of an array that is one example, ``single`` are other
    classes of examples.
    """
    alone = isinstance(X, single) or (is_array(X) and X.ndim == ndim and X.dtype != object)
    other = sp.issparse(X) or is_mapping(X) or is_frame(X)
    if alone or other or not has_items(X):
        found = f"one array of shape {X.shape}" if is_array(X) else type(X).__name__
        hint = f"if this is one {noun}, wrap it in a list: [X]" if alone else remedy
        raise ValueError(f"X must be a list of {noun}s; received {found}; {hint}.")
    listed = list(X)
    if not listed:
        raise ValueError(f"X is empty; expected at least one {noun}.")
    return listed


def check_methods(what: str, value: Any, names: Iterable[str]) -> None:
    """Refuse an object of a user that lacks methods."""
    if is_class(value):
        raise TypeError(f"{what} must be an object; received the class {value.__name__}.")
    missing = [name for name in names if method_of(value, name) is None]
    if missing:
        raise TypeError(
            f"{what} must have the methods {', '.join(names)}; {type(value).__name__} lacks "
            f"{', '.join(missing)}."
        )


def check_n_jobs(n_jobs: int | None) -> int:
    """Number of threads, by joblib's rules (-1: all cores)."""
    if n_jobs is not None and (not is_integer(n_jobs) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0; received {n_jobs!r}.")
    return max(1, effective_n_jobs(n_jobs))


def check_callbacks(callbacks: Any) -> tuple:
    """None, one callable, or several."""
    if callbacks is None:
        return ()
    listed = (callbacks,) if callable(callbacks) else callbacks
    if not is_plain_list(listed):
        raise TypeError(
            f"callbacks must be a callable or a list of callables; received {callbacks!r}."
        )
    for position, callback in enumerate(listed):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{position}] must be callable; received {type(callback).__name__}."
            )
    return tuple(listed)


def first_unusable(values: np.ndarray) -> int:
    """Flat index of the first NaN, infinity or number beyond ``LARGEST``, or -1."""
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if flat.dtype.kind == "f" and flat @ flat <= LARGEST:  # one fast pass for the usual case
            return -1
        usable = np.abs(values) <= LARGEST  # not so for NaN
    return -1 if usable.all() else int(np.flatnonzero(~usable.ravel())[0])


def unusable(value: Any) -> str:
    """What is wrong with a number that :func:`first_unusable` found."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "infinity (inf)"
    return f"{value:g}, beyond the largest magnitude that is accepted ({LARGEST:g}),"


def remedy(value: Any) -> str:
    """What to do about such a number."""
    if np.isfinite(value):
        return "Scale the features, for example with sklearn.preprocessing.StandardScaler."
    return "Impute missing values first, for example with sklearn.impute.SimpleImputer."


def check_usable(values: np.ndarray, name: str) -> None:
    """Refuse an array with a number that :func:`first_unusable` finds."""
    first = first_unusable(values)
    if first >= 0:
        found = unusable(values.ravel()[first])
        raise ValueError(f"{name} contains {found} at index {first}; expected finite numbers.")


def check_sample_weight(sample_weight: Any, n: int, unit: str = "example") -> np.ndarray:
    """Non-negative finite weights, one for each example, not all zero."""
    if sample_weight is None:
        return np.ones(n)
    if is_number(sample_weight):
        sample_weight = np.full(n, sample_weight, dtype=np.float64)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be an array of {n} numbers; {error}.") from None
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n,)}: one weight for each {unit}."
        )
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0.0))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and >= 0; received {weights[bad[0]]} at index {bad[0]}. "
            f"A weight of 0 leaves the {unit} out."
        )
    if not weights.any():
        raise ValueError(f"sample_weight is zero for all {n} {unit}s; at least one must count.")
    largest = int(np.argmax(weights))
    if weights[largest] > LARGEST:
        raise ValueError(
            f"sample_weight must be at most {LARGEST:g}, so that no sum of weights overflows; "
            f"received {weights[largest]:g} at index {largest}. Only ratios matter: divide all "
            "weights by the largest one."
        )
    if weights.sum() < SMALLEST:
        raise ValueError(
            f"the sum of sample_weight must be at least {SMALLEST:g}; received "
            f"{weights.sum():g}. Only ratios matter: divide all weights by the largest one."
        )
    return weights


def check_loss_matrix(loss: Any, n_classes: int) -> np.ndarray:
    """A matrix of losses: rows predicted, columns true, zero on the diagonal, none negative."""
    try:
        matrix = np.array(loss, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"loss must be a name or a ({n_classes}, {n_classes}) matrix of numbers; "
            f"received {loss!r}."
        ) from None
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(
            f"loss must have shape ({n_classes}, {n_classes}), one row for each predicted and "
            f"one column for each true class in the order of classes_; received shape "
            f"{matrix.shape}."
        )
    fits = (matrix >= 0.0) & (matrix <= LARGEST)
    if not fits.all():
        j, z = np.argwhere(~fits)[0]
        raise ValueError(
            f"loss must be finite, >= 0 and at most {LARGEST:g}; received {matrix[j, z]} at row "
            f"{j}, column {z}."
        )
    if np.diag(matrix).any():
        k = int(np.flatnonzero(np.diag(matrix))[0])
        raise ValueError(
            f"loss must be 0 on the diagonal (a right prediction costs nothing); received "
            f"{matrix[k, k]} at row {k}, column {k}."
        )
    if not matrix.any():
        raise ValueError("loss is 0 everywhere: no prediction would be better than another.")
    return matrix
