"""What readers return: examples in one of six forms, before any choice of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np


class Mixed(NamedTuple):
    """A column with numbers and other texts, of which only the first other text is kept.

    Most are mistakes in a column of numbers; those that are not are read again: ``Table.texts``.
    """

    row: int
    text: str
    dtype: Any = None  # where an array has one


@dataclass
class Table:
    """Named columns, one row per example.

    Attributes
    ----------
    path : str
        For messages.
    names : list of str
    columns : list
        Numbers, texts (object) as they stand in the file, or a mixture of both.
    lines : array
        Where each row stands in the file, counted from 1; row numbers where there are no lines.
    kinds : dict
        Where the format declares it: ``"number"`` or ``"category"`` by the name of a column.
    targets : list of str
        Columns that the format itself declares to be labels.
    read_again : callable, optional
        Returns the texts of a column, by its index, from the file.
    """

    form: ClassVar[str] = "table"
    path: str
    names: list[str]
    columns: Sequence[np.ndarray | Mixed]
    lines: np.ndarray
    kinds: dict[str, str] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    read_again: Callable[[int], np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def has_numbers(self, name: str) -> bool:
        """Whether a column holds nothing but numbers."""
        column = self.column(name)
        return not isinstance(column, Mixed) and column.dtype != object

    def column(self, name: str) -> np.ndarray | Mixed:
        """The column of this name: numbers, texts (object) or a mixture."""
        return self.columns[self.names.index(name)]

    def texts(self, name: str) -> np.ndarray:
        """The texts of a column as they stand in the file, also of one of numbers."""
        number = self.names.index(name)
        column: Any = self.columns[number]
        if column.dtype == object:
            return column
        if self.read_again is not None:
            return self.read_again(number)
        return np.array([_text_of(value) for value in column.tolist()], object)


def _text_of(value: float) -> str:
    """A number in the shortest way that loses nothing."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@dataclass
class Matrix:
    """A matrix of numbers, dense or CSR, and labels beside it.

    ``y`` is one label per example, an indicator matrix with a column per label, a matrix of
    rankings (``y_format``), or None where the file has no labels.
    """

    form: ClassVar[str] = "matrix"
    path: str
    X: Any
    y: Any = None
    feature_names: list[str] | None = None
    label_names: list | None = None
    y_format: str | None = None
    is_numbered: bool = False  # columns have the numbers of the file, from 0 or from 1

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass
class Sentences:
    """Columns of tokens (CoNLL): ``rows[sentence][token]`` is a list of texts.

    ``lines[sentence]`` is the line of the first token.
    """

    form: ClassVar[str] = "sentences"
    path: str
    rows: Sequence[list[list[str]]]
    lines: Sequence[int] | np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Sequences:
    """Sequences of numbers: arrays of shape (length, n_features), and labels."""

    form: ClassVar[str] = "sequences"
    path: str
    X: list[Any]
    y: list[np.ndarray] | None = None
    label_names: list | None = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass
class Graphs(Sequences):
    """Graphs as ``(node features, edges[, edge features])``, and the labels of their nodes."""

    form: ClassVar[str] = "graphs"


@dataclass
class Trees:
    """Sentences with dependency trees: attributes of the words, their heads and labels.

    ``lines`` are those of the file, with the places of the words among them.
    """

    form: ClassVar[str] = "trees"
    path: str
    tokens: list[Any]
    heads: list[np.ndarray] | None = None
    labels: list[tuple[str, ...]] | None = None
    lines: list[tuple[list[str], list[int]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)


Examples = Table | Matrix | Sentences | Sequences | Graphs | Trees
