"""Trees with hidden heads: how they are completed, and where training starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..solvers.problem import Problem, for_groups
from ..solvers.rounds import HiddenParts
from ..structures.arborescence import choose_heads, score_trees
from ._base import Settings
from ._hidden import HiddenLabels
from ._tree_data import known_arcs, parse

# Passes of the model of single words, from which the first completion comes.
_START_PASSES = 3


class HiddenTrees(HiddenParts):
    """The latent model of trees: a completion is the heads of all words.

    Parameters
    ----------
    problem : Problem
        With a loss that is 0 at hidden heads.
    allowed : bool array
        Arcs that agree with what is known.
    make_stepper : callable
        A solver for a problem and a dual state.
    """

    def __init__(self, problem: Problem, allowed: np.ndarray, make_stepper: Callable):
        super().__init__(problem, make_stepper)
        self.clamped = problem.structure._replace(allowed=allowed)

    def complete(self, weights: np.ndarray, before: Any) -> np.ndarray:
        """The best trees that agree with the heads known."""
        problem = self.problem
        heads = parse(self.clamped, problem.rows, weights, problem.n_threads)
        return before if before is not None and np.array_equal(heads, before) else heads

    def truth_scores(self, weights: np.ndarray, completion: np.ndarray) -> np.ndarray:
        """Scores of some trees."""
        problem = self.problem
        values = np.empty(problem.n_examples)

        def work(first: int, last: int) -> None:
            score_trees(problem.structure, problem.rows, weights, first, last, completion, values)

        for_groups(work, problem.n_examples, problem.n_threads)
        return values


class HiddenHeads(HiddenLabels):
    """The part of :class:`TreeParser` that trains with hidden heads."""

    def _solve_hidden(
        self, problem: Problem, heads: np.ndarray, settings: Settings, validate: Any
    ) -> Any:
        lengths = np.diff(problem.structure.indptr)
        model = HiddenTrees(problem, known_arcs(heads, lengths), self._make_stepper(settings))
        if self.surrogate == "crf":
            return self._solve_likelihood(problem, model.clamped, settings, validate)
        starts = self._starts(model, heads, settings)
        return self._solve_latent(model, starts, problem, settings, validate)

    def _starts(
        self, model: HiddenTrees, heads: np.ndarray, settings: Settings
    ) -> Iterator[np.ndarray]:
        """Completions by a model of single words with known heads, then by that with noise."""
        problem = model.problem
        weights = np.zeros(problem.n_weights)
        known = problem.structure._replace(truth=heads.astype(np.int32))
        for _ in range(_START_PASSES):
            order = settings.rng.permutation(problem.n_examples)
            choose_heads(known, problem.rows, order, problem.sample_weight, weights)
        yield model.complete(weights, None)
        for moved in self._with_noise(weights, settings):
            yield model.complete(moved, None)
