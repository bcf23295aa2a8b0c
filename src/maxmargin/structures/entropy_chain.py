"""Label sequences whose blocks store an entropy, for coordinate ascent on a CRF.

The same outputs, features, masks and weights as :class:`Chain`. A block holds the parts of the
chain (labels at positions, summed transitions), then one more number: a lower bound on the largest
entropy of a distribution with these marginals, 0 for a single output. The entropy itself would need
the marginals of the pairs at every position, ``(T-1) K^2`` numbers in place of ``K^2 + 1``.

The dual of n sequences takes ``sum_i (T_i K + K^2 + 1)`` numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import dot
from .chain import Chain, pack_products
from .traits import Traits


class EntropyChain(NamedTuple):
    """A chain whose blocks end with a bound on their entropy."""

    chain: Chain

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits()

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: that of the chain."""
        return self.chain.n_weights(n_inputs)

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return self.chain.output_space()


def entropy_chain(chain: Chain, rows: Any) -> EntropyChain:
    """The same sequences with the products of rows that steps in a block need, and an entropy."""
    products, indptr = pack_products(rows, chain.indptr)
    return EntropyChain(chain._replace(products=products, products_indptr=indptr))


@implements(generic.n_blocks, EntropyChain)
def _n_blocks(structure):
    return generic.n_blocks(structure.chain)


@implements(generic.block_size, EntropyChain)
def _block_size(structure, i):
    return generic.block_size(structure.chain, i) + 1


@implements(generic.largest_block, EntropyChain)
def _largest_block(structure):
    return generic.largest_block(structure.chain) + 1


@implements(generic.most_labels, EntropyChain)
def _most_labels(structure):
    return generic.most_labels(structure.chain)


@implements(generic.label_range, EntropyChain)
def _label_range(structure, i):
    return generic.label_range(structure.chain, i)


@implements(generic.work_size, EntropyChain)
def _work_size(structure, rows):
    return generic.work_size(structure.chain, rows)


@implements(generic.prefetch_block, EntropyChain)
def _prefetch_block(structure, rows, i):
    generic.prefetch_block(structure.chain, rows, i)


@implements(generic.score_block, EntropyChain)
def _score_block(structure, rows, weights, i, scores):
    last = scores.shape[0] - 1
    generic.score_block(structure.chain, rows, weights, i, scores[:last])
    scores[last] = 0.0


@implements(generic.add_block, EntropyChain)
def _add_block(structure, rows, weights, i, direction, scale):
    last = direction.shape[0] - 1
    generic.add_block(structure.chain, rows, weights, i, direction[:last], scale)


@implements(generic.squared_norm, EntropyChain)
def _squared_norm(structure, rows, i, direction, work):
    last = direction.shape[0] - 1
    return generic.squared_norm(structure.chain, rows, i, direction[:last], work)


@implements(generic.add_gram, EntropyChain)
def _add_gram(structure, rows, i, direction, scale, scores):
    last = scores.shape[0] - 1
    return generic.add_gram(structure.chain, rows, i, direction[:last], scale, scores[:last])


@implements(generic.decode, EntropyChain)
def _decode(structure, i, scores, work, labels):
    return generic.decode(structure.chain, i, scores[: scores.shape[0] - 1], work, labels)


@implements(generic.most_parts, EntropyChain)
def _most_parts(structure):
    return generic.most_parts(structure.chain)


@implements(generic.output_parts, EntropyChain)
def _output_parts(structure, i, labels, parts):
    return generic.output_parts(structure.chain, i, labels, parts)


@implements(generic.embed, EntropyChain)
def _embed(structure, i, labels, out):
    last = out.shape[0] - 1
    generic.embed(structure.chain, i, labels, out[:last])
    out[last] = 0.0


@implements(generic.embed_truth, EntropyChain)
def _embed_truth(structure, i, out):
    last = out.shape[0] - 1
    generic.embed_truth(structure.chain, i, out[:last])
    out[last] = 0.0


@implements(generic.add_loss, EntropyChain)
def _add_loss(structure, i, out):
    generic.add_loss(structure.chain, i, out[: out.shape[0] - 1])


@implements(generic.expected_loss, EntropyChain)
def _expected_loss(structure, i, mu):
    return generic.expected_loss(structure.chain, i, mu)


@implements(generic.linear_prox, EntropyChain)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    return -np.inf


@implements(generic.gibbs, EntropyChain)
def _gibbs(structure, i, scores, work, mu):
    last = mu.shape[0] - 1
    value = generic.gibbs(structure.chain, i, scores[:last], work, mu[:last])
    # ``value`` is the maximum of entropy plus expected score: exact, without a logarithm per pair.
    mu[last] = max(value - dot(scores[:last], mu[:last]), 0.0)
    return value


@implements(generic.entropy_bound, EntropyChain)
def _entropy_bound(structure, i, mu):
    return mu[mu.shape[0] - 1]


@implements(generic.raise_bound, EntropyChain)
def _raise_bound(structure, i, direction, amount):
    direction[direction.shape[0] - 1] += amount


@implements(generic.distance_bound, EntropyChain)
def _distance_bound(structure, i, direction):
    # Two distributions over labellings are at least as far apart as those of one label.
    n = structure.chain.n_labels
    farthest = 0.0
    for first in range(0, direction.shape[0] - 1 - n * n, n):
        distance = 0.0
        for part in range(first, first + n):
            distance += abs(direction[part])
        farthest = max(farthest, distance)
    return farthest
