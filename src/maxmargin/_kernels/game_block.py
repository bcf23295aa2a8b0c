"""Max-min with any loss matrix and a quadratic term: the exact block of the dual.

``max_mu min_j (L mu)_j + v @ mu - h/2 |mu - mu0|^2`` over the simplex, by an active-set method.
"""

from __future__ import annotations

import numpy as np

from .game import loss_floor_of
from .jit import leaf
from .simplex import lower_envelope_step

# Multipliers and moves below this, in units of the loss, count as zero.
_OPTIMAL = 1e-12
# Below this curvature, in units of the loss, mu would be inaccurate; the answer of the game is then
# within this distance of the maximum.
_LEAST_CURVATURE = 1e-6


@leaf
def _largest(matrix):
    largest = matrix[0, 0]
    for j in range(matrix.shape[0]):
        for z in range(matrix.shape[1]):
            largest = max(largest, matrix[j, z])
    return largest


@leaf
def _smallest(values):
    """Index of the smallest number."""
    found = 0
    for j in range(1, values.shape[0]):
        if values[j] < values[found]:
            found = j
    return found


@leaf
def _solve_linear(system):
    """Solve in place by elimination, the right side last; False where it is singular."""
    size = system.shape[0]
    for c in range(size):
        best = c
        for r in range(c + 1, size):
            if abs(system[r, c]) > abs(system[best, c]):
                best = r
        if abs(system[best, c]) < 1e-13:
            return False
        for k in range(c, size + 1):
            system[c, k], system[best, k] = system[best, k], system[c, k]
        for r in range(size):
            if r != c and system[r, c] != 0.0:
                factor = system[r, c] / system[c, c]
                for k in range(c, size + 1):
                    system[r, k] -= factor * system[c, k]
    for r in range(size):
        system[r, size] /= system[r, r]
    return True


@leaf
def _stationary(matrix, size, target, h, truths, n_truths, rows, n_rows, system):
    """Optimality conditions for given truths with mass and given rows that are equally good:
    multipliers nu of the rows, tau of the total mass, and h times the value of the rows.

    ``h mu_z = target_z + (nu' L)_z - tau``, the mass is 1, rows have equal values, nu sums to 1.
    """
    for a in range(n_rows):
        j = rows[a]
        for b in range(a, n_rows):
            total = 0.0
            for place in range(n_truths):
                z = truths[place]
                total += matrix[j, z] * matrix[rows[b], z]
            system[a, b] = total * size * size
            system[b, a] = system[a, b]
        along, pull = 0.0, 0.0
        for place in range(n_truths):
            z = truths[place]
            along += matrix[j, z] * size
            pull += matrix[j, z] * size * target[z]
        system[a, n_rows] = -along
        system[a, n_rows + 1] = -1.0
        system[a, n_rows + 2] = -pull
        system[n_rows, a] = along
        system[n_rows + 1, a] = 1.0
    mass = 0.0
    for place in range(n_truths):
        mass += target[truths[place]]
    system[n_rows, n_rows] = -n_truths
    system[n_rows, n_rows + 1] = 0.0
    system[n_rows, n_rows + 2] = h - mass
    system[n_rows + 1, n_rows] = 0.0
    system[n_rows + 1, n_rows + 1] = 0.0
    system[n_rows + 1, n_rows + 2] = 1.0
    return _solve_linear(system)


@leaf
def _expected(matrix, size, truths, n_truths, mu, out):
    """``out = size * matrix @ mu`` over the truths with mass."""
    for j in range(out.shape[0]):
        total = 0.0
        for place in range(n_truths):
            z = truths[place]
            total += matrix[j, z] * mu[z]
        out[j] = total * size


@leaf
def _remove(listed, count, item):
    for place in range(count):
        if listed[place] == item:
            listed[place] = listed[count - 1]
            return count - 1
    return count


@leaf
def _gain(matrix, size, target, rows, n_rows, system, z):
    """``target_z + (nu' L)_z - tau``: h times the mass that z should have, where it is positive."""
    last = n_rows + 2
    total = target[z] - system[n_rows, last]
    for a in range(n_rows):
        total += system[a, last] * matrix[rows[a], z] * size
    return total


@leaf
def _longest_step(mu, move, truths, n_truths, values, rate, tight, is_tight, noise):
    """Largest step of mu (at most 1), and what limits it: a truth z, a row j as ``n + j``, or -1.

    Moves below ``noise`` are rounding errors: a condition added for them would be linearly
    dependent.
    """
    n = mu.shape[0]
    gamma, stopped = 1.0, -1
    for place in range(n_truths):
        z = truths[place]
        if move[z] < -noise and mu[z] + gamma * move[z] < 0.0:
            gamma, stopped = mu[z] / -move[z], z
    for j in range(n):
        slack, fall = values[j] - values[tight], rate[tight] - rate[j]
        if is_tight[j] == 0 and fall > noise and slack < gamma * fall:
            gamma, stopped = max(slack, 0.0) / fall, n + j
    return gamma, stopped


