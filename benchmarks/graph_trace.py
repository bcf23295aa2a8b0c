"""A stepper's values over its own CPU time; checks do not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Point(NamedTuple):
    """Where a run was after some CPU seconds of steps."""

    seconds: float
    passes: float
    primal: float  # lowest so far, of the hard problem
    dual: float  # highest so far
    score: float  # on the test set, at the weights with the lowest primal; nan if not asked for


def hard_values(stepper: Any) -> tuple[np.ndarray, float, float]:
    """Best weights, their hard primal value, and a lower bound."""
    weights, found = min(stepper.check(), key=lambda candidate: candidate[1].primal)
    return weights, found.primal, found.dual


def trace(
    stepper: Any,
    *,
    seconds: float,
    goal: float = -np.inf,
    passes: float = np.inf,
    growth: float = 1.1,
    score: Callable[[np.ndarray], float] | None = None,
    values: Callable[[Any], tuple[np.ndarray, float, float]] = hard_values,
    log: Callable[[Point], Any] | None = None,
) -> list[Point]:
    """Run until the primal is at most ``goal``, or CPU time or passes are used up.

    Checks follow each other when the passes done have grown by ``growth``, so the time of reaching
    the goal is known to that factor, to the disadvantage of the stepper.
    """
    n = stepper.problem.n_examples
    points: list[Point] = []
    used, lowest, highest, next_check = 0.0, np.inf, -np.inf, 1.0
    test = np.nan
    while True:
        weights, primal, dual = values(stepper)
        highest = max(highest, dual)
        if primal < lowest:
            lowest = primal
            test = score(weights) if score else np.nan
        point = Point(used, stepper.oracle_calls / n, float(lowest), float(highest), test)
        points.append(point)
        if log:
            log(point)
        if lowest <= goal or used >= seconds or point.passes >= passes:
            return points
        while stepper.oracle_calls < next_check * n and used < seconds:
            began = time.process_time()
            stepper.advance(0.2, int(np.ceil(next_check * n)) - stepper.oracle_calls)
            used += time.process_time() - began
        next_check = max(np.floor(next_check * growth), next_check + 1.0)


def warm_up(make: Callable[[], Any]) -> None:
    """Compile everything that a run will need."""
    stepper = make()
    stepper.advance(0.0, 1)
    stepper.advance(0.0, 1)
    while not stepper.between_rounds:
        stepper.advance(1e9, stepper.problem.n_examples)
    stepper.check()
