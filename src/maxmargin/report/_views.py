"""How outputs are shown, for each task: facts, tables, learnt weights, drawings of examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators.values import Neighbors
from ..tasks import VOID, Data, Outputs, Task
from ._charts import HeatMap, heat_map
from ._drawings import chip, graph, label_picture, picture, score_bars, word_box, word_of
from ._markup import Html, count, escape, join, table, tag
from ._style import N_COLOURS

MOST_LABELS = 30  # rows of a heat map or of a table
_MOST_CONFUSED = 12
_MOST_SHOWN = 60  # words of a sequence
_MOST_NODES = 200  # of a drawn graph
Facts = list[tuple[str, str]]


class View:
    """Outputs without labels; the other kinds override what differs."""

    wide = False  # whether a drawing takes a whole line
    counts_parts = True  # whether to say how many parts of an example are right
    legend: str | Html | None = None

    def __init__(self, task: Task, image_shape: tuple[int, ...] | None = None):
        self.task = task
        self.model: Any = task.model
        self.image_shape = image_shape

    def facts(self, data: Data) -> Facts:
        """Sizes of the data, besides the number of examples."""
        return self._width()

    def _width(self) -> Facts:
        width = vars(self.model).get("n_features_in_")
        return [] if width is None else [("features", f"{width:,}")]

    def label_counts(self, data: Data) -> np.ndarray | None:
        """How often each label occurs."""
        return None

    def tables(self, truth: Outputs, found: Outputs) -> list[Html]:
        """Right and wrong in detail."""
        return []

    def maps(self, train: Data) -> list[HeatMap]:
        """Weights worth seeing."""
        return []

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        """One example with its true and its predicted output."""
        raise NotImplementedError


class LabelView(View):
    """Labels, of examples or of parts of them."""

    @property
    def labels(self) -> list[str]:
        """Names of the labels, in the order of their codes."""
        return self.task.labels

    def facts(self, data: Data) -> Facts:
        return [*self._width(), ("labels", f"{len(self.labels):,}")]

    def label_counts(self, data: Data) -> np.ndarray:
        codes = data.truth.codes
        return np.bincount(codes[codes >= 0], minlength=len(self.labels))

    def tables(self, truth: Outputs, found: Outputs) -> list[Html]:
        known = truth.codes >= 0
        K = len(self.labels)
        confusion = np.zeros((K, K), np.int64)
        np.add.at(confusion, (truth.codes[known], found.codes[known]), 1)
        out = []
        if 1 < K <= _MOST_CONFUSED:
            out.append(heat_map(HeatMap(
                "How often a label (row) was predicted as another (column)", confusion, self.labels,
                self.labels, "true", "predicted", counts=True,
            )))  # fmt: skip
        return [*out, self._label_table(np.diag(confusion), confusion.sum(0), confusion.sum(1))]

    def _label_table(self, right: np.ndarray, predicted: np.ndarray, support: np.ndarray) -> Html:
        """Precision, recall, F1 and support of labels."""

        def share(a: float, b: float) -> str:
            return f"{a / b:.1%}" if b else "—"

        chosen = np.sort(np.argsort(-support, kind="stable")[:MOST_LABELS])
        rows = [
            [self.labels[k], share(right[k], predicted[k]), share(right[k], support[k]),
             share(2 * right[k], predicted[k] + support[k]), f"{support[k]:,}"]
            for k in chosen
        ]  # fmt: skip
        few = f": the {len(chosen)} most frequent of {len(support)}"
        caption = "By label" + (few if len(chosen) < len(support) else "")
        return table(["label", "precision", "recall", "F1", "support"], rows, caption=caption)

    def _square(
        self, title: str, values: np.ndarray, train: Data, names: tuple[str, str], note: str
    ) -> HeatMap:
        """A table of pairs of labels, of the most frequent ones if there are many."""
        chosen = np.sort(np.argsort(-self.label_counts(train), kind="stable")[:MOST_LABELS])
        if len(chosen) < len(self.labels):
            note += f" The {len(chosen)} most frequent labels of {len(self.labels)}."
        labels, shown = [self.labels[k] for k in chosen], values[np.ix_(chosen, chosen)]
        return HeatMap(title, shown, labels, labels, *names, note=note, blank=np.isnan(shown))


class FlatView(LabelView):
    """One label per example."""

    def maps(self, train: Data) -> list[HeatMap]:
        fitted = vars(self.model)
        coef, K = fitted.get("coef_"), len(self.labels)
        if coef is None or np.ndim(coef) != 2 or len(coef) != K or max(coef.shape) > MOST_LABELS:
            return []
        columns = list(map(str, fitted.get("feature_names_in_", range(coef.shape[1]))))
        note = "Positive: a large value of the feature speaks for the label."
        return [HeatMap("Weights of the features", coef, self.labels, columns, "label", "feature",
                        note)]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        k, true = int(found[0]), int(data.truth[i][0])
        shown = None
        if self.image_shape is not None:
            shown = picture(dense(one(data.given, i)).reshape(self.image_shape), 72)
        scores = np.atleast_2d(self.model.decision_function(one(data.X, i)))
        if scores.shape[1] == 1 and len(self.labels) == 2:
            scores = np.hstack([-scores / 2, scores / 2])
        bars = None
        if len(self.labels) <= _MOST_CONFUSED and scores.shape[1] == len(self.labels):
            bars = score_bars(self.labels, scores[0], k)
        says = tag("p", "predicted ", chip(self.labels[k], k), self._truth_note(true, k))
        return tag("div", shown, tag("div", says, bars), class_="row")

    def _truth_note(self, true: int, found: int) -> Html | None:
        if true == found:
            return None
        name = "a label that is not in the training data" if true < 0 else self.labels[true]
        return join(" true ", chip(name, true))


class LabelSetView(FlatView):
    """A set of labels per example."""

    counts_parts = False
    legend = "Struck out: predicted, but not true. With a plus: true, but not predicted."

    def facts(self, data: Data) -> Facts:
        sizes = (data.truth.table == 1).sum(axis=1)
        return [*super().facts(data), ("labels per example", f"{sizes.mean():.2f} on average, at "
                                       f"most {sizes.max()}")]  # fmt: skip

    def label_counts(self, data: Data) -> np.ndarray:
        return (data.truth.table == 1).sum(axis=0)[:-1]

    def tables(self, truth: Outputs, found: Outputs) -> list[Html]:
        true = (truth.table == 1)[:, :-1]
        other = (found.table == 1)[:, :-1] & (truth.table != VOID)[:, :-1]
        return [self._label_table((true & other).sum(axis=0), other.sum(axis=0), true.sum(axis=0))]

    def maps(self, train: Data) -> list[HeatMap]:
        note = "Positive: the two labels attract each other. Negative: they exclude each other."
        return [
            self._square("Interactions of labels", pairs.values, train, ("label", "label"), note)
            for pairs in self.task.pairs()
        ] or super().maps(train)

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        true = data.truth[i]
        chips = []
        for k, name in enumerate(self.labels):
            if true[k] == VOID:
                continue
            if true[k] and found[k]:
                chips.append(chip(name, k))
            elif found[k]:
                chips.append(chip(name, k, "miss", f"{name}: predicted, not true"))
            elif true[k]:
                chips.append(chip("+ " + name, k, "lack", f"{name}: true, not predicted"))
        if true[-1] == 1:
            chips.append(chip("+ a label that is not in the training data", 0, "lack"))
        empty = tag("span", "the empty set, which is right", class_="soft")
        return tag("div", chips or empty, class_="chips")


class PartsView(LabelView):
    """A label for each part of an example."""

    def facts(self, data: Data) -> Facts:
        noun, part, sizes = self.task.noun, self.task.part, data.truth.sizes
        void = int((~data.truth.counted).sum())
        lines = [
            *super().facts(data),
            (f"{part}s", f"{sizes.sum():,}"),
            (f"{part}s per {noun}",
             f"{sizes.min()} to {sizes.max()}, median {np.median(sizes):g}"),
        ]  # fmt: skip
        return [*lines, ("not labelled", count(void, part))] if void else lines


class SequenceView(PartsView):
    """A label for each position of a sequence."""

    def maps(self, train: Data) -> list[HeatMap]:
        ((_, _, values),) = self.task.pairs()
        note = "Positive: the pair is encouraged. Negative: it is avoided."
        if np.isnan(values).any():
            note += " A dot: forbidden by the constraints."
        title = "Transitions: weight of the label of the column after that of the row"
        return [self._square(title, values, train, ("label", "next label"), note)]

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
            return picture(dense(x[t : t + 1]).reshape(self.image_shape), 40)
        word = word_of(x[t]) if self.model.vectorizer_ is not None else None
        return tag("b", f"{t + 1}" if word is None else word)


class GraphView(PartsView):
    """A label for each node of a graph."""

    def maps(self, train: Data) -> list[HeatMap]:
        note = "Positive: the pair of labels is encouraged. Negative: it is avoided."
        return [
            self._square(title, pairs.values, train, names, note)
            for (title, names), pairs in zip(self._table_names(), self.task.pairs(), strict=False)
        ]

    def _table_names(self) -> list[tuple[str, tuple[str, str]]]:
        names = ("label", "neighbour")
        more = [(f"Edges, times their feature {k}", names) for k in range(3)]
        return [("Edges: weight of a pair of labels", names), *more]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        if len(found) > _MOST_NODES:
            right = int((found == data.truth[i]).sum())
            return tag("p", f"{right} of {len(found)} nodes right; too many to draw.")
        edges = [e for e in self.model._read(data.X[i : i + 1])[0].edges.values() if len(e)]
        joined = np.concatenate(edges) if edges else np.empty((0, 2), int)
        return graph(joined, data.truth[i], found, self.labels)

    @property
    def legend(self) -> Html:  # type: ignore[override]
        """What the colours mean."""
        swatches = [
            tag("li", tag("b", class_=f"swatch c{k % N_COLOURS}"), label)
            for k, label in enumerate(self.labels[:N_COLOURS])
        ]
        ring = tag("li", escape("red ring or cross: wrong"))
        return tag("ul", swatches, ring, class_="legend")


class GridView(GraphView):
    """A label for each cell of a grid."""

    def _table_names(self) -> list[tuple[str, tuple[str, str]]]:
        if Neighbors.of(self.model.neighbors).directions == "shared":
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


def one(X: Any, i: int) -> Any:
    """Example i alone, in the form in which many come."""
    return X.iloc[i : i + 1] if hasattr(X, "iloc") else X[i : i + 1]


def dense(X: Any) -> np.ndarray:
    """A matrix as an array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)
