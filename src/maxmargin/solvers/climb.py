"""A solver at work on a problem, with its state; run by the loop."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .base import Candidate, Solver
from .loop import Stepper


class Climb(Stepper):
    """A solver, a problem, and the state of the solver.

    Parameters
    ----------
    solver : Solver
    problem : object
        See :mod:`~maxmargin.solvers.problem`.
    rng : numpy.random.RandomState
    start : optional
        Dual point to start from, of a problem with the same ``signature()``; by default the truth.
    """

    def __init__(
        self, solver: Solver, problem: Any, *, rng: np.random.RandomState, start: Any = None
    ):
        solver.validate()
        self.solver = solver
        self.problem = solver.adapted(problem)
        self.state = solver.init(self.problem, start, rng)
        self._per_second = 0.0

    def advance(self, seconds: float, most: int) -> None:
        """Take at most ``most`` steps, for about ``seconds``, at most to the end of the round."""
        count = max(1, int(self._per_second * seconds)) if self._per_second else 64
        began, before = time.perf_counter(), self.state.calls
        self.state = self.solver.advance(self.problem, self.state, min(count, max(1, most)))
        if before:  # the first call may include compilation
            done = self.state.calls - before
            self._per_second = done / max(time.perf_counter() - began, 1e-9)

    def check(self) -> list[Candidate]:
        """True values of all candidates."""
        self.state, candidates = self.solver.check(self.problem, self.state)
        return candidates

    def estimate(self) -> float:
        """A cheap estimate of the gap."""
        return self.solver.estimate(self.problem, self.state)

    def refresh(self) -> bool:
        """Rebuild the weights from the dual point; False if they are fresh."""
        fresh = self.solver.refreshed(self.problem, self.state)
        changed = fresh is not self.state
        self.state = fresh
        return changed

    def bounds(self) -> dict[str, float]:
        """More certified values, by name."""
        return self.solver.bounds(self.problem, self.state)

    @property
    def stalled(self) -> bool:
        """Whether further steps would change nothing."""
        return self.solver.stalled(self.state)

    @property
    def between_rounds(self) -> bool:
        """Whether every block of the round was visited."""
        return not len(self.state.pending)

    @property
    def oracle_calls(self) -> int:
        """Oracle calls of the solver so far, without those of the checks."""
        return self.state.calls

    @property
    def dual_state(self) -> Any:
        """Where a later fit can start."""
        return self.gathered().dual if self.problem.keeps_dual else None

    def gathered(self) -> Any:
        """The state with all that a checkpoint needs."""
        return self.solver.gathered(self.problem, self.state)

    @property
    def weights(self) -> np.ndarray:
        """The iterate."""
        return self.state.weights
