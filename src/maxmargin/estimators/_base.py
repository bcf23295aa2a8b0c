"""What all front doors share: solver settings, training, certificate, warnings."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._codec import ModelFileError
from .._dual_checks import check_dual
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
from ..solvers.acceleration import Accelerated
from ..solvers.averaging import Averaged
from ..solvers.base import Solver
from ..solvers.climb import Climb
from ..solvers.flow import Flow
from ..solvers.frank_wolfe import ORDERS, BlockFrankWolfe
from ..solvers.lbfgs import LBFGS
from ..solvers.loop import run
from ..solvers.result import FAILED, MAX_ITER, Result
from ..solvers.subgradient import Subgradient
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin
from ._kernel import KernelModel

SURROGATES = {"max-margin": MaxMargin, "max-min": MaxMin, "crf": Crf}
SOLVERS = ("auto", "accelerated", "bcfw", "pairwise", "subgradient", "lbfgs")
# Marginals of a CRF that coordinate ascent may keep, unless it is asked for by name.
_DUAL_BYTES = 1e9
# What a fit with hidden labels leaves, and one without does not.
_OF_HIDDEN = ("objective_", "rounds_", "start_objectives_", "unproven_completions_")
# A solver starts from the dual state of the previous fit, if that is wanted.
PREVIOUS: Any = object()


class Settings(NamedTuple):
    """Validated parameters of a fit."""

    tol: float
    max_iter: int
    n_threads: int
    callbacks: tuple
    rng: np.random.RandomState
    verbose: int


def _all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that is refused or fails leaves the model as it was: an old one stays whole."""

    @functools.wraps(fit)
    def whole_fit(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            dual_is_whole = vars(self).get("_dual") is before.get("_dual")
            vars(self).clear()
            vars(self).update(before)
            if not dual_is_whole:  # the solver has worked on it
                self._dual = None
            raise

    return whole_fit


class StructuredEstimator(BaseEstimator):
    """Base of the estimators; subclasses list the parameters in their constructor."""

    _switches: tuple[str, ...] = ("warm_start", "early_stopping", "fit_intercept")
    _solvers: tuple[str, ...] = SOLVERS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = _all_or_nothing(cls.fit)

    def _check_settings(self) -> Settings:
        """Refuse parameters that no fit could use, before looking at the data."""
        check_choice("surrogate", self.surrogate, SURROGATES)
        if not isinstance(self.solver, Solver):
            check_choice("solver", self.solver, self._solvers)
        for name in self._switches:
            check_switch(name, getattr(self, name))
        check_choice("order", self.order, ORDERS)
        if isinstance(self, KernelModel):
            self._check_kernel()
        if not isinstance(self.average, (bool, np.bool_)):
            check_number("average", self.average, at_least=0)
        if self.check_every is not None:
            check_integer("check_every", self.check_every, 1)
        self._check_solver_fits()
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
            max_iter=self._check_max_iter(),
            n_threads=check_n_jobs(self.n_jobs),
            callbacks=check_callbacks(self.callbacks),
            rng=check_random_state(self.random_state),
            verbose=check_integer("verbose", verbose, 0),
        )

    def _check_max_iter(self) -> int:
        return check_integer("max_iter", self.max_iter, 1)

    def _check_solver_fits(self) -> None:
        """Refuse solvers that the surrogate or the kernel is not made for."""
        if self.solver == "pairwise" and self.surrogate != "max-margin":
            raise ValueError(
                "solver='pairwise' needs a surrogate whose answers are single outputs: use "
                f"surrogate='max-margin' or solver='auto'; received surrogate={self.surrogate!r}."
            )
        if self.solver == "lbfgs" and self.surrogate != "crf":
            raise ValueError(
                "solver='lbfgs' needs a smooth surrogate: use surrogate='crf' or solver='bcfw'; "
                f"received surrogate={self.surrogate!r}."
            )
        kernel = getattr(self, "kernel", "linear")
        if self.solver == "lbfgs" and kernel != "linear":
            raise ValueError(
                "solver='lbfgs' needs weights of features: use kernel='linear' or solver='bcfw'; "
                f"received kernel={kernel!r}."
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
        stepper = self._stepper(problem, settings)
        callbacks = settings.callbacks
        recorder = vars(self).get("_recorder")  # see checkpoint.py
        if recorder is not None:
            recorder.attach(stepper)
            callbacks = (*callbacks, recorder.hear)
            stepper = recorder
        result = run(
            stepper,
            tol=settings.tol,
            max_iter=settings.max_iter,
            check_every=self.check_every,
            callbacks=callbacks,
            validate=validate,
            patience=self.n_iter_no_change,
            verbose=settings.verbose,
            name=type(self).__name__,
        )
        if recorder is not None:
            recorder.verify(result)
            result.history[:] = recorder.history
        self._keep_certificate(result, problem)
        if result.status == FAILED:
            # stacklevel: the caller of a fit that is all or nothing
            warn_failure(type(self).__name__, result.primal, result.dual, stacklevel=4)
        if result.status == MAX_ITER and settings.tol > 0:
            warnings.warn(
                f"{type(self).__name__} did not converge in {settings.max_iter} passes: relative "
                f"gap {result.gap / abs(result.primal):.2g} > tol={settings.tol:g} (primal "
                f"{result.primal:.6g}, dual {result.dual:.6g}). Increase max_iter or alpha, scale "
                "the features, or accept the gap with a larger tol.",
                ConvergenceWarning,
                stacklevel=4,  # the caller of a fit that is all or nothing
            )
        return result

    def _stepper(self, problem: Any, settings: Settings, *, dual_state: Any = PREVIOUS) -> Any:
        """The solver, ready to start: from a dual state, or afresh from None."""
        solver = self._solver_value(self._solver_name(problem), problem)
        missing = solver.missing(problem)
        if missing:
            raise ValueError(
                f"solver={solver!r} does not go with this {type(self).__name__}: it needs "
                f"{' and '.join(missing)}."
            )
        if dual_state is PREVIOUS:
            dual_state = self._dual_for(problem)
        return Climb(solver, problem, rng=settings.rng, start=dual_state)

    def _solver_value(self, name: str | Solver, problem: Any) -> Solver:
        """The solver of this name, with the parameters of this estimator."""
        if isinstance(name, Solver):
            return clone(name)
        average = self._wanted_average()
        is_switch = isinstance(average, (bool, np.bool_))
        keeps = bool(average) if is_switch else True
        if name == "subgradient":
            return Subgradient()
        if name == "lbfgs":
            return LBFGS()
        if name in ("flow", "accelerated"):
            inner: Solver = Flow(self.order)
            if name == "accelerated":
                # Where a block has an exact maximum, steps between outputs are worth nothing.
                pairwise = problem.has_outputs and not problem.has_exact_blocks
                inner = BlockFrankWolfe(self.order, steps="pairwise" if pairwise else "plain")
            solver = Accelerated(inner)
            power = 8.0 if is_switch else float(average)
            return Averaged(solver, power) if keeps else solver
        power = 3.0 if is_switch else float(average)
        return BlockFrankWolfe(
            self.order,
            steps="pairwise" if name == "pairwise" else "plain",
            step_average=power if keeps else None,
        )

    def _solver_name(self, problem: Any) -> str | Solver:
        """The solver that is meant by "auto"."""
        if self.solver != "auto":
            return self.solver
        if self.surrogate != "crf":
            return "accelerated"
        return crf_solver(problem.rows, int(block_sizes(problem.structure).sum()))

    def _wanted_average(self) -> bool | float:
        """``average``; with a kernel, True is no average: it keeps all examples that ever moved."""
        in_dual = getattr(self, "kernel_", None) is not None
        return False if in_dual and isinstance(self.average, (bool, np.bool_)) else self.average

    def _dual_for(self, problem: Any) -> Any:
        """The dual state of the previous fit, if it is wanted and feasible for this problem."""
        before = getattr(self, "_dual", None)
        self._dual: Any = None  # the solver works on it in place
        if not self.warm_start or before is None or before[0] != problem.signature():
            return None
        in_weights = isinstance(before[1], np.ndarray)  # which know nothing of other features
        if in_weights and before[1].shape != (problem.n_weights,):
            return None
        try:
            check_dual(before[1], problem)
        except ValueError as error:  # states in memory are right: it was read from a file
            raise ModelFileError(
                f"cannot start from the dual state of this {type(self).__name__}: {error}. It was "
                "read from a model file that is damaged or was changed; use warm_start=False"
            ) from None
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
        for name in _OF_HIDDEN:
            if hasattr(self, name):
                delattr(self, name)
        in_weights = isinstance(result.dual_state, np.ndarray)
        self.dual_nbytes_ = 0 if in_weights else getattr(result.dual_state, "nbytes", 0)
        self._dual = None
        if self.warm_start and result.dual_state is not None and problem.signature() is not None:
            self._dual = (problem.signature(), result.dual_state)


def warn_failure(name: str, primal: float, dual: float, stacklevel: int) -> None:
    """Warn of a fit whose numbers cannot be trusted beyond a point."""
    warnings.warn(
        f"{name} failed: numbers overflowed or contradicted each other. The weights are the best "
        f"ones before that (primal {primal:.6g}, dual {dual:.6g}). Scale the features, or increase "
        "alpha.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


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
