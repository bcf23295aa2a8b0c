"""Max-min margin on trees: mirror-prox by the matrix-tree theorem, from where each example was
left.

``H`` is that of :mod:`.max_min`. The oracle answers with a bracket of its value, so the certificate
holds however few iterations it gets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.vector import add_scaled, copy, dot
from ..structures.arborescence import Arborescence
from ..structures.arborescence_max_min import tree_mirror_prox

# Rounds of the oracle's iterations that an evaluation may take to be accurate.
_MOST_ROUNDS = 20


class TreeMaxMin(NamedTuple):
    """``S_i(v) = max_mu [ min_nu nu' A mu + v @ mu ] - v @ phi(y_i)``, and a pair an example.

    Memory: 16 bytes an arc.
    """

    iterations: int
    factor: float  # of the step length
    accuracy: float  # of evaluations
    pairs: np.ndarray  # natural parameters of mu, then of nu, example by example


def tree_max_min(
    structure: Arborescence, iterations: int = 10, accuracy: float = 0.0, factor: float = 4.0
) -> TreeMaxMin:
    """The surrogate with every pair at the uniform distribution over the trees allowed.

    Parameters
    ----------
    structure : Arborescence
    iterations : int
        Of mirror-prox, in every step and in every round of an evaluation.
    accuracy : float
        An evaluation ends when its bracket is as narrow as this.
    factor : float
        Step length, in units of one over the largest cost of a word.
    """
    pairs = np.zeros(2 * int(structure.parts_indptr[-1]))
    for i, m in enumerate(np.diff(structure.indptr)):
        first, last = structure.parts_indptr[i : i + 2]
        forbidden = np.eye(m, m + 1, 1, dtype=bool).ravel()  # from a word to itself
        if len(structure.allowed):
            forbidden |= ~structure.allowed[first:last]
        pairs[2 * first : 2 * last].reshape(2, -1)[:, forbidden] = -np.inf
    return TreeMaxMin(int(iterations), float(factor), float(accuracy), pairs)


@implements(generic.best_response, TreeMaxMin)
def _best_response(surrogate, structure, i, scores, work, labels, mu):
    # Works on copies: evaluation must not change what steps do.
    size = scores.shape[0]
    pair, average, rest = work[: 2 * size], work[2 * size : 4 * size], work[4 * size :]
    first = 2 * structure.parts_indptr[i]
    copy(pair, surrogate.pairs[first : first + 2 * size])
    upper, lower = np.inf, -np.inf
    for _ in range(_MOST_ROUNDS):
        above, below = tree_mirror_prox(
            structure, i, scores, surrogate.iterations, surrogate.factor, pair, rest, average
        )
        upper = min(upper, above)
        if below > lower:
            lower = below
            copy(mu, average[:size])
        if upper - lower <= surrogate.accuracy:
            break
    return upper, lower


@implements(generic.concave_part, TreeMaxMin)
def _concave_part(surrogate, structure, i, mu, work):
    return generic.loss_floor(structure, i, mu, work)


@implements(generic.line_step, TreeMaxMin)
def _line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    return generic.loss_floor_step(structure, i, mu, direction, slope, curvature, work)


@implements(generic.block_maximum, TreeMaxMin)
def _block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    # Not the maximum of the block, but a step that, unlike an evaluation, may write: the pair is
    # saved where the oracle ended.
    size = scores.shape[0]
    first = 2 * structure.parts_indptr[i]
    pair = surrogate.pairs[first : first + 2 * size]
    average, rest = work[: 2 * size], work[2 * size :]
    upper, _ = tree_mirror_prox(
        structure, i, scores, surrogate.iterations, surrogate.factor, pair, rest, average
    )
    copy(out, average[:size])
    gap = upper - dot(mu, scores) - generic.loss_floor(structure, i, mu, rest)
    if gap > 0.0:
        direction = work[:size]
        copy(direction, out)
        add_scaled(direction, mu, -1.0)
        slope = dot(direction, scores)
        curvature = scale * generic.squared_norm(structure, rows, i, direction, rest)
        gamma = generic.loss_floor_step(structure, i, mu, direction, slope, curvature, rest)
        copy(out, mu)
        add_scaled(out, direction, gamma)
    return gap
