"""Reports on outputs with a label for each part: positions of sequences, nodes, cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._labels import LabelCodes
from ._charts import HeatMap
from ._drawings import graph, label_picture, picture, word_box, word_of
from ._markup import Html, count, escape, plural, tag
from ._scores import Measure
from ._style import N_COLOURS
from ._tasks import VOID, Codes, Data, Task, all_right, pooled

_MOST_LABELS = 30
_MOST_SHOWN = 60  # words of a sequence
_MOST_NODES = 200  # of a drawn graph


class PartsTask(Task):
    """A label for each part of an example."""

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        right, counted = pooled(truth, found)
        return [
            Measure(f"{plural(self.part)} labelled right", right, counted),
            Measure(f"{self.noun}s without a mistake", all_right(truth, found),
                    np.ones(len(truth))),
        ]  # fmt: skip

    def facts(self, data: Data) -> list[tuple[str, str]]:
        sizes = np.array([len(t) for t in data.truth])
        void = sum(int((t == VOID).sum()) for t in data.truth)
        lines = [
            *self._width(),
            ("labels", f"{len(self.labels):,}"),
            (f"{self.part}s", f"{sizes.sum():,}"),
            (f"{self.part}s of a {self.noun}",
             f"{sizes.min()} to {sizes.max()}, median {np.median(sizes):g}"),
        ]  # fmt: skip
        return [*lines, ("not labelled", count(void, self.part))] if void else lines

    def _cut(self, labels: Any, sizes: list[int]) -> Codes:
        codes = np.asarray(LabelCodes(self.model.classes_).codes_or_minus_one(labels), np.int64)
        return np.split(codes, np.cumsum(sizes)[:-1])

    def _cut_truth(self, labels: Any, sizes: list[int]) -> Codes:
        """Codes of true labels, of which some may not be known."""
        cut = self._cut(labels, sizes)
        unknown = np.zeros(sum(sizes), bool)
        void = getattr(self.model, "void", None)
        if void is not None:
            from ..estimators._graph_data import is_void

            unknown |= is_void(labels, void)
        if getattr(self.model, "hidden", False):
            from ..estimators._hidden import find_hidden

            unknown |= find_hidden(labels, self.model.classes_)
        parts = np.split(unknown, np.cumsum(sizes)[:-1])
        return [np.where(u, VOID, codes) for u, codes in zip(parts, cut, strict=True)]

    def _frequent(self, train: Data) -> np.ndarray:
        found = self.label_counts(train)
        assert found is not None
        return np.sort(np.argsort(-found[1], kind="stable")[:_MOST_LABELS])

    def _square(
        self, title: str, values: np.ndarray, train: Data, names: tuple[str, str], note: str
    ) -> HeatMap:
        chosen = self._frequent(train)
        if len(chosen) < len(self.labels):
            note += f" The {len(chosen)} most frequent labels of {len(self.labels)}."
        labels = [self.labels[k] for k in chosen]
        return HeatMap(title, values[np.ix_(chosen, chosen)], labels, labels, *names, note=note)


class SequenceTask(PartsTask):
    """A label for each position of a sequence."""

    name = "sequence labelling"
    noun = "sequence"
    part = "position"
    alone_name = "LinearSVC, position by position"

    def encode(self, X: Any, y: Any) -> Codes:
        from ..estimators._sequence_data import check_lengths, flatten_labels
        from ..features.sequences import open_sequences, take_list

        labels, lengths = flatten_labels(y, take_list(X))
        check_lengths(lengths, open_sequences(X, self.model.vectorizer_).indptr)
        return self._cut_truth(labels, list(lengths))

    def predict(self, X: Any) -> Codes:
        found = self.model.predict(X)
        return self._cut(np.concatenate(found), [len(f) for f in found])

    def rows(self, X: Any) -> Any:
        from ..features.sequences import open_sequences

        if self.model.kernel == "precomputed":
            return None
        return open_sequences(X, self.model.vectorizer_).stack()

    def maps(self, train: Data) -> list[HeatMap]:
        weights = getattr(self.model, "transitions_", None)
        if weights is None:
            return []
        allowed = getattr(self.model, "allowed_transitions_", None)
        chosen = self._frequent(train)
        heat = self._square(
            "Transitions: weight of the label of the column after that of the row", weights, train,
            ("label", "next label"),
            "Positive: the pair is encouraged. Negative: it is avoided.",
        )  # fmt: skip
        if allowed is not None and not np.all(allowed):
            note = heat.note + " A dot: forbidden by the constraints."
            heat = heat._replace(blank=~allowed[np.ix_(chosen, chosen)], note=note)
        return [heat]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        x, true = data.given[i], data.truth[i]
        boxes = []
        for t in range(min(len(found), _MOST_SHOWN)):
            boxes.append(word_box(self._shown(x, t), int(true[t]), int(found[t]), self.labels))
        left = len(found) - _MOST_SHOWN
        if left > 0:
            boxes.append(tag("div", tag("b", f"… and {left} more"), class_="word"))
        return tag("div", boxes, class_="words")

    def _shown(self, x: Any, t: int) -> Html:
        if self.image_shape is not None:
            row = x[t : t + 1]
            row = row.toarray() if hasattr(row, "toarray") else np.asarray(row)
            return picture(row.reshape(self.image_shape), 40)
        word = word_of(x[t]) if isinstance(x, Sequence) else None
        return tag("b", f"{t + 1}" if word is None else word)


class GraphTask(PartsTask):
    """A label for each node of a graph."""

    name = "labels of graphs"
    noun = "graph"
    part = "node"
    alone_name = "LinearSVC, node by node"

    def encode(self, X: Any, y: Any) -> Codes:
        from ..estimators._graph_data import node_starts
        from ..estimators._sequence_data import check_lengths, flatten_labels

        graphs = self.model._read(X)
        flat = self.model._flat(y, graphs, "y")
        labels, lengths = flatten_labels(flat, graphs, self.noun, "node")
        check_lengths(lengths, node_starts(graphs), "node")
        return self._cut_truth(labels, list(lengths))

    def predict(self, X: Any) -> Codes:
        found = [np.ravel(f) for f in self.model.predict(X)]
        return self._cut(np.concatenate(found), [len(f) for f in found])

    def rows(self, X: Any) -> Any:
        from ..graphs.features import row_numbers, stack_features

        if self.model.kernel == "precomputed":
            return None
        graphs = self.model._read(X)
        return stack_features(graphs)[row_numbers(graphs)]

    def maps(self, train: Data) -> list[HeatMap]:
        tables = getattr(self.model, "pairwise_coef_", None)
        if tables is None:
            return []
        note = "Positive: the pair of labels is encouraged. Negative: it is avoided."
        return [
            self._square(title, table, train, names, note)
            for (title, names), table in zip(self._table_names(), tables[:4], strict=False)
        ]

    def _table_names(self) -> list[tuple[str, tuple[str, str]]]:
        names = ("label", "neighbour")
        more = [(f"Edges, times their feature {k}", names) for k in range(3)]
        return [("Edges: weight of a pair of labels", names), *more]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        edges = [e for e in self.model._read(data.X[i : i + 1])[0].edges.values() if len(e)]
        if len(found) > _MOST_NODES:
            right = int((found == data.truth[i]).sum())
            return tag("p", f"{right} of {len(found)} nodes right; too many to draw.")
        joined = np.concatenate(edges) if edges else np.empty((0, 2), int)
        return graph(joined, data.truth[i], found, self.labels)

    @property
    def legend(self) -> Html:
        """What the colours mean."""
        swatches = [
            tag("li", tag("b", class_=f"swatch c{k % N_COLOURS}"), label)
            for k, label in enumerate(self.labels[:N_COLOURS])
        ]
        ring = tag("li", escape("red ring or cross: wrong"))
        return tag("ul", swatches, ring, class_="legend")


class GridTask(GraphTask):
    """A label for each cell of a grid."""

    name = "labels of grids"
    noun = "grid"
    part = "cell"
    alone_name = "LinearSVC, cell by cell"

    def _table_names(self) -> list[tuple[str, tuple[str, str]]]:
        if self.model.directions == "shared":
            return [("Neighbours, in all directions", ("label", "neighbour"))]
        return [
            (f"Neighbours: {d.replace('-', ' and ')}", ("label", d))
            for d in ("right", "down", "down-right", "down-left")
        ]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        x = np.asarray(data.given[i])
        shape = x.shape[:2]
        true = data.truth[i]
        wrong = ((found != true) & (true != VOID)).reshape(shape)
        drawn = (
            ("input", picture(x)),
            ("truth", label_picture(true.reshape(shape), "true labels of the cells")),
            (f"prediction, {int(wrong.sum())} of {wrong.size} cells wrong",
             label_picture(found.reshape(shape), "predicted labels of the cells", wrong)),
        )  # fmt: skip
        return tag("div", [tag("figure", art, tag("figcaption", name)) for name, art in drawn],
                   class_="pictures")  # fmt: skip
