"""Accelerated ascent over flows: how chains are trained without a max-min oracle.

The dual of a sequence is kept as a flow of mass through its labels. A visit moves mass from the
worst output in the flow to the best output (a best path), then, at one position after another,
from one label to a better one between the same neighbours. Each move takes the exact best step.

Max-min has a kink wherever two predictions are equally good, at which moves between two labels
would stall. So its inner minimum over the predictions nu is taken with a prox term,
``nu' L mu + |nu - nu_before|^2 / (2 step)``: smooth, and the same minimum once nu rests.

Around it runs an accelerated proximal point method in the weights: what is visited is the dual of

    P(w) + inertia * alpha / 2 |w - centre|^2,    w = (w(mu) + inertia * centre) / (1 + inertia)

which is better conditioned the more inertia there is, and every other round the centre moves to
``w + momentum * (w - w before)``. Values reported are always those of P and of its own dual at mu.

References
----------
Garber, Meshi. Linear-memory and decomposition-invariant linearly convergent conditional gradient
algorithm for structured polytopes. NeurIPS 2016.
Lin, Mairal, Harchaoui. A universal catalyst for first-order optimization. NeurIPS 2015.
"""

from __future__ import annotations

import numpy as np

from .._kernels.flows import Flows, truth_flows
from ..features.kernels import GramRows, KernelRows
from ..structures import chain_max_min  # noqa: F401  (its answers, for the kernels)
from ..structures.losses import dense_matrix
from ..surrogates.max_min import MaxMin
from ._centre_kernel import mix_in, move_centre
from ._flow_check import bracket_blocks
from ._flow_kernel import flow_steps
from ._flow_moves import Curvature
from .bcfw import BlockFrankWolfe
from .problem import Evaluation, for_groups

# Rounds between two moves of the centre.
_ROUNDS = 2
# Steps on the predictions of an example at a check.
_CHECK_ROUNDS = 5
# Inertia grows with the root of the ratio of curvature to loss; without it below this ratio.
_EASY_RATIO = 5.0


def loss_curvature(problem) -> Curvature:
    """What the prox term of the predictions adds to the curvature of moves."""
    structure = problem.structure
    matrix = dense_matrix(structure.loss, structure.n_labels)
    cost = max(float(np.abs(matrix).max()), 1e-300)
    if not isinstance(problem.surrogate, MaxMin):
        return Curvature(np.zeros_like(matrix), cost)
    centred = matrix - matrix.mean(axis=0)
    squares = (centred**2).sum(axis=0)
    spread = squares[:, None] + squares[None, :] - 2.0 * centred.T @ centred
    return Curvature(np.ascontiguousarray(np.maximum(spread, 0.0)), cost)


def default_inertia(problem, cost: float) -> float:
    """Inertia from the curvature of moves in units of the loss."""
    loss = float(problem.structure.loss_scale.mean()) * cost
    if not loss > 0.0 or isinstance(problem.rows, (GramRows, KernelRows)):
        return 0.0  # in a kernel model, a centre would keep all rows that ever moved
    curvature = 2.0 * float(problem.rows.squares.mean()) * float(problem.scales.mean())
    return max(0.0, float(np.sqrt(curvature / (_EASY_RATIO * loss))) - 1.0)


