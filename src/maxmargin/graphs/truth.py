"""Beliefs at the truth: all examples of a shape at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .graph import TABLE, TREE, Graphs
from .kernels.agreement import Beliefs

# Number of states and slots that are processed together, to limit the scratch memory.
_MOST_AT_ONCE = 10**6


def set_true_beliefs(graphs: Graphs, truth: np.ndarray, beliefs: Beliefs) -> None:
    """Put all mass on the true states, in beliefs that are zero."""
    for s, examples in _examples_of_shapes(graphs):
        base, end = graphs.variables[s], graphs.variables[s + 1]
        states = truth[graphs.first_variable[examples, None] + np.arange(end - base)]
        at = graphs.first_state[examples, None] + graphs.state_at[base:end]
        beliefs.variables[at + states] = 1.0
        begin, stop = graphs.scope_at[graphs.factors[s]], graphs.scope_at[graphs.factors[s + 1]]
        slots = states[:, graphs.scope[begin:stop]]
        at = graphs.first_message[examples, None] + graphs.message_at[begin:stop]
        beliefs.implied[at + slots] = 1.0
        for entries, mass in _true_entries(graphs, s, slots):
            beliefs.tables[graphs.first_mass[examples, None] + entries] = mass


def _examples_of_shapes(graphs: Graphs) -> Iterator[tuple[int, np.ndarray]]:
    """Each shape with its examples, some at a time."""
    order = np.argsort(graphs.shape, kind="stable")
    ends = np.cumsum(np.bincount(graphs.shape, minlength=len(graphs.variables) - 1))
    sizes = np.diff(graphs.scope_at[graphs.factors]) + np.diff(graphs.variables)
    for s, examples in enumerate(np.split(order, ends[:-1])):
        step = max(1, _MOST_AT_ONCE // max(1, int(sizes[s])))
        for first in range(0, len(examples), step):
            yield s, examples[first : first + step]


def _in_cluster(graphs: Graphs, base: int, factors: np.ndarray) -> np.ndarray:
    """Which factors have a variable without scores: the joint state of a pair in a triangle."""
    last = base + graphs.scope[graphs.scope_at[factors + 1] - 1]
    return graphs.scored_from[last] == graphs.n_states[last]


def _entry_of_slots(graphs: Graphs, f: int, states: np.ndarray) -> np.ndarray:
    """The entry of a table at which its slots have these states; rows are examples."""
    at = graphs.map_at[graphs.scope_at[f] : graphs.scope_at[f + 1], None]
    maps = graphs.maps[at + np.arange(graphs.n_entries[f])]
    shape = maps.max(axis=1) + 1
    keys = np.ravel_multi_index(tuple(maps), tuple(shape))
    order = np.argsort(keys)
    wanted = np.ravel_multi_index(tuple(states.T), tuple(shape))
    return order[np.searchsorted(keys, wanted, sorter=order)]


def _true_entries(
    graphs: Graphs, s: int, slots: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray | float]]:
    """Indices of the true entries of tables within examples whose slots have these states, and the
    mass there: rows are examples."""
    base, begin = graphs.variables[s], graphs.scope_at[graphs.factors[s]]
    factors = np.arange(graphs.factors[s], graphs.factors[s + 1])
    arity = np.diff(graphs.scope_at)[factors]
    short = graphs.potts[factors] & (graphs.n_mass[factors] == 1)
    if short.any():
        chosen = factors[short]
        z = graphs.scope_at[chosen] - begin
        entries = np.broadcast_to(graphs.mass_at[chosen], (len(slots), len(chosen)))
        yield entries, (slots[:, z] == slots[:, z + 1]).astype(float)
    tables = (graphs.kind[factors] == TABLE) & ~short
    mapped = tables & _in_cluster(graphs, base, factors)
    for f in factors[mapped].tolist():
        z = np.arange(graphs.scope_at[f], graphs.scope_at[f + 1])
        yield graphs.mass_at[f] + _entry_of_slots(graphs, f, slots[:, z - begin])[:, None], 1.0
    tables &= ~mapped
    for size in np.unique(arity[tables]):
        chosen = factors[tables & (arity == size)]
        entries = np.zeros((len(slots), len(chosen)), np.int64)
        for r in range(size):
            z = graphs.scope_at[chosen] + r
            entries = entries * graphs.n_states[base + graphs.scope[z]] + slots[:, z - begin]
        yield graphs.mass_at[chosen] + entries, 1.0
    z = begin + np.arange(slots.shape[1])
    f = graphs.slot_factor[z]
    child = (graphs.kind[f] == TREE) & (graphs.parent[z] >= 0)
    if child.any():
        z, f = z[child], f[child]
        parent = graphs.scope_at[f] + graphs.parent[z]
        pair = slots[:, z - begin] * graphs.n_states[base + graphs.scope[parent]].astype(np.int64)
        yield graphs.mass_at[f] + graphs.edge_entry[z] + pair + slots[:, parent - begin], 1.0
