"""Heads of the words of sentences, counted from 1; 0 is the root."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validation import check_listed, is_text
from ..conllu import find_cycle
from .base import Data, Task, Trivial
from .baselines import Baseline
from .measures import VOID, Measure, Outputs, accuracy, exact_match

HIDDEN = -1  # a head that is not known


def take_heads(
    y: Any, lengths: np.ndarray, single_root: bool, *, name: str = "y", may_hide: bool = True
) -> np.ndarray:
    """Heads of all words, one sentence after another, checked; ``HIDDEN`` where not known."""
    check_listed(name, y, "a list of lists of heads")
    if len(y) != len(lengths):
        raise ValueError(
            f"X has {len(lengths)} sentences but {name} has {len(y)}; expected the heads of each."
        )
    rows = [np.empty(0, np.int64)]
    for i, (row, length) in enumerate(zip(y, lengths.tolist())):
        if row is None and may_hide:
            row = [None] * length
        heads = _take_row(row, f"{name}[{i}]")
        if len(heads) != length:
            raise ValueError(
                f"{name}[{i}] has {len(heads)} heads but X[{i}] has {length} words; expected a "
                "head for each word."
            )
        _check_tree(heads, f"{name}[{i}]", single_root, may_hide)
        rows.append(heads)
    return np.concatenate(rows)


def _take_row(row: Any, where: str) -> np.ndarray:
    check_listed(where, row, "a list of heads")
    heads = np.empty(len(row), np.int64)
    for place, value in enumerate(row):
        if value is None or value != value:  # not known; NaN is not equal to itself
            heads[place] = HIDDEN
            continue
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if is_text(value) or not number.is_integer():
            raise ValueError(
                f"{where} holds {value!r} for word {place + 1}; expected the number of its head, 0 "
                "for the root, or None where it is not known."
            )
        heads[place] = int(number)
    return heads


def _check_tree(heads: np.ndarray, where: str, single_root: bool, may_hide: bool) -> None:
    m = len(heads)
    for place in np.flatnonzero((heads < HIDDEN) | (heads > m)):
        raise ValueError(
            f"{where}: the head of word {place + 1} is {heads[place]}; expected 0 for the root or "
            f"one of the {m} words."
        )
    if not may_hide and (heads == HIDDEN).any():
        first = int(np.flatnonzero(heads == HIDDEN)[0])
        raise ValueError(
            f"{where}: the head of word {first + 1} is not known; expected all heads. To train "
            "with some heads hidden, use hidden=True."
        )
    cycle = find_cycle(heads)
    if cycle:
        arcs = ", ".join(f"{heads[word - 1]} -> {word}" for word in cycle)
        raise ValueError(
            f"{where} is not a tree: the arcs {arcs} form a cycle. Correct the heads, or hide some "
            "of them (None)."
        )
    roots = np.flatnonzero(heads == 0) + 1
    if single_root and len(roots) > 1:
        raise ValueError(
            f"{where} has {len(roots)} roots: the arcs 0 -> {roots[0]} and 0 -> {roots[1]}; "
            "expected one. Correct the heads, or use single_root=False."
        )


def count_words(sentence: Any) -> int:
    """Number of words of a sentence: of words, or of the features of all arcs."""
    if sp.issparse(sentence):
        return (math.isqrt(4 * sentence.shape[0] + 1) - 1) // 2  # (m + 1) * m rows
    return sentence.shape[1] if np.ndim(sentence) == 3 else len(sentence)


class TreeTask(Task):
    """The head of each word of a sentence."""

    key = "tree"
    title = "dependency trees"
    noun = "sentence"
    part = "word"
    classes = ()
    nothing_known = "y: no head is known; expected some to compare with."

    def encode(self, X: Any, y: Any) -> Outputs:
        lengths = np.array([count_words(x) for x in X])
        heads = take_heads(y, lengths, self.model.single_root)
        return Outputs(np.where(heads == HIDDEN, VOID, heads), np.cumsum([0, *lengths]))

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return Outputs.of_list(self.model.predict(X))

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return accuracy(truth, found, "UAS")

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [exact_match(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        place = np.arange(len(truth.codes)) - truth.indptr[truth.example] + 1
        known = truth.codes > 0
        counts = Counter((truth.codes - place)[known].tolist())
        best = max(counts, key=lambda k: (counts[k], -abs(k), k), default=-1)
        words = f"{abs(best)} word{'s' if abs(best) > 1 else ''}"
        side = "right" if best > 0 else "left"
        return {"says": f"the head is always {words} to the {side}", "offset": best}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        # Files of models without an offset mean the word before.
        offset = int(trivial.get("offset", -1))
        return Outputs.of_list(_at_offset(int(size), offset) for size in truth.sizes)

    def alone(self, train: Data, test: Data) -> Baseline | None:
        # A row for each head, the root first, and a column for each word.
        found = [np.argmax(scores, axis=0) for scores in self.model.decision_function(test.X)]
        return Baseline("the same arc scores, each word its best head", Outputs.of_list(found))


def _at_offset(n: int, offset: int) -> np.ndarray:
    heads = np.arange(1, n + 1) + offset
    return np.where((heads < 1) | (heads > n), 0, heads)
