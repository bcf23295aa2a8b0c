"""Acceleration of any solver that climbs a dual: the proximal point method, with momentum.

What the inner solver climbs is the dual of

    P(w) + inertia * alpha / 2 |w - centre|^2,    w = (w(mu) + inertia * centre) / (1 + inertia),

which is better conditioned the more inertia there is: the same blocks, with ``scales / (1 +
inertia)``. After every round the centre moves to ``w + momentum * (w - w before)``. Values reported
are always those of P, and of its own dual at mixtures of the points that were met: a dual point is
known by its concave part and its w(mu), which mix linearly (H is concave, so a mixture is worth at
least as much), and the best mixture of the last one with all before is found in closed form.

References
----------
Lin, Mairal, Harchaoui. A universal catalyst for first-order optimization. NeurIPS 2015.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._centre_kernel import move_centre, points_back
from .base import Candidate, Solver
from .problem import DualPoint

# Share of the inertia that is left when momentum pointed the wrong way.
_LESS_INERTIA = 0.7
# The least ratio of a true gap to its guess that is believed.
_LEAST_RATIO = 0.05


class AcceleratedState(NamedTuple):
    """``inner`` climbs around ``centre``; ``before`` are its weights after the last round, and
    ``best`` is the best mixture of dual points."""

    inner: Any
    centre: np.ndarray
    before: np.ndarray
    inertia: float
    best: DualPoint | None
    ratio: float  # of the true gap to the guess, at the last check
    centred_at: int  # oracle calls when the centre moved

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


class Accelerated(Solver):
    """Acceleration around a solver.

    Parameters
    ----------
    solver : Solver
        Climbs a dual by steps that do not depend on the strength of the regularisation but through
        ``problem.scales``.
    inertia : "auto" or float, default="auto"
        Weight of the proximal term in units of alpha; 0 is the solver itself. "auto" is what suits
        the solver and the problem.
    """

    def __init__(self, solver: Solver, inertia: float | str = "auto"):
        self.solver = solver
        self.inertia = inertia

    def missing(self, problem):
        return self.solver.missing(problem)

    def init(self, problem, start, rng):
        inner = self.solver.init(problem, start, rng)
        weights = inner.weights
        chosen = isinstance(self.inertia, str)
        inertia = self.solver.default_inertia(problem) if chosen else self.inertia
        return AcceleratedState(
            inner, weights.copy(), weights.copy(), float(inertia), None, 1.0, -1
        )

    def advance(self, problem, state, steps):
        if state.inertia == 0.0:
            return state._replace(inner=self.solver.advance(problem, state.inner, steps))
        near = problem.with_inertia(state.inertia)
        inner = self.solver.advance(near, state.inner, steps)
        state = state._replace(inner=inner)
        return state if len(inner.pending) else self._end_round(problem, state)

    def _end_round(self, problem, state):
        """Take in the dual point; move the centre."""
        best = state.best
        concave = self.solver.concave(problem, state.inner)
        if concave is not None:
            bare = self._dual_weights(state)
            best = problem.better_mixture(best, DualPoint(concave, bare))
        state = state._replace(best=best)
        if state.inner.rounds % self.solver.stage:
            return state
        inner, unsettled = self.solver.unsettled(problem, state.inner)
        state = state._replace(inner=inner)
        if unsettled or points_back(state.centre, inner.weights, state.before):
            momentum, state = 0.0, self._with_less_inertia(state)
        else:
            root = np.sqrt(1.0 / (1.0 + state.inertia))
            momentum = self.solver.damping * (1.0 - root) / (1.0 + root)
        share = state.inertia / (1.0 + state.inertia)
        move_centre(state.inner.weights, state.before, state.centre, momentum, share)
        return state._replace(centred_at=state.inner.calls)

    def _with_less_inertia(self, state):
        """The steps within a round are not exact, and too much inertia would swing."""
        bare = self._dual_weights(state)
        inertia = _LESS_INERTIA * state.inertia
        weights = (bare + inertia * state.centre) / (1.0 + inertia)
        return state._replace(inertia=inertia, inner=state.inner._replace(weights=weights))

    def _dual_weights(self, state) -> np.ndarray:
        """``w(mu)``, of which the iterate is a mixture with the centre."""
        if state.inertia == 0.0:
            return state.inner.weights
        return (1.0 + state.inertia) * state.inner.weights - state.inertia * state.centre

    def _settled(self, state) -> np.ndarray:
        """The iterate: right after the centre has moved, the weights are not yet where they
        belong."""
        return state.before if state.inner.calls == state.centred_at else state.inner.weights

    def point(self, problem, state):
        weights, *others = self.solver.point(problem, state.inner)
        return (self._settled(state), *others)

    def evaluate(self, problem, state, point, dual_weights):
        return self.solver.evaluate(problem, state.inner, point, dual_weights)

    def concave(self, problem, state):
        return self.solver.concave(problem, state.inner)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[AcceleratedState, list[Candidate]]:
        settled, bare = self._settled(state), self._dual_weights(state)
        guess = self.estimate(problem, state) / state.ratio
        inner, candidates = self.solver.check(problem, state.inner, settled, bare)
        state = state._replace(inner=inner)
        if state.best is not None:
            dual = problem.dual_value(state.best)
            candidates = [
                (weights, found._replace(dual=max(found.dual, dual)))
                for weights, found in candidates
            ]
        gap = min(found.primal for _, found in candidates)
        gap -= max(found.dual for _, found in candidates)
        if state.calls and 0.0 < guess < np.inf:
            state = state._replace(ratio=min(1.0, max(_LEAST_RATIO, gap / guess)))
        return state, candidates

    def estimate(self, problem, state, apart=0.0):
        """``P(w) - D(mu)`` is the mean gap of the blocks at w and ``alpha/2 |w - w(mu)|^2``; better
        points than these two are known, as the last check has shown."""
        if state.inertia > 0.0:
            apart += problem.penalty(self._settled(state) - self._dual_weights(state))
        return state.ratio * self.solver.estimate(problem, state.inner, apart)

    def adapted(self, problem):
        return self.solver.adapted(problem)

    def refreshed(self, problem, state):
        inner = self.solver.refreshed(problem, state.inner)
        if inner is state.inner:
            return state
        if state.inertia == 0.0:
            return state._replace(inner=inner)
        bare = inner.weights
        mixed = (bare + state.inertia * state.centre) / (1.0 + state.inertia)
        return state._replace(inner=inner._replace(weights=mixed))

    def bounds(self, problem, state):
        return self.solver.bounds(problem, state.inner)
