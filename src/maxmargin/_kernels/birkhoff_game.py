"""Max-min over doubly stochastic matrices with a quadratic term, by an interior-point method.

    max_mu min_nu 1 - <nu, mu> / n + <scores, mu> - 1/2 (c |mu - centre|^2 + |F' (mu - centre)|^2)

Both players mix permutations. The best assignment under mu has dual potentials p of the rows and q
of the columns, so this is the quadratic program

    max 1 - (sum p + sum q) / n + <scores, mu> - ...   with  mu_ij <= p_i + q_j,  mu >= 0

and rows and columns of mu that sum to one (multipliers u, w). The multipliers of ``mu_ij <= p_i +
q_j`` are nu / n. A Newton step eliminates mu: 4 n unknowns remain, and one per column of F, in a
symmetric quasidefinite system (positive definite in some unknowns, negative definite in the
others), so that elimination needs no pivoting. Predictor and corrector steps are those of Mehrotra;
every iterate is feasible for both players from the start, up to rounding.

References
----------
Mehrotra. On the implementation of a primal-dual interior point method. SIAM J. Optimization 1992.
Vanderbei. Symmetric quasidefinite matrices. SIAM J. Optimization 1995.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .assignment import assignment_work, best_weight
from .jit import leaf
from .vector import add_scaled, copy, dot

_MOST_STEPS = 60
# Largest length of a step, as a share of the distance to the boundary.
TO_BOUNDARY = 0.995
# Steps shorter than this, and those that do not shrink a gap below this, are rounding errors.
SHORTEST = 1e-6
# A pivot smaller than this share of its value before elimination counts as zero, and is replaced.
# Where the step is then useless, it is computed again, without second-order terms and with the next
# share; from the attempt _DURING on, a share of the largest value during elimination.
_LOST = (1e-13, 1e-13, 1e-15, 1e-15, 1e-17, 1e-19)
_DURING = 3
_STAY = 1e100
NEAR_END = 1e-9
# Error of a sum of marginals that is repaired without a noticeable change.
_ROUGH = 1e-11


class Point(NamedTuple):
    """An iterate, or a change of one; matrices are flat."""

    mu: np.ndarray
    slack: np.ndarray  # p_i + q_j - mu_ij
    low: np.ndarray  # multipliers of mu >= 0
    high: np.ndarray  # multipliers of slack >= 0: nu / n
    u: np.ndarray
    p: np.ndarray
    w: np.ndarray
    q: np.ndarray


class Newton(NamedTuple):
    """The system of a step, and the terms of its right side; matrices are flat."""

    pull: np.ndarray  # r: change of the gradient to which mu responds
    share: np.ndarray  # e: change of nu / n if nothing else changes
    stiffness: np.ndarray  # 1 / theta
    moved: np.ndarray  # F' (mu - centre)
    right: np.ndarray
    system: np.ndarray


@leaf
def point_size(n):
    """Length of the array of a :class:`Point`."""
    return 4 * n * n + 4 * n


@leaf
def system_size(n, n_columns):
    """Length of the array of the system of a Newton step."""
    return (4 * n + n_columns) * (4 * n + n_columns)


@leaf
def newton_work(n, n_columns):
    """Length of the array of a :class:`Newton` without the system."""
    return 3 * n * n + 4 * n + 2 * n_columns


@leaf
def birkhoff_game_work(n, n_columns):
    """Length of the scratch vector of :func:`birkhoff_game`."""
    system = system_size(n, n_columns) + assignment_work(n)
    return 2 * point_size(n) + 2 * n * n + system + newton_work(n, n_columns)


@leaf
def point_at(n, work):
    size = n * n
    ends = work[4 * size :]
    return Point(
        work[:size],
        work[size : 2 * size],
        work[2 * size : 3 * size],
        work[3 * size : 4 * size],
        ends[:n],
        ends[n : 2 * n],
        ends[2 * n : 3 * n],
        ends[3 * n : 4 * n],
    )


@leaf
def newton_at(n, d, system, work):
    """Views for the system of a step and its terms."""
    size, most = n * n, 4 * n + d
    return Newton(
        work[:size],
        work[size : 2 * size],
        work[2 * size : 3 * size],
        work[3 * size : 3 * size + d],
        work[3 * size + d : 3 * size + d + most],
        system[: most * most].reshape(most, most),
    )


@leaf
def _gradient(scores, centre, curvature, factor, mu, moved, out):
    """``scores - c (mu - centre) - F F' (mu - centre)``."""
    size = mu.shape[0]
    moved[:] = 0.0
    if moved.shape[0] > 0:
        for k in range(size):
            add_scaled(moved, factor[k], mu[k] - centre[k])
    for k in range(size):
        out[k] = scores[k] - curvature * (mu[k] - centre[k])
    if moved.shape[0] > 0:
        for k in range(size):
            out[k] -= dot(factor[k], moved)


