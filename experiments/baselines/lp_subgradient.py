"""Stochastic subgradient on factor graphs with an LP oracle, a baseline.

As in :mod:`~maxmargin.solvers.subgradient`: ``w_t = u_t / (alpha t)``, and after whole passes w_t
is the ``w(mu)`` of the answers' averages, which are feasible for the hard dual.
"""

from __future__ import annotations

import numpy as np

from experiments.baselines.lp_kernel import add_answer, answer_loss, roof_subgradient_steps
from experiments.baselines.lp_oracles import make_oracle
from maxmargin.graphs.problem import GraphProblem
from maxmargin.solvers.problem import Evaluation

from .visits import PermutedPasses


class LPSubgradient(PermutedPasses):
    """Stepper of the stochastic subgradient method, with the average weighted by t beside it.

    Parameters
    ----------
    problem : GraphProblem
    oracle, check_oracle : str
        As in :class:`~experiments.baselines.lp_bcfw.LPBlockFrankWolfe`.
    rng : numpy.random.RandomState
    """

    def __init__(
        self, problem: GraphProblem, *, oracle: str = "auto", check_oracle: str = "auto", rng
    ):
        super().__init__(problem, rng)
        self.oracle = make_oracle(problem, oracle)
        same = check_oracle == oracle
        self.check_oracle = self.oracle if same else make_oracle(problem, check_oracle)
        self.sums = np.zeros(problem.n_weights)
        self.late = np.zeros(problem.n_weights)
        self._factors = problem.scales * (problem.alpha * problem.n_examples)
        self._loss = 0.0

    def _visit(self, order: np.ndarray) -> None:
        problem = self.problem
        sums, late = problem.split(self.sums), problem.split(self.late)
        if self.oracle.is_compiled:
            self._loss += roof_subgradient_steps(
                problem.data(), self.oracle.plan, self._factors, problem.alpha, order,
                self.oracle_calls, sums, late, self.oracle.room, self.oracle.answers,
            )  # fmt: skip
            return
        for t, m in enumerate(order, start=self.oracle_calls):
            factor = self._factors[m]
            if factor == 0.0:
                continue
            _, unary, tables = self.oracle.score(
                self.sums, m, 1.0 / (problem.alpha * t) if t else 0.0
            )
            answer, answer_tables, _ = self.oracle.answer(m, unary, tables)
            self._loss += factor * answer_loss(
                problem.graphs, answer, problem.truth, problem.costs, m
            )
            for weights, amount in ((sums, factor), (late, factor * t)):
                add_answer(
                    problem.graphs, problem.rows, problem.features, problem.truth, m, answer,
                    answer_tables, amount, *weights, self.oracle.room,
                )  # fmt: skip

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values of the hard problem at the last iterate and at the weighted average."""
        t, alpha = self.oracle_calls, self.problem.alpha
        primal = self.check_oracle.primal
        if t == 0:
            weights = np.zeros(self.problem.n_weights)
            return [(weights, Evaluation(primal(weights), 0.0, 0.0))]
        last = self.sums / (alpha * t)
        average = (t * self.sums - self.late) * (2.0 / (alpha * t * (t + 1.0)))
        dual = 0.0  # of the truth
        if self.between_rounds:  # whole passes only: see the module's description
            dual = self._loss / t - self.problem.penalty(last)
        return [(weights, Evaluation(primal(weights), dual, 0.0)) for weights in (last, average)]
