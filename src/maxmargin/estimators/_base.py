"""What all front doors share: solver settings, training, certificate, warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._kernels.passes import block_sizes
from .._validation import (
    check_callbacks,
    check_choice,
    check_integer,
    check_n_jobs,
    check_number,
    check_switch,
)
from ..features.rows import DenseRows, SparseRows
from ..solvers.bcfw import ORDERS, BlockFrankWolfe, PairwiseFrankWolfe
from ..solvers.lbfgs import Lbfgs
from ..solvers.loop import run
from ..solvers.result import MAX_ITER, Result
from ..solvers.subgradient import Subgradient
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin

SURROGATES = {"max-margin": MaxMargin, "max-min": MaxMin, "crf": Crf}
SOLVERS = ("auto", "bcfw", "pairwise", "subgradient", "lbfgs")
# Marginals of a CRF that coordinate ascent may keep, unless it is asked for by name.
_DUAL_BYTES = 1e9


class Settings(NamedTuple):
    """Validated parameters of a fit."""

    tol: float
    max_iter: int
    n_threads: int
    callbacks: tuple
    rng: np.random.RandomState
    verbose: int


class StructuredEstimator(BaseEstimator):
    """Base of the estimators; subclasses list the parameters in their constructor."""

    _switches: tuple[str, ...] = ("warm_start", "early_stopping", "fit_intercept")

    def _check_settings(self) -> Settings:
        """Refuse parameters that no fit could use, before looking at the data."""
        check_choice("surrogate", self.surrogate, SURROGATES)
        check_choice("solver", self.solver, SOLVERS)
        for name in self._switches:
            check_switch(name, getattr(self, name))
        check_choice("order", self.order, ORDERS)
        if not isinstance(self.average, (bool, np.bool_)):
            check_number("average", self.average, at_least=0)
        if self.check_every is not None:
            check_integer("check_every", self.check_every, 1)
        if self.solver == "pairwise" and self.surrogate != "max-margin":
            raise ValueError(
                "solver='pairwise' needs a surrogate whose answers are single outputs: use "
                f"surrogate='max-margin' or solver='bcfw'; received surrogate={self.surrogate!r}."
            )
        if self.solver == "lbfgs" and self.surrogate != "crf":
            raise ValueError(
                "solver='lbfgs' needs a smooth surrogate: use surrogate='crf' or solver='bcfw'; "
                f"received surrogate={self.surrogate!r}."
            )
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_number("alpha", self.alpha, above=0)
        if self.early_stopping:
            fraction = check_number("validation_fraction", self.validation_fraction, above=0)
            if fraction >= 1:
                raise ValueError(f"validation_fraction must be < 1; received {fraction!r}.")
            check_integer("n_iter_no_change", self.n_iter_no_change, 1)
        verbose = int(self.verbose) if isinstance(self.verbose, bool) else self.verbose
        return Settings(
            tol=check_number("tol", self.tol, at_least=0),
            max_iter=check_integer("max_iter", self.max_iter, 1),
            n_threads=check_n_jobs(self.n_jobs),
            callbacks=check_callbacks(self.callbacks),
            rng=check_random_state(self.random_state),
            verbose=check_integer("verbose", verbose, 0),
        )

    def _alpha_for(self, total_weight: float, positions: float = 1.0) -> float:
        """``alpha``, where "auto" is C = 1 for a loss summed over so many positions an example."""
        return positions / total_weight if isinstance(self.alpha, str) else float(self.alpha)

    def _split(self, n: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Indices of training and held-out examples."""
        if not self.early_stopping:
            return np.arange(n), np.arange(0)
        held_out = max(1, round(self.validation_fraction * n))
        if held_out >= n:
            raise ValueError(
                f"early_stopping=True needs examples to hold out, but of {n} none would be left "
                "for training; use more data or early_stopping=False."
            )
        order = rng.permutation(n)
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def _solve(
        self,
        problem: Any,
        settings: Settings,
        validate: Callable[[np.ndarray], float] | None = None,
    ) -> Result:
        """Train, and keep the certificate."""
        solver = self._solver_name(problem)
        if solver == "subgradient":
            stepper: Any = Subgradient(problem, rng=settings.rng)
        elif solver == "lbfgs":
            stepper = Lbfgs(problem, dual_state=self._dual_for(problem))
        else:
            method = PairwiseFrankWolfe if solver == "pairwise" else BlockFrankWolfe
            stepper = method(
                problem,
                order=self.order,
                average=self.average,
                rng=settings.rng,
                dual_state=self._dual_for(problem),
            )
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
        if result.status == MAX_ITER and settings.tol > 0:
            warnings.warn(
                f"{type(self).__name__} did not converge in {settings.max_iter} passes: relative "
                f"gap {result.gap / abs(result.primal):.2g} > tol={settings.tol:g} (primal "
                f"{result.primal:.6g}, dual {result.dual:.6g}). Increase max_iter or alpha, scale "
                "the features, or accept the gap with a larger tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return result

    def _solver_name(self, problem: Any) -> str:
        """The solver that is meant by "auto"."""
        if self.solver != "auto":
            return self.solver
        if self.surrogate != "crf":
            return "bcfw"
        return crf_solver(problem.rows, int(block_sizes(problem.structure).sum()))

    def _dual_for(self, problem: Any) -> Any:
        """The dual state of the previous fit, if it is wanted and feasible for this problem."""
        before = getattr(self, "_dual", None)
        if not self.warm_start or before is None or before[0] != problem.signature():
            return None
        return before[1]

    def _keep_certificate(self, result: Result, problem: Any) -> None:
        self.alpha_ = problem.alpha
        self.primal_ = result.primal
        self.dual_ = result.dual
        self.gap_ = result.gap
        self.oracle_error_ = result.oracle_error
        self.status_ = result.status
        self.n_iter_ = max(1, math.ceil(result.passes - 1e-9))
        self.n_oracle_calls_ = result.oracle_calls
        self.history_ = result.history
        in_weights = isinstance(result.dual_state, np.ndarray)
        self.dual_nbytes_ = 0 if in_weights else getattr(result.dual_state, "nbytes", 0)
        self._dual = None
        if self.warm_start and result.dual_state is not None and problem.signature() is not None:
            self._dual = (problem.signature(), result.dual_state)


def crf_solver(rows: Any, n_marginals: int) -> str:
    """The faster solver for a CRF, as measured.

    A step of coordinate ascent touches only the weights of its example's features; one of L-BFGS
    touches all weights many times, but needs no logarithms and can use several threads. So L-BFGS
    is for data with at least as many rows as features, and where the marginals would not fit.
    """
    if not isinstance(rows, (DenseRows, SparseRows)):
        return "bcfw"
    fits = 8 * n_marginals <= _DUAL_BYTES
    return "bcfw" if fits and rows.n_inputs > len(rows.squares) else "lbfgs"


def incompatible(surrogate: str, what: str, remedy: str) -> ValueError:
    """The error for a surrogate that has no oracle for what the user asked."""
    return ValueError(f"surrogate={surrogate!r} is not available for {what}. {remedy}")
