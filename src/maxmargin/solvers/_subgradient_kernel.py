"""Compiled steps of the stochastic subgradient method."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled


@compiled
def subgradient_steps(objective, rows, factors, alpha, order, n_before, sums, late):
    """Visit examples in order; returns the sum of the concave parts of the answers of the oracle.

    ``sums`` is ``u_t``; ``late`` accumulates ``(t - 1)`` times the change at step t, so that
    ``sum_{s <= t} u_s = t u_t - late``.
    """
    oracle, surrogate, structure = objective
    buffers = np.empty((3, generic.largest_block(structure)))
    label_buffer = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    concave = 0.0
    for step in range(order.shape[0]):
        i = order[step]
        t = n_before + step
        if factors[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        answer = buffers[1, :size]
        direction = buffers[2, :size]
        generic.score_block(structure, rows, sums, i, scores)
        shrink = 1.0 / (alpha * t) if t > 0 else 0.0
        for part in range(size):
            scores[part] *= shrink
        labels = label_buffer[: high - low]
        generic.answer(oracle, surrogate, structure, i, scores, work, labels, answer)
        concave += factors[i] * generic.concave_part(surrogate, structure, i, answer, work)
        generic.embed_truth(structure, i, direction)
        for part in range(size):
            direction[part] -= answer[part]
        generic.add_block(structure, rows, sums, i, direction, factors[i])
        generic.add_block(structure, rows, late, i, direction, factors[i] * t)
    return concave
