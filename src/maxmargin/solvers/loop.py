"""The loop around every solver: when to check, when to stop, what to keep.

A solver is a *stepper*: an object that moves a little when asked and can say where it is.

- ``advance(seconds, most)``: work for about that long, at most so many steps; the clock must not
  change what the steps do;
- ``check() -> list of (weights, Evaluation)``: true values of its candidate weights, the best
  dual value among them;
- ``estimate() -> float``: a cheap guess of the gap, to decide when a check is worth a pass;
- ``between_rounds``: whether it has finished what it had planned, so that a guess makes sense;
- ``refresh() -> bool``: rebuild the weights from the dual state, so that rounding does not add up;
  False if they are fresh;
- ``bounds() -> dict``: more certified values, by name;
- ``problem`` (which says what its dual values certify), ``oracle_calls``, ``dual_state``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._progress import ProgressReporter
from .interrupt import InterruptGuard
from .problem import GLOBAL, LOCAL, NOTHING
from .result import CONVERGED, EARLY_STOPPED, FAILED, INTERRUPTED, MAX_ITER, STOPPED, Check, Result

# Work between two looks at Ctrl-C and the progress bar.
_SLICE_SECONDS = 0.05
# A check costs about a pass. Without news from the solver, the next one comes when the passes
# done have grown by this factor.
_CHECK_GROWTH = 1.5
# A guess may be too good: a check that it asked for in vain is not repeated before this growth.
_GUESS_GROWTH = 1.05


# Primal and dual value are sums over all examples, rounded in different ways, so at the optimum the
# dual can come out above the primal. More than this share of the first primal value is no rounding.
_ROUNDING = 1e-6


def heard_by_all(callbacks: Sequence[Callable[[Check], Any]], check: Check) -> bool:
    """Call all callbacks, also when one of them wants to stop; returns whether to go on.

    A callback stops by returning False, or ``np.False_``: what a comparison of numpy numbers gives.
    """
    answers = [callback(check) for callback in callbacks]
    return not any(isinstance(answer, (bool, np.bool_)) and not answer for answer in answers)


class Best:
    """The best weights, dual value and validation score seen so far; where values at other weights
    cannot be compared, because nothing is certified, those of the last check."""

    def __init__(self, certifies: str = GLOBAL) -> None:
        self._local = certifies == LOCAL
        self._certified = certifies != NOTHING
        self.weights = np.empty(0)  # none yet
        self.primal = np.inf  # at these weights
        self.lowest_primal = np.inf  # at any weights seen; the same unless a validation chooses
        self.dual = -np.inf
        self.bracket = 0.0  # of inexact oracles, at these weights
        self.validation_score: float | None = None
        self.checks_without_progress = 0
        self.failed = False  # whether numbers overflowed, or contradict each other
        self._size: float | None = None  # of the objective where the run began

    def update(self, candidates, validate: Callable[[np.ndarray], float] | None) -> None:
        """Take in the candidates of a check; those that are not finite only count as a failure."""
        finite = [(weights, found) for weights, found in candidates if _is_finite(weights, found)]
        self.failed |= len(finite) < len(candidates)
        if not finite:
            if not len(self.weights):  # there is nothing else to return
                self.weights = candidates[0][0].copy()
            return
        weights, evaluation = min(finite, key=lambda candidate: candidate[1].primal)
        if not self._local:
            self.dual = max(self.dual, *(found.dual for _, found in finite))
        self.lowest_primal = min(self.lowest_primal, evaluation.primal)
        self._size = abs(evaluation.primal) if self._size is None else self._size
        if self._is_better(weights, evaluation.primal, validate):
            self.weights = weights.copy()
            self.primal = evaluation.primal
            if self._local:
                self.dual = evaluation.dual
            self.bracket = evaluation.oracle_error
        lowest = self.primal if self._local else self.lowest_primal
        self.failed |= self.dual - lowest > _ROUNDING * max(self._size, abs(lowest))

    def _is_better(self, weights, primal: float, validate: Callable | None) -> bool:
        if validate is None:
            return primal < self.primal or not (self._certified and np.isfinite(self.primal))
        score = validate(weights)
        higher = self.validation_score is None or score > self.validation_score
        self.checks_without_progress = 0 if higher else self.checks_without_progress + 1
        if higher:
            self.validation_score = score
        # Of weights with equal scores, those nearer to the optimum.
        return higher or (score == self.validation_score and primal < self.primal)

    def near(self, tol: float) -> bool:
        """Whether some weights seen are within the relative tolerance of the optimum."""
        return _within(self.primal if self._local else self.lowest_primal, self.dual, tol)

    def converged(self, tol: float) -> bool:
        """Whether the best weights are: with a validation they may be others than the nearest."""
        return _within(self.primal, self.dual, tol)

    def certificate(self) -> dict[str, Any]:
        """Values of the best weights, as they are reported.

        The dual is lowered to the primal where rounding has put it above: a lower bound stays one,
        and the gap is never negative.
        """
        dual = min(self.dual, self.primal)
        gap = self.primal - dual
        # Inexact oracles: the true primal value is not below the dual either.
        error = min(self.bracket, gap)
        values = {"primal": self.primal, "dual": dual, "gap": gap, "oracle_error": error}
        return {name: float(value) for name, value in values.items()}

    @property
    def incomplete(self) -> bool:
        """Whether a value is missing that the problem could have."""
        values = (self.primal, self.dual) if self._certified else (self.primal,)
        return not np.isfinite(values).all()


def _is_finite(weights: np.ndarray, found: Any) -> bool:
    """Whether nothing has overflowed; a dual of minus infinity is the absence of a bound."""
    numbers = (found.primal, found.oracle_error)
    return bool(np.isfinite(numbers).all() and found.dual < np.inf and np.isfinite(weights).all())


def _within(primal: float, dual: float, tol: float) -> bool:
    finite = np.isfinite(primal) and np.isfinite(dual)
    return bool(finite and primal - dual <= tol * abs(primal))


def run(
    stepper: Any,
    *,
    tol: float,
    max_iter: int,
    check_every: int | None = None,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 5,
    verbose: int = 0,
    name: str = "maxmargin",
) -> Result:
    """Run a stepper until its relative gap is at most ``tol``, and return the best it found.

    Parameters
    ----------
    stepper : object
        See the module's description.
    tol : float
        Stop when ``gap <= tol * primal``.
    max_iter : int
        Passes over the data at most.
    check_every : int, optional
        Passes between two checks; by default more and more (one with a validation), and whenever
        the guess of the gap says that the end may be reached.
    callbacks : sequence of callables
        Called with every :class:`Check`; one that returns False stops the run.
    validate : callable, optional
        Score of weights on held-out data; the best scored weights are kept, and the run stops
        after ``patience`` checks without a better score.
    """
    began = time.perf_counter()
    best = Best(stepper.problem.certifies)
    history: list[Check] = []
    n = stepper.problem.n_examples
    passes = stepper.oracle_calls / n  # of an earlier run, if there was one
    next_check, last_check = passes + 1.0, passes
    status = None

    def check() -> str | None:
        nonlocal next_check, last_check
        last_check = passes
        best.update(stepper.check(), validate)
        if best.near(tol) and stepper.refresh():  # once more, free of rounding errors
            best.update(stepper.check(), validate)
        record = Check(
            passes=passes,
            seconds=time.perf_counter() - began,
            oracle_calls=stepper.oracle_calls,
            validation_score=best.validation_score,
            **best.certificate(),
        )
        history.append(record)
        step = check_every or (1.0 if validate else np.floor((_CHECK_GROWTH - 1.0) * passes))
        next_check = passes + max(1.0, step)
        progress.update(record)
        goes_on = heard_by_all(callbacks, record)
        if best.failed:
            return FAILED
        if best.near(tol):
            return CONVERGED if best.converged(tol) else EARLY_STOPPED
        if not goes_on:
            return STOPPED
        if validate is not None and best.checks_without_progress >= patience:
            return EARLY_STOPPED
        return None

    with InterruptGuard() as guard, ProgressReporter(verbose, max_iter, name) as progress:
        try:
            status = check()
            while status is None:
                # Checks come after whole numbers of steps that do not depend on the clock.
                goal = math.ceil(min(next_check, max_iter) * n - 1e-6)
                stepper.advance(_SLICE_SECONDS, goal - stepper.oracle_calls)
                passes = stepper.oracle_calls / n
                at_end = stepper.oracle_calls >= max_iter * n
                progress.pulse(passes - np.floor(passes), passes)
                likely = (
                    check_every is None
                    and stepper.between_rounds
                    and passes >= max(last_check + 1.0, _GUESS_GROWTH * last_check)
                    and stepper.estimate() <= tol * abs(best.lowest_primal)
                )
                if guard.requested:
                    check()
                    status = INTERRUPTED
                elif at_end or likely or stepper.oracle_calls >= goal:
                    if at_end:
                        stepper.refresh()
                    status = check()
                    if status is None and at_end:
                        status = MAX_ITER
        except KeyboardInterrupt:
            if guard.requested:  # the second one: the user means it
                raise
            status = INTERRUPTED
        if not len(best.weights):  # interrupted before the first check was through
            best.update(stepper.check(), None)
    if best.failed or best.incomplete:
        status = FAILED
    return Result(
        weights=best.weights,
        **best.certificate(),
        passes=passes,
        oracle_calls=stepper.oracle_calls,
        seconds=time.perf_counter() - began,
        status=status,
        history=history,
        dual_state=stepper.dual_state,
        bounds=stepper.bounds(),
    )
