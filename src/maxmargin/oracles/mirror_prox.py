"""Max-min on sequences with the oracle of the paper: saddle-point mirror-prox.

The oracle starts at the point where the last call for the example ended, and returns a lower and an
upper bound on its value, so the certificate holds for any number of iterations.

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.chain_saddle import chain_mirror_prox
from .._kernels.jit import implements, inner
from .._kernels.vector import copy, dot

# Iterations for each position of a sequence, as in the experiments of the paper.
PER_POSITION = 10


class ChainPairs(NamedTuple):
    """Marginals mu of outputs and predictions nu for each example, by their parameters.

    Memory: ``16 K`` bytes per position and ``8 K^2`` per example.
    """

    iterations: int  # 0: PER_POSITION times the length
    factor: float  # of the step length
    theta: np.ndarray  # (positions, K): scores of labels, natural parameters of mu
    pairs: np.ndarray  # (examples, K, K): scores of transitions
    logits: np.ndarray  # (positions, K): logarithms of nu
    visits: np.ndarray  # steps so far per example, if iterations grow with them; else empty


def chain_pairs(
    structure: Any, iterations: int = 0, factor: float = 4.0, growing: bool = False
) -> ChainPairs:
    """Pairs of uniform distributions over the allowed outputs.

    Parameters
    ----------
    structure : Chain
    iterations : int
        Iterations of mirror-prox in every step and every evaluation; 0 is ``PER_POSITION`` times
        the length of the sequence.
    factor : float
        Factor of the step length that is safe for any dependence between the positions. On
        handwritten words the bracket after ten iterations is six times narrower with 4 than with 1.
    growing : bool
        Whether the iterations are multiplied by 1 plus the number of steps of the example so far.
    """
    K, n = structure.n_labels, len(structure.indptr) - 1
    theta = np.zeros((len(structure.truth), K))
    if len(structure.allowed):
        theta[~structure.allowed] = -np.inf
    theta[structure.indptr[:-1]] += structure.first_mask
    theta[structure.indptr[1:] - 1] += structure.last_mask
    pairs = np.tile(structure.transition_mask, (n, 1, 1))
    visits = np.zeros(n if growing else 0)
    return ChainPairs(int(iterations), float(factor), theta, pairs, theta.copy(), visits)


@inner
def _improve(oracle, structure, i, scores, work, labels, theta, pairs, logits, mu):
    """Run the oracle from given parameters; returns bounds on its value."""
    length, n = theta.shape
    nu = np.empty((length, n))
    iterations = oracle.iterations if oracle.iterations > 0 else PER_POSITION * length
    if oracle.visits.shape[0] > 0:
        iterations *= 1 + int(oracle.visits[i])
    chain_mirror_prox(structure, i, scores, iterations, oracle.factor, theta, pairs, logits, mu, nu)
    augmented = np.empty(scores.shape[0])
    copy(augmented, scores)
    first = structure.indptr[i]
    for t in range(length):
        scale = structure.loss_scale[first + t]
        at = augmented[t * n : (t + 1) * n]
        generic.add_mixed_losses(structure.loss, nu[t], scale, at)
    upper = generic.decode(structure, i, augmented, work, labels)
    return upper, dot(mu, scores) + generic.loss_floor(structure, i, mu, work)


@implements(generic.answer, ChainPairs, allocates=True)
def _answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    first, last = structure.indptr[i], structure.indptr[i + 1]
    theta = oracle.theta[first:last].copy()
    logits = oracle.logits[first:last].copy()
    pairs = oracle.pairs[i].copy()
    return _improve(oracle, structure, i, scores, work, labels, theta, pairs, logits, mu)


@implements(generic.respond, ChainPairs, allocates=True)
def _respond(oracle, surrogate, structure, rows, i, scores, mu, scale, room, out):
    work, labels = room
    first, last = structure.indptr[i], structure.indptr[i + 1]
    upper, _ = _improve(
        oracle, structure, i, scores, work, labels, oracle.theta[first:last], oracle.pairs[i],
        oracle.logits[first:last], out,
    )  # fmt: skip
    if oracle.visits.shape[0] > 0:
        oracle.visits[i] += 1.0
    return upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, work), False


@implements(generic.learn_step, ChainPairs)
def _learn_step(oracle, i, gamma):
    pass
