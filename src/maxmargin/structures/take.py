"""Some of the examples of packed data: structures, and the rows of features that go with them.

:func:`take_examples` and :func:`take_rows` dispatch on the class of their first argument; a
structure or a store of features of your own registers its answer with ``register``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..features.arcs import ArcRows
from ..features.rows import DenseRows, SparseRows
from .arborescence import Arborescence
from .chain import Chain
from .entropy_chain import EntropyChain
from .multiclass import Multiclass
from .multilabel import Multilabel
from .permutation import Matching, Ranking
from .subset import Subset


def ragged(indptr: np.ndarray, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of some examples in an array packed by ``indptr``, and the ``indptr`` of these."""
    lengths = np.diff(indptr)[examples]
    after = np.concatenate([[0], np.cumsum(lengths)]).astype(indptr.dtype)
    shifts = np.repeat(indptr[:-1][examples] - after[:-1], lengths)
    return np.arange(after[-1]) + shifts, after


@functools.singledispatch
def take_examples(structure: Any, examples: np.ndarray) -> tuple[Any, np.ndarray]:
    """The structure of some examples, and the positions of their rows of features."""
    raise TypeError(
        f"{type(structure).__name__} has no subsets of its examples; register a function with "
        "maxmargin.structures.take.take_examples."
    )


@take_examples.register(Multiclass)
@take_examples.register(Multilabel)
def _take_flat(structure, examples):
    return structure._replace(truth=structure.truth[examples]), examples


@take_examples.register(Chain)
def _take_chains(structure, examples):
    positions, indptr = ragged(structure.indptr, examples)
    products, products_indptr = ragged(structure.products_indptr, examples)
    allowed = structure.allowed
    part = structure._replace(
        truth=structure.truth[positions],
        indptr=indptr,
        longest=int(np.diff(indptr).max()),
        loss_scale=structure.loss_scale[positions],
        allowed=allowed[positions] if len(allowed) else allowed,
        products=structure.products[products],
        products_indptr=products_indptr,
    )
    return part, positions


@take_examples.register(EntropyChain)
def _take_entropy_chains(structure, examples):
    chain, positions = take_examples(structure.chain, examples)
    return EntropyChain(chain), positions


@take_examples.register(Ranking)
def _take_rankings(structure, examples):
    items, indptr = ragged(structure.indptr, examples)
    return structure._replace(truth=structure.truth[items], indptr=indptr), examples


@take_examples.register(Matching)
def _take_matchings(structure, examples):
    points, indptr = ragged(structure.indptr, examples)
    pairs, pairs_indptr = ragged(structure.pairs_indptr, examples)
    part = structure._replace(
        truth=structure.truth[points],
        indptr=indptr,
        pairs_indptr=pairs_indptr,
        n_items=int(np.diff(indptr).max()),
        curvature=structure.curvature[examples],
    )
    return part, pairs


@take_examples.register(Arborescence)
def _take_trees(structure, examples):
    words, indptr = ragged(structure.indptr, examples)
    arcs, parts_indptr = ragged(structure.parts_indptr, examples)
    allowed = structure.allowed
    part = structure._replace(
        truth=structure.truth[words],
        indptr=indptr,
        parts_indptr=parts_indptr,
        longest=int(np.diff(indptr).max()),
        costs=structure.costs[words],
        allowed=allowed[arcs] if len(allowed) else allowed,
    )
    return part, arcs


@take_examples.register(Subset)
def _take_subsets(structure, examples):
    chosen, indptr = ragged(structure.indptr, examples)
    rows, elements = ragged(structure.elements, examples)
    part = structure._replace(
        truth=structure.truth[chosen],
        indptr=indptr,
        elements=elements,
        most_elements=int(np.diff(elements).max()),
        most_chosen=int(np.diff(indptr).max()),
    )
    return part, rows


@functools.singledispatch
def take_rows(rows: Any, positions: np.ndarray, examples: np.ndarray) -> Any:
    """Some rows of features: those of some examples."""
    raise TypeError(
        f"{type(rows).__name__} has no subsets of its rows: weights are coefficients of all of "
        "them. Use kernel='linear'."
    )


@take_rows.register(DenseRows)
def _take_dense(rows, positions, examples):
    values = rows.values[positions]
    values.flags.writeable = False  # as in all other feature stores: see pack_rows
    return rows._replace(values=values, squares=rows.squares[positions])


@take_rows.register(SparseRows)
def _take_sparse(rows, positions, examples):
    width = int(rows.indices.max(initial=-1)) + 1
    shape = (len(rows.indptr) - 1, width)
    part = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=shape)[positions]
    part.data.flags.writeable = False
    return rows._replace(
        data=part.data,
        indices=part.indices.astype(np.int32, copy=False),
        indptr=part.indptr.astype(np.int64),
        squares=rows.squares[positions],
    )


@take_rows.register(ArcRows)
def _take_arcs(rows, positions, examples):
    nodes, nodes_indptr = ragged(rows.nodes_indptr, examples)
    between = rows.between_keys
    return rows._replace(
        head_keys=rows.head_keys[nodes],
        dependent_keys=rows.dependent_keys[nodes],
        between_keys=between[nodes] if len(between) else between,
        tags=rows.tags[nodes],
        nodes_indptr=nodes_indptr,
        rows_indptr=ragged(rows.rows_indptr, examples)[1],
    )


def take_surrogate(surrogate: Any) -> Any:
    """The surrogate, if it knows nothing about single examples."""
    if any(isinstance(value, np.ndarray) for value in surrogate):
        raise TypeError(
            f"{type(surrogate).__name__} remembers answers for all examples, and has no subsets."
        )
    return surrogate
