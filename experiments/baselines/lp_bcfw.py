"""Block-coordinate Frank-Wolfe with one linear program for each example: the baseline.

The block of an example is its whole local polytope. A visit solves the relaxation at the present
weights and takes the exact step towards its optimum. The marginals stay feasible for the hard
dual, so its value is a true lower bound without any repair.

References
----------
Lacoste-Julien, Jaggi, Schmidt, Pletscher. Block-coordinate Frank-Wolfe optimization for
structural SVMs. ICML 2013.
"""

from __future__ import annotations

import numpy as np

from experiments.baselines.bcfw import BlockStepper
from experiments.baselines.lp_kernel import roof_steps, step_towards, total_loss
from experiments.baselines.lp_oracles import make_oracle
from maxmargin.graphs.graph import GraphWeights
from maxmargin.graphs.kernels.agreement import Beliefs
from maxmargin.graphs.problem import GraphProblem
from maxmargin.graphs.truth import set_true_beliefs
from maxmargin.solvers._bcfw_kernel import weight_of
from maxmargin.solvers.problem import Evaluation


class LPBlockFrankWolfe(BlockStepper):
    """Stepper of block-coordinate Frank-Wolfe with an LP oracle.

    Parameters
    ----------
    problem : GraphProblem
    oracle : {"auto", "roof-duality", "potts", "highs-warm", "highs-cold"}
        See :mod:`~experiments.baselines.lp_oracles`.
    check_oracle : str, optional
        Oracle of the checks; all have the same values, but not the same price.
    order : {"permutation", "active", "uniform"}
    average, rng, dual_state
        As in :class:`~experiments.baselines.bcfw.BlockStepper`.
    """

    _state = Beliefs

    def __init__(
        self,
        problem: GraphProblem,
        *,
        oracle: str = "auto",
        check_oracle: str = "auto",
        order: str = "permutation",
        average: bool | float = True,
        rng,
        dual_state: Beliefs | None = None,
    ):
        self.oracle = make_oracle(problem, oracle)
        same = check_oracle == oracle
        self.check_oracle = self.oracle if same else make_oracle(problem, check_oracle)
        super().__init__(problem, order=order, average=average, rng=rng, dual_state=dual_state)
        self._spare = np.zeros(problem.n_weights)  # zero between the steps

    def _start(self) -> Beliefs:
        graphs = self.problem.graphs
        implied = np.zeros(int(graphs.first_message[-1]))
        states, entries = int(graphs.first_state[-1]), int(graphs.first_entry[-1])
        beliefs = Beliefs(np.zeros(states), np.zeros(entries), implied, np.empty(0))
        set_true_beliefs(graphs, self.problem.truth, beliefs)
        self.oracle.compress(beliefs.tables)
        return beliefs._replace(implied=np.empty(0))  # the marginals agree: nothing to keep

    def _kernel(self):
        return None

    def _visit(self, order, draws) -> None:
        problem = self.problem
        none = GraphWeights(np.empty((0, 0)), np.empty((0, 0)))
        means = problem.split(self.averaged) if len(self.averaged) else none
        weights, spare = problem.split(self.weights), problem.split(self._spare)
        if self.oracle.is_compiled:
            roof_steps(
                problem.data(), self.oracle.plan, order, self.gaps, weights,
                self.dual_state.variables, self.dual_state.tables, means, self.power, self._mass,
                self.oracle_calls, spare, self.oracle.room, self.oracle.answers,
            )  # fmt: skip
        else:
            for count, m in enumerate(order):
                before = self._mass[0]
                self._mass[0] += weight_of(self.oracle_calls + count + 1.0, self.power)
                if problem.scales[m] > 0.0:
                    self._visit_one(m, weights, means, before, spare)
        self.oracle_calls += len(order)

    def _visit_one(self, m, weights, means, before, spare) -> None:
        problem, graphs = self.problem, self.problem.graphs
        _, unary, tables = self.oracle.score(self.weights, m)
        answer, answer_tables, _ = self.oracle.answer(m, unary, tables)
        states = slice(graphs.first_state[m], graphs.first_state[m + 1])
        entries = slice(graphs.first_entry[m], graphs.first_entry[m + 1])
        self.gaps[m] = step_towards(
            graphs, problem.rows, problem.features, problem.scales[m], m, unary, tables, answer,
            answer_tables, self.dual_state.variables[states], self.dual_state.tables[entries],
            *weights, *means, before, *spare, self.oracle.room,
        )  # fmt: skip

    def dual(self) -> float:
        """The hard dual at the marginals."""
        problem = self.problem
        total = total_loss(
            problem.graphs, self.dual_state.variables, problem.truth, problem.costs,
            problem.sample_weight,
        )  # fmt: skip
        return total / problem.total_weight - problem.penalty(self.weights)

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values of the hard problem at the last iterate and, if kept, at the average."""
        points = [self.weights]
        if len(self.averaged) and self.oracle_calls:
            points.append(self.weights - self.averaged / self._mass[0])
        dual = self.dual()
        return [
            (weights, Evaluation(self.check_oracle.primal(weights), dual, 0.0))
            for weights in points
        ]
