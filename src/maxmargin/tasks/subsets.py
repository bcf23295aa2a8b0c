"""Which elements of a set are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_listed
from ..features.sequences import open_sequences
from .base import Data, Task, Trivial, n_rows
from .baselines import Baseline, decision_values
from .measures import Measure, Outputs, exact_match


def take_choices(y: Any, sizes: np.ndarray) -> list[np.ndarray]:
    """Chosen elements of each example, increasing; refuse what is no subset of its elements."""
    wanted = "a list with the chosen elements of each example"
    if y is None:
        raise ValueError(f"y must be {wanted}; received None.")
    check_listed("y", y, wanted)
    if len(y) != len(sizes):
        raise ValueError(
            f"X has {len(sizes)} examples but y has {len(y)}; expected one subset for each."
        )
    return [_take_choice(entry, i, int(v)) for i, (entry, v) in enumerate(zip(y, sizes))]


def _take_choice(entry: Any, i: int, v: int) -> np.ndarray:
    if isinstance(entry, (set, frozenset)):
        entry = sorted(entry)
    try:
        found = np.asarray(entry)
    except ValueError:
        found = np.empty(0, object)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iub"):
        raise ValueError(
            f"y[{i}] must hold the indices of the chosen elements of X[{i}], or a bool for each; "
            f"received {entry!r}."
        )
    if found.dtype.kind == "b":
        if len(found) != v:
            raise ValueError(
                f"y[{i}] has {len(found)} bools but X[{i}] has {v} elements; expected one for each."
            )
        found = np.flatnonzero(found)
    if not len(found):
        raise ValueError(f"y[{i}] chooses no element; expected at least one. Leave it out.")
    if found.min() < 0 or found.max() >= v:
        bad = found[(found < 0) | (found >= v)][0]
        raise ValueError(
            f"y[{i}] names element {bad}, but X[{i}] has {v} elements; expected 0 to {v - 1}."
        )
    chosen, counts = np.unique(found, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"y[{i}] names element {chosen[counts > 1][0]} twice; name every chosen element once."
        )
    return chosen.astype(np.int32)


class SubsetTask(Task):
    """Zeros and ones for the elements of each example; predictions choose as many as are true."""

    key = "subset"
    title = "subset selection"
    part = "element"
    classes = ()

    def encode(self, X: Any, y: Any) -> Outputs:
        sizes = np.array([n_rows(x) for x in X])
        return Outputs.of_list(map(_members, take_choices(y, sizes), sizes))

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        chosen = self.model.predict(X, size=truth.sums(truth.codes).astype(np.int64))
        return Outputs.of_list(map(_members, chosen, truth.sizes))

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        share = truth.sums(truth.codes & found.codes) / truth.sums(truth.codes)
        return Measure("R-precision", share, np.ones(len(truth)))

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [exact_match(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        return {"says": "always the first elements"}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        return Outputs.of_list((np.arange(len(t)) < t.sum()) for t in truth.split())

    def alone(self, train: Data, test: Data) -> Baseline | None:
        rows, others = (open_sequences(data.X, self.model.vectorizer_).stack()
                        for data in (train, test))  # fmt: skip
        values, note = decision_values(rows, train.truth.codes, others)
        parts = np.split(values, test.truth.indptr[1:-1])
        found = [_members(np.argsort(-v, kind="stable")[: t.sum()], len(t))
                 for v, t in zip(parts, test.truth.split(), strict=True)]  # fmt: skip
        return Baseline("LinearSVC, element by element" + note, Outputs.of_list(found))


def _members(chosen: np.ndarray, size: int) -> np.ndarray:
    return np.isin(np.arange(size), chosen)
