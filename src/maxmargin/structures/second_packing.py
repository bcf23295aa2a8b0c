"""Candidate arcs of sentences, and the lists of their parts."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled
from .second_order import SecondOrder


@compiled
def choose_candidates(structure, rows, weights, first, last, most, out):
    """Mark the best heads of every word, by the scores of single arcs, for a range of sentences.

    ``out`` must be zero for these sentences. The word before is always a candidate, for the first
    word the root: so there always is a projective tree.
    """
    buffer = np.empty(generic.largest_block(structure))
    for i in range(first, last):
        m = structure.indptr[i + 1] - structure.indptr[i]
        begin = structure.parts_indptr[i]
        scores = buffer[: m * (m + 1)]
        generic.score_block(structure, rows, weights, i, scores)
        for d in range(m):
            row = scores[d * (m + 1) : (d + 1) * (m + 1)]
            chosen = out[begin + d * (m + 1) : begin + (d + 1) * (m + 1)]
            row[d + 1] = -np.inf
            for _ in range(min(most, m)):
                best = 0
                for h in range(1, m + 1):
                    if row[h] > row[best]:
                        best = h
                chosen[best] = True  # at most m of m + 1 are chosen: never the word itself
                row[best] = -np.inf
            chosen[d] = True


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
    """Sibling parts of every arc; if the array for them is empty, they are only counted."""
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
    # Sibling parts begin after the arcs; the last start of a sentence is the end of them.
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
    """First grandparent part of each arc, which has one per candidate head of its head; and block
    sizes."""
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
