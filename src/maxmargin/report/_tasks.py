"""What a report needs to know about a kind of output: measures, baselines, tables, drawings.

Outputs are lists of arrays of whole numbers, one array an example: the codes of its labels, zeros
and ones for a set, positions of items, heads of words. A true label that is not known is
``VOID`` and does not count; one that the model has never seen is ``UNSEEN`` and is an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._labels import LabelCodes
from ._baselines import Baseline, classify
from ._charts import HeatMap, heat_map
from ._drawings import chip, picture, score_bars
from ._markup import Html, join, shorten, table, tag
from ._scores import Measure

VOID, UNSEEN = -2, -1
_MOST_LABELS = 30  # rows of a heat map or of a table
_MOST_CONFUSED = 12

Codes = list[np.ndarray]


class Data(NamedTuple):
    """Examples as the estimator gets them, as the user passed them, and their outputs."""

    X: Any
    given: Any
    truth: Codes


class Task:
    """One label an example; the other kinds override what differs."""

    name = "multiclass classification"
    noun = "example"
    part = "label"
    wide = False  # whether a drawing takes a whole line

    def __init__(self, model: Any, image_shape: tuple[int, ...] | None = None):
        self.model = model
        self.image_shape = image_shape

    # --- outputs ----------------------------------------------------------------------------

    @property
    def labels(self) -> list[str]:
        """Names of the labels, in the order of their codes."""
        return [str(label) for label in getattr(self.model, "classes_", ())]

    def encode(self, X: Any, y: Any) -> Codes:
        """True outputs."""
        from ..estimators._flat import take_labels

        return self._one_each(LabelCodes(self.model.classes_), take_labels(y, n_rows(X)))

    def predict(self, X: Any) -> Codes:
        """Predicted outputs."""
        return self._one_each(LabelCodes(self.model.classes_), self.model.predict(X))

    @staticmethod
    def _one_each(codes: LabelCodes, labels: Any) -> Codes:
        return list(np.asarray(codes.codes_or_minus_one(labels), np.int64)[:, None])

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        """What is measured; the first is what ``score`` of the estimator says."""
        return [Measure("labels right", all_right(truth, found), np.ones(len(truth)))]

    # --- baselines --------------------------------------------------------------------------

    def trivial(self, train: Data, test: Data) -> Baseline | None:
        """Predictions that do not look at the features."""
        codes = np.concatenate(train.truth)
        best = int(np.bincount(codes[codes >= 0], minlength=len(self.labels)).argmax())
        found = [np.full(len(t), best) for t in test.truth]
        return Baseline(f"always {shorten(self.labels[best], 24)}", found)

    def alone(self, train: Data, test: Data) -> Baseline | None:
        """Predictions of every part by itself."""
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None or others is None:
            return None
        codes = np.concatenate(train.truth)
        found, note = classify(rows, codes, others)
        ends = np.cumsum([len(t) for t in test.truth])[:-1]
        return Baseline(self.alone_name + note, np.split(found, ends))

    alone_name = "LinearSVC"

    def rows(self, X: Any) -> Any:
        """Features of all parts, one below the other; None where there are none to use."""
        return None if getattr(self.model, "kernel", "") == "precomputed" else X

    # --- what is shown ----------------------------------------------------------------------

    def facts(self, data: Data) -> list[tuple[str, str]]:
        """Sizes of the data, besides the number of examples."""
        return [*self._width(), ("labels", f"{len(self.labels):,}")]

    def _width(self) -> list[tuple[str, str]]:
        width = getattr(self.model, "n_features_in_", None)
        return [] if width is None else [("features", f"{width:,}")]

    def label_counts(self, data: Data) -> tuple[list[str], np.ndarray] | None:
        """How often each label occurs."""
        codes = np.concatenate(data.truth)
        return self.labels, np.bincount(codes[codes >= 0], minlength=len(self.labels))

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        """Right and wrong by label."""
        true, other = np.concatenate(truth), np.concatenate(found)
        known = true >= 0
        K = len(self.labels)
        confusion = np.zeros((K, K), np.int64)
        np.add.at(confusion, (true[known], other[known]), 1)
        support = confusion.sum(axis=1)
        chosen = np.sort(np.argsort(-support, kind="stable")[:_MOST_LABELS])
        out = []
        if 1 < K <= _MOST_CONFUSED:
            out.append(heat_map(HeatMap(
                "How often a label (row) was predicted as another (column)", confusion, self.labels,
                self.labels, "true", "predicted", counts=True,
            )))  # fmt: skip
        out.append(label_table(
            [self.labels[k] for k in chosen], np.diag(confusion)[chosen],
            confusion.sum(axis=0)[chosen], support[chosen], K,
        ))  # fmt: skip
        return out

    def maps(self, train: Data) -> list[HeatMap]:
        """Weights worth seeing."""
        coef = getattr(self.model, "coef_", None)
        K, names = len(self.labels), getattr(self.model, "feature_names_in_", None)
        small = coef is not None and np.ndim(coef) == 2 and coef.shape[1] <= _MOST_LABELS
        if not small or coef is None or len(coef) != K or K > _MOST_LABELS:
            return []
        columns = [str(k) for k in range(coef.shape[1])] if names is None else list(map(str, names))
        note = "Positive: a large value of the feature speaks for the label."
        return [HeatMap("Weights of the features", coef, self.labels, columns, "label", "feature",
                        note)]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        """One example with its true and its predicted output."""
        k, true = int(found[0]), int(data.truth[i][0])
        shown = None
        if self.image_shape is not None:
            shown = picture(np.asarray(_dense(one(data.given, i))).reshape(self.image_shape), 72)
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


class OrdinalTask(Task):
    """Ordered labels, where a mistake costs its distance."""

    name = "ordinal regression"
    alone_name = "LinearSVC, which ignores the order"

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        true, other = np.concatenate(truth), np.concatenate(found)
        distance = np.where(true < 0, len(self.labels) - 1, np.abs(true - other)).astype(float)
        each = np.ones(len(true))
        return [
            Measure("distance to the true label", distance, each, False, True),
            Measure("labels right", all_right(truth, found), each),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        codes = np.concatenate(train.truth)
        median = int(np.quantile(codes[codes >= 0], 0.5, method="lower"))
        name = f"always {shorten(self.labels[median], 24)}, the median"
        return Baseline(name, [np.full(1, median) for _ in test.truth])


class MultiLabelTask(Task):
    """A set of labels for each example."""

    name = "multilabel classification"

    def encode(self, X: Any, y: Any) -> Codes:
        from ..estimators._label_sets import indicator_for_score, read_label_sets

        indicator, unseen = indicator_for_score(read_label_sets(y, n_rows(X)), self.model.classes_)
        rows = np.asarray(indicator, np.int64)
        # A label that the model cannot predict: the set as a whole is wrong.
        return list(np.hstack([rows, unseen[:, None].astype(np.int64)]))

    def predict(self, X: Any) -> Codes:
        return self.encode(X, self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        true, other, each = np.array(truth), np.array(found), np.ones(len(truth))
        both = (true & other).sum(axis=1).astype(float)
        sizes = (true.sum(axis=1) + other.sum(axis=1)) / 2
        L = len(self.labels)
        return [
            Measure("sets exactly right", all_right(truth, found), each),
            Measure("labels right", (true == other)[:, :L].mean(axis=1), each),
            Measure("F1 over all labels", both, sizes),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        sets, counts = np.unique(np.array(train.truth), axis=0, return_counts=True)
        best = sets[counts.argmax()]
        return Baseline("always the most frequent set", [best for _ in test.truth])

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None:
            return None
        truth = np.array(train.truth)
        columns, note = [], ""
        for column in truth.T:
            found, note = classify(rows, column, others)
            columns.append(found)
        return Baseline("LinearSVC for each label alone" + note, list(np.stack(columns, axis=1)))

    def facts(self, data: Data) -> list[tuple[str, str]]:
        sizes = np.array(data.truth).sum(axis=1)
        return [*super().facts(data), ("labels of an example", f"{sizes.mean():.2f} on average, at "
                                       f"most {sizes.max()}")]  # fmt: skip

    def label_counts(self, data: Data) -> tuple[list[str], np.ndarray]:
        return self.labels, np.array(data.truth).sum(axis=0)[: len(self.labels)]

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        L = len(self.labels)
        true, other = np.array(truth)[:, :L], np.array(found)[:, :L]
        support = true.sum(axis=0)
        chosen = np.sort(np.argsort(-support, kind="stable")[:_MOST_LABELS])
        names = [self.labels[k] for k in chosen]
        right = (true & other).sum(axis=0)
        return [label_table(names, right[chosen], other.sum(axis=0)[chosen], support[chosen], L)]

    def maps(self, train: Data) -> list[HeatMap]:
        edges = getattr(self.model, "edges_", np.empty((0, 2), int))
        if not len(edges):
            return super().maps(train)
        L = len(self.labels)
        values, blank = np.zeros((L, L)), np.ones((L, L), bool)
        T = self.model.interactions_
        effect = T[:, 1, 1] - T[:, 1, 0] - T[:, 0, 1] + T[:, 0, 0]
        for a, b in (edges.T, edges.T[::-1]):
            values[a, b], blank[a, b] = effect, False
        often = np.argsort(-self.label_counts(train)[1], kind="stable")[:_MOST_LABELS]
        chosen = np.sort(often)
        names = [self.labels[k] for k in chosen]
        note = "Positive: the two labels attract each other. Negative: they exclude each other."
        square = np.ix_(chosen, chosen)
        return [HeatMap("Interactions of labels", values[square], names, names, "label", "label",
                        note, blank=blank[square])]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        true = data.truth[i]
        chips = []
        for k, name in enumerate(self.labels):
            if true[k] and found[k]:
                chips.append(chip(name, k))
            elif found[k]:
                chips.append(chip(name, k, "miss", f"{name}: predicted, not true"))
            elif true[k]:
                chips.append(chip("+ " + name, k, "lack", f"{name}: true, not predicted"))
        if true[-1]:
            chips.append(chip("+ a label that is not in the training data", 0, "lack"))
        empty = tag("span", "the empty set, which is right", class_="soft")
        return tag("div", chips or empty, class_="chips")

    legend = "Struck out: predicted, but not true. With a plus: true, but not predicted."


# --- helpers --------------------------------------------------------------------------------


def n_rows(X: Any) -> int:
    """Number of examples."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def one(X: Any, i: int) -> Any:
    """Example i alone, in the form in which many come."""
    if hasattr(X, "iloc"):
        return X.iloc[i : i + 1]
    return X[i : i + 1]


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def all_right(truth: Codes, found: Codes) -> np.ndarray:
    """1 for each example whose parts are all right, not counting void ones; else 0."""
    return np.array(
        [float(np.all((t == f) | (t == VOID))) for t, f in zip(truth, found, strict=True)]
    )


def pooled(truth: Codes, found: Codes) -> tuple[np.ndarray, np.ndarray]:
    """Right parts of each example, and its parts that count."""
    right = [float(((t == f) & (t != VOID)).sum()) for t, f in zip(truth, found, strict=True)]
    return np.array(right), np.array([float((t != VOID).sum()) for t in truth])


def shares(truth: Codes, found: Codes) -> np.ndarray:
    """Share of right parts of each example."""
    right, counted = pooled(truth, found)
    return right / np.maximum(counted, 1)


def label_table(
    names: list[str], right: np.ndarray, predicted: np.ndarray, support: np.ndarray, n_labels: int
) -> Html:
    """Precision, recall, F1 and support of labels."""

    def share(a: float, b: float) -> str:
        return f"{a / b:.1%}" if b else "—"

    rows = [
        [name, share(r, p), share(r, s), share(2 * r, p + s), f"{s:,}"]
        for name, r, p, s in zip(names, right, predicted, support, strict=True)
    ]
    caption = "By label" if len(names) == n_labels else (
        f"By label: the {len(names)} most frequent of {n_labels}"
    )  # fmt: skip
    return table(["label", "precision", "recall", "F1", "support"], rows, caption=caption)
