"""ARFF: dense or sparse rows, and the two ways to say which attributes are labels.

Mulan puts a file ``NAME.xml`` with the names of the labels beside ``NAME.arff`` (or beside
``NAME-train.arff``); MEKA writes ``-C n`` into the name of the relation: the first n attributes
are labels, or the last n if n is negative.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import scipy.sparse as sp

from ._source import MAX_SIZE, FileError, read_text
from ._types import Matrix, Table

_NUMERIC = ("numeric", "real", "integer")
_ATTRIBUTE = re.compile(
    r"@attribute\s+(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|(\S+?))\s*(\{.*\}|\s\S.*)$", re.I
)
_MEKA = re.compile(r"-C\s+(-?\d+)")


class Attribute(NamedTuple):
    """A declared column: a number, or one of ``values`` (none: any text)."""

    name: str
    numeric: bool
    values: tuple[str, ...]

    @property
    def is_switch(self) -> bool:
        """Whether it is a nominal attribute with the values 0 and 1."""
        return self.values == ("0", "1")


def read_arff(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Table | Matrix:
    """Read an ARFF file: a table, or a matrix with labels if its rows are sparse."""
    name = os.fspath(path)
    lines = read_text(path, encoding=encoding, max_size=max_size).split("\n")
    attributes, relation, first = _header(name, lines)
    data = [
        (number, text)
        for number, line in enumerate(lines[first:], start=first + 1)
        if (text := line.strip()) and not text.startswith("%")
    ]
    if not data:
        raise FileError(f"{name}: has no examples below @data")
    targets = _targets(name, relation, [attribute.name for attribute in attributes])
    read = _sparse if data[0][1].startswith("{") else _dense
    return read(name, attributes, data, targets)


def _header(path: str, lines: list[str]) -> tuple[list[Attribute], str, int]:
    attributes: list[Attribute] = []
    relation = ""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        word = text.partition(" ")[0].lower()
        if word.startswith("@relation"):
            relation = text[len("@relation") :]
        elif word.startswith("@attribute"):
            attributes.append(_attribute(path, number, text))
        elif word.startswith("@data"):
            if not attributes:
                raise FileError(f"{path}: line {number}: @data before any @attribute")
            return attributes, relation, number
        elif text and not text.startswith("%"):
            raise FileError(
                f"{path}: line {number}: expected @relation, @attribute or @data; found "
                f"{text[:40]!r}"
            )
    raise FileError(f"{path}: has no @data line; the file is truncated, or no ARFF")


def _attribute(path: str, number: int, text: str) -> Attribute:
    found = _ATTRIBUTE.match(text)
    if not found:
        raise FileError(
            f"{path}: line {number}: cannot read {text[:60]!r} as '@attribute name type'"
        )
    name = next(part for part in found.groups()[:3] if part is not None).replace("\\", "")
    kind = found.group(4).strip()
    if kind.startswith("{"):
        return Attribute(name, False, tuple(_fields(kind.strip("{}"))))
    if kind.lower() in _NUMERIC:
        return Attribute(name, True, ())
    if kind.lower() == "string":
        return Attribute(name, False, ())
    raise FileError(
        f"{path}: line {number}: attribute {name!r} has the type {kind!r}; expected numeric, "
        "string or a list of values"
    )


def _fields(line: str) -> list[str]:
    quote = '"' if '"' in line and "'" not in line else "'"
    reader = csv.reader([line], quotechar=quote, escapechar="\\", skipinitialspace=True)
    return [field.strip() for field in next(reader, [])]


def _targets(path: str, relation: str, names: list[str]) -> list[str]:
    """Names of the attributes that are labels."""
    found = _MEKA.search(relation)
    if found:
        n = int(found.group(1))
        return names[:n] if n >= 0 else names[n:]
    whole = Path(path)
    stem = whole.name.lower().removesuffix(".gz").removesuffix(".arff")
    stems = {stem, re.sub(r"[-_](train|test)$", "", stem)}
    for other in sorted(whole.parent.iterdir()):
        if other.suffix.lower() == ".xml" and other.stem.lower() in stems:
            return _labels_of_xml(other, names)
    return []


def _labels_of_xml(path: Path, names: list[str]) -> list[str]:
    try:
        root = ElementTree.fromstring(read_text(path, max_size=10_000_000))
    except ElementTree.ParseError as error:
        raise FileError(f"{path}: the list of labels is no whole XML ({error})") from None
    found = [node.get("name", "") for node in root.iter() if node.tag.endswith("label")]
    unknown = sorted(set(found) - set(names))
    if unknown or not found:
        what = f"names {unknown[0]!r}, which is no attribute" if unknown else "names no label"
        raise FileError(f"{path}: {what} of the ARFF file beside it")
    return found


def _dense(
    path: str, attributes: list[Attribute], data: list[tuple[int, str]], targets: list[str]
) -> Table:
    rows = []
    for number, text in data:
        fields = _fields(text)
        if len(fields) != len(attributes):
            raise FileError(
                f"{path}: line {number}: {len(fields)} values, but {len(attributes)} attributes "
                "are declared"
            )
        rows.append(fields)
    columns = []
    for attribute, values in zip(attributes, zip(*rows, strict=True), strict=True):
        column = np.empty(len(values), object)
        column[:] = values
        columns.append(column)
        _check_values(path, attribute, column, data)
    names = [attribute.name for attribute in attributes]
    # A nominal attribute of zeros and ones is a number: one column instead of two.
    numeric = {a.name: a.numeric or a.is_switch for a in attributes}
    kinds = {name: "number" if numeric[name] else "category" for name in names}
    return Table(path, names, columns, np.array([n for n, _ in data]), kinds, targets)


def _check_values(path, attribute: Attribute, column: np.ndarray, data) -> None:
    if not attribute.values:
        return
    known = {*attribute.values, "?"}
    for place, value in enumerate(column):
        if value not in known:
            raise FileError(
                f"{path}: line {data[place][0]}, attribute {attribute.name!r}: {value!r} is none "
                f"of the declared values"
            )


def _sparse(
    path: str, attributes: list[Attribute], data: list[tuple[int, str]], targets: list[str]
) -> Matrix:
    """Rows ``{index value, ...}``; what is left out is 0, or the first value of a nominal one."""
    codes = [{v: float(c) for c, v in enumerate(a.values)} for a in attributes]
    values: list[float] = []
    indices: list[int] = []
    indptr = [0]
    for number, text in data:
        if not (text.startswith("{") and text.endswith("}")):
            raise FileError(f"{path}: line {number}: expected a sparse row in braces, as before")
        for pair in _fields(text[1:-1]):
            if not pair:
                continue
            index, _, value = pair.partition(" ")
            try:
                column = int(index)
                known = codes[column]
                values.append(known[value.strip("'\"")] if known else float(value))
            except (ValueError, IndexError, KeyError):
                raise FileError(
                    f"{path}: line {number}: {pair!r} is not 'index value' of a declared attribute"
                ) from None
            indices.append(column)
        indptr.append(len(indices))
    shape = (len(data), len(attributes))
    whole = sp.csr_matrix((values, indices, indptr), shape=shape)
    if not np.isfinite(whole.data).all():
        raise FileError(f"{path}: holds values that are not finite; fill or drop them first")
    return _split_sparse(path, attributes, whole, targets)


def _split_sparse(
    path: str, attributes: list[Attribute], whole: sp.csr_matrix, targets: list[str]
) -> Matrix:
    names = [attribute.name for attribute in attributes]
    last = attributes[-1]
    if not targets and not last.numeric:  # a class, as is usual, in the last place
        y = np.array(last.values, object)[whole[:, -1].toarray().ravel().astype(int)]
        is_label = [False] * (len(names) - 1) + [True]
    else:
        y = whole[:, [names.index(name) for name in targets]].toarray().astype(np.int8)
        is_label = [name in set(targets) for name in names]
    for attribute, label in zip(attributes, is_label, strict=True):
        if not label and not attribute.numeric and not attribute.is_switch:
            raise FileError(
                f"{path}: attribute {attribute.name!r} is nominal; in sparse rows only numbers "
                "and {0, 1} can be features"
            )
    kept = np.flatnonzero(~np.array(is_label))
    found = y if y.ndim == 1 or y.shape[1] else None
    return Matrix(path, whole[:, kept], found, [names[k] for k in kept], targets or None)
