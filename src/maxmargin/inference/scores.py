"""Scores of labellings of one example.

Kernels take ``graphs, pairs, s``, then the example's own ``unary`` and ``tables``.
"""

from __future__ import annotations

import numpy as np

from .._kernels.jit import leaf
from ..structures.graph import COUNT


@leaf
def n_on(graphs, s, f, labels):
    """How many variables of a COUNT are in state 1."""
    found = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        found += labels[graphs.scope[z]]
    return found


@leaf
def excess_of_count(graphs, f, found):
    """How far a number of variables in state 1 is from what a COUNT allows."""
    return max(0, graphs.low[f] - found, found - graphs.high[f])


@leaf
def table_entry(graphs, s, f, labels):
    """Number of the entry of a table that a labelling picks, counted from the table's first."""
    base = graphs.variables[s]
    entry = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        v = graphs.scope[z]
        entry = entry * graphs.n_states[base + v] + labels[v]
    return entry


@leaf
def labelling_score(graphs, pairs, s, unary, tables, labels):
    """Score of a labelling; minus infinity if it breaks a count."""
    base = graphs.variables[s]
    total = 0.0
    for a in range(base, graphs.variables[s + 1]):
        total += unary[graphs.state_at[a] + labels[a - base]]
    for q in range(pairs.singles[s], pairs.singles[s + 1]):
        total += tables[pairs.single_entry[q] + labels[pairs.single[q]]]
    for p in range(pairs.pairs[s], pairs.pairs[s + 1]):
        second = pairs.second[p]
        row = labels[pairs.first[p]] * graphs.n_states[base + second]
        total += tables[pairs.entry[p] + row + labels[second]]
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        if graphs.kind[f] == COUNT:
            if excess_of_count(graphs, f, n_on(graphs, s, f, labels)) > 0:
                return -np.inf
        else:
            total += tables[graphs.entry_at[f] + table_entry(graphs, s, f, labels)]
    return total


@leaf
def own_scores(graphs, pairs, s, unary, tables, out):
    """Copy the scores of the states, with those of the tables over one variable added."""
    base = graphs.variables[s]
    for k in range(len(unary)):
        out[k] = unary[k]
    for q in range(pairs.singles[s], pairs.singles[s + 1]):
        a = base + pairs.single[q]
        for state in range(graphs.n_states[a]):
            out[graphs.state_at[a] + state] += tables[pairs.single_entry[q] + state]


@leaf
def add_pair(graphs, pairs, s, tables, labels, v, p, out):
    """Add the scores of a pair to the states of its variable v, the other one being fixed."""
    base = graphs.variables[s]
    n_columns = graphs.n_states[base + pairs.second[p]]
    at = pairs.entry[p]
    if pairs.first[p] == v:
        at += labels[pairs.second[p]]
        for state in range(graphs.n_states[base + v]):
            out[state] += tables[at + state * n_columns]
    else:
        at += labels[pairs.first[p]] * n_columns
        for state in range(n_columns):
            out[state] += tables[at + state]


@leaf
def add_table(graphs, s, tables, labels, z, out):
    """Add the scores of a table to the states of its variable at slot z, the others being fixed."""
    base = graphs.variables[s]
    f = graphs.slot_factor[z]
    entry, stride = 0, 1
    for y in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        v = graphs.scope[y]
        k = graphs.n_states[base + v]
        entry = entry * k + (0 if y == z else labels[v])
        if y > z:
            stride *= k
    entry += graphs.entry_at[f]
    for state in range(graphs.n_states[base + graphs.scope[z]]):
        out[state] += tables[entry + state * stride]


@leaf
def scores_given_others(graphs, pairs, s, own, tables, labels, v, out):
    """Scores of the states of variable v, all others fixed; counts are left to the caller."""
    a = graphs.variables[s] + v
    for state in range(graphs.n_states[a]):
        out[state] = own[graphs.state_at[a] + state]
    for q in range(pairs.near_at[a], pairs.near_at[a + 1]):
        add_pair(graphs, pairs, s, tables, labels, v, pairs.near[q], out)
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        z = pairs.slots[q]
        if graphs.kind[graphs.slot_factor[z]] != COUNT:
            add_table(graphs, s, tables, labels, z, out)
