"""CSV and TSV: named columns, read some rows at a time with the standard library.

A column whose first rows are all numbers goes into one matrix with the others of its kind, in the
smallest type that holds all values exactly. One without any number is kept as texts, each different
text once. What has both is a mixture, of which nothing is kept: see :class:`Mixed`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from .._matrix_checks import reads_as_number
from ._growing import Growing
from ._source import MAX_SIZE, FileError, Progress, TextFile
from ._types import Mixed, Table

csv.field_size_limit(1 << 24)

# Texts that stand for "no value" in files of many programs.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "-nan"})
# Fields that are held as texts at a time: 2 MB or so.
_FIELDS_AT_ONCE = 1 << 15
# Of a column with more different texts they are no longer looked up: most come only once.
_MOST_SHARED = 1 << 16
# Exact types of numbers, the smallest first.
_TYPES = (np.uint8, np.int16, np.float32, np.float64)


def is_value(text: str) -> bool:
    """Whether a text is a number, and none that stands for "no value"."""
    return reads_as_number(text) and text.lower() not in MISSING


def _delimiter(first: str, suffix: str) -> str:
    if suffix in (".tsv", ".tab"):
        return "\t"
    counts = {mark: first.count(mark) for mark in (",", ";", "\t")}
    return max(counts, key=lambda mark: counts[mark])


def read_delimited(
    path: str | os.PathLike[str],
    *,
    suffix: str = ".csv",
    header: str = "auto",
    encoding: str = "utf-8",
    max_size: int = MAX_SIZE,
    texts: Collection[str] = (),
    progress: Progress | None = None,
) -> Table:
    """Read a file of delimited columns; for the parameters see :func:`maxmargin.files.read`.

    ``".tsv"`` is separated by tabs, ``".csv"`` by the comma, semicolon or tab that the first line
    has most of. With ``header="auto"`` the first line names the columns if none of its fields is a
    number.
    """
    source = TextFile(path, encoding=encoding, max_size=max_size, progress=progress)
    rows = _rows(source, suffix)
    first = next(rows, None)
    if first is None:
        raise FileError(f"{source.name}: the file is empty")
    fields = first[1]
    has_header = header == "yes" or (header == "auto" and not any(map(reads_as_number, fields)))
    names = [f"column{number}" for number in range(1, len(fields) + 1)]
    if has_header:
        names = [field.strip() for field in fields]
        _check_names(source.name, names)
    else:
        rows = chain([first], rows)
    columns = _Columns([name in texts for name in names])
    lines = Growing(np.uint32)
    while some := list(islice(rows, max(1, _FIELDS_AT_ONCE // len(names)))):
        lines.extend(np.array([line for line, _ in some]))
        columns.extend(list(zip(*(row for _, row in some), strict=True)))
    if not len(lines):
        raise FileError(f"{source.name}: has a line of names but no examples")

    source.progress = None  # only the first reading is of interest

    def read_again(number: int) -> np.ndarray:
        found = _texts(islice(_rows(source, suffix), int(has_header), None), number)
        if len(found) != len(lines):
            raise FileError(f"{source.name}: the file has changed while it was read; start again")
        return found

    return Table(source.name, names, columns.finish(), lines.finish(), read_again=read_again)


def _rows(source: TextFile, suffix: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, and their lines."""
    lines = source.lines()
    first_line = next(lines)
    reader = csv.reader(
        chain([first_line], lines), delimiter=_delimiter(first_line, suffix), strict=True
    )
    width = first = 0
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if not width:
                width, first = len(row), reader.line_num
            if len(row) != width:
                raise FileError(
                    f"{source.name}: line {reader.line_num}: {len(row)} fields, but line {first} "
                    f"has {width}; every row needs the same columns"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise FileError(f"{source.name}: line {reader.line_num}: {error}") from None


def _texts(rows: Iterator[tuple[int, list[str]]], number: int) -> np.ndarray:
    """The texts of one column."""
    column = _TextColumn()
    while some := list(islice(rows, _FIELDS_AT_ONCE)):
        column.extend([row[number].strip() for _, row in some])
    return column.finish()


def _check_names(path: str, names: list[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise FileError(
                f"{path}: line 1: two columns have the name {name!r}; names must differ"
            )
        seen.add(name)


# --- columns -----------------------------------------------------------------------------------


class _TextColumn:
    """Texts, with one object for each different one."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}
        self._parts: list[np.ndarray] = []

    def extend(self, fields: Sequence[str]) -> Iterator[str]:
        """Add texts; returns those that may be new."""
        before = len(self._shared)
        if before > _MOST_SHARED:
            self._parts.append(_objects(fields))
            return iter(fields)
        share = self._shared.setdefault
        self._parts.append(_objects([share(text, text) for text in fields]))
        return islice(self._shared, before, None)

    @property
    def first(self) -> str:
        return self._parts[0][0]

    def finish(self) -> np.ndarray:
        return np.concatenate(self._parts) if self._parts else np.empty(0, object)


def _objects(fields: Sequence[str]) -> np.ndarray:
    column = np.empty(len(fields), object)
    column[:] = fields
    return column


class _Columns:
    """All columns of a file, while it is read."""

    def __init__(self, as_texts: list[bool]) -> None:
        self._as_texts = as_texts
        self._columns: list[_TextColumn | Mixed | int] = []
        self._numbers: Growing | None = None
        self._n = 0

    def extend(self, columns: list[tuple[str, ...]]) -> None:
        """Add the fields of some rows, column by column."""
        if self._numbers is None:
            self._begin(columns)
        assert self._numbers is not None
        block = np.zeros((len(columns[0]), self._width))
        for number, fields in enumerate(columns):
            column = self._columns[number]
            match column:
                case int():
                    values = _numbers(fields)
                    if values is None:
                        self._columns[number] = self._first_text(fields)
                    else:
                        block[:, column] = values
                case _TextColumn():
                    new = column.extend([field.strip() for field in fields])
                    if not self._as_texts[number] and any(map(is_value, new)):
                        self._columns[number] = Mixed(0, column.first)
        self._numbers.extend(block)
        self._n += len(block)

    def _begin(self, columns: list[tuple[str, ...]]) -> None:
        """Take each column for what its first rows are."""
        self._width = 0
        for fields, as_texts in zip(columns, self._as_texts, strict=True):
            if as_texts or not any(is_value(field.strip()) for field in fields):
                self._columns.append(_TextColumn())
            elif _numbers(fields) is None:
                self._columns.append(self._first_text(fields))
            else:
                self._columns.append(self._width)
                self._width += 1
        self._numbers = Growing(*_TYPES, width=(self._width,))

    def _first_text(self, fields: tuple[str, ...]) -> Mixed:
        for row, field in enumerate(fields):
            text = field.strip()
            if not is_value(text) or not np.isfinite(float(text)):
                return Mixed(self._n + row, text)
        raise AssertionError("all fields are finite numbers")

    def finish(self) -> list[np.ndarray | Mixed]:
        if self._numbers is None:
            return []
        numbers = self._numbers.finish()
        found: list[np.ndarray | Mixed] = []
        for column in self._columns:
            match column:
                case int():
                    found.append(numbers[:, column])
                case _TextColumn():
                    found.append(column.finish())
                case _:
                    found.append(column)
        return found


def _numbers(fields: tuple[str, ...]) -> np.ndarray | None:
    """The fields as finite numbers, or None if some are not."""
    try:
        values = np.fromiter(map(float, fields), np.float64, len(fields))
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None
