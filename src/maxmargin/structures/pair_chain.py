"""Label sequences with a marginal for every pair of neighbours: what entropies of chains need.

The same outputs, features, masks and weights as :class:`Chain`. A block holds the ``T*K`` labels
at positions, then ``(T-1)*K*K`` pairs, position by position; that of Chain knows only the sum of
the pairs. The entropy of a chain is that of its pairs minus that of the labels counted twice,

    H(mu) = sum_t H(mu_{t,t+1}) - sum_{1<t<T} H(mu_t),        H(mu) = H(mu_1) if T = 1.

The dual of n sequences takes ``sum_i (T_i - 1) K^2 + T_i K`` numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.exponential import entropy_line, entropy_of_row
from .._kernels.jit import implements, leaf
from .._kernels.sum_product import chain_marginals
from .._kernels.vector import add_scaled, copy
from .chain import Chain, add_labels, best_path
from .chain_sums import apply_masks


class PairChain(NamedTuple):
    """A chain whose blocks hold the pairs of every position."""

    chain: Chain

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: that of the chain."""
        return self.chain.n_weights(n_inputs)

    def output_space(self) -> bytes:
        """What decides which outputs are possible."""
        return self.chain.output_space()


@leaf
def _length(structure, i):
    return structure.chain.indptr[i + 1] - structure.chain.indptr[i]


@implements(generic.n_blocks, PairChain)
def _n_blocks(structure):
    return generic.n_blocks(structure.chain)


@leaf
def _size_of(length, n):
    return (length + (length - 1) * n) * n


@implements(generic.block_size, PairChain)
def _block_size(structure, i):
    return _size_of(_length(structure, i), structure.chain.n_labels)


@implements(generic.largest_block, PairChain)
def _largest_block(structure):
    return _size_of(structure.chain.longest, structure.chain.n_labels)


@implements(generic.most_labels, PairChain)
def _most_labels(structure):
    return generic.most_labels(structure.chain)


@implements(generic.label_range, PairChain)
def _label_range(structure, i):
    return generic.label_range(structure.chain, i)


@implements(generic.work_size, PairChain)
def _work_size(structure, rows):
    n = structure.chain.n_labels
    longest = structure.chain.longest
    folded = (longest + n) * n
    # loss-augmented scores of a block, then a block of the chain and what the chain needs
    return _size_of(longest, n) + folded + generic.work_size(structure.chain, rows)


@implements(generic.prefetch_block, PairChain)
def _prefetch_block(structure, rows, i):
    generic.prefetch_block(structure.chain, rows, i)


@implements(generic.score_block, PairChain)
def _score_block(structure, rows, weights, i, scores):
    n = structure.chain.n_labels
    length = _length(structure, i)
    size, square = length * n, n * n
    pairs = min(1, length - 1) * square
    generic.score_block(structure.chain, rows, weights, i, scores[: size + pairs])
    for t in range(1, length - 1):
        copy(scores[size + t * square : size + (t + 1) * square], scores[size : size + square])


@implements(generic.add_block, PairChain)
def _add_block(structure, rows, weights, i, direction, scale):
    n = structure.chain.n_labels
    length = _length(structure, i)
    size, square = length * n, n * n
    add_labels(structure.chain, rows, weights, i, direction[:size].reshape(length, n), scale)
    split = rows.n_inputs * n
    transitions = weights[split : split + square]
    for t in range(length - 1):
        add_scaled(transitions, direction[size + t * square : size + (t + 1) * square], scale)


@implements(generic.squared_norm, PairChain)
def _squared_norm(structure, rows, i, direction, work):
    n = structure.chain.n_labels
    length = _length(structure, i)
    size, square = length * n, n * n
    folded = work[: size + square]  # the block of the chain: pairs summed over positions
    copy(folded[:size], direction[:size])
    folded[size:] = 0.0
    for t in range(length - 1):
        add_scaled(folded[size:], direction[size + t * square : size + (t + 1) * square], 1.0)
    return generic.squared_norm(structure.chain, rows, i, folded, work[size + square :])


