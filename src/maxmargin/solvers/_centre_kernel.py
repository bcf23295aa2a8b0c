"""Vectors of an accelerated proximal point method, each read once: with sparse features they are
long, and what is made on the way would take as much time as a pass."""

from __future__ import annotations

from .._kernels.jit import compiled


@compiled
def mix_in(mean, vector, share):
    """``mean += share * (vector - mean)``."""
    for j in range(mean.shape[0]):
        mean[j] += share * (vector[j] - mean[j])


@compiled
def points_back(centre, weights, before):
    """Whether momentum, ``centre - weights``, points to where the weights came from.

    The inner product of what the centre was ahead with what the weights moved.
    """
    total = 0.0
    for j in range(weights.shape[0]):
        total += (centre[j] - weights[j]) * (weights[j] - before[j])
    return total > 0.0


@compiled
def move_centre(weights, before, centre, momentum, share):
    """The centre goes to ``weights + momentum * (weights - before)``, the weights a share with it.

    ``before`` becomes the weights as they were.
    """
    for j in range(weights.shape[0]):
        here = weights[j]
        there = here + momentum * (here - before[j])
        before[j] = here
        weights[j] = here + share * (there - centre[j])
        centre[j] = there
