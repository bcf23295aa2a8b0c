"""The k best outputs of each block of a batch, by Lawler's partition over a constrained argmax.

The outputs other than the best one y, with parts p_1, p_2, ..., are divided into those without p_1,
those with p_1 but without p_2, and so on. The best output of each set is found by the oracle of the
structure, with scores that forbid some parts and fix others. The next best output of all is the
best one of some set, which is divided in turn.

References
----------
Lawler. A procedure for computing the k best solutions to discrete optimization problems. 1972.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import protocol as generic
from .batches import own_weights
from .jit import compiled, inner, leaf
from .vector import copy

_FREE, _FIXED, _FORBIDDEN = 0, 1, 2


class Pool(NamedTuple):
    """The best output of each of k sets; a set is given by the state of each part."""

    values: np.ndarray  # minus infinity: no set
    labels: np.ndarray  # (k, labels)
    states: np.ndarray  # (k, parts)


class Scratch(NamedTuple):
    """What a search needs beside its pool."""

    scores: np.ndarray  # with parts fixed and forbidden
    work: np.ndarray
    parts: np.ndarray  # of an output that is divided, and of one that is found
    labels: np.ndarray
    states: np.ndarray


@inner
def _best_of_set(structure, i, scores, states, scratch, labels):
    """Write the best output of a set and return its score; minus infinity if the set is empty."""
    masked, parts = scratch.scores[: scores.shape[0]], scratch.parts[1]
    copy(masked, scores)
    for p in range(scores.shape[0]):
        if states[p] == _FORBIDDEN:
            masked[p] = -np.inf
        elif states[p] == _FIXED:
            generic.fix_part(structure, i, p, masked)
    if generic.decode(structure, i, masked, scratch.work, labels) == -np.inf:
        return -np.inf
    total = 0.0
    for place in range(generic.output_parts(structure, i, labels, parts)):
        if states[parts[place]] == _FORBIDDEN:
            return -np.inf
        total += scores[parts[place]]
    return total


@leaf
def _add(pool, value, labels, states):
    """Replace the worst set of a pool, if the value is better."""
    worst = np.argmin(pool.values)
    if value > pool.values[worst]:
        pool.values[worst] = value
        for place in range(labels.shape[0]):
            pool.labels[worst, place] = labels[place]
        for part in range(states.shape[0]):
            pool.states[worst, part] = states[part]


@inner
def _divide(structure, i, scores, which, pool, scratch):
    """Replace a set of the pool by its parts without its best output."""
    size, n_labels = scores.shape[0], scratch.labels.shape[0]
    states, labels, parts = scratch.states[:size], scratch.labels, scratch.parts[0]
    for part in range(size):
        states[part] = pool.states[which, part]
    count = generic.output_parts(structure, i, pool.labels[which, :n_labels], parts)
    pool.values[which] = -np.inf
    for place in range(count):
        if states[parts[place]] != _FIXED:
            states[parts[place]] = _FORBIDDEN
            value = _best_of_set(structure, i, scores, states, scratch, labels)
            _add(pool, value, labels, states)
            states[parts[place]] = _FIXED


@compiled
def batch_best_outputs(structure, rows, weights, labels, values, first, last):
    """The best outputs of each block, one per row of ``labels``, and their scores.

    ``values`` are minus infinity beyond the number of outputs, where labels are not written.
    """
    k, largest, most = labels.shape[0], generic.largest_block(structure), 0
    for i in range(first, last):
        low, high = generic.label_range(structure, i)
        most = max(most, high - low)
    buffers = np.empty((2, largest))
    pool = Pool(np.empty(k), np.empty((k, most), np.int32), np.empty((k, largest), np.int8))
    work = np.empty(generic.work_size(structure, rows))
    parts = np.empty((2, generic.most_parts(structure)), np.int64)
    found, states = np.empty(most, np.int32), np.empty(largest, np.int8)
    for i in range(first, last):
        low, high = generic.label_range(structure, i)
        n_labels, size = high - low, generic.block_size(structure, i)
        scores = buffers[0, :size]
        scratch = Scratch(buffers[1], work, parts, found[:n_labels], states)
        generic.score_block(structure, rows, own_weights(weights, i), i, scores)
        pool.values[:] = -np.inf
        pool.states[0, :] = _FREE
        best = pool.labels[0, :n_labels]
        pool.values[0] = _best_of_set(structure, i, scores, pool.states[0], scratch, best)
        for place in range(k):
            which = np.argmax(pool.values)
            values[i, place] = pool.values[which]
            if values[i, place] == -np.inf:
                values[i, place:] = -np.inf
                break
            labels[place, low:high] = pool.labels[which, :n_labels]
            _divide(structure, i, scores, which, pool, scratch)
