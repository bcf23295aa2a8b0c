"""How rankings, matchings, trees, subsets and outputs of users are shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..conllu import Sentence
from ..tasks import Data, Outputs
from ..tasks.own import OtherTask
from ..tasks.trees import TreeTask
from ._charts import HeatMap
from ._drawings import chip, matching, ranking, tree, word_of
from ._markup import Html, join, shorten, table, tag
from ._views import MOST_LABELS, Facts, View


class RankingView(View):
    """An order of all items."""

    def facts(self, data: Data) -> Facts:
        return [*self._width(), ("items", f"{len(self.task.labels):,}")]

    def tables(self, truth: Outputs, found: Outputs) -> list[Html]:
        true, other = truth.table, found.table
        rows = [
            [name, f"{1 + true[:, k].mean():.2f}", f"{np.abs(true - other)[:, k].mean():.2f}",
             f"{(true == other)[:, k].mean():.1%}"]
            for k, name in enumerate(self.task.labels[:MOST_LABELS])
        ]  # fmt: skip
        header = ["item", "mean true rank", "mean distance of ranks", "rank right"]
        return [table(header, rows, caption="By item")]

    def maps(self, train: Data) -> list[HeatMap]:
        items = self.task.labels
        if len(items) > MOST_LABELS:
            return []
        scores = self.model.decision_function(train.X[:1000]).mean(axis=0)
        places = [str(k + 1) for k in range(len(items))]
        return [HeatMap("Mean score of an item (row) at a position (column)", scores, items,
                        places, "item", "position")]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        true, items = data.truth[i], self.task.labels
        return tag(
            "div",
            ranking("predicted", np.argsort(found), items, found != true),
            ranking("true", np.argsort(true), items, None),
            class_="sides",
        )


class MatchingView(View):
    """Partners of the points of two sets."""

    legend = "True partners have the same colour. Dashed and red: a wrong partner."

    def facts(self, data: Data) -> Facts:
        sizes = data.truth.sizes
        return [*self._width(), ("points per side", f"{sizes.min()} to {sizes.max()}")]

    def maps(self, train: Data) -> list[HeatMap]:
        coef = self.model.coef_[None, :MOST_LABELS]
        columns = [str(k) for k in range(coef.shape[1])]
        return [HeatMap("Weights of the features of a pair", coef, ["weight"], columns, "",
                        "feature")]  # fmt: skip

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        return matching(data.truth[i], found)


_ARC_NAMES = ("the root", "1 word away", "2 words away", "3 to 6 words away",
              "7 to 14 words away", "15 or more words away")  # fmt: skip


class TreeView(View):
    """Heads of words."""

    wide = True
    legend = "Dashed and red: a wrong arc. Dotted: the true one."
    task: TreeTask

    def facts(self, data: Data) -> Facts:
        sizes = data.truth.sizes
        return [
            ("words", f"{sizes.sum():,}"),
            ("words per sentence",
             f"{sizes.min()} to {sizes.max()}, median {np.median(sizes):g}"),
        ]  # fmt: skip

    def tables(self, truth: Outputs, found: Outputs) -> list[Html]:
        heads, known = self.task.heads_of(truth.codes), truth.counted
        place = np.arange(len(heads)) - truth.indptr[truth.example] + 1
        kind = np.where(heads == 0, 0, np.digitize(np.abs(heads - place), [1, 2, 3, 7, 15]))
        right = self.task.heads_of(found.codes) == heads
        rows = []
        for k, name in enumerate(_ARC_NAMES):
            some = right[known & (kind == k)]
            if len(some):
                rows.append([name, f"{some.mean():.1%}", f"{len(some):,}"])
        return [table(["true head", "found", "words"], rows, caption="By distance of the head")]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        heads_of = self.task.heads_of
        return tree(words_of(data.given[i], len(found)), heads_of(found), heads_of(data.truth[i]))


def words_of(sentence: Any, n: int) -> list[str]:
    """Words of a sentence, or numbers where it has none."""
    tokens = sentence.form if isinstance(sentence, Sentence) else sentence
    if type(tokens) in (list, tuple) and len(tokens) == n:
        found = [word_of(token) for token in tokens]
        if None not in found:
            return [str(word) for word in found]
    return [str(k) for k in range(1, n + 1)]


class SubsetView(View):
    """Which elements of an example are chosen."""

    counts_parts = False
    legend = "Struck out: chosen, but not in the truth. With a plus: missing."

    def facts(self, data: Data) -> Facts:
        sizes, chosen = data.truth.sizes, data.truth.sums(data.truth.codes).astype(int)
        return [
            *self._width(),
            ("elements per example", f"{sizes.min()} to {sizes.max()}"),
            ("of them chosen", f"{chosen.min()} to {chosen.max()}"),
        ]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        chips = []
        for k, (t, f) in enumerate(zip(data.truth[i], found, strict=True)):
            if t or f:
                kind = "" if t and f else "miss" if f else "lack"
                chips.append(chip(f"+ {k}" if kind == "lack" else str(k), 0, kind))
        return tag("div", chips, class_="chips")


class OtherView(View):
    """Outputs of which only their users know what they are."""

    task: OtherTask

    def facts(self, data: Data) -> Facts:
        return [("different outputs", f"{len(np.unique(data.truth.codes)):,}")]

    def draw(self, data: Data, i: int, found: np.ndarray) -> Html:
        names = list(self.task.names)
        predicted, true = names[int(found[0])], names[int(data.truth[i][0])]
        says = tag("p", "predicted ", tag("code", shorten(predicted, 300)))
        return join(says, None if predicted == true else
                    tag("p", "true ", tag("code", shorten(true, 300))))  # fmt: skip
