"""Multilabel problems with hidden entries: how they are read, and trained where labels interact."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..solvers.auto import make_solver
from ..solvers.climb import Climb
from ..solvers.loop import run
from ..structures.multilabel import HIDDEN
from ..tasks.unknown import warn_without_labels
from ._base import Settings
from ._hidden_graphs import HiddenGraphLabels, HiddenGraphs

# Relative gap of the training on known entries from which the first completion comes.
_START_TOL = 0.1


def leave_out_hidden(indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weights that are 0 for examples without a known entry."""
    known = indicator != HIDDEN
    if not known[weights > 0].any():
        raise ValueError("all entries of y are hidden; at least one must be known.")
    without = ~known.any(axis=1) & (weights > 0)
    warn_without_labels(np.flatnonzero(without), "example")
    return np.where(without, 0.0, weights)


def usual_state(indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The indicator with hidden entries as most known ones of their label are."""
    present, absent = weights @ (indicator == 1), weights @ (indicator == 0)
    return np.where(indicator == HIDDEN, present > absent, indicator).astype(np.int8)


def known_counts(indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted numbers of known absences and presences of each label."""
    return np.stack([weights @ (indicator == 0), weights @ (indicator == 1)])


class HiddenLabelSets(HiddenGraphLabels):
    """The part of :class:`MultiLabelClassifier` that trains with hidden entries and edges."""

    classes_: np.ndarray
    edges_: np.ndarray
    interactions_: np.ndarray

    def _solve_hidden(
        self, problem: Any, separable: Any, indicator: np.ndarray, X: Any, train: np.ndarray,
        settings: Settings, validate: Any,
    ) -> Any:  # fmt: skip
        n, L = indicator.shape
        inputs = X if len(train) == X.shape[0] else X[train]
        codes = indicator.ravel()
        known = np.stack([codes != 1, codes != 0], axis=1)

        def unary_of() -> np.ndarray:
            scores = self._scores(inputs)  # type: ignore[attr-defined]
            return np.stack([-0.5 * scores, 0.5 * scores], axis=2).reshape(n * L, 2)

        def scores_of(weights):
            self._keep_weights(problem, weights, X, train)  # type: ignore[attr-defined]
            return unary_of(), np.tile(self.interactions_.ravel(), n)

        # The first model has every known entry on its own: without edges, hidden ones cost nothing.
        stepper = Climb(make_solver("bcfw", separable), separable, rng=settings.rng)
        alone = run(stepper, tol=max(settings.tol, _START_TOL), max_iter=settings.max_iter)
        self._keep_weights(separable, alone.weights, X, train)  # type: ignore[attr-defined]
        start = unary_of(), np.zeros(4 * n * len(self.edges_))
        model = HiddenGraphs(problem, known, scores_of, self._make_stepper(settings), train)
        return self._solve_graphs(model, start, settings, validate)
