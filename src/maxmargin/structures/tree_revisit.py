"""Mixtures of the stored trees (atoms) of a sentence, improved without a new tree.

Trees of a sentence usually differ in the heads of few words. Scores relative to the first tree need
only the arcs of these words, a few per word instead of one per possible head. A visit moves mass
from the worst tree to the best one, by an exact step; where features are hashed, several times, see
:mod:`~maxmargin.structures.arc_moves`.
"""

from __future__ import annotations

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row, drain_row, score_row
from ..features.arcs import ArcRows
from .arborescence import Arborescence
from .arc_moves import (
    MOST_ARCS,
    add_arcs,
    lists_in,
    lists_room,
    move_trees,
    prepare_arcs,
    score_arcs,
)


@leaf
def _score(structure, rows, matrix, i, outputs, seen, scores):
    """Loss-augmented scores of trees, minus that of the first one; ``seen`` is for the scores of
    the heads of a word, one per tree."""
    first, start = structure.indptr[i], structure.parts_indptr[i]
    m = outputs.shape[1]
    scores[:] = 0.0
    for d in range(m):
        differs = False
        for a in range(1, outputs.shape[0]):
            differs = differs or outputs[a, d] != outputs[0, d]
        if not differs:
            continue
        for a in range(outputs.shape[0]):
            known = 0
            while outputs[known, d] != outputs[a, d]:
                known += 1
            if known < a:
                seen[a] = seen[known]
            else:
                seen[a] = score_row(rows, matrix, start + d * (m + 1) + outputs[a, d])
                if outputs[a, d] != structure.truth[first + d]:
                    seen[a] += structure.costs[first + d]
            scores[a] += seen[a] - seen[0]


@leaf
def _add_difference(structure, rows, matrix, i, best, worst, amount):
    """``matrix += amount * (Phi(best) - Phi(worst))``; ``amount`` is an array of one number."""
    start, m = structure.parts_indptr[i], best.shape[0]
    for d in range(m):
        if best[d] != worst[d]:
            row = start + d * (m + 1)
            add_row(rows, matrix, row + best[d], amount, 1.0)
            add_row(rows, matrix, row + worst[d], amount, -1.0)


@leaf
def _drain_difference(structure, rows, matrix, i, best, worst):
    """Set ``Phi(best) - Phi(worst)`` in a table to 0; returns its squared norm."""
    start, m = structure.parts_indptr[i], best.shape[0]
    square = 0.0
    for d in range(m):
        if best[d] != worst[d]:
            square += drain_row(rows, matrix, start + d * (m + 1) + best[d])
            square += drain_row(rows, matrix, start + d * (m + 1) + worst[d])
    return square


@implements(generic.can_revisit, Arborescence)
def _can_revisit(structure, i):
    return True


@implements(generic.revisit_room, Arborescence, ArcRows)
def _arcs_room(structure, rows, most):
    return 1, lists_room(most, structure.longest), MOST_ARCS


@implements(generic.revisit_room, Arborescence)
def _no_room(structure, rows, most):
    return 1, 1, 1


@implements(generic.prepare_revisit, Arborescence, ArcRows)
def _prepare_hashed(structure, rows, i, outputs, scratch):
    places, _, gram, _, work = scratch
    products = gram.reshape(gram.shape[0] * gram.shape[1])
    prepare_arcs(structure, rows, i, outputs, lists_in(places[0]), products, work)


@implements(generic.prepare_revisit, Arborescence)
def _prepare_nothing(structure, rows, i, outputs, scratch):
    """Nothing: products of features are known only where they are needed."""


@implements(generic.prefetch_revisit, Arborescence)
def _prefetch_revisit(structure, rows, weights, i, places, counts):
    """Nothing: a sentence uses more weights than can be on their way at a time."""


@implements(generic.revisit, Arborescence, ArcRows)
def _revisit_hashed(structure, rows, weights, i, scale, outputs, shares, scratch):
    places, _, gram, values, work = scratch
    lists = lists_in(places[0])
    n, count = lists.sizes[0], outputs.shape[0]
    if n < 0:
        _move_once(structure, rows, weights, i, scale, outputs, shares, scratch)
        return
    gains, change, moved = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
    products = gram.reshape(gram.shape[0] * gram.shape[1])[: n * n].reshape(n, n)
    score_arcs(structure, weights, i, outputs.shape[1], lists, gains)
    move_trees(lists, products, scale, gains, shares, values[0, :count], change, moved)
    add_arcs(lists, weights, change, -scale)


@implements(generic.revisit, Arborescence)
def _revisit(structure, rows, weights, i, scale, outputs, shares, scratch):
    _move_once(structure, rows, weights, i, scale, outputs, shares, scratch)


@leaf
def _move_once(structure, rows, weights, i, scale, outputs, shares, scratch):
    """Move mass from the worst tree to the best one; nothing is prepared."""
    _, _, _, values, work = scratch
    count = outputs.shape[0]
    scores = values[0, :count]
    matrix = weights.reshape(rows.n_inputs, 1)
    table = work[: rows.n_inputs].reshape(rows.n_inputs, 1)
    _score(structure, rows, matrix, i, outputs, values[1, :count], scores)
    best, worst = 0, -1
    for a in range(count):
        if scores[a] > scores[best]:
            best = a
        if shares[a] > 0.0 and (worst < 0 or scores[a] < scores[worst]):
            worst = a
    gain = scores[best] - scores[worst]
    if gain <= 0.0:
        return
    _drain_difference(structure, rows, table, i, outputs[best], outputs[worst])
    amount = values[1, :1]
    amount[0] = 1.0
    _add_difference(structure, rows, table, i, outputs[best], outputs[worst], amount)
    square = _drain_difference(structure, rows, table, i, outputs[best], outputs[worst])
    emptied = gain >= shares[worst] * scale * square
    gamma = shares[worst] if emptied else gain / (scale * square)
    shares[best] += gamma
    shares[worst] = 0.0 if emptied else shares[worst] - gamma
    amount[0] = -gamma * scale
    _add_difference(structure, rows, matrix, i, outputs[best], outputs[worst], amount)
