"""Results of solvers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

CONVERGED = "converged"
MAX_ITER = "max_iter"
INTERRUPTED = "interrupted"
STOPPED = "stopped"  # by a callback
EARLY_STOPPED = "early_stopped"  # by the validation score
STALLED = "stalled"  # by rounding errors: no further progress is possible
FAILED = "failed"  # numbers overflowed: the weights are the best that were still finite
PRUNED = "pruned"  # weights were rounded after the fit: the certificate is not theirs
STATIONARY = "stationary"  # no certificate of a global minimum: see solvers/rounds.py


class Check(NamedTuple):
    """One check of a run: all numbers are true ones, from a pass over the data.

    Attributes
    ----------
    passes : float
        Passes over the data so far.
    seconds : float
        Time since the start of the fit.
    primal, dual : float
        Value at the best weights so far, and the largest lower bound on the optimum.
    gap : float
        ``primal - dual``, never negative: the best weights are at most this far from the optimum.
    oracle_error : float
        How much of the gap is due to inexact oracles; 0 where all are exact.
    oracle_calls : int
        Oracle calls of the solver so far, without those of the checks.
    validation_score : float or None
        Score on held-out data, if there is any.
    """

    passes: float
    seconds: float
    primal: float
    dual: float
    gap: float
    oracle_error: float
    oracle_calls: int
    validation_score: float | None = None


class Round(NamedTuple):
    """One round of a fit with hidden parts: a convex problem, then a new completion.

    Attributes
    ----------
    objective : float
        Value at the weights after the round, hidden parts at their best.
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


class Solved(NamedTuple):
    """A solved convex problem of a fit with hidden parts: all that the rounds need to continue
    after an interruption without solving it again.

    ``checks`` are those that it added to the history, ``rng`` the random numbers after it,
    ``seconds`` the time since the start of the fit. The last one of the best start has its
    ``dual_state``.
    """

    weights: np.ndarray
    primal: float
    dual: float
    gap: float
    oracle_error: float
    passes: float
    oracle_calls: int
    seconds: float
    status: str
    bounds: dict[str, float]
    checks: list[Check]
    rng: np.random.RandomState
    dual_state: Any = None


@dataclass
class Result:
    """Weights with their certificate.

    ``primal - dual = gap`` bounds the distance of the objective at ``weights`` to its optimum;
    ``dual`` comes from a feasible point of the dual, so it is valid however the run ended.
    All of them are finite unless ``status`` is "failed", or the problem certifies nothing.

    With hidden parts (see :mod:`~maxmargin.solvers.rounds`) the certificate is that of the last
    convex problem. ``objective`` is the value at the weights with hidden parts at their best, at
    most ``primal``, and ``objectives`` has that of every start.
    """

    weights: np.ndarray
    primal: float
    dual: float
    gap: float
    oracle_error: float
    passes: float
    oracle_calls: int
    seconds: float
    status: str
    history: list[Check] = field(default_factory=list)
    dual_state: Any = None
    bounds: dict[str, float] = field(default_factory=dict)  # more certified values, by name
    objective: float | None = None
    rounds: list[Round] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
