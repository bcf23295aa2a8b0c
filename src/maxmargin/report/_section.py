"""One model of a report: scores, baselines, tables, drawings, put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..tasks import VOID, Data, Measure, Outputs, all_right, task_of, unwrap
from ..tasks.base import n_rows
from ..tasks.measures import say_malformed
from ._charts import Interval, heat_map, interval_chart
from ._markup import Html, count, join, number, plural, shorten, table, tag
from ._model import certificate, convergence, definitions, formula, parameters, proven
from ._scores import advantage, interval
from ._views import (
    FlatView,
    GraphView,
    GridView,
    LabelSetView,
    SequenceView,
    View,
)
from ._views_orders import MatchingView, OtherView, RankingView, SubsetView, TreeView

_VIEWS: dict[str, type[View]] = {
    "multiclass": FlatView,
    "ordinal": FlatView,
    "multilabel": LabelSetView,
    "sequence": SequenceView,
    "ranking": RankingView,
    "matching": MatchingView,
    "graph": GraphView,
    "grid": GridView,
    "tree": TreeView,
    "subset": SubsetView,
    "latent": OtherView,
    "structured": OtherView,
    "other": OtherView,
}
_MOST_COUNTS = 20
_FEW = 56  # characters of the columns of a heat map that takes half of a line
_CELL = 6  # characters of a weight


class Comparison(NamedTuple):
    """A baseline and its score by the first measure."""

    name: str
    score: float


class Summary(NamedTuple):
    """The main numbers of a section.

    Attributes
    ----------
    title, task, measure : str
    score : float
        By ``measure``, on the test data if there are any.
    interval : pair of floats or None
        Its 95 % confidence interval.
    lower_is_better, percent : bool
        About the measure.
    baselines : list of Comparison
        The trivial one, and that without structure, where they could be computed.
    relative_gap : float or None
        The gap as a share of the objective; None for models without certificate.
    passes : int or None
    seconds : float or None
        Of the fit.
    """

    title: str
    task: str
    measure: str
    score: float
    interval: tuple[float, float] | None
    lower_is_better: bool
    percent: bool
    baselines: list[Comparison]
    relative_gap: float | None
    passes: int | None
    seconds: float | None

    def text(self, value: float) -> str:
        """A value of the measure for people."""
        return f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"


class Section:
    """Everything that a report says about one model; see :class:`Report` for the parameters."""

    def __init__(
        self, model: Any, *, task: str | None, X_train: Any, y_train: Any, X_test: Any,
        y_test: Any, title: str | None, data_name: str | None, baselines: bool, n_examples: int,
        image_shape: Any,
    ):  # fmt: skip
        estimator, before = unwrap(model)
        self.model = estimator
        self.task = task_of(estimator, task)
        self.view = _VIEWS[self.task.key](self.task, image_shape)
        check_is_fitted(estimator)
        if (X_test is None) != (y_test is None):
            raise ValueError("X_test and y_test belong together; received only one of them.")
        self.tested = X_test is not None
        # Without the training data there is nothing to train baselines on.
        self.has_train = X_train is not None or not self.tested
        if self.tested:
            self.test = self._take(X_test, y_test, before, "test")
        if self.has_train:
            self.train = self._take(X_train, y_train, before, "train")
        self.train, self.test = (
            self.train if self.has_train else self.test,
            self.test if self.tested else self.train,
        )
        self.found = self.task.predict(self.test.X, self.test.truth)
        self.measures = self.task.measures(self.test.truth, self.found)
        self.others: list[tuple[str, list[Measure]]] = []
        if baselines and self.has_train:
            self._compare()
        self.data_name = data_name
        self.title = title or (data_name or self.task.title.capitalize())
        self.n_examples = n_examples
        self.heats = self.view.maps(self.train)
        self.summary = self._summarise()

    def _take(self, X: Any, y: Any, before: Any, which: str) -> Data:
        if X is None or y is None:
            raise ValueError(f"X_{which} and y_{which} are needed; received None.")
        n, m = n_rows(X), n_rows(y)
        if n != m:
            raise ValueError(
                f"X_{which} has {n} examples but y_{which} has {m}; expected one output for each."
            )
        inner = X if before is None else before.transform(X)
        return Data(inner, X, self.task.encode(inner, y))

    def _compare(self) -> None:
        trivial = self.task.trivial(self.train.truth)
        if trivial is not None:
            self._add(trivial["says"], self.task.constant(trivial, self.test.truth))
        alone = self.task.alone(self.train, self.test)
        if alone is not None:
            self._add(*alone)

    def _add(self, name: str, found: Outputs) -> None:
        self.others.append((name, self.task.measures(self.test.truth, found)))

    def _summarise(self) -> Summary:
        main, found, fitted = self.measures[0], proven(self.model), vars(self.model)
        history = fitted.get("history_")
        seconds = history[-1].seconds if history else None
        gap = None if found is None or found.local else found.relative_gap
        passes = fitted.get("n_iter_")
        return Summary(
            self.title, self.task.title, main.name, main.value, interval(main),
            main.lower_is_better, main.percent,
            [Comparison(name, other[0].value) for name, other in self.others],
            gap, None if passes is None else int(passes), seconds,
        )  # fmt: skip

    # --- parts of the page ------------------------------------------------------------------

    def html(self, anchor: str) -> Html:
        """The section as markup."""
        kicker = f"{self.task.title} · {type(self.model).__name__}"
        cards = [
            card("Scores", self._scores(), "half"),
            tag("div", card("Data", self._data(), ""),
                card("Certificate", certificate(self.model), ""), class_="stack half"),
            card("Convergence", convergence(self.model), ""),
            card("What was trained", tag("div", tag("div", formula(self.model)),
                 tag("div", parameters(self.model)), class_="both"), ""),
            *self._learnt(),
            card("Examples", self._examples(), ""),
        ]  # fmt: skip
        name = tag("p", f"Data: {self.data_name}", class_="soft") if self.data_name else None
        return tag("section", tag("p", kicker, class_="kicker"), tag("h2", self.title), name,
                   self._tiles(), tag("div", cards, class_="cards"), class_="model", id=anchor,
                   aria_label=self.title)  # fmt: skip

    def _learnt(self) -> list[Html | None]:
        """Mistakes and heat maps; two beside each other where they fit, and none by itself."""
        found = self.view.tables(self.test.truth, self.found)
        mistakes = tag("div", found, class_="row") if found else None
        narrow = all(sum(max(len(name), _CELL) for name in heat.columns) <= _FEW
                     for heat in self.heats)  # fmt: skip
        beside = narrow and len(found) == len(self.heats) == 1
        pairs = narrow and len(self.heats) % 2 == 0
        return [
            card("Right and wrong", mistakes, "half" if beside else ""),
            *(card("What was learnt", heat_map(heat), "half" if beside or pairs else "wide")
              for heat in self.heats),
        ]  # fmt: skip

    def _tiles(self) -> Html:
        s = self.summary
        where = "on new data" if self.tested else "on the training data"
        tiles = [(s.measure, s.text(s.score), self._between() or where)]
        if s.baselines:
            best = (min if s.lower_is_better else max)(s.baselines, key=lambda b: b.score)
            tiles.append(("best baseline", s.text(best.score), best.name))
        if s.relative_gap is not None:
            tiles.append(("certified gap", f"{s.relative_gap:.2%}", "of the training objective"))
        if s.seconds is not None and s.passes is not None:
            tiles.append(("training", f"{s.seconds:.1f} s", count(s.passes, "pass")))
        return tag(
            "dl",
            [tag("div", tag("dt", a), tag("dd", b, tag("small", c)), class_="tile")
             for a, b, c in tiles],
            class_="tiles",
        )  # fmt: skip

    def _between(self) -> str:
        s = self.summary
        if s.interval is None:
            return ""
        where = "new data" if self.tested else "training data"
        return f"95%: {s.text(s.interval[0])} to {s.text(s.interval[1])}, {where}"

    def _scores(self) -> Html:
        main = self.measures[0]
        contenders = [(type(self.model).__name__, self.measures), *self.others]
        lines = [Interval(name, m[0].value, *(interval(m[0]) or (None, None)))
                 for name, m in contenders]  # fmt: skip
        said = "; ".join(f"{line.name}: {main.text(line.value)}" for line in lines)
        header = ["measure", *(shorten(name, 60) for name, _ in contenders)]
        rows = [
            [_measure_name(m), *(_with_interval(other[k]) for _, other in contenders)]
            for k, m in enumerate(self.measures)
        ]
        drawing = interval_chart(lines, percent=main.percent, description=f"{main.name}: {said}")
        where = (
            f"On {count(len(self.test.truth), self.task.noun)} of new data."
            if self.tested
            else "On the training data themselves, since there are no test data: new data will "
            "be harder."
        )
        few = interval(main) is None
        how = (
            "Too few examples for confidence intervals."
            if few
            else f"Intervals: 95% confidence, over {plural(self.task.noun)}."
        )
        return join(
            tag("p", where), tag("h4", main.name + (" (small is good)" if main.lower_is_better
                                                    else "")), drawing,
            [self._verdict(name, other[0]) for name, other in self.others],
            table(header, rows, caption="All measures"), tag("p", how, class_="note"),
            self._spans(),
        )  # fmt: skip

    def _spans(self) -> Html | None:
        """Measures of each type of span, and the number of labels that break their scheme."""
        types = self.task.by_type(self.test.truth, self.found)
        if not types:
            return None
        titles = next(iter(types.values()))
        rows = [[name, *(number(value) for value in each.values())] for name, each in types.items()]
        malformed = self.task.malformed(self.test.truth, self.found)
        said = tag("p", f"{say_malformed(malformed)}.", class_="note") if malformed else None
        return join(table(["type", *titles], rows, caption="Types of spans"), said)

    def _verdict(self, name: str, other: Measure) -> Html:
        main = self.measures[0]
        by, bounds = advantage(main, other)
        unit = "points" if main.percent else ""
        scale = 100.0 if main.percent else 1.0
        amount = f"{abs(by) * scale:.{1 if main.percent else 3}f} {unit}".strip()
        sure = bounds is not None and (bounds[0] > 0 or bounds[1] < 0)
        text = f"{'better' if by > 0 else 'worse'} by {amount}" if by else "the same"
        kind = "soft" if not sure else "good" if by > 0 else "bad"
        between = ""
        if bounds is not None and by:
            digits = 1 if main.percent else 3
            low, high = (f"{b * scale:+.{digits}f}" for b in bounds)
            between = f" (95%: {low} to {high}{'' if sure else ', so it may be chance'})"
        return tag("p", "Against “", shorten(name, 80), "”: ", tag("span", text, class_=kind),
                   between, ".")  # fmt: skip

    def _data(self) -> Html:
        facts: list[tuple[str, Any]] = []
        if self.has_train:
            facts.append(("for training", count(len(self.train.truth), self.task.noun)))
        if self.tested:
            facts.append(("for testing", count(len(self.test.truth), self.task.noun)))
        facts += self.view.facts(self.train)
        unseen = int((self.test.truth.counted & (self.test.truth.codes < 0)).sum())
        if unseen:
            facts.append(("unseen", f"{count(unseen, 'label')} of the test data "
                          "not in the training data: counted as errors"))  # fmt: skip
        return join(definitions(facts), self._label_counts())

    def _label_counts(self) -> Html | None:
        counts = self.view.label_counts(self.train)
        if counts is None:
            return None
        names = self.task.labels
        chosen = np.argsort(-counts, kind="stable")[:_MOST_COUNTS]
        total, most = max(int(counts.sum()), 1), max(int(counts.max()), 1)
        bars = [
            (tag("span", shorten(names[k], 24)),
             tag("i", style=f"--p:{100 * counts[k] / most:.1f}%"),
             tag("span", f"{number(float(counts[k]))} ({counts[k] / total:.1%})", class_="soft"))
            for k in chosen
        ]  # fmt: skip
        title = f"Labels in the {'training' if self.has_train else 'test'} data"
        if len(chosen) < len(names):
            title += f", the {len(chosen)} most frequent of {len(names)}"
        return join(tag("h4", title), tag("div", bars, class_="bars", role="group",
                                          aria_label=title))  # fmt: skip

    def _examples(self) -> Html | None:
        if not self.n_examples:
            return None
        right = all_right(self.test.truth, self.found)
        chosen = choose(right, self.n_examples)
        drawn = [self._example(i, bool(right[i])) for i in chosen]
        return join(
            _legend(self.view),
            tag("div", drawn, class_="examples wide" if self.view.wide else "examples"),
        )

    def _example(self, i: int, right: bool) -> Html:
        verdict = tag("span", "right" if right else "wrong",
                      class_="verdict yes" if right else "verdict no")  # fmt: skip
        counted = self._partly(self.test.truth[i], self.found[i])
        header = tag("header", verdict, tag("span", f"{self.task.noun} {i}"), counted)
        drawn = self.view.draw(self.test, i, self.found[i])
        return tag("article", header, drawn, class_="example")

    def _partly(self, true: np.ndarray, found: np.ndarray) -> Html | None:
        parts = int((true != VOID).sum())
        if parts < 2 or not self.view.counts_parts:
            return None
        return tag("span", f"{int((true == found).sum())} of {count(parts, self.task.part)} right")


def _measure_name(measure: Measure) -> str:
    return measure.name + (" (small is good)" if measure.lower_is_better else "")


def _with_interval(measure: Measure) -> Html:
    bounds = interval(measure)
    if bounds is None:
        return join(measure.text())
    low, high = measure.text(bounds[0]), measure.text(bounds[1])
    return join(measure.text(), tag("br"), tag("span", f"{low} to {high}", class_="soft"))


def _legend(view: View) -> Html | None:
    legend = view.legend
    return legend if legend is None or isinstance(legend, Html) else tag("p", legend, class_="note")


def card(title: str, content: Html | None, width: str) -> Html | None:
    """A box of the page; nothing if it has no content."""
    if not content:
        return None
    return tag("div", tag("h3", title), content, class_=f"card {width}".strip())


def choose(right: np.ndarray, n: int) -> list[int]:
    """Examples to show: half of them wrong if there are enough, spread over the data."""
    wrong, fine = np.flatnonzero(~right), np.flatnonzero(right)
    n_wrong = min(len(wrong), max(n - len(fine), (n + 1) // 2))
    n_fine = min(len(fine), n - n_wrong)
    return [*_spread(wrong, n_wrong), *_spread(fine, n_fine)]


def _spread(indices: np.ndarray, n: int) -> list[int]:
    if not n:
        return []
    places = np.linspace(0, len(indices) - 1, n).round().astype(int)
    return [int(i) for i in indices[np.unique(places)]]
