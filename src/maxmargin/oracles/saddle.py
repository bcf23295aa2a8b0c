"""Max-min on permutations: an iterative oracle, warm-started at the last saddle point of each
example.

The oracle returns a lower and an upper bound on its value, so the certificate holds for any number
of iterations.
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
    start: np.ndarray  # offset of the pair of each example
    mu: np.ndarray
    nu: np.ndarray
    stiffness: np.ndarray  # weight of the proximal term of each example
    visits: np.ndarray  # steps so far per example, if iterations grow with them; else empty


def saddle_pairs(
    sides: np.ndarray, method: Proximal | MirrorProx, growing: bool = False
) -> SaddlePairs:
    """Uniform pairs for examples with ``sides[i]`` rows."""
    sides = np.asarray(sides, np.int64)
    start = np.concatenate([[0], np.cumsum(sides**2)]).astype(np.int64)
    pairs = np.repeat(1.0 / sides, sides**2)
    visits = np.zeros(len(sides) if growing else 0)
    return SaddlePairs(method, start, pairs, pairs.copy(), np.ones(len(sides)), visits)


def prolonged(method, visits, i):
    """The method with as many iterations as the steps so far ask for."""


@implements(prolonged, Proximal)
def _as_it_is(method, visits, i):
    return method


@implements(prolonged, MirrorProx)
def _with_more_iterations(method, visits, i):
    if visits.shape[0] == 0:
        return method
    return MirrorProx(method.iterations * (1 + int(visits[i])), method.entropic)


@implements(generic.answer, SaddlePairs)
def _answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    size = scores.shape[0]
    nu = work[:size]
    first = oracle.start[i]
    copy(mu, oracle.mu[first : first + size])
    copy(nu, oracle.nu[first : first + size])
    method = prolonged(oracle.method, oracle.visits, i)
    return generic.improve_pair(structure, method, i, scores, mu, nu, work[size:])


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
    method = prolonged(oracle.method, oracle.visits, i)
    if oracle.visits.shape[0] > 0:
        oracle.visits[i] += 1.0
    return generic.pair_response(method, structure, rows, i, scores, mu, scale, pair, room[0], out)


@implements(generic.learn_step, SaddlePairs)
def _learn_step(oracle, i, gamma):
    # A step that ends short of the answer had too small a proximal term, and vice versa.
    change = 0.5 if gamma >= 1.0 else 2.0 if gamma < 0.5 else 1.0
    oracle.stiffness[i] = min(1.0, max(_SOFTEST, change * oracle.stiffness[i]))
