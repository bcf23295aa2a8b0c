"""CSV and TSV: named columns of text, read with the standard library."""

from __future__ import annotations

import csv
import io
import os

import numpy as np

from ._source import MAX_SIZE, FileError, read_text
from ._types import Table

csv.field_size_limit(1 << 24)


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _delimiter(text: str, suffix: str) -> str:
    if suffix in (".tsv", ".tab"):
        return "\t"
    first = text.partition("\n")[0]
    counts = {mark: first.count(mark) for mark in (",", ";", "\t")}
    return max(counts, key=lambda mark: counts[mark])


def read_delimited(
    path: str | os.PathLike[str],
    *,
    suffix: str = ".csv",
    header: str = "auto",
    encoding: str = "utf-8",
    max_size: int = MAX_SIZE,
) -> Table:
    """Read a file of delimited columns.

    Parameters
    ----------
    path : path
    suffix : str
        ``".tsv"`` is separated by tabs; in ``".csv"`` the comma, semicolon or tab that the first
        line has most of.
    header : {"auto", "yes", "no"}
        Whether the first line names the columns; "auto": if none of its fields is a number.
    encoding : str
    max_size : int

    Raises
    ------
    FileError
        With the line of a row that has more or fewer fields than the first.
    """
    text = read_text(path, encoding=encoding, max_size=max_size)
    name = os.fspath(path)
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text, suffix), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if rows and len(row) != len(rows[0]):
                raise FileError(
                    f"{name}: line {reader.line_num}: {len(row)} fields, but line {lines[0]} has "
                    f"{len(rows[0])}; every row needs the same columns"
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise FileError(f"{name}: line {reader.line_num}: {error}") from None
    has_header = header == "yes" or (header == "auto" and not any(map(is_number, rows[0])))
    names = [field.strip() for field in rows[0]] if has_header else _numbered(len(rows[0]))
    if has_header:
        rows, lines = rows[1:], lines[1:]
        _check_names(name, names)
    if not rows:
        raise FileError(f"{name}: has a line of names but no examples")
    columns = [_column(fields) for fields in zip(*rows, strict=True)]
    return Table(name, names, columns, np.array(lines))


def _numbered(n: int) -> list[str]:
    return [f"column{number}" for number in range(1, n + 1)]


def _check_names(path: str, names: list[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise FileError(
                f"{path}: line 1: two columns have the name {name!r}; names must differ"
            )
        seen.add(name)


def _column(fields: tuple[str, ...]) -> np.ndarray:
    column = np.empty(len(fields), object)
    column[:] = [field.strip() for field in fields]
    return column
