"""Ascent over flows: training of chains without a max-min oracle.

The dual of a sequence is stored as a flow of mass through its labels. A visit moves mass from the
worst output in the flow to the best output (a best path), then, at one position after another,
from one label to a better one between the same neighbours. Each move has the exact best length.

Max-min is not smooth where two predictions are equally good, and moves between two labels would
stall there. So its inner minimum over the predictions nu is taken with a prox term,
``nu' L mu + |nu - nu_before|^2 / (2 step)``: smooth, and the same minimum once nu has converged.

References
----------
Garber, Meshi. Linear-memory and decomposition-invariant linearly convergent conditional gradient
algorithm for structured polytopes. NeurIPS 2016.
"""

from __future__ import annotations

import numpy as np

from .._kernels.flows import Flows, truth_flows
from .._kernels.passes import Sums
from ..structures import chain_max_min  # noqa: F401  (its answers, for the kernels)
from ._flow_check import FlowPoint, bracket_blocks
from ._flow_kernel import flow_steps
from ._flow_moves import Curvature
from .base import Momentum
from .frank_wolfe import BlockAscent, first_state
from .groups import for_groups
from .problem import Evaluation

# Steps on the predictions of an example at a check.
_CHECK_ROUNDS = 5
# Inertia grows with the root of the ratio of curvature to loss; it is 0 below this ratio.
_EASY_RATIO = 5.0


def loss_curvature(problem) -> Curvature:
    """What the prox term of the predictions adds to the curvature of moves."""
    structure = problem.structure
    matrix = structure.loss.dense(structure.n_labels)
    cost = max(float(np.abs(matrix).max()), 1e-300)
    if problem.cost.linear:
        return Curvature(np.zeros_like(matrix), cost)
    centred = matrix - matrix.mean(axis=0)
    squares = (centred**2).sum(axis=0)
    spread = squares[:, None] + squares[None, :] - 2.0 * centred.T @ centred
    return Curvature(np.ascontiguousarray(np.maximum(spread, 0.0)), cost)


class Flow(BlockAscent):
    """Ascent over flows, for chains with max-margin or max-min.

    Parameters
    ----------
    order : {"permutation", "active", "uniform", "gap"}, default="permutation"
        As in :class:`~maxmargin.solvers.frank_wolfe.BlockFrankWolfe`.
    """

    momentum = Momentum(damping=1.0, rounds=2)

    duals = (Flows,)

    def __init__(self, order: str = "permutation"):
        self.order = order

    def missing(self, problem):
        if not problem.traits.flows:
            return ["label sequences"]
        if problem.cost.smooth:
            return ["a loss (surrogate='max-margin' or 'max-min')"]
        return []

    def init(self, problem, start, rng):
        structure = problem.structure
        if not self.continues(start):
            start = truth_flows(structure.truth, structure.indptr, structure.n_labels)
        state = first_state(problem, start, rng, trail=False)
        return state._replace(constants=loss_curvature(problem))

    def default_inertia(self, problem):
        """Inertia from the curvature of moves in units of the loss."""
        loss = float(problem.structure.loss_scale.mean()) * loss_curvature(problem).cost
        if not loss > 0.0 or problem.in_kernel_space:
            return 0.0
        curvature = 2.0 * float(problem.rows.squares.mean()) * float(problem.scales.mean())
        return max(0.0, float(np.sqrt(curvature / (_EASY_RATIO * loss))) - 1.0)

    def _visit(self, problem, state, visits):
        dual = flow_steps(
            problem.surrogate, problem.structure, problem.rows, state.constants, problem.scales,
            visits, state.weights, state.dual,
        )  # fmt: skip
        return state._replace(dual=dual)

    def point(self, problem, state):
        return (state.weights, state.dual.predictions)

    def evaluate(self, problem, state, point, dual_weights):
        """Upper and lower bounds on the surrogate: max-min has no closed form on chains."""
        weights, predictions = point
        bracketed = not problem.cost.linear
        rounds = _CHECK_ROUNDS if bracketed else 0
        gaps = np.empty(problem.n_examples) if dual_weights is None else state.gaps

        def work(first, last):
            sums = np.empty(3)
            bracket_blocks(
                problem.surrogate, problem.structure, problem.shared_rows, state.constants,
                problem.sample_weight, FlowPoint(weights, predictions, state.dual), rounds, first,
                last, Sums(sums, gaps),
            )  # fmt: skip
            return sums

        sums = np.sum(for_groups(work, problem.n_examples, problem.n_threads), axis=0)
        loss, concave, error = sums / problem.total_weight
        dual = -np.inf if dual_weights is None else concave - problem.penalty(dual_weights)
        primal = problem.penalty(weights) + loss
        return Evaluation(primal, dual, error if bracketed else 0.0)

    def concave(self, problem, state):
        return problem.concave(state.dual)
