"""Steps towards vertices of the local polytope, for label sets with one weight per pair of labels.

An example has k binary labels with scores ``s_i`` (loss included) and a weight ``w_ij`` of both
labels being present, for all pairs:

    max  sum_i s_i mu_i + sum_{i<j} w_ij mu_ij,  max(0, mu_i + mu_j - 1) <= mu_ij <= min(mu_i, mu_j)

Vertices are half-integral: ``mu_i`` is 0, 1/2 or 1, and ``mu_ij`` follows from the sign of its
weight. With all other labels given, the best half of one label is known at once, so a local search
over halves takes about as long as the step towards its result. It starts from the last vertex of
the example, from the signs of the scores, and from 1/2 everywhere: there a label changes only if
its half is the same in some optimum (persistency). Some visits compute the optimum by a maximum
flow instead (:mod:`..inference.roof_duality`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import compiled, leaf, seldom
from ..._kernels.protocol import add_row, score_rows
from .._tighten_kernel import score_example
from ..inference.max_flow import make_network
from ..inference.roof_duality import half_labels, half_score, largest_shape

# Most sweeps of a local search over the labels.
_SWEEPS = 10


class PairMarginals(NamedTuple):
    """A feasible point of the dual: marginals of labels and of both labels of a pair, per example.

    ``vertices`` has twice the marginals of the vertex that an example moved towards last.
    """

    labels: np.ndarray
    pairs: np.ndarray
    vertices: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(sum(array.nbytes for array in self))


class Search(NamedTuple):
    """Scratch for an example with k labels, and the weights of pairs as a symmetric matrix."""

    matrix: np.ndarray
    scores: np.ndarray  # shape (1, k)
    change: np.ndarray
    fields: np.ndarray  # score of a label with those that are on; halves with positive, negative w
    trial: np.ndarray
    found: np.ndarray
    towards: np.ndarray  # of the marginals of pairs
    unary: np.ndarray
    tables: np.ndarray
    fixed: np.ndarray


def make_search(k: int) -> Search:
    """Scratch for k labels."""
    n_pairs = k * (k - 1) // 2
    return Search(
        np.zeros((k, k)), np.empty((1, k)), np.empty(k), np.empty((3, k)), np.empty(k, np.int8),
        np.empty(k, np.int8), np.empty(n_pairs), np.empty(2 * k), np.zeros(4 * n_pairs),
        np.full(k, -1, np.int8),
    )  # fmt: skip


@leaf
def _add_to_fields(row, on, half, fields):
    """Change of all fields by that of one label, whose weights are given."""
    plain, more, less = fields[0], fields[1], fields[2]
    if on != 0.0:
        for j in range(row.shape[0]):
            plain[j] += on * row[j]
    if half != 0.0:
        for j in range(row.shape[0]):
            w = half * row[j]
            positive = w if row[j] > 0.0 else 0.0
            more[j] += positive
            less[j] += w - positive


@leaf
def _sum_fields(matrix, scores, halves, fields):
    """Fields of all labels at some halves."""
    k = halves.shape[0]
    for i in range(k):
        fields[0, i], fields[1, i], fields[2, i] = scores[i], 0.0, 0.0
    for i in range(k):
        if halves[i] == 2:
            _add_to_fields(matrix[i], 1.0, 0.0, fields)
        elif halves[i] == 1:
            _add_to_fields(matrix[i], 0.0, 1.0, fields)


@leaf
def _search_locally(matrix, scores, halves, fields):
    """Improve halves one label at a time; returns the score."""
    k = halves.shape[0]
    _sum_fields(matrix, scores, halves, fields)
    for _ in range(_SWEEPS):
        moved = False
        for i in range(k):
            # The score is concave in the half, with these slopes below and above 1/2.
            below, above = fields[0, i] + fields[1, i], fields[0, i] + fields[2, i]
            best = 2 if above > 0.0 else (1 if below > 0.0 else 0)
            old = halves[i]
            if best == old:
                continue
            moved = True
            halves[i] = best
            on = (1.0 if best == 2 else 0.0) - (1.0 if old == 2 else 0.0)
            half = (1.0 if best == 1 else 0.0) - (1.0 if old == 1 else 0.0)
            _add_to_fields(matrix[i], on, half, fields)
        if not moved:
            break
    total = 0.0
    for i in range(k):
        if halves[i] == 2:
            total += 0.5 * (scores[i] + fields[0, i]) + 0.25 * (fields[1, i] + fields[2, i])
        elif halves[i] == 1:
            total += 0.25 * (scores[i] + fields[0, i] + fields[1, i])
    return total


@leaf
def _find_vertex(search, last):
    """Write the best result of the local searches to ``search.found``."""
    scores, found, trial = search.scores[0], search.found, search.trial
    k = found.shape[0]
    for i in range(k):
        found[i] = last[i]
    best = _search_locally(search.matrix, scores, found, search.fields)
    for start in range(2):
        for i in range(k):
            trial[i] = 1 if start == 1 else (2 if scores[i] > 0.0 else 0)
        value = _search_locally(search.matrix, scores, trial, search.fields)
        if value > best:
            best = value
            for i in range(k):
                found[i] = trial[i]


@leaf
def _find_optimum(plan, search, net):
    """Write an optimal vertex to ``search.found``, by a maximum flow."""
    k, p = search.found.shape[0], 0
    for i in range(k):
        search.unary[2 * i], search.unary[2 * i + 1] = 0.0, search.scores[0, i]
        for j in range(i + 1, k):
            search.tables[4 * p + 3] = search.matrix[i, j]
            p += 1
    half_labels(plan, 0, search.unary, search.tables, search.fixed, net, search.found)


@leaf
def _direct(search, labels, pairs, square):
    """Write the direction to the vertex found; returns its slope and its squared features."""
    slope, curvature, p = 0.0, 0.0, 0
    k = labels.shape[0]
    for i in range(k):
        move = 0.5 * search.found[i] - labels[i]
        search.change[i] = move
        slope += move * search.scores[0, i]
        curvature += square * move * move
    for i in range(k):
        mine = search.found[i]
        for j in range(i + 1, k):
            w, other = search.matrix[i, j], search.found[j]
            both = 0.25 * mine * other
            if mine == 1 and other == 1:
                both = 0.5 if w >= 0.0 else 0.0
            move = both - pairs[p]
            search.towards[p] = move
            slope += w * move
            curvature += move * move
            p += 1
    return slope, curvature


@leaf
def _move(search, labels, pairs, step, scale):
    """Move marginals along the direction by a step, and the weights of pairs with them."""
    k, p = labels.shape[0], 0
    for i in range(k):
        labels[i] += step * search.change[i]
        for j in range(i + 1, k):
            move = step * search.towards[p]
            pairs[p] += move
            w = search.matrix[i, j] - scale * move
            search.matrix[i, j] = search.matrix[j, i] = w
            p += 1


@leaf
def score_labels(data, matrix, m, k, scores):
    """Scores of all labels of an example, against their absence, with the loss added."""
    score_rows(data.rows, matrix, data.graphs.first_row[m], data.graphs.first_row[m] + 1, scores)
    for i in range(k):
        v = data.graphs.first_variable[m] + i
        scores[0, i] += data.costs[v] * (1.0 - 2.0 * data.truth[v])


@compiled
def vertex_steps(data, weights, dual, plan, order, gaps, exact, sums, search):
    """Visit the examples in ``order``; ``exact`` says which visits ask for the optimum.

    ``gaps`` gets the slopes of the steps. To ``sums`` the slopes towards the local and the optimal
    vertices of the latter visits are added.
    """
    k, p = search.found.shape[0], 0
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    for i in range(k):
        for j in range(i + 1, k):
            search.matrix[i, j] = search.matrix[j, i] = weights.factor[0, p]
            p += 1
    for count in range(order.shape[0]):
        m = order[count]
        scale = data.scales[m]
        if scale == 0.0:
            continue
        row = data.graphs.first_row[m]
        labels, pairs = dual.labels[m], dual.pairs[m]
        score_labels(data, weights.unary, m, k, search.scores)
        _find_vertex(search, dual.vertices[m])
        slope, curvature = _direct(search, labels, pairs, data.rows.squares[row])
        if exact[count]:
            sums[0] += slope
            _find_optimum(plan, search, net)
            slope, curvature = _direct(search, labels, pairs, data.rows.squares[row])
            sums[1] += slope
        for i in range(k):
            dual.vertices[m, i] = search.found[i]
        gaps[m] = max(slope, 0.0)
        if slope <= 0.0:
            continue
        step = min(1.0, slope / (scale * curvature)) if scale * curvature > 0.0 else 1.0
        _move(search, labels, pairs, step, scale)
        add_row(data.rows, weights.unary, row, search.change, -scale * step)
    p = 0
    for i in range(k):
        for j in range(i + 1, k):
            weights.factor[0, p] = search.matrix[i, j]
            p += 1


@compiled
@seldom
def add_marginals(data, weights, dual, search):
    """``w += sum_m scale_m Phi(x_m) (phi(y_m) - mu_m)``."""
    k = search.found.shape[0]
    for m in range(data.scales.shape[0]):
        first, scale, p = data.graphs.first_variable[m], data.scales[m], 0
        for i in range(k):
            y = data.truth[first + i]
            search.change[i] = y - dual.labels[m, i]
            for j in range(i + 1, k):
                both = 1.0 if y == 1 and data.truth[first + j] == 1 else 0.0
                weights.factor[0, p] += scale * (both - dual.pairs[m, p])
                p += 1
        if scale > 0.0:
            add_row(data.rows, weights.unary, data.graphs.first_row[m], search.change, scale)


@compiled
def relaxed_values(data, plan, weights, ends, values, room, answers):
    """Maxima of the relaxation minus the score of the truth, of some binary pairwise graphs."""
    graphs = data.graphs
    states, entries = answers.states, answers.entries
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    for m in range(ends[0], ends[1]):
        s = graphs.shape[m]
        unary = states[0, : graphs.first_state[m + 1] - graphs.first_state[m]]
        tables = entries[0, : graphs.first_entry[m + 1] - graphs.first_entry[m]]
        right = score_example(data, weights, m, 1.0, room, unary, tables)
        half_labels(plan, s, unary, tables, fixed, net, halves)
        values[m] = half_score(plan, s, unary, tables, halves) - right
