"""Block-coordinate Frank-Wolfe over the local polytope, for one weight per pair of labels.

The dual point of an example is always feasible, so nothing has to agree: a visit finds a vertex of
the local polytope by a local search, or, sometimes, the optimal one by a maximum flow, and moves to
the exact maximum of the dual on the way there. Primal values are exact, by a maximum flow per
example (roof duality).

References
----------
Lacoste-Julien, Jaggi, Schmidt, Pletscher. Block-coordinate Frank-Wolfe optimization for
structural SVMs. ICML 2013.
Shah, Kolmogorov, Lampert. A multi-plane block-coordinate Frank-Wolfe algorithm for training
structural SVMs with a costly max-oracle. CVPR 2015.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..solvers._centre_kernel import mix_in
from ..solvers.base import Candidate, check_power, expected_gap, with_bound
from ..solvers.frank_wolfe import BlockAscent
from ..solvers.groups import for_groups
from ..solvers.problem import DualPoint, Evaluation, best_share
from ._tighten_kernel import make_answers
from .inference.plan import make_plan
from .kernels.agreement import Beliefs, make_room
from .kernels.half_integral import (
    PairMarginals,
    add_marginals,
    make_search,
    relaxed_values,
    vertex_steps,
)

# Share of the visits that compute the optimum, which takes as long as several visits without: at
# the start, and at least. It doubles after a pass in which the optimal vertices had more than twice
# the slope of those of the local search, and halves otherwise.
_FIRST_SHARE, _LEAST_SHARE, _WORTH = 1.0 / 16.0, 1.0 / 32.0, 2.0
# Averages of the weights per pass.
_MEANS = 8
# Inertia in units of the curvature of a label. To 1 % on yeast at alpha = 0.001 (curvature 0.67) it
# takes 13 passes without inertia, 11 with 0.5 and 7 with 2; on RCV1 (0.2) 4 without, 5 with 0.5.
_INERTIA = 3.0


class VertexState(NamedTuple):
    """Progress; the first ten as in every solver that visits blocks."""

    weights: np.ndarray
    dual: PairMarginals
    calls: int
    pending: np.ndarray
    gaps: np.ndarray
    draws: np.ndarray
    tree: np.ndarray
    rounds: int
    fresh_at: int
    rng: np.random.RandomState
    mean_weights: np.ndarray
    mean_mass: float
    share: float  # of visits that compute the optimum
    slopes: np.ndarray  # sums over these visits: towards local vertices, towards optimal ones
    hard_primal: float
    hard_dual: float
    trace: tuple[tuple[float, float], ...]  # passes and gaps of the last checks


class VertexFrankWolfe(BlockAscent):
    """Frank-Wolfe steps towards half-integral vertices, for label sets with all pairs of labels.

    Needs one weight per pair of labels, for both being present (``interactions="both-on"``), and
    the max-margin surrogate.

    Parameters
    ----------
    order : {"permutation", "active", "uniform"}, default="permutation"
    average : float or None, default=3.0
        Keep the average of the weights over the run, the t-th weighted by ``t ** average``.
    """

    duals = (PairMarginals, Beliefs)

    def __init__(self, order: str = "permutation", average: float | None = 3.0):
        self.order = order
        self.average = average

    def validate(self):
        super().validate()
        if self.order == "gap":
            raise ValueError(
                'order="gap" needs the exact gap of an example at every visit; use "permutation".'
            )
        if self.average is not None:
            check_power("average", self.average)

    def missing(self, problem):
        if not problem.traits.graph or problem.both_on_pairs is False:
            return ['label sets with all pairs of labels (edges="full", interactions="both-on")']
        found = [] if problem.cost.linear else ["surrogate='max-margin'"]
        return [*found, "kernel='linear'"] if problem.in_kernel_space else found

    def missing_in_parts(self):
        return ["SoftAgreement, which can train in parts"]

    def default_inertia(self, problem):
        """Inertia in proportion to the curvature of one label."""
        return _INERTIA * label_curvature(problem)

    def init(self, problem, start, rng):
        dual = _marginals(problem, start if self.continues(start) else None)
        weights = _weights(problem, dual)
        concave = _mean_loss(problem, dual.labels)
        share = best_share(concave, problem.alpha * problem.squared_norm(weights))
        if share < 1.0:  # weights of a stronger regularisation would be too large
            truth = _marginals(problem, None)
            for mine, true in ((dual.labels, truth.labels), (dual.pairs, truth.pairs)):
                mine *= share
                mine += (1.0 - share) * true
            weights *= share
        none, n = np.empty(0), problem.n_examples
        return VertexState(
            weights, dual, 0, np.empty(0, np.int64), np.zeros(n), none, none, 0, 0, rng,
            mean_weights=none if self.average is None else weights.copy(), mean_mass=0.0,
            share=_FIRST_SHARE, slopes=np.zeros(2), hard_primal=np.inf,
            hard_dual=-np.inf, trace=(),
        )  # fmt: skip

    def _visit(self, problem, state, visits):
        """Visits up to the next average, and so on: these come after fixed numbers of steps."""
        piece = max(1, problem.n_examples // _MEANS)
        plan, search = make_plan(problem.graphs), make_search(state.dual.labels.shape[1])
        weights, every = problem.split(state.weights), round(1.0 / state.share)
        mass, done, total = state.mean_mass, 0, len(visits.order)
        while done < total:
            count = min(total - done, piece - (state.calls + done) % piece)
            order = visits.order[done : done + count]
            exact = (np.arange(state.calls + done, state.calls + done + count) + 1) % every == 0
            vertex_steps(
                problem.data(), weights, state.dual, plan, order, state.gaps, exact, state.slopes,
                search,
            )  # fmt: skip
            done += count
            if self.average is not None and (state.calls + done) % piece == 0:
                own = float((state.calls + done) // piece) ** self.average
                mass += own
                mix_in(state.mean_weights, state.weights, own / mass, problem.n_threads)
        return state._replace(mean_mass=mass)

    def _end_round(self, problem, state):
        """Compute the optimum more often if the local search finds far less."""
        found, optimal = state.slopes
        worth = optimal > _WORTH * found
        share = min(1.0, 2.0 * state.share) if worth else max(_LEAST_SHARE, 0.5 * state.share)
        state.slopes[:] = 0.0
        return state._replace(share=share)

    def refreshed(self, problem, state):
        if state.fresh_at == state.calls:
            return state
        return state._replace(weights=_weights(problem, state.dual), fresh_at=state.calls)

    def concave(self, problem, state):
        return _mean_loss(problem, state.dual.labels)

    def evaluate(self, problem, state, point, dual_weights):
        dual = -np.inf
        if dual_weights is not None:
            dual = problem.dual_value(DualPoint(self.concave(problem, state), dual_weights))
        return Evaluation(relaxed_primal(problem, point[0]), dual, 0.0)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[VertexState, list[Candidate]]:
        """Exact values at the last iterate and at the average."""
        state, candidates = super().check(problem, state, at, dual_weights)
        if state.mean_mass > 0.0:
            found = self.evaluate(problem, state, (state.mean_weights,), None)
            found = with_bound(found, candidates[0][1].dual)
            candidates = [*candidates, (state.mean_weights, found)]
        primal = min(state.hard_primal, *(found.primal for _, found in candidates))
        dual = max(state.hard_dual, *(found.dual for _, found in candidates))
        trace = (*state.trace[-2:], (state.calls / problem.n_examples, max(primal - dual, 1e-300)))
        return state._replace(hard_primal=primal, hard_dual=dual, trace=trace), candidates

    def bounds(self, problem, state):
        """The primal and dual of the relaxation, by name."""
        dual = min(state.hard_dual, state.hard_primal)  # above it only by rounding
        gap = state.hard_primal - dual
        return {"hard_primal": state.hard_primal, "hard_dual": dual, "hard_gap": gap}

    def estimate(self, problem, state, apart=0.0):
        """The gap, extrapolated from the last two checks: local searches do not know it."""
        return expected_gap(state.trace, state.calls / problem.n_examples)


def _marginals(problem: Any, start: PairMarginals | Beliefs | None) -> PairMarginals:
    """Marginals at the truth, or those of a dual point, made feasible."""
    n = problem.n_examples
    truth = problem.truth.reshape(n, -1)
    first, second = np.triu_indices(truth.shape[1], 1)
    if start is None:
        labels = truth.astype(np.float64)
        pairs = labels[:, first] * labels[:, second]
    elif isinstance(start, PairMarginals):
        labels, pairs = start.labels.copy(), start.pairs.copy()
    else:
        labels = start.variables.reshape(n, -1, 2)[:, :, 1].copy()
        pairs = start.tables.reshape(n, -1, 4)[:, :, 3].copy()
    np.clip(labels, 0.0, 1.0, out=labels)
    left, right = labels[:, first], labels[:, second]
    np.clip(pairs, np.maximum(0.0, left + right - 1.0), np.minimum(left, right), out=pairs)
    return PairMarginals(labels, pairs, (2 * truth).astype(np.int8))


def label_curvature(problem: Any) -> float:
    """Mean curvature of the dual in the marginal of a label."""
    return float(problem.scales.mean() * problem.rows.squares.mean())


def _weights(problem: Any, dual: PairMarginals) -> np.ndarray:
    """``w(mu)``, from scratch."""
    weights = np.zeros(problem.n_weights)
    search = make_search(dual.labels.shape[1])
    add_marginals(problem.data(), problem.split(weights), dual, search)
    return weights


def _mean_loss(problem: Any, labels: np.ndarray) -> float:
    """The concave part of the dual: the expected number of wrong labels, weighted."""
    wrong = problem.costs * np.abs(problem.truth - labels.ravel())
    sums = wrong.reshape(len(labels), -1).sum(axis=1)
    return float(problem.sample_weight @ sums) / problem.total_weight


def relaxed_primal(problem: Any, weights: np.ndarray) -> float:
    """The primal value at weights and their best messages, of binary pairwise graphs."""
    plan, values = make_plan(problem.graphs), np.empty(problem.n_examples)
    data, parts = problem.data(problem.shared_rows), problem.split(weights)
    for_groups(
        lambda first, last: relaxed_values(
            data, plan, parts, np.array([first, last]), values, make_room(problem.graphs),
            make_answers(problem.graphs),
        ),
        problem.n_examples,
        problem.n_threads,
    )  # fmt: skip
    mean = float(problem.sample_weight @ values) / problem.total_weight
    return problem.penalty(weights) + mean
