"""Properties of a structure that solvers need, beside its compiled functions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Traits(NamedTuple):
    """Properties of a class of structures, returned by its static method ``traits``; these are the
    defaults.

    Attributes
    ----------
    exact_blocks : bool
        Whether a block has an exact maximum in closed form.
    stores_outputs : bool
        Whether single outputs can be stored by their labels.
    sparse_outputs : bool
        Whether an output has far fewer parts than a block, which has no exact maximum.
    flows : bool
        Whether outputs are label sequences, with a label for every position.
    graph : bool
        Whether outputs are labellings of factor graphs.
    entropy_apart : bool
        Whether blocks need one more number for coordinate ascent on the dual of a CRF.
    saddle : str
        Space of the saddle points of iterative max-min oracles: "positions" of sequences, "pairs"
        of doubly stochastic matrices, "trees"; "" where there is no oracle, or a closed form.
    revisits : bool
        Whether the stored outputs of an example are compared much faster than a new one is found.
    scores_parts : bool
        Whether some parts of a block are scored much faster than all.
    order : str
        The order of visits to examples that was fastest in benchmarks.
    batch : int
        Number of examples that threads visit together. In smaller batches threads wait longer for
        each other; in larger ones the outputs are those of older weights.
    no_oracle : mapping
        Surrogates that have no oracle, or no value of given marginals: what is missing.
    refuses : mapping
        Surrogates that no solver is known for: why, and what to use instead.
    """

    exact_blocks: bool = False
    stores_outputs: bool = True
    sparse_outputs: bool = False
    flows: bool = False
    graph: bool = False
    entropy_apart: bool = False
    saddle: str = ""
    revisits: bool = False
    scores_parts: bool = False
    order: str = "permutation"
    batch: int = 16
    no_oracle: Mapping[str, str] = _NOTHING
    refuses: Mapping[str, str] = _NOTHING


_NO_ARGMAX = "an argmax, which graphs with cycles do not have (solver='auto' or 'soft')"
GRAPH = Traits(
    graph=True,
    no_oracle={"max-margin": _NO_ARGMAX, "max-min": _NO_ARGMAX},
    refuses={
        "crf": "graphs: its likelihood needs a sum over all labellings, which no graph with cycles "
        "allows in reasonable time. Use surrogate='max-margin' or 'max-min'."
    },
)
_PLAIN = "structures in plain Python. Use surrogate='max-margin'."
PYTHON = Traits(stores_outputs=False, refuses={"max-min": _PLAIN, "crf": _PLAIN})
