"""Hidden parts of outputs: the concave-convex procedure (CCCP) around convex solvers.

With the observed y and the hidden h, training minimises an objective that is not convex,

    L(w) = min_c U_c(w),

where U_c, with the hidden parts completed by c, is a convex training problem. For max-margin with
hidden labels, for example,

    L(w) = alpha/2 |w|^2
           + (1/W) sum_i s_i [ max { H_i + score(x_i, .) } - max_h score(x_i, y_i, h) ].

A round completes the hidden parts at the current weights, and solves U_c from the dual state of
the round before: the set of feasible dual points does not depend on the completion. Weights are
accepted only if U_c decreases, so L never increases, for any accuracy of the solver and of the
completions.

The certificate is that of the last convex problem: ``primal - dual = gap`` bounds the distance to
the minimum of U_c. It is not a bound on L, which may have lower values elsewhere: when the
completions do not change any more, the weights are a stationary point of L, up to the gap.

References
----------
Yu, Joachims. Learning structural SVMs with latent variables. ICML 2009.
Yuille, Rangarajan. The concave-convex procedure. Neural Computation 15, 2003.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._progress import ProgressReporter
from .interrupt import InterruptGuard
from .loop import heard_by_all, run
from .result import (
    EARLY_STOPPED,
    FAILED,
    INTERRUPTED,
    MAX_ITER,
    STATIONARY,
    STOPPED,
    Check,
    Result,
    Round,
)

# Relative gaps of the convex problems: the first one, and how they shrink from round to round.
_FIRST_TOL = 0.1
_SHRINK = 1.0 / 3.0
# By default, a round that lowers the objective by less than this share of ``tol`` is the last one.
_SMALL_FALL = 0.1


class HiddenParts:
    """How the hidden parts of a problem are completed. A completion is any object; the rounds do
    not depend on its type.

    Parameters
    ----------
    problem : object
        The training problem, see :mod:`~maxmargin.solvers.problem`.
    make_stepper : callable
        A solver at work (see :mod:`~maxmargin.solvers.climb`) on a problem, from a dual state of
        the same problem with another completion, or afresh from None.
    """

    def __init__(self, problem: Any, make_stepper: Callable[[Any, Any], Any]):
        self.problem = problem
        self._make_stepper = make_stepper

    def complete(self, weights: np.ndarray, before: Any) -> Any:
        """The best completion at some weights.

        ``before`` is the current one: where the search is not exact, an example should keep its old
        completion unless the new one has a higher score. Return ``before`` itself if nothing has
        changed.
        """
        raise NotImplementedError

    def truth_scores(self, weights: np.ndarray, completion: Any) -> np.ndarray:
        """``score(x_i, y_i, c_i)`` of all examples at some weights."""
        raise NotImplementedError

    def value(self, weights: np.ndarray, after: Any, before: Any, primal: float) -> float:
        """``U_after(w)``, given that ``U_before(w) = primal``."""
        rise = self.truth_scores(weights, after) - self.truth_scores(weights, before)
        return primal - float(rise @ self.problem.sample_weight) / self.problem.total_weight

    def stepper(self, completion: Any, dual_state: Any) -> Any:
        """A solver of the convex problem, from a dual state."""
        return self._make_stepper(self.problem.with_truth(completion), dual_state)


class _Run:
    """What all rounds and starts share: limits, clock, callbacks."""

    def __init__(
        self, tol: float, least_fall: float, max_iter: int, check_every: int | None,
        callbacks: Sequence[Callable], each_round: bool, progress: tuple[int, int, str],
        recorder: Any = None,
    ):  # fmt: skip
        self.tol = tol
        self.least_fall = least_fall
        self.max_iter = max_iter
        self.check_every = check_every
        self.each_round = each_round
        self._callbacks = callbacks
        self._verbose, max_rounds, self._name = progress
        self.progress = ProgressReporter(self._verbose * each_round, max_rounds, self._name)
        self.recorder = recorder
        self.began = time.perf_counter()
        self.passes = 0.0  # of solvers that have ended
        self.oracle_calls = 0
        self.history: list[Check] = []

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def tell(self, check: Check, callbacks: Sequence[Callable] | None = None) -> bool:
        """Record a check; returns whether to continue."""
        self.history.append(check)
        self.progress.update(check)
        return heard_by_all(self._callbacks if callbacks is None else callbacks, check)

    def known(self) -> Result | None:
        """Result of a convex solver before an interruption of the fit."""
        solved = None if self.recorder is None else self.recorder.next_solved()
        if solved is None:
            return None
        self.history += solved.checks
        self.began = time.perf_counter() - solved.seconds
        values = solved._asdict()
        del values["checks"], values["rng"]
        return Result(**values)

    def solve(self, stepper: Any, tol: float) -> Result:
        """Run a convex solver; its checks are counted from the start of the fit."""
        recorder, first = self.recorder, len(self.history)

        def shifted(check: Check) -> Check:
            return check._replace(
                passes=0.0 if self.each_round else self.passes + check.passes,
                oracle_calls=self.oracle_calls + check.oracle_calls,
            )

        def hear(check: Check) -> bool:
            check = check._replace(seconds=self.seconds())
            if recorder is not None and not recorder.take(check):
                return True
            return bool(self.each_round and self.history) or self.tell(shifted(check))

        if recorder is not None:
            recorder.attach(stepper)
            stepper = recorder
            if recorder.replaying:
                self.began = time.perf_counter() - recorder.before
                most = (0 if first else 1) if self.each_round else None
                self.history += map(shifted, recorder.history[:most])
        found = run(
            stepper,
            tol=tol,
            max_iter=self.max_iter,
            check_every=self.check_every,
            callbacks=(hear,),
            verbose=0 if self.each_round else self._verbose,
            name=self._name,
        )
        if recorder is not None:
            recorder.verify(found)
            recorder.keep_solved(found, self.history[first:], self.seconds())
        return found

    def retire(self, calls: int, n_examples: int) -> None:
        """Count the passes of a solver that has ended."""
        self.passes += calls / n_examples
        self.oracle_calls += calls


class _Descent:
    """The rounds from one start."""

    def __init__(self, model: HiddenParts, common: _Run, completion: Any, dual_state: Any):
        self.model = model
        self.common = common
        self.completion = completion
        self.dual_state = dual_state
        self.weights = np.empty(0)  # none yet
        self.objective = np.inf
        self.rounds: list[Round] = []
        self.convex: Result | None = None  # the last problem, at the weights that were kept
        self._stepper: Any = None
        self._calls = 0  # of oracles, by the solver of the current completion
        self._tol = max(common.tol, _FIRST_TOL)

    def round(self) -> str | None:
        """One round; returns the status if it was the last one."""
        common, tol = self.common, self._tol
        found = common.known()
        if found is None:
            if self._stepper is None:
                self._stepper = self.model.stepper(self.completion, self.dual_state)
            found = common.solve(self._stepper, tol)
        self.dual_state, self._calls = found.dual_state, found.oracle_calls
        ended = found.status if found.status in (FAILED, INTERRUPTED, STOPPED, MAX_ITER) else None
        accepted, changed, fall = not found.primal > self.objective, False, np.inf
        with InterruptGuard() as guard:
            if accepted:
                changed, fall = self._accept(found)
            elif ended is None and tol <= common.tol:
                self._keep(found)
                ended = STATIONARY
            stopped = common.each_round and not self._tell(ended == INTERRUPTED)
        if ended is not None or guard.requested or stopped:
            return ended or (INTERRUPTED if guard.requested else STOPPED)
        small = accepted and (not changed or fall <= common.least_fall * abs(self.objective))
        if small and tol <= common.tol:
            return STATIONARY
        self._tol = common.tol if small else max(common.tol, _SHRINK * tol)
        if changed:
            self.retire()
        return None

    def _accept(self, found: Result) -> tuple[bool, float]:
        """Accept the weights, and complete at them; returns whether the completion has changed, and
        the decrease of the objective."""
        before = self.objective
        self.weights, self.convex = found.weights, found
        changed, self.objective = self._complete(found.primal)
        passes = self.common.passes + self._calls / self.model.problem.n_examples
        values = (found.primal, found.dual, found.gap)
        self.rounds.append(Round(self.objective, *values, changed, passes, self.common.seconds()))
        return changed, before - self.objective

    def _keep(self, found: Result) -> None:
        """Keep the weights: they have U_c = L at the current completion, and its dual bounds it."""
        assert self.convex is not None
        dual = min(found.dual, self.objective)  # equal up to rounding where it is above
        gap = self.objective - dual
        self.convex = dataclasses.replace(
            self.convex, primal=self.objective, dual=dual, gap=gap,
            oracle_error=min(found.oracle_error, gap), bounds=found.bounds,
        )  # fmt: skip

    def _complete(self, primal: float) -> tuple[bool, float]:
        """Complete at the weights; returns whether anything has changed, and the objective."""
        after = self.model.complete(self.weights, self.completion)
        if after is self.completion:
            return False, primal
        value = self.model.value(self.weights, after, self.completion, primal)
        if not value < primal:  # equal up to rounding, or an inexact completion
            return False, primal
        self.completion = after
        return True, value

    def _tell(self, interrupted: bool) -> bool:
        """Record the round; returns whether to continue."""
        assert self.convex is not None
        common, convex = self.common, self.convex
        values = (self.objective, convex.dual, convex.gap, convex.oracle_error)
        calls = common.oracle_calls + self._calls
        check = Check(float(len(common.history)), common.seconds(), *values, calls)
        return common.tell(check, () if interrupted else None)

    def retire(self) -> None:
        """End the solver of this completion."""
        self.common.retire(self._calls, self.model.problem.n_examples)
        self._stepper, self._calls = None, 0

    def result(self) -> Result:
        """The weights kept, with the certificate of the last convex problem."""
        assert self.convex is not None  # the first round always has a result
        return dataclasses.replace(self.convex, objective=self.objective)


def run_rounds(
    model: HiddenParts,
    starts: Iterable[Any],
    *,
    tol: float,
    max_iter: int,
    max_rounds: int = 100,
    least_fall: float | None = None,
    check_every: int | None = None,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    each_round: bool = False,
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 5,
    verbose: int = 0,
    name: str = "maxmargin",
    dual_state: Any = None,
    recorder: Any = None,
) -> Result:
    """Minimise L from some completions, and return the best that was found.

    Parameters
    ----------
    model : HiddenParts
    starts : iterable of completions
        Each is a separate start; the result is that with the lowest objective (the best validation
        score, if there is one).
    tol : float
        Relative gap to which the last convex problem is solved; the first ones are solved less
        accurately.
    max_iter : int
        Largest number of passes over the data per round.
    max_rounds : int
        Largest number of rounds per start.
    least_fall : float, optional
        A start ends when the completions do not change any more, or when a round lowers the
        objective by at most this share of it; ``tol / 10`` by default.
    each_round : bool
        Whether history and callbacks are about rounds (passes are rounds, the primal value is the
        objective, and the history is that of the best start) rather than about all checks of
        the convex problems (passes and seconds are those of the whole fit).
    validate : callable, optional
        Score of weights on held-out data, computed after every round; the best scored weights are
        kept, and a start ends after ``patience`` rounds without a better score.
    dual_state : optional
        Where the first round of every start begins.
    recorder : Recorder, optional
        Records the rounds and the state of the current solver, see :mod:`maxmargin.checkpoint`.
    check_every, callbacks, verbose, name
        As in :func:`maxmargin.solvers.loop.run`.

    Returns
    -------
    Result
        With ``status`` "stationary" on success: there is no certificate of a global minimum.
    """
    fall = _SMALL_FALL * tol if least_fall is None else least_fall
    progress = (verbose, max_rounds, name)
    common = _Run(tol, fall, max_iter, check_every, callbacks, each_round, progress, recorder)
    best: Result | None = None
    best_rank = -np.inf
    objectives = []
    with common.progress:
        for start in starts:
            if each_round:
                common.history = []
            # Solvers work on a dual state in place: every start has its own.
            descent = _Descent(model, common, start, copy.deepcopy(dual_state))
            found, score = _descend(descent, max_rounds, validate, patience)
            found.history = common.history
            assert found.objective is not None
            objectives.append(found.objective)
            rank = -found.objective if validate is None else score
            if best is None or rank > best_rank:
                best, best_rank = found, rank
                if recorder is not None:
                    recorder.keep_dual(found.dual_state)
            if found.status in (FAILED, INTERRUPTED, STOPPED):
                best.status = found.status
                break
    if best is None:
        raise ValueError("starts is empty; expected at least one completion.")
    best.objectives = objectives
    best.passes, best.oracle_calls = common.passes, common.oracle_calls
    best.seconds = common.seconds()
    return best


def _descend(
    descent: _Descent, max_rounds: int, validate: Callable | None, patience: int
) -> tuple[Result, float]:
    """All rounds from one start; also the validation score."""
    status = None
    score, kept, stale = -np.inf, None, 0
    for _ in range(max_rounds):
        before = len(descent.rounds)
        status = descent.round()
        if validate is not None and len(descent.rounds) > before:
            now = validate(descent.weights)
            stale = 0 if now > score else stale + 1
            if stale == 0:
                score, kept = now, descent.result()
            elif stale >= patience:
                status = status or EARLY_STOPPED
        if status is not None:
            break
    status = status or MAX_ITER
    descent.retire()
    found = kept or descent.result()
    if stale and status == STATIONARY:  # the weights kept are those of an earlier round
        status = EARLY_STOPPED
    found.status = status
    found.rounds = descent.rounds
    # Solvers have changed older states since; all are feasible for any completion.
    found.dual_state = descent.dual_state
    return found, score
