"""Max-min on permutations: an iterative oracle, warm-started at the saddle point that each example
had last.

The oracle answers with a bracket of its value, so the certificate holds however few iterations it
gets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.saddle import MirrorProx, Proximal
from .._kernels.vector import copy, dot

_SOFTEST = 1e-6


class SaddlePairs(NamedTuple):
    """A pair of doubly stochastic matrices for each example."""

    method: Proximal | MirrorProx
    start: np.ndarray  # where the pair of each example starts
    mu: np.ndarray
    nu: np.ndarray
    stiffness: np.ndarray  # how much proximal steps of each example are held back


def saddle_pairs(sides: np.ndarray, method: Proximal | MirrorProx) -> SaddlePairs:
    """Uniform pairs for examples with so many rows each."""
    sides = np.asarray(sides, np.int64)
    start = np.concatenate([[0], np.cumsum(sides**2)]).astype(np.int64)
    pairs = np.repeat(1.0 / sides, sides**2)
    return SaddlePairs(method, start, pairs, pairs.copy(), np.ones(len(sides)))


@implements(generic.answer, SaddlePairs)
def _answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    size = scores.shape[0]
    nu = work[:size]
    first = oracle.start[i]
    copy(mu, oracle.mu[first : first + size])
    copy(nu, oracle.nu[first : first + size])
    return generic.improve_pair(structure, oracle.method, i, scores, mu, nu, work[size:])


@implements(generic.pair_response, Proximal)
def _pair_by_proximal_step(method, structure, rows, i, scores, mu, scale, pair, work, out):
    saved_mu, saved_nu, stiffness = pair
    gap, exact = generic.proximal_response(
        structure, rows, i, scores, mu, scale, stiffness, saved_nu, work, out
    )
    copy(saved_mu, out if gap > 0.0 else mu)
    return gap, exact


@implements(generic.pair_response, MirrorProx)
def _pair_by_mirror_prox(method, structure, rows, i, scores, mu, scale, pair, work, out):
    saved_mu, saved_nu, _ = pair
    upper, _ = generic.improve_pair(structure, method, i, scores, saved_mu, saved_nu, work)
    copy(out, saved_mu)
    return upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, work), False


@implements(generic.respond, SaddlePairs)
def _respond(oracle, surrogate, structure, rows, i, scores, mu, scale, room, out):
    first, last = oracle.start[i], oracle.start[i + 1]
    pair = (oracle.mu[first:last], oracle.nu[first:last], oracle.stiffness[i])
    return generic.pair_response(
        oracle.method, structure, rows, i, scores, mu, scale, pair, room[0], out
    )


@implements(generic.learn_step, SaddlePairs)
def _learn_step(oracle, i, gamma):
    # A step that ends short of the answer was held back too little, and the other way round.
    change = 0.5 if gamma >= 1.0 else 2.0 if gamma < 0.5 else 1.0
    oracle.stiffness[i] = min(1.0, max(_SOFTEST, change * oracle.stiffness[i]))