@leaf
def open_point(at, gradient, work):
    """Complete an iterate with positive mu to a strictly feasible one."""
    n = at.u.shape[0]
    best_weight(gradient.reshape(n, n), work)
    top = 0.0
    for k in range(n * n):
        top = max(top, at.mu[k])
    for i in range(n):
        at.u[i] = work[i]
        at.w[i] = work[n + i]
        at.p[i] = 0.5 * (top + 1.0 / n)
        at.q[i] = 0.5 * (top + 1.0 / n)
    for i in range(n):
        for j in range(n):
            k = i * n + j
            at.slack[k] = top + 1.0 / n - at.mu[k]
            at.high[k] = 1.0 / (n * n)
            at.low[k] = max(at.u[i] + at.w[j] - gradient[k], 0.0) + 1.0 / (n * n)


@leaf
def _assemble(factor, at, curvature, newton):
    """Write the system of a Newton step, above its diagonal: unknowns u_i, p_i, then w_j, q_j, then
    the change of F' mu."""
    n, d = at.u.shape[0], newton.moved.shape[0]
    system = newton.system
    system[:] = 0.0
    for k in range(d):
        system[4 * n + k, 4 * n + k] = 1.0
    for i in range(n):
        u, p = 2 * i, 2 * i + 1
        for j in range(n):
            k = i * n + j
            w, q = 2 * n + 2 * j, 2 * n + 2 * j + 1
            theta = 1.0 / newton.stiffness[k]
            beta = at.high[k] / at.slack[k]
            cross = -theta * beta
            # beta (1 - beta theta), without the difference of large and nearly equal terms.
            own = -cross * (curvature + at.low[k] / at.mu[k])
            system[u, u] += theta
            system[w, w] += theta
            system[u, w] = theta
            system[u, p] += cross
            system[w, q] += cross
            system[u, q] = cross
            system[p, w] = cross
            system[p, p] -= own
            system[q, q] -= own
            system[p, q] = -own
            if d > 0:
                row = factor[k]
                add_scaled(system[u, 4 * n :], row, theta)
                add_scaled(system[w, 4 * n :], row, theta)
                add_scaled(system[p, 4 * n :], row, cross)
                add_scaled(system[q, 4 * n :], row, cross)
                for a in range(d):
                    add_scaled(system[4 * n + a, 4 * n + a :], row[a:], theta * row[a])
    # A constant added to all u and subtracted from all w has no effect: the last w and q are fixed.
    for fixed in (4 * n - 2, 4 * n - 1):
        for k in range(fixed):
            system[k, fixed] = 0.0
        system[fixed, fixed:] = 0.0
        system[fixed, fixed] = 1.0


@leaf
def _factorize(system, attempt, largest):
    """Eliminate in place, above the diagonal: row k keeps pivot and multipliers times the pivot.

    Near the end rows and columns form groups that are nearly independent. The effect of a shift of
    the potentials of a group is then below rounding: its pivot counts as zero, and the unknown is
    not changed. ``largest`` is scratch for the diagonal.
    """
    size = system.shape[0]
    for k in range(size):
        largest[k] = abs(system[k, k])
    for k in range(size):
        row = system[k]
        if not abs(row[k]) > _LOST[attempt] * largest[k]:
            row[k] = _STAY
            row[k + 1 :] = 0.0
            continue
        inverse = 1.0 / row[k]
        for i in range(k + 1, size):
            if row[i] != 0.0:
                add_scaled(system[i, i:], row[i:], -row[i] * inverse)
                if attempt >= _DURING:
                    largest[i] = max(largest[i], abs(system[i, i]))


@leaf
def factorize_newton(factor, at, curvature, newton, attempt):
    """Prepare Newton steps at a point."""
    for k in range(at.mu.shape[0]):
        newton.stiffness[k] = curvature + at.low[k] / at.mu[k] + at.high[k] / at.slack[k]
    _assemble(factor, at, curvature, newton)
    _factorize(newton.system, attempt, newton.right)


@leaf
def solve_factored(system, right):
    """Solve in place with the result of :func:`_factorize`."""
    size = system.shape[0]
    for k in range(size):
        right[k] /= system[k, k]
        add_scaled(right[k + 1 :], system[k, k + 1 :], -right[k])
    for k in range(size - 2, -1, -1):
        right[k] -= dot(system[k, k + 1 :], right[k + 1 :]) / system[k, k]


