"""Block-coordinate Frank-Wolfe in marginal space, with exact steps.

Each step visits one example, calls the oracle of the surrogate for the best response ``mu_bar``,
and moves ``mu_i`` to the exact maximum of the dual along ``mu_bar - mu_i``; or, where the structure
has a formula, to the exact maximum over the whole block (multiclass: a projection onto the
simplex).

With pairwise steps the dual is stored as mixtures of outputs (atoms): a visit calls the oracle for
one output, then moves mass between the atoms of the example, from the worst to the best, several
times.

References
----------
Lacoste-Julien, Jaggi, Schmidt, Pletscher. Block-coordinate Frank-Wolfe optimization for
structural SVMs. ICML 2013.
Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien. Minding the gaps for block Frank-Wolfe
optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.atoms import Atoms
from .._kernels.blocks import Blocks
from .._kernels.passes import inner_product
from .._validation import check_choice, check_switch
from ..oracles.values import ClosedForm, Oracle, check_oracle, make_oracle
from . import (
    _batch_kernel,
    _bcfw_kernel,
    _pairwise_kernel,
    _revisit_kernel,
    _vertex_kernel,
    interpreted,
)
from ._bcfw_kernel import Trail, Visits
from .base import Candidate, Momentum, Solver, check_power
from .interpreted import MeanBlocks

ORDERS = ("permutation", "active", "uniform", "gap")
STEPS = ("plain", "pairwise")
# Orders that visit a block at most once in a round.
_EACH_ONCE = ("permutation", "active")
# Passes in batches, by those that they take the place of.
_IN_BATCHES = {
    _vertex_kernel.vertex_steps: _batch_kernel.vertex_batches,
    _pairwise_kernel.pairwise_steps: _batch_kernel.pairwise_batches,
}
_NONE = np.empty(0)
# "active": number of rounds, after one over all blocks, over those whose gap is at least a share of
# the mean, and this share. On uci_letter this halves the work to the same gap; no effect on chains.
_ACTIVE_ROUNDS = 9
_ACTIVE_SHARE = 0.1
# Passes over the atoms of examples after each round that calls oracles. If all weights fit into the
# cache of the processor, a round is hardly slower than these, unless features are hashed: then
# every part is.
_REVISITS, _MANY_WEIGHTS = 2, 1 << 16
# The same in batches, whose visits end with such moves at the weights of the moment, and of trees
# with hashed features, whose moves take longer: with 2, 500 sentences of EWT have a gap of 5 %
# after 36 passes instead of 39.
_FEW_REVISITS = 1
# Inertia at the start, in units of the root of the mean curvature of an example.
_INERTIA = 2.0


class BlockState(NamedTuple):
    """Progress of block-coordinate ascent; see :mod:`~maxmargin.solvers.base`."""

    weights: np.ndarray
    dual: Any
    calls: int
    pending: np.ndarray
    gaps: np.ndarray  # of the blocks at their last visits
    draws: np.ndarray  # of the rest of the round, if blocks are drawn
    tree: np.ndarray
    correction: np.ndarray  # see Trail
    mass: np.ndarray
    rounds: int
    fresh_at: int  # oracle calls when the weights were rebuilt
    rng: np.random.RandomState
    constants: Any = None  # of the problem, computed once by a solver
    oracle: Any = None  # what the oracle stores per example


def first_state(problem: Any, dual: Any, rng: np.random.RandomState, trail: bool) -> BlockState:
    """The state at a dual point."""
    weights = problem.weights_of(dual)
    return BlockState(
        weights, dual, 0, np.empty(0, np.int64), np.zeros(problem.n_examples), _NONE, _NONE,
        np.zeros_like(weights) if trail else _NONE, np.zeros(2), 0, 0, rng,
    )  # fmt: skip


def without_gradients(problem: Any) -> list[str]:
    """What a problem lacks for solvers that do not use gradients of the primal."""
    if problem.clamped is None:
        return []
    return [
        "complete labels (hidden labels with surrogate='crf' are trained by gradients of the "
        "likelihood of the known ones: solver='auto' or 'lbfgs', and kernel='linear')"
    ]


class BlockAscent(Solver):
    """Base of the solvers that visit one block after another: order, rounds, checks."""

    order: str
    momentum = Momentum(damping=0.4, cosine=0.42)
    visits_blocks = True

    def validate(self):
        check_choice("order", self.order, ORDERS)

    def advance(self, problem, state, steps):
        if not len(state.pending):
            state = self._new_round(problem, state)
        batch = problem.batch  # begins at the same places of a round, whatever the clock says
        count = min(-(-max(1, int(steps)) // batch) * batch, len(state.pending))
        visits = Visits(state.pending[:count], state.draws[:count], state.tree, state.gaps)
        rest = {"pending": state.pending[count:], "draws": state.draws[count:]}
        state = self._visit(problem, state, visits)
        state = state._replace(calls=state.calls + count, **rest)
        return state if len(state.pending) else self._end_round(problem, state)

    def _end_round(self, problem: Any, state: Any) -> Any:
        """Work between two rounds."""
        return state

    def _visit(self, problem: Any, state: Any, visits: Visits) -> Any:
        """Visit some blocks; the state counts no calls yet."""
        raise NotImplementedError(f"{type(self).__name__}._visit")

    def _new_round(self, problem, state):
        """Choose the blocks to visit next; in gap order, only their number."""
        n, rng = problem.n_examples, state.rng
        rounds = state.rounds + 1
        pending = None
        if self.order == "uniform":
            pending = rng.randint(0, n, n)
        elif self.order == "gap":
            pending = np.arange(n)
        elif self.order == "active" and rounds % (_ACTIVE_ROUNDS + 1) != 1:
            active = np.flatnonzero(state.gaps > _ACTIVE_SHARE * state.gaps.mean())
            if len(active):
                pending = rng.permutation(active)
        if pending is None:
            pending = rng.permutation(n)
        draws, tree = self._new_draws(problem, state, n) if self.order == "gap" else (_NONE, _NONE)
        return state._replace(pending=pending, draws=draws, tree=tree, rounds=rounds)

    def _new_draws(self, problem, state, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers and the sum tree that turns them into blocks with a gap."""
        n = problem.n_examples
        tree = np.empty(2 << max(1, int(n - 1).bit_length()))
        _bcfw_kernel.build_sum_tree(np.maximum(state.gaps, 0.0) * problem.scales, tree)
        if not tree[1] > 0.0:  # no block with a known gap: visit the blocks in turn
            return _NONE, _NONE
        return state.rng.random_sample(count), tree

    def default_inertia(self, problem):
        """Inertia that grows with the root of the curvature of an example, all parts together."""
        if problem.in_kernel_space:
            return 0.0  # a centre would keep all rows that were ever used
        return _INERTIA * float(np.sqrt(problem.mean_square() * float(problem.scales.mean())))

    def estimate(self, problem, state, apart=0.0):
        """Mean of the gaps of the blocks at their last visits."""
        return inner_product(state.gaps, problem.scales) * problem.alpha + apart

    def refreshed(self, problem, state):
        if state.fresh_at == state.calls:
            return state
        return state._replace(weights=problem.weights_of(state.dual), fresh_at=state.calls)


