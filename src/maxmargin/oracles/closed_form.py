"""The formula, or the argmax, that a structure has for a surrogate; it stores nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import dot


class Formula(NamedTuple):
    """``blocks``: whether steps go to the exact maximum of a block where the structure has one."""

    blocks: bool


@implements(generic.answer, Formula, inlined=True)
def _answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    return generic.best_response(surrogate, structure, i, scores, work, labels, mu)


@implements(generic.respond, Formula, inlined=True)
def _respond(oracle, surrogate, structure, rows, i, scores, mu, scale, room, out):
    work, labels = room
    gap = -np.inf
    if oracle.blocks:
        gap = generic.block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out)
    if gap > -np.inf:
        return gap, True
    upper, _ = generic.best_response(surrogate, structure, i, scores, work, labels, out)
    concave = generic.concave_part(surrogate, structure, i, mu, work)
    return upper - dot(mu, scores) - concave, False


@implements(generic.learn_step, Formula, inlined=True)
def _learn_step(oracle, i, gamma):
    pass
