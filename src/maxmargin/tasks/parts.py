"""A label for each part of an example: positions of sequences, nodes of graphs, cells of grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._labels import as_label_array
from .._validation import has_items, has_length, is_array, is_plain_list, is_unordered
from ..features.sequences import open_sequences, take_list
from ..metrics.spans import count_spans
from .base import PairTable, Task, n_rows
from .measures import (
    VOID,
    Measure,
    Outputs,
    are_spans,
    balanced_accuracy,
    exact_match,
    macro_f1,
    malformed_spans,
    span_scores,
)
from .unknown import find_hidden, is_void


def spell_out(y: Any, sequences: Sequence) -> Any:
    """The same labels, where None in place of the labels of a sequence hides all of them."""
    if not is_plain_list(y) or not any(labels is None for labels in y):
        return y
    if len(y) != len(sequences):
        return y  # said elsewhere
    return [
        [None] * n_rows(x) if labels is None else labels
        for labels, x in zip(y, sequences, strict=True)
    ]


def flatten_labels(
    y: Any, sequences: Sequence, unit: str = "sequence", part: str = "position"
) -> tuple[Any, np.ndarray]:
    """Labels of all positions, and the number of labels of each sequence."""
    if y is None:
        raise ValueError(f"y is None; expected a list with the labels of each {unit}.")
    if is_unordered(y) or not has_items(y):
        raise ValueError(
            f"y must be a list with the labels of each {unit}; received {type(y).__name__}."
        )
    y = list(y)
    if len(y) != len(sequences):
        raise ValueError(
            f"X has {len(sequences)} {unit}s but y has {len(y)}; expected one sequence of "
            "labels for each."
        )
    for i, labels in enumerate(y):
        if is_unordered(labels) or not has_length(labels):
            raise ValueError(
                f"y[{i}] must be a sequence of labels, one for each {part} of X[{i}]; "
                f"received {labels!r}."
            )
    lengths = np.array([len(labels) for labels in y], dtype=np.int64)
    arrays = all(is_array(labels) and labels.ndim == 1 for labels in y)
    if arrays and len({labels.dtype.kind for labels in y}) == 1:
        return np.concatenate(y), lengths
    return as_label_array([label for labels in y for label in labels]), lengths


def check_lengths(lengths: np.ndarray, indptr: np.ndarray, part: str = "position") -> None:
    """Every sequence must have as many labels as positions."""
    wrong = np.flatnonzero(lengths != np.diff(indptr))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"X[{i}] has {indptr[i + 1] - indptr[i]} {part}s but y[{i}] has {lengths[i]} "
            f"labels; expected one label for each {part}."
        )


class PartsTask(Task):
    """A label for each part of an example."""

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        shared = (balanced_accuracy, macro_f1, exact_match)
        return [measure(truth, found) for measure in shared]

    def _truth(self, labels: Any, lengths: np.ndarray, unknown: np.ndarray) -> Outputs:
        """True labels, of which some are not known."""
        codes = np.full(len(labels), VOID)
        known = np.flatnonzero(~unknown)
        codes[known] = self._codes(labels[known])
        return Outputs(codes, np.concatenate([[0], np.cumsum(lengths)]))


class SequenceTask(PartsTask):
    """A label for each position of a sequence."""

    key = "sequence"
    title = "sequence labelling"
    noun = "sequence"
    part = "position"
    alone_name = "LinearSVC, position by position"

    def encode(self, X: Any, y: Any) -> Outputs:
        sequences, hidden = take_list(X), self.model.hidden
        labels, lengths = flatten_labels(spell_out(y, sequences) if hidden else y, sequences)
        check_lengths(lengths, open_sequences(sequences, self.model.vectorizer_).indptr)
        return self._truth(labels, lengths, find_hidden(labels, self.model.classes_, bool(hidden)))

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return truth.like(self._codes(np.concatenate(self.model.predict(X))))

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        spelt = self._spelt(truth, found)
        return super().others(truth, found) + (span_scores(*spelt) if spelt else [])

    def by_type(self, truth: Outputs, found: Outputs) -> dict[str, dict[str, float]]:
        spelt = self._spelt(truth, found)
        if not spelt:
            return {}
        return {
            name: {"precision": each.precision, "recall": each.recall, "F1": each.f1,
                   "spans": each.n_true}
            for name, each in count_spans(*spelt).types.items()
        }  # fmt: skip

    def malformed(self, truth: Outputs, found: Outputs) -> dict[str, Any]:
        spelt = self._spelt(truth, found)
        return malformed_spans(*spelt) if spelt else {}

    def _spelt(self, truth: Outputs, found: Outputs) -> list | None:
        """Labels as texts, if they mark spans and all are known."""
        names = [*self.labels, *map(str, reversed(self.unseen))]  # codes from the end are unseen
        if not (truth.counted.all() and are_spans(names)):
            return None
        return [[[names[code] for code in part] for part in outputs.split()]
                for outputs in (truth, found)]  # fmt: skip

    def pairs(self) -> list[PairTable]:
        values = np.where(self.model.allowed_transitions_, self.model.transitions_, np.nan)
        return [PairTable("transition", "{} -> {}", values)]

    def rows(self, X: Any) -> Any:
        if self.model.kernel == "precomputed":
            return None
        return open_sequences(X, self.model.vectorizer_).stack()


class GraphTask(PartsTask):
    """A label for each node of a graph."""

    key = "graph"
    title = "labels of graphs"
    noun = "graph"
    part = "node"
    alone_name = "LinearSVC, node by node"
    nothing_known = "all nodes of y are void or hidden; at least one must have a label."

    def encode(self, X: Any, y: Any) -> Outputs:
        from ..graphs.features import node_starts  # sequences do without

        graphs = self.model._read(X)
        flat = self.model._flat(y, graphs, "y")
        labels, lengths = flatten_labels(flat, graphs, self.noun, "node")
        check_lengths(lengths, node_starts(graphs), "node")
        unknown = is_void(labels, self.model.void)
        known = np.flatnonzero(~unknown)
        if len(known):
            unknown[known] = find_hidden(
                labels[known], self.model.classes_, bool(self.model.hidden)
            )
        return self._truth(labels, lengths, unknown)

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return truth.like(self._codes(np.concatenate(list(map(np.ravel, self.model.predict(X))))))

    def pairs(self) -> list[PairTable]:
        # Factor graphs of users have none.
        tables = vars(self.model).get("pairwise_coef_", ())
        return [PairTable("edge", "{} - {}", table) for table in tables]

    def rows(self, X: Any) -> Any:
        if self.model.kernel == "precomputed":
            return None
        from ..graphs.features import row_numbers, stack_features

        graphs = self.model._read(X)
        return stack_features(graphs)[row_numbers(graphs)]


class GridTask(GraphTask):
    """A label for each cell of a grid."""

    key = "grid"
    title = "labels of grids"
    noun = "grid"
    part = "cell"
    alone_name = "LinearSVC, cell by cell"


def refuse_another_order(columns: Any, expected: np.ndarray) -> None:
    """Refuse columns of a data frame ``y`` that have the names expected in another order."""
    names, known = list(columns if columns is not None else ()), expected.tolist()
    if names != known and len(names) == len(known) and set(names) == set(known):
        raise ValueError(
            f"y has the columns {names}, but expected are {known}, in this order. Reorder them: "
            "y = y[names], where names are those expected."
        )
