"""From named columns to numbers: which are numbers, which are categories, and the labels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ._source import FileError
from ._types import Mixed, Table
from .delimited import MISSING, is_value

# A column of more different texts, and of more than half as many as rows, is no category.
_MANY_VALUES = 50
# Rows of the matrix that are filled at a time.
_ROWS_AT_ONCE = 1 << 12
_SEPARATORS = re.compile(r"[;,|\s]+")


def place(table: Table, row: int, name: str) -> str:
    """Where a value stands, for messages."""
    return f"{table.path}: line {table.lines[row]}, column {name!r}"


def numbers_of(table: Table, name: str) -> np.ndarray:
    """A column as finite numbers; refuses the first that is none, with its line."""
    column = table.column(name)
    if isinstance(column, Mixed):
        raise _no_number(table, column.row, column.text, name)
    if column.dtype != object:
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise FileError(f"{place(table, int(bad[0]), name)}: the value is not finite")
        return column
    try:
        values = column.astype(np.float64)
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    for row, text in enumerate(column):
        if not is_value(text) or not np.isfinite(float(text)):
            raise _no_number(table, row, text, name)
    raise FileError(f"{table.path}: column {name!r} cannot be read as numbers")


def _no_number(table: Table, row: int, text: str, name: str) -> FileError:
    if text.lower() in MISSING:
        return _missing(table, row, name)
    return FileError(
        f"{place(table, row, name)}: {text!r} is not a finite number; repair it, or name "
        "the column with --categorical (as categories) or --drop (not at all)"
    )


def _missing(table: Table, row: int, name: str) -> FileError:
    return FileError(
        f"{place(table, row, name)}: the value is missing; fill it, use --missing drop or mean, or "
        "leave the column out (--drop)"
    )


def texts_of(table: Table, name: str) -> np.ndarray:
    """A column as texts; a missing one is refused with its line."""
    column = table.texts(name)
    if any(text.lower() in MISSING for text in set(column)):
        row = next(row for row, text in enumerate(column) if text.lower() in MISSING)
        raise _missing(table, row, name)
    return column


def learn_columns(table: Table, unused: set[str], categorical: set[str]) -> list[dict[str, Any]]:
    """What each feature column is: ``{"name", "kind": "number"}``, or a category with values.

    A column whose values are all numbers is one of numbers, one without any a category; a mixture
    is refused, because it is more likely a mistake.
    """
    for name in sorted(categorical - set(table.names)):
        raise FileError(f"{table.path}: there is no column {name!r}; it has {_list(table.names)}")
    columns: list[dict[str, Any]] = []
    for name in table.names:
        if name in unused:
            continue
        if name not in categorical and not _is_category(table, name):
            numbers_of(table, name)
            columns.append({"name": name, "kind": "number"})
            continue
        values = sorted(set(texts_of(table, name)))
        if len(values) > max(_MANY_VALUES, len(table) / 2):
            raise FileError(
                f"{table.path}: column {name!r} has {len(values)} different texts in {len(table)} "
                f"rows, too many for categories; leave it out with --drop {name}"
            )
        columns.append({"name": name, "kind": "category", "values": values})
    if not columns:
        raise FileError(f"{table.path}: no column is left for features")
    return columns


def _is_category(table: Table, name: str) -> bool:
    column = table.column(name)
    if name in table.kinds:
        return table.kinds[name] == "category"
    return column.dtype == object and not any(map(is_value, set(column)))


def build(table: Table, columns: list[dict[str, Any]]) -> tuple[np.ndarray, int]:
    """The matrix of known feature columns, and how many categories were never seen before."""
    filled: list[tuple[int, np.ndarray]] = []  # first column of the matrix, and what goes there
    width = 0
    for column in columns:
        name = column["name"]
        if name not in table.names:
            raise FileError(
                f"{table.path}: column {name!r} is missing, which the model was trained on; the "
                f"file has {_list(table.names)}"
            )
        is_numbers = column["kind"] == "number"
        values = numbers_of(table, name) if is_numbers else _codes(texts_of(table, name), column)
        filled.append((width, values))
        width += 1 if is_numbers else len(column["values"])
    matrix, unseen = np.zeros((len(table), width)), 0
    # Some rows of all columns at a time: column by column, each would run through all of memory.
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = matrix[first : first + _ROWS_AT_ONCE]
        for column, (start, found) in zip(columns, filled, strict=True):
            some = found[first : first + _ROWS_AT_ONCE]
            if column["kind"] == "number":
                part[:, start] = some
                continue
            known = np.flatnonzero(some >= 0)
            part[known, start + some[known]] = 1.0
            unseen += len(some) - len(known)
    return matrix, unseen


def _codes(texts: np.ndarray, column: dict[str, Any]) -> np.ndarray:
    """Numbers of the categories, -1 for one that is not known."""
    code = {value: number for number, value in enumerate(column["values"])}
    return np.fromiter((code.get(text, -1) for text in texts), np.int32, len(texts))


def feature_names(columns: list[dict[str, Any]]) -> list[str]:
    """Names of the columns of the matrix."""
    names: list[str] = []
    for column in columns:
        if column["kind"] == "number":
            names.append(column["name"])
        else:
            names += [f"{column['name']}={value}" for value in column["values"]]
    return names


def is_scaled(columns: list[dict[str, Any]]) -> np.ndarray:
    """Which columns of the matrix are numbers, to be standardised; indicators are not."""
    flags: list[bool] = []
    for column in columns:
        is_number_column = column["kind"] == "number"
        flags += [is_number_column] * (1 if is_number_column else len(column["values"]))
    return np.array(flags)


# --- labels ----------------------------------------------------------------------------------


def find_targets(table: Table, task: str, wanted: tuple[str, ...]) -> list[str]:
    """Which columns hold the labels: those asked for, those declared, or the usual names."""
    for name in wanted:
        if name not in table.names:
            raise FileError(
                f"{table.path}: there is no column {name!r}; it has {_list(table.names)}"
            )
    if wanted:
        return list(wanted)
    if table.targets:
        return table.targets
    lower = {name.lower(): name for name in reversed(table.names)}
    if task in ("multilabel", "ranking"):
        prefix = "label:" if task == "multilabel" else "rank:"
        found = [name for name in table.names if name.lower().startswith(prefix)]
        if found:
            return found
        usual = "labels" if task == "multilabel" else "ordering"
        if usual in lower:
            return [lower[usual]]
        raise FileError(
            f"{table.path}: no column is named '{prefix}...' or {usual!r}; name the columns that "
            "hold the labels with --target"
        )
    for usual in ("label", "class", "target", "y"):
        if usual in lower:
            return [lower[usual]]
    return [table.names[-1]]


def labels_of(table: Table, name: str, kind: str | None = None) -> tuple[np.ndarray, str]:
    """One label per example, and what kind they are: "int", "float" or "str"."""
    if table.has_numbers(name):
        column = numbers_of(table, name)
    else:
        column = table.texts(name)
        if any(text.lower() in ("", "?", "nan") for text in set(column)):
            row = next(r for r, text in enumerate(column) if text.lower() in ("", "?", "nan"))
            raise FileError(f"{place(table, row, name)}: the label is missing")
    if kind is None:
        kind = _kind_of(column)
    if kind != "str":
        try:
            values = column.astype(np.float64)
            if kind == "float":
                return values, kind
            return np.array([int(value) for value in values.tolist()]), kind
        except (ValueError, OverflowError):
            kind = "str"  # labels that a model of numbers does not know
    return table.texts(name), kind


def _kind_of(column: np.ndarray) -> str:
    try:
        values = column.astype(np.float64)
    except ValueError:
        return "str"
    if not np.isfinite(values).all():
        return "str"
    if (values == np.round(values)).all():
        return "int"
    if len(np.unique(values)) > max(20, len(values) / 2):
        raise FileError(
            f"the labels are {len(np.unique(values))} different numbers, such as {values[0]:g}: "
            "this looks like a quantity. Cut it into classes first, or name another --target"
        )
    return "float"


def indicator_of(
    table: Table, targets: list[str], known: list[str] | None = None
) -> tuple[np.ndarray, list[str], int]:
    """Sets of labels as zeros and ones: from a column per label, or one column of lists.

    Returns the matrix, the names of the labels, and how many labels are not among those known.
    """
    if len(targets) > 1 or targets[0].lower().startswith("label:"):
        matrix = np.stack([numbers_of(table, name) for name in targets], axis=1)
        bad = np.argwhere((matrix != 0) & (matrix != 1))
        if len(bad):
            row, column = bad[0]
            raise FileError(
                f"{place(table, row, targets[column])}: labels must be 0 or 1; found "
                f"{matrix[row, column]:g}"
            )
        return matrix.astype(np.int8), [_short(name) for name in targets], 0
    sets = [set(_SEPARATORS.split(text)) - {""} for text in table.texts(targets[0])]
    names = known or sorted(set().union(*sets))
    if not names:
        raise FileError(f"{table.path}: column {targets[0]!r}: no example has a label")
    columns = {name: number for number, name in enumerate(names)}
    indicator = np.zeros((len(sets), len(names)), np.int8)
    unseen = 0
    for row, found in enumerate(sets):
        for label in found:
            if label in columns:
                indicator[row, columns[label]] = 1
            else:
                unseen += 1
    return indicator, list(names), unseen


def _short(name: str) -> str:
    return name.partition(":")[2] if name.lower().startswith(("label:", "rank:")) else name


def rankings_of(table: Table, targets: list[str]) -> tuple[np.ndarray, str, list[str] | None]:
    """Rankings: a column of ranks per item, or one column of orderings ``a>b>c``."""
    if len(targets) > 1:
        ranks = np.stack([numbers_of(table, name) for name in targets], axis=1)
        return ranks.astype(np.int64), "ranks", [_short(name) for name in targets]
    rows: list[list[str]] = []
    for row, text in enumerate(texts_of(table, targets[0])):
        items = [item.strip() for item in re.split(r"[>;]", text)]
        if rows and len(items) != len(rows[0]):
            raise FileError(
                f"{place(table, row, targets[0])}: ranks {len(items)} items, but the first row "
                f"ranks {len(rows[0])}; write all items as a>b>c"
            )
        rows.append(items)
    return np.array(rows, object), "orderings", None


def _list(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
