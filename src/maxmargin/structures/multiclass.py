"""One label out of K: the output space is ``{0, ..., K-1}``, its marginal polytope the simplex.

``Phi(x, y) = e_y (outer) x``; with the absolute loss this is the ordinal structure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.exponential import entropy_line, entropy_of_row, exp_row, extremes
from .._kernels.jit import implements
from .._kernels.protocol import (
    expected_label_loss,
    expected_losses,
    label_loss,
    label_work,
    max_cost,
    max_min_label,
    max_min_label_prox,
    smooth_max_min_label,
)
from .._kernels.simplex import lower_envelope_step, project
from .._kernels.vector import dot
from .losses import LabelLoss
from .traits import Traits


class Multiclass(NamedTuple):
    """Packed outputs of a multiclass problem: one true class per row."""

    truth: np.ndarray
    n_classes: int
    loss: LabelLoss

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(exact_blocks=True, order="active")

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector."""
        return n_inputs * self.n_classes

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return repr((len(self.truth), self.n_classes)).encode()


@implements(generic.n_blocks, Multiclass)
def _n_blocks(structure):
    return structure.truth.shape[0]


@implements(generic.block_size, Multiclass)
def _block_size(structure, i):
    return structure.n_classes


@implements(generic.largest_block, Multiclass)
def _largest_block(structure):
    return structure.n_classes


@implements(generic.most_labels, Multiclass)
def _most_labels(structure):
    return 1


@implements(generic.label_range, Multiclass)
def _label_range(structure, i):
    return i, i + 1


@implements(generic.work_size, Multiclass)
def _work_size(structure, rows):
    return max(4 * structure.n_classes, label_work(structure.loss, structure.n_classes))


@implements(generic.decode, Multiclass)
def _decode(structure, i, scores, work, labels):
    best = 0
    for k in range(1, scores.shape[0]):
        if scores[k] > scores[best]:
            best = k
    labels[0] = best
    return scores[best]


@implements(generic.most_parts, Multiclass)
def _most_parts(structure):
    return 1


@implements(generic.output_parts, Multiclass)
def _output_parts(structure, i, labels, parts):
    parts[0] = labels[0]
    return 1


@implements(generic.embed, Multiclass)
def _embed(structure, i, labels, out):
    out[:] = 0.0
    out[labels[0]] = 1.0


@implements(generic.embed_truth, Multiclass)
def _embed_truth(structure, i, out):
    out[:] = 0.0
    out[structure.truth[i]] = 1.0


@implements(generic.add_loss, Multiclass)
def _add_loss(structure, i, out):
    for k in range(structure.n_classes):
        out[k] += label_loss(structure.loss, k, structure.truth[i])


@implements(generic.expected_loss, Multiclass)
def _expected_loss(structure, i, mu):
    return expected_label_loss(structure.loss, mu, structure.truth[i])


@implements(generic.max_min, Multiclass)
def _max_min(structure, i, scores, work, mu):
    return max_min_label(structure.loss, scores, work, mu)


@implements(generic.smooth_max_min, Multiclass)
def _smooth_max_min(structure, strength, i, scores, work, mu):
    value = smooth_max_min_label(structure.loss, strength, scores, work, mu)
    return value, value


@implements(generic.strong_concavity, Multiclass)
def _strong_concavity(structure):
    return 1.0  # Pinsker's inequality


@implements(generic.loss_floor, Multiclass)
def _loss_floor(structure, i, mu, work):
    n = structure.n_classes
    expected_losses(structure.loss, mu, work[:n])
    lowest = work[0]
    for k in range(1, n):
        lowest = min(lowest, work[k])
    return lowest


@implements(generic.loss_floor_step, Multiclass)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    n = structure.n_classes
    start, change = work[:n], work[n : 2 * n]
    expected_losses(structure.loss, mu, start)
    expected_losses(structure.loss, direction, change)
    return lower_envelope_step(start, change, slope, curvature)


@implements(generic.linear_prox, Multiclass)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    # max over the simplex of (scores + loss) @ m - h/2 |m - mu|^2, h = scale |x|^2
    n = structure.n_classes
    curvature = scale * rows.squares[i]
    if curvature <= 0.0:
        return -np.inf
    target = work[:n]
    top = -np.inf
    for k in range(n):
        target[k] = scores[k] + label_loss(structure.loss, k, structure.truth[i])
        top = target[k] if target[k] > top else top
    gap = top - dot(mu, target)
    if gap > 0.0:
        inverse = 1.0 / curvature
        for k in range(n):  # a shift does not change the projection, and keeps small steps exact
            target[k] = mu[k] + (target[k] - top) * inverse
        project(target, work[n:], 1.0, out)
    return gap


@implements(generic.max_min_prox, Multiclass)
def _max_min_prox(structure, rows, i, scores, mu, scale, work, out):
    # Below this curvature the best response is as good, and differences would be lost to rounding.
    curvature = scale * rows.squares[i]
    if curvature <= 1e-9 * max_cost(structure.loss):
        return False
    return max_min_label_prox(structure.loss, scores, mu, curvature, work, out)


@implements(generic.gibbs, Multiclass)
def _gibbs(structure, i, scores, work, mu):
    top = extremes(scores)[1]
    total = exp_row(scores, top, mu)
    share = 1.0 / total
    for k in range(mu.shape[0]):
        mu[k] *= share
    return top + np.log(total)


@implements(generic.entropy, Multiclass)
def _entropy(structure, i, mu, work):
    return entropy_of_row(mu)


@implements(generic.entropy_slope, Multiclass)
def _entropy_slope(structure, i, mu, direction, gamma, work):
    slope, curvature = entropy_line(mu, direction, gamma)
    return -slope, -curvature
