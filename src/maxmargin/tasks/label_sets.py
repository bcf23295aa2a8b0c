"""Sets of labels, one an example: indicator matrices, or collections of hashable labels."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._labels import LabelCodes, as_label_array, place_in_sequences, plain
from .._validation import is_array, is_float, is_frame, is_number, is_plain_list, is_switch
from ..structures.multilabel import HIDDEN
from .base import Data, PairTable, Task, Trivial, n_rows
from .baselines import Baseline, classify
from .measures import VOID, Measure, Outputs, exact_match
from .parts import refuse_another_order
from .unknown import hidden_entries

# How the labels came, and how predictions go back.
ARRAY, SPARSE, COLLECTIONS = "array", "sparse", "collections"


class LabelSets(NamedTuple):
    """What a user handed in as y, taken apart.

    ``indicator`` is the (n, L) matrix of zeros and ones, or None for collections: their labels
    stand one after another in ``labels``, those of example i from ``indptr[i]`` to
    ``indptr[i+1]``. ``names`` are the names of the columns, where they have any.
    """

    format: str
    indicator: np.ndarray | None
    labels: np.ndarray
    indptr: np.ndarray
    names: Any = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.indptr) - 1


_NO_LABELS = np.empty(0, object)


def read_label_sets(y: Any, n_rows: int, hidden: bool | str = False) -> LabelSets:
    """Take apart an indicator matrix or a list of collections; refuse what is neither.

    With ``hidden``, entries of a matrix may be hidden, and so marked in the indicator; with
    "auto", NaN is refused: it is as often an accident.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if sp.issparse(y):
        found = _from_matrix(_dense_indicator(y, hidden), SPARSE)
    elif is_plain_list(y):
        found = _from_list(list(y), hidden)
    else:
        names = y.columns if is_frame(y) else None
        array = y if np.ma.isMaskedArray(y) else np.asarray(y)
        if array.ndim == 1 and array.dtype == object:
            found = _from_list(array.tolist(), hidden)
        else:
            found = _from_matrix(_checked_indicator(array, hidden), ARRAY, names)
    if found.n_examples != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {found.n_examples}; expected one set of labels for "
            "each row."
        )
    return found


def read_known_entries(partial_y: Any, n_rows: int, n_labels: int) -> np.ndarray:
    """Entries known at prediction, HIDDEN where they are not."""
    array = partial_y if np.ma.isMaskedArray(partial_y) else np.asarray(partial_y)
    if array.shape != (n_rows, n_labels):
        raise ValueError(
            f"partial_y must have shape ({n_rows}, {n_labels}), an entry for each label of each "
            f"row of X, None or -1 where nothing is known; received shape {array.shape}."
        )
    unknown = hidden_entries(array)
    array = np.asarray(array)
    bad = ~((array == 0) | (array == 1) | unknown)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            "partial_y must hold 0 (absent), 1 (present) or None, NaN or -1 (not known); received "
            f"{plain(array[row, column])!r} at row {row}, column {column}."
        )
    return np.where(unknown, HIDDEN, array).astype(np.int8)


def _from_matrix(indicator: np.ndarray, kind: str, names: Any = None) -> LabelSets:
    return LabelSets(
        kind,
        indicator,
        _NO_LABELS,
        np.zeros(len(indicator) + 1, np.int64),
        None if names is None else list(names),
    )


def _checked_indicator(array: np.ndarray, hidden: bool | str = False) -> np.ndarray:
    """Zeros and ones as small integers; anything else is refused with its place."""
    if array.ndim != 2:
        raise ValueError(
            "y must be an indicator matrix of shape (n_examples, n_labels), zeros and ones, or a "
            f"list of collections of labels; received an array of shape {array.shape}. For one "
            "label per example use MulticlassClassifier; for one label that is there or not, "
            "y.reshape(-1, 1)."
        )
    if array.shape[1] == 0:
        raise ValueError(
            "y has 0 columns; an indicator matrix needs at least one, that of a label."
        )
    unknown = hidden_entries(array) if hidden else np.zeros(array.shape, bool)
    if hidden == "auto":
        unknown &= np.ma.getmaskarray(array) | ~_not_a_number(np.asarray(array))
    array = np.asarray(array)
    bad = ~((array == 0) | (array == 1) | unknown)
    if np.any(bad):
        row, column = np.argwhere(bad)[0]
        raise _no_indicator(array[row, column], row, column)
    if unknown.any() and (array[unknown] == -1).any() and not (array == 0).any():
        raise ValueError(
            "y has hidden entries (-1) and no 0; expected 1 (present), 0 (absent) and -1, None or "
            "NaN (hidden). If -1 means absent, pass (y == 1)."
        )
    if unknown.any():
        array = np.where(unknown, HIDDEN, array)
    return np.ascontiguousarray(array.astype(np.int8))


