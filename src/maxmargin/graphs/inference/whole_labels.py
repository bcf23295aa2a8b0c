"""Whole factors (counts, tables over three or more variables) of labellings; see :mod:`.wholes`."""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import implements, leaf
from ..graph import COUNT
from .plan import PairPlan, Plan

# --- interface ----------------------------------------------------------------------------------


def score_wholes(plan, s, tables, labels):
    """Score of a labelling in whole factors; minus infinity if it violates a count."""


def add_wholes(plan, s, tables, labels, v, out):
    """Add the scores of tables to the states of v, the other variables being fixed."""


def count_labels(plan, s, labels, on):
    """Number of variables in state 1, of every count."""


def excess_change(plan, s, on, v, old, new):
    """Change of the excesses of all counts if variable v changes its state."""


def change_counts(plan, s, on, v, change):
    """Update the counts after a change of the state of v."""


def list_related(plan, s, v, others, found):
    """Append the variables that share a whole factor with v; returns the number of others."""


# --- graphs of pairs only: nothing to do --------------------------------------------------------


@implements(score_wholes, PairPlan)
def _no_score(plan, s, tables, labels):
    return 0.0


@implements(add_wholes, PairPlan)
def _add_nothing(plan, s, tables, labels, v, out):
    return


@implements(count_labels, PairPlan)
def _count_nothing(plan, s, labels, on):
    return


@implements(excess_change, PairPlan)
def _no_change(plan, s, on, v, old, new):
    return 0


@implements(change_counts, PairPlan)
def _change_nothing(plan, s, on, v, change):
    return


@implements(list_related, PairPlan)
def _no_more(plan, s, v, others, found):
    return found


# --- any graphs ---------------------------------------------------------------------------------


@leaf
def _n_on(plan, s, f, labels):
    """Number of variables of a COUNT in state 1."""
    found = 0
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        found += labels[plan.scope[z]]
    return found


@leaf
def _excess(plan, f, found):
    """Distance of a number of variables in state 1 from the range that a COUNT allows."""
    return max(0, max(plan.low[f] - found, found - plan.high[f]))


@leaf
def _table_entry(plan, s, f, labels):
    """Index, within its table, of the entry that a labelling selects."""
    base = plan.variables[s]
    entry = 0
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        v = plan.scope[z]
        entry = entry * plan.n_states[base + v] + labels[v]
    return entry


@implements(score_wholes, Plan)
def _score_wholes(plan, s, tables, labels):
    total = 0.0
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] == COUNT:
            if _excess(plan, f, _n_on(plan, s, f, labels)) > 0:
                return -np.inf
        else:
            total += tables[plan.entry_at[f] + _table_entry(plan, s, f, labels)]
    return total


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


@implements(add_wholes, Plan)
def _add_wholes(plan, s, tables, labels, v, out):
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        if plan.kind[plan.slot_factor[z]] != COUNT:
            add_table(plan, s, tables, labels, z, out)


@implements(count_labels, Plan)
def _count_labels(plan, s, labels, on):
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] == COUNT:
            on[f - plan.factors[s]] = _n_on(plan, s, f, labels)


@implements(excess_change, Plan)
def _excess_change(plan, s, on, v, old, new):
    change = 0
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        f = plan.slot_factor[plan.slots[q]]
        if plan.kind[f] == COUNT:
            found = on[f - plan.factors[s]]
            change += _excess(plan, f, found + new - old)
            change -= _excess(plan, f, found)
    return change


@implements(change_counts, Plan)
def _change_counts(plan, s, on, v, change):
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        f = plan.slot_factor[plan.slots[q]]
        if plan.kind[f] == COUNT:
            on[f - plan.factors[s]] += change


@implements(list_related, Plan)
def _list_related(plan, s, v, others, found):
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        f = plan.slot_factor[plan.slots[q]]
        for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
            if found < len(others):
                others[found] = plan.scope[z]
                found += 1
    return found
