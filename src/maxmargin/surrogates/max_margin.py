"""Max-margin (M3N, structural SVM): ``H_i(mu)`` is the expected loss against the truth.

Linear in mu, so the best response is a loss-augmented argmax: a single output.
"""

from __future__ import annotations

from typing import NamedTuple

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import copy
from .cost import Cost


class MaxMargin(NamedTuple):
    """``S_i(v) = max_y [ loss(y, y_i) + v @ phi(y) ] - v @ phi(y_i)``."""

    slope: float = 1.0  # H is this times the expected loss; numba cannot type an empty NamedTuple

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost("max-margin", linear=True)


@implements(generic.best_response, MaxMargin)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    size = scores.shape[0]
    augmented = work[:size]
    copy(augmented, scores)
    generic.add_loss(structure, i, augmented)
    value = generic.decode(structure, i, augmented, work[size:], labels)
    generic.embed(structure, i, labels, mu)
    return value, value


@implements(generic.concave_part, MaxMargin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.expected_loss(structure, i, mu)


@implements(generic.line_step, MaxMargin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # H is linear: the gap is the slope of the dual.
    return 1.0 if gap >= curvature else gap / curvature


@implements(generic.block_maximum, MaxMargin)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    return generic.linear_prox(structure, rows, i, scores, mu, scale, work, out)


@implements(generic.position_response, MaxMargin)
def _position_response(surrogate, structure, i, t, centre, mu, step, work, out):
    copy(out, centre)


@implements(generic.add_position_loss, MaxMargin)
def _add_position_loss(surrogate, structure, i, t, nu, out):
    position = generic.label_range(structure, i)[0] + t
    true, scale = structure.truth[position], structure.loss_scale[position]
    for k in range(out.shape[0]):
        out[k] += scale * generic.label_loss(structure.loss, k, true)
