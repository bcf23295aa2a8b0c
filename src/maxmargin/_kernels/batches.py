"""Passes over a batch of blocks whose scores are given: losses with gradients, marginals, draws.

The scores come from rows such as :class:`maxmargin.features.scores.ScoreRows`, and ``weights``
holds the rest of a weight vector (transitions), one row for all blocks or one per block. Every pass
covers the blocks from ``first`` to ``last``, so that threads can share a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import protocol as generic
from .jit import compiled, inner, leaf
from .vector import add_scaled, dot


class Slopes(NamedTuple):
    """Arrays for gradients: those of block i times ``factors[i]``, or 1 if there are no factors.

    ``weights`` has a row for every ``group`` blocks, which are summed there.
    """

    rows: Any
    weights: np.ndarray
    factors: np.ndarray
    group: int


@leaf
def factor_of(slopes, i):
    """The factor of a block."""
    return slopes.factors[i] if slopes.factors.shape[0] > 0 else 1.0


class Bounds(NamedTuple):
    """Upper and lower bounds on the loss of each block."""

    upper: np.ndarray
    lower: np.ndarray


@inner
def own_weights(weights, i):
    """The weights of a block."""
    return weights[i if weights.shape[0] > 1 else 0]


@compiled
def batch_surrogates(objective, rows, weights, slopes, bounds, first, last):
    """Bounds on the surrogate loss of each block, and its gradient ``mu - phi(y)``."""
    structure = objective.structure
    buffers = np.empty((3, generic.largest_block(structure)))
    labels = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores, answer, truth = buffers[0, :size], buffers[1, :size], buffers[2, :size]
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        upper, lower = generic.answer(
            objective.oracle, objective.surrogate, structure, i, scores, work,
            labels[: high - low], answer,
        )  # fmt: skip
        generic.embed_truth(structure, i, truth)
        value = dot(truth, scores)
        bounds.upper[i], bounds.lower[i] = upper - value, lower - value
        add_scaled(answer, truth, -1.0)
        into = slopes.weights[i // slopes.group]
        generic.add_block(structure, slopes.rows, into, i, answer, factor_of(slopes, i))


@compiled
def batch_gibbs(structure, rows, weights, marginals, values, entropies, first, last):
    """Marginals, log partition function and entropy of each block."""
    buffers = np.empty((2, generic.largest_block(structure)))
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        size = generic.block_size(structure, i)
        scores, mu = buffers[0, :size], buffers[1, :size]
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        values[i] = generic.gibbs(structure, i, scores, work, mu)
        entropies[i] = max(values[i] - dot(scores, mu), 0.0)
        generic.add_block(structure, marginals.rows, marginals.weights[i], i, mu, 1.0)


@compiled
def batch_changes(structure, rows, weights, along, along_weights, changes, first, last):
    """Derivatives of the marginals along directions, given as scores; returns the first block whose
    derivatives are not accurate enough, or -1."""
    buffers = np.empty((3, generic.largest_block(structure)))
    work = np.empty(generic.change_work(structure))
    failed = -1
    for i in range(last - 1, first - 1, -1):
        size = generic.block_size(structure, i)
        scores, direction, change = buffers[0, :size], buffers[1, :size], buffers[2, :size]
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        generic.score_block(structure, along, own_weights(along_weights, i), i, direction)
        if not generic.gibbs_change(structure, i, scores, direction, work, change):
            failed = i
        generic.add_block(structure, changes.rows, changes.weights[i], i, change, 1.0)
    return failed


@compiled
def batch_draws(structure, rows, weights, uniforms, labels, first, last):
    """An output of each block, drawn from its Gibbs distribution; returns the first block without
    any output, or -1. ``uniforms`` has a row per block."""
    buffer = np.empty(generic.largest_block(structure))
    work = np.empty(generic.change_work(structure))
    failed = -1
    for i in range(last - 1, first - 1, -1):
        scores = buffer[: generic.block_size(structure, i)]
        low, high = generic.label_range(structure, i)
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        if not generic.draw(structure, i, scores, uniforms[i], work, labels[low:high]):
            failed = i
    return failed


@compiled
def batch_decodings(structure, rows, weights, labels, values, first, last):
    """Best output of each block, and its score."""
    buffer = np.empty(generic.largest_block(structure))
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        scores = buffer[: generic.block_size(structure, i)]
        low, high = generic.label_range(structure, i)
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        values[i] = generic.decode(structure, i, scores, work, labels[low:high])
