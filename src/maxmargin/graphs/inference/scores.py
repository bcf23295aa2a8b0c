"""Scores of labellings of one example.

Kernels take ``plan, s``, then the example's own ``unary`` and ``tables``.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from ..graph import COUNT


@leaf
def n_on(plan, s, f, labels):
    """How many variables of a COUNT are in state 1."""
    found = 0
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        found += labels[plan.scope[z]]
    return found


@leaf
def excess_of_count(plan, f, found):
    """How far a number of variables in state 1 is from what a COUNT allows."""
    return max(0, plan.low[f] - found, found - plan.high[f])


@leaf
def table_entry(plan, s, f, labels):
    """Number of the entry of a table that a labelling picks, counted from the table's first."""
    base = plan.variables[s]
    entry = 0
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        v = plan.scope[z]
        entry = entry * plan.n_states[base + v] + labels[v]
    return entry


@leaf
def labelling_score(plan, s, unary, tables, labels):
    """Score of a labelling; minus infinity if it breaks a count."""
    base = plan.variables[s]
    total = 0.0
    for a in range(base, plan.variables[s + 1]):
        total += unary[plan.state_at[a] + labels[a - base]]
    for q in range(plan.singles[s], plan.singles[s + 1]):
        total += tables[plan.single_entry[q] + labels[plan.single[q]]]
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        second = plan.second[p]
        row = labels[plan.first[p]] * plan.n_states[base + second]
        total += tables[plan.entry[p] + row + labels[second]]
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] == COUNT:
            if excess_of_count(plan, f, n_on(plan, s, f, labels)) > 0:
                return -np.inf
        else:
            total += tables[plan.entry_at[f] + table_entry(plan, s, f, labels)]
    return total


@leaf
def own_scores(plan, s, unary, tables, out):
    """Copy the scores of the states, with those of the tables over one variable added."""
    base = plan.variables[s]
    for k in range(len(unary)):
        out[k] = unary[k]
    for q in range(plan.singles[s], plan.singles[s + 1]):
        a = base + plan.single[q]
        for state in range(plan.n_states[a]):
            out[plan.state_at[a] + state] += tables[plan.single_entry[q] + state]


@leaf
def add_pair(plan, s, tables, labels, v, p, out):
    """Add the scores of a pair to the states of its variable v, the other one being fixed."""
    base = plan.variables[s]
    n_columns = plan.n_states[base + plan.second[p]]
    at = plan.entry[p]
    if plan.first[p] == v:
        at += labels[plan.second[p]]
        for state in range(plan.n_states[base + v]):
            out[state] += tables[at + state * n_columns]
    else:
        at += labels[plan.first[p]] * n_columns
        for state in range(n_columns):
            out[state] += tables[at + state]


@leaf
def add_table(plan, s, tables, labels, z, out):
    """Add the scores of a table to the states of its variable at slot z, the others being fixed."""
    base = plan.variables[s]
    f = plan.slot_factor[z]
    entry, stride = 0, 1
    for y in range(plan.scope_at[f], plan.scope_at[f + 1]):
        v = plan.scope[y]
        k = plan.n_states[base + v]
        entry = entry * k + (0 if y == z else labels[v])
        if y > z:
            stride *= k
    entry += plan.entry_at[f]
    for state in range(plan.n_states[base + plan.scope[z]]):
        out[state] += tables[entry + state * stride]


@leaf
def scores_given_others(plan, s, own, tables, labels, v, out):
    """Scores of the states of variable v, all others fixed; counts are left to the caller."""
    a = plan.variables[s] + v
    for state in range(plan.n_states[a]):
        out[state] = own[plan.state_at[a] + state]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        add_pair(plan, s, tables, labels, v, plan.near[q], out)
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        if plan.kind[plan.slot_factor[z]] != COUNT:
            add_table(plan, s, tables, labels, z, out)
