"""Structures of outputs: values that define how scores and targets of a batch are read.

A structure holds parameters only. Losses and functions take it by name (``"chain"``) or as a value
(``Chain(constraints="bio", classes=[...])``).
"""

from __future__ import annotations

from typing import Any

from ._structure import Structure
from .chain import Chain
from .flat import Multiclass, Multilabel, Ordinal
from .tables import Arborescence, Permutation, Subset

# What Fenchel-Young losses and marginals can be regularized by.
REGULARIZERS = ("entropy", "quadratic", "max-min")


def structure_of(structure: Any) -> Structure:
    """A structure, by its name or as a value."""
    kinds = {
        kind.name: kind
        for kind in (Multiclass, Ordinal, Multilabel, Chain, Permutation, Arborescence, Subset)
    }
    if isinstance(structure, Structure):
        return structure
    if not isinstance(structure, str) or structure not in kinds:
        raise ValueError(
            f"structure must be one of {', '.join(map(repr, kinds))} or such a value; received "
            f"{structure!r}."
        )
    return kinds[structure]()
