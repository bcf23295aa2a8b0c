"""Moves of mass between the stored trees (atoms) of a sentence whose features are hashed.

The trees of a sentence differ in the heads of some words, and use a few arcs of each of these. What
moves need beside the weights is computed first, by any thread: the arcs, the indices of their
weights, and the inner products of all pairs of arcs. Moves then read each of these weights once,
change the scores of the arcs by the inner products, and add the sum of all moves to the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import leaf
from ..features.arc_slots import fill_products, list_slots, most_slots, products_work
from ..features.arcs import locate

# Arcs of a sentence, and indices of their weights: sentences with more are not prepared. With the
# default templates an arc has about a hundred features. After 40 passes over 700 sentences of EWT
# the mean number of arcs is 64, the largest 235.
MOST_ARCS, MOST_SLOTS = 256, 1 << 15
# Moves end when the best of them gains less than this share of the first, or after this number.
_ENOUGH = 0.3
_MOST_MOVES = 20


class Lists(NamedTuple):
    """Arcs of the words in which trees differ."""

    sizes: np.ndarray  # number of arcs, or -1 if there are too many; number of words
    arcs: np.ndarray  # ``d (m + 1) + h``
    indptr: np.ndarray  # ends of the indices of each arc
    slots: np.ndarray
    trees: np.ndarray  # (words, trees): the arc of a word in a tree


@leaf
def lists_room(most, most_labels):
    """Length of the array that holds the lists."""
    return 3 + 2 * MOST_ARCS + MOST_SLOTS + most * most_labels


@leaf
def moves_work():
    """Length of the scratch vector of all functions here."""
    return max(products_work(MOST_SLOTS), 4 * MOST_ARCS)


@leaf
def lists_in(places):
    """The lists in an array."""
    ends = 2 + MOST_ARCS
    slots = ends + MOST_ARCS + 1
    return Lists(
        places[:2],
        places[2:ends],
        places[ends:slots],
        places[slots : slots + MOST_SLOTS],
        places[slots + MOST_SLOTS :],
    )


@leaf
def _list_word(rows, first, outputs, d, n_arcs, lists):
    """Add the arcs of a word; returns the new number of arcs, -1 if there are too many."""
    count, m = outputs.shape
    trees = lists.trees[lists.sizes[1] * count : (lists.sizes[1] + 1) * count]
    for a in range(count):
        known = 0
        while outputs[known, d] != outputs[a, d]:
            known += 1
        if known < a:
            trees[a] = trees[known]
            continue
        start = lists.indptr[n_arcs]
        if n_arcs == MOST_ARCS or start + most_slots(rows) > MOST_SLOTS:
            return -1
        lists.arcs[n_arcs] = d * (m + 1) + outputs[a, d]
        lists.indptr[n_arcs + 1] = list_slots(rows, first, d, outputs[a, d], lists.slots, start)
        trees[a] = n_arcs
        n_arcs += 1
    return n_arcs


@leaf
def _list_arcs(rows, first, outputs, lists):
    """Fill the lists of arcs; ``first`` is the first node of the sentence."""
    n_arcs = 0
    lists.sizes[0] = -1
    lists.sizes[1] = 0
    lists.indptr[0] = 0
    for d in range(outputs.shape[1]):
        differs = False
        for a in range(1, outputs.shape[0]):
            differs = differs or outputs[a, d] != outputs[0, d]
        if differs:
            n_arcs = _list_word(rows, first, outputs, d, n_arcs, lists)
            if n_arcs < 0:
                return
            lists.sizes[1] += 1
    lists.sizes[0] = n_arcs


@leaf
def prepare_arcs(structure, rows, i, outputs, lists, products, work):
    """Fill the lists, and the inner products of their arcs, in a flat array."""
    first, _, _, _ = locate(rows, structure.parts_indptr[i])
    _list_arcs(rows, first, outputs, lists)
    n = lists.sizes[0]
    if n > 0:
        fill_products(lists.indptr, lists.slots, work, products[: n * n].reshape(n, n))


@leaf
def score_arcs(structure, weights, i, m, lists, gains):
    """Loss-augmented scores of arcs."""
    first = structure.indptr[i]
    for p in range(gains.shape[0]):
        total = 0.0
        for e in range(lists.indptr[p], lists.indptr[p + 1]):
            total += weights[lists.slots[e]]
        d, h = lists.arcs[p] // (m + 1), lists.arcs[p] % (m + 1)
        if h != structure.truth[first + d]:
            total += structure.costs[first + d]
        gains[p] = total


@leaf
def _score_trees(lists, gains, scores):
    """Scores of trees, without the words in which none differs."""
    count = scores.shape[0]
    scores[:] = 0.0
    for j in range(lists.sizes[1]):
        trees = lists.trees[j * count : (j + 1) * count]
        for a in range(count):
            scores[a] += gains[trees[a]]


@leaf
def _add_pair(lists, count, best, worst, amount, out):
    """``out += amount * (arcs of the best tree - arcs of the worst)``."""
    for j in range(lists.sizes[1]):
        added, taken = lists.trees[j * count + best], lists.trees[j * count + worst]
        if added != taken:
            out[added] += amount
            out[taken] -= amount


@leaf
def _products_with_pair(lists, count, best, worst, gram, out):
    """Inner products of all arcs with the difference of two trees; returns its squared norm."""
    n = gram.shape[0]
    out[:] = 0.0
    for j in range(lists.sizes[1]):
        added, taken = lists.trees[j * count + best], lists.trees[j * count + worst]
        if added != taken:
            for p in range(n):
                out[p] += gram[added, p] - gram[taken, p]
    square = 0.0
    for j in range(lists.sizes[1]):
        square += out[lists.trees[j * count + best]] - out[lists.trees[j * count + worst]]
    return square


@leaf
def _extremes(scores, shares):
    """The best tree, and the worst one with mass."""
    best, worst = 0, -1
    for a in range(scores.shape[0]):
        if scores[a] > scores[best]:
            best = a
        if shares[a] > 0.0 and (worst < 0 or scores[a] < scores[worst]):
            worst = a
    return best, worst


@leaf
def move_trees(lists, gram, scale, gains, shares, scores, change, products):
    """Move mass from the worst tree to the best, several times; ``change`` receives the sum of the
    moves, per arc."""
    count = shares.shape[0]
    change[:] = 0.0
    first_gain = 0.0
    for inner in range(_MOST_MOVES):
        _score_trees(lists, gains, scores)
        best, worst = _extremes(scores, shares)
        gain = scores[best] - scores[worst]
        if inner == 0:
            first_gain = gain
        if gain <= 0.0 or inner > 0 and gain <= _ENOUGH * first_gain:
            return
        curvature = scale * _products_with_pair(lists, count, best, worst, gram, products)
        emptied = gain >= shares[worst] * curvature
        gamma = shares[worst] if emptied else gain / curvature
        shares[best] += gamma
        shares[worst] = 0.0 if emptied else shares[worst] - gamma
        _add_pair(lists, count, best, worst, gamma, change)
        for p in range(gains.shape[0]):
            gains[p] -= gamma * scale * products[p]


@leaf
def add_arcs(lists, weights, change, scale):
    """``weights += scale * change @ features of the arcs``."""
    for p in range(change.shape[0]):
        amount = scale * change[p]
        if amount != 0.0:
            for e in range(lists.indptr[p], lists.indptr[p + 1]):
                weights[lists.slots[e]] += amount
