"""What all front doors share: solver settings, training, certificate, warnings."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._codec import ModelFileError
from .._dual_checks import check_dual
from .._validation import (
    check_callbacks,
    check_choice,
    check_integer,
    check_n_jobs,
    check_number,
    check_switch,
    is_name,
)
from ..solvers.auto import refuse_missing
from ..solvers.base import check_inner
from ..solvers.climb import Climb
from ..solvers.loop import run
from ..solvers.moved import refuse_moved
from ..solvers.problem import Outline
from ..solvers.result import FAILED, MAX_ITER, STALLED, Result
from ..structures.traits import Traits
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin

SURROGATES = {"max-margin": MaxMargin, "max-min": MaxMin, "crf": Crf}
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


def _without_moved(init: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor that shows the new spelling of parameters that moved into solvers."""

    own = inspect.signature(init).parameters  # subclasses may have parameters of these names

    @functools.wraps(init)
    def checked(self, *args, **kwargs):
        others = {name: value for name, value in kwargs.items() if name not in own}
        refuse_moved(TypeError, type(self).__name__, others, kwargs)
        init(self, *args, **kwargs)

    return checked


class StructuredEstimator(BaseEstimator):
    """Base of the estimators; subclasses list the parameters in their constructor."""

    _switches: tuple[str, ...] = ("warm_start", "early_stopping", "fit_intercept")
    _traits: Traits | None  # of the structure; None if they depend on the data

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = _all_or_nothing(cls.fit)
        if "__init__" in vars(cls):
            cls.__init__ = _without_moved(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Any:
        """Set parameters, those of the solver by ``solver__name``."""
        present = self.get_params(deep=False)
        others = {name: value for name, value in params.items() if name not in present}
        refuse_moved(ValueError, type(self).__name__, others, {**present, **params})
        return super().set_params(**params)

    def _check_settings(self) -> Settings:
        """Refuse parameters that no fit could use, before looking at the data."""
        check_choice("surrogate", self.surrogate, SURROGATES)
        check_inner(self.solver)
        for name in self._switches:
            check_switch(name, getattr(self, name))
        self._check_kernel()
        if self._traits is not None:
            self._check_solver(self._traits)
        if not is_name(self.alpha, "auto"):
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

    @property
    def _in_kernel_space(self) -> bool:
        """Whether weights are coefficients of training rows."""
        return False

    @property
    def _surrogate(self) -> Any:
        """The surrogate."""
        return SURROGATES[self.surrogate]()

    def _check_kernel(self) -> None:
        """Refuse parameters of a kernel that no fit could use; most estimators have none."""

    def _check_solver(self, traits: Traits) -> None:
        """Refuse a solver that does not go with the surrogate, the structure or the kernel."""
        outline = Outline(self._surrogate, traits, self._in_kernel_space)
        refuse_missing(self.solver, outline, type(self).__name__)

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
        stepper: Any = self._stepper(problem, settings)
        problem = stepper.problem
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
            check_every=self._check_every,
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
        if result.status in (MAX_ITER, STALLED) and settings.tol > 0:
            at_limit = result.status == MAX_ITER
            why = f"in {settings.max_iter} passes" if at_limit else "because of rounding errors"
            more = "max_iter or " if at_limit else ""
            warnings.warn(
                f"{type(self).__name__} did not converge {why}: relative "
                f"gap {result.gap / abs(result.primal):.2g} > tol={settings.tol:g} (primal "
                f"{result.primal:.6g}, dual {result.dual:.6g}). Increase {more}alpha, scale "
                "the features, or accept the gap with a larger tol.",
                ConvergenceWarning,
                stacklevel=4,  # the caller of a fit that is all or nothing
            )
        return result

    def _stepper(self, problem: Any, settings: Settings, *, dual_state: Any = PREVIOUS) -> Climb:
        """The solver, ready to start: from a dual state, or afresh from None."""
        problem.tolerance = settings.tol
        problem.from_scratch = not (self.warm_start or self.early_stopping)
        solver = refuse_missing(self.solver, problem, type(self).__name__)
        problem = solver.adapted(problem)
        if dual_state is PREVIOUS:
            dual_state = self._dual_for(problem)
        return Climb(solver, problem, rng=settings.rng, start=dual_state)

    @property
    def _check_every(self) -> int | None:
        """Passes between two checks, if the solver says so."""
        return None if isinstance(self.solver, str) else self.solver.check_every

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
        self.bounds_ = dict(result.bounds)
        for name in _OF_HIDDEN:
            self.__dict__.pop(name, None)
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
