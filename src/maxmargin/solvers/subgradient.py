"""Stochastic subgradient (Pegasos), the baseline; with a true dual value after every pass.

With steps ``1/(alpha t)`` the iterate is ``w_t = u_t / (alpha t)`` with ``u_t`` a plain sum of
subgradients, so a step changes only the weights of its example. When every example was visited
equally often, w_t is the ``w(mu)`` of the dual point that averages the answers of the oracle for
each example; its dual value is a lower bound on the optimum. Hence the order is a permutation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..oracles.values import ClosedForm, Oracle, check_oracle, make_oracle
from . import interpreted
from ._subgradient_kernel import subgradient_steps
from .base import Solver
from .frank_wolfe import without_gradients


class SubgradientState(NamedTuple):
    """``sums`` is u_t, ``late`` its correction for the average, ``concave`` the sum of the concave
    parts of all answers."""

    sums: np.ndarray
    late: np.ndarray
    concave: float
    calls: int
    pending: np.ndarray
    rng: np.random.RandomState
    oracle: Any  # the stored values of the oracle: always those of its start
    dual: Any = None  # a refit cannot continue from it

    @property
    def weights(self) -> np.ndarray:
        """In units of ``1 / (alpha t)``."""
        return self.sums


class Subgradient(Solver):
    """The stochastic subgradient method, and the average of its iterates weighted by t.

    Parameters
    ----------
    oracle : "auto" or an oracle, default="auto"
        As in :class:`~maxmargin.BlockFrankWolfe`.
    """

    def __init__(self, oracle: Oracle | str = "auto"):
        self.oracle = oracle

    def validate(self):
        check_oracle(self.oracle)

    def missing(self, problem):
        oracle = make_oracle(self.oracle, problem)
        return without_gradients(problem) + oracle.missing(problem)

    def adapted(self, problem):
        return problem.in_blocks()

    def init(self, problem, start, rng):
        size = problem.n_weights
        oracle = ClosedForm() if problem.in_python else make_oracle(self.oracle, problem)
        none = np.empty(0, np.int64)
        return SubgradientState(
            np.zeros(size), np.zeros(size), 0.0, 0, none, rng, oracle.init(problem)
        )

    def advance(self, problem, state, steps):
        pending = state.pending
        if not len(pending):
            pending = state.rng.permutation(problem.n_examples)
        order, pending = pending[:steps], pending[steps:]
        factors = problem.scales * (problem.alpha * problem.n_examples)
        kernel = interpreted.subgradient_steps if problem.in_python else subgradient_steps
        concave = state.concave + kernel(
            problem.objective(state.oracle), problem.rows, factors, problem.alpha, order,
            state.calls, state.sums, state.late,
        )  # fmt: skip
        return state._replace(concave=concave, calls=state.calls + len(order), pending=pending)

    def check(self, problem, state, at=None, dual_weights=None):
        """True values at the last iterate and at the weighted average."""
        t, alpha = state.calls, problem.alpha
        if t == 0:
            weights = np.zeros(problem.n_weights)
            found = problem.evaluate(weights, oracle=state.oracle)
            return state, [(weights, found._replace(dual=0.0))]
        last = state.sums / (alpha * t)
        average = (t * state.sums - state.late) * (2.0 / (alpha * t * (t + 1.0)))
        at_last = problem.evaluate(last, oracle=state.oracle)
        if not len(state.pending):  # whole passes only: see the docstring of the module
            at_last = at_last._replace(dual=state.concave / t - problem.penalty(last))
        return state, [(last, at_last), (average, problem.evaluate(average, oracle=state.oracle))]
