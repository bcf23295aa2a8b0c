"""Label sequences: ``y = (y_1, ..., y_T)`` of any length T, with K labels per position.

``Phi(x, y)``: the sum over positions of ``e_{y_t} (outer) x_t``, the count of each transition
``(y_t, y_{t+1})``, and optionally the first and the last label. The parts of a block are the T*K
labels at positions, then the K*K transitions summed over the sequence: transition weights do not
depend on the position, so only the sum of their marginals is needed. The loss is a sum of label
losses, that of position t times ``loss_scale[t]`` (1/T by default).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, implements, inner, leaf
from .._kernels.protocol import (
    add_label_losses,
    add_row,
    cross_products,
    expected_label_loss,
    prefetch_rows,
    score_rows,
)
from .._kernels.vector import add_scaled, combine_rows, copy, dot, prefetch
from .._kernels.viterbi import viterbi
from ..features.rows import products_within
from .losses import LabelLoss
from .traits import Traits

# Gram matrices of sequences up to this length are stored: at most 8 * 64 / 2 bytes per position.
KEEP_PRODUCTS_UP_TO = 64


class Chain(NamedTuple):
    """Packed label sequences: sequence i holds positions ``indptr[i]`` to ``indptr[i+1]``."""

    truth: np.ndarray
    indptr: np.ndarray
    longest: int
    n_labels: int
    loss: LabelLoss
    loss_scale: np.ndarray
    ends: bool  # whether the first and the last label have weights of their own
    masked: bool  # whether any of the following masks forbids something
    transition_mask: np.ndarray  # 0 or -inf, (K, K)
    first_mask: np.ndarray  # 0 or -inf, (K,)
    last_mask: np.ndarray  # 0 or -inf, (K,)
    allowed: np.ndarray  # (positions, K) bool, or (0, K): everything
    products: np.ndarray  # packed lower triangles x_s @ x_t within a sequence
    products_indptr: np.ndarray

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(
            sparse_outputs=True,
            flows=True,
            entropy_apart=True,
            revisits=True,
            saddle="positions",
            batch=8,
            no_oracle={
                "max-min": "an exact max-min oracle, which label sequences do not have "
                "(solver='auto' or 'flow', BlockFrankWolfe(oracle=MirrorProx()), or "
                "surrogate='max-margin')"
            },
        )

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: inputs, transitions, first, last."""
        return (n_inputs + self.n_labels + 2 * self.ends) * self.n_labels

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        masks = (self.transition_mask, self.first_mask, self.last_mask, self.allowed)
        arrays = (self.indptr, *masks)
        shapes = repr([array.shape for array in arrays]).encode()
        return shapes + b"".join(array.tobytes() for array in arrays)


def _at_once(work: Callable[[int, int], None], n: int) -> None:
    work(0, n)


