"""Missing values among the features of a table: refused, rows left out, or means in their place."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ._source import FileError
from ._types import Mixed, Table
from .delimited import MISSING, is_value


def fill_missing(
    table: Table, names: Sequence[str], how: str, means: dict[str, float] | None = None
) -> tuple[Table, dict[str, float]]:
    """A table without missing values in the columns ``names``.

    Parameters
    ----------
    table : Table
    names : sequence of str
        Columns of features.
    how : {"error", "drop", "mean"}
        Leave the table as it is, so that they are refused later; leave out rows that have them,
        with a warning that counts them; put the mean of the column in their place.
    means : dict, optional
        Means of the training data; by default those of the columns.

    Returns
    -------
    table : Table
    means : dict
        Of columns of numbers, for new data; empty unless ``how`` is "mean".
    """
    if how == "error":
        return table, {}
    columns = {name: _with_gaps(table, name) for name in names}
    if how == "drop":
        return _without_rows(table, columns), {}
    found = dict(means or {})
    for name, column in columns.items():
        if column.dtype == object:
            continue  # a missing category is refused with its line
        gaps = np.isnan(column)
        if name not in found:
            if gaps.all():
                raise FileError(f"{table.path}: column {name!r} has no values; --drop {name}")
            found[name] = float(column[~gaps].mean())
        columns[name] = np.where(gaps, found[name], column)
    return _with_columns(table, columns), found


def _with_gaps(table: Table, name: str) -> np.ndarray:
    """A column, where missing numbers are NaN; texts and mixtures as they stand in the file."""
    if table.has_numbers(name):
        column: Any = table.column(name)
        return column.astype(np.float64)
    texts = table.texts(name)
    present = {text for text in set(texts) if text.lower() not in MISSING}
    if table.kinds.get(name) == "category" or not present or not all(map(is_value, present)):
        return texts
    return np.array([float(text) if text in present else np.nan for text in texts])


def _with_columns(table: Table, columns: dict[str, np.ndarray]) -> Table:
    old = zip(table.names, table.columns, strict=True)
    return replace(table, columns=[columns.get(name, column) for name, column in old])


def _without_rows(table: Table, columns: dict[str, np.ndarray]) -> Table:
    missing = np.zeros(len(table), bool)
    for column in columns.values():
        if column.dtype == object:
            missing |= np.array([text.lower() in MISSING for text in column])
        else:
            missing |= np.isnan(column)
    if not missing.any():
        return _with_columns(table, columns)
    if missing.all():
        raise FileError(f"{table.path}: every row has missing values; use --drop or --missing mean")
    warnings.warn(
        f"{table.path}: {missing.sum()} of {len(table)} rows have missing values and were left out",
        stacklevel=2,
    )
    rows = np.flatnonzero(~missing)
    filled = _with_columns(table, columns)
    kept = [_rows_of(column, filled, name, rows) for name, column in
            zip(filled.names, filled.columns, strict=True)]  # fmt: skip
    again = table.read_again
    return replace(
        filled,
        columns=kept,
        lines=table.lines[rows],
        read_again=None if again is None else lambda number: again(number)[rows],
    )


def _rows_of(column: Any, table: Table, name: str, rows: np.ndarray) -> Any:
    """Some rows of a column; of a mixture, which may be none without the others, its texts."""
    return (table.texts(name) if isinstance(column, Mixed) else column)[rows]
