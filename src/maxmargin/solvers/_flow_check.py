"""True values for flows: the surrogate between two bounds, and the concave part of the dual.

The max-min surrogate of a chain has no closed form. For any predictions nu, the score of a best
path, with the expected losses of nu added to the scores, is an upper bound on it; the marginals mu
of the dual give a lower bound. The primal value reported is the upper bound, and the difference of
both is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, leaf
from .._kernels.simplex import project
from .._kernels.vector import copy, dot
from ._flow_kernel import augment, true_score
from ._flow_moves import make_scratch


@leaf
def _improve(structure, curvature, i, excess, labels, work, predictions):
    """One step of Polyak's subgradient method on the predictions of example i.

    The best path ``labels`` exceeds a lower bound by ``excess``; predictions closer to its labels
    lower its value.
    """
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    square = 0.0
    for t in range(length):
        square += structure.loss_scale[first + t] ** 2
    if square <= 0.0:
        return False
    step = excess / (square * curvature.cost * curvature.cost)
    values, losses = work[:n], work[n : 2 * n]
    for t in range(length):
        for k in range(n):
            losses[k] = generic.label_loss(structure.loss, k, labels[t])
        for k in range(n):
            values[k] = predictions[t, k] - step * structure.loss_scale[first + t] * losses[k]
        generic.forbid_labels(structure, i, t, values)
        top = -np.inf
        for k in range(n):
            top = max(top, values[k])
        for k in range(n):
            values[k] -= top
        project(values, work[2 * n :], 1.0, predictions[t])
    return True


class FlowPoint(NamedTuple):
    """Weights, and the predictions and flows that bracket the surrogate there."""

    weights: np.ndarray
    predictions: np.ndarray
    flows: Any


@compiled
def bracket_blocks(
    surrogate, structure, rows, curvature, sample_weight, point, rounds, first, last, out
):
    """Sum surrogate values, concave parts and the widths of their brackets over some examples.

    ``out.sums`` gets ``[sum s_i S_i, sum s_i H_i(mu_i), sum s_i width_i]``, where S_i is an upper
    bound from predictions, improved by some ``rounds`` of a subgradient method; ``out.gaps[i]``
    gets the width.
    """
    flows = point.flows
    weights, predictions = point.weights, point.predictions
    sums, gaps = out.sums, out.gaps
    scratch = make_scratch(structure, rows)
    n = structure.n_labels
    improved = np.empty((structure.longest, n))
    sums[:] = 0.0
    for i in range(first, last):
        if sample_weight[i] == 0.0:
            gaps[i] = 0.0
            continue
        low, high = generic.label_range(structure, i)
        size = generic.block_size(structure, i)
        scores, mu = scratch.scores[:size], scratch.mu[:size]
        augmented, labels = scratch.augmented[:size], scratch.labels[: high - low]
        generic.score_block(structure, rows, weights, i, scores)
        generic.load_dual(structure, flows, i, scratch.parts, mu)
        concave = generic.concave_part(surrogate, structure, i, mu, scratch.work)
        lower = concave + dot(mu, scores)
        augment(surrogate, structure, predictions[low:high], i, scores, augmented)
        upper = generic.decode(structure, i, augmented, scratch.work, labels)
        value = upper
        for t in range(high - low):
            copy(improved[t], predictions[low + t])
        for _ in range(rounds):
            excess = value - lower
            if excess <= 1e-3 * abs(upper - lower) or not _improve(
                structure, curvature, i, excess, labels, scratch.work, improved
            ):
                break
            augment(surrogate, structure, improved, i, scores, augmented)
            value = generic.decode(structure, i, augmented, scratch.work, labels)
            upper = min(upper, value)
        sums[0] += sample_weight[i] * (upper - true_score(structure, i, scores))
        sums[1] += sample_weight[i] * concave
        sums[2] += sample_weight[i] * (upper - lower)
        gaps[i] = upper - lower
