"""Compiled gradients of smooth surrogates."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, leaf
from .._kernels.vector import add_scaled


@compiled
def gradient_of_range(surrogate, structure, rows, shares, weights, first, last, gradient):
    """Add the gradient of ``sum_i shares_i S_i`` over a range of examples; returns that sum
    and the sum of the errors of the oracle."""
    buffers = np.empty((3, generic.largest_block(structure)))
    labels = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    total, error = 0.0, 0.0
    for i in range(first, last):
        if shares[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        answer = buffers[1, :size]
        truth = buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        value, lower = generic.best_response(
            surrogate, structure, i, scores, work, labels[: high - low], answer
        )
        error += shares[i] * (value - lower)
        generic.embed_truth(structure, i, truth)
        for part in range(size):
            value -= truth[part] * scores[part]
            answer[part] -= truth[part]
        total += shares[i] * value
        generic.add_block(structure, rows, gradient, i, answer, shares[i])
    return total, error


@leaf
def add_vector(out, vector, factor):
    """``out += factor * vector``, in place."""
    add_scaled(out, vector, factor)