@leaf
def _wrong_sign(matrix, size, target, is_free, rows, n_rows, system, tolerance):
    """The truth z without mass that should have some, or the row as ``n + j`` that should not be
    tight, whichever violates optimality more; -1 if none does."""
    n = target.shape[0]
    last = n_rows + 2
    worst, found = tolerance, -1
    for a in range(n_rows):
        if -system[a, last] > worst:
            worst, found = -system[a, last], n + rows[a]
    for z in range(n):
        if is_free[z] == 0:
            slope = _gain(matrix, size, target, rows, n_rows, system, z)
            if slope > worst:
                worst, found = slope, z
    return found


@leaf
def _best_between(matrix, scores, start, curvature, values, change, mu):
    """Move mu to the maximum on the line from ``start`` to it."""
    n = mu.shape[0]
    slope, squares = 0.0, 0.0
    for z in range(n):
        mu[z] -= start[z]
        slope += mu[z] * scores[z]
        squares += mu[z] * mu[z]
    for j in range(n):
        values[j] = 0.0
        change[j] = 0.0
        for z in range(n):
            values[j] += matrix[j, z] * start[z]
            change[j] += matrix[j, z] * mu[z]
    gamma = lower_envelope_step(values, change, slope, curvature * squares)
    for z in range(n):
        mu[z] = max(start[z] + gamma * mu[z], 0.0)


@leaf
def game_block(matrix, scores, start, curvature, work, mu):
    """Maximise ``min_j (L mu)_j + scores @ mu - curvature/2 |mu - start|^2`` over the simplex.

    A primal active-set method: the active set consists of the truths with mass and the rows that
    are equally good. A step moves to the maximum under these conditions, and adds or removes one.
    The objective never decreases, so that any iterate is a step of the dual. It starts at the best
    point between ``start`` and the answer of the game, which ``mu`` holds at first. Returns False
    if the objective has not increased, or where the curvature is too small for an accurate mu.
    """
    n = scores.shape[0]
    ints = work[: 4 * n].view(np.int64)
    truths, rows, is_free, is_tight = ints[:n], ints[n : 2 * n], ints[2 * n : 3 * n], ints[3 * n :]
    target, move = work[4 * n : 5 * n], work[5 * n : 6 * n]
    values, rate = work[6 * n : 7 * n], work[7 * n : 8 * n]
    scratch = work[8 * n :]
    # In units of the largest loss, relative to the best score: neither changes the solution.
    largest_loss = _largest(matrix)
    if curvature <= _LEAST_CURVATURE * largest_loss or largest_loss <= 0.0:
        return False
    size = 1.0 / largest_loss
    top = scores[0]
    for z in range(1, n):
        top = max(top, scores[z])
    h = curvature * size
    _best_between(matrix, scores, start, curvature, values, rate, mu)
    n_truths, largest = 0, 1.0
    for z in range(n):
        target[z] = (scores[z] - top) * size + h * start[z]
        is_tight[z] = 0
        is_free[z] = mu[z] > 0.0
        if mu[z] > 0.0:
            truths[n_truths] = z
            n_truths += 1
            largest = max(largest, abs(target[z]))
    noise = _OPTIMAL * (1.0 + largest / h)
    _expected(matrix, size, truths, n_truths, mu, values)
    rows[0] = _smallest(values)
    n_rows = 1
    is_tight[rows[0]] = 1
    for _ in range(20 + 4 * n):
        system = scratch[: (n_rows + 2) * (n_rows + 3)].reshape(n_rows + 2, n_rows + 3)
        if not _stationary(matrix, size, target, h, truths, n_truths, rows, n_rows, system):
            break
        for place in range(n_truths):
            z = truths[place]
            gain = _gain(matrix, size, target, rows, n_rows, system, z)
            move[z] = gain / h - mu[z]
        _expected(matrix, size, truths, n_truths, move, rate)
        gamma, stopped = _longest_step(
            mu, move, truths, n_truths, values, rate, rows[0], is_tight, noise
        )
        for place in range(n_truths):
            z = truths[place]
            mu[z] = max(mu[z] + gamma * move[z], 0.0)
        for j in range(n):
            values[j] += gamma * rate[j]
        if stopped < 0:
            wrong = _wrong_sign(
                matrix, size, target, is_free, rows, n_rows, system, _OPTIMAL * largest
            )
            if wrong < 0:
                break
            if wrong < n:
                truths[n_truths] = wrong
                n_truths += 1
                is_free[wrong] = 1
            else:
                n_rows = _remove(rows, n_rows, wrong - n)
                is_tight[wrong - n] = 0
        elif stopped < n:
            mu[stopped] = 0.0
            n_truths = _remove(truths, n_truths, stopped)
            is_free[stopped] = 0
        else:
            rows[n_rows] = stopped - n
            n_rows += 1
            is_tight[stopped - n] = 1
    return _finish_block(matrix, scores, top, start, curvature, mu)


@leaf
def _finish_block(matrix, scores, top, start, curvature, mu):
    """Make the mass exactly 1; returns whether the objective has increased."""
    n = mu.shape[0]
    mass = 0.0
    for z in range(n):
        mass += mu[z]
    gain = -loss_floor_of(matrix, start)
    for z in range(n):
        mu[z] /= mass
        moved = mu[z] - start[z]
        gain += moved * (scores[z] - top) - 0.5 * curvature * moved * moved
    gain += loss_floor_of(matrix, mu)
    return gain > 0.0
