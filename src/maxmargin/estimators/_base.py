"""What all estimators share: solver settings, training, certificate, warnings."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

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
    is_array,
    is_iterator,
    is_switch,
    is_text,
    outside,
)
from ..solvers.auto import for_threads, in_parts, refuse_missing
from ..solvers.base import check_inner
from ..solvers.climb import Climb
from ..solvers.loop import run
from ..solvers.outline import Outline
from ..solvers.result import CONVERGED, FAILED, MAX_ITER, STALLED, Result
from ..strengths import SHARE, Strength, usual_strength
from ..structures.traits import Traits
from ..surrogates.cost import RESTRICTED, SMOOTH
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin
from ..surrogates.quadratic import Quadratic
from ..surrogates.restricted import Restricted
from ..surrogates.smooth_max_min import SmoothMaxMin as SmoothCost
from ._moved import refuse_moved
from ._tasks_of_fit import CallbackSupportMixin, with_tasks
from ._warnings import warn_failure, warn_zero
from .values import EarlyStopping, SmoothMaxMin

SURROGATES = {
    "max-margin": MaxMargin, "max-min": MaxMin, "crf": Crf, SMOOTH: SmoothCost,
    "quadratic": Quadratic, RESTRICTED: Restricted,
}  # fmt: skip
# What a fit with hidden labels leaves, and one without does not.
_OF_HIDDEN = ("objective_", "rounds_", "start_objectives_", "unproven_completions_")
# A solver starts from the dual state of the previous fit, if that is wanted.
PREVIOUS: Any = object()
# What distributed/training.py keeps of shards that a model was fitted on.
_OF_SHARDS = ("shards_", "_known_shards", "_known_parts")

T = TypeVar("T")


def surrogate_name(surrogate: Any) -> Any:
    """The name of a surrogate that is given by name or as a value."""
    return SMOOTH if isinstance(surrogate, SmoothMaxMin) else surrogate


class Settings(NamedTuple):
    """Validated parameters of a fit."""

    tol: float
    max_iter: int
    n_threads: int
    callbacks: tuple
    rng: np.random.RandomState
    verbose: int


class Limits(NamedTuple):
    """Of a fit in a search for alpha."""

    passes: int  # that climb a dual
    first_check: float  # passes before it


class Packed(NamedTuple):
    """A problem, how it is solved, and what is done with its weights."""

    problem: Any
    settings: Settings
    keep: Callable[[np.ndarray], Any]
    auto: float  # what alpha="auto" means


def _all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that is refused or fails leaves the model as it was: an old one stays whole."""

    @functools.wraps(fit)
    def whole_fit(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            found = fit(self, *args, **kwargs)
        except BaseException:
            dual_is_whole = vars(self).get("_dual") is before.get("_dual")
            vars(self).clear()
            vars(self).update(before)
            if not dual_is_whole:  # the solver has worked on it
                self._dual = None
            raise
        if vars(self).get("_hand_over") is None:  # not a fit of shards
            for name in _OF_SHARDS:
                vars(self).pop(name, None)
        return found

    return whole_fit


def _with_strength(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that chooses alpha first, by cross-validation if that is asked for."""
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def tuned_fit(self, *args, **kwargs):
        if self._strength is not None:  # called by the fit of a subclass
            return fit(self, *args, **kwargs)
        found = self._choose_strength(signature.bind(self, *args, **kwargs).arguments)
        fit(self, *args, **kwargs)
        vars(self).update(found)
        self._strength = None
        return self

    return tuned_fit


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(cls: type[T]) -> type[T]:
    """Class decorator: annotated attributes are the parameters of the constructor, as in a
    dataclass, beside those of the base classes."""
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__init__ = _without_moved(made.__init__)  # type: ignore[method-assign]
    return made


def _without_moved(init: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor that shows the new spelling of parameters that moved into values."""

    own = inspect.signature(init).parameters  # subclasses may have parameters of these names

    @functools.wraps(init)
    def checked(self, *args, **kwargs):
        refuse_moved(TypeError, type(self).__name__, own, kwargs)
        init(self, *args, **kwargs)

    return checked


class Missing:
    """A method that other estimators have: the error of its absence says what to call instead."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        remedy = "it has no likelihood; decision_function or decode give scores"
        if hasattr(owner, "predict_marginals"):
            remedy = "write predict_marginals, with surrogate='crf' if probabilities are wanted"
        raise AttributeError(f"{owner.__name__} has no {self._name}: {remedy}.")


@with_parameters
class StructuredEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of the estimators, with the parameters that all have."""

    surrogate: Any = field(default="max-margin", kw_only=False)
    alpha: Any = "auto"
    tol: float = 1e-2
    max_iter: int = 1000
    solver: Any = "auto"
    warm_start: bool = False
    early_stopping: Any = False
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    callbacks: Any = None

    _surrogates: ClassVar[tuple[str, ...]] = ("max-margin", "max-min", "crf")
    _switches: ClassVar[tuple[str, ...]] = ("warm_start", "fit_intercept")
    # What "auto" means for partitions, where it would differ from one to another.
    _of_partitions: ClassVar[dict[str, Any]] = {}
    _traits: ClassVar[Traits | None]  # of the structure; None if they depend on the data
    _share: ClassVar[float] = SHARE  # of the squared norm of the features in alpha="auto"
    # The dual state of the last fit, and what it belongs to.
    _dual: Any = field(default=None, init=False)
    _recorder: Any = field(default=None, init=False)  # see checkpoint.py
    _tasks: Any = field(default=None, init=False)  # of the fit at work: _tasks_of_fit.py
    # See distributed/: where partitions work, how many they are, and a problem in the place of one.
    _engine: Any = field(default=None, init=False)
    _n_partitions: Any = field(default=None, init=False)
    _hand_over: Any = field(default=None, init=False)
    _mean_length: Any = field(default=None, init=False)  # of the examples of all partitions
    _strength: Any = field(default=None, init=False)  # what alpha means in the fit at work
    _keeps_packed: bool = field(default=False, init=False)  # whether the packed data are kept
    _packed: Any = field(default=None, init=False)
    _limits: Any = field(default=None, init=False)  # of a fit in a search for alpha: see paths.py
    _auto_alpha: float = field(default=0.0, init=False)  # what alpha="auto" means in the last fit

    predict_proba = Missing()
    predict_log_proba = Missing()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = _all_or_nothing(with_tasks(_with_strength(cls.fit)))
        if "__init__" in vars(cls):
            cls.__init__ = _without_moved(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Any:
        """Set parameters, those of the solver by ``solver__name``, of the kernel likewise."""
        present = self.get_params(deep=False)
        refuse_moved(ValueError, type(self).__name__, present, params)
        for name in params.keys() - present.keys():
            outer, _, own = name.partition("__")
            value = params.get(outer, present.get(outer))
            if own and (is_text(value) or is_switch(value)):
                raise ValueError(
                    f"{name} cannot be set, because {outer}={value!r} has no parameters; set "
                    f"{outer} to a value that has {own} first."
                )
        return super().set_params(**params)

    def _choose_strength(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Choose alpha, by cross-validation if that is asked for; what was found, as attributes."""
        self._strength = Strength.of(self.alpha)
        self.__dict__.pop("cv_results_", None)
        if not self._strength.needs_path:
            return {}
        self._check_settings()
        _, X, y, *_ = arguments.values()
        if is_iterator(X):
            raise ValueError(
                f"alpha={self.alpha!r} reads X many times, but X is an iterator; pass a list."
            )
        given = {name: value for name, value in arguments.items() if value is not None}
        path = self._strength.walk(self, X, y, dict(list(given.items())[3:]))
        self._strength = Strength.of(path.best_strength)
        return {"cv_results_": path.as_results()}

    def _check_settings(self) -> Settings:
        """Refuse parameters that no fit could use, before looking at the data."""
        check_choice("surrogate", surrogate_name(self.surrogate), self._surrogates)
        if surrogate_name(self.surrogate) == SMOOTH:
            SmoothMaxMin.of(self.surrogate).validate()
        check_inner(self.solver)
        given = self.get_params(deep=False)
        for name in self._switches:
            check_switch(name, given[name])
        self._check_kernel()
        if self._traits is not None:
            self._check_solver(self._traits)
        Strength.of(self.alpha).validate()
        EarlyStopping.of(self.early_stopping).validate()
        verbose = int(self.verbose) if is_switch(self.verbose) else self.verbose
        return Settings(
            tol=check_number("tol", self.tol, at_least=0),
            max_iter=self._check_max_iter(),
            n_threads=check_n_jobs(self.n_jobs),
            callbacks=(*check_callbacks(self.callbacks), *([self._tasks] if self._tasks else [])),
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
        name = surrogate_name(self.surrogate)
        if name == SMOOTH:
            return SmoothCost(float(SmoothMaxMin.of(self.surrogate).strength))
        return SURROGATES[name]()

    @property
    def _is_smooth_max_min(self) -> bool:
        return surrogate_name(self.surrogate) == SMOOTH

    def _check_kernel(self) -> None:
        """Refuse parameters of a kernel that no fit could use; most estimators have none."""

    def _check_solver(self, traits: Traits) -> None:
        """Refuse a solver that does not go with the surrogate, the structure or the kernel."""
        outline = Outline(self._surrogate, traits, self._in_kernel_space)
        refuse_missing(self.solver, outline, type(self).__name__)

    def _alpha_for(
        self,
        weights: np.ndarray,
        squares: np.ndarray | None,
        positions: Any = 1.0,
        indptr: np.ndarray | None = None,
        factor: float = 1.0,
    ) -> float:
        """``alpha``, where "auto" depends on the size of the features: see ``strengths.py``.

        Parameters
        ----------
        weights : array
            Weights of the examples.
        squares : array or None
            Squared norms of the rows of features; None means C = 1 for the loss summed over
            positions.
        positions : float or array
            Number of positions over which the loss of an example is a mean.
        indptr : array, optional
            Which rows an example has, if it has several.
        factor : float
            Factor of what "auto" means.
        """
        likelihood = self._surrogate.cost.likelihood
        if squares is None:
            per_example = np.broadcast_to(1.0 if likelihood else positions, weights.shape)
            usual = float(np.average(per_example, weights=weights))
        else:
            usual = usual_strength(squares, indptr, positions, weights, likelihood, self._share)
        self._auto_alpha = factor * float(usual / weights.sum())
        return self._strength.alpha_for(self._auto_alpha)

    def _split(self, used: np.ndarray, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Training and held-out examples among those that are used."""
        n = len(used)
        if not self.early_stopping:
            return used, used[:0]
        held_out = max(1, round(EarlyStopping.of(self.early_stopping).validation_fraction * n))
        if held_out >= n:
            raise ValueError(
                f"early_stopping=True needs examples to hold out, but of {n} none would be left "
                "for training; use more data or early_stopping=False."
            )
        order = rng.permutation(n)
        return used[np.sort(order[held_out:])], used[np.sort(order[:held_out])]

    def _check_width(self, width: int, noun: str = "features") -> None:
        """Refuse data with another number of features than those of ``fit``."""
        expected = vars(self)["n_features_in_"]
        if width != expected:
            raise ValueError(
                f"X has {width} {noun}, but {type(self).__name__} was fitted with {expected}."
            )

    def _solve_and_keep(
        self,
        problem: Any,
        settings: Settings,
        keep: Callable[[np.ndarray], Any],
        score: Callable[[], float] | None = None,
        hidden: Callable[[Any], Result] | None = None,
    ) -> None:
        """Solve a problem, and keep its weights.

        Parameters
        ----------
        keep : callable
            Called with weights: they are those of the model from then on.
        score : callable, optional
            Score of the model on held-out examples, which chooses the weights.
        hidden : callable, optional
            Solves the problem instead where labels are hidden; called with the validation.
        """

        def validate(weights: np.ndarray) -> float:
            assert score is not None
            keep(weights)
            return score()

        held_out = None if score is None else validate
        if hidden is not None:
            keep(hidden(held_out).weights)
            return
        limited = settings
        if self._limits is not None and not problem.cost.smooth:  # L-BFGS needs many
            limited = settings._replace(max_iter=min(self._limits.passes, settings.max_iter))
        keep(self._solve(problem, limited, held_out).weights)
        if self._keeps_packed and self._packed is None:
            self._packed = Packed(problem, settings, keep, self._auto_alpha)

    def _fit_again(self, strength: Any) -> bool:
        """Fit the data of the last fit with another alpha, if they were kept: see paths.py."""
        if self._packed is None:
            return False
        problem, settings, keep, auto = self._packed
        alpha = Strength.of(strength).alpha_for(auto)
        self._solve_and_keep(problem.with_strength(alpha * problem.total_weight), settings, keep)
        return True

    def _solve(
        self,
        problem: Any,
        settings: Settings,
        validate: Callable[[np.ndarray], float] | None = None,
    ) -> Result:
        """Train, and keep the certificate."""
        if self._hand_over is not None:
            problem = self._hand_over(problem)
        stepper = self._stepper(problem, settings)
        result = self._run(stepper, settings, validate)
        self._keep_certificate(result, stepper.problem)
        if result.status == FAILED:
            warn_failure(type(self).__name__, result.primal, result.dual)
        if result.status == CONVERGED and problem.cost.linear and not result.weights.any():
            warn_zero(type(self).__name__)
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
                stacklevel=outside(),
            )
        return result

    def _run(self, stepper: Any, settings: Settings, validate: Any) -> Result:
        """Run a solver to the end, or on from a checkpoint."""
        options, recorder = self._run_options(settings, validate), self._recorder
        if self._limits is not None:
            options["first_check"] = self._limits.first_check
        if recorder is None:
            return run(stepper, **options)
        recorder.attach(stepper)
        result = run(recorder, **options | {"callbacks": (*settings.callbacks, recorder.hear)})
        recorder.verify(result)
        result.history[:] = recorder.history
        return result

    def _run_options(self, settings: Settings, validate: Any) -> dict[str, Any]:
        """How a fit is run, in one convex problem or in rounds of them."""
        return {
            "tol": settings.tol,
            "max_iter": settings.max_iter,
            "check_every": None if is_text(self.solver) else self.solver.check_every,
            "callbacks": settings.callbacks,
            "validate": validate,
            "patience": EarlyStopping.of(self.early_stopping).n_iter_no_change,
            "verbose": settings.verbose,
            "name": self._title,
        }

    @property
    def _title(self) -> str:
        """What the progress is called."""
        name = type(self).__name__
        if self._engine is None:
            return name
        return f"{name} ({self._n_partitions} partitions, {self._engine.n_workers} workers)"

    def _needs_all_data(self) -> list[str]:
        """Parameters that partitions of data, each on its own, would turn into different models,
        and what to do."""
        return []

    def _stepper(self, problem: Any, settings: Settings, *, dual_state: Any = PREVIOUS) -> Climb:
        """The solver, ready to start: from a dual state, or afresh from None."""
        problem.tolerance = settings.tol
        problem.from_scratch = not (self.warm_start or self.early_stopping)
        problem.engine = self._engine
        solver = refuse_missing(self._given_solver(problem), problem, type(self).__name__)
        problem = solver.adapted(problem)
        problem.keeps_dual = problem.engine is None or bool(self.warm_start)
        if dual_state is PREVIOUS:
            dual_state = self._dual_for(problem)
        return Climb(solver, problem, rng=settings.rng, start=dual_state)

    def _given_solver(self, problem: Any) -> Any:
        """The solver as it was given, in parts where an engine or ``n_jobs`` asks for them."""
        if self._n_partitions is not None:
            return in_parts(self.solver, self._n_partitions)
        return self.solver if self.n_jobs is None else for_threads(self.solver, problem)

    def _dual_for(self, problem: Any) -> Any:
        """The dual state of the previous fit, if it is wanted and feasible for this problem."""
        before = self._dual
        self._dual = None  # the solver works on it in place
        if not self.warm_start or before is None or before[0] != problem.signature():
            return None
        in_weights = is_array(before[1])  # which know nothing of other features
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
        in_weights = is_array(result.dual_state)
        self.dual_nbytes_ = 0 if in_weights else getattr(result.dual_state, "nbytes", 0)
        self._dual = None
        if self.warm_start and result.dual_state is not None and problem.signature() is not None:
            self._dual = (problem.signature(), result.dual_state)
