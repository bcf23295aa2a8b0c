"""Upper bounds on the best labelling with clusters of three, by block minimisation of messages.

Each sweep goes over all variables, and over the joint states of all pairs in triangles: the best
messages of the factors that hold one, with the others fixed (MPLP, Globerson and Jaakkola 2007;
with triangles, Sontag et al. 2008). No step increases the bound. Fixed points need not be optimal
for the relaxation, but the bound is always valid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..clusters import with_triangles
from ..graph import TABLE, Graphs
from ..kernels.agreement import make_room
from .sweeps import lower_bounds


class Tightened(NamedTuple):
    """Upper bounds on the scores of all examples, and scores of all states at which they hold."""

    values: np.ndarray
    unary: np.ndarray


def tighten(graphs: Graphs, unary: np.ndarray, tables: np.ndarray, max_sweeps: int) -> Tightened:
    """Bounds with a cluster for every triangle; all factors must be tables."""
    if (graphs.kind != TABLE).any():
        raise ValueError(
            'method="triangles" needs graphs whose factors are tables; use method="auto" for '
            "counts, chains and trees."
        )
    clustered = with_triangles(graphs)
    states = _spread(graphs.first_state, clustered.first_state)
    entries = _spread(graphs.first_entry, clustered.first_entry)
    scores, all_tables = np.zeros(clustered.first_state[-1]), np.zeros(clustered.first_entry[-1])
    scores[states], all_tables[entries] = unary, tables
    messages = np.zeros(clustered.first_message[-1])
    values = np.empty(graphs.n_examples)
    lower_bounds(clustered, scores, all_tables, messages, max_sweeps, make_room(clustered), values)
    return Tightened(values, scores[states])


def _spread(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """New places of what examples had before, which comes first in each of them."""
    return np.arange(before[-1]) + np.repeat((after - before)[:-1], np.diff(before))