def pack_products(
    rows: Any, indptr: np.ndarray, in_groups: Callable[..., Any] = _at_once
) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrices of the positions of each sequence that is not too long.

    ``in_groups(work, n)`` calls ``work(first, last)`` for ranges that cover ``range(n)``.
    """
    lengths = np.diff(indptr)
    wanted = lengths <= KEEP_PRODUCTS_UP_TO
    sizes = np.where(wanted, lengths * (lengths + 1) // 2, 0)
    products_indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    products = np.empty(int(products_indptr[-1]))

    def work(first, last):
        bounds, at = indptr[first : last + 1], products_indptr[first : last + 1]
        products_within(rows, bounds, wanted[first:last], at, products)

    in_groups(work, len(lengths))
    return products, products_indptr


@implements(generic.n_blocks, Chain)
def _n_blocks(structure):
    return structure.indptr.shape[0] - 1


@implements(generic.block_size, Chain)
def _block_size(structure, i):
    length = structure.indptr[i + 1] - structure.indptr[i]
    return (length + structure.n_labels) * structure.n_labels


@implements(generic.largest_block, Chain)
def _largest_block(structure):
    return (structure.longest + structure.n_labels) * structure.n_labels


@implements(generic.most_labels, Chain)
def _most_labels(structure):
    return structure.longest


@implements(generic.label_range, Chain)
def _label_range(structure, i):
    return structure.indptr[i], structure.indptr[i + 1]


@implements(generic.work_size, Chain)
def _work_size(structure, rows):
    longest = structure.longest
    # loss-augmented scores, then two sets of path scores, masked unaries and transitions; or
    # masked unaries and transitions, then scratch for sums over all paths; or two sets of scores,
    # messages from both sides, and the scores before
    size = (5 * longest + 4 * structure.n_labels + 4) * structure.n_labels + longest
    if longest > KEEP_PRODUCTS_UP_TO:
        size += (rows.n_inputs + 1) * structure.n_labels
    return size


@implements(generic.prefetch_block, Chain)
def _prefetch_block(structure, rows, i):
    prefetch_rows(rows, structure.indptr[i], structure.indptr[i + 1])
    prefetch(structure.products, structure.products_indptr[i], structure.products_indptr[i + 1])
    prefetch(structure.truth, structure.indptr[i], structure.indptr[i + 1])
    prefetch(structure.loss_scale, structure.indptr[i], structure.indptr[i + 1])


@inner
def score_labels(structure, rows, weights, i, unary):
    """Scores of the labels at the positions of a sequence."""
    n = structure.n_labels
    split = rows.n_inputs * n
    matrix = weights[:split].reshape(rows.n_inputs, n)
    score_rows(rows, matrix, structure.indptr[i], structure.indptr[i + 1], unary)
    if structure.ends:
        ends = split + n * n
        add_scaled(unary[0], weights[ends : ends + n], 1.0)
        add_scaled(unary[-1], weights[ends + n :], 1.0)


@implements(generic.score_block, Chain)
def _score_block(structure, rows, weights, i, scores):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    score_labels(structure, rows, weights, i, scores[: length * n].reshape(length, n))
    split = rows.n_inputs * n
    copy(scores[length * n :], weights[split : split + n * n])


@leaf
def add_labels(structure, rows, weights, i, unary, scale):
    """Move the weights of the inputs and of the ends along ``unary``, labels at positions."""
    length, n = unary.shape
    split = rows.n_inputs * n
    matrix = weights[:split].reshape(rows.n_inputs, n)
    for t in range(length):
        if dot(unary[t], unary[t]) != 0.0:
            add_row(rows, matrix, structure.indptr[i] + t, unary[t], scale)
    if structure.ends:
        ends = split + n * n
        add_scaled(weights[ends : ends + n], unary[0], scale)
        add_scaled(weights[ends + n :], unary[length - 1], scale)


@implements(generic.add_block, Chain)
def _add_block(structure, rows, weights, i, direction, scale):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    add_labels(structure, rows, weights, i, direction[: length * n].reshape(length, n), scale)
    split = rows.n_inputs * n
    add_scaled(weights[split : split + n * n], direction[length * n :], scale)


@implements(generic.squared_norm, Chain)
def _squared_norm(structure, rows, i, direction, work):
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    unary = direction[: length * n].reshape(length, n)
    summed = direction[length * n :]
    total = dot(summed, summed)
    kept = structure.products_indptr[i + 1] > structure.products_indptr[i]
    below = structure.products_indptr[i]  # offset of the products of t with earlier positions
    before = work[:n]
    moved = 0
    for t in range(length):
        square = dot(unary[t], unary[t])
        if structure.ends and t == 0:
            total += square
        if structure.ends and t == length - 1:
            total += square
        if square != 0.0:
            total += square * rows.squares[first + t]
            if kept and moved > 0:
                before[:] = 0.0
                combine_rows(unary, None, structure.products[below : below + t], 0, t, before)
                total += 2.0 * dot(before, unary[t])
            elif not kept:
                work[moved] = t
            moved += 1
        below += t + 1
    if not kept:
        total += cross_products(rows, first, unary, work, moved, work[length:])
    return total


@implements(generic.decode, Chain)
def _decode(structure, i, scores, work, labels):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size = length * n
    unary = scores[:size].reshape(length, n)
    return best_path(structure, i, unary, scores[size : size + n * n].reshape(n, n), work, labels)


@compiled
def best_paths(structure, rows, weights, first, last, labels):
    """Best labels of some sequences. Like scoring and decoding blocks, but without a copy of the
    transition scores per sequence."""
    n = structure.n_labels
    buffer = np.empty((structure.longest, n))
    work = np.empty(generic.work_size(structure, rows))
    split = rows.n_inputs * n
    transitions = weights[split : split + n * n].reshape(n, n)
    for i in range(first, last):
        low, high = structure.indptr[i], structure.indptr[i + 1]
        unary = buffer[: high - low]
        score_labels(structure, rows, weights, i, unary)
        best_path(structure, i, unary, transitions, work, labels[low:high])


@inner
def best_path(structure, i, unary, transitions, work, labels):
    """Best labels of a sequence that the masks allow, and their score."""
    first = structure.indptr[i]
    length, n = unary.shape
    size = length * n
    arrive = work[:size].reshape(length, n)
    leave = work[size : 2 * size].reshape(length, n)
    if not structure.masked:
        return viterbi(unary, transitions, arrive, leave, labels)
    masked = work[2 * size : 3 * size].reshape(length, n)
    masked_transitions = work[3 * size : 3 * size + n * n].reshape(n, n)
    for t in range(length):
        for k in range(n):
            masked[t, k] = unary[t, k]
    if structure.allowed.shape[0] > 0:
        for t in range(length):
            for k in range(n):
                if not structure.allowed[first + t, k]:
                    masked[t, k] = -np.inf
    for k in range(n):
        masked[0, k] += structure.first_mask[k]
        masked[length - 1, k] += structure.last_mask[k]
    for j in range(n):
        for k in range(n):
            masked_transitions[j, k] = transitions[j, k] + structure.transition_mask[j, k]
    return viterbi(masked, masked_transitions, arrive, leave, labels)


@implements(generic.most_parts, Chain)
def _most_parts(structure):
    return 2 * structure.longest


@implements(generic.output_parts, Chain)
def _output_parts(structure, i, labels, parts):
    n = structure.n_labels
    length = labels.shape[0]
    for t in range(length):
        parts[t] = t * n + labels[t]
    for t in range(length - 1):
        parts[length + t] = (length + labels[t]) * n + labels[t + 1]
    return 2 * length - 1


@implements(generic.add_gram, Chain)
def _add_gram(structure, rows, i, direction, scale, scores):
    if structure.products_indptr[i + 1] == structure.products_indptr[i]:
        return False
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    base = structure.products_indptr[i]
    moves = direction[: length * n].reshape(length, n)
    unary = scores[: length * n].reshape(length, n)
    for s in range(length):
        if dot(moves[s], moves[s]) == 0.0:
            continue
        for t in range(length):
            place = s * (s + 1) // 2 + t if t <= s else t * (t + 1) // 2 + s
            add_scaled(unary[t], moves[s], scale * structure.products[base + place])
    add_scaled(scores[length * n :], direction[length * n :], scale)
    if structure.ends:
        add_scaled(unary[0], moves[0], scale)
        add_scaled(unary[length - 1], moves[length - 1], scale)
    return True


@implements(generic.embed, Chain)
def _embed(structure, i, labels, out):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    out[:] = 0.0
    for t in range(length):
        out[t * n + labels[t]] = 1.0
    for t in range(length - 1):
        out[(length + labels[t]) * n + labels[t + 1]] += 1.0


@implements(generic.embed_truth, Chain)
def _embed_truth(structure, i, out):
    first, last = structure.indptr[i], structure.indptr[i + 1]
    generic.embed(structure, i, structure.truth[first:last], out)


@implements(generic.add_loss, Chain)
def _add_loss(structure, i, out):
    n = structure.n_labels
    first = structure.indptr[i]
    for t in range(structure.indptr[i + 1] - first):
        scale = structure.loss_scale[first + t]
        add_label_losses(structure.loss, structure.truth[first + t], scale, out[t * n : t * n + n])


@implements(generic.expected_loss, Chain)
def _expected_loss(structure, i, mu):
    n = structure.n_labels
    first = structure.indptr[i]
    total = 0.0
    for t in range(structure.indptr[i + 1] - first):
        at = mu[t * n : (t + 1) * n]
        lost = expected_label_loss(structure.loss, at, structure.truth[first + t])
        total += structure.loss_scale[first + t] * lost
    return total


@implements(generic.linear_prox, Chain)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    return -np.inf


@compiled
def max_marginals(structure, rows, weights, first, last, out):
    """Best score of a whole sequence that has label k at position t, for all t and k."""
    n = structure.n_labels
    scores = np.empty(generic.largest_block(structure))
    work = np.empty(generic.work_size(structure, rows))
    labels = np.empty(structure.longest, np.int32)
    backward = np.empty(n)
    before = np.empty(n)
    for i in range(first, last):
        low, high = structure.indptr[i], structure.indptr[i + 1]
        length = high - low
        size = length * n
        block = scores[: generic.block_size(structure, i)]
        generic.score_block(structure, rows, weights, i, block)
        generic.decode(structure, i, block, work, labels[:length])
        leave = work[size : 2 * size].reshape(length, n)  # best path up to and with a label
        unary = scores[:size].reshape(length, n)
        transitions = scores[size : size + n * n].reshape(n, n)
        if structure.masked:
            unary = work[2 * size : 3 * size].reshape(length, n)
            transitions = work[3 * size : 3 * size + n * n].reshape(n, n)
        backward[:] = 0.0
        for t in range(length - 1, -1, -1):
            for k in range(n):
                out[low + t, k] = leave[t, k] + backward[k]
            for j in range(n):
                best = -np.inf
                for k in range(n):
                    best = max(best, transitions[j, k] + unary[t, k] + backward[k])
                before[j] = best
            for j in range(n):
                backward[j] = before[j]
