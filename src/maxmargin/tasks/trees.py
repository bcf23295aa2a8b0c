"""Heads of the words of sentences, counted from 1; 0 is the root."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validation import check_listed, is_plain_list, is_text
from ..conllu import Sentence, find_cycle
from .base import Data, Task, Trivial
from .baselines import Baseline, classify
from .measures import VOID, Measure, Outputs, accuracy, exact_match

HIDDEN = -1  # a head that is not known
_FARTHEST = 8  # words to a head that the baseline may find
_LABELS = 1 << 24  # codes of labelled arcs are head * _LABELS + label


def split_arcs(y: Any, labelled: bool, name: str = "y") -> tuple[Any, np.ndarray]:
    """Heads of the sentences, and the labels of all words.

    Without labels, y may hold heads, pairs of heads and labels, or sentences.
    """
    check_listed(name, y, "a list of lists of heads, or of pairs (head, label)")
    heads: list[Any] = []
    labels: list[Any] = []
    for i, row in enumerate(y):
        if isinstance(row, Sentence):
            row = list(zip(row.heads, row.deprel, strict=True))
        if not labelled and not _holds_pairs(row):
            heads.append(row)
            continue
        check_listed(f"{name}[{i}]", row, "a list of pairs (head, label)")
        for place, arc in enumerate(row):
            if not _is_pair(arc):
                raise ValueError(
                    f"{name}[{i}] holds {arc!r} for word {place + 1}; expected a pair of its head "
                    "and the label of the arc, a text, or None where it is not known."
                )
        heads.append([head for head, _ in row])
        labels += [label for _, label in row]
    found = np.empty(len(labels), object)
    found[:] = labels
    return heads, found


def _holds_pairs(row: Any) -> bool:
    return is_plain_list(row) and len(row) > 0 and isinstance(row[0], tuple)


def _is_pair(arc: Any) -> bool:
    if not is_plain_list(arc) or len(arc) != 2:
        return False
    return arc[1] is None or (is_text(arc[1]) and bool(arc[1]))


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

    @property
    def labelled(self) -> bool:
        """Whether outputs are pairs of heads and labels: codes are then those of both."""
        return vars(self.model).get("label_model_") is not None

    def encode(self, X: Any, y: Any) -> Outputs:
        given, labels = split_arcs(y, self.labelled)
        lengths = np.array([count_words(x) for x in X])
        heads = take_heads(given, lengths, self.model.single_root)
        codes = np.where(heads == HIDDEN, VOID, heads)
        if self.labelled:
            known = (heads != HIDDEN) & np.array([label is not None for label in labels])
            codes = np.full(len(heads), VOID)
            codes[known] = heads[known] * _LABELS + self._label_codes(labels[known])
        return Outputs(codes, np.cumsum([0, *lengths]))

    def _label_codes(self, labels: np.ndarray) -> np.ndarray:
        """Codes of labels; those that the model does not know come after all others."""
        classes = self.model.label_model_.classes_
        known = {str(label): code for code, label in enumerate(classes)}
        for label in {str(label) for label in labels} - set(known):
            number = self.unseen.setdefault(label, -1 - len(self.unseen))
            known[label] = len(classes) - 1 - number
        return np.array([known[str(label)] for label in labels], np.int64)

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        found = self.model.predict(X)
        if not self.labelled:
            return Outputs.of_list(found)
        indptr = np.cumsum([0, *map(len, found)])
        heads = np.array([head for arcs in found for head, _ in arcs], np.int64)
        labels = np.array([label for arcs in found for _, label in arcs], object)
        return Outputs(heads * _LABELS + self._label_codes(labels), indptr)

    def heads_of(self, codes: np.ndarray) -> np.ndarray:
        """Heads, without labels."""
        return np.where(codes == VOID, VOID, codes // _LABELS) if self.labelled else codes

    def heads(self, outputs: Outputs) -> Outputs:
        """Outputs without labels."""
        return outputs.like(self.heads_of(outputs.codes))

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return accuracy(truth, found, "LAS" if self.labelled else "UAS")

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        unlabelled = [accuracy(self.heads(truth), self.heads(found), "UAS")]
        return [*(unlabelled if self.labelled else []), exact_match(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        heads = self.heads(truth).codes
        counts = Counter((heads - _places(truth))[heads > 0].tolist())
        best = max(counts, key=lambda k: (counts[k], -abs(k), k), default=-1)
        words = f"{abs(best)} word{'s' if abs(best) > 1 else ''}"
        side = "right" if best > 0 else "left"
        says = f"the head is always {words} to the {side}"
        if not self.labelled:
            return {"says": says, "offset": best}
        classes = self.model.label_model_.classes_
        codes = (truth.codes % _LABELS)[truth.counted]
        label = str(classes[np.bincount(codes, minlength=len(classes))[: len(classes)].argmax()])
        return {"says": f"{says}, its label {label}", "offset": best, "label": label}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        # Files of models without an offset mean the word before.
        offset = int(trivial.get("offset", -1))
        found = Outputs.of_list(_at_offset(int(size), offset) for size in truth.sizes)
        if not self.labelled:
            return found
        label = self._label_codes(np.array([trivial.get("label")], object))
        return found.like(found.codes * _LABELS + label)

    def alone(self, train: Data, test: Data) -> Baseline | None:
        if self.labelled:
            return None
        read, others = self.model._read(train.X), self.model._read(test.X)
        if read.are_words:
            return _by_distance(read.examples, train.truth, others.examples, test.truth)
        # A row for each head, the root first, and a column for each word.
        found = [np.argmax(scores, axis=0) for scores in self.model.decision_function(test.X)]
        return Baseline("the same arc scores, each word its best head", Outputs.of_list(found))


def _by_distance(words: Any, truth: Outputs, others: Any, wanted: Outputs) -> Baseline:
    """The distance from each word to its head by a linear SVM; 0 stands for the root."""
    from sklearn.feature_extraction import DictVectorizer

    from ..files.tokens import token_features

    def features(examples: Any) -> list[dict[str, str]]:
        rows = (list(zip(*words.values(), strict=True)) for words in examples)
        return [found for sentence in rows for found in token_features(sentence)]

    distance = np.where(truth.codes > 0, truth.codes - _places(truth), 0)
    codes = np.where(truth.counted & (abs(distance) <= _FARTHEST), distance + _FARTHEST, -1)
    vectorizer = DictVectorizer()
    rows = vectorizer.fit_transform(features(words))
    found, note = classify(rows, codes, vectorizer.transform(features(others)))
    heads = _places(wanted) + found - _FARTHEST
    sizes = wanted.sizes[wanted.example]
    outside = (found == _FARTHEST) | (heads < 1) | (heads > sizes)
    name = "LinearSVC of the distance to the head, word by word"
    return Baseline(name + note, wanted.like(np.where(outside, 0, heads)))


def _places(outputs: Outputs) -> np.ndarray:
    """Place of each word in its sentence, from 1."""
    return np.arange(len(outputs.codes)) - outputs.indptr[outputs.example] + 1


def _at_offset(n: int, offset: int) -> np.ndarray:
    heads = np.arange(1, n + 1) + offset
    return np.where((heads < 1) | (heads > n), 0, heads)
