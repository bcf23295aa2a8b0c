"""Messages of the dual decomposition: how scores are divided between a variable and its factors.

    belief_i = unary_i + sum_c message_ci,      rest_c = table_c - sum_i message_ci
    bound    = sum_i max belief_i + sum_c max rest_c

Any messages give a valid upper bound on the score of every labelling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import inner, leaf
from ..graph import COUNT
from .scores import own_scores
from .wholes import bound_wholes, count_wholes, gather_wholes


class Messages(NamedTuple):
    """Messages of one example.

    Pair p (counted from the shape's first) has those to its first and then those to its second
    variable from ``pair_at[p]`` on; slot z (counted from the shape's first) of a table over three
    or more variables from ``slot_at[z]`` on; a slot of a COUNT has one number, of state 1.
    """

    value: np.ndarray
    pair_at: np.ndarray
    slot_at: np.ndarray
    belief: np.ndarray
    share: np.ndarray  # share of the belief of a variable that each of its factors receives
    scratch: np.ndarray
    gains: np.ndarray  # scratch: two rows, one number per variable
    counts: np.ndarray  # of each factor, variables in state 1, and those without a label yet


@inner
def make_messages(plan, s, n_states):
    """Messages of zero."""
    base, first_pair = plan.variables[s], plan.pairs[s]
    first_slot = plan.scope_at[plan.factors[s]]
    pair_at = np.empty(plan.pairs[s + 1] - first_pair, np.int64)
    slot_at = np.empty(plan.scope_at[plan.factors[s + 1]] - first_slot, np.int64)
    size = 0
    for p in range(first_pair, plan.pairs[s + 1]):
        pair_at[p - first_pair] = size
        size += plan.n_states[base + plan.first[p]] + plan.n_states[base + plan.second[p]]
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
            slot_at[z - first_slot] = size
            counts = plan.kind[f] == COUNT
            size += 1 if counts else plan.n_states[base + plan.scope[z]]
    n = plan.variables[s + 1] - base
    most = 1
    for a in range(base, base + n):
        most = max(most, plan.n_states[a])
    found = Messages(
        np.zeros(size), pair_at, slot_at, np.empty(n_states), np.empty(n), np.empty(most),
        np.empty((2, n)), np.empty((2, plan.factors[s + 1] - plan.factors[s]), np.int64),
    )  # fmt: skip
    for v in range(n):
        found.share[v] = _share(plan, s, v)
    return found


@leaf
def _share(plan, s, v):
    """Share of the belief of v for each factor that is visited later in a sweep."""
    a = plan.variables[s] + v
    after, before, counts = count_wholes(plan, a, v)
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        other = plan.second[p] if plan.first[p] == v else plan.first[p]
        after += other > v
        before += other < v
    return 1.0 / max(1, max(after, before) + counts)


@leaf
def pair_maxima(table, rows, columns, by_row, out):
    """Maxima of ``table - rows - columns`` over the columns, or over the rows."""
    n_rows, n_columns = len(rows), len(columns)
    if by_row:
        for a in range(n_rows):
            best = -np.inf
            for b in range(n_columns):
                best = max(best, table[a * n_columns + b] - columns[b])
            out[a] = best - rows[a]
        return
    for b in range(n_columns):
        out[b] = -np.inf
    for a in range(n_rows):
        for b in range(n_columns):
            out[b] = max(out[b], table[a * n_columns + b] - rows[a])
    for b in range(n_columns):
        out[b] -= columns[b]


@leaf
def pair_best(plan, s, tables, messages, v, p, out):
    """Maxima of the rest of a pair over the states of the other variable; returns messages to v."""
    base = plan.variables[s]
    n_rows, n_columns = (
        plan.n_states[base + plan.first[p]],
        plan.n_states[base + plan.second[p]],
    )
    row_at = messages.pair_at[p - plan.pairs[s]]
    rows = messages.value[row_at : row_at + n_rows]
    columns = messages.value[row_at + n_rows : row_at + n_rows + n_columns]
    table = tables[plan.entry[p] : plan.entry[p] + n_rows * n_columns]
    pair_maxima(table, rows, columns, plan.first[p] == v, out)
    return row_at if plan.first[p] == v else row_at + n_rows


@leaf
def _gather_beliefs(plan, s, unary, tables, messages):
    """Recompute beliefs from the scores and the messages, so that rounding does not accumulate."""
    base, first_pair = plan.variables[s], plan.pairs[s]
    own_scores(plan, s, unary, tables, messages.belief)
    for p in range(first_pair, plan.pairs[s + 1]):
        at = messages.pair_at[p - first_pair]
        for v in (plan.first[p], plan.second[p]):
            for state in range(plan.n_states[base + v]):
                messages.belief[plan.state_at[base + v] + state] += messages.value[at + state]
            at += plan.n_states[base + v]
    gather_wholes(plan, s, messages)


@leaf
def _largest(values, n):
    best = -np.inf
    for k in range(n):
        best = max(best, values[k])
    return best


@leaf
def message_bound(plan, s, unary, tables, messages):
    """The upper bound given by the messages."""
    base = plan.variables[s]
    _gather_beliefs(plan, s, unary, tables, messages)
    total = 0.0
    for a in range(base, plan.variables[s + 1]):
        total += _largest(messages.belief[plan.state_at[a] :], plan.n_states[a])
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        v = plan.first[p]
        pair_best(plan, s, tables, messages, v, p, messages.scratch)
        total += _largest(messages.scratch, plan.n_states[base + v])
    return total + bound_wholes(plan, s, tables, messages)
