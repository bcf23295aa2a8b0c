"""Restricted max-margin: ``H_i(mu)`` is the expected loss of the truth, where that is the smallest.

Max-margin with mu restricted to the distributions under which ``y_i`` is a best prediction,

    S_i(v) = max { E_mu loss(y_i, .) + v @ mu  :  E_mu loss(y_i, .) <= E_mu loss(j, .) for all j }
             - v @ phi(y_i).

For two classes it is the binary SVM, as max-margin and max-min are. With the 0-1 loss, mu is
uniform on the truth and the best others; with the absolute loss, half of it is on each side.

References
----------
Nowak-Vila, Rudi, Bach. On the consistency of max-margin losses. AISTATS 2022.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .cost import RESTRICTED, Cost


class Restricted(NamedTuple):
    """``S_i(v) = max_{mu in P(y_i)} [ E_mu loss(y_i, .) + v @ mu ] - v @ phi(y_i)``."""

    slope: float = 1.0

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost(RESTRICTED, of_truth=True)


@implements(generic.best_response, Restricted)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    value = generic.restricted_label(structure.loss, structure.truth[i], scores, work, mu)
    return value, value


@implements(generic.concave_part, Restricted)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.expected_loss(structure, i, mu)


@implements(generic.line_step, Restricted)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    # H is linear: the gap is the slope of the dual.
    return 1.0 if gap >= curvature else gap / curvature


@implements(generic.block_maximum, Restricted)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    return -np.inf
