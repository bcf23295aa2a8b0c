"""The average of the iterates after each round: usually the better primal point."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .base import (
    Candidate,
    Point,
    Wrapper,
    check_inner,
    check_power,
    trusted_ratio,
    with_bound,
)


class AveragedState(NamedTuple):
    """``mean`` averages the points after each of ``rounds``, whose weights sum to ``mass``."""

    inner: Any
    mean: Point
    mass: float
    rounds: int
    ratio: float  # of the true gap to its estimate, at the last check

    @property
    def weights(self) -> np.ndarray:
        return self.inner.weights

    @property
    def dual(self) -> Any:
        return self.inner.dual

    @property
    def calls(self) -> int:
        return self.inner.calls

    @property
    def pending(self) -> np.ndarray:
        return self.inner.pending


class Averaged(Wrapper):
    """Also keeps the average of the points after each round, the t-th weighted by ``t ** power``.

    Parameters
    ----------
    solver : Solver or str, default="auto"
        A name stands for the solver that is chosen for the problem, without its own average.
    power : float, default=8.0
        0 is the plain mean; larger values give more weight to the last iterates. At most 50.
    """

    def __init__(self, solver: Any = "auto", power: float = 8.0):
        self.solver = solver
        self.power = power

    def validate(self):
        check_inner(self.solver)
        check_power("power", self.power)

    @property
    def accelerated(self):  # type: ignore[override]
        return self.solver.accelerated

    def missing(self, problem):
        found = self.solver.missing(problem)
        if not self.solver.evaluates:
            found = [*found, f"another solver to average: {self.solver!r} cannot"]
        return found

    def init(self, problem, start, rng):
        return AveragedState(self.solver.init(problem, start, rng), (), 0.0, 0, 1.0)

    def advance(self, problem, state, steps):
        inner = self.solver.advance(problem, state.inner, steps)
        if len(inner.pending):
            return state._replace(inner=inner)
        rounds = state.rounds + 1
        share = float(rounds) ** self.power
        mass = state.mass + share
        mean = self.solver.mixed(problem, inner, state.mean, share / mass)
        return AveragedState(inner, mean, mass, rounds, state.ratio)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[AveragedState, list[Candidate]]:
        inner, candidates = self.solver.check(problem, state.inner, at, dual_weights)
        guess = self.solver.estimate(problem, inner)
        if state.rounds:
            found = self.solver.evaluate(problem, inner, state.mean, None)
            dual = max(known.dual for _, known in candidates)
            candidates = [*candidates, (state.mean[0], with_bound(found, dual))]
        ratio = trusted_ratio(candidates, guess, state.ratio) if state.rounds else 1.0
        return state._replace(inner=inner, ratio=ratio), candidates

    def estimate(self, problem, state, apart=0.0):
        """The estimate of the solver, times the ratio of true gap to estimate at the last check."""
        return state.ratio * self.solver.estimate(problem, state.inner, apart)
