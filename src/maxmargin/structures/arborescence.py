"""Directed spanning trees: ``y`` gives each of m words a head, 0 for an artificial root; no cycles.

``phi(y)`` is the flat indicator of the arcs: part ``d (m + 1) + h`` is 1 if node h is the head of
word d + 1. The marginal polytope is that of arborescences, with ``single_root`` those where exactly
one word has head 0. The loss is a sum over words, ``sum_d c_d 1[y_d != z_d]``, by default the share
of wrong heads.

Every arc is a row ``psi`` of the features, and all arcs share the weights: ``score = w @ psi``.
Arcs that are not allowed are in no tree: neither of the argmax, nor of the marginals, nor of the
max-min players.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.arborescence import arborescence_work, best_tree, masked_table
from .._kernels.assignment import forbid_others
from .._kernels.game import game_work
from .._kernels.jit import compiled, implements, leaf
from .._kernels.matrix_tree import matrix_tree_work, tree_marginals
from .._kernels.maxima import largest
from .._kernels.protocol import drain_row, score_row
from ..features.arcs import ArcRows
from .arc_moves import moves_work
from .traits import Traits

# Largest number of pieces of the loss floor in a line search: see arborescence_max_min.
MOST_PIECES = 16
# Largest number of trees in the mixture of a player of the max-min game.
MOST_TREES = 64


class Arborescence(NamedTuple):
    """Packed trees: ``truth[indptr[i] + d]`` is the head of word d + 1 of example i."""

    truth: np.ndarray
    indptr: np.ndarray
    parts_indptr: np.ndarray  # offsets of the arcs of each example, also in the rows of features
    longest: int
    single_root: bool
    costs: np.ndarray  # of a wrong head, for each word
    allowed: np.ndarray  # for each arc; empty: all but those from a word to itself

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(
            sparse_outputs=True,  # one of m + 1 parts per word
            scores_parts=True,
            revisits=True,
            saddle="trees",
            batch=32,
            no_oracle={
                "crf": "the entropy of given marginals, which trees do not have in closed form "
                "(solver='auto' or 'lbfgs')"
            },
        )

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: one weight per feature of an arc."""
        return n_inputs

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return self.indptr.tobytes() + repr(self.single_root).encode() + self.allowed.tobytes()


def pack_trees(
    truth: np.ndarray,
    indptr: np.ndarray,
    single_root: bool,
    costs: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
) -> Arborescence:
    """The structure of some sentences; by default the loss is the share of wrong heads."""
    lengths = np.diff(indptr)
    if costs is None:
        costs = np.repeat(1.0 / lengths, lengths)
    return Arborescence(
        np.ascontiguousarray(truth, np.int32),
        np.ascontiguousarray(indptr, np.int64),
        np.concatenate([[0], np.cumsum(lengths * (lengths + 1))]).astype(np.int64),
        int(lengths.max()),
        bool(single_root),
        np.ascontiguousarray(costs, np.float64),
        np.empty(0, np.bool_) if allowed is None else np.ascontiguousarray(allowed, np.bool_),
    )


# --- sizes ----------------------------------------------------------------------------------


@leaf
def words_of(structure, i):
    """Number of words of example i."""
    return structure.indptr[i + 1] - structure.indptr[i]


@implements(generic.largest_block, Arborescence)
def _largest_block(structure):
    return structure.longest * (structure.longest + 1)


@implements(generic.most_labels, Arborescence)
def _most_labels(structure):
    return structure.longest


@implements(generic.most_parts, Arborescence)
def _most_parts(structure):
    return structure.longest


@implements(generic.work_size, Arborescence)
def _work_size(structure, rows):
    m = structure.longest
    table = m * (m + 1)
    kernel = max(arborescence_work(m), matrix_tree_work(m))
    game = 2 * MOST_TREES * (m + MOST_TREES + 2) + game_work(MOST_TREES)
    tables = 5 * table + kernel + m + 2 * MOST_PIECES + game
    return tables + max(rows.n_inputs, moves_work())


# --- scores and weights ---------------------------------------------------------------------


@implements(generic.score_along, Arborescence)
def _score_along(structure, rows, weights, i, direction):
    first = structure.parts_indptr[i]
    matrix = weights.reshape(rows.n_inputs, 1)
    total = 0.0
    for part in range(direction.shape[0]):
        if direction[part] != 0.0:
            total += direction[part] * score_row(rows, matrix, first + part)
    return total


@implements(generic.squared_norm, Arborescence)
def _squared_norm(structure, rows, i, direction, work):
    first = structure.parts_indptr[i]
    total = work[: rows.n_inputs]
    matrix = total.reshape(rows.n_inputs, 1)
    for part in range(direction.shape[0]):
        if direction[part] != 0.0:
            drain_row(rows, matrix, first + part)
    generic.add_block(structure, rows, total, i, direction, 1.0)
    square = 0.0
    for part in range(direction.shape[0]):
        if direction[part] != 0.0:
            square += drain_row(rows, matrix, first + part)
    return square


@implements(generic.add_gram, Arborescence, ArcRows)
def _add_gram_hashed(structure, rows, i, direction, scale, scores):
    return False  # a table of all weights would have to be cleared


# --- outputs --------------------------------------------------------------------------------


@implements(generic.decode, Arborescence)
def _decode(structure, i, scores, work, labels):
    m = words_of(structure, i)
    size = m * (m + 1)
    table = work[:size].reshape(m, m + 1)
    masked_table(scores, structure.allowed, structure.parts_indptr[i], table)
    if not best_tree(table, structure.single_root, work[size:], labels):
        return -np.inf
    total = 0.0
    for d in range(m):
        total += scores[d * (m + 1) + labels[d]]
    return total


