"""Max-min margin on trees: exact saddle points by a double oracle.

``H`` is that of :mod:`.max_min`. The oracle answers with a bracket of its value, so the certificate
holds where a sentence needs more trees than the oracle may mix.
"""

from __future__ import annotations

from typing import NamedTuple

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import add_scaled, copy, dot
from ..structures.arborescence_max_min import tree_double_oracle

# A step needs no better answer than one that has all but this share of the block's gap.
_STEP_SHARE = 0.1


class TreeMaxMin(NamedTuple):
    """``S_i(v) = max_mu [ min_nu nu' A mu + v @ mu ] - v @ phi(y_i)``."""

    iterations: int  # of the oracle, at most
    accuracy: float  # of evaluations


@implements(generic.best_response, TreeMaxMin)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    return tree_double_oracle(
        structure, i, scores, surrogate.iterations, surrogate.accuracy, 0.0, 0.0, work, mu
    )


@implements(generic.concave_part, TreeMaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.loss_floor(structure, i, mu, work)


@implements(generic.line_step, TreeMaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    return generic.loss_floor_step(structure, i, mu, direction, slope, curvature, work)


@implements(generic.block_maximum, TreeMaxMin)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    # Not the maximum of the block, but a step that, unlike an evaluation, knows the gap: as long as
    # that is large, a rough answer is good enough.
    size = scores.shape[0]
    value = dot(mu, scores) + generic.loss_floor(structure, i, mu, work)
    upper, _ = tree_double_oracle(
        structure, i, scores, surrogate.iterations, 0.0, _STEP_SHARE, value, work, out
    )
    gap = upper - value
    if gap > 0.0:
        direction, rest = work[:size], work[size:]
        copy(direction, out)
        add_scaled(direction, mu, -1.0)
        slope = dot(direction, scores)
        curvature = scale * generic.squared_norm(structure, rows, i, direction, rest)
        gamma = generic.loss_floor_step(structure, i, mu, direction, slope, curvature, rest)
        copy(out, mu)
        add_scaled(out, direction, gamma)
    return gap
