"""Select some of the examples of packed data: structures, and their rows of features.

:data:`PACKINGS` describes for each class how its fields are packed; add an entry for your own
structure or rows of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._validation import is_array
from ..features.arcs import ArcRows
from ..features.rows import COEFFICIENTS, FeatureRows
from .arborescence import Arborescence
from .chain import Chain
from .entropy_chain import EntropyChain
from .multiclass import Multiclass
from .multilabel import Multilabel
from .permutation import Matching, Ranking
from .subset import Subset


class Packing(NamedTuple):
    """How the fields of a NamedTuple are packed. Arrays without entries stay as they are.

    ``flat`` fields have one entry per example. ``tables`` maps fields to the size that is their
    number of entries per example. ``ragged`` maps each array of offsets to the fields that it
    divides into examples, ``longest`` a size to the offsets whose largest difference it is.
    ``rows`` are the offsets of the rows of features, None if there is one row per example.
    ``inside`` is the field that holds everything. ``by_example`` says whether rows of features are
    divided into examples rather than rows.
    """

    flat: tuple[str, ...] = ()
    tables: Mapping[str, str] = {}
    ragged: Mapping[str, tuple[str, ...]] = {}
    longest: Mapping[str, str] = {}
    rows: str | None = None
    inside: str | None = None
    by_example: bool = False


PACKINGS: dict[type, Packing] = {
    Multiclass: Packing(("truth",)),
    Multilabel: Packing(tables={"truth": "n_labels"}),
    Chain: Packing(
        ragged={"indptr": ("truth", "loss_scale", "allowed"), "products_indptr": ("products",)},
        longest={"longest": "indptr"},
        rows="indptr",
    ),
    EntropyChain: Packing(inside="chain"),
    Ranking: Packing(ragged={"indptr": ("truth",)}),
    Matching: Packing(
        ("curvature",),
        ragged={"indptr": ("truth",), "parts_indptr": ()},
        longest={"n_items": "indptr"},
        rows="parts_indptr",
    ),
    Arborescence: Packing(
        ragged={"indptr": ("truth", "costs"), "parts_indptr": ("allowed",)},
        longest={"longest": "indptr"},
        rows="parts_indptr",
    ),
    Subset: Packing(
        ragged={"indptr": ("truth",), "parts_indptr": ()},
        longest={"most_elements": "parts_indptr", "most_chosen": "indptr"},
        rows="parts_indptr",
    ),
    # Rows of features: their examples are rows, except for arcs, which are packed by sentence.
    FeatureRows: Packing(("values", "squares"), ragged={"indptr": ("data", "indices")}),
    ArcRows: Packing(
        ragged={
            "nodes_indptr": ("head_keys", "dependent_keys", "between_keys", "tags"),
            "rows_indptr": (),
        },
        by_example=True,
    ),
}


def ragged(indptr: np.ndarray, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of some examples in an array packed by ``indptr``, and the ``indptr`` of these."""
    lengths = np.diff(indptr)[examples]
    after = np.concatenate([[0], np.cumsum(lengths)]).astype(indptr.dtype)
    shifts = np.repeat(indptr[:-1][examples] - after[:-1], lengths)
    return np.arange(after[-1]) + shifts, after


def take(packed: Any, examples: np.ndarray) -> tuple[Any, np.ndarray]:
    """The packed data of some examples, and the positions of their rows of features."""
    packing = PACKINGS.get(type(packed))
    if packing is None:
        raise TypeError(
            f"{type(packed).__name__} cannot be cut into examples: maxmargin.structures.take does "
            "not know how it is packed."
        )
    given = packed._asdict()
    if packing.inside is not None:
        part, positions = take(given[packing.inside], examples)
        return packed._replace(**{packing.inside: part}), positions
    fields = {name: _entries(given[name], examples) for name in packing.flat}
    for name, size in packing.tables.items():
        columns = np.arange(given[size])
        places = np.asarray(examples)[:, None] * len(columns) + columns
        fields[name] = _entries(given[name], places.ravel())
    positions = examples
    for name, cut in packing.ragged.items():
        if not len(given[name]):
            continue
        places, fields[name] = ragged(given[name], examples)
        fields |= {other: _entries(given[other], places) for other in cut}
        positions = places if name == packing.rows else positions
    sizes = {name: int(np.diff(fields[at]).max()) for name, at in packing.longest.items()}
    return packed._replace(**fields, **sizes), positions


def _entries(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Some entries, writeable if the array is: for numba, read-only arrays are a separate type."""
    if not len(array):
        return array
    found = np.ascontiguousarray(array[places])
    found.flags.writeable = array.flags.writeable
    return found


def take_problem(
    structure: Any, surrogate: Any, rows: Any, examples: np.ndarray
) -> tuple[Any, Any, Any]:
    """Structure, surrogate and rows of some examples."""
    if any(is_array(value) for value in surrogate):
        raise TypeError(
            f"{type(surrogate).__name__} remembers answers for all examples, and has no subsets."
        )
    part, positions = take(structure, examples)
    return part, surrogate, take_rows(rows, positions, examples)


def take_rows(rows: Any, positions: np.ndarray, examples: np.ndarray) -> Any:
    """Rows of features at some positions: those of some examples."""
    if rows.weighs == COEFFICIENTS:
        raise TypeError(
            "rows of a kernel cannot be cut into examples: weights are coefficients of all rows."
        )
    by_example = PACKINGS.get(type(rows), Packing()).by_example
    return take(rows, examples if by_example else positions)[0]
