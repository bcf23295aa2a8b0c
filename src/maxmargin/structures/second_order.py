"""Projective trees whose scores have parts of one and of two arcs.

``phi(y)`` indicates, for a sentence with A candidate arcs, first the arcs of the tree, then its
sibling parts (h, s, d), then its grandparent parts (g, h, d): see
:mod:`maxmargin.features.second_order`. The outputs are all projective trees of candidate arcs, and
the true tree, which may have crossing arcs; the best one is found exactly
(:mod:`maxmargin._kernels.projective`). The loss is a sum over words, as for
:class:`~maxmargin.structures.arborescence.Arborescence`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.projective import Candidates, best_projective, projective_work
from ..features.arcs import score_arc, touch_arc
from ..features.second_order import (
    score_grandparent,
    score_sibling,
    touch_grandparent,
    touch_sibling,
)
from .traits import Traits

_ONLY = "trees with siblings and grandparents (order=2). Use surrogate='max-margin', or order=1."


class SecondOrder(NamedTuple):
    """Packed trees and candidate arcs. Indices within a sentence count from its beginning.

    ``into`` has one entry per node, ``out_start`` one more per sentence, ``siblings_start`` and
    ``grandparents_start`` one per arc and one more per sentence.
    """

    truth: np.ndarray
    indptr: np.ndarray
    costs: np.ndarray
    longest: int
    single_root: bool
    arcs_indptr: np.ndarray
    into: np.ndarray
    head: np.ndarray
    dependent: np.ndarray
    out_start: np.ndarray
    out: np.ndarray
    siblings_start: np.ndarray
    siblings_indptr: np.ndarray
    sibling: np.ndarray
    grandparents_start: np.ndarray
    parts_indptr: np.ndarray
    most_arcs: int
    most_heads: int

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(sparse_outputs=True, refuses={"crf": _ONLY, "max-min": _ONLY})

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector."""
        return n_inputs

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        arrays = (self.indptr, self.head, self.dependent, self.truth)
        return b"".join(array.tobytes() for array in arrays) + repr(self.single_root).encode()


# --- sizes ----------------------------------------------------------------------------------


@implements(generic.largest_block, SecondOrder)
def _largest_block(structure):
    most = 0
    for i in range(structure.indptr.shape[0] - 1):
        most = max(most, generic.block_size(structure, i))
    return most


@implements(generic.most_labels, SecondOrder)
def _most_labels(structure):
    return structure.longest


@implements(generic.most_parts, SecondOrder)
def _most_parts(structure):
    return 3 * structure.longest


@implements(generic.work_size, SecondOrder)
def _work_size(structure, rows):
    tables = projective_work(structure.longest, structure.most_arcs, structure.most_heads)
    return max(generic.largest_block(structure) + tables, rows.n_inputs)


@leaf
def candidates_of(structure, i):
    """The candidate arcs of a sentence."""
    first, last = structure.indptr[i], structure.indptr[i + 1]
    low, high = structure.arcs_indptr[i], structure.arcs_indptr[i + 1]
    return Candidates(
        last - first,
        structure.single_root,
        structure.into[first + i : last + i + 1],
        structure.head[low:high],
        structure.dependent[low:high],
        structure.out_start[first + 2 * i : last + 2 * i + 2],
        structure.out[low:high],
        structure.siblings_start[low + i : high + i + 1],
        structure.sibling[structure.siblings_indptr[i] : structure.siblings_indptr[i + 1]],
        structure.grandparents_start[low + i : high + i + 1],
    )


# --- scores and weights ---------------------------------------------------------------------


@implements(generic.prefetch_block, SecondOrder)
def _prefetch_block(structure, rows, i):
    pass


@leaf
def _is_inside(g, h, d):
    """Whether a grandparent is below the arc from h to d: such a part is in no projective tree, and
    has no features."""
    return h < g <= d or d <= g < h


@implements(generic.score_block, SecondOrder)
def _score_block(structure, rows, weights, i, scores):
    c = candidates_of(structure, i)
    n_arcs = c.head.shape[0]
    matrix = weights.reshape(rows.n_inputs, 1)
    first = rows.arcs.nodes_indptr[i]
    for arc in range(n_arcs):
        h, d = c.head[arc], c.dependent[arc]
        scores[arc] = score_arc(rows.arcs, matrix, first, d - 1, h)
        for place in range(c.siblings_start[arc], c.siblings_start[arc + 1]):
            inner = c.sibling[place - n_arcs]
            s = 0 if inner < 0 else c.dependent[inner]
            scores[place] = score_sibling(rows, matrix, first, h, s, d)
        low = c.grandparents_start[arc]
        for k in range(c.grandparents_start[arc + 1] - low):
            g = c.head[c.into[h - 1] + k]
            scores[low + k] = 0.0
            if not _is_inside(g, h, d):
                scores[low + k] = score_grandparent(rows, matrix, first, g, h, d)


@leaf
def _owner(starts, part):
    """The arc that a part belongs to, by the first part of each arc."""
    low, high = 0, starts.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= part:
            low = middle
        else:
            high = middle
    return low


