"""Implementations of the protocol that several structures share, by how they are packed.

- *Labelled*: the labels of example i are ``truth[indptr[i] : indptr[i + 1]]``.
- *By parts*: every part has a row of features, those of example i from ``parts_indptr[i]`` on, and
  all parts share the weights.
- *By examples*: every example has a row of features, and every part separate weights.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements
from .._kernels.protocol import add_row, clear_rows, prefetch_rows, score_rows
from .._kernels.vector import add_scaled, dot
from ..features.rows import FeatureRows
from .arborescence import Arborescence
from .multiclass import Multiclass
from .multilabel import Multilabel
from .permutation import Matching, Ranking
from .second_order import SecondOrder
from .subset import Subset

_LABELLED = (Arborescence, SecondOrder, Matching, Ranking, Subset)
_BY_PARTS = (Arborescence, Matching, Subset)
_BY_EXAMPLES = (Multiclass, Ranking)


# --- labels ---------------------------------------------------------------------------------


@implements(generic.n_blocks, _LABELLED)
def _n_blocks(structure):
    return structure.indptr.shape[0] - 1


@implements(generic.label_range, _LABELLED)
def _label_range(structure, i):
    return structure.indptr[i], structure.indptr[i + 1]


@implements(generic.embed_truth, _LABELLED)
def _embed_truth(structure, i, out):
    generic.embed(structure, i, structure.truth[structure.indptr[i] : structure.indptr[i + 1]], out)


# --- a row of features per part -------------------------------------------------------------


@implements(generic.block_size, (Arborescence, SecondOrder, Subset))
def _block_size(structure, i):
    return structure.parts_indptr[i + 1] - structure.parts_indptr[i]


@implements(generic.prefetch_block, _BY_PARTS)
def _prefetch_parts(structure, rows, i):
    prefetch_rows(rows, structure.parts_indptr[i], structure.parts_indptr[i + 1])


@implements(generic.score_block, _BY_PARTS)
def _score_parts(structure, rows, weights, i, scores):
    first, last = structure.parts_indptr[i], structure.parts_indptr[i + 1]
    matrix = weights.reshape(rows.n_inputs, 1)
    score_rows(rows, matrix, first, last, scores.reshape(last - first, 1))


@implements(generic.add_block, _BY_PARTS)
def _add_parts(structure, rows, weights, i, direction, scale):
    first = structure.parts_indptr[i]
    matrix = weights.reshape(rows.n_inputs, 1)
    for part in range(direction.shape[0]):
        if direction[part] != 0.0:
            add_row(rows, matrix, first + part, direction[part : part + 1], scale)


@implements(generic.squared_norm, (Matching, Subset))
def _squared_norm_of_parts(structure, rows, i, direction, work):
    total = work[: rows.n_inputs]
    first, last = structure.parts_indptr[i], structure.parts_indptr[i + 1]
    clear_rows(rows, total.reshape(rows.n_inputs, 1), first, last)
    generic.add_block(structure, rows, total, i, direction, 1.0)
    return dot(total, total)


@implements(generic.add_gram, (Matching, Subset), allocates=True)
@implements(generic.add_gram, Arborescence, FeatureRows, allocates=True)
def _add_gram_of_parts(structure, rows, i, direction, scale, scores):
    moved = np.zeros(rows.n_inputs)
    generic.add_block(structure, rows, moved, i, direction, scale)
    change = np.empty(scores.shape[0])
    generic.score_block(structure, rows, moved, i, change)
    add_scaled(scores, change, 1.0)
    return True


@implements(generic.linear_prox, (*_BY_PARTS, SecondOrder))
def _no_linear_prox(structure, rows, i, scores, mu, scale, work, out):
    return -np.inf  # parts share weights: the maximum has no formula


# --- a row of features per example ----------------------------------------------------------


@implements(generic.prefetch_block, _BY_EXAMPLES)
def _prefetch_example(structure, rows, i):
    prefetch_rows(rows, i, i + 1)


@implements(generic.score_block, _BY_EXAMPLES)
def _score_example(structure, rows, weights, i, scores):
    size = generic.largest_block(structure)
    score_rows(rows, weights.reshape(rows.n_inputs, size), i, i + 1, scores.reshape(1, size))


@implements(generic.add_block, _BY_EXAMPLES)
def _add_example(structure, rows, weights, i, direction, scale):
    size = generic.largest_block(structure)
    add_row(rows, weights.reshape(rows.n_inputs, size), i, direction, scale)


@implements(generic.squared_norm, _BY_EXAMPLES)
def _squared_norm_of_example(structure, rows, i, direction, work):
    return rows.squares[i] * dot(direction, direction)


@implements(generic.add_gram, (*_BY_EXAMPLES, Multilabel))
def _add_gram_of_example(structure, rows, i, direction, scale, scores):
    add_scaled(scores, direction, scale * rows.squares[i])
    return True
