"""Max-min over permutations by one interior-point method for weights and all examples together.

The dual is a quadratic program: the players of every example are those of
:mod:`maxmargin._kernels.birkhoff_game`, and all share the weights, ``w = w(mu)``. A Newton step
eliminates the players of each example, which leaves a linear system in the weights alone,

    (alpha I + 1/W sum_i s_i Phi(x_i) B_i Phi(x_i)') dw = ...,

with the derivative B_i of the answer mu_i with respect to the scores. One or two steps reduce the
gap by a factor of about ten, for any alpha; a step costs as much as the solution of a linear system
with one unknown per weight. So it is for few weights and small tolerances.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from .._kernels.birkhoff_game import NEAR_END, SHORTEST, TO_BOUNDARY, centring
from .._kernels.blocks import Blocks, whole_blocks
from .._kernels.passes import block_sizes
from ._corrective_program import cholesky
from ._interior_kernel import (
    Pools,
    add_answers,
    advance_points,
    certify,
    factorize_all,
    find_moves,
    gaps_after,
    interior_work,
    open_points,
    widest_scores,
)
from .base import Solver
from .problem import Evaluation

# Largest number of weights: the Hessian has the square of it.
MOST_WEIGHTS = 2000
# Largest number of rows of an example: the derivative of its mu has the fourth power of it.
MOST_ROWS = 32
# Largest number of entries of the systems of all examples.
_MOST_NUMBERS = 1 << 26
# Mean gap of the examples below which steps are rounding errors.
_ROUNDING = 1e-13
# A step shorter than this is not taken: one towards equal products is longer.
_SHORT = 1e-3


class InteriorState(NamedTuple):
    """``points`` are the iterates of all examples, ``total`` and ``gap`` the sum of their gaps and
    the mean, weighted; ``dual`` holds their mu as they were at the last check."""

    weights: np.ndarray
    dual: Blocks
    calls: int
    pending: np.ndarray
    points: np.ndarray
    total: float
    gap: float
    rng: np.random.RandomState
    idle: int = 0  # steps that failed because of rounding errors


def fits(problem: Any) -> bool:
    """Whether a problem is small enough."""
    sides = _sides(problem)
    few = problem.n_weights <= MOST_WEIGHTS and sides.max() <= MOST_ROWS
    return bool(few and 24 * int((sides**2).sum()) <= _MOST_NUMBERS)


def _sides(problem: Any) -> np.ndarray:
    return np.sqrt(block_sizes(problem.structure)).round().astype(np.int64)


class Interior(Solver):
    """Interior-point method for max-min over permutations.

    Every Newton step counts as a pass. It does not continue from a given dual point.
    """

    def missing(self, problem):
        pairs = problem.cost.name == "max-min" and problem.traits.saddle == "pairs"
        if not pairs or problem.in_kernel_space:
            return ["rankings or matchings with surrogate='max-min' and weights of features"]
        if problem.n_weights and not fits(problem):
            return [f"at most {MOST_WEIGHTS} weights and {MOST_ROWS} rows, or fewer examples"]
        return []

    def init(self, problem, start, rng):
        sides = _sides(problem)
        dual = whole_blocks(sides**2)
        dual.value[:] = np.repeat(1.0 / sides, sides**2)
        weights = problem.weights_of(dual)
        points = np.zeros(int((4 * sides * (sides + 1)).sum()))
        pools, work = _storage(problem, points)
        # At the truth w = 0: sufficiently near to it, scores are not larger than losses.
        widest = widest_scores(problem.structure, problem.rows, weights, pools, work)
        share = 1.0 / max(1.0, widest)
        weights *= share
        total = open_points(problem.structure, problem.rows, weights, share, pools, work)
        return InteriorState(
            weights, dual, 0, np.empty(0, np.int64), points, float(total), float(total), rng
        )

    def advance(self, problem, state, steps):
        structure, rows, shares = problem.structure, problem.rows, problem.sample_weight
        pools, work = _storage(problem, state.points)
        size = problem.n_weights
        strength = problem.alpha * problem.total_weight
        hessian = np.zeros((size, size))
        factorize_all(structure, rows, shares, pools, work, hessian)
        calls = state.calls + problem.n_examples
        if not np.isfinite(hessian).all():
            return state._replace(calls=calls, idle=state.idle + 1)
        factor = cholesky(hessian, strength)
        mean = state.total / (2.0 * pools.parts[-1])

        def direction(goal: float, second: bool) -> tuple[np.ndarray, float]:
            """Newton step of the weights and of all examples, and its largest length."""
            right = -strength * state.weights
            add_answers(structure, rows, shares, state.weights, goal, second, pools, work, right)
            change = cho_solve(factor, right, check_finite=False)  # the length reveals NaN
            moved = state.weights + change
            return change, find_moves(structure, rows, moved, goal, second, pools, work)

        _, length = direction(0.0, False)
        after, _ = gaps_after(shares, pools, length)
        change, length = direction(centring(after / state.total) * mean, True)
        if length < _SHORT:
            change, length = direction(mean, False)
        length = min(1.0, TO_BOUNDARY * length)
        after, weighted = gaps_after(shares, pools, length)
        grows = state.total <= NEAR_END * problem.n_examples and not after < state.total
        if grows or not length >= SHORTEST or state.total <= _ROUNDING * problem.n_examples:
            return state._replace(calls=calls, idle=state.idle + 1)  # no further progress
        advance_points(pools, length)
        weights = state.weights + length * change
        gap = float(weighted) / problem.total_weight
        return state._replace(weights=weights, calls=calls, total=float(after), gap=gap)

    def check(self, problem, state, at=None, dual_weights=None):
        pools, work = _storage(problem, state.points)
        sums = certify(
            problem.structure, problem.rows, problem.sample_weight, state.weights, pools, work,
            state.dual.value,
        )  # fmt: skip
        loss, concave, error = np.array(sums) / problem.total_weight
        primal = loss + problem.penalty(state.weights)
        dual = concave - problem.penalty(problem.weights_of(state.dual))
        return state, [(state.weights, Evaluation(float(primal), float(dual), float(error)))]

    def stalled(self, state):
        """A step depends on the state only: after one failed step, all others would fail."""
        return state.idle > 0

    def estimate(self, problem, state, apart=0.0):
        """The gap between the players of all examples."""
        return state.gap


def _storage(problem: Any, points: np.ndarray) -> tuple[Pools, np.ndarray]:
    """Arrays that the passes read and write, for given points."""
    sides = _sides(problem)
    n = int(sides.max())
    sizes = sides**2
    pools = Pools(
        sides,
        _starts(4 * sizes + 4 * sides),
        _starts(16 * sizes),
        points,
        np.zeros(len(points)),
        np.empty(int(16 * sizes.sum())),
        np.empty(int(sizes.sum())),
        _starts(sizes),
    )
    return pools, np.empty(interior_work(n, problem.rows.n_inputs))


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