@implements(generic.fix_part, Arborescence)
def _fix_part(structure, i, part, scores):
    forbid_others(part, words_of(structure, i) + 1, scores)


@implements(generic.output_parts, Arborescence)
def _output_parts(structure, i, labels, parts):
    m = labels.shape[0]
    for d in range(m):
        parts[d] = d * (m + 1) + labels[d]
    return m


@implements(generic.embed, Arborescence)
def _embed(structure, i, labels, out):
    m = labels.shape[0]
    out[:] = 0.0
    for d in range(m):
        out[d * (m + 1) + labels[d]] = 1.0


@implements(generic.add_loss, Arborescence)
def _add_loss(structure, i, out):
    m = words_of(structure, i)
    first = structure.indptr[i]
    for d in range(m):
        true, cost = structure.truth[first + d], structure.costs[first + d]
        for h in range(m + 1):
            out[d * (m + 1) + h] += cost if h != true else 0.0


@implements(generic.expected_loss, Arborescence)
def _expected_loss(structure, i, mu):
    m = words_of(structure, i)
    first = structure.indptr[i]
    total = 0.0
    for d in range(m):
        total += structure.costs[first + d] * (1.0 - mu[d * (m + 1) + structure.truth[first + d]])
    return total


@compiled
def first_no_tree(structure):
    """The first example whose heads are no tree, or -1; and its number of roots, 0 for a cycle."""
    seen = np.empty(structure.longest, np.int64)
    for i in range(structure.indptr.shape[0] - 1):
        heads = structure.truth[structure.indptr[i] : structure.indptr[i + 1]]
        seen[:] = -1  # otherwise the word from which a word was reached first
        roots = 0
        for d in range(heads.shape[0]):
            roots += heads[d] == 0
            node = d
            while node >= 0 and seen[node] < 0:
                seen[node] = d
                node = heads[node] - 1
                if node >= 0 and seen[node] == d:
                    return i, 0
        if structure.single_root and roots > 1:
            return i, roots
    return -1, 0


# --- crf ------------------------------------------------------------------------------------


@implements(generic.gibbs, Arborescence)
def _gibbs(structure, i, scores, work, mu):
    m = words_of(structure, i)
    size = m * (m + 1)
    table = work[:size].reshape(m, m + 1)
    masked_table(scores, structure.allowed, structure.parts_indptr[i], table)
    return tree_marginals(table, structure.single_root, work[size:], mu.reshape(m, m + 1))


@compiled
def arc_marginals(structure, rows, weights, first, last, out, values):
    """Marginals of all arcs and the log partition function, for a range of examples."""
    scores_buffer = np.empty(generic.largest_block(structure))
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        low, high = structure.parts_indptr[i], structure.parts_indptr[i + 1]
        scores = scores_buffer[: high - low]
        generic.score_block(structure, rows, weights, i, scores)
        values[i] = generic.gibbs(structure, i, scores, work, out[low:high])


@compiled
def arc_scores(structure, rows, weights, first, last, out):
    """Scores of all arcs, for a range of examples."""
    for i in range(first, last):
        low, high = structure.parts_indptr[i], structure.parts_indptr[i + 1]
        generic.score_block(structure, rows, weights, i, out[low:high])


@compiled
def score_trees(structure, rows, weights, first, last, heads, values):
    """Scores of given trees, for a range of examples."""
    scores_buffer = np.empty(generic.largest_block(structure))
    for i in range(first, last):
        scores = scores_buffer[: generic.block_size(structure, i)]
        generic.score_block(structure, rows, weights, i, scores)
        m = words_of(structure, i)
        total = 0.0
        for d in range(m):
            total += scores[d * (m + 1) + heads[structure.indptr[i] + d]]
        values[i] = total


@leaf
def _softmax_step(structure, i, scores, direction):
    """For every known head, its indicator minus the probabilities of all; returns the last word."""
    m = words_of(structure, i)
    found = -1
    direction[:] = 0.0
    for d in range(m):
        true = structure.truth[structure.indptr[i] + d]
        if true < 0:
            continue
        found = d
        row = scores[d * (m + 1) : (d + 1) * (m + 1)]
        row[d + 1] = -np.inf
        top = largest(row)
        total = 0.0
        for h in range(m + 1):
            row[h] = np.exp(row[h] - top)
            total += row[h]
        for h in range(m + 1):
            direction[d * (m + 1) + h] = (1.0 if h == true else 0.0) - row[h] / total
    return found


@compiled
def choose_heads(structure, rows, order, sample_weight, weights):
    """Stochastic gradient steps on a model of single words: a softmax over the heads of each.

    Negative heads are unknown, and their words are skipped. The step length is one over the mean
    squared norm of the features of an arc.
    """
    buffers = np.empty((3, generic.largest_block(structure)))
    work = np.empty(generic.work_size(structure, rows))
    square, count = 0.0, 0
    for i in order:
        if sample_weight[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        scores, direction, arc = buffers[0, :size], buffers[1, :size], buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        known = _softmax_step(structure, i, scores, direction)
        if known < 0:
            continue
        arc[:] = 0.0
        arc[known * (words_of(structure, i) + 1) + structure.truth[structure.indptr[i] + known]] = (
            1.0
        )
        square += generic.squared_norm(structure, rows, i, arc, work)
        count += 1
        if square > 0.0:
            generic.add_block(structure, rows, weights, i, direction, count / square)
