"""Rankings as users write them: rank vectors or orderings, checked and turned into positions."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._labels import LabelCodes, as_label_array, find_classes, plain
from .._validation import check_listed, has_items, is_array, is_frame, outside
from ..metrics.rankings import kendall_taus
from .base import Data, Task, Trivial, n_rows
from .baselines import Baseline, regress
from .matchings import as_integers, first_difference
from .measures import Measure, Outputs, exact_match, mean_accuracy
from .parts import refuse_another_order

FORMATS = ("ranks", "orderings")


class RankingFormat(NamedTuple):
    """How rankings are written: which items there are, and from where ranks count."""

    kind: str
    items: np.ndarray
    base: int  # the best rank: 0 or 1

    def write(self, positions: np.ndarray) -> np.ndarray:
        """Rankings in this format, from the positions (0 = best) of the items."""
        if self.kind == "ranks":
            return positions.astype(np.int64) + self.base
        return self.items[np.argsort(positions, axis=1)]


def take_rows(y: Any, n_rows: int) -> list:
    """One row per ranking, all of the same length."""
    y = y.to_numpy() if is_frame(y) else y
    if sp.issparse(y):
        raise ValueError(f"y must be an array, one ranking per row; received {type(y).__name__}.")
    check_listed("y", y, "an array of shape (n_examples, n_items), one ranking per row")
    if is_array(y) and y.ndim != 2:
        raise ValueError(
            "y must have shape (n_examples, n_items), one ranking per row; received shape "
            f"{y.shape}."
        )
    if len(y) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {len(y)} rankings; expected one ranking for each row."
        )
    rows = list(y)
    for i, row in enumerate(rows):
        check_listed(f"y[{i}]", row, "a ranking of all items")
        if len(row) != len(rows[0]):
            raise ValueError(
                f"y[{i}] ranks {len(row)} items but y[0] ranks {len(rows[0])}; every row must rank "
                "all items."
            )
    if len(rows[0]) < 2:
        raise ValueError(f"y ranks {len(rows[0])} items; expected at least 2.")
    return rows


def read_rankings(
    y: Any, n_rows: int, kind: str, items: Any = None, known: RankingFormat | None = None
) -> tuple[np.ndarray, RankingFormat]:
    """Positions (0 = best) of the items in every ranking, and the format they were written in.

    Parameters
    ----------
    known : RankingFormat, optional
        The format of a fitted model, which the rankings must follow; found otherwise.
    """
    rows = take_rows(y, n_rows)
    n_items = len(rows[0])
    names = known.items if known is not None else _take_items(items)
    if kind == "ranks" and names is not None:
        refuse_another_order(y.columns if is_frame(y) else None, names)
    if names is not None and len(names) != n_items:
        what = "items has" if known is None else "the model was fitted on"
        raise ValueError(f"y[0] ranks {n_items} items, but {what} {len(names)}.")
    if kind == "ranks":
        found = known or RankingFormat(
            kind, np.arange(n_items) if names is None else names, _find_base(rows)
        )
        return _read_ranks(rows, found), found
    if known is None:
        known = RankingFormat(kind, _find_items(rows) if names is None else names, 0)
    return _read_orderings(rows, known), known


def item_names(y: Any, kind: str) -> list | None:
    """Names of the columns of a data frame of ranks, unless they are just numbered."""
    if kind != "ranks" or not is_frame(y):
        return None
    names = list(y.columns)
    return None if names == list(range(len(names))) else names


def warn_if_orderings(positions: np.ndarray, found: RankingFormat, items: Any) -> None:
    """Warn if rows that were read as ranks could also be orderings, and then mean something else.

    Rows of the numbers 0 ... M-1, or 1 ... M, are permutations either way, unless the items have
    other names. A row is the same ranking in both ways only if it is its own inverse.
    """
    numbers = set(range(found.base, found.base + len(found.items)))
    if items is not None and set(found.items.tolist()) != numbers:
        return
    inverse = np.argsort(positions, axis=1)
    differs = np.flatnonzero((inverse != positions).any(axis=1))
    if not len(differs):
        return
    i = int(differs[0])
    row = (positions[i] + found.base).tolist()
    warnings.warn(
        f"y_format was not given, and the rows of y can be ranks or orderings. They are taken for "
        f"ranks: y[{i}] == {row} puts the item of column {int(inverse[i, 0])} first, whereas as an "
        f"ordering it would put item {row[0]} first. Say which with y_format='ranks' or "
        "y_format='orderings'.",
        UserWarning,
        stacklevel=outside(),
    )


def _take_items(items: Any) -> np.ndarray | None:
    if items is None:
        return None
    if not has_items(items):
        raise ValueError(f"items must be a sequence of names; received {items!r}.")
    listed = list(items)
    if len(set(listed)) != len(listed):
        repeated = next(name for name in listed if listed.count(name) > 1)
        raise ValueError(f"items holds {plain(repeated)!r} more than once; names must differ.")
    return as_label_array(listed)


def _find_base(rows: list) -> int:
    """Ranks count from 0 if a 0 occurs anywhere, else from 1."""
    lowest = min(int(as_integers(row, f"y[{i}]").min()) for i, row in enumerate(rows))
    return 0 if lowest <= 0 else 1


def _read_ranks(rows: list, found: RankingFormat) -> np.ndarray:
    ranks = np.stack([as_integers(row, f"y[{i}]") for i, row in enumerate(rows)])
    wrong = (np.sort(ranks, axis=1) != np.arange(len(found.items)) + found.base).any(axis=1)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"y[{i}] {first_difference(ranks[i], found.base)}: ranks must be a permutation, "
            "without ties. Break ties first, for example with "
            "scipy.stats.rankdata(..., method='ordinal')."
        )
    return (ranks - found.base).astype(np.int32)


def _find_items(rows: list) -> np.ndarray:
    items = find_classes([label for row in rows for label in row])
    n = len(rows[0])
    if len(items) == n:
        return items
    for i, row in enumerate(rows):
        if len(set(row)) < n:  # a repeated item is the likelier mistake
            _refuse_ordering(i, row, None)
        if set(row) != set(rows[0]):
            odd = next(label for label in row if label not in set(rows[0]))
            raise ValueError(
                f"y[{i}] orders the item {plain(odd)!r}, which y[0] does not; every row must "
                "order the same items."
            )
    raise AssertionError("rows order the same items, once each")


def _refuse_ordering(i: int, row: Any, items: np.ndarray | None) -> None:
    labels = [plain(label) for label in row]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    missing = "" if items is None else f" and lacks {_lacking(labels, items)!r}"
    raise ValueError(
        f"y[{i}] is not an ordering of all items: it holds {repeated!r} more than once{missing}."
    )


def _lacking(labels: list, items: np.ndarray) -> Any:
    return next(plain(item) for item in items if plain(item) not in set(labels))


def _read_orderings(rows: list, found: RankingFormat) -> np.ndarray:
    codes = LabelCodes(found.items)
    n = len(found.items)
    positions = np.empty((len(rows), n), np.int32)
    for i, row in enumerate(rows):
        order = codes.codes_or_minus_one(as_label_array(list(row)))
        if (order < 0).any():
            place = int(np.flatnonzero(order < 0)[0])
            raise ValueError(
                f"y[{i}] holds {plain(row[place])!r} at place {place}, which is none of the items "
                f"{[plain(item) for item in found.items]}."
            )
        positions[i] = -1
        positions[i, order] = np.arange(n)
        if (positions[i] < 0).any():
            _refuse_ordering(i, row, found.items)
    return positions


class RankingTask(Task):
    """An order of all items for each example; codes are positions of the items, 0 the best."""

    key = "ranking"
    title = "label ranking"
    part = "item"

    @property
    def classes(self) -> Any:
        return self.model.items_

    def encode(self, X: Any, y: Any) -> Outputs:
        known = self.model._written()
        return Outputs.of_table(read_rankings(y, n_rows(X), known.kind, known=known)[0])

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return self.encode(X, self.model.predict(X))

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return mean_accuracy(truth, found, "position accuracy")

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        each = np.ones(len(truth))
        tau = Measure("Kendall tau", kendall_taus(truth.table, found.table), each, percent=False)
        return [tau, exact_match(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        mean = truth.table.mean(axis=0)
        return {"says": "always the mean ranking", "positions": _places(mean[None])[0].tolist()}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        return truth.like(np.tile(np.array(trivial["positions"], np.int64), len(truth)))

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None:
            return None
        found, note = regress(rows, train.truth.table.astype(float), others)
        name = "ridge regression of each rank, then sort" + note
        return Baseline(name, Outputs.of_table(_places(found)))


def _places(values: np.ndarray) -> np.ndarray:
    """Places of the values of each row when sorted; of equal ones the first comes first."""
    return np.argsort(np.argsort(values, axis=1, kind="stable"), axis=1, kind="stable")
