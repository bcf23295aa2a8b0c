"""Max-min over trees: ``max_mu min_nu sum_d c_d (1 - <nu_d, mu_d>) + <scores, mu>``.

Both players mix trees; only the marginals of arcs matter. Given mu, the best nu is the best tree
for the arc scores ``c_d mu_dh``; given nu, the best mu is the best tree for ``scores - c_d nu_dh``:
so any pair gives a lower and an upper bound on the value by two argmaxes.

This is a matrix game with one row and one column per tree, solved by a *double oracle*: solve the
game over some trees of each player, add the best response of each player to the mixture of the
other, and stop when both bounds agree. It is exact as soon as no response is new.

References
----------
McMahan, Gordon, Blum. Planning in the presence of cost functions controlled by an adversary.
ICML 2003.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.arborescence import arborescence_work, best_tree, masked_table
from .._kernels.game import copy_predictor, solve_game
from .._kernels.jit import implements, leaf, seldom
from .._kernels.simplex import lower_envelope_step
from .._kernels.vector import add_scaled, copy, dot
from .arborescence import MOST_PIECES, MOST_TREES, Arborescence, words_of

# Width of the bracket, relative to the value, that is due to rounding.
_ROUNDING = 1e-13


@leaf
def _reply(structure, i, scores, keep, other, sign, work, heads):
    """Write the heads of the best tree for the arc scores ``keep scores + sign c_d other``."""
    m = words_of(structure, i)
    first = structure.indptr[i]
    size = m * (m + 1)
    table = work[:size].reshape(m, m + 1)
    masked_table(other, structure.allowed, structure.parts_indptr[i], table)
    for d in range(m):
        factor = sign * structure.costs[first + d]
        for h in range(m + 1):
            if table[d, h] > -np.inf:
                table[d, h] = keep * scores[d * (m + 1) + h] + factor * table[d, h]
    best_tree(table, structure.single_root, work[size:], heads)


@implements(generic.loss_floor, Arborescence)
def _loss_floor(structure, i, mu, work):
    m = words_of(structure, i)
    first = structure.indptr[i]
    heads = work[:m]
    _reply(structure, i, mu, 0.0, mu, 1.0, work[m:], heads)
    total = 0.0
    for d in range(m):
        total += structure.costs[first + d] * (1.0 - mu[d * (m + 1) + int(heads[d])])
    return total


@implements(generic.loss_floor_step, Arborescence)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    # The floor along a line is the minimum over trees of linear functions: find the best step for
    # the known pieces, and add the piece that is active at that step.
    m = words_of(structure, i)
    size = m * (m + 1)
    first = structure.indptr[i]
    start, change = work[:MOST_PIECES], work[MOST_PIECES : 2 * MOST_PIECES]
    work = work[2 * MOST_PIECES :]
    point, heads, rest = work[:size], work[size : size + m], work[size + m :]
    gamma, best, best_gamma = 0.0, -np.inf, 0.0
    for pieces in range(MOST_PIECES):
        copy(point, mu)
        add_scaled(point, direction, gamma)
        _reply(structure, i, point, 0.0, point, 1.0, rest, heads)
        start[pieces] = 0.0
        change[pieces] = 0.0
        for d in range(m):
            cost, part = structure.costs[first + d], d * (m + 1) + int(heads[d])
            start[pieces] += cost * (1.0 - mu[part])
            change[pieces] -= cost * direction[part]
        quadratic = gamma * slope - 0.5 * gamma * gamma * curvature
        value = start[pieces] + gamma * change[pieces] + quadratic
        if value > best:  # the first value is that of mu: the result is never worse
            best, best_gamma = value, gamma
        known = pieces + 1
        gamma = lower_envelope_step(start[:known], change[:known], slope, curvature)
        model = np.inf
        for k in range(known):
            model = min(model, start[k] + gamma * change[k])
        model += gamma * slope - 0.5 * gamma * gamma * curvature
        if model - best <= 1e-14:
            break
    return best_gamma


# --- double oracle ----------------------------------------------------------------------------


class _Game(NamedTuple):
    """The stored trees of both players, up to MOST_TREES each, and their losses and scores."""

    trees: np.ndarray  # (2, MOST_TREES, m): heads, first those of mu
    losses: np.ndarray  # (MOST_TREES, MOST_TREES): of a tree of nu when one of mu is true
    values: np.ndarray  # scores of the trees of mu
    shares: np.ndarray  # (2, MOST_TREES): the mixtures
    table: np.ndarray  # the losses of the trees in use, contiguous
    work: np.ndarray  # of the simplex method


@leaf
def _open_game(m, work):
    most = MOST_TREES
    trees, work = work[: 2 * most * m], work[2 * most * m :]
    losses, work = work[: most * most], work[most * most :]
    values, work = work[:most], work[most:]
    shares, work = work[: 2 * most], work[2 * most :]
    return _Game(
        trees.reshape(2, most, m),
        losses.reshape(most, most),
        values,
        shares.reshape(2, most),
        work[: most * most],
        work[most * most :],
    )


@leaf
def _learn(structure, i, scores, game, count, player, place, heads):
    """Store a tree of a player, with its losses against the trees of the other."""
    m = words_of(structure, i)
    first = structure.indptr[i]
    copy(game.trees[player, place], heads)
    for k in range(count):
        other = game.trees[1 - player, k]
        loss = 0.0
        for d in range(m):
            loss += structure.costs[first + d] if other[d] != heads[d] else 0.0
        if player == 0:
            game.losses[k, place] = loss
        else:
            game.losses[place, k] = loss
    if player == 0:
        value = 0.0
        for d in range(m):
            value += scores[d * (m + 1) + int(heads[d])]
        game.values[place] = value


@leaf
def _play(game, count):
    """The best mixtures of the stored trees of both players."""
    table = game.table[: count * count].reshape(count, count)
    for j in range(count):
        copy(table[j], game.losses[j, :count])
    solve_game(table, game.values[:count], game.work, game.shares[0, :count])
    copy_predictor(game.work, game.shares[1, :count])


@leaf
def _mix(game, count, player, out):
    """Marginals of a mixture."""
    m = game.trees.shape[2]
    out[:] = 0.0
    for k in range(count):
        share = game.shares[player, k]
        if share > 0.0:
            for d in range(m):
                out[d * (m + 1) + int(game.trees[player, k, d])] += share


@leaf
def _place_for(game, count, player):
    """Index for a new tree: the end, or that of a tree without a share; -1 if there is none."""
    if count < MOST_TREES:
        return count
    for k in range(count):
        if game.shares[player, k] == 0.0:
            return k
    return -1


@leaf
def _total(structure, i, scores, keep, other, sign, heads):
    """Value of a tree for the arc scores ``keep scores + sign c_d other``, and the costs."""
    m = words_of(structure, i)
    first = structure.indptr[i]
    total = 0.0
    for d in range(m):
        part = d * (m + 1) + int(heads[d])
        total += keep * scores[part] + structure.costs[first + d] * (1.0 + sign * other[part])
    return total


@leaf
def tree_double_oracle(structure, i, scores, iterations, accuracy, share, floor, work, mu):
    """Write the best mixture found; return an upper and a lower bound on the value.

    Parameters
    ----------
    iterations : int
        Each adds one tree per player.
    accuracy : float
        Stop when the bracket has this width,
    share, floor : float
        or this share of the difference of the upper bound and ``floor``.
    mu : array
        Receives marginals whose value is the lower bound.
    """
    m = words_of(structure, i)
    size = m * (m + 1)
    mine, other, rest = work[:size], work[size : 2 * size], work[2 * size :]
    heads, rest = rest[:m], rest[m:]
    game = _open_game(m, rest[size + arborescence_work(m) :])
    for k in range(MOST_TREES):
        game.shares[0, k] = 0.0
        game.shares[1, k] = 0.0
    _reply(structure, i, scores, 1.0, scores, 0.0, rest, heads)
    _learn(structure, i, scores, game, 0, 0, 0, heads)
    _learn(structure, i, scores, game, 1, 1, 0, heads)
    count = 1
    upper, lower = np.inf, -np.inf
    for _ in range(iterations):
        _play(game, count)
        _mix(game, count, 0, mine)
        _mix(game, count, 1, other)
        places = _place_for(game, count, 0), _place_for(game, count, 1)
        _reply(structure, i, scores, 1.0, other, -1.0, rest, heads)
        upper = min(upper, _total(structure, i, scores, 1.0, other, -1.0, heads))
        if places[0] >= 0:
            _learn(structure, i, scores, game, count, 0, places[0], heads)
        _reply(structure, i, scores, 0.0, mine, 1.0, rest, heads)
        below = dot(scores, mine) + _total(structure, i, scores, 0.0, mine, -1.0, heads)
        if below > lower:
            lower = below
            copy(mu, mine)
        enough = max(accuracy, _ROUNDING * (1.0 + abs(upper)), share * (upper - floor))
        if upper - lower <= enough or min(places[0], places[1]) < 0:
            break
        count = min(count + 1, MOST_TREES)
        _learn(structure, i, scores, game, count, 1, places[1], heads)
    return max(upper, lower), lower


@leaf
@seldom
def saddle_trees(structure, rows, weights, limits, trees, counts, scratch):
    """Trees that both players of every example mix at the saddle point that the double oracle finds
    at the weights.

    Parameters
    ----------
    limits : (int, float)
        Iterations and accuracy of the double oracle.
    trees : array of shape (n_examples, 2, MOST_TREES, longest)
        Receives the heads, first those of mu,
    counts : array of shape (n_examples, 2)
        and their number.
    """
    buffers, _, _, work = scratch
    for i in range(generic.n_blocks(structure)):
        m = words_of(structure, i)
        size = m * (m + 1)
        scores, mu = buffers[0, :size], buffers[1, :size]
        generic.score_block(structure, rows, weights, i, scores)
        tree_double_oracle(structure, i, scores, limits[0], limits[1], 0.0, 0.0, work, mu)
        game = _open_game(m, work[3 * size + m + arborescence_work(m) :])
        for player in range(2):
            count = 0
            for k in range(MOST_TREES):
                if game.shares[player, k] > 0.0:
                    for d in range(m):
                        trees[i, player, count, d] = int(game.trees[player, k, d])
                    count += 1
            counts[i, player] = count


@leaf
@seldom
def tree_features(structure, rows, i, heads, direction, out):
    """``out += Phi(x_i) (phi(y_i) - phi(heads))``; ``direction`` is scratch."""
    m = words_of(structure, i)
    direction = direction[: m * (m + 1)]
    direction[:] = 0.0
    for d in range(m):
        direction[d * (m + 1) + structure.truth[structure.indptr[i] + d]] += 1.0
        direction[d * (m + 1) + heads[d]] -= 1.0
    generic.add_block(structure, rows, out, i, direction, 1.0)
