"""Max-min over the simplex for any loss matrix L (rows predicted, columns true): a matrix game.

``max_mu min_j sum_z (L[j, z] + v_z) mu_z``: nature mixes truths z, the predictor answers with a
row j. Solved exactly by the simplex method; with a quadratic term, the block of the dual, by an
active-set method. Both work in scratch that the caller brings.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled
from .simplex import lower_envelope_step

# Coefficients of the tableau are between 1 and 2 at the start: below these they are zero.
_TINY = 1e-11
_IMPROVES = 1e-13
# Multipliers of the block, in units of the loss.
_OPTIMAL = 1e-12
# Below this curvature, in units of the loss, mu would lose its digits; the answer of the game is
# then that close to the maximum.
_LEAST_CURVATURE = 1e-6


@compiled
def game_work(n):
    """Length of the scratch for n classes."""
    return (n + 3) * (n + 3) + 8 * (n + 3)


@compiled
def _undominated(matrix, scores, kept):
    """List the columns that may be worth something; the best of them alone comes first.

    A column whose best row is no better than the worst row of another adds nothing. What is left
    has scores within the size of the losses, however large scores are.
    """
    n = scores.shape[0]
    best = 0
    base = -np.inf
    for z in range(n):
        low = matrix[0, z]
        for j in range(1, n):
            low = min(low, matrix[j, z])
        if scores[z] + low > base:
            base = scores[z] + low
            best = z
    kept[0] = best
    count = 1
    for z in range(n):
        if z == best:
            continue
        for j in range(n):
            if matrix[j, z] > base - scores[z]:
                kept[count] = z
                count += 1
                break
    return count


@compiled
def _pivot(tableau, row, column):
    """Exchange the variables of a row and a column of a condensed tableau."""
    rows, columns = tableau.shape
    inverse = 1.0 / tableau[row, column]
    for c in range(columns):
        tableau[row, c] *= inverse
    tableau[row, column] = inverse
    for r in range(rows):
        factor = tableau[r, column]
        if r == row or factor == 0.0:
            continue
        for c in range(columns):
            tableau[r, c] -= factor * tableau[row, c]
        tableau[r, column] = -factor * inverse


@compiled
def _leaving(tableau, column, row_names, by_name):
    """The row that limits the variable of a column, or -1; by name among equals if asked."""
    rows = tableau.shape[0] - 1
    last = tableau.shape[1] - 1
    found = -1
    lowest = np.inf
    for r in range(rows):
        if tableau[r, column] > _TINY:
            ratio = tableau[r, last] / tableau[r, column]
            better = ratio < lowest
            if by_name and found >= 0 and abs(ratio - lowest) <= _IMPROVES * lowest:
                better = row_names[r] < row_names[found]
            elif found >= 0 and ratio == lowest:  # the larger pivot loses fewer digits
                better = tableau[r, column] > tableau[found, column]
            if better:
                lowest = ratio
                found = r
    return found


@compiled
def _entering(tableau, column_names, by_name):
    """The column that improves most, or the first one by name; -1 where the tableau is optimal."""
    bottom = tableau.shape[0] - 1
    found = -1
    for c in range(tableau.shape[1] - 1):
        if tableau[bottom, c] < -_IMPROVES:
            if found < 0:
                found = c
            elif by_name and column_names[c] < column_names[found]:
                found = c
            elif not by_name and tableau[bottom, c] < tableau[bottom, found]:
                found = c
    return found


@compiled
def _simplex(tableau, row_names, column_names):
    """Pivot to the optimum: the steepest column first, by name where that goes on for too long."""
    limit = tableau.shape[0] + tableau.shape[1]
    for step in range(20 * limit):
        by_name = step > 2 * limit  # Bland's rule, which cannot cycle
        column = _entering(tableau, column_names, by_name)
        if column < 0:
            return
        row = _leaving(tableau, column, row_names, by_name)
        if row < 0:
            return
        _pivot(tableau, row, column)
        row_names[row], column_names[column] = column_names[column], row_names[row]


@compiled
def _floor(matrix, mu):
    """``min_j (matrix @ mu)_j``."""
    n = mu.shape[0]
    lowest = np.inf
    for j in range(n):
        total = 0.0
        for z in range(n):
            total += matrix[j, z] * mu[z]
        lowest = min(lowest, total)
    return lowest


@compiled
def solve_game(matrix, scores, work, mu):
    """Write the best mu; return bounds of the value, from the answers of both players.

    The predictor's program, ``max sum y`` where ``sum_j y_j (L[j, z] + v_z + shift) <= 1`` for
    all z and ``y >= 0``, starts at y = 0. Its solution is in proportion to the best nu, its
    multipliers to mu; ``shift`` makes all coefficients positive, and a scale keeps them near 1.
    """
    n = scores.shape[0]
    kept, row_names = work[:n], work[n : 2 * n]
    column_names, nu = work[2 * n : 3 * n], work[3 * n : 4 * n]
    m = _undominated(matrix, scores, kept)
    top = scores[int(kept[0])]
    low, high = np.inf, -np.inf
    for place in range(m):
        z = int(kept[place])
        for j in range(n):
            low = min(low, matrix[j, z] + (scores[z] - top))
            high = max(high, matrix[j, z] + (scores[z] - top))
    size = high - low
    mu[:] = 0.0
    if m == 1 or not size > 0.0:
        mu[int(kept[0])] = 1.0
        best = _best_row(matrix, int(kept[0]))
        for j in range(n):
            nu[j] = 1.0 if j == best else 0.0
    else:
        tableau = work[4 * n : 4 * n + (m + 1) * (n + 1)].reshape(m + 1, n + 1)
        for place in range(m):
            z = int(kept[place])
            row_names[place] = n + place
            for j in range(n):
                tableau[place, j] = (matrix[j, z] + (scores[z] - top) - low) / size + 1.0
            tableau[place, n] = 1.0
        for j in range(n):
            column_names[j] = j
            tableau[m, j] = -1.0
        tableau[m, n] = 0.0
        _simplex(tableau, row_names, column_names)
        _read_players(tableau, row_names, column_names, kept, mu, nu)
    return _bounds(matrix, scores, top, mu, nu)


@compiled
def _best_row(matrix, z):
    best = 0
    for j in range(1, matrix.shape[0]):
        if matrix[j, z] < matrix[best, z]:
            best = j
    return best


@compiled
def _read_players(tableau, row_names, column_names, kept, mu, nu):
    """Both mixtures from a tableau: basic variables and multipliers, as shares."""
    m, n = tableau.shape[0] - 1, tableau.shape[1] - 1
    nu[:] = 0.0
    truths, answers = 0.0, 0.0
    for c in range(n):
        if column_names[c] >= n:
            share = max(tableau[m, c], 0.0)
            mu[int(kept[int(column_names[c]) - n])] = share
            truths += share
    for r in range(m):
        if row_names[r] < n:
            share = max(tableau[r, n], 0.0)
            nu[int(row_names[r])] = share
            answers += share
    for k in range(n):
        mu[k] /= truths
        nu[k] /= answers


@compiled
def _bounds(matrix, scores, top, mu, nu):
    """What mu guarantees to nature, and what nu guarantees to the predictor."""
    n = scores.shape[0]
    lower = _floor(matrix, mu)
    for z in range(n):
        if mu[z] != 0.0:
            lower += mu[z] * (scores[z] - top)
    upper = -np.inf
    for z in range(n):
        total = scores[z] - top
        for j in range(n):
            total += nu[j] * matrix[j, z]
        upper = max(upper, total)
    return max(upper, lower) + top, lower + top


# --- the block of the dual ------------------------------------------------------------------


@compiled
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


@compiled
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


@compiled
def _expected(matrix, size, truths, n_truths, mu, out):
    """``out = size * matrix @ mu`` over the truths with mass."""
    for j in range(out.shape[0]):
        total = 0.0
        for place in range(n_truths):
            z = truths[place]
            total += matrix[j, z] * mu[z]
        out[j] = total * size


@compiled
def _remove(listed, count, item):
    for place in range(count):
        if listed[place] == item:
            listed[place] = listed[count - 1]
            return count - 1
    return count


@compiled
def _longest_step(mu, move, truths, n_truths, slack, rate, is_tight, noise):
    """How far mu may move (at most 1), and what stops it: a truth z, a row j as ``n + j``, or -1.

    Moves below ``noise`` are rounding: a condition taken in for them would depend on others.
    """
    n = mu.shape[0]
    gamma, stopped = 1.0, -1
    for place in range(n_truths):
        z = truths[place]
        if move[z] < -noise and mu[z] + gamma * move[z] < 0.0:
            gamma, stopped = mu[z] / -move[z], z
    for j in range(n):
        if is_tight[j] == 0 and rate[j] < -noise and slack[j] + gamma * rate[j] < 0.0:
            gamma, stopped = max(slack[j], 0.0) / -rate[j], n + j
    return gamma, stopped


@compiled
def _wrong_sign(matrix, size, target, is_free, rows, n_rows, system, tolerance):
    """The truth z without mass that should have some, or the row as ``n + j`` that should not be
    tight, whichever is further off; -1 where all is optimal."""
    n = target.shape[0]
    last = n_rows + 2
    worst, found = tolerance, -1
    for a in range(n_rows):
        if -system[a, last] > worst:
            worst, found = -system[a, last], n + rows[a]
    for z in range(n):
        if is_free[z] == 1:
            continue
        slope = target[z] - system[n_rows, last]
        for a in range(n_rows):
            slope += system[a, last] * matrix[rows[a], z] * size
        if slope > worst:
            worst, found = slope, z
    return found


@compiled
def _best_between(matrix, scores, start, curvature, values, change, mu):
    """Move mu to the maximum on the way from ``start`` to it."""
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


@compiled
def game_block(matrix, scores, start, curvature, work, mu):
    """Maximise ``min_j (L mu)_j + scores @ mu - curvature/2 |mu - start|^2`` over the simplex.

    A primal active-set method: it knows the truths that have mass and the rows that are equally
    good, moves to the maximum under these conditions, and takes one condition in or out. The
    objective never falls, so that any iterate is a step of the dual. It sets out from the best
    point between ``start`` and the answer of the game, which ``mu`` holds at first. Returns False
    if nothing was gained, or where the curvature is too small for the digits of mu.
    """
    n = scores.shape[0]
    ints = work[: 4 * n].view(np.int64)
    truths, rows, is_free, is_tight = ints[:n], ints[n : 2 * n], ints[2 * n : 3 * n], ints[3 * n :]
    target, move = work[4 * n : 5 * n], work[5 * n : 6 * n]
    values, rate = work[6 * n : 7 * n], work[7 * n : 8 * n]
    scratch = work[8 * n :]
    # In units of the largest loss, and from the best score, which moves nothing.
    largest_loss = matrix.max()
    if curvature <= _LEAST_CURVATURE * largest_loss or largest_loss <= 0.0:
        return False
    size = 1.0 / largest_loss
    top = scores.max()
    h = curvature * size
    _best_between(matrix, scores, start, curvature, values, rate, mu)
    n_truths = 0
    largest = 1.0
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
    rows[0] = values.argmin()
    n_rows = 1
    is_tight[rows[0]] = 1
    for _ in range(20 + 4 * n):
        level = values[rows[0]]
        width = n_rows + 3
        system = scratch[: (n_rows + 2) * width].reshape(n_rows + 2, width)
        if not _stationary(matrix, size, target, h, truths, n_truths, rows, n_rows, system):
            break
        last = n_rows + 2
        for place in range(n_truths):
            z = truths[place]
            total = target[z] - system[n_rows, last]
            for a in range(n_rows):
                total += system[a, last] * matrix[rows[a], z] * size
            move[z] = total / h - mu[z]
        _expected(matrix, size, truths, n_truths, move, rate)
        rise = rate[rows[0]]
        for j in range(n):
            values[j] -= level
            rate[j] -= rise
        gamma, stopped = _longest_step(mu, move, truths, n_truths, values, rate, is_tight, noise)
        for place in range(n_truths):
            z = truths[place]
            mu[z] = max(mu[z] + gamma * move[z], 0.0)
        for j in range(n):
            values[j] += gamma * rate[j] + level + gamma * rise
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


@compiled
def _finish_block(matrix, scores, top, start, curvature, mu):
    """Make the mass exactly 1, and tell whether the objective has risen."""
    n = mu.shape[0]
    mass = 0.0
    for z in range(n):
        mass += mu[z]
    gain = -_floor(matrix, start)
    for z in range(n):
        mu[z] /= mass
        moved = mu[z] - start[z]
        gain += moved * (scores[z] - top) - 0.5 * curvature * moved * moved
    gain += _floor(matrix, mu)
    return gain > 0.0
