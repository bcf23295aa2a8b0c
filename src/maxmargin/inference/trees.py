"""Exact decoding of forests: max-product from the leaves to the roots, then back."""

from __future__ import annotations

import numpy as np

from .._kernels.jit import leaf
from .scores import own_scores


@leaf
def _collect(graphs, pairs, base, tables, belief, v, p):
    """Add to the states of v's parent, at the other end of pair p, the best that v can do below."""
    first = pairs.first[p] == v
    parent = base + (pairs.second[p] if first else pairs.first[p])
    n_columns = graphs.n_states[base + pairs.second[p]]
    here, there = graphs.state_at[base + v], graphs.state_at[parent]
    step, row = (n_columns, 1) if first else (1, n_columns)
    for state in range(graphs.n_states[parent]):
        at = pairs.entry[p] + state * row
        best = -np.inf
        for own in range(graphs.n_states[base + v]):
            best = max(best, belief[here + own] + tables[at + own * step])
        belief[there + state] += best


@leaf
def _choose(graphs, pairs, base, tables, belief, labels, v, p):
    """Best state of v, given that of its parent if there is one."""
    at, step = 0, 0
    if p >= 0:
        n_columns = graphs.n_states[base + pairs.second[p]]
        if pairs.first[p] == v:
            at, step = pairs.entry[p] + labels[pairs.second[p]], n_columns
        else:
            at, step = pairs.entry[p] + labels[pairs.first[p]] * n_columns, 1
    here = graphs.state_at[base + v]
    best, chosen = -np.inf, 0
    for own in range(graphs.n_states[base + v]):
        value = belief[here + own]
        if p >= 0:
            value += tables[at + own * step]
        if value > best:
            best, chosen = value, own
    return chosen


@leaf
def tree_labels(graphs, pairs, s, unary, tables, belief, labels):
    """Best labelling of an example whose pairs have no cycle. ``belief`` is scratch, one a state."""
    base, end = graphs.variables[s], graphs.variables[s + 1]
    own_scores(graphs, pairs, s, unary, tables, belief)
    for k in range(end - 1, base - 1, -1):
        v = pairs.order[k]
        p = pairs.up[base + v]
        if p >= 0:
            _collect(graphs, pairs, base, tables, belief, v, p)
    for k in range(base, end):
        v = pairs.order[k]
        labels[v] = _choose(graphs, pairs, base, tables, belief, labels, v, pairs.up[base + v])
