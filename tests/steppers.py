"""Solvers at work on a problem, with a look inside that only tests need."""

from __future__ import annotations

import numpy as np

from maxmargin.graphs.soft import SoftAgreement
from maxmargin.solvers.acceleration import Accelerated
from maxmargin.solvers.averaging import Averaged
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.flow import Flow
from maxmargin.solvers.frank_wolfe import BlockFrankWolfe
from maxmargin.solvers.lbfgs import LBFGS
from maxmargin.solvers.subgradient import Subgradient


class Stepper(Climb):
    """A climb whose innermost state can be seen."""

    @property
    def innermost(self):
        solver, state = self.solver, self.state
        while hasattr(solver, "solver"):
            solver, state = solver.solver, state.inner
        return solver, state

    @property
    def gaps(self):
        return self.innermost[1].gaps

    @property
    def mean_weights(self):
        return self.state.mean[0]

    def dual_weights(self):
        """w(mu), of which an accelerated iterate is a mixture with the centre."""
        solver, state = self.solver, self.state
        if isinstance(solver, Averaged):
            solver, state = solver.solver, state.inner
        return solver._dual_weights(state)

    def points(self):
        """Weights and messages of soft agreement."""
        solver, state = self.innermost
        at = self.solver.settled(self.state)
        return solver.points(self.problem, state, at)


def _power(average, default):
    if isinstance(average, (bool, np.bool_)):
        return default if average else None
    return float(average)


def frank_wolfe(problem, *, rng, average=False, dual_state=None, **options):
    solver = BlockFrankWolfe(step_average=_power(average, 3.0), **options)
    return Stepper(solver, problem, rng=rng, start=dual_state)


def pairwise(problem, **options):
    return frank_wolfe(problem, steps="pairwise", **options)


def flow(problem, *, rng, average=False, inertia="auto", order="permutation"):
    solver = Accelerated(Flow(order), inertia=inertia)
    power = _power(average, 8.0)
    return Stepper(solver if power is None else Averaged(solver, power), problem, rng=rng)


def soft(problem, *, rng, average=True, inertia="auto", dual_state=None, **options):
    solver = SoftAgreement(average=_power(average, 3.0), **options)
    return Stepper(Accelerated(solver, inertia=inertia), problem, rng=rng, start=dual_state)


def lbfgs(problem, start=None):
    return Stepper(LBFGS(), problem, rng=np.random.RandomState(0), start=start)


def subgradient(problem, *, rng):
    return Stepper(Subgradient(), problem, rng=rng)
