"""Distributions over the labellings of a chain: marginals and the log partition function.

A labelling has the probability ``exp(score) / Z`` if the masks allow it, else exactly 0.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, implements, leaf
from .._kernels.sum_product import chain_marginals_summed
from .chain import Chain


@leaf
def apply_masks(structure, i, unary, transitions, masked, masked_transitions):
    """Scores, minus infinity where the masks forbid."""
    length, n = unary.shape
    first = structure.indptr[i]
    for t in range(length):
        for k in range(n):
            masked[t, k] = unary[t, k]
            if structure.allowed.shape[0] > 0 and not structure.allowed[first + t, k]:
                masked[t, k] = -np.inf
    for k in range(n):
        masked[0, k] += structure.first_mask[k]
        masked[length - 1, k] += structure.last_mask[k]
    for j in range(n):
        for k in range(n):
            masked_transitions[j, k] = transitions[j, k] + structure.transition_mask[j, k]


@implements(generic.gibbs, Chain)
def _gibbs(structure, i, scores, work, mu):
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size, square = length * n, n * n
    unary, transitions = scores[:size].reshape(length, n), scores[size:].reshape(n, n)
    marginals, summed = mu[:size].reshape(length, n), mu[size:].reshape(n, n)
    if structure.masked:
        masked = work[:size].reshape(length, n)
        masked_transitions = work[size : size + square].reshape(n, n)
        apply_masks(structure, i, unary, transitions, masked, masked_transitions)
        unary, transitions = masked, masked_transitions
    return chain_marginals_summed(unary, transitions, work[size + square :], marginals, summed)


@compiled
def label_marginals(structure, rows, weights, first, last, out, values):
    """Probability of label k at position t, and the log partition function of each sequence."""
    buffers = np.empty((2, generic.largest_block(structure)))
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        size = generic.block_size(structure, i)
        scores, mu = buffers[0, :size], buffers[1, :size]
        generic.score_block(structure, rows, weights, i, scores)
        values[i] = generic.gibbs(structure, i, scores, work, mu)
        low, high = structure.indptr[i], structure.indptr[i + 1]
        n = structure.n_labels
        for t in range(high - low):
            for k in range(n):
                out[low + t, k] = mu[t * n + k]


@compiled
def score_labellings(structure, rows, weights, first, last, labels, values):
    """Scores of given labellings; minus infinity for those that the masks forbid."""
    n = structure.n_labels
    buffer = np.empty(generic.largest_block(structure))
    for i in range(first, last):
        low, high = structure.indptr[i], structure.indptr[i + 1]
        scores = buffer[: generic.block_size(structure, i)]
        generic.score_block(structure, rows, weights, i, scores)
        length = high - low
        total = structure.first_mask[labels[low]] + structure.last_mask[labels[high - 1]]
        for t in range(length):
            here = labels[low + t]
            total += scores[t * n + here]
            if structure.allowed.shape[0] > 0 and not structure.allowed[low + t, here]:
                total = -np.inf
            if t > 0:
                before = labels[low + t - 1]
                total += scores[(length + before) * n + here]
                total += structure.transition_mask[before, here]
        values[i] = total
