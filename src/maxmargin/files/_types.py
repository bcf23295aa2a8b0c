"""What readers return: examples in one of five forms, before any choice of features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Table:
    """Named columns, one row an example.

    Attributes
    ----------
    path : str
        For messages.
    names : list of str
    columns : list of arrays
        Numbers (float64), or texts (object) as they stand in the file.
    lines : array
        Where each row stands in the file, counted from 1; row numbers where there are no lines.
    kinds : dict
        Where the format declares it: ``"number"`` or ``"category"`` by the name of a column.
    targets : list of str
        Columns that the format itself declares to be labels.
    """

    path: str
    names: list[str]
    columns: list[np.ndarray]
    lines: np.ndarray
    kinds: dict[str, str] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> np.ndarray:
        """The column of this name."""
        return self.columns[self.names.index(name)]

    def rows(self, which: np.ndarray) -> Table:
        """Some of the rows."""
        columns = [column[which] for column in self.columns]
        return Table(self.path, self.names, columns, self.lines[which], self.kinds, self.targets)


@dataclass
class Matrix:
    """A matrix of numbers, dense or CSR, and labels beside it.

    ``y`` is one label an example, an indicator matrix with a column a label, a matrix of rankings
    (``y_format``), or None where the file has no labels.
    """

    path: str
    X: Any
    y: Any = None
    feature_names: list[str] | None = None
    label_names: list | None = None
    y_format: str | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass
class Sentences:
    """Columns of tokens (CoNLL): ``rows[sentence][token]`` is a list of texts.

    ``lines[sentence]`` is the line of the first token.
    """

    path: str
    rows: list[list[list[str]]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass
class Sequences:
    """Sequences of numbers: arrays of shape (length, n_features), and labels."""

    path: str
    X: list[Any]
    y: list[np.ndarray] | None = None
    label_names: list | None = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass
class Graphs:
    """Graphs as ``(node features, edges[, edge features])``, and the labels of their nodes."""

    path: str
    X: list[tuple]
    y: list[np.ndarray] | None = None
    label_names: list | None = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass
class Trees:
    """Sentences with dependency trees: pairs (form, tag), and the heads of the words.

    ``lines`` are those of the file, with the places of the words among them.
    """

    path: str
    tokens: list[list[tuple[str, str]]]
    heads: list[np.ndarray] | None = None
    lines: list[tuple[list[str], list[int]]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)


Examples = Table | Matrix | Sentences | Sequences | Graphs | Trees
