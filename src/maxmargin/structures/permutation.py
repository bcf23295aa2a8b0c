"""Permutations: ``y`` gives each of n rows a different column; rankings and matchings.

``phi(y)`` is the flat permutation matrix; the marginal polytope is the set of doubly stochastic
matrices. The loss is the share of rows with a wrong column, ``1 - <phi(y), phi(z)> / n``.

- *Ranking*: rows are items, columns positions; every entry has separate weights,
  ``score = W x`` with ``W`` of n^2 rows.
- *Matching*: the sides of an example are two sets of points; the pair of row a and column b has
  features ``psi_ab``, and all pairs share the weights, ``score_ab = w @ psi_ab``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.assignment import assign, forbid_others
from .._kernels.birkhoff import project_birkhoff
from .._kernels.birkhoff_game import birkhoff_game_work
from .._kernels.jit import implements, leaf
from .._kernels.permanent import permanent_work, permutation_marginals
from .._kernels.protocol import add_row
from .._kernels.saddle import (
    MirrorProx,
    Proximal,
    flat_best_weight,
    interior_pair,
    mirror_prox,
    proximal_pair,
    proximal_saddle,
    saddle_work,
    upper_bound,
)
from .._kernels.simplex import lower_envelope_step
from .._kernels.vector import add_scaled, copy, dot
from .traits import Traits

# Largest number of pieces of the loss floor in a line search.
_MOST_PIECES = 16
# Default number of iterations of the max-min oracle.
_ITERATIONS = 10
_ACCURACY = 1e-9
# The block of a matching is maximised exactly with at most this number of features per row.
_MOST_FEATURES = 4
# Accuracy of that maximum, as a share of the gap, and its smallest value.
_STEP_SHARE = 1e-6
_ROUNDING = 1e-12


_NO_ENTROPY = {
    "crf": "the entropy of given marginals, which permutations do not have in closed form "
    "(solver='auto' or 'lbfgs' needs none)"
}


class Ranking(NamedTuple):
    """Packed rankings: ``truth[i * n_items + item]`` is the position of an item."""

    truth: np.ndarray
    indptr: np.ndarray
    n_items: int

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(saddle="pairs", order="active", no_oracle=_NO_ENTROPY)

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: inputs by pairs of item and position."""
        return n_inputs * self.n_items**2

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return repr((len(self.indptr), self.n_items)).encode()


