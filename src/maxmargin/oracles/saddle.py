"""Max-min margin with an iterative oracle, warm-started at the saddle point each example had last.

For structures without a closed form (permutations). ``H`` is that of :mod:`.max_min`; the oracle
answers with a bracket of its value, so the certificate holds however few iterations it gets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.saddle import MirrorProx, Proximal
from .._kernels.vector import add_scaled, copy, dot

_SOFTEST = 1e-6


class SaddleMaxMin(NamedTuple):
    """``S_i(v) = max_mu [ min_nu nu' A mu + v @ mu ] - v @ phi(y_i)``, and a pair an example."""

    method: Proximal | MirrorProx
    start: np.ndarray  # where the pair of each example starts
    mu: np.ndarray
    nu: np.ndarray
    stiffness: np.ndarray  # how much proximal steps of each example are held back


def saddle_max_min(sizes: np.ndarray, values: np.ndarray, method) -> SaddleMaxMin:
    """The surrogate with every pair at a uniform start.

    Parameters
    ----------
    sizes : array
        Number of parts of each example.
    values : array
        What every part of an example starts with, in mu and in nu.
    method : Proximal or MirrorProx
        The oracle.
    """
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pairs = np.repeat(np.asarray(values, np.float64), sizes)
    return SaddleMaxMin(method, start, pairs, pairs.copy(), np.ones(len(sizes)))


@implements(generic.best_response, SaddleMaxMin)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    # Only reads the saved pair: evaluation must not change what steps do.
    size = scores.shape[0]
    nu = work[:size]
    first = surrogate.start[i]
    copy(mu, surrogate.mu[first : first + size])
    copy(nu, surrogate.nu[first : first + size])
    return generic.improve_pair(structure, surrogate.method, i, scores, mu, nu, work[size:])


@implements(generic.concave_part, SaddleMaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.loss_floor(structure, i, mu, work)


@implements(generic.line_step, SaddleMaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    return generic.loss_floor_step(structure, i, mu, direction, slope, curvature, work)


@implements(generic.pair_response, Proximal)
def _pair_by_proximal_step(
    method, structure, rows, i, scores, mu, scale, stiffness, saved_mu, saved_nu, work, out
):
    gap, exact = generic.proximal_response(
        structure, rows, i, scores, mu, scale, stiffness, saved_nu, work, out
    )
    copy(saved_mu, out if gap > 0.0 else mu)
    return gap, exact


@implements(generic.pair_response, MirrorProx)
def _pair_by_mirror_prox(
    method, structure, rows, i, scores, mu, scale, stiffness, saved_mu, saved_nu, work, out
):
    upper, _ = generic.improve_pair(structure, method, i, scores, saved_mu, saved_nu, work)
    copy(out, saved_mu)
    return upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, work), False


@implements(generic.block_maximum, SaddleMaxMin)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    size = scores.shape[0]
    first = surrogate.start[i]
    gap, exact = generic.pair_response(
        surrogate.method, structure, rows, i, scores, mu, scale, surrogate.stiffness[i],
        surrogate.mu[first : first + size], surrogate.nu[first : first + size], work, out,
    )  # fmt: skip
    if gap > 0.0 and not exact:
        direction, rest = work[:size], work[size:]
        copy(direction, out)
        add_scaled(direction, mu, -1.0)
        slope = dot(direction, scores)
        curvature = scale * generic.squared_norm(structure, rows, i, direction, rest)
        gamma = generic.loss_floor_step(structure, i, mu, direction, slope, curvature, rest)
        copy(out, mu)
        add_scaled(out, direction, gamma)
        # A step that ends short of the answer was held back too little, and the other way round.
        change = 0.5 if gamma >= 1.0 else 2.0 if gamma < 0.5 else 1.0
        surrogate.stiffness[i] = min(1.0, max(_SOFTEST, change * surrogate.stiffness[i]))
    return gap
