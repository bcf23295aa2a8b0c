"""Max-min over the simplex for any loss matrix L (rows predicted, columns true): a matrix game.

``max_mu min_j sum_z (L[j, z] + v_z) mu_z``: the adversary mixes truths z, the predictor answers
with a row j. Solved exactly by the simplex method, in scratch memory of the caller.
"""

from __future__ import annotations

import numpy as np

from .jit import leaf

# Coefficients of the tableau are between 1 and 2 at the start: below these they are zero.
_TINY = 1e-11
_IMPROVES = 1e-13


@leaf
def game_work(n):
    """Length of the scratch for n classes, here and for the block."""
    return (n + 3) * (n + 3) + 8 * (n + 3)


@leaf
def _undominated(matrix, scores, kept):
    """List the columns that may have mass; the single best column comes first.

    A column whose best row is no better than the worst row of another is dominated. The scores of
    the others differ by at most the size of the losses, for scores of any size.
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


@leaf
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


@leaf
def _leaving(tableau, column, row_names, by_name):
    """The row that limits the variable of a column, or -1; with ``by_name``, ties go to the first
    name."""
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
            elif found >= 0 and ratio == lowest:  # the larger pivot is more accurate
                better = tableau[r, column] > tableau[found, column]
            if better:
                lowest = ratio
                found = r
    return found


@leaf
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


@leaf
def _simplex(tableau, row_names, column_names):
    """Pivot to the optimum: the steepest column first; by name after too many steps."""
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


@leaf
def loss_floor_of(matrix, mu):
    """``min_j (matrix @ mu)_j``."""
    n = mu.shape[0]
    lowest = np.inf
    for j in range(n):
        total = 0.0
        for z in range(n):
            total += matrix[j, z] * mu[z]
        lowest = min(lowest, total)
    return lowest


@leaf
def copy_predictor(work, nu):
    """Copy the best nu from the scratch of :func:`solve_game`."""
    n = nu.shape[0]
    for j in range(n):
        nu[j] = work[3 * n + j]


@leaf
def solve_game(matrix, scores, work, mu):
    """Write the best mu; return bounds on the value, from the answers of both players.

    The program of the predictor, ``max sum y`` where ``sum_j y_j (L[j, z] + v_z + shift) <= 1`` for
    all z and ``y >= 0``, starts at y = 0. Its solution is proportional to the best nu, its
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


@leaf
def _best_row(matrix, z):
    best = 0
    for j in range(1, matrix.shape[0]):
        if matrix[j, z] < matrix[best, z]:
            best = j
    return best


@leaf
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


@leaf
def _bounds(matrix, scores, top, mu, nu):
    """Value that mu guarantees to the adversary, and that nu guarantees to the predictor."""
    n = scores.shape[0]
    lower = loss_floor_of(matrix, mu)
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
