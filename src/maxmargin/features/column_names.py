"""Names of the columns of sequences that are data frames, by the rules of scikit-learn.

Columns are read by their positions, so the same names in another order are refused. Columns whose
names are no strings have no names; arrays have none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._validation import is_frame, is_text, outside

# Names that an error lists in full; of longer lists it shows the first that differs.
_SHOWN = 10


def common_names(sequences: Iterable[Any], known: Sequence[str] | None = None) -> list[str] | None:
    """Names that the columns of all sequences have, None if they have none.

    Differences between sequences, or from the names ``known`` to a model, are refused. A warning
    says which sequence has no names if others have.
    """
    expected = None if known is None else list(known)
    whose = "the model was fitted with"
    named, without = False, -1
    for i, x in enumerate(sequences):
        names = np.asarray(x.columns, dtype=object).tolist() if is_frame(x) else []
        if names and names == expected:
            named = True
        elif not _all_texts(names, i):
            without = i if without < 0 else without
        elif expected is None:
            named, expected, whose = True, names, f"X[{i}] has"
        else:
            raise ValueError(_difference(names, expected, i, whose))
    if named and without >= 0:
        _warn(
            f"X[{without}] has no names of columns, but other sequences have; its columns are "
            "taken to be in the same order."
        )
    return expected if named else None


def keep_names(model: Any, names: list[str] | None) -> None:
    """Set ``feature_names_in_`` of a model in ``fit``, or remove that of an earlier fit."""
    vars(model).pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def names_known(model: Any) -> list[str] | None:
    """Names of the columns that a model was fitted with."""
    names = vars(model).get("feature_names_in_")
    return None if names is None else names.tolist()


def warn_names(model: Any, names: list[str] | None) -> None:
    """Warn if only the data of ``fit``, or only those of a prediction, have names."""
    name, fitted = type(model).__name__, "feature_names_in_" in vars(model)
    if fitted and names is None:
        _warn(f"X does not have valid feature names, but {name} was fitted with feature names")
    elif names is not None and not fitted:
        _warn(f"X has feature names, but {name} was fitted without feature names")


def _all_texts(names: list[Any], i: int) -> bool:
    """Whether there are names and all are strings; refuse a mixture with others."""
    texts = sum(map(is_text, names))
    if 0 < texts < len(names):
        other = next(name for name in names if not is_text(name))
        raise TypeError(
            f"X[{i}] has strings and others, such as {other!r}, for names of columns; expected "
            f"strings only: X[{i}].columns = X[{i}].columns.astype(str)."
        )
    return texts > 0


def _difference(names: list[str], expected: list[str], i: int, whose: str) -> str:
    """Say how the names of a sequence differ from those expected."""
    remedy = "Pass the same columns in the same order."
    if sorted(names) == sorted(expected):
        remedy = f"Reorder them: X[{i}] = X[{i}][names], where names are those expected."
    if max(len(names), len(expected)) <= _SHOWN:
        return f"X[{i}] has the columns {names}, but {whose} {expected}. {remedy}"
    pairs = zip([*names, None], [*expected, None], strict=False)
    at = next(j for j, (name, other) in enumerate(pairs) if name != other)
    return (
        f"X[{i}] has {len(names)} columns, column {at} is {_at(names, at)}, but {whose} "
        f"{len(expected)} columns, of which column {at} is {_at(expected, at)}. {remedy}"
    )


def _at(names: list[str], at: int) -> str:
    return repr(names[at]) if at < len(names) else "missing"


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=outside())
