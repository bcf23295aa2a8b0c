"""Quadratic surrogate: least squares of the embedding of outputs.

``H_i(mu) = |phi(y_i)|^2/2 - |mu|^2/2`` over all vectors mu, not only marginals. Then the maximum of
``H_i(mu) + v @ mu`` is at ``mu = v``, and the surrogate is half the squared distance of the scores
to the truth,

    S_i(v) = |v - phi(y_i)|^2 / 2.

The best scores are the expected embedding, whose loss is the expected loss: so the prediction
``argmin_y phi(y)' A v`` is consistent for any loss that is affine in the embedding. The task loss
is not used in training.

References
----------
Ciliberto, Rosasco, Rudi. A consistent regularization approach for structured prediction. NeurIPS
2016.
"""

from __future__ import annotations

from typing import NamedTuple

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import copy, dot
from .cost import Cost


class Quadratic(NamedTuple):
    """``S_i(v) = |v - phi(y_i)|^2 / 2``."""

    slope: float = 1.0

    @property
    def cost(self) -> Cost:
        """Properties that solvers need."""
        return Cost(
            "quadratic",
            smooth=True,
            fills_blocks=True,
            no_blocks="marginals in the dual, which least squares do not have (solver='auto' or "
            "'lbfgs')",
        )


@implements(generic.best_response, Quadratic)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    generic.embed_truth(structure, i, mu)
    value = 0.5 * dot(mu, mu)
    copy(mu, scores)
    value += 0.5 * dot(scores, scores)
    return value, value
