"""Partners of the points of two sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_listed
from ..features.pairs import pack_pairs
from .base import Data, Task, Trivial
from .baselines import Baseline, fit_tuned
from .measures import Measure, Outputs, exact_match, mean_accuracy


def take_matchings(y: Any, sides: np.ndarray) -> np.ndarray:
    """Permutations of all examples, one after another, checked."""
    check_listed("y", y, "a list of permutations")
    if len(y) != len(sides):
        raise ValueError(
            f"X has {len(sides)} examples but y has {len(y)}; expected one permutation for each."
        )
    rows = []
    for i, (row, n) in enumerate(zip(y, sides, strict=True)):
        partners = as_integers(row, f"y[{i}]")
        if len(partners) != n:
            raise ValueError(
                f"y[{i}] has {len(partners)} entries but X[{i}] has {n} points a side; expected "
                "the index of a partner for each."
            )
        problem = first_difference(partners, 0)
        if problem:
            raise ValueError(f"y[{i}] is not a permutation: it {problem}.")
        rows.append(partners)
    return np.concatenate(rows).astype(np.int32)


def first_difference(row: np.ndarray, base: int) -> str:
    """What keeps a row of integers from being a permutation that counts from ``base``."""
    n = len(row)
    outside = (row < base) | (row >= base + n)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        return (
            f"holds {row[place]} at place {place}; expected each of {base}, ..., {base + n - 1} "
            "once"
        )
    values, counts = np.unique(row, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return ""
    places = np.flatnonzero(row == repeated[0])
    missing = np.setdiff1d(np.arange(base, base + n), row)[0]
    return (
        f"holds {repeated[0]} at places {', '.join(map(str, places))} and {missing} nowhere; "
        f"expected each of {base}, ..., {base + n - 1} once"
    )


def as_integers(row: Any, where: str) -> np.ndarray:
    """A row of integers; numbers such as 2.0 count as 2."""
    try:
        values = np.asarray(row)
        if values.dtype == object:
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        values = np.empty(0, "U")
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise ValueError(f"{where} must be a row of integers; received {row!r}.")
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            place = int(np.flatnonzero(np.isnan(values))[0])
            raise ValueError(
                f"{where} is not known (NaN) at place {place}; incomplete permutations are not "
                "supported: complete the row or leave the example out."
            )
        if (values != np.floor(values)).any() or not np.isfinite(values).all():
            bad = np.flatnonzero((values != np.floor(values)) | ~np.isfinite(values))
            place = int(bad[0])
            raise ValueError(f"{where} must hold integers; received {values[place]} at {place}.")
    return values.astype(np.int64)


class MatchingTask(Task):
    """The partner of each point of one set in the other."""

    key = "matching"
    title = "matching"
    noun = "pair of point sets"
    part = "point"
    classes = ()

    def encode(self, X: Any, y: Any) -> Outputs:
        return self._read(y, pack_pairs(X, self.model.pair_features).sides)

    def _read(self, y: Any, sides: np.ndarray) -> Outputs:
        flat = take_matchings(y, sides).astype(np.int64)
        return Outputs(flat, np.concatenate([[0], np.cumsum(sides)]))

    def predict(self, X: Any, truth: Outputs | None = None) -> Outputs:
        return Outputs.of_list(self.model.predict(X))

    def compare(self, X: Any, y: Any) -> tuple[Outputs, Outputs]:
        found = self.predict(X)  # features of pairs may be slow: they are computed once
        return self._read(y, found.sizes), found

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return mean_accuracy(truth, found)

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [exact_match(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        return {"says": "first with first, second with second, ..."}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        return Outputs.of_list(np.arange(size) for size in truth.sizes)

    def alone(self, train: Data, test: Data) -> Baseline:
        from sklearn.linear_model import LogisticRegression

        pairs = pack_pairs(train.X, self.model.pair_features)
        others = pack_pairs(test.X, self.model.pair_features)
        wanted = np.concatenate([np.eye(len(t), dtype=int)[t].ravel() for t in train.truth.split()])
        model = fit_tuned(LogisticRegression(max_iter=1000), pairs.X, wanted, "neg_log_loss")
        scores = model.decision_function(others.X)
        parts = np.split(scores, others.pairs_indptr[1:-1])
        found = [s.reshape(n, n).argmax(axis=1) for s, n in zip(parts, others.sides, strict=True)]
        name = "logistic regression, each point its best partner"
        return Baseline(name, Outputs.of_list(found))
