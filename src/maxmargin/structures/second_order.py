"""Projective trees whose scores have parts of one and of two arcs.

``phi(y)`` indicates, for a sentence with A candidate arcs, first the arcs of the tree, then its
sibling parts (h, s, d), then its grandparent parts (g, h, d): see
:mod:`maxmargin.features.second_order`. The outputs are all projective trees of candidate arcs, and
the true tree, which may cross itself; the best one is found exactly
(:mod:`maxmargin._kernels.projective`). The loss is a sum over words, as for
:class:`~maxmargin.structures.arborescence.Arborescence`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, implements, leaf
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
    """Packed trees and candidate arcs. What belongs to one sentence counts from its beginning.

    ``into`` has an entry per node, ``out_start`` one more per sentence, ``siblings_start`` and
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
        """What solvers may count on."""
        return Traits(sparse_outputs=True, refuses={"crf": _ONLY, "max-min": _ONLY})

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector."""
        return n_inputs

    def output_space(self) -> bytes:
        """What decides which outputs are possible."""
        arrays = (self.indptr, self.head, self.dependent, self.truth)
        return b"".join(array.tobytes() for array in arrays) + repr(self.single_root).encode()


# --- packing --------------------------------------------------------------------------------


@compiled
def _list_out(indptr, arcs_indptr, head, dependent, out_start, out):
    """Arcs out of every node, by their dependents."""
    for i in range(indptr.shape[0] - 1):
        n = indptr[i + 1] - indptr[i]
        low, high = arcs_indptr[i], arcs_indptr[i + 1]
        start = out_start[indptr[i] + 2 * i : indptr[i + 1] + 2 * (i + 1)]
        start[:] = 0
        for a in range(low, high):
            start[head[a] + 1] += 1
        for node in range(n + 1):
            start[node + 1] += start[node]
        for a in range(low, high):  # the arcs are in the order of their dependents
            out[low + start[head[a]]] = a - low
            start[head[a]] += 1
        for node in range(n + 1, 0, -1):
            start[node] = start[node - 1]
        start[0] = 0


@compiled
def _list_siblings(indptr, arcs_indptr, lists, single_root, starts, siblings):
    """Sibling parts of every arc; with no room for them they are counted only."""
    head, dependent, out_start, out = lists
    total = 0
    for i in range(indptr.shape[0] - 1):
        low, high = arcs_indptr[i], arcs_indptr[i + 1]
        start = out_start[indptr[i] + 2 * i : indptr[i + 1] + 2 * (i + 1)]
        count = high - low
        for a in range(low, high):
            starts[a + i] = count
            h, d = head[a], dependent[a]
            if siblings.shape[0] > 0:
                siblings[total] = -1
            total += 1
            count += 1
            if h == 0 and single_root:
                continue
            for at in range(low + start[h], low + start[h + 1]):
                s = dependent[low + out[at]]
                if h < s < d or d < s < h:
                    if siblings.shape[0] > 0:
                        siblings[total] = out[at]
                    total += 1
                    count += 1
        starts[high + i] = count
    return total


def pack_second_trees(
    truth: np.ndarray,
    indptr: np.ndarray,
    single_root: bool,
    candidates: np.ndarray,
    costs: np.ndarray | None = None,
) -> SecondOrder:
    """The structure of some sentences.

    Parameters
    ----------
    truth : array of int
        Heads of all words, or empty.
    candidates : array of bool
        Which arcs are candidates, word by word: arc ``d (m + 1) + h`` leads from node h to word
        d + 1.
    """
    lengths = np.diff(indptr)
    n, n_words = len(lengths), int(indptr[-1])
    widths = np.repeat(lengths + 1, lengths)
    word_of = np.repeat(np.arange(n_words), widths)
    within = np.arange(len(word_of)) - np.repeat(np.cumsum(widths) - widths, widths)
    word_of, head = word_of[candidates], within[candidates]
    sentence = np.repeat(np.arange(n), lengths)
    dependent = word_of - indptr[sentence[word_of]] + 1
    per_word = np.bincount(word_of, minlength=n_words)
    ends = np.concatenate([[0], np.cumsum(per_word)])
    arcs_indptr = ends[indptr]
    into = np.concatenate([ends[a : b + 1] - ends[a] for a, b in zip(indptr[:-1], indptr[1:])])
    n_arcs = len(head)
    head, dependent = head.astype(np.int32), dependent.astype(np.int32)
    out_start, out = np.empty(n_words + 2 * n, np.int32), np.empty(n_arcs, np.int32)
    _list_out(indptr, arcs_indptr, head, dependent, out_start, out)
    starts, lists = np.empty(n_arcs + n, np.int32), (head, dependent, out_start, out)
    total = _list_siblings(indptr, arcs_indptr, lists, single_root, starts, np.empty(0, np.int32))
    sibling = np.empty(total, np.int32)
    _list_siblings(indptr, arcs_indptr, lists, single_root, starts, sibling)
    # The first part of the sibling parts is that after the arcs, the end is that of all of them.
    ends_of = starts[arcs_indptr[1:] + np.arange(n)].astype(np.int64)
    siblings_indptr = np.concatenate([[0], np.cumsum(ends_of - np.diff(arcs_indptr))])
    grand, sizes = _grandparent_starts(head, into, indptr, arcs_indptr, ends_of)
    if costs is None:
        costs = np.full(n_words, 1.0 / lengths.mean())
    return SecondOrder(
        np.ascontiguousarray(truth, np.int32), np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(costs, np.float64), int(lengths.max()), bool(single_root),
        arcs_indptr.astype(np.int64), into.astype(np.int32), head, dependent, out_start, out,
        starts, siblings_indptr.astype(np.int64), sibling, grand,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        int(np.diff(arcs_indptr).max()), max(1, int(per_word.max())),
    )  # fmt: skip


def _grandparent_starts(
    head: np.ndarray,
    into: np.ndarray,
    indptr: np.ndarray,
    arcs_indptr: np.ndarray,
    ends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """First grandparent part of each arc, as many as its head has candidate heads; block sizes."""
    n = len(indptr) - 1
    of_arc = np.repeat(np.arange(n), np.diff(arcs_indptr))
    node = indptr[of_arc] + of_arc + head
    counts = np.where(head > 0, into[node] - into[np.maximum(node - 1, 0)], 0)
    total = np.concatenate([[0], np.cumsum(counts)])
    starts = np.empty(len(head) + n, np.int64)
    places = np.arange(len(head)) + of_arc
    starts[places] = total[:-1] - total[arcs_indptr[of_arc]] + ends[of_arc]
    sizes = ends + total[arcs_indptr[1:]] - total[arcs_indptr[:-1]]
    starts[arcs_indptr[1:] + np.arange(n)] = sizes
    return starts.astype(np.int32), sizes


# --- sizes ----------------------------------------------------------------------------------


@implements(generic.n_blocks, SecondOrder)
def _n_blocks(structure):
    return structure.indptr.shape[0] - 1


@implements(generic.block_size, SecondOrder)
def _block_size(structure, i):
    return structure.parts_indptr[i + 1] - structure.parts_indptr[i]


@implements(generic.largest_block, SecondOrder)
def _largest_block(structure):
    most = 0
    for i in range(structure.indptr.shape[0] - 1):
        most = max(most, generic.block_size(structure, i))
    return most


@implements(generic.most_labels, SecondOrder)
def _most_labels(structure):
    return structure.longest


@implements(generic.label_range, SecondOrder)
def _label_range(structure, i):
    return structure.indptr[i], structure.indptr[i + 1]


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
            if g != d:  # a cycle: in no tree
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
    """Change the weights of the features of a part, or drain them."""
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
    return touch_grandparent(rows, matrix, first, (g, h, c.dependent[arc]), amount, drain)


@leaf
def _touch_parts(structure, rows, matrix, i, direction, scale, drain):
    """All parts of a direction."""
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


@implements(generic.linear_prox, SecondOrder)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    return -np.inf


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
    """Places of the arc into a word of a tree, of its sibling part and of its grandparent part;
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


@implements(generic.embed_truth, SecondOrder)
def _embed_truth(structure, i, out):
    generic.embed(structure, i, structure.truth[structure.indptr[i] : structure.indptr[i + 1]], out)


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
    if structure.truth.shape[0] > 0:  # it may cross itself, and is one of the outputs
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
