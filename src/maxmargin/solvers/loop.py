"""The loop around every solver: when to check, when to stop, what to keep.

What it drives is a :class:`Stepper`: an object that moves a little when asked and can say where it
is; usually a solver at work on a problem (:class:`~maxmargin.solvers.climb.Climb`).
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
    """Takes in the candidates of checks; where values at other weights cannot be compared, because
    nothing is certified, the best weights are those of the last check."""

    def __init__(self, certifies: str = GLOBAL) -> None:
        self._local = certifies == LOCAL
        self.certified = certifies != NOTHING
        self.seen = Seen()
        self.failed = False  # whether numbers overflowed, or contradict each other
        self._spare = np.empty(0)  # weights that were the best before

    def update(self, candidates, validate: Callable[[np.ndarray], float] | None) -> None:
        """Take in the candidates of a check; those that are not finite only count as a failure."""
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
            seen = seen._replace(
                weights=_copied(weights, self._spare),
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
        replaced, self.seen = self.seen.weights, seen
        if seen.weights is not replaced:
            self._spare = replaced
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
        return _within(seen.primal if self._local else seen.lowest_primal, seen.dual, tol)

    def converged(self, tol: float) -> bool:
        """Whether the best weights are: with a validation they may be others than the nearest."""
        return _within(self.seen.primal, self.seen.dual, tol)

    def certificate(self) -> dict[str, Any]:
        """Values of the best weights, as they are reported.

        The dual is lowered to the primal where rounding has put it above: a lower bound stays one,
        and the gap is never negative.
        """
        primal, dual = self.seen.primal, min(self.seen.dual, self.seen.primal)
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
    """What the loop drives, with answers for those that have nothing to say."""

    problem: Any
    oracle_calls: Any = 0
    dual_state: Any = None  # where a later fit can start
    stalled: Any = False  # whether further steps would change nothing
    between_rounds: Any = True  # whether all that was planned is done, so that a guess makes sense

    def advance(self, seconds: float, most: int) -> None:
        """Work for about that long, at most so many steps; the clock must not change what the steps
        do."""
        raise NotImplementedError

    def check(self) -> list:
        """Pairs of candidate weights and their true values, the best dual value among them."""
        raise NotImplementedError

    def estimate(self) -> float:
        """A cheap guess of the gap, to decide when a check is worth a pass."""
        return np.inf

    def refresh(self) -> bool:
        """Rebuild the weights from the dual state, so that rounding does not add up; False if they
        are fresh."""
        return False

    def bounds(self) -> dict[str, float]:
        """More certified values, by name."""
        return {}

    def new_best(self) -> Best:
        """Where a run keeps the best that it has seen."""
        return Best(self.problem.certifies)


def _copied(weights: np.ndarray, spare: np.ndarray) -> np.ndarray:
    """A copy, in the spare array if that fits: fresh memory can take longer than the copy."""
    copy = spare if spare.shape == weights.shape else np.empty_like(weights)
    np.copyto(copy, weights)
    return copy


def _is_finite(weights: np.ndarray, found: Any) -> bool:
    """Whether nothing has overflowed; a dual of minus infinity is the absence of a bound."""
    numbers = (found.primal, found.oracle_error)
    return bool(np.isfinite(numbers).all() and found.dual < np.inf and np.isfinite(weights).all())


def _within(primal: float, dual: float, tol: float) -> bool:
    finite = np.isfinite(primal) and np.isfinite(dual)
    return bool(finite and primal - dual <= tol * abs(primal))


def _passes_to_next(record: Check, tol: float) -> float:
    """Passes until the next check, by what this one has found.

    They grow with those done, unless the end is nearer: a relative gap that began at 1 and shrinks
    at a constant rate reaches the tolerance after ``passes * log(tol) / log(gap)``.
    """
    step = np.floor((_CHECK_GROWTH - 1.0) * record.passes)
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
    began = clock()
    best = stepper.new_best()
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
            seconds=clock() - began,
            oracle_calls=stepper.oracle_calls,
            validation_score=best.seen.validation_score,
            **best.certificate(),
        )
        history.append(record)
        step = check_every or (1.0 if validate else _passes_to_next(record, tol))
        next_check = passes + step
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

    with InterruptGuard() as guard, ProgressReporter(verbose, max_iter, name, tol) as progress:
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
                    and stepper.estimate() <= tol * abs(best.seen.lowest_primal)
                )
                if guard.requested:
                    if best.certified:  # the last steps may have found better weights
                        check()
                    status = INTERRUPTED
                elif at_end or likely or stepper.stalled or stepper.oracle_calls >= goal:
                    if at_end:
                        stepper.refresh()
                    status = check()
                    if status is None and (at_end or stepper.stalled):
                        status = STALLED if stepper.stalled else MAX_ITER
        except KeyboardInterrupt:
            if guard.requested:  # the second one: the user means it
                raise
            status = INTERRUPTED
        if not len(best.seen.weights):  # interrupted before the first check was through
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