@leaf
def right_side(factor, at, newton, goal, second, move):
    """Write the right side of the system, towards products ``goal`` of each bound and multiplier.

    ``newton.pull`` holds the gradient, and receives the change to which mu responds. ``second``:
    whether ``move`` is a direction whose second-order terms are corrected.
    """
    n, d = at.u.shape[0], newton.moved.shape[0]
    right = newton.right
    right[:] = 0.0
    for i in range(n):
        for j in range(n):
            k = i * n + j
            below, above = goal, goal
            if second:
                below -= move.mu[k] * move.low[k]
                above -= move.slack[k] * move.high[k]
            beta = at.high[k] / at.slack[k]
            missing = at.p[i] + at.q[j] - at.mu[k] - at.slack[k]
            share = above / at.slack[k] - at.high[k] - beta * missing
            newton.share[k] = share
            newton.pull[k] += below / at.mu[k] - at.high[k] - share - at.u[i] - at.w[j]
            answer = newton.pull[k] / newton.stiffness[k]
            right[2 * i] += at.mu[k] + answer
            right[2 * n + 2 * j] += at.mu[k] + answer
            right[2 * i + 1] -= at.high[k] + share + beta * answer
            right[2 * n + 2 * j + 1] -= at.high[k] + share + beta * answer
            if d > 0:
                add_scaled(right[4 * n :], factor[k], answer)
    for i in range(n):
        right[2 * i] -= 1.0
        right[2 * n + 2 * i] -= 1.0
        right[2 * i + 1] += 1.0 / n
        right[2 * n + 2 * i + 1] += 1.0 / n
    right[4 * n - 2] = 0.0
    right[4 * n - 1] = 0.0


@leaf
def answer_of_mu(factor, at, newton, out):
    """The change of mu that belongs to a solution of the system."""
    n, d = at.u.shape[0], newton.moved.shape[0]
    right = newton.right
    for i in range(n):
        for j in range(n):
            k = i * n + j
            raised = right[2 * i + 1] + right[2 * n + 2 * j + 1]
            pull = newton.pull[k] + at.high[k] / at.slack[k] * raised
            pull -= right[2 * i] + right[2 * n + 2 * j]
            if d > 0:
                pull -= dot(factor[k], right[4 * n :])
            out[k] = pull / newton.stiffness[k]


@leaf
def _complete(at, newton, goal, second, answer, move):
    """The whole direction, from the change of mu."""
    n = at.u.shape[0]
    right = newton.right
    for i in range(n):
        move.u[i] = right[2 * i]
        move.p[i] = right[2 * i + 1]
        move.w[i] = right[2 * n + 2 * i]
        move.q[i] = right[2 * n + 2 * i + 1]
    for i in range(n):
        for j in range(n):
            k = i * n + j
            below = goal - move.mu[k] * move.low[k] if second else goal
            missing = at.p[i] + at.q[j] - at.mu[k] - at.slack[k]
            raised = move.p[i] + move.q[j] - answer[k]
            move.mu[k] = answer[k]
            move.slack[k] = raised + missing
            move.high[k] = newton.share[k] - at.high[k] / at.slack[k] * raised
            move.low[k] = (below - at.low[k] * answer[k]) / at.mu[k] - at.low[k]


@leaf
def newton_direction(factor, at, newton, goal, second, answer, move):
    """Newton direction with the result of :func:`_factorize`; changes ``newton.pull``."""
    right_side(factor, at, newton, goal, second, move)
    solve_factored(newton.system, newton.right)
    answer_of_mu(factor, at, newton, answer)
    _complete(at, newton, goal, second, answer, move)


@leaf
def response_matrix(at, newton, rows, out):
    """Derivative of the answer of mu with respect to the gradient: a symmetric (n n, n n) matrix.

    It is ``theta - J S^-1 J'`` with the factorised system S, without a factor. ``rows`` holds
    2 (n n)(4 n) numbers.
    """
    n = at.u.shape[0]
    size, most = n * n, 4 * n
    halves = rows[: size * most].reshape(size, most)
    scaled = rows[size * most : 2 * size * most].reshape(size, most)
    system = newton.system
    for i in range(n):
        for j in range(n):
            k = i * n + j
            half = halves[k]
            theta = 1.0 / newton.stiffness[k]
            cross = -theta * at.high[k] / at.slack[k]
            half[:] = 0.0
            half[2 * i] = theta
            half[2 * i + 1] = cross
            if j < n - 1:
                half[2 * n + 2 * j] = theta
                half[2 * n + 2 * j + 1] = cross
            for r in range(2 * i, most):
                if half[r] != 0.0:
                    share = half[r] / system[r, r]
                    scaled[k, r] = share
                    add_scaled(half[r + 1 :], system[r, r + 1 :], -share)
                else:
                    scaled[k, r] = 0.0
            scaled[k, : 2 * i] = 0.0
    for k in range(size):
        for m in range(k, size):
            out[k, m] = -dot(halves[k], scaled[m])
            out[m, k] = out[k, m]
        out[k, k] += 1.0 / newton.stiffness[k]


