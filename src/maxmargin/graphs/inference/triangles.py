"""Upper bounds on the best labelling with clusters of three, by block minimisation of messages.

Each sweep goes over all variables, and over the joint states of all pairs in triangles: the best
messages of the factors that hold one, with the others fixed (MPLP, Globerson and Jaakkola 2007;
with triangles, Sontag et al. 2008). No step increases the bound. Fixed points need not be optimal
for the relaxation, but the bound is always valid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import compiled, leaf, seldom
from .._soft_check import copy_messages
from .._tighten_kernel import minimise_messages
from ..clusters import with_triangles
from ..graph import TABLE, Graphs
from ..kernels.agreement import make_room, subtract_messages

_CHECK_EVERY = 5  # sweeps between two checks of the bound
_PROGRESS = 1e-7  # from one check to the next, relative to the bound


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


@compiled
@seldom
def lower_bounds(graphs, unary, tables, messages, max_sweeps, room, values):
    """Minimise messages, write the bounds, and add the messages to the scores of the states."""
    for m in range(graphs.shape.shape[0]):
        own = unary[graphs.first_state[m] : graphs.first_state[m + 1]]
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        best = _bound(graphs, m, own, entries, messages, room)
        for sweep in range(1, max_sweeps + 1):
            minimise_messages(graphs, m, own, entries, messages, 0.0, room)
            if sweep % _CHECK_EVERY == 0 or sweep == max_sweeps:
                now = _bound(graphs, m, own, entries, messages, room)
                done = best - now <= _PROGRESS * max(1.0, abs(best))
                best = min(best, now)
                if done:
                    break
        values[m] = best
        s = graphs.shape[m]
        for a in range(graphs.variables[s], graphs.variables[s + 1]):
            _add_messages(graphs, m, a, messages, own[graphs.state_at[a] :])


@leaf
def _add_messages(graphs, m, a, messages, out):
    for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
        at = graphs.first_message[m] + graphs.message_at[graphs.held[h]]
        for j in range(graphs.n_states[a]):
            out[j] += messages[at + j]


@leaf
def _bound(graphs, m, unary, tables, messages, room):
    """Sum of the maxima of all variables and factors of an example."""
    s = graphs.shape[m]
    total = 0.0
    for a in range(graphs.variables[s], graphs.variables[s + 1]):
        k = graphs.n_states[a]
        for j in range(k):
            room.values[j] = unary[graphs.state_at[a] + j]
        _add_messages(graphs, m, a, messages, room.values)
        total += _largest(room.values, k)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        size = graphs.n_entries[f]
        table = tables[graphs.entry_at[f] : graphs.entry_at[f] + size]
        copy_messages(graphs, messages, m, f, room.delta)
        subtract_messages(graphs, m, f, room.delta, table, room.theta)
        total += _largest(room.theta, size)
    return total


@leaf
def _largest(values, n):
    top = values[0]
    for j in range(1, n):
        top = max(top, values[j])
    return top
