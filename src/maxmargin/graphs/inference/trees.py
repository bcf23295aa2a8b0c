"""Exact decoding of forests: max-product from the leaves to the roots, then back."""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from .scores import own_scores


@leaf
def _collect(plan, base, tables, belief, v, p):
    """Add the best scores of the subtree of v to the states of its parent, given by pair p."""
    first = plan.first[p] == v
    parent = base + (plan.second[p] if first else plan.first[p])
    n_columns = plan.n_states[base + plan.second[p]]
    here, there = plan.state_at[base + v], plan.state_at[parent]
    step, row = (n_columns, 1) if first else (1, n_columns)
    for state in range(plan.n_states[parent]):
        at = plan.entry[p] + state * row
        best = -np.inf
        for own in range(plan.n_states[base + v]):
            best = max(best, belief[here + own] + tables[at + own * step])
        belief[there + state] += best


@leaf
def _choose(plan, base, tables, belief, labels, v, p):
    """Best state of v, given that of its parent if there is one."""
    at, step = 0, 0
    if p >= 0:
        n_columns = plan.n_states[base + plan.second[p]]
        if plan.first[p] == v:
            at, step = plan.entry[p] + labels[plan.second[p]], n_columns
        else:
            at, step = plan.entry[p] + labels[plan.first[p]] * n_columns, 1
    here = plan.state_at[base + v]
    best, chosen = -np.inf, 0
    for own in range(plan.n_states[base + v]):
        value = belief[here + own]
        if p >= 0:
            value += tables[at + own * step]
        if value > best:
            best, chosen = value, own
    return chosen


@leaf
def tree_labels(plan, s, unary, tables, belief, labels):
    """Best labelling of an example whose pairs have no cycle; ``belief`` is scratch per state."""
    base, end = plan.variables[s], plan.variables[s + 1]
    own_scores(plan, s, unary, tables, belief)
    for k in range(end - 1, base - 1, -1):
        v = plan.order[k]
        p = plan.up[base + v]
        if p >= 0:
            _collect(plan, base, tables, belief, v, p)
    for k in range(base, end):
        v = plan.order[k]
        labels[v] = _choose(plan, base, tables, belief, labels, v, plan.up[base + v])
