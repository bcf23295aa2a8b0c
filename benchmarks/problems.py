"""The training problem that an estimator would hand to its solver, and solvers at work on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.graphs.soft import SoftAgreement
from maxmargin.solvers.acceleration import Accelerated
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.frank_wolfe import BlockFrankWolfe


class _Caught(Exception):
    """Carries the problem out of ``fit``."""


def problem_of(model: Any, X: Any, y: Any) -> Any:
    """Validate and pack the data as ``model.fit(X, y)`` does, and return the problem."""

    def catch(problem, *rest):
        raise _Caught(problem)

    model._solve = catch
    try:
        model.fit(X, y)
    except _Caught as caught:
        return caught.args[0]
    finally:
        del model._solve
    raise RuntimeError("fit did not call its solver")


def frank_wolfe(problem: Any, seed: int = 0, **options: Any) -> Climb:
    """Plain block-coordinate Frank-Wolfe, at its start."""
    return Climb(BlockFrankWolfe(**options), problem, rng=np.random.RandomState(seed))


def soft_agreement(
    problem: Any, seed: int = 0, inertia: float | str = "auto", **options: Any
) -> Climb:
    """Accelerated soft agreement, at its start."""
    solver = Accelerated(SoftAgreement(**options), inertia=inertia)
    return Climb(solver, problem, rng=np.random.RandomState(seed))


def soft_points(climb: Climb) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and messages of soft agreement that may be good."""
    accelerated, state = climb.solver, climb.state
    settled = accelerated.settled(state)
    return accelerated.solver.points(climb.problem, state.inner, settled)