class FlowAscent(BlockFrankWolfe):
    """Stepper of accelerated ascent over flows, for chains with max-margin or max-min.

    Parameters
    ----------
    problem : Problem
        Its structure must be a :class:`~maxmargin.structures.chain.Chain`.
    order, rng, dual_state
        As in :class:`~maxmargin.solvers.bcfw.BlockFrankWolfe`.
    average : bool or float
        Also keep the average of the iterates after each round, the t-th weighted by
        ``t ** average``; True is 8.
    inertia : float, optional
        Weight of the proximal term in units of ``alpha``; 0 is plain ascent. By default it grows
        with the difficulty of the problem.
    """

    _state = Flows

    def __init__(
        self, problem, *, order="permutation", average=False, rng, dual_state=None, inertia=None
    ):
        self.curvature = loss_curvature(problem)
        super().__init__(problem, order=order, average=False, rng=rng, dual_state=dual_state)
        cost = self.curvature.cost
        self.inertia = default_inertia(problem, cost) if inertia is None else float(inertia)
        self.centre = self.weights.copy()
        self._before = self.weights.copy()
        root = np.sqrt(1.0 / (1.0 + self.inertia))
        self.momentum = (1.0 - root) / (1.0 + root)
        self._scales = problem.scales / (1.0 + self.inertia)
        self._centred_at = 0
        self._losses = np.zeros(problem.n_examples)
        self._concaves = np.zeros(problem.n_examples)
        is_switch = isinstance(average, (bool, np.bool_))
        self.power = 8.0 if is_switch else float(average)
        self._keeps_average = bool(average) if is_switch else True
        self._mean_weights = np.zeros(0)
        self._mean_predictions = np.zeros((0, 0))
        self._mean_mass = 0.0
        self._rounds_done = 0
        self._ratio = 1.0  # of the true gap to the guess, at the last check

    def _start(self):
        structure = self.problem.structure
        return truth_flows(structure.truth, structure.indptr, structure.n_labels)

    def _visit(self, order, draws) -> None:
        problem = self.problem
        self.dual_state = flow_steps(
            problem.surrogate, problem.structure, problem.rows, self.curvature, self._scales,
            order, draws, self._tree, self.gaps, self._losses, self._concaves, self.weights,
            self.dual_state,
        )  # fmt: skip
        self.oracle_calls += len(order)
        if self.between_rounds:
            self._end_round()

    def _end_round(self) -> None:
        """Take in the iterate, and move the centre when it is due."""
        if self._keeps_average:
            self._rounds_done += 1
            share = self._rounds_done**self.power
            self._mean_mass += share
            if not len(self._mean_weights):
                self._mean_weights = np.zeros_like(self.weights)
                self._mean_predictions = np.zeros_like(self.dual_state.predictions)
            share /= self._mean_mass
            mix_in(self._mean_weights, self.weights, share)
            predictions = self.dual_state.predictions
            self._mean_predictions += share * (predictions - self._mean_predictions)
        due = self.oracle_calls >= self._centred_at + _ROUNDS * self.problem.n_examples
        if self.inertia > 0.0 and due:
            share = self.inertia / (1.0 + self.inertia)
            move_centre(self.weights, self._before, self.centre, self.momentum, share)
            self._centred_at = self.oracle_calls

    def _dual_weights(self) -> np.ndarray:
        """``w(mu)``, of which the iterate is a mixture with the centre."""
        return (1.0 + self.inertia) * self.weights - self.inertia * self.centre

    def _evaluate(self, weights, predictions, rounds, gaps) -> tuple[float, float, float]:
        """Primal value, mean concave part, and oracle error."""
        problem = self.problem

        def work(first, last):
            sums = np.empty(3)
            bracket_blocks(
                problem.surrogate, problem.structure, problem.shared_rows, self.curvature,
                problem.sample_weight, weights, predictions, self.dual_state, rounds,
                first, last, sums, gaps,
            )  # fmt: skip
            return sums

        sums = np.sum(for_groups(work, problem.n_examples, problem.n_threads), axis=0)
        loss, concave, error = sums / problem.total_weight
        penalty = 0.5 * problem.alpha * problem.squared_norm(weights)
        return penalty + loss, concave, error

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values at the last iterate and, if kept, at the average."""
        problem = self.problem
        guess = self.estimate() / self._ratio
        points = [(self.weights, self.dual_state.predictions)]
        if self._keeps_average and self._rounds_done:
            points.append((self._mean_weights, self._mean_predictions))
        bracketed = isinstance(problem.surrogate, MaxMin)
        rounds = _CHECK_ROUNDS if bracketed else 0
        bare = self._dual_weights()
        penalty = 0.5 * problem.alpha * problem.squared_norm(bare)
        candidates = []
        for weights, predictions in points:
            gaps = self.gaps if weights is self.weights else np.empty(problem.n_examples)
            primal, concave, error = self._evaluate(weights, predictions, rounds, gaps)
            found = Evaluation(primal, concave - penalty, error if bracketed else 0.0)
            candidates.append((weights, found))
        gap = min(found.primal for _, found in candidates) - candidates[0][1].dual
        if self.oracle_calls and guess > 0.0:
            self._ratio = min(1.0, max(0.1, gap / guess))
        return candidates

    def estimate(self) -> float:
        """Primal minus dual with what the visits found, corrected as the last check suggests."""
        problem = self.problem
        shares = problem.scales * problem.alpha
        both = problem.squared_norm(self.weights) + problem.squared_norm(self._dual_weights())
        gap = 0.5 * problem.alpha * both + float(shares @ (self._losses - self._concaves))
        return self._ratio * gap

    def refresh(self) -> bool:
        """Rebuild the weights from the dual state."""
        stale = self._fresh_at != self.oracle_calls
        if stale:
            bare = self.problem.weights_of(self.dual_state)
            self.weights = (bare + self.inertia * self.centre) / (1.0 + self.inertia)
            self._fresh_at = self.oracle_calls
        return stale
