"""Max-min margin on sequences with the oracle of the paper: saddle-point mirror-prox.

``H`` is that of :mod:`.max_min`. The oracle starts from where the example's last call ended and
answers with a bracket of its value, so the certificate holds however few iterations it gets.

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.chain_saddle import chain_mirror_prox
from .._kernels.jit import implements, inner
from .._kernels.vector import add_scaled, copy, dot

# Iterations for each position of a sequence, as in the experiments of the paper.
PER_POSITION = 10


class MirrorProxMaxMin(NamedTuple):
    """``S_i(v) = max_mu [ min_nu nu' A mu + v @ mu ] - v @ phi(y_i)``, and a pair an example.

    Memory: ``16 K`` bytes a position and ``8 K^2`` an example.
    """

    iterations: int  # 0: PER_POSITION times the length
    factor: float  # of the step length
    line_search: bool  # else steps of 2n / (t + 2n)
    visits: np.ndarray  # one number: t
    theta: np.ndarray  # (positions, K): scores of labels, natural parameters of mu
    pairs: np.ndarray  # (examples, K, K): scores of transitions
    logits: np.ndarray  # (positions, K): logarithms of nu


def mirror_prox(
    structure, iterations: int = 0, line_search: bool = True, factor: float = 4.0
) -> MirrorProxMaxMin:
    """The surrogate with every pair at the uniform distributions over what is allowed.

    Parameters
    ----------
    structure : Chain
    iterations : int
        Of mirror-prox, in every step and every evaluation; 0 is ``PER_POSITION`` times the length
        of the sequence.
    line_search : bool
        Take the exact best step; otherwise the paper's, which needs no values.
    factor : float
        Of the step length that is safe however the positions depend on each other. On handwritten
        words the bracket after ten iterations is six times narrower with 4 than with 1.
    """
    K, n = structure.n_labels, len(structure.indptr) - 1
    theta = np.zeros((len(structure.truth), K))
    if len(structure.allowed):
        theta[~structure.allowed] = -np.inf
    theta[structure.indptr[:-1]] += structure.first_mask
    theta[structure.indptr[1:] - 1] += structure.last_mask
    pairs = np.tile(structure.transition_mask, (n, 1, 1))
    return MirrorProxMaxMin(
        int(iterations),
        float(factor),
        bool(line_search),
        np.zeros(1, np.int64),
        theta,
        pairs,
        theta.copy(),
    )


@inner
def _respond(surrogate, structure, i, scores, work, labels, theta, pairs, logits, mu):
    """Run the oracle on the parameters given; returns bounds of its value."""
    length, n = theta.shape
    nu = np.empty((length, n))
    iterations = surrogate.iterations if surrogate.iterations > 0 else PER_POSITION * length
    chain_mirror_prox(
        structure, i, scores, iterations, surrogate.factor, theta, pairs, logits, mu, nu
    )
    augmented = np.empty(scores.shape[0])
    copy(augmented, scores)
    first = structure.indptr[i]
    for t in range(length):
        scale = structure.loss_scale[first + t]
        at = augmented[t * n : (t + 1) * n]
        generic.add_mixed_losses(structure.loss, nu[t], scale, at)
    upper = generic.decode(structure, i, augmented, work, labels)
    return upper, dot(mu, scores) + generic.loss_floor(structure, i, mu, work)


@implements(generic.best_response, MirrorProxMaxMin, allocates=True)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    # Works on copies: evaluation must not change what steps do.
    first, last = structure.indptr[i], structure.indptr[i + 1]
    theta = surrogate.theta[first:last].copy()
    logits = surrogate.logits[first:last].copy()
    pairs = surrogate.pairs[i].copy()
    return _respond(surrogate, structure, i, scores, work, labels, theta, pairs, logits, mu)


@implements(generic.concave_part, MirrorProxMaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.loss_floor(structure, i, mu, work)


@implements(generic.line_step, MirrorProxMaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    if surrogate.line_search:
        return generic.loss_floor_step(structure, i, mu, direction, slope, curvature, work)
    twice = 2.0 * generic.n_blocks(structure)
    return twice / (surrogate.visits[0] + twice)


@implements(generic.block_maximum, MirrorProxMaxMin, allocates=True)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    # Not the maximum of the block, but a step that, unlike an evaluation, may write: the pair is
    # saved where the oracle ended.
    first, last = structure.indptr[i], structure.indptr[i + 1]
    labels = np.empty(last - first, np.int32)
    upper, _ = _respond(
        surrogate, structure, i, scores, work, labels, surrogate.theta[first:last],
        surrogate.pairs[i], surrogate.logits[first:last], out,
    )  # fmt: skip
    gap = upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, work)
    if gap > 0.0:
        direction = np.empty(out.shape[0])
        copy(direction, out)
        add_scaled(direction, mu, -1.0)
        slope = dot(direction, scores)
        curvature = 0.0
        if surrogate.line_search:
            curvature = scale * generic.squared_norm(structure, rows, i, direction, work)
        gamma = generic.line_step(
            surrogate, structure, i, mu, direction, gap, slope, curvature, work
        )
        copy(out, mu)
        add_scaled(out, direction, gamma)
    surrogate.visits[0] += 1
    return gap