def _no_indicator(found: Any, row: int, column: int) -> ValueError:
    found = plain(found)
    between = is_float(found) and found % 1 != 0
    return ValueError(
        f"y must hold 0 (label absent) or 1 (present); received {found!r} at row {row}, column "
        f"{column}."
        + (" A continuous target needs a threshold first." if between else "")
        + (" If it means that nothing is known, use hidden=True." if found != found else "")
    )


def _not_a_number(array: np.ndarray) -> np.ndarray:
    return array != array if array.dtype.kind in "fO" else np.zeros(array.shape, bool)


def _dense_indicator(y: Any, hidden: bool | str) -> np.ndarray:
    if hidden:
        return _checked_indicator(sp.csr_array(y).toarray(), hidden)
    matrix = sp.csr_array(y)
    matrix.sum_duplicates()
    bad = np.flatnonzero(~((matrix.data == 0) | (matrix.data == 1)))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right") - 1)
        raise _no_indicator(matrix.data[bad[0]], row, int(matrix.indices[bad[0]]))
    return _checked_indicator(matrix.astype(np.int8).toarray())


def _from_list(rows: list[Any], hidden: bool | str = False) -> LabelSets:
    if hidden and _all_zero_or_one(rows, (-1, None)):
        raise ValueError(
            "y is a list of lists that hold only 0, 1 and marks of hidden entries; pass the "
            "indicator matrix as numpy.array(y)."
        )
    if _all_zero_or_one(rows):
        if any(len(set(row)) < len(row) for row in rows):  # no collection names a label twice
            return _from_matrix(_checked_indicator(np.array(rows)), ARRAY)
        raise ValueError(
            "y is a list of lists that hold only 0 and 1: the rows of an indicator matrix, or "
            "collections of the labels 0 and 1? Pass numpy.array(y) for the former, sets for the "
            "latter."
        )
    for i, row in enumerate(rows):
        _check_collection(row, i)
    return _from_collections(rows)


def _from_collections(rows: list[Any]) -> LabelSets:
    listed = [list(row) for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in listed])]).astype(np.int64)
    return LabelSets(COLLECTIONS, None, as_label_array(list(chain(*listed))), indptr)


def _all_zero_or_one(rows: list[Any], also: tuple = ()) -> bool:
    """Whether these could be the rows of an indicator matrix."""
    if not rows or not all(is_plain_list(row) or is_array(row) for row in rows):
        return False
    alike = len(rows[0]) > 0 and all(len(row) == len(rows[0]) for row in rows)
    values = [value for row in rows for value in row] if alike else []
    if also and not any(value is None or value == -1 for value in values):
        return False
    return alike and all(
        (is_number(value) or is_switch(value) or value is None) and value in (0, 1, *also)
        for value in values
    )


def _check_collection(row: Any, i: int) -> None:
    is_matrix = is_array(row) and row.ndim != 1
    if not isinstance(row, (set, frozenset, list, tuple, np.ndarray)) or is_matrix:
        raise ValueError(
            f"y[{i}] must be a set, list or tuple of labels; received {row!r}. A single label is "
            "a set of one."
        )
    try:
        repeated = len(set(row)) < len(row)
    except TypeError:
        return  # what is no label is refused with its place later
    if repeated:
        twice = next(label for place, label in enumerate(row) if label in list(row)[:place])
        raise ValueError(
            f"y[{i}] names the label {twice!r} twice; name it once. If y is an indicator matrix, "
            "pass it as numpy.array(y)."
        )


