"""Checks of matrices of features: what is no number, or cannot be computed with, and its place."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._validation import first_unusable, has_length, is_frame, is_text, remedy, unusable


def check_finite(X: Any, name: str) -> None:
    """Refuse NaN, infinity and numbers whose products could overflow, with their place."""
    values = X.data if sp.issparse(X) else X
    first = first_unusable(values)
    if first < 0:
        return
    if sp.issparse(X):
        row = int(np.searchsorted(X.indptr, first, side="right") - 1)
        column = int(X.indices[first])
    else:
        row, column = divmod(first, X.shape[1])
    value = values.ravel()[first]
    raise ValueError(
        f"{name} contains {unusable(value)} at row {row}, column {column}; expected finite "
        f"numbers. {remedy(value)}"
    )


def check_rows_of_numbers(X: Any, name: str, row_name: str = "row") -> None:
    """Refuse rows of different lengths and text among numbers, with their place.

    Slow, and so for the case only that numpy could not make a matrix of numbers.
    """
    width = None
    for row, values in enumerate(X):
        if is_text(values) or not has_length(values):
            return  # no rows
        width = len(values) if width is None else width
        if len(values) != width:
            raise ValueError(
                f"{name} has {len(values)} features at {row_name} {row} but {width} at "
                f"{row_name} 0; expected as many everywhere."
            )
        for column, value in enumerate(values):
            if is_text(value) and not reads_as_number(value):
                raise ValueError(
                    f"{name} holds {str(value)!r} at {row_name} {row}, column {column}; expected "
                    "numbers. Encode categories first, for example with "
                    "sklearn.preprocessing.OneHotEncoder."
                )


# Neither is a number, though numpy makes one of it if it is asked for floats.
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_TEXTS = (str, bytes)


def refuse_times_and_texts(X: Any, name: str, row_name: str = "row") -> None:
    """Refuse dates, times and strings among the features, also where they read as numbers.

    ``X`` is an array, a data frame, or anything that numpy makes an array of.
    """
    if sp.issparse(X):
        return
    if is_frame(X) and hasattr(X, "iloc"):  # pandas
        for number, label in enumerate(X.columns):
            _refuse_in_column(X.iloc[:, number], name, repr(label))
        return
    if hasattr(X, "get_columns"):  # polars
        for column in X.get_columns():
            _refuse_in_column(column, name, repr(column.name))
        return
    try:
        array = np.asarray(X)
    except (TypeError, ValueError):
        return  # rows of different lengths, for example: refused elsewhere
    if array.ndim != 2 or array.dtype.kind in "fiub":
        return
    if array.dtype.kind in "Mm":
        raise _time_refused(name, 0, f"at {row_name} 0", array.dtype)
    kinds = set(map(type, array.ravel())) if array.dtype == object else {str}
    if not any(issubclass(kind, (*_TIMES, *_TEXTS)) for kind in kinds):
        return
    first: ValueError | None = None
    for row, values in enumerate(X):  # not of the array, where one string makes strings of all
        for column, value in enumerate(values):
            if _is_text(value, name, column, f"{row_name} {row}"):
                if not reads_as_number(value):
                    return  # the likelier mistake, refused elsewhere
                first = first or _text_refused(name, value, f"{row_name} {row}, column {column}")
    if first is not None:
        raise first


def _is_text(value: Any, name: str, column: Any, place: str) -> bool:
    """Whether a value is a text; refuses dates and times."""
    if isinstance(value, _TIMES):
        raise _time_refused(name, column, f"at {place}", type(value).__name__)
    return isinstance(value, _TEXTS)


def _refuse_in_column(column: Any, name: str, label: str) -> None:
    """The same for a column of a data frame, which knows its own type."""
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", None)  # numpy's, which pandas has and polars has not
    if kind in ("f", "i", "u", "b") or str(dtype).startswith(("Float", "Int", "UInt", "Bool")):
        return
    if kind in ("M", "m") or str(dtype).startswith(("Date", "Duration", "Time", "period")):
        raise _time_refused(name, label, "", dtype)
    for row, value in enumerate(column):
        if _is_text(value, name, label, f"row {row}") and reads_as_number(value):
            raise _text_refused(name, value, f"row {row}, column {label}")


def _time_refused(name: str, column: Any, place: str, kind: Any) -> ValueError:
    return ValueError(
        f"{name} holds dates or times ({kind}) in column {column}{f' {place}' if place else ''}; "
        "expected numbers. Make features of them explicitly, for example the days since a date, "
        "(x - x.min()) / numpy.timedelta64(1, 'D'), or the month."
    )


def _text_refused(name: str, value: Any, place: str) -> ValueError:
    return ValueError(
        f"{name} holds the string {str(value)!r} at {place}; expected numbers. If all strings are "
        "numbers, convert them first: X.astype(float)."
    )


def reads_as_number(text: str | bytes) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
