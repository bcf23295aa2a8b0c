"""Dependency trees whose scores are given: checks, negative log likelihoods with gradients."""

from __future__ import annotations

import numpy as np

from .._kernels.batches import factor_of
from .._kernels.checks import count_not_finite
from .._kernels.jit import compiled
from .._kernels.matrix_tree import matrix_tree_work, tree_marginals
from .._kernels.protocol import score_rows
from ..features.scores import write_rows
from .arborescence import first_no_tree, words_of


@compiled
def read_trees(structure, values, given):
    """Copy heads to the truth; returns whether they are trees and all values are finite."""
    bad = count_not_finite(values.reshape(values.size))
    for i in range(structure.indptr.shape[0] - 1):
        m = words_of(structure, i)
        for at in range(structure.indptr[i], structure.indptr[i + 1]):
            bad += given[at] < 0 or given[at] > m
            structure.truth[at] = np.int32(given[at])
    return bad == 0 and first_no_tree(structure)[0] < 0


@compiled
def tree_likelihoods(structure, rows, weights, slopes, bounds, first, last):
    """Negative log likelihoods of trees whose arcs are all allowed, and their gradients.

    The rows of ``slopes`` that are not padding are overwritten; there are no ``weights``.
    """
    longest = structure.longest
    buffers = np.empty((2, longest * (longest + 1)))
    work = np.empty(matrix_tree_work(longest))
    for i in range(first, last):
        m = words_of(structure, i)
        size, begin = m * (m + 1), structure.parts_indptr[i]
        scores, mu = buffers[0, :size], buffers[1, :size]
        table = scores.reshape(m, m + 1)
        score_rows(rows, weights, begin, begin + size, scores.reshape(size, 1))
        heads = structure.truth[structure.indptr[i] : structure.indptr[i + 1]]
        true = 0.0
        for d in range(m):
            true += table[d, heads[d]]
            table[d, d + 1] = -np.inf
        value = tree_marginals(table, structure.single_root, work, mu.reshape(m, m + 1))
        bounds.upper[i] = bounds.lower[i] = value - true
        for d in range(m):
            mu[d * (m + 1) + heads[d]] -= 1.0
        write_rows(slopes.rows, begin, mu.reshape(size, 1), factor_of(slopes, i))
