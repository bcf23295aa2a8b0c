"""Probabilities of spans, and samples of labellings, of a linear chain.

With ``a_t`` and ``b_t`` the log sums over all labels before and after position t, the log weight of
all labellings with labels ``y_s, ..., y_(e-1)`` is::

    a_s[y_s] + sum_(s < t < e) (transitions[y_(t-1), y_t] + unary[t, y_t]) + b_(e-1)[y_(e-1)]

A span is such a run; what stands before and after it is restricted to labels that do not extend it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..metrics.spans import find_spans


class SpanProbability(NamedTuple):
    """A span at the positions ``start``, ..., ``end - 1``, and how probable it is."""

    start: int
    end: int
    type: str
    probability: float


class ChainSums:
    """Log sums over the labellings of one sequence.

    Parameters
    ----------
    unary : array of shape (T, K)
        Scores of the labels, with those of the first and the last one; minus infinity where a
        label is not allowed.
    transitions : array of shape (K, K)
    """

    def __init__(self, unary: np.ndarray, transitions: np.ndarray):
        self.unary, self.transitions = unary, transitions
        self.forward = np.empty_like(unary)
        self.backward = np.zeros_like(unary)
        T = len(unary)
        self.forward[0] = unary[0]
        for t in range(1, T):
            self.forward[t] = unary[t] + _sum(self.forward[t - 1][:, None] + transitions, axis=0)
        for t in range(T - 2, -1, -1):
            ahead = unary[t + 1] + self.backward[t + 1]
            self.backward[t] = _sum(transitions + ahead, axis=1)
        self.log_total = float(_sum(self.forward[-1], axis=0))

    def log_runs(self, start: int, sets: list[np.ndarray], before: Any, after: Any) -> float:
        """Log sum over the labellings whose label at position ``start + j`` is in ``sets[j]``, with
        one of ``before`` and of ``after`` at the positions beside these; None is any label."""
        here = np.full(self.unary.shape[1], -np.inf)
        first = sets[0]
        if start == 0 or before is None:
            here[first] = self.forward[start, first]
        elif len(before):
            ways = self.forward[start - 1, before][:, None] + self.transitions[before][:, first]
            here[first] = self.unary[start, first] + _sum(ways, axis=0)
        for j in range(1, len(sets)):
            allowed, t = sets[j], start + j
            ways = here[:, None] + self.transitions[:, allowed]
            here = np.full_like(here, -np.inf)
            here[allowed] = self.unary[t, allowed] + _sum(ways, axis=0)
        end = start + len(sets)
        if end == len(self.unary) or after is None:
            return float(_sum(here + self.backward[end - 1], axis=0))
        ahead = self.unary[end, after] + self.backward[end, after]
        return float(_sum(here[:, None] + self.transitions[:, after] + ahead, axis=None))

    def sample(self, rng: np.random.RandomState) -> np.ndarray:
        """Draw a labelling: its probability is ``exp(score)`` over the sum of all."""
        T = len(self.unary)
        labels = np.empty(T, np.int64)
        weights = self.unary[0] + self.backward[0]
        for t in range(T):
            if t:
                weights = self.transitions[labels[t - 1]] + self.unary[t] + self.backward[t]
            shares = np.exp(weights - weights.max())
            labels[t] = rng.choice(len(shares), p=shares / shares.sum())
        return labels


def _sum(values: np.ndarray, axis: Any) -> np.ndarray:
    if not np.size(values):
        return np.full(np.sum(values, axis=axis).shape, -np.inf)
    with np.errstate(divide="ignore"):  # the log of a sum over nothing
        return logsumexp(values, axis=axis)


class SpanLabels:
    """The labels of a type by their marks B, I, E and S.

    Parameters
    ----------
    names : sequence of str
        All labels: O, and marks with types such as B-NP.
    """

    def __init__(self, names: Sequence[str]):
        self._codes = {name: code for code, name in enumerate(names)}
        self._n = len(names)

    def _marked(self, marks: str, kind: str) -> np.ndarray:
        codes = [self._codes.get(f"{mark}-{kind}", -1) for mark in marks]
        return np.array([code for code in codes if code >= 0], np.int64)

    def ways(self, length: int, kind: str) -> Iterator[tuple[list[np.ndarray], Any, Any]]:
        """The ways to mark a span, no two of which share a labelling: sets of labels at its
        positions, and at the positions before and after it.

        By the rules of conlleval, I and E start a span where they cannot continue one, and B and I
        end one where nothing continues it.
        """
        inside, closed = self._marked("BI", kind), self._marked("IE", kind)
        not_inside = np.setdiff1d(np.arange(self._n), inside)
        not_closed = np.setdiff1d(np.arange(self._n), closed)
        if length == 1:
            choices = [("B", None, not_closed), ("S", None, None), ("I", not_inside, not_closed),
                       ("E", not_inside, None)]  # fmt: skip
            ends = [([self._marked(mark, kind)], before, after) for mark, before, after in choices]
        else:
            middle = [self._marked("I", kind)] * (length - 2)
            ends = [
                ([self._marked(first, kind), *middle, self._marked(last, kind)], before, after)
                for first, before in (("B", None), ("I", not_inside))
                for last, after in (("I", not_closed), ("E", None))
            ]
        return (way for way in ends if all(len(labels) for labels in way[0]))


def span_probabilities(
    sums: ChainSums, labels: SpanLabels, names: Sequence[str]
) -> list[SpanProbability]:
    """The spans of a labelling, each with the probability that it is one of the spans."""
    found = []
    for span in find_spans(names):
        weights = [sums.log_runs(span.start, *way)
                   for way in labels.ways(span.end - span.start, span.type)]  # fmt: skip
        share = float(np.exp(_sum(np.array(weights), axis=0) - sums.log_total))
        found.append(SpanProbability(*span, min(share, 1.0)))
    return found