class BlockFrankWolfe(BlockAscent):
    """Block-coordinate Frank-Wolfe.

    Parameters
    ----------
    order : {"permutation", "active", "uniform", "gap"}, default="permutation"
        How blocks are chosen: a new permutation each round; the same, with most rounds only over
        blocks that still have a gap; uniformly with replacement; or in proportion to the last
        known gap of each block.
    steps : {"plain", "pairwise"}, default="plain"
        Towards the answer of the oracle, or between stored outputs (max-margin only; much faster
        for small tolerances).
    exact_blocks : bool, default=True
        Take the exact maximum of a block where the structure has one.
    step_average : float or None, default=None
        Also keep the average over all steps, the t-th weighted by ``t ** step_average``; 1 is the
        average of Lacoste-Julien et al. :class:`Averaged` averages after each round instead.
    oracle : "auto" or an oracle, default="auto"
        How the best answer of a block is found, for steps and evaluations. "auto" is the closed
        form or argmax where there is one, and otherwise the iterative oracle for max-min:
        :class:`~maxmargin.Proximal` on permutations, :class:`~maxmargin.DoubleOracle` on trees.
    line_search : bool, default=True
        Whether steps of plain block Frank-Wolfe have the length that maximises the dual; False
        takes the lengths ``2n / (t + 2n)`` of Lacoste-Julien et al., wherever there is no exact
        maximum of a block.
    """

    def __init__(
        self,
        order: str = "permutation",
        steps: str = "plain",
        exact_blocks: bool = True,
        step_average: float | None = None,
        oracle: Oracle | str = "auto",
        line_search: bool = True,
    ):
        self.order = order
        self.steps = steps
        self.exact_blocks = exact_blocks
        self.step_average = step_average
        self.oracle = oracle
        self.line_search = line_search

    def validate(self):
        super().validate()
        check_choice("steps", self.steps, STEPS)
        check_switch("exact_blocks", self.exact_blocks)
        check_switch("line_search", self.line_search)
        check_oracle(self.oracle)
        if self.step_average is not None:
            check_power("step_average", self.step_average)

    def missing(self, problem):
        found = without_gradients(problem) + self._oracle(problem).missing(problem)
        if self.steps == "pairwise" and not problem.has_outputs:
            found.append(
                "single outputs as answers of the oracle, whose parts are known "
                "(surrogate='max-margin', or solver='auto')"
            )
        if self.steps == "pairwise" and not self.line_search:
            found.append("line_search=True, as every solver with steps='pairwise'")
        return found

    def _oracle(self, problem) -> Oracle:
        return make_oracle(self.oracle, problem, self.exact_blocks)

    def adapted(self, problem):
        return problem.in_blocks()

    @property
    def duals(self):  # type: ignore[override]
        return (Atoms,) if self.steps == "pairwise" else (Blocks, MeanBlocks)

    def init(self, problem, start, rng):
        pairwise = self.steps == "pairwise"
        if not self.continues(start):
            start = problem.start_atoms() if pairwise else problem.start()
        state = first_state(problem, start, rng, self.step_average is not None)
        oracle = ClosedForm(False) if problem.in_python else self._oracle(problem)
        return state._replace(oracle=oracle.init(problem))

    def _visit(self, problem, state, visits):
        power = 0.0 if self.step_average is None else float(self.step_average)
        trail = Trail(state.correction, state.mass, power)
        if not self.line_search:
            visits = visits._replace(before=state.calls)
        kernel = self._kernel(problem)
        if problem.batch > 1 and self.visits_in_batches(problem):
            dual = _IN_BATCHES[kernel](problem, visits, state.weights, trail, state.dual)
            return state._replace(dual=dual)
        dual, _ = kernel(
            problem.objective(state.oracle), problem.rows, problem.scales, visits, state.weights,
            trail, state.dual,
        )  # fmt: skip
        return state._replace(dual=dual)

    def _end_round(self, problem, state):
        """Move mass between atoms: far cheaper than a round, for about half of its gain."""
        revisits = self.steps == "pairwise" and problem.traits.revisits
        many = problem.n_weights >= _MANY_WEIGHTS or problem.hashes_features
        if not revisits or not many or len(state.correction):
            return state
        several = np.flatnonzero((state.dual.count > 1) & (problem.scales > 0.0))
        few = problem.batch > 1 or problem.hashes_features
        passes = _FEW_REVISITS if few else _REVISITS
        for _ in range(passes if len(several) else 0):
            order = state.rng.permutation(several)
            if problem.batch > 1:
                visits = Visits(order, _NONE, _NONE, state.gaps)
                _batch_kernel.revisit_batches(problem, visits, state.weights, state.dual)
            else:
                _revisit_kernel.revisit_steps(
                    problem.structure, problem.rows, problem.scales, order, state.weights,
                    state.dual,
                )  # fmt: skip
        return state

    def _kernel(self, problem):
        if problem.in_python:
            return interpreted.bcfw_steps
        if self.steps == "pairwise":
            return _pairwise_kernel.pairwise_steps
        # An exact step towards one output, which has few parts.
        if problem.cost.linear and problem.traits.sparse_outputs and self.line_search:
            return _vertex_kernel.vertex_steps
        return _bcfw_kernel.bcfw_steps

    def visits_in_batches(self, problem):
        if problem.in_python or problem.in_kernel_space or self.order not in _EACH_ONCE:
            return False
        if self.steps == "pairwise":
            return problem.traits.revisits and self.step_average is None
        vertices = self._kernel(problem) is _vertex_kernel.vertex_steps
        return vertices and problem.traits.scores_parts

    def evaluate(self, problem, state, point, dual_weights):
        if dual_weights is None:
            return problem.evaluate(point[0], oracle=state.oracle)
        return problem.evaluate(point[0], state.dual, state.gaps, dual_weights, state.oracle)

    def concave(self, problem, state):
        return problem.concave(state.dual)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[BlockState, list[Candidate]]:
        state, candidates = super().check(problem, state, at, dual_weights)
        if len(state.correction) and state.calls:
            average = state.weights - state.correction / state.mass[0]
            found = problem.evaluate(average, oracle=state.oracle)
            candidates = [*candidates, (average, found)]
        return state, candidates
