"""Partial annotation: labels that were never observed, trained as hidden variables."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._validation import check_integer, outside
from ..solvers.climb import Climb
from ..solvers.lbfgs import LBFGS
from ..solvers.loop import run
from ..solvers.result import CONVERGED, FAILED, MAX_ITER, STATIONARY, Result
from ..solvers.rounds import LatentModel, LatentResult, run_latent
from ._base import Settings, StructuredEstimator, warn_failure


class HiddenLabels(StructuredEstimator):
    """Mixin of estimators with the parameters ``hidden`` and ``hidden_starts``."""

    hidden: bool | str
    hidden_starts: int

    def _check_settings(self) -> Settings:
        if not (isinstance(self.hidden, (bool, np.bool_)) or self.hidden == "auto"):
            raise ValueError(f"hidden must be 'auto', True or False; received {self.hidden!r}.")
        check_integer("hidden_starts", self.hidden_starts, 1)
        return super()._check_settings()

    def _solve_latent(
        self,
        model: LatentModel,
        starts: Iterable[Any],
        problem: Any,
        settings: Settings,
        validate: Any = None,
    ) -> LatentResult:
        """Train with hidden labels, and keep the certificate of the last convex problem."""
        before = self._dual_for(problem)
        result = run_latent(
            model,
            starts,
            tol=settings.tol,
            max_iter=settings.max_iter,
            check_every=self.check_every,
            callbacks=settings.callbacks,
            validate=validate,
            patience=self.n_iter_no_change,
            verbose=settings.verbose,
            name=type(self).__name__,
            dual_state=before,
        )
        self._keep_certificate(result, problem)
        self._keep_rounds(result.objective, result.rounds, result.objectives)
        self._warn_unless_done(result.status, settings)
        return result

    def _solve_likelihood(
        self, problem: Any, clamped: Any, settings: Settings, validate: Any = None
    ) -> Result:
        """Train a CRF on the likelihood of the known labels, which ``clamped`` holds fixed."""
        problem.clamped = clamped
        stepper = Climb(LBFGS(), problem, rng=settings.rng, start=self._dual_for(problem))
        result = run(
            stepper,
            tol=settings.tol,
            max_iter=settings.max_iter,
            check_every=self.check_every,
            callbacks=settings.callbacks,
            validate=validate,
            patience=self.n_iter_no_change,
            verbose=settings.verbose,
            name=type(self).__name__,
        )
        self._keep_certificate(result, problem)
        self._keep_rounds(result.primal, [], [result.primal])
        self._warn_unless_done(result.status, settings)
        return result

    def _with_noise(
        self, weights: np.ndarray, settings: Settings, only_used: bool = False
    ) -> Iterator[np.ndarray]:
        """Weights for the other starts: the first ones with noise of their size."""
        size = float(np.sqrt(np.mean(weights**2)))
        for _ in range(1, self.hidden_starts):
            noise = settings.rng.standard_normal(len(weights))
            if only_used:  # with a kernel, rows without a coefficient have nothing to say
                noise *= weights != 0.0
            yield weights + size * noise

    def _keep_rounds(self, objective: float, rounds: list, objectives: list) -> None:
        if self.status_ == CONVERGED:  # of the last convex problem
            self.status_ = STATIONARY
        self.objective_ = objective
        self.rounds_ = list(rounds)
        self.start_objectives_ = np.array(objectives)

    def _warn_unless_done(self, status: str, settings: Settings) -> None:
        if status == FAILED:
            warn_failure(type(self).__name__, self.primal_, self.dual_, outside())
        if status == MAX_ITER and settings.tol > 0:
            warnings.warn(
                f"{type(self).__name__} did not reach a stationary point in {settings.max_iter} "
                f"passes (objective {self.objective_:.6g}, relative gap of the last convex problem "
                f"{self.gap_ / abs(self.primal_):.2g}, tol={settings.tol:g}). Increase max_iter or "
                "alpha, scale the features, or accept it with a larger tol.",
                ConvergenceWarning,
                stacklevel=outside(),
            )