@leaf
def longest_step(at, move):
    """Largest step length within all bounds, at most 1."""
    length = 1.0
    for k in range(at.mu.shape[0]):
        if move.mu[k] < 0.0:
            length = min(length, -at.mu[k] / move.mu[k])
        if move.slack[k] < 0.0:
            length = min(length, -at.slack[k] / move.slack[k])
        if move.low[k] < 0.0:
            length = min(length, -at.low[k] / move.low[k])
        if move.high[k] < 0.0:
            length = min(length, -at.high[k] / move.high[k])
    return length


@leaf
def products_after(at, move, length):
    """Sum of the products of bounds and multipliers after a step: the gap between the players."""
    total = 0.0
    for k in range(at.mu.shape[0]):
        mu, low = at.mu[k] + length * move.mu[k], at.low[k] + length * move.low[k]
        slack, high = at.slack[k] + length * move.slack[k], at.high[k] + length * move.high[k]
        total += mu * low + slack * high
    return total


@leaf
def sums_after(at, move, length):
    """Largest error of the sum of a row or column after a step, in mu and in nu."""
    n = at.u.shape[0]
    error = 0.0
    for i in range(n):
        row, column, other_row, other_column = -1.0, -1.0, -1.0, -1.0
        for j in range(n):
            k, m = i * n + j, j * n + i
            row += at.mu[k] + length * move.mu[k]
            column += at.mu[m] + length * move.mu[m]
            other_row += n * (at.high[k] + length * move.high[k])
            other_column += n * (at.high[m] + length * move.high[m])
        error = max(error, abs(row), abs(column), abs(other_row), abs(other_column))
    return error


@leaf
def centring(left):
    """Target share of the mean product, if the predictor leaves the share ``left`` of the gap.

    A step closes at most TO_BOUNDARY of the gap; a smaller target would only make some products far
    smaller than others, and the next system singular.
    """
    return max(left**3, 1.0 - TO_BOUNDARY)


@leaf
def advance_point(at, move, length):
    add_scaled(at.mu, move.mu, length)
    add_scaled(at.slack, move.slack, length)
    add_scaled(at.low, move.low, length)
    add_scaled(at.high, move.high, length)
    add_scaled(at.u, move.u, length)
    add_scaled(at.p, move.p, length)
    add_scaled(at.w, move.w, length)
    add_scaled(at.q, move.q, length)


@leaf
def birkhoff_game(scores, centre, curvature, factor, accuracy, n, work, mu, nu):
    """Write a pair of mixtures whose values differ by about ``accuracy``; both are doubly
    stochastic up to rounding.

    Parameters
    ----------
    centre, curvature, factor : array, float, (n * n, d) array
        Parameters of the quadratic term: centre, c and F; without a term, c is 0 and F has no
        columns.
    work : array
        Scratch of length ``birkhoff_game_work(n, d)``.

    Returns
    -------
    float
        The gap between the players when the method stopped.
    """
    size, d = n * n, factor.shape[1]
    at = point_at(n, work)
    move = point_at(n, work[point_size(n) :])
    rest = work[2 * point_size(n) :]
    gradient, answer, rest = rest[:size], rest[size : 2 * size], rest[2 * size :]
    newton = newton_at(n, d, rest, rest[system_size(n, d) :])
    at.mu[:] = 1.0 / n
    _gradient(scores, centre, curvature, factor, at.mu, newton.moved, gradient)
    open_point(at, gradient, rest)
    gap = products_after(at, at, 0.0)
    attempt = 0
    for _ in range(_MOST_STEPS):
        if not gap > accuracy or attempt == len(_LOST):
            break
        factorize_newton(factor, at, curvature, newton, attempt)
        copy(newton.pull, gradient)
        newton_direction(factor, at, newton, 0.0, False, answer, move)
        after = products_after(at, move, longest_step(at, move))
        goal = centring(after / gap) * gap / (2.0 * size)
        copy(newton.pull, gradient)
        newton_direction(factor, at, newton, goal, attempt == 0, answer, move)
        length = min(1.0, TO_BOUNDARY * longest_step(at, move))
        after = products_after(at, move, length)
        # A quadratic term may increase the gap, but not near the end.
        may_grow = attempt == len(_LOST) - 1 and gap >= NEAR_END
        attempt += 1
        if not length >= SHORTEST or not (after < gap or may_grow):
            continue
        if sums_after(at, move, length) > max(0.1 * gap, _ROUGH):  # nearly singular
            continue
        attempt = 0
        advance_point(at, move, length)
        gap = after
        _gradient(scores, centre, curvature, factor, at.mu, newton.moved, gradient)
    for k in range(size):
        mu[k] = at.mu[k]
        nu[k] = n * at.high[k]
    return gap
