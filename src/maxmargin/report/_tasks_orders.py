"""Reports on rankings, matchings, trees, subsets, and outputs that only their users know."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._baselines import Baseline, classify, regress
from ._charts import HeatMap
from ._drawings import chip, matching, ranking, tree, word_of
from ._markup import Html, count, join, shorten, table, tag
from ._scores import Measure
from ._tasks import VOID, Codes, Data, Task, all_right, n_rows, pooled, shares

_MOST_ITEMS = 30


class RankingTask(Task):
    """An order of all items for each example; codes are positions of the items, 0 the best."""

    name = "label ranking"
    part = "item"

    @property
    def labels(self) -> list[str]:
        return [str(item) for item in self.model.items_]

    def encode(self, X: Any, y: Any) -> Codes:
        from ..estimators._rankings import read_rankings

        known = self.model._written()
        positions, _ = read_rankings(y, n_rows(X), known.kind, known=known)
        return list(positions.astype(np.int64))

    def predict(self, X: Any) -> Codes:
        return self.encode(X, self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        from ..metrics import kendall_tau

        each = np.ones(len(truth))
        tau = np.array([kendall_tau([t], [f]) for t, f in zip(truth, found, strict=True)])
        return [
            Measure("items at their right position", shares(truth, found), each),
            Measure("Kendall's tau", tau, each, percent=False),
            Measure("rankings exactly right", all_right(truth, found), each),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        mean = np.array(train.truth).mean(axis=0)
        positions = np.argsort(np.argsort(mean, kind="stable"))
        return Baseline("always the mean ranking", [positions for _ in test.truth])

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None:
            return None
        found, note = regress(rows, np.array(train.truth, float), others)
        order = np.argsort(np.argsort(found, axis=1, kind="stable"), axis=1)
        return Baseline("ridge regression of each rank, then sort" + note, list(order))

    def facts(self, data: Data) -> list[tuple[str, str]]:
        return [*self._width(), ("items", f"{len(self.labels):,}")]

    def label_counts(self, data: Data) -> None:
        return None

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        true, other = np.array(truth), np.array(found)
        rows = [
            [name, f"{1 + true[:, k].mean():.2f}", f"{np.abs(true - other)[:, k].mean():.2f}",
             f"{(true == other)[:, k].mean():.1%}"]
            for k, name in enumerate(self.labels[:_MOST_ITEMS])
        ]  # fmt: skip
        header = ["item", "mean true rank", "mean distance of ranks", "rank right"]
        return [table(header, rows, caption="By item")]

    def maps(self, train: Data) -> list[HeatMap]:
        if len(self.labels) > _MOST_ITEMS:
            return []
        some = train.X[:1000]
        scores = self.model.decision_function(some).mean(axis=0)
        places = [str(k + 1) for k in range(len(self.labels))]
        return [HeatMap("Mean score of an item (row) at a position (column)", scores, self.labels,
                        places, "item", "position")]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        true = data.truth[i]
        return tag(
            "div",
            ranking("predicted", np.argsort(found), self.labels, found != true),
            ranking("true", np.argsort(true), self.labels, None),
            class_="sides",
        )


class MatchingTask(Task):
    """Partners of the points of two sets."""

    name = "matching"
    noun = "pair of point sets"
    part = "point"
    labels: list[str] = []  # type: ignore[assignment]
    legend = "True partners have the same colour. Dashed and red: a wrong partner."

    def encode(self, X: Any, y: Any) -> Codes:
        from ..estimators.matcher import take_matchings
        from ..features.pairs import pack_pairs

        sides = pack_pairs(X, self.model.pair_features).sides
        flat = np.asarray(take_matchings(y, sides), np.int64)
        return np.split(flat, np.cumsum(sides)[:-1])

    def predict(self, X: Any) -> Codes:
        return list(self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        each = np.ones(len(truth))
        return [
            Measure("points with their right partner", shares(truth, found), each),
            Measure("matchings exactly right", all_right(truth, found), each),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        return Baseline("first with first, second with second, ...",
                        [np.arange(len(t)) for t in test.truth])  # fmt: skip

    def alone(self, train: Data, test: Data) -> Baseline:
        from sklearn.linear_model import LogisticRegression

        from ..features.pairs import pack_pairs

        pairs = pack_pairs(train.X, self.model.pair_features)
        wanted = np.concatenate([np.eye(len(t), dtype=int)[t].ravel() for t in train.truth])
        others = pack_pairs(test.X, self.model.pair_features)
        scores = LogisticRegression(max_iter=1000).fit(pairs.X, wanted).decision_function(others.X)
        parts = np.split(scores, others.pairs_indptr[1:-1])
        found = [s.reshape(n, n).argmax(axis=1) for s, n in zip(parts, others.sides, strict=True)]
        return Baseline("logistic regression, each point its best partner", found)

    def facts(self, data: Data) -> list[tuple[str, str]]:
        sizes = np.array([len(t) for t in data.truth])
        return [*self._width(), ("points a side", f"{sizes.min()} to {sizes.max()}")]

    def label_counts(self, data: Data) -> None:
        return None

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        return []

    def maps(self, train: Data) -> list[HeatMap]:
        coef = self.model.coef_[None, :_MOST_ITEMS]
        columns = [str(k) for k in range(coef.shape[1])]
        return [HeatMap("Weights of the features of a pair", coef, ["weight"], columns, "",
                        "feature")]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        return matching(data.truth[i], found)


class TreeTask(Task):
    """Heads of words, counted from 1; 0 is the root."""

    name = "dependency trees"
    noun = "sentence"
    part = "word"
    wide = True
    labels: list[str] = []  # type: ignore[assignment]
    legend = "Dashed and red: a wrong arc. Dotted: the true one."

    def encode(self, X: Any, y: Any) -> Codes:
        def code(head: Any) -> int:
            return VOID if head is None or head < 0 else int(head)

        return [np.array([code(h) for h in heads], np.int64) for heads in y]

    def predict(self, X: Any) -> Codes:
        return [np.asarray(heads, np.int64) for heads in self.model.predict(X)]

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        right, counted = pooled(truth, found)
        return [
            Measure("words with their right head", right, counted),
            Measure("trees exactly right", all_right(truth, found), np.ones(len(truth))),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        offsets: dict[int, int] = {}
        for heads in train.truth:
            for m, head in enumerate(heads, 1):
                if head > 0:
                    offsets[int(head) - m] = offsets.get(int(head) - m, 0) + 1
        best = max(offsets, key=lambda k: (offsets[k], -abs(k)), default=-1)
        found = [self._at_offset(len(t), best) for t in test.truth]
        side = "right" if best > 0 else "left"
        return Baseline(f"the head is always {count(abs(best), 'word')} to the {side}", found)

    @staticmethod
    def _at_offset(n: int, offset: int) -> np.ndarray:
        heads = np.arange(1, n + 1) + offset
        return np.where((heads < 1) | (heads > n), 0, heads)

    def alone(self, train: Data, test: Data) -> Baseline | None:
        if not hasattr(self.model, "decision_function"):
            return None
        # A row for each head, the root first, and a column for each word.
        found = [np.argmax(scores, axis=0) for scores in self.model.decision_function(test.X)]
        return Baseline("the same arc scores, each word its best head", found)

    def facts(self, data: Data) -> list[tuple[str, str]]:
        sizes = np.array([len(t) for t in data.truth])
        return [
            ("words", f"{sizes.sum():,}"),
            ("words of a sentence",
             f"{sizes.min()} to {sizes.max()}, median {np.median(sizes):g}"),
        ]  # fmt: skip

    def label_counts(self, data: Data) -> None:
        return None

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        kinds: dict[str, list[int]] = {}
        for heads, other in zip(truth, found, strict=True):
            for m, (h, f) in enumerate(zip(heads, other, strict=True), 1):
                if h == VOID:
                    continue
                name = "the root" if h == 0 else _arc_name(abs(int(h) - m))
                kinds.setdefault(name, []).append(int(h == f))
        order = ["the root", *(_arc_name(k) for k in (1, 2, 3, 7, 15))]
        rows = [
            [name, f"{np.mean(kinds[name]):.1%}", f"{len(kinds[name]):,}"]
            for name in order
            if name in kinds
        ]
        return [table(["true head", "found", "words"], rows, caption="By distance of the head")]

    def maps(self, train: Data) -> list[HeatMap]:
        return []

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        return tree(words_of(data.given[i], len(found)), found, data.truth[i])


def _arc_name(distance: int) -> str:
    for last, name in ((1, "1 word away"), (2, "2 words away"), (6, "3 to 6 words away")):
        if distance <= last:
            return name
    return "7 to 14 words away" if distance < 15 else "15 or more words away"


def words_of(sentence: Any, n: int) -> list[str]:
    """Words of a sentence, or numbers where it has none."""
    tokens = getattr(sentence, "form", sentence)
    if isinstance(tokens, (list, tuple)) and len(tokens) == n:
        found = [word_of(token) for token in tokens]
        if all(word is not None for word in found):
            return [str(word) for word in found]
    return [str(k) for k in range(1, n + 1)]


class SubsetTask(Task):
    """Which elements of an example are chosen: zeros and ones."""

    name = "subset selection"
    part = "element"
    labels: list[str] = []  # type: ignore[assignment]
    legend = "Struck out: chosen, but not in the truth. With a plus: missing."

    def encode(self, X: Any, y: Any) -> Codes:
        out = []
        for x, chosen in zip(X, y, strict=True):
            member = np.zeros(n_rows(x), np.int64)
            picked = np.asarray(chosen)
            member[np.flatnonzero(picked) if picked.dtype == bool else picked.astype(int)] = 1
            out.append(member)
        return out

    def predict(self, X: Any) -> Codes:
        return self.encode(X, self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        each = np.ones(len(truth))
        right = [(t & f).sum() / max(t.sum(), 1) for t, f in zip(truth, found, strict=True)]
        return [
            Measure("chosen elements that are right", np.array(right), each),
            Measure("subsets exactly right", all_right(truth, found), each),
        ]

    def trivial(self, train: Data, test: Data) -> Baseline:
        found = [(np.arange(len(t)) < t.sum()).astype(int) for t in test.truth]
        return Baseline("always the first elements", found)

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, codes = np.vstack([_plain(x) for x in train.X]), np.concatenate(train.truth)
        found, note = classify(rows, codes, np.vstack([_plain(x) for x in test.X]))
        parts = np.split(found, np.cumsum([len(t) for t in test.truth])[:-1])
        return Baseline("LinearSVC, element by element" + note, parts)

    def facts(self, data: Data) -> list[tuple[str, str]]:
        sizes = np.array([len(t) for t in data.truth])
        chosen = np.array([t.sum() for t in data.truth])
        return [
            *self._width(),
            ("elements of an example", f"{sizes.min()} to {sizes.max()}"),
            ("of them chosen", f"{chosen.min()} to {chosen.max()}"),
        ]

    def label_counts(self, data: Data) -> None:
        return None

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        return []

    def maps(self, train: Data) -> list[HeatMap]:
        return []

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        chips = []
        for k, (t, f) in enumerate(zip(data.truth[i], found, strict=True)):
            if t or f:
                kind = "" if t and f else "miss" if f else "lack"
                chips.append(chip(f"+ {k}" if kind == "lack" else str(k), 0, kind))
        return tag("div", chips, class_="chips")


def _plain(x: Any) -> np.ndarray:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


class OtherTask(Task):
    """Outputs of which only their users know what they are; equal ones are right."""

    name = "structured prediction"
    part = "output"
    labels: list[str] = []  # type: ignore[assignment]

    def encode(self, X: Any, y: Any) -> Codes:
        self._known: dict[str, int] = getattr(self, "_known", {})
        texts = [repr(_listed(value)) for value in y]
        return [np.array([self._known.setdefault(text, len(self._known))]) for text in texts]

    def predict(self, X: Any) -> Codes:
        return self.encode(X, self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        return [Measure("outputs exactly right", all_right(truth, found), np.ones(len(truth)))]

    def trivial(self, train: Data, test: Data) -> Baseline:
        codes = np.concatenate(train.truth)
        best = int(np.bincount(codes).argmax())
        return Baseline("always the most frequent output", [np.array([best]) for _ in test.truth])

    def alone(self, train: Data, test: Data) -> None:
        return None

    def facts(self, data: Data) -> list[tuple[str, str]]:
        return [("different outputs", f"{len({int(t[0]) for t in data.truth}):,}")]

    def label_counts(self, data: Data) -> None:
        return None

    def tables(self, truth: Codes, found: Codes) -> list[Html]:
        return []

    def maps(self, train: Data) -> list[HeatMap]:
        return []

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        names = list(self._known)
        predicted, true = names[int(found[0])], names[int(data.truth[i][0])]
        says = tag("p", "predicted ", tag("code", shorten(predicted, 300)))
        return join(says, None if predicted == true else
                    tag("p", "true ", tag("code", shorten(true, 300))))  # fmt: skip


class LatentTask(OtherTask):
    """Outputs that depend on variables nobody observed; the model tells how far off it is."""

    name = "prediction with latent variables"

    def encode(self, X: Any, y: Any) -> Codes:
        self._data = X, y  # the test data come last
        return super().encode(X, y)

    def predict(self, X: Any) -> Codes:
        return super().encode(X, self.model.predict(X))

    def measures(self, truth: Codes, found: Codes) -> list[Measure]:
        right = 1.0 - np.asarray(self.model.distortions(*self._data), float)
        return [Measure("one minus the distortion", right, np.ones(len(right)))]

    def trivial(self, train: Data, test: Data) -> None:  # type: ignore[override]
        return None


def _listed(value: Any) -> Any:
    """Arrays and tuples as lists, so that equal outputs read alike; sets in order."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return [_listed(entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value
