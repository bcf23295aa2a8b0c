"""Max-min on trees: exact saddle points by a double oracle, which stores nothing.

The oracle returns a lower and an upper bound on its value, so the certificate also holds where a
sentence needs more trees than the oracle may mix.
"""

from __future__ import annotations

from typing import NamedTuple

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import dot
from ..structures.arborescence_max_min import tree_double_oracle

# A step needs no better answer than one that attains all but this share of the gap of its block.
_STEP_SHARE = 0.1


class TreeGame(NamedTuple):
    """Limits of the oracle."""

    iterations: int  # at most
    accuracy: float  # of evaluations


@implements(generic.answer, TreeGame)
def _answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    return tree_double_oracle(
        structure, i, scores, oracle.iterations, oracle.accuracy, 0.0, 0.0, work, mu
    )


@implements(generic.respond, TreeGame)
def _respond(oracle, surrogate, structure, rows, i, scores, mu, scale, room, out):
    work, _ = room
    # For a step, unlike an evaluation, the gap is known: if it is large, low accuracy is enough.
    value = dot(mu, scores) + generic.concave_part(surrogate, structure, i, mu, work)
    upper, _ = tree_double_oracle(
        structure, i, scores, oracle.iterations, 0.0, _STEP_SHARE, value, work, out
    )
    return upper - value, False


@implements(generic.learn_step, TreeGame)
def _learn_step(oracle, i, gamma):
    pass