@implements(generic.add_gram, PairChain)
def _add_gram(structure, rows, i, direction, scale, scores):
    return False


@implements(generic.decode, PairChain)
def _decode(structure, i, scores, work, labels):
    n = structure.chain.n_labels
    length = _length(structure, i)
    size, square = length * n, n * n
    transitions = work[:square]  # all pairs score alike: those of the first stand for all
    transitions[:] = 0.0
    if length > 1:
        copy(transitions, scores[size : size + square])
    unary = scores[:size].reshape(length, n)
    return best_path(structure.chain, i, unary, transitions.reshape(n, n), work[square:], labels)


@implements(generic.most_parts, PairChain)
def _most_parts(structure):
    return generic.most_parts(structure.chain)


@implements(generic.output_parts, PairChain)
def _output_parts(structure, i, labels, parts):
    n = structure.chain.n_labels
    length = labels.shape[0]
    for t in range(length):
        parts[t] = t * n + labels[t]
    for t in range(length - 1):
        parts[length + t] = length * n + (t * n + labels[t]) * n + labels[t + 1]
    return 2 * length - 1


@implements(generic.embed, PairChain)
def _embed(structure, i, labels, out):
    n = structure.chain.n_labels
    length = labels.shape[0]
    out[:] = 0.0
    for t in range(length):
        out[t * n + labels[t]] = 1.0
    for t in range(length - 1):
        out[length * n + (t * n + labels[t]) * n + labels[t + 1]] = 1.0


@implements(generic.embed_truth, PairChain)
def _embed_truth(structure, i, out):
    first, last = generic.label_range(structure.chain, i)
    generic.embed(structure, i, structure.chain.truth[first:last], out)


@implements(generic.add_loss, PairChain)
def _add_loss(structure, i, out):
    generic.add_loss(structure.chain, i, out)


@implements(generic.expected_loss, PairChain)
def _expected_loss(structure, i, mu):
    return generic.expected_loss(structure.chain, i, mu)


@implements(generic.linear_prox, PairChain)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    return -np.inf


@implements(generic.gibbs, PairChain)
def _gibbs(structure, i, scores, work, mu):
    n = structure.chain.n_labels
    length = _length(structure, i)
    size, square = length * n, n * n
    unary, marginals = scores[:size].reshape(length, n), mu[:size].reshape(length, n)
    pairs = mu[size:].reshape(length - 1, n, n)
    masked = work[:size].reshape(length, n)
    transitions = work[size : size + square].reshape(n, n)
    if length == 1:
        transitions[:] = 0.0
    else:
        copy(work[size : size + square], scores[size : size + square])
    if structure.chain.masked:
        apply_masks(structure.chain, i, unary, transitions, masked, transitions)
        unary = masked
    return chain_marginals(unary, transitions, work[size + square :], marginals, pairs)


@implements(generic.entropy, PairChain)
def _entropy(structure, i, mu, work):
    n = structure.chain.n_labels
    length = _length(structure, i)
    if length == 1:
        return entropy_of_row(mu)
    return entropy_of_row(mu[length * n :]) - entropy_of_row(mu[n : (length - 1) * n])


@implements(generic.entropy_slope, PairChain)
def _entropy_slope(structure, i, mu, direction, gamma, work):
    n = structure.chain.n_labels
    length = _length(structure, i)
    if length == 1:
        slope, curvature = entropy_line(mu, direction, gamma)
        return -slope, -curvature
    slope, curvature = entropy_line(mu[length * n :], direction[length * n :], gamma)
    inner = slice(n, (length - 1) * n)
    twice, twice_curvature = entropy_line(mu[inner], direction[inner], gamma)
    return twice - slope, min(twice_curvature - curvature, 0.0)
