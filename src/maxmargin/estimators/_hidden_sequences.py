"""Sequences with hidden labels: how they are completed, and where training starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..solvers.loop import run
from ..solvers.problem import Problem
from ..structures.chain import pack_products
from ..structures.chain_sums import score_labellings
from ._base import Settings
from ._hidden import HiddenLabels, HiddenOutputs
from ._sequence_data import LabelledSequences, decode_all

# Relative gap of the training on known labels from which the first completion comes.
_START_TOL = 0.1


class HiddenSequences(HiddenLabels):
    """The part of :class:`SequenceLabeler` that trains with hidden labels."""

    def _solve_hidden(
        self, problem: Problem, data: LabelledSequences, settings: Settings, validate: Any
    ) -> Any:
        known = data.known_labels(len(self.classes_))
        clamped = problem.structure._replace(masked=True, allowed=known)
        make_stepper = self._make_stepper(settings)
        model = HiddenOutputs(problem, clamped, make_stepper, decode_all, score_labellings)
        if problem.cost.likelihood:
            return self._solve_likelihood(problem, model.clamped, settings, validate)
        starts = self._starts(model, problem, data, settings)
        return self._solve_latent(model, starts, problem, settings, validate)

    def _starts(
        self, model: HiddenOutputs, problem: Problem, data: LabelledSequences, settings: Settings
    ) -> Iterator[np.ndarray]:
        """Completions by a model of the known labels alone, then by that model with noise."""
        weights = self._train_on_known(problem, data, settings)
        yield model.complete(weights, None)
        for moved in self._with_noise(weights, settings, only_used=problem.in_kernel_space):
            yield model.complete(moved, None)

    def _train_on_known(
        self, problem: Problem, data: LabelledSequences, settings: Settings
    ) -> np.ndarray:
        """Weights from runs of neighbouring known labels, each a sequence of its own."""
        chain, K = problem.structure, len(self.classes_)
        indptr, weights = data.known_runs()
        products, products_indptr = pack_products(problem.rows, indptr)
        free = np.zeros(K)
        structure = chain._replace(
            truth=data.truth, indptr=indptr, longest=int(np.diff(indptr).max()), ends=False,
            first_mask=free, last_mask=free, products=products, products_indptr=products_indptr,
        )  # fmt: skip
        alpha = problem.alpha * problem.total_weight / weights.sum()
        known = Problem(
            structure, problem.surrogate, problem.rows, alpha, weights, problem.n_threads,
        )  # fmt: skip
        stepper = self._stepper(known, settings, dual_state=None)
        found = run(stepper, tol=max(settings.tol, _START_TOL), max_iter=settings.max_iter)
        return np.concatenate([found.weights, np.zeros(problem.n_weights - known.n_weights)])
