"""Sequences with hidden labels: how they are completed, and where training starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..features.kernels import GramRows, KernelRows
from ..solvers.lbfgs import LBFGS
from ..solvers.loop import run
from ..solvers.problem import Problem, for_groups
from ..solvers.rounds import HiddenParts
from ..structures.chain import Chain, pack_products
from ..structures.chain_sums import score_labellings
from ._base import Settings
from ._hidden import HiddenLabels
from ._sequence_data import LabelledSequences, decode_all

# Relative gap of the training on known labels from which the first completion comes.
_START_TOL = 0.1


class HiddenChains(HiddenParts):
    """The latent model of chains: a completion is the codes of all labels.

    Parameters
    ----------
    problem : Problem
        With a loss that is 0 at hidden positions.
    known : bool array of shape (positions, K)
        Which labels are possible where: only the known one where there is one.
    make_stepper : callable
        A solver for a problem and a dual state.
    """

    def __init__(self, problem: Problem, known: np.ndarray, make_stepper: Callable):
        super().__init__(problem, make_stepper)
        self.clamped: Chain = problem.structure._replace(masked=True, allowed=known)

    def complete(self, weights: np.ndarray, before: Any) -> np.ndarray:
        """The best labels that agree with those known: Viterbi's algorithm."""
        problem = self.problem
        labels = decode_all(self.clamped, problem.shared_rows, weights, problem.n_threads)
        return before if before is not None and np.array_equal(labels, before) else labels

    def truth_scores(self, weights: np.ndarray, completion: np.ndarray) -> np.ndarray:
        """Scores of some labels."""
        problem = self.problem
        values = np.empty(problem.n_examples)

        def work(first, last):
            score_labellings(
                problem.structure, problem.shared_rows, weights, first, last, completion, values
            )

        for_groups(work, problem.n_examples, problem.n_threads)
        return values


class HiddenSequences(HiddenLabels):
    """The part of :class:`SequenceLabeler` that trains with hidden labels."""

    def _check_hidden_crf(self) -> None:
        """A sum over completions has no dual blocks: gradients only."""
        by_gradients = isinstance(self.solver, LBFGS) or self.solver in ("auto", "lbfgs")
        if not by_gradients or self.kernel != "linear":
            raise ValueError(
                "hidden labels with surrogate='crf' are trained by gradients of the likelihood of "
                "the known ones: use solver='auto' or 'lbfgs' and kernel='linear', or "
                "surrogate='max-margin'; received "
                f"solver={self.solver!r}, kernel={self.kernel!r}."
            )

    def _solve_hidden(
        self, problem: Problem, data: LabelledSequences, settings: Settings, validate: Any
    ) -> Any:
        known = data.known_labels(len(self.classes_))
        model = HiddenChains(problem, known, self._make_stepper(settings))
        if self.surrogate == "crf":
            return self._solve_likelihood(problem, model.clamped, settings, validate)
        starts = self._starts(model, problem, data, settings)
        return self._solve_latent(model, starts, problem, settings, validate)

    def _starts(
        self, model: HiddenChains, problem: Problem, data: LabelledSequences, settings: Settings
    ) -> Iterator[np.ndarray]:
        """Completions by a model of the known labels alone, then by that model with noise."""
        weights = self._train_on_known(problem, data, settings)
        yield model.complete(weights, None)
        in_dual = isinstance(problem.rows, (GramRows, KernelRows))
        for moved in self._with_noise(weights, settings, only_used=in_dual):
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
            structure, self._make_surrogate(structure), problem.rows, alpha, weights,
            problem.n_threads,
        )  # fmt: skip
        stepper = self._stepper(known, settings, dual_state=None)
        found = run(stepper, tol=max(settings.tol, _START_TOL), max_iter=settings.max_iter)
        return np.concatenate([found.weights, np.zeros(problem.n_weights - known.n_weights)])