class Matching(NamedTuple):
    """Packed matchings: rows of features are pairs, in the order of the rows of each example.

    Example i has ``indptr[i+1] - indptr[i]`` points per side, and its pairs start at
    ``parts_indptr[i]``. ``curvature[i]`` is approximately the largest eigenvalue of the Gram matrix
    of its pairs, which determines the length of proximal steps.
    """

    truth: np.ndarray
    indptr: np.ndarray
    parts_indptr: np.ndarray
    n_items: int  # of the largest example
    curvature: np.ndarray

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(saddle="pairs", no_oracle=_NO_ENTROPY)

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: one weight per feature of a pair."""
        return n_inputs

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return self.indptr.tobytes()


_PERMUTATIONS = (Ranking, Matching)


# --- sizes ----------------------------------------------------------------------------------


@leaf
def _side(structure, i):
    """Number of rows, and of columns, of example i."""
    return structure.indptr[i + 1] - structure.indptr[i]


@implements(generic.block_size, _PERMUTATIONS)
def _block_size(structure, i):
    return _side(structure, i) ** 2


@implements(generic.largest_block, _PERMUTATIONS)
def _largest_block(structure):
    return structure.n_items**2


@implements(generic.most_labels, _PERMUTATIONS)
def _most_labels(structure):
    return structure.n_items


@implements(generic.most_parts, _PERMUTATIONS)
def _most_parts(structure):
    return structure.n_items


@implements(generic.work_size, Ranking)
def _work_size_ranking(structure, rows):
    return _work_for(structure.n_items)


@implements(generic.work_size, Matching)
def _work_size_matching(structure, rows):
    return _work_for(structure.n_items) + _factor_work(structure.n_items, rows.n_inputs)


@leaf
def _factor_work(n, n_inputs):
    """Scratch for the features of all pairs, and the exact maximum of a block with them."""
    if n_inputs > _MOST_FEATURES * n:
        return n_inputs
    return n * n * n_inputs + birkhoff_game_work(n, n_inputs)


@leaf
def _work_for(n):
    """Length of the scratch of an oracle, of a surrogate with it, and of a line search."""
    return max(saddle_work(n) + 6 * n * n + 2 * _MOST_PIECES, permanent_work(n))


# --- scores and weights ---------------------------------------------------------------------


# --- outputs --------------------------------------------------------------------------------


@implements(generic.decode, _PERMUTATIONS)
def _decode(structure, i, scores, work, labels):
    n = _side(structure, i)
    return assign(scores[: n * n].reshape(n, n), work, labels)


@implements(generic.fix_part, _PERMUTATIONS)
def _fix_part(structure, i, part, scores):
    forbid_others(part, _side(structure, i), scores)


@implements(generic.output_parts, _PERMUTATIONS)
def _output_parts(structure, i, labels, parts):
    n = labels.shape[0]
    for row in range(n):
        parts[row] = row * n + labels[row]
    return n


@implements(generic.embed, _PERMUTATIONS)
def _embed(structure, i, labels, out):
    n = labels.shape[0]
    out[:] = 0.0
    for row in range(n):
        out[row * n + labels[row]] = 1.0


@implements(generic.add_loss, _PERMUTATIONS)
def _add_loss(structure, i, out):
    n = _side(structure, i)
    first = structure.indptr[i]
    for row in range(n):
        true = structure.truth[first + row]
        for column in range(n):
            if column != true:
                out[row * n + column] += 1.0 / n


@implements(generic.expected_loss, _PERMUTATIONS)
def _expected_loss(structure, i, mu):
    n = _side(structure, i)
    first = structure.indptr[i]
    right = 0.0
    for row in range(n):
        right += mu[row * n + structure.truth[first + row]]
    return 1.0 - right / n


@implements(generic.linear_prox, Ranking)
def _linear_prox_ranking(structure, rows, i, scores, mu, scale, work, out):
    # max over the polytope of (scores + loss) @ m - h/2 |m - mu|^2, h = scale |x|^2
    n = structure.n_items
    curvature = scale * rows.squares[i]
    if curvature <= 0.0:
        return -np.inf
    target, rest = work[: n * n], work[n * n :]
    copy(target, scores)
    generic.add_loss(structure, i, target)
    gap = flat_best_weight(target, n, rest) - dot(target, mu)
    if gap > 0.0:
        for k in range(n * n):
            target[k] = mu[k] + target[k] / curvature
        project_birkhoff(target.reshape(n, n), rest, out.reshape(n, n))
    return gap


# --- max-min --------------------------------------------------------------------------------


@implements(generic.max_min, _PERMUTATIONS)
def _max_min(structure, i, scores, work, mu):
    n = _side(structure, i)
    nu = work[: n * n]
    mu[:] = 1.0 / n
    nu[:] = 1.0 / n
    return proximal_saddle(scores, _ITERATIONS, _ACCURACY, n, work[n * n :], mu, nu)


@implements(generic.max_min_prox, _PERMUTATIONS)
def _max_min_prox(structure, rows, i, scores, mu, scale, work, out):
    return False


@implements(generic.improve_pair, _PERMUTATIONS, Proximal)
def _improve_by_proximal_steps(structure, method, i, scores, mu, nu, work):
    n = _side(structure, i)
    return proximal_saddle(scores, method.iterations, method.accuracy, n, work, mu, nu)


@implements(generic.improve_pair, _PERMUTATIONS, MirrorProx)
def _improve_by_mirror_prox(structure, method, i, scores, mu, nu, work):
    n = _side(structure, i)
    return mirror_prox(scores, method.iterations, method.entropic, n, work, mu, nu)


@leaf
def _proximal_step(n, curvature, scores, mu, nu, work, out):
    """Upper bound, gap and regret of a proximal step from mu; writes ``out`` and nu."""
    value = 1.0 - flat_best_weight(mu, n, work) / n + dot(scores, mu)
    upper, regret = proximal_pair(mu, value, scores, curvature, n, work, nu, out)
    return upper - value, regret


@implements(generic.proximal_response, Ranking)
def _proximal_ranking(structure, rows, i, scores, mu, scale, stiffness, nu, work, out):
    n = structure.n_items
    curvature = scale * rows.squares[i]
    floor = 1e-4 / n
    gap, regret = _proximal_step(n, max(curvature, floor), scores, mu, nu, work, out)
    return gap, curvature >= floor and regret <= 1e-12


@implements(generic.proximal_response, Matching)
def _proximal_matching(structure, rows, i, scores, mu, scale, stiffness, nu, work, out):
    n = _side(structure, i)
    if rows.n_inputs <= _MOST_FEATURES * n:
        return _block_step(structure, rows, i, scores, mu, scale, nu, work, out), False
    curvature = max(stiffness * scale * structure.curvature[i], 1e-4 / n)
    gap, _ = _proximal_step(n, curvature, scores, mu, nu, work, out)
    return gap, False


@leaf
def _block_step(structure, rows, i, scores, mu, scale, nu, work, out):
    """Write the maximum of the block, and its nu; returns the gap at mu."""
    n, d = _side(structure, i), rows.n_inputs
    factor, rest = work[: n * n * d], work[n * n * d :]
    value = 1.0 - flat_best_weight(mu, n, rest) / n + dot(scores, mu)
    accuracy = max(_STEP_SHARE * (upper_bound(scores, nu, n, out, rest) - value), _ROUNDING)
    factor[:] = 0.0
    first, last = structure.parts_indptr[i], structure.parts_indptr[i + 1]
    one = rest[:1]
    one[0] = 1.0
    for pair in range(last - first):
        row = factor[pair * d : (pair + 1) * d].reshape(d, 1)
        add_row(rows, row, first + pair, one, np.sqrt(scale))
    table = factor.reshape(n * n, d)
    upper, _ = interior_pair(mu, scores, 0.0, table, accuracy, n, rest, nu, out)
    return upper - value


@implements(generic.loss_floor, _PERMUTATIONS)
def _loss_floor(structure, i, mu, work):
    n = _side(structure, i)
    return 1.0 - flat_best_weight(mu, n, work) / n


@implements(generic.loss_floor_step, _PERMUTATIONS)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    # The floor along a line is the minimum over permutations of linear functions: find the best
    # step for the known pieces, and add the piece that is active at that step.
    n = _side(structure, i)
    start, change = work[:_MOST_PIECES], work[_MOST_PIECES : 2 * _MOST_PIECES]
    point, rest = (
        work[2 * _MOST_PIECES : 2 * _MOST_PIECES + n * n],
        work[2 * _MOST_PIECES + n * n :],
    )
    columns = rest[6 * n : 7 * n]  # output of the assignment
    gamma, best, best_gamma = 1.0, -np.inf, 0.0
    for pieces in range(_MOST_PIECES):
        copy(point, mu)
        add_scaled(point, direction, gamma)
        weight = flat_best_weight(point, n, rest)
        at, along = 0.0, 0.0
        for row in range(n):
            part = row * n + int(columns[row])
            at += mu[part]
            along += direction[part]
        start[pieces] = 1.0 - at / n
        change[pieces] = -along / n
        value = 1.0 - weight / n + gamma * slope - 0.5 * gamma * gamma * curvature
        if value > best:
            best, best_gamma = value, gamma
        known = pieces + 1
        gamma = lower_envelope_step(start[:known], change[:known], slope, curvature)
        model = np.inf
        for k in range(known):
            model = min(model, start[k] + gamma * change[k])
        model += gamma * slope - 0.5 * gamma * gamma * curvature
        if model - best <= 1e-14:
            break
    # If the search ends before all pieces are known, the value must not be below that of mu.
    if best < 1.0 - flat_best_weight(mu, n, rest) / n:
        return 0.0
    return best_gamma


# --- crf ------------------------------------------------------------------------------------


@implements(generic.gibbs, _PERMUTATIONS)
def _gibbs(structure, i, scores, work, mu):
    n = _side(structure, i)
    return permutation_marginals(scores.reshape(n, n), work, mu.reshape(n, n))


# --- second derivatives with respect to the weights ----------------------------------------


@leaf
def _take_row(rows, row, one, out):
    """Write the features of a row."""
    out[:] = 0.0
    one[0] = 1.0
    add_row(rows, out.reshape(out.shape[0], 1), row, one, 1.0)


@implements(generic.add_curvature, Ranking)
def _add_curvature_ranking(structure, rows, i, response, scale, work, hessian):
    d, size = rows.n_inputs, response.shape[0]
    x, line = work[:d], work[d : d + d * size]
    _take_row(rows, i, line[:1], x)
    for k in range(size):
        for b in range(d):
            part = line[b * size : (b + 1) * size]
            part[:] = 0.0
            add_scaled(part, response[k], x[b])
        for a in range(d):
            if x[a] != 0.0:
                add_scaled(hessian[a * size + k, a * size :], line[a * size :], scale * x[a])


@implements(generic.add_curvature, Matching)
def _add_curvature_matching(structure, rows, i, response, scale, work, hessian):
    d, size = rows.n_inputs, response.shape[0]
    first = structure.parts_indptr[i]
    table = work[: size * d].reshape(size, d)
    moved, one = work[size * d : size * d + d], work[size * d + d : size * d + d + 1]
    for k in range(size):
        _take_row(rows, first + k, one, table[k])
    for k in range(size):
        moved[:] = 0.0
        for m in range(size):
            add_scaled(moved, table[m], scale * response[k, m])
        for a in range(d):
            if table[k, a] != 0.0:
                add_scaled(hessian[a, a:], moved[a:], table[k, a])
