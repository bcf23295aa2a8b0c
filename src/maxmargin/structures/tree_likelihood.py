"""Dependency trees whose scores are given: checks, negative log likelihoods with gradients."""

from __future__ import annotations

import numpy as np

from .._kernels.batches import factor_of
from .._kernels.checks import count_not_finite
from .._kernels.jit import compiled, inner, leaf
from .._kernels.lanes import LANES
from .._kernels.matrix_tree import (
    four_trees,
    four_trees_work,
    matrix_tree_work,
    scaled_arcs,
    tree_marginals,
)
from .._kernels.protocol import score_rows
from ..features.scores import write_rows
from .arborescence import first_no_tree, words_of

# Up to this number of words, four trees at a time are faster than one.
_LONG = 64


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


@leaf
def _trees_at(structure, i, last):
    """How many trees to process together: four of the same length, from multiples of 4 on.

    Threads take multiples of 16, so that results do not depend on them.
    """
    m = words_of(structure, i)
    if i % LANES != 0 or i + LANES > last or m > _LONG:
        return 1
    for k in range(1, LANES):
        if words_of(structure, i + k) != m:
            return 1
    return LANES


@inner
def _read_scores(structure, i, rows, weights, table):
    """Scores of the arcs of a tree; returns that of the true tree."""
    begin, size = structure.parts_indptr[i], table.size
    score_rows(rows, weights, begin, begin + size, table.reshape(size, 1))
    heads = structure.truth[structure.indptr[i] : structure.indptr[i + 1]]
    true = 0.0
    for d in range(heads.shape[0]):
        true += table[d, heads[d]]
        table[d, d + 1] = -np.inf
    return true


@compiled
def tree_likelihoods(structure, rows, weights, slopes, bounds, first, last):
    """Negative log likelihoods of trees whose arcs are all allowed, and their gradients.

    The rows of ``slopes`` that are not padding are overwritten; there are no ``weights``.
    """
    longest = structure.longest
    buffers = np.empty((LANES + 1) * longest * (longest + 1))
    work = np.empty(max(matrix_tree_work(longest), four_trees_work(min(longest, _LONG))))
    values, true = np.empty(LANES), np.empty(LANES)
    single_root = structure.single_root
    i = first
    while i < last:
        m, count = words_of(structure, i), _trees_at(structure, i, last)
        size = m * (m + 1)
        table = buffers[:size].reshape(m, m + 1)
        found = buffers[size : size + LANES * size].reshape(LANES, m, m + 1)
        done = 0
        if count == LANES:
            for k in range(LANES):
                true[k] = _read_scores(structure, i + k, rows, weights, table)
                values[k] = scaled_arcs(table, single_root, found[k])
            done = four_trees(found, single_root, work, values)
        for k in range(count):
            mu = found[k]
            if not done >> k & 1:
                true[k] = _read_scores(structure, i + k, rows, weights, table)
                values[k] = tree_marginals(table, single_root, work, mu)
            bounds.upper[i + k] = bounds.lower[i + k] = values[k] - true[k]
            begin = structure.indptr[i + k]
            for d in range(m):
                mu[d, structure.truth[begin + d]] -= 1.0
            flat = mu.reshape(size, 1)
            write_rows(slopes.rows, structure.parts_indptr[i + k], flat, factor_of(slopes, i + k))
        i += count
