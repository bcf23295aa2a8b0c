"""The loop around every solver: when to check, when to stop, what to keep.

It runs a :class:`Stepper`: an object that takes steps and evaluates its current point; usually a
solver at work on a problem (:class:`~maxmargin.solvers.climb.Climb`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._compiling import clock
from .._progress import ProgressReporter
from .._validation import is_switch
from .interrupt import InterruptGuard
from .problem import GLOBAL, LOCAL, NOTHING
from .result import (
    CONVERGED,
    EARLY_STOPPED,
    FAILED,
    INTERRUPTED,
    MAX_ITER,
    STALLED,
    STOPPED,
    Check,
    Result,
)

# Work between two tests for Ctrl-C and updates of the progress bar.
_SLICE_SECONDS = 0.05
# A check costs about a pass. Unless the estimated gap requires an earlier one, the next check comes
# when the number of passes has grown by this factor.
_CHECK_GROWTH = 2.0
# An estimate may be too small: after a check that was made too early because of it, the next one
# comes after this growth.
_GUESS_GROWTH = 1.05
# Where checks are to be few: passes between two of them at least, and the growth of passes.
_SPARING_PASSES, _SPARING_GROWTH = 2.0, 4.0


# Primal and dual value are sums over all examples, rounded in different ways, so at the optimum the
# dual can be above the primal. More than this share of the first primal value is not rounding.
_ROUNDING = 1e-6
# Losses are differences of scores, so values have rounding errors of about this share of the first
# primal value. They matter where the objective has fallen below the second share of it: there even
# negative values were seen, and "converged" at any gap.
_LEAST_ERROR, _TINY = 4.0 * np.finfo(float).eps, 1e-10


def heard_by_all(callbacks: Sequence[Callable[[Check], Any]], check: Check) -> bool:
    """Call all callbacks, also if one of them stops the run; returns whether to continue.

    A callback stops the run by returning False, or ``np.False_``, the result of comparisons in
    NumPy.
    """
    answers = [callback(check) for callback in callbacks]
    return not any(is_switch(answer) and not answer for answer in answers)


class Seen(NamedTuple):
    """The best weights, dual value and validation score of the checks so far."""

    weights: np.ndarray = np.empty(0)  # none yet
    primal: float = np.inf  # at these weights
    lowest_primal: float = np.inf  # at any weights seen; the same unless a validation chooses
    dual: float = -np.inf
    bracket: float = 0.0  # of inexact oracles, at these weights
    size: float = np.nan  # of the objective where the run began
    validation_score: float | None = None
    checks_without_progress: int = 0


class Best:
    """Selects the best of the candidates of checks; where values at other weights cannot be
    compared, because nothing is certified, the best weights are those of the last check."""

    def __init__(self, certifies: str = GLOBAL) -> None:
        self._local = certifies == LOCAL
        self.certified = certifies != NOTHING
        self.seen = Seen()
        self.failed = False  # whether numbers overflowed, or contradict each other

    def update(self, candidates, validate: Callable[[np.ndarray], float] | None) -> None:
        """Compare with the candidates of a check; those that are not finite count as a failure."""
        finite = [(weights, found) for weights, found in candidates if _is_finite(weights, found)]
        self.failed |= len(finite) < len(candidates)
        if not finite:
            if candidates and not len(self.seen.weights):  # there is nothing else to return
                self.seen = self.seen._replace(weights=candidates[0][0].copy())
            return
        weights, found = min(finite, key=lambda candidate: candidate[1].primal)
        seen = self.seen._replace(lowest_primal=min(self.seen.lowest_primal, found.primal))
        if not self._local:
            seen = seen._replace(dual=max(seen.dual, *(found.dual for _, found in finite)))
        if np.isnan(seen.size):
            seen = seen._replace(size=abs(found.primal))
        score = None if validate is None else validate(weights)
        if self._is_better(found.primal, score):
            if seen.weights.shape == weights.shape:  # there may be no memory for one more copy
                np.copyto(seen.weights, weights)
            else:
                seen = seen._replace(weights=weights.copy())
            seen = seen._replace(
                primal=found.primal,
                bracket=found.oracle_error,
            )
            if self._local:
                seen = seen._replace(dual=found.dual)
        if score is not None:
            known = seen.validation_score
            higher = known is None or score > known
            stale = 0 if higher else seen.checks_without_progress + 1
            known = score if higher else known
            seen = seen._replace(validation_score=known, checks_without_progress=stale)
        self.seen = seen
        lowest = seen.primal if self._local else seen.lowest_primal
        self.failed |= seen.dual - lowest > _ROUNDING * max(seen.size, abs(lowest))

    def _is_better(self, primal: float, score: float | None) -> bool:
        seen = self.seen
        if score is None:
            return primal < seen.primal or not (self.certified and np.isfinite(seen.primal))
        if seen.validation_score is None or score > seen.validation_score:
            return True
        # Of weights with equal scores, those nearer to the optimum.
        return score == seen.validation_score and primal < seen.primal

    def near(self, tol: float) -> bool:
        """Whether some weights seen are within the relative tolerance of the optimum."""
        seen = self.seen
        lowest = seen.primal if self._local else seen.lowest_primal
        return _within(lowest, self._proven_dual(lowest), tol)

    def converged(self, tol: float) -> bool:
        """Whether the best weights are; with a validation these may differ from the nearest."""
        return _within(self.seen.primal, self._proven_dual(self.seen.primal), tol)

    def _proven_dual(self, primal: float) -> float:
        """The dual value beside a primal value that is not small, less their rounding errors beside
        one that is."""
        dual, size = self.seen.dual, self.seen.size
        if not abs(primal) < _TINY * size:
            return dual
        return min(dual, primal) - max(_LEAST_ERROR * size, dual - primal)

    def certificate(self) -> dict[str, Any]:
        """Values of the best weights, as they are reported.

        Where the dual is above the primal due to rounding, it is lowered to the primal: a lower
        bound stays one, and the gap is never negative.
        """
        primal = self.seen.primal
        dual = min(self._proven_dual(primal), primal)
        gap = primal - dual
        # Inexact oracles: the true primal value is not below the dual either.
        error = min(self.seen.bracket, gap)
        values = {"primal": primal, "dual": dual, "gap": gap, "oracle_error": error}
        return {name: float(value) for name, value in values.items()}

    @property
    def incomplete(self) -> bool:
        """Whether a value is missing that the problem could have."""
        values = self.seen.primal, self.seen.dual if self.certified else 0.0
        return not np.isfinite(values).all()


class Stepper:
    """Interface of what the loop runs, with defaults."""

    problem: Any
    oracle_calls: Any = 0
    dual_state: Any = None  # where a later fit can start
    stalled: Any = False  # whether further steps would change nothing
    between_rounds: Any = True  # whether a round is complete, so that the estimate is valid

    def advance(self, seconds: float, most: int) -> None:
        """Run for about ``seconds``, at most ``most`` steps; the clock must not change the result
        of the steps."""
        raise NotImplementedError

    def check(self) -> list:
        """Pairs of candidate weights and their true values, the best dual value among them."""
        raise NotImplementedError

    def estimate(self) -> float:
        """A cheap estimate of the gap, to decide when a check is worth a pass."""
        return np.inf

    def refresh(self) -> bool:
        """Rebuild the weights from the dual state, so that rounding errors do not accumulate; False
        if they are fresh."""
        return False

    def bounds(self) -> dict[str, float]:
        """More certified values, by name."""
        return {}

    def new_best(self) -> Best:
        """Storage for the best candidate of a run."""
        return Best(self.problem.certifies)


def _is_finite(weights: np.ndarray, found: Any) -> bool:
    """Whether nothing has overflowed; a dual of minus infinity is the absence of a bound."""
    numbers = (found.primal, found.oracle_error)
    if not (np.isfinite(numbers).all() and found.dual < np.inf):
        return False
    # Squares may overflow; otherwise their sum is a faster answer.
    return bool(np.isfinite(weights @ weights) or np.isfinite(weights).all())


def _within(primal: float, dual: float, tol: float) -> bool:
    finite = np.isfinite(primal) and np.isfinite(dual)
    return bool(finite and primal - dual <= tol * abs(primal))


def _passes_to_next(record: Check, tol: float, growth: float) -> float:
    """Passes until the next check, from the result of this one.

    They grow with those done, unless the end is nearer: a relative gap that began at 1 and
    decreases at a constant rate reaches the tolerance after ``passes * log(tol) / log(gap)``.
    """
    step = np.floor((growth - 1.0) * record.passes)
    relative = record.gap / abs(record.primal) if record.primal else np.inf
    if 0.0 < tol < relative < 1.0:
        missing = np.log(relative / tol) / -np.log(relative) * record.passes
        step = min(step, np.ceil(max(missing, (_GUESS_GROWTH - 1.0) * record.passes)))
    return max(1.0, step)


def run(
    stepper: Stepper | Any,
    *,
    tol: float,
    max_iter: int,
    check_every: int | None = None,
    first_check: float = 0.0,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 5,
    verbose: int = 0,
    name: str = "maxmargin",
) -> Result:
    """Run a stepper until its relative gap is at most ``tol``, and return the best it found.

    Parameters
    ----------
    stepper : Stepper
    tol : float
        Stop when ``gap <= tol * primal``.
    max_iter : int
        Largest number of passes over the data.
    check_every : int, optional
        Passes between two checks; by default an increasing number (one with a validation), and a
        check whenever the estimated gap is small enough to stop.
    first_check : float
        Passes before the first check. If there are any, later checks are fewer, too.
    callbacks : sequence of callables
        Called with every :class:`Check`; one that returns False stops the run.
    validate : callable, optional
        Score of weights on held-out data; the best scored weights are kept, and the run stops
        after ``patience`` checks without a better score.
    """
    began = clock()
    best = stepper.new_best()
    history: list[Check] = []
    n = stepper.problem.n_examples
    passes = stepper.oracle_calls / n  # of an earlier run, if there was one
    growth, apart = (_SPARING_GROWTH, _SPARING_PASSES) if first_check else (_CHECK_GROWTH, 1.0)
    next_check = passes + first_check
    last_check = next_check - apart
    status = None

    def check() -> str | None:
        nonlocal next_check, last_check
        last_check = passes
        best.update(stepper.check(), validate)
        if best.near(tol) and stepper.refresh():  # once more, free of rounding errors
            best.update(stepper.check(), validate)
        record = Check(
            passes=passes,
            seconds=clock() - began,
            oracle_calls=stepper.oracle_calls,
            validation_score=best.seen.validation_score,
            **best.certificate(),
        )
        history.append(record)
        step = 1.0 if validate else max(apart, _passes_to_next(record, tol, growth))
        next_check = passes + (check_every or step)
        progress.update(record)
        goes_on = heard_by_all(callbacks, record)
        if best.failed:
            return FAILED
        if best.near(tol):
            return CONVERGED if best.converged(tol) else EARLY_STOPPED
        if not goes_on:
            return STOPPED
        if validate is not None and best.seen.checks_without_progress >= patience:
            return EARLY_STOPPED
        return None

    reporter = ProgressReporter(verbose, max_iter, name, tol, stepper.problem.passes_per_round)
    with InterruptGuard() as guard, reporter as progress:
        try:
            status = None if first_check else check()
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
                    and passes >= max(last_check + apart, _GUESS_GROWTH * last_check)
                    and stepper.estimate() <= tol * abs(best.seen.lowest_primal)
                )
                if guard.requested:
                    if best.certified:  # the last steps may have found better weights
                        check()
                    status = INTERRUPTED
                elif at_end or likely or stepper.stalled or stepper.oracle_calls >= goal:
                    if at_end or likely or first_check:
                        stepper.refresh()  # a check at weights with rounding errors is repeated
                    status = check()
                    if status is None and (at_end or stepper.stalled):
                        status = STALLED if stepper.stalled else MAX_ITER
        except KeyboardInterrupt:
            if guard.requested:  # the second Ctrl-C
                raise
            status = INTERRUPTED
        if not len(best.seen.weights):  # interrupted before the end of the first check
            best.update(stepper.check(), None)
    if best.failed or best.incomplete:
        status = FAILED
    return Result(
        weights=best.seen.weights,
        **best.certificate(),
        passes=passes,
        oracle_calls=stepper.oracle_calls,
        seconds=clock() - began,
        status=status,
        history=history,
        dual_state=stepper.dual_state,
        bounds=stepper.bounds(),
    )