def encode_label_sets(
    sets: LabelSets, declared: Any, counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and (n, L) indicator of a training set.

    Without declared classes, columns are named by their numbers or their own names, and labels of
    collections are those of examples that count.
    """
    if sets.indicator is not None:
        L = sets.indicator.shape[1]
        names = declared if declared is not None else sets.names
        if names is None:
            return np.arange(L), sets.indicator
        classes = LabelCodes.from_labels(_NO_LABELS, names, fewest=1).classes
        if len(classes) != L:
            raise ValueError(
                f"classes names {len(classes)} labels but y has {L} columns; expected one name "
                "for each column."
            )
        return classes, sets.indicator
    place = place_in_sequences(sets.indptr)
    example = np.repeat(np.arange(sets.n_examples), np.diff(sets.indptr))
    if declared is None and not counted.all():
        used = np.flatnonzero(counted[example])
        codes = LabelCodes.from_labels(
            sets.labels[used], None, lambda at: place(int(used[at])), fewest=1
        )
    else:
        codes = LabelCodes.from_labels(sets.labels, declared, place, fewest=1)
    known = codes.codes_or_minus_one(sets.labels)
    unknown = np.flatnonzero((known < 0) & counted[example])
    if len(unknown):
        at = int(unknown[0])
        raise ValueError(
            f"{place(at)} is the label {plain(sets.labels[at])!r}, which is not among the "
            f"{len(codes.classes)} classes; declare it with classes= or correct it."
        )
    indicator = np.zeros((sets.n_examples, len(codes.classes)), np.int8)
    indicator[example[known >= 0], known[known >= 0]] = 1
    return codes.classes, indicator


class Unseen(NamedTuple):
    """Labels that the model does not know, and which examples have such labels."""

    labels: np.ndarray
    examples: np.ndarray


def indicator_for_score(sets: LabelSets, classes: np.ndarray) -> tuple[np.ndarray, Unseen]:
    """Indicator of other data, and what the model does not know of them."""
    if sets.indicator is not None:
        if sets.indicator.shape[1] != len(classes):
            raise ValueError(
                f"y has {sets.indicator.shape[1]} columns but the model knows {len(classes)} "
                "labels; expected one column for each, in the order of classes_."
            )
        refuse_another_order(sets.names, classes)
        return sets.indicator, Unseen(_NO_LABELS, np.zeros(sets.n_examples, bool))
    example = np.repeat(np.arange(sets.n_examples), np.diff(sets.indptr))
    known = LabelCodes(classes).codes_or_minus_one(sets.labels)
    indicator = np.zeros((sets.n_examples, len(classes)), np.int8)
    indicator[example[known >= 0], known[known >= 0]] = 1
    examples = np.isin(np.arange(sets.n_examples), example[known < 0])
    return indicator, Unseen(sets.labels[known < 0], examples)


def in_format(indicator: np.ndarray, kind: str, classes: np.ndarray) -> Any:
    """Predictions as the labels came in training."""
    if kind == SPARSE:
        return sp.csr_array(indicator.astype(np.int64))
    if kind == ARRAY:
        return indicator.astype(np.int64)
    names = classes.tolist()
    return [tuple(names[k] for k in np.flatnonzero(row)) for row in indicator]


class MultiLabelTask(Task):
    """A set of labels for each example: zeros and ones, and one column more.

    The last column is 1 for examples with labels that the model does not know.
    """

    key = "multilabel"
    title = "multilabel classification"
    alone_name = "LinearSVC for each label alone"
    nothing_known = "all entries of y are hidden; at least one must be known."

    def encode(self, X: Any, y: Any) -> Outputs:
        return self._outputs(read_label_sets(y, n_rows(X), self.model.hidden))

    def _outputs(self, sets: LabelSets) -> Outputs:
        indicator, unseen = indicator_for_score(sets, self.model.classes_)
        for label in unseen.labels:
            self.unseen.setdefault(plain(label), -1 - len(self.unseen))
        known = indicator != HIDDEN
        # Nothing is known of such an example, but that it has no label that the model lacks.
        extra = np.where(known.any(axis=1) | unseen.examples, unseen.examples, VOID)
        return Outputs.of_table(np.hstack([np.where(known, indicator, VOID), extra[:, None]]))

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        found = self.model.predict(X)
        # Collections of the labels 0 and 1 are ambiguous in y, but not here.
        known = (
            _from_collections(found) if type(found) is list else read_label_sets(found, len(truth))
        )
        return self._outputs(known)

    def pairs(self) -> list[PairTable]:
        edges, T = self.model.edges_, self.model.interactions_
        if not len(edges):
            return []
        # What the presence of both adds to the sum of what each adds alone.
        effect = T[:, 1, 1] - T[:, 1, 0] - T[:, 0, 1] + T[:, 0, 0]
        values = np.full((len(self.classes),) * 2, np.nan)
        first, second = edges.T
        values[first, second] = values[second, first] = effect
        return [PairTable("interaction", "{} + {}", values)]

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return exact_match(truth, found, "subset accuracy")

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        known = truth.counted.reshape(truth.table.shape)
        true, other = (truth.table == 1) & known, (found.table == 1) & known
        wrong, counted = (true != other).sum(axis=1), known[:, :-1].sum(axis=1) + true[:, -1]
        both, sizes = true & other, (true.astype(float) + other) / 2
        example, column = np.divmod(np.arange(true.size), true.shape[1])
        return [
            Measure("Hamming loss", wrong.astype(float), counted.astype(float), True, True),
            Measure("micro F1", both.sum(axis=1).astype(float), sizes.sum(axis=1)),
            Measure("macro F1", both.ravel().astype(float), sizes.ravel(), group=column,
                    example=example),
        ]  # fmt: skip

    def trivial(self, truth: Outputs) -> Trivial:
        whole = truth.table[(truth.table != VOID).all(axis=1), :-1]
        if not len(whole):  # every set has hidden entries: the usual state of each label
            best = ((truth.table == 1).sum(axis=0) > (truth.table == 0).sum(axis=0))[:-1]
        else:
            sets, counts = np.unique(whole, axis=0, return_counts=True)
            best = sets[counts.argmax()]
        return {
            "says": "always the most frequent set of labels",
            "labels": best.astype(int).tolist(),
        }

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        return truth.like(np.tile(np.array([*trivial["labels"], 0], np.int64), len(truth)))

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None:
            return None
        columns, note = [], ""
        for column in train.truth.table.T:
            found, note = classify(rows, column, others)
            columns.append(found)
        return Baseline(self.alone_name + note, Outputs.of_table(np.stack(columns, axis=1)))
