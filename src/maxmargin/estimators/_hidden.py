"""Partial annotation: labels that were never observed, trained as hidden variables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._validation import outside
from ..solvers.groups import for_groups
from ..solvers.result import CONVERGED, FAILED, MAX_ITER, STATIONARY, Result
from ..solvers.rounds import HiddenParts, run_rounds
from ._base import Settings, StructuredEstimator, with_parameters
from ._warnings import warn_failure, warn_zero
from .values import Hidden


class HiddenOutputs(HiddenParts):
    """Hidden parts of a compiled structure: a completion is the true outputs of all examples.

    Parameters
    ----------
    problem : Problem
        With a loss that is 0 where the truth is hidden.
    clamped : structure
        Its outputs are those that agree with what is known.
    make_stepper : callable
    decode : callable
        The best outputs of a structure, from rows, weights and the number of threads.
    score : callable
        Writes the scores of given outputs of a range of examples.
    """

    def __init__(
        self, problem: Any, clamped: Any, make_stepper: Callable, decode: Callable, score: Callable
    ):
        super().__init__(problem, make_stepper)
        self.clamped = clamped
        self._decode, self._score = decode, score

    def complete(self, weights: np.ndarray, before: Any) -> np.ndarray:
        """The best outputs that agree with what is known."""
        problem = self.problem
        found = self._decode(self.clamped, problem.shared_rows, weights, problem.n_threads)
        return before if before is not None and np.array_equal(found, before) else found

    def truth_scores(self, weights: np.ndarray, completion: np.ndarray) -> np.ndarray:
        """Scores of some outputs."""
        problem = self.problem
        values = np.empty(problem.n_examples)
        data = (problem.structure, problem.shared_rows, weights)

        def work(first: int, last: int) -> None:
            self._score(*data, first, last, completion, values)

        for_groups(work, problem.n_examples, problem.n_threads)
        return values


@with_parameters
class HiddenLabels(StructuredEstimator):
    """Mixin of estimators with the parameter ``hidden``."""

    hidden: Any = "auto"

    def _check_settings(self) -> Settings:
        Hidden.of(self.hidden).validate()
        return super()._check_settings()

    def _solve_latent(
        self,
        model: HiddenParts,
        starts: Iterable[Any],
        problem: Any,
        settings: Settings,
        validate: Any = None,
    ) -> Result:
        """Train with hidden labels, and keep the certificate of the last convex problem."""
        before = self._dual_for(problem)
        options = self._run_options(settings, validate)
        if self._recorder is not None:
            options["recorder"] = self._recorder.follow_rounds(problem, settings.rng)
        result = run_rounds(model, starts, dual_state=before, **options)
        return self._keep_rounds(result, problem, settings)

    def _solve_likelihood(
        self, problem: Any, clamped: Any, settings: Settings, validate: Any = None
    ) -> Result:
        """Train a CRF on the likelihood of the known labels, which ``clamped`` holds fixed."""
        problem.clamped = clamped
        stepper = self._stepper(problem, settings)
        result = self._run(stepper, settings, validate)
        result.objective, result.objectives = result.primal, [result.primal]
        return self._keep_rounds(result, problem, settings)

    def _solve_outputs(
        self, model: HiddenOutputs, weigh: Callable[[], Any], settings: Settings, validate: Any
    ) -> Result:
        """Train with hidden parts of outputs; ``weigh`` returns the weights for the first start."""
        problem = model.problem
        if problem.cost.likelihood:
            return self._solve_likelihood(problem, model.clamped, settings, validate)

        def starts() -> Iterator[np.ndarray]:
            weights = weigh()
            yield model.complete(weights, None)
            for moved in self._with_noise(weights, settings, only_used=problem.in_kernel_space):
                yield model.complete(moved, None)

        return self._solve_latent(model, starts(), problem, settings, validate)

    def _make_stepper(self, settings: Settings) -> Callable[[Any, Any], Any]:
        """Solvers of the convex problems, each from a dual state or afresh from None."""
        return lambda problem, dual: self._stepper(problem, settings, dual_state=dual)

    def _with_noise(
        self, weights: np.ndarray, settings: Settings, only_used: bool
    ) -> Iterator[np.ndarray]:
        """Weights for the other starts: the first ones with noise of their size."""
        size = float(np.sqrt(np.mean(weights**2)))
        for _ in range(1, Hidden.of(self.hidden).starts):
            noise = settings.rng.standard_normal(len(weights))
            if only_used:  # with a kernel, rows without a coefficient have nothing to say
                noise *= weights != 0.0
            yield weights + size * noise

    def _keep_rounds(self, result: Result, problem: Any, settings: Settings) -> Result:
        """Keep the certificate and the rounds; warn unless all went well."""
        self._keep_certificate(result, problem)
        status = result.status
        if status == CONVERGED:  # of the last convex problem
            self.status_ = STATIONARY
        self.objective_ = result.objective
        self.rounds_ = list(result.rounds)
        self.start_objectives_ = np.array(result.objectives)
        if status == FAILED:
            warn_failure(type(self).__name__, self.primal_, self.dual_)
        if status in (CONVERGED, STATIONARY) and problem.cost.linear and not result.weights.any():
            warn_zero(type(self).__name__)
        if status == MAX_ITER and settings.tol > 0:
            warnings.warn(
                f"{type(self).__name__} did not reach a stationary point in {settings.max_iter} "
                f"passes (objective {self.objective_:.6g}, relative gap of the last convex problem "
                f"{self.gap_ / abs(self.primal_):.2g}, tol={settings.tol:g}). Increase max_iter or "
                "alpha, scale the features, or accept it with a larger tol.",
                ConvergenceWarning,
                stacklevel=outside(),
            )
        return result
