"""Passes of the interior-point method over all examples: see :mod:`.interior`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.birkhoff import round_to_birkhoff
from .._kernels.birkhoff_game import (
    advance_point,
    answer_of_mu,
    factorize_newton,
    longest_step,
    newton_at,
    newton_direction,
    newton_work,
    open_point,
    point_at,
    point_size,
    products_after,
    response_matrix,
    right_side,
    solve_factored,
)
from .._kernels.jit import leaf
from .._kernels.saddle import lower_bound, saddle_work, upper_bound
from .._kernels.vector import add_scaled, copy, dot


class Pools(NamedTuple):
    """Iterates of all examples, stored consecutively, and arrays that every step overwrites."""

    sides: np.ndarray  # number of rows of each example
    start: np.ndarray  # offset of its point in ``points`` and ``moves``
    system_start: np.ndarray  # offset of its system in ``systems``
    points: np.ndarray
    moves: np.ndarray
    systems: np.ndarray
    stiffness: np.ndarray
    parts: np.ndarray  # offset of its parts in ``stiffness``


@leaf
def _newton_of(pools, i, work):
    """The system of example i, with its stored stiffness."""
    n = pools.sides[i]
    newton = newton_at(n, 0, pools.systems[pools.system_start[i] :], work)
    copy(newton.stiffness, pools.stiffness[pools.parts[i] : pools.parts[i] + n * n])
    return newton


@leaf
def _point_of(pools, i, values):
    first = pools.start[i]
    n = pools.sides[i]
    return point_at(n, values[first : first + point_size(n)])


def interior_work(n: int, n_inputs: int) -> int:
    """Length of the scratch vector of the passes, for at most n rows."""
    response = n**4 + 8 * n**3 + n * n * n_inputs + 2 * n_inputs + 1
    return 4 * n * n + int(newton_work(n, 0)) + max(response, int(saddle_work(n)))


@leaf
def open_points(structure, rows, weights, share, pools, work):
    """Start all points at a mixture of truth and uniform marginals with this share of the latter;
    returns the sum of the gaps."""
    total = 0.0
    for i in range(pools.sides.shape[0]):
        n = pools.sides[i]
        at = _point_of(pools, i, pools.points)
        scores, rest = work[: n * n], work[n * n :]
        generic.embed_truth(structure, i, at.mu)
        for k in range(n * n):
            at.mu[k] = (1.0 - share) * at.mu[k] + share / n
        generic.score_block(structure, rows, weights, i, scores)
        open_point(at, scores, rest)
        total += products_after(at, at, 0.0)
    return total


@leaf
def widest_scores(structure, rows, weights, pools, work):
    """The largest difference between two scores of an example."""
    widest = 0.0
    for i in range(pools.sides.shape[0]):
        scores = work[: pools.sides[i] ** 2]
        generic.score_block(structure, rows, weights, i, scores)
        low, high = np.inf, -np.inf
        for score in scores:
            low, high = min(low, score), max(high, score)
        widest = max(widest, high - low)
    return widest


@leaf
def factorize_all(structure, rows, sample_weight, pools, work, hessian):
    """Factorise the systems of all examples, and add their contributions to the Hessian."""
    none = work[:0].reshape(0, 0)
    for i in range(pools.sides.shape[0]):
        n = pools.sides[i]
        size = n * n
        at = _point_of(pools, i, pools.points)
        newton = newton_at(n, 0, pools.systems[pools.system_start[i] :], work)
        rest = work[newton_work(n, 0) :]
        factorize_newton(none, at, 0.0, newton, 0)
        copy(pools.stiffness[pools.parts[i] : pools.parts[i] + size], newton.stiffness)
        response, rest = rest[: size * size].reshape(size, size), rest[size * size :]
        response_matrix(at, newton, rest, response)
        generic.add_curvature(structure, rows, i, response, sample_weight[i], rest, hessian)


@leaf
def add_answers(structure, rows, sample_weight, weights, goal, second, pools, work, right):
    """``right += sum_i s_i Phi(x_i) (phi(y_i) - mu_i - d_i)``, with the change d_i of mu_i at fixed
    weights."""
    none = work[:0].reshape(0, 0)
    for i in range(pools.sides.shape[0]):
        n = pools.sides[i]
        size = n * n
        answer, truth, rest = work[:size], work[size : 2 * size], work[2 * size :]
        newton = _newton_of(pools, i, rest)
        at, move = _point_of(pools, i, pools.points), _point_of(pools, i, pools.moves)
        generic.score_block(structure, rows, weights, i, newton.pull)
        right_side(none, at, newton, goal, second, move)
        solve_factored(newton.system, newton.right)
        answer_of_mu(none, at, newton, answer)
        generic.embed_truth(structure, i, truth)
        add_scaled(truth, at.mu, -1.0)
        add_scaled(truth, answer, -1.0)
        generic.add_block(structure, rows, right, i, truth, sample_weight[i])


@leaf
def find_moves(structure, rows, weights, goal, second, pools, work):
    """Directions of all examples, given that of the weights; returns the largest step length."""
    none = work[:0].reshape(0, 0)
    length = 1.0
    for i in range(pools.sides.shape[0]):
        n = pools.sides[i]
        answer, rest = work[: n * n], work[n * n :]
        newton = _newton_of(pools, i, rest)
        at, move = _point_of(pools, i, pools.points), _point_of(pools, i, pools.moves)
        generic.score_block(structure, rows, weights, i, newton.pull)
        newton_direction(none, at, newton, goal, second, answer, move)
        length = min(length, longest_step(at, move))
    return length


@leaf
def gaps_after(sample_weight, pools, length):
    """Gaps after a step: their sum, and their sum with the weights of the examples."""
    total, weighted = 0.0, 0.0
    for i in range(pools.sides.shape[0]):
        at, move = _point_of(pools, i, pools.points), _point_of(pools, i, pools.moves)
        gap = products_after(at, move, length)
        total += gap
        weighted += sample_weight[i] * gap
    return total, weighted


@leaf
def advance_points(pools, length):
    """Take the step."""
    for i in range(pools.sides.shape[0]):
        at, move = _point_of(pools, i, pools.points), _point_of(pools, i, pools.moves)
        advance_point(at, move, length)


@leaf
def certify(structure, rows, sample_weight, weights, pools, work, blocks):
    """Write all mu, made doubly stochastic, as whole blocks.

    Returns sums over examples: of upper bounds on the surrogate, of the concave parts of mu, and
    of the widths of the brackets.
    """
    surrogate, concave, error = 0.0, 0.0, 0.0
    for i in range(pools.sides.shape[0]):
        n = pools.sides[i]
        size = n * n
        at = _point_of(pools, i, pools.points)
        scores, nu, other, rest = (
            work[:size],
            work[size : 2 * size],
            work[2 * size : 3 * size],
            work[3 * size :],
        )
        mu = blocks[pools.parts[i] : pools.parts[i] + size]
        copy(mu, at.mu)
        round_to_birkhoff(mu.reshape(n, n), rest)
        for k in range(size):
            nu[k] = n * at.high[k]
        round_to_birkhoff(nu.reshape(n, n), rest)
        generic.score_block(structure, rows, weights, i, scores)
        upper = upper_bound(scores, nu, n, other, rest)
        lower = lower_bound(scores, mu, n, rest)
        generic.embed_truth(structure, i, other)
        surrogate += sample_weight[i] * (upper - dot(scores, other))
        concave += sample_weight[i] * (lower - dot(scores, mu))
        error += sample_weight[i] * (upper - lower)
    return surrogate, concave, error
