"""Max-min over trees: ``max_mu min_nu sum_d c_d (1 - <nu_d, mu_d>) + <scores, mu>``.

Both players mix trees; only the marginals of arcs matter. Given mu, the best nu is the best tree
with arcs worth ``c_d mu_dh``; given nu, the best mu that with arcs worth ``scores - c_d nu_dh``: so
any pair gives a true bracket of the value by two argmaxes.

A saddle point is approached by mirror-prox in the entropy of distributions over trees: a step adds
to the natural parameters, and the matrix-tree theorem gives the marginals. Answers the averages.

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020, appendix G.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.arborescence import arborescence_work, best_tree, masked_table
from .._kernels.jit import implements, leaf
from .._kernels.matrix_tree import tree_marginals
from .._kernels.maxima import largest
from .._kernels.simplex import lower_envelope_step
from .._kernels.vector import add_scaled, copy, dot
from .arborescence import MOST_PIECES, Arborescence, words_of

# Where the next call begins, parameters are kept within this of the largest of their word.
_REACH = 30.0


@leaf
def _answer(structure, i, mu, work):
    """The best tree against mu: heads at the end of ``work``, after what the argmax needs."""
    m = words_of(structure, i)
    first = structure.indptr[i]
    size = m * (m + 1)
    table = work[:size].reshape(m, m + 1)
    masked_table(mu, structure.allowed, structure.parts_indptr[i], table)
    for d in range(m):
        cost = structure.costs[first + d]
        for h in range(m + 1):
            if table[d, h] > -np.inf:
                table[d, h] *= cost
    end = size + arborescence_work(m)
    best_tree(table, structure.single_root, work[size:end], work[end : end + m])


@implements(generic.loss_floor, Arborescence)
def _loss_floor(structure, i, mu, work):
    m = words_of(structure, i)
    first = structure.indptr[i]
    _answer(structure, i, mu, work)
    heads = work[m * (m + 1) + arborescence_work(m) :]
    total = 0.0
    for d in range(m):
        total += structure.costs[first + d] * (1.0 - mu[d * (m + 1) + int(heads[d])])
    return total


@implements(generic.loss_floor_step, Arborescence)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    # The floor along a line is the minimum over trees of linear functions: find the best step for
    # the pieces known, and ask at that step for the piece that matters there.
    m = words_of(structure, i)
    size = m * (m + 1)
    first = structure.indptr[i]
    start, change = work[:MOST_PIECES], work[MOST_PIECES : 2 * MOST_PIECES]
    point, rest = work[2 * MOST_PIECES : 2 * MOST_PIECES + size], work[2 * MOST_PIECES + size :]
    heads = rest[size + arborescence_work(m) :]
    gamma, best, best_gamma = 0.0, -np.inf, 0.0
    for pieces in range(MOST_PIECES):
        copy(point, mu)
        add_scaled(point, direction, gamma)
        _answer(structure, i, point, rest)
        start[pieces] = 0.0
        change[pieces] = 0.0
        for d in range(m):
            cost, part = structure.costs[first + d], d * (m + 1) + int(heads[d])
            start[pieces] += cost * (1.0 - mu[part])
            change[pieces] -= cost * direction[part]
        quadratic = gamma * slope - 0.5 * gamma * gamma * curvature
        value = start[pieces] + gamma * change[pieces] + quadratic
        if value > best:  # the first one is what mu has: it cannot get lost
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


# --- mirror-prox ------------------------------------------------------------------------------


@leaf
def _advance(structure, i, pair, scores, at, step, out):
    """A step from ``pair`` with what is seen at the marginals ``at``; forbidden arcs stay so."""
    m = words_of(structure, i)
    first = structure.indptr[i]
    size = m * (m + 1)
    for d in range(m):
        cost = structure.costs[first + d]
        for part in range(d * (m + 1), (d + 1) * (m + 1)):
            if pair[part] > -np.inf:
                out[part] = pair[part] + step * (scores[part] - cost * at[size + part])
                out[size + part] = pair[size + part] + step * cost * at[part]
            else:
                out[part] = -np.inf
                out[size + part] = -np.inf


@leaf
def _keep_small(m, parameters):
    """Shift the parameters of each word by a constant, which changes nothing, and raise those that
    are far below: arcs without mass must be able to come back."""
    for d in range(2 * m):
        row = parameters[d * (m + 1) : (d + 1) * (m + 1)]
        top = largest(row)
        for h in range(m + 1):
            if row[h] > -np.inf:
                row[h] = max(row[h] - top, -_REACH)


@leaf
def _bounds(structure, i, scores, pair, average, work):
    """What no mu can exceed, because of nu; and what mu is worth against its best answer."""
    m = words_of(structure, i)
    size = m * (m + 1)
    first = structure.indptr[i]
    mu, nu = average[:size], average[size:]
    table, end = work[:size], size + arborescence_work(m)
    heads = work[end : end + m]
    upper, lower = 0.0, dot(scores, mu)
    for player in range(2):
        for d in range(m):
            cost = structure.costs[first + d]
            for part in range(d * (m + 1), (d + 1) * (m + 1)):
                value = cost * mu[part] if player else scores[part] - cost * nu[part]
                table[part] = value if pair[part] > -np.inf else -np.inf
        best_tree(table.reshape(m, m + 1), structure.single_root, work[size:end], heads)
        for d in range(m):
            cost, part = structure.costs[first + d], d * (m + 1) + int(heads[d])
            if player:
                lower += cost * (1.0 - mu[part])
            else:
                upper += cost * (1.0 - nu[part]) + scores[part]
    return upper, lower


@leaf
def tree_mirror_prox(structure, i, scores, iterations, factor, pair, work, average):
    """Improve the natural parameters of mu and nu, in place, and answer their averages.

    Returns an upper and a lower bound of the value of the saddle point.

    Parameters
    ----------
    iterations : int
        Each takes two prox steps, both from ``pair``: to a point in between, and from what is seen
        there to the next one.
    factor : float
        Step length in units of one over the largest cost of a word.
    pair : array
        Parameters of mu, then of nu: two flat tables, minus infinity for forbidden arcs.
    average : array
        Receives the averages of mu and of nu at the points in between: two flat tables.
    """
    m = words_of(structure, i)
    size = m * (m + 1)
    at, to, rest = work[: 2 * size], work[2 * size : 4 * size], work[4 * size :]
    highest = largest(structure.costs[structure.indptr[i] : structure.indptr[i + 1]])
    step = factor / max(highest, 1e-12)
    average[:] = 0.0
    for half in range(2 * iterations):
        between = half % 2 == 1
        source = to if between else pair
        for first in range(0, 2 * size, size):
            tree_marginals(
                source[first : first + size].reshape(m, m + 1),
                structure.single_root,
                rest,
                at[first : first + size].reshape(m, m + 1),
            )
        if between:
            add_scaled(average, at, 1.0 / iterations)
        _advance(structure, i, pair, scores, at, step, pair if between else to)
    _keep_small(m, pair)
    return _bounds(structure, i, scores, pair, average, work)
