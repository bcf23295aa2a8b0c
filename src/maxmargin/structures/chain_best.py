"""The k best labellings of chains that the masks allow, and whether there is any."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.best_paths import k_best_paths
from .._kernels.jit import compiled
from .chain_sums import apply_masks


@compiled
def best_labellings(structure, rows, weights, first, last, labels, values, counts):
    """The best labellings of some sequences, best first.

    Parameters
    ----------
    labels : integer array of shape (k, positions)
    values : array of shape (n, k)
    counts : integer array of shape (n,)
        Receives the number of labellings found: fewer than k if no more are allowed.
    """
    n = structure.n_labels
    k = values.shape[1]
    longest = structure.longest
    block = np.empty(generic.largest_block(structure))
    masked = np.empty((longest, n))
    table, turned = np.empty((n, n)), np.empty((n, n))
    scores = np.empty((2, n, k))
    came_from = np.empty((longest + 1, n, k), np.int32)
    came_rank = np.empty((longest + 1, n, k), np.int32)
    zeros, taken = np.zeros(n), np.empty(n, np.int64)
    found = np.empty((k, longest), np.int32)
    for i in range(first, last):
        low, high = structure.indptr[i], structure.indptr[i + 1]
        length = high - low
        size = length * n
        part = block[: generic.block_size(structure, i)]
        generic.score_block(structure, rows, weights, i, part)
        unary = part[:size].reshape(length, n)
        apply_masks(structure, i, unary, part[size:].reshape(n, n), masked[:length], table)
        for a in range(n):
            for b in range(n):
                turned[b, a] = table[a, b]
        counts[i] = k_best_paths(
            masked[:length], turned, scores, came_from, came_rank, zeros, taken, found, values[i]
        )
        for place in range(counts[i]):
            for t in range(length):
                labels[place, low + t] = found[place, t]


@compiled
def first_infeasible(indptr, transitions, first, last, allowed):
    """Index of the first sequence that no labelling satisfies, or -1."""
    n_labels = transitions.shape[0]
    reach = np.empty(n_labels, np.bool_)
    after = np.empty(n_labels, np.bool_)
    for i in range(indptr.shape[0] - 1):
        for position in range(indptr[i], indptr[i + 1]):
            for k in range(n_labels):
                after[k] = first[k]
                if position > indptr[i]:
                    after[k] = False
                    for j in range(n_labels):
                        if reach[j] and transitions[j, k]:
                            after[k] = True
                            break
                if position == indptr[i + 1] - 1 and not last[k]:
                    after[k] = False
                if allowed.shape[0] > 0 and not allowed[position, k]:
                    after[k] = False
            reach[:] = after
        if not reach.any():
            return i
    return -1
