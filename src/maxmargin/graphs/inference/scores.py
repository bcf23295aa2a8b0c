"""Scores of labellings of one example.

Kernels take ``plan, s``, then ``unary`` and ``tables`` of the example.
"""

from __future__ import annotations

from ..._kernels.jit import leaf
from .whole_labels import add_wholes, score_wholes


@leaf
def labelling_score(plan, s, unary, tables, labels):
    """Score of a labelling; minus infinity if it violates a count."""
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
    return total + score_wholes(plan, s, tables, labels)


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
def scores_given_others(plan, s, own, tables, labels, v, out):
    """Scores of the states of variable v, all others fixed; counts are left to the caller."""
    a = plan.variables[s] + v
    for state in range(plan.n_states[a]):
        out[state] = own[plan.state_at[a] + state]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        add_pair(plan, s, tables, labels, v, plan.near[q], out)
    add_wholes(plan, s, tables, labels, v, out)
