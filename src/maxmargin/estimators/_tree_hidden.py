"""Trees with hidden heads: how they are completed, and where training starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..solvers.problem import Problem
from ..structures.arborescence import choose_heads, score_trees
from ._base import Settings
from ._hidden import HiddenLabels, HiddenOutputs
from ._tree_data import known_arcs, parse

# Passes of the model of single words, from which the first completion comes.
_START_PASSES = 3


class HiddenHeads(HiddenLabels):
    """The part of :class:`TreeParser` that trains with hidden heads."""

    def _solve_hidden(
        self, problem: Problem, heads: np.ndarray, settings: Settings, validate: Any
    ) -> Any:
        lengths = np.diff(problem.structure.indptr)
        clamped = problem.structure._replace(allowed=known_arcs(heads, lengths))
        make_stepper = self._make_stepper(settings)
        model = HiddenOutputs(problem, clamped, make_stepper, parse, score_trees)

        def weigh() -> np.ndarray:
            """Weights of a model of single words with known heads."""
            weights = np.zeros(problem.n_weights)
            known = problem.structure._replace(truth=heads.astype(np.int32))
            for _ in range(_START_PASSES):
                order = settings.rng.permutation(problem.n_examples)
                choose_heads(known, problem.rows, order, problem.sample_weight, weights)
            return weights

        return self._solve_outputs(model, weigh, settings, validate)