@leaf
def _touch_part(c, rows, matrix, first, part, amount, drain):
    """Change the weights of the features of a part, or, with ``drain``, set them to 0."""
    n_arcs = c.head.shape[0]
    if part < n_arcs:
        return touch_arc(
            rows.arcs, matrix, first, c.dependent[part] - 1, c.head[part], amount, drain
        )
    if part < c.siblings_start[n_arcs]:
        arc, inner = _owner(c.siblings_start, part), c.sibling[part - n_arcs]
        s = 0 if inner < 0 else c.dependent[inner]
        nodes = (c.head[arc], s, c.dependent[arc])
        return touch_sibling(rows, matrix, first, nodes, amount, drain)
    arc = _owner(c.grandparents_start, part)
    h = c.head[arc]
    g = c.head[c.into[h - 1] + part - c.grandparents_start[arc]]
    if _is_inside(g, h, c.dependent[arc]):
        return 0.0
    return touch_grandparent(rows, matrix, first, (g, h, c.dependent[arc]), amount, drain)


@leaf
def _touch_parts(structure, rows, matrix, i, direction, scale, drain):
    """:func:`_touch_part` for all parts of a direction."""
    c = candidates_of(structure, i)
    first = rows.arcs.nodes_indptr[i]
    total = 0.0
    for part in range(direction.shape[0]):
        if direction[part] != 0.0:
            amount = scale * direction[part]
            total += _touch_part(c, rows, matrix, first, part, amount, drain)
    return total


@implements(generic.add_block, SecondOrder)
def _add_block(structure, rows, weights, i, direction, scale):
    matrix = weights.reshape(rows.n_inputs, 1)
    _touch_parts(structure, rows, matrix, i, direction, scale, False)


@implements(generic.squared_norm, SecondOrder)
def _squared_norm(structure, rows, i, direction, work):
    matrix = work[: rows.n_inputs].reshape(rows.n_inputs, 1)
    _touch_parts(structure, rows, matrix, i, direction, 0.0, True)
    _touch_parts(structure, rows, matrix, i, direction, 1.0, False)
    return _touch_parts(structure, rows, matrix, i, direction, 0.0, True)


@implements(generic.add_gram, SecondOrder)
def _add_gram(structure, rows, i, direction, scale, scores):
    return False  # a table of all weights would have to be cleared


# --- outputs --------------------------------------------------------------------------------


@leaf
def _arc_of(c, d, h):
    """The arc from node h to word d, or -1."""
    for arc in range(c.into[d - 1], c.into[d]):
        if c.head[arc] == h:
            return arc
    return -1


@leaf
def _inner_sibling(labels, d):
    """The nearest dependent of the head of word d between the two, or 0."""
    h = labels[d - 1]
    step = 1 if h > d else -1
    node = d + step
    while node != h:
        if labels[node - 1] == h:
            return node
        node += step
    return 0


@leaf
def _parts_of_word(c, labels, d):
    """Indices of the arc into a word of a tree, of its sibling part and of its grandparent part;
    the last is -1 below the root."""
    h = labels[d - 1]
    arc = _arc_of(c, d, h)
    s = 0 if h == 0 and c.single_root else _inner_sibling(labels, d)
    place = c.siblings_start[arc]
    while s > 0 and place + 1 < c.siblings_start[arc + 1]:
        place += 1
        if c.dependent[c.sibling[place - c.head.shape[0]]] == s:
            break
    if h == 0:
        return arc, place, -1
    rank = _arc_of(c, h, labels[h - 1]) - c.into[h - 1]
    return arc, place, c.grandparents_start[arc] + rank


@implements(generic.output_parts, SecondOrder)
def _output_parts(structure, i, labels, parts):
    c = candidates_of(structure, i)
    count = 0
    for d in range(1, c.n + 1):
        arc, sibling, grandparent = _parts_of_word(c, labels, d)
        parts[count], parts[count + 1] = arc, sibling
        count += 2
        if grandparent >= 0:
            parts[count] = grandparent
            count += 1
    return count


@implements(generic.embed, SecondOrder)
def _embed(structure, i, labels, out):
    c = candidates_of(structure, i)
    out[:] = 0.0
    for d in range(1, c.n + 1):
        arc, sibling, grandparent = _parts_of_word(c, labels, d)
        out[arc] = out[sibling] = 1.0
        if grandparent >= 0:
            out[grandparent] = 1.0


@leaf
def _score_of(c, labels, scores):
    total = 0.0
    for d in range(1, c.n + 1):
        arc, sibling, grandparent = _parts_of_word(c, labels, d)
        total += scores[arc] + scores[sibling] + (scores[grandparent] if grandparent >= 0 else 0.0)
    return total


@implements(generic.decode, SecondOrder)
def _decode(structure, i, scores, work, labels):
    c = candidates_of(structure, i)
    value = best_projective(c, scores, work, labels)
    if structure.truth.shape[0] > 0:  # it may have crossing arcs, and is one of the outputs
        truth = structure.truth[structure.indptr[i] : structure.indptr[i + 1]]
        other = _score_of(c, truth, scores)
        if other > value:
            for word in range(c.n):
                labels[word] = truth[word]
            return other
    return value


@implements(generic.add_loss, SecondOrder)
def _add_loss(structure, i, out):
    c = candidates_of(structure, i)
    first = structure.indptr[i]
    for arc in range(c.head.shape[0]):
        word = first + c.dependent[arc] - 1
        out[arc] += structure.costs[word] if c.head[arc] != structure.truth[word] else 0.0


@implements(generic.expected_loss, SecondOrder)
def _expected_loss(structure, i, mu):
    c = candidates_of(structure, i)
    first = structure.indptr[i]
    total = 0.0
    for d in range(1, c.n + 1):
        arc = _arc_of(c, d, structure.truth[first + d - 1])
        total += structure.costs[first + d - 1] * (1.0 - mu[arc])
    return total
