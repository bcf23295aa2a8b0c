"""Hidden parts of the answer: the concave-convex procedure around the convex solvers.

With y what was observed and h what was not, training minimises

    L(w) = alpha/2 |w|^2
           + (1/W) sum_i s_i [ max { H_i + score(x_i, .) } - max_h score(x_i, y_i, h) ]

which is not convex: the last term is concave. At any completion c of the hidden parts,

    U_c(w) = L(w) + (1/W) sum_i s_i [ max_h score(x_i, y_i, h) - score(x_i, y_i, c_i) ]  >=  L(w)

is an ordinary training problem, and touches L where c is the best completion. A round completes
the hidden parts at the weights of the moment, and solves that problem from the dual state of the
round before: which dual points are feasible does not depend on the truth. Weights are taken only
if U_c falls, so L never rises, whatever the accuracy of the solver and of the completions.

What is certified is the last convex problem: ``primal - dual = gap`` bounds how far the weights are
from the minimum of U_c. That is no bound for L, which may have lower values elsewhere: when the
completions do not change any more, the weights are a stationary point of L, up to the gap.

References
----------
Yu, Joachims. Learning structural SVMs with latent variables. ICML 2009.
Yuille, Rangarajan. The concave-convex procedure. Neural Computation 15, 2003.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from .interrupt import InterruptGuard
from .loop import run
from .result import (
    CONVERGED,
    EARLY_STOPPED,
    FAILED,
    INTERRUPTED,
    MAX_ITER,
    STATIONARY,
    STOPPED,
    Check,
    Result,
)

# Relative gaps of the convex problems: the first one, and how they shrink from round to round.
_FIRST_TOL = 0.1
_SHRINK = 1.0 / 3.0
# A round that lowers the objective by less than this share of ``tol`` is the last one.
_SMALL_FALL = 0.1


class LatentModel(Protocol):
    """What the procedure needs to know. A completion is any object; it is never looked into."""

    def complete(self, weights: np.ndarray, before: Any) -> Any:
        """The best completion at some weights.

        ``before`` is the one in use: where the best one cannot be found for sure, an example
        should keep its old completion unless the new one scores more. ``before`` itself says that
        nothing has changed.
        """

    def truth_score(self, weights: np.ndarray, completion: Any) -> float:
        """``(1/W) sum_i s_i score(x_i, y_i, c_i)`` at some weights."""

    def stepper(self, completion: Any, dual_state: Any) -> Any:
        """A solver of the convex problem, see :mod:`maxmargin.solvers.loop`, that starts from a
        dual state of the same problem with another completion, or afresh from None."""


class Round(NamedTuple):
    """One round: a convex problem, then a new completion.

    Attributes
    ----------
    objective : float
        L at the weights after the round, hidden parts at their best.
    primal, dual, gap : float
        Of the convex problem of the round.
    changed : bool
        Whether the completion has changed after it.
    passes, seconds : float
        Since the start of the fit.
    """

    objective: float
    primal: float
    dual: float
    gap: float
    changed: bool
    passes: float
    seconds: float


@dataclass
class LatentResult(Result):
    """Weights with the certificate of the last convex problem, see the module's description.

    ``objective`` is L at the weights, at most ``primal``; ``objectives`` those of all starts.
    """

    objective: float = np.inf
    rounds: list[Round] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    completion: Any = None


class _Run:
    """What all rounds and starts share: limits, clock, callbacks."""

    def __init__(
        self, tol: float, max_iter: int, check_every: int | None, callbacks: Sequence[Callable],
        verbose: int, name: str,
    ):  # fmt: skip
        self.tol = tol
        self.max_iter = max_iter
        self.check_every = check_every
        self.callbacks = callbacks
        self.verbose = verbose
        self.name = name
        self.began = time.perf_counter()
        self.passes = 0.0  # of steppers that are done
        self.oracle_calls = 0
        self.history: list[Check] = []

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def solve(self, stepper: Any, tol: float) -> Result:
        """Run a convex solver; its checks are counted from the start of the fit."""

        def hear(check: Check) -> Any:
            shifted = check._replace(
                passes=self.passes + check.passes,
                seconds=self.seconds(),
                oracle_calls=self.oracle_calls + check.oracle_calls,
            )
            self.history.append(shifted)
            answers = [callback(shifted) for callback in self.callbacks]
            return not any(isinstance(a, (bool, np.bool_)) and not a for a in answers)

        return run(
            stepper,
            tol=tol,
            max_iter=self.max_iter,
            check_every=self.check_every,
            callbacks=(hear,),
            verbose=self.verbose,
            name=self.name,
        )

    def retire(self, stepper: Any) -> None:
        """Count the work of a stepper that is done."""
        self.passes += stepper.oracle_calls / stepper.problem.n_examples
        self.oracle_calls += stepper.oracle_calls


class _Descent:
    """The rounds from one start."""

    def __init__(self, model: LatentModel, common: _Run, completion: Any, dual_state: Any):
        self.model = model
        self.common = common
        self.completion = completion
        self.dual_state = dual_state
        self.weights = np.empty(0)  # none yet
        self.objective = np.inf
        self.rounds: list[Round] = []
        self.convex: Result | None = None  # the last problem, at the weights that were kept
        self._stepper: Any = None
        self._tol = max(common.tol, _FIRST_TOL)

    def round(self) -> str | None:
        """One round; returns the status if it was the last one."""
        common, tol = self.common, self._tol
        if self._stepper is None:
            self._stepper = self.model.stepper(self.completion, self.dual_state)
        found = common.solve(self._stepper, tol)
        self.dual_state = found.dual_state
        ended = found.status if found.status in (FAILED, INTERRUPTED, STOPPED, MAX_ITER) else None
        if found.primal > self.objective:  # not accurate enough to do better than the weights kept
            if ended is None and tol > common.tol:
                self._tighten()
                return None
            if ended is None:
                self._keep(found)
            return ended or STATIONARY
        fall = self.objective - found.primal
        self.weights = found.weights
        self.convex = found
        with InterruptGuard() as guard:
            changed, gain = self._complete()
        self.objective = found.primal - gain
        fall += gain
        passes = common.passes + self._stepper.oracle_calls / self._stepper.problem.n_examples
        self.rounds.append(
            Round(self.objective, found.primal, found.dual, found.gap, changed, passes,
                  common.seconds())
        )  # fmt: skip
        if ended is not None or guard.requested:
            return ended or INTERRUPTED
        small = not changed or fall <= _SMALL_FALL * common.tol * abs(self.objective)
        if small and tol <= common.tol:
            return STATIONARY
        self._tol = common.tol if small else max(common.tol, _SHRINK * tol)
        if changed:
            self.retire()
        return None

    def _tighten(self) -> None:
        self._tol = max(self.common.tol, _SHRINK * self._tol)

    def _keep(self, found: Result) -> None:
        """The weights stay: they have U_c = L at the completion in use, and its dual bounds it."""
        assert self.convex is not None
        dual = min(found.dual, self.objective)  # equal up to rounding where it is above
        gap = self.objective - dual
        self.convex.primal, self.convex.dual, self.convex.gap = self.objective, dual, gap
        self.convex.oracle_error = min(found.oracle_error, gap)
        self.convex.dual_state = found.dual_state
        self.convex.bounds = found.bounds

    def _complete(self) -> tuple[bool, float]:
        """Complete at the weights; returns whether anything has changed, and what it gains."""
        after = self.model.complete(self.weights, self.completion)
        if after is self.completion:
            return False, 0.0
        gain = self.model.truth_score(self.weights, after)
        gain -= self.model.truth_score(self.weights, self.completion)
        if not gain > 0.0:  # equal up to rounding, or an inexact completion
            return False, 0.0
        self.completion = after
        return True, gain

    def retire(self) -> None:
        """Done with the solver of this completion."""
        if self._stepper is not None:
            self.common.retire(self._stepper)
            self._stepper = None


def run_latent(
    model: LatentModel,
    starts: Iterable[Any],
    *,
    tol: float,
    max_iter: int,
    max_rounds: int = 100,
    check_every: int | None = None,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    validate: Callable[[np.ndarray], float] | None = None,
    patience: int = 5,
    verbose: int = 0,
    name: str = "maxmargin",
    dual_state: Any = None,
) -> LatentResult:
    """Minimise L from some completions, and return the best that was found.

    Parameters
    ----------
    model : LatentModel
    starts : iterable of completions
        Each is a start of its own; the lowest objective wins (the best validation score, if there
        is one).
    tol : float
        Relative gap to which the last convex problem is solved; the first ones are solved more
        loosely. A start ends when the completions do not change any more, or when a round lowers
        the objective by less than ``tol / 10`` of it.
    max_iter : int
        Passes over the data at most, for each round.
    max_rounds : int
        Rounds at most, for each start.
    validate : callable, optional
        Score of weights on held-out data, asked after every round; the best scored weights are
        kept, and a start ends after ``patience`` rounds without a better score.
    dual_state : optional
        Where the first round of every start begins.
    check_every, callbacks, verbose, name
        As in :func:`maxmargin.solvers.loop.run`; passes and seconds are those of the whole fit, and
        primal, dual and gap those of the convex problem at work.

    Returns
    -------
    LatentResult
        With ``status`` "stationary" where all went well: no certificate tells a global minimum.
    """
    common = _Run(tol, max_iter, check_every, callbacks, verbose, name)
    best: LatentResult | None = None
    best_score = -np.inf
    objectives = []
    for start in starts:
        # Solvers work on a dual state in place: every start has its own.
        descent = _Descent(model, common, start, copy.deepcopy(dual_state))
        found, score = _descend(descent, max_rounds, validate, patience)
        objectives.append(found.objective)
        better = best is None or (
            found.objective < best.objective if validate is None else score > best_score
        )
        if better:
            best, best_score = found, score
        if found.status in (FAILED, INTERRUPTED, STOPPED):
            best = best or found
            best.status = found.status
            break
    if best is None:
        raise ValueError("starts is empty; expected at least one completion.")
    best.objectives = objectives
    best.passes, best.oracle_calls = common.passes, common.oracle_calls
    best.seconds, best.history = common.seconds(), common.history
    return best


def _descend(
    descent: _Descent, max_rounds: int, validate: Callable | None, patience: int
) -> tuple[LatentResult, float]:
    """All rounds from one start; also the validation score."""
    status = None
    score, kept, stale = -np.inf, None, 0
    while status is None:
        before = len(descent.rounds)
        status = descent.round()
        if validate is not None and len(descent.rounds) > before:
            now = validate(descent.weights)
            stale = 0 if now > score else stale + 1
            if stale == 0:
                score, kept = now, _result(descent, CONVERGED)
            elif stale >= patience:
                status = status or EARLY_STOPPED
        if status is None and len(descent.rounds) >= max_rounds:
            status = MAX_ITER
    descent.retire()
    found = kept or _result(descent, status)
    if stale and status == STATIONARY:  # the weights kept are those of an earlier round
        status = EARLY_STOPPED
    found.status = status
    found.rounds = descent.rounds
    # Solvers have gone on working on older states; all are feasible, whatever the completion.
    found.dual_state = descent.dual_state
    return found, score


def _result(descent: _Descent, status: str) -> LatentResult:
    convex = descent.convex
    assert convex is not None  # the first round always has an answer
    return LatentResult(
        weights=descent.weights,
        primal=convex.primal,
        dual=convex.dual,
        gap=convex.gap,
        oracle_error=convex.oracle_error,
        passes=0.0,
        oracle_calls=0,
        seconds=0.0,
        status=status,
        dual_state=convex.dual_state,
        bounds=convex.bounds,
        objective=descent.objective,
        completion=descent.completion,
    )
