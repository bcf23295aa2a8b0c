"""Messages of the dual decomposition: how a variable and its factors share their scores.

    belief_i = unary_i + sum_c message_ci,      rest_c = table_c - sum_i message_ci
    bound    = sum_i max belief_i + sum_c max rest_c

Any messages give a true upper bound of the score of every labelling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import inner, leaf
from ..._kernels.subsets import kth_largest, sum_of_largest
from ..graph import COUNT
from .scores import own_scores


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
    share: np.ndarray  # of its belief that a variable gives to each of its factors
    scratch: np.ndarray


@inner
def make_messages(plan, s, n_states):
    """Messages of zero."""
    base, first_pair = plan.variables[s], plan.pairs[s]
    first_slot = plan.scope_at[plan.factors[s]]
    pair_at = np.empty(plan.pairs[s + 1] - first_pair, np.int64)
    slot_at = np.full(plan.scope_at[plan.factors[s + 1]] - first_slot, -1, np.int64)
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
        np.zeros(size), pair_at, slot_at, np.empty(n_states), np.empty(n), np.empty(most)
    )
    for v in range(n):
        found.share[v] = _share(plan, s, v)
    return found


@leaf
def is_inner(plan, f, v, forward):
    """Whether a factor has variables after v (forward) or before it."""
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        other = plan.scope[z]
        if (other > v) if forward else (other < v):
            return True
    return False


@leaf
def _share(plan, s, v):
    """Part of its belief that v hands to each factor that is still to come in a sweep."""
    a = plan.variables[s] + v
    after, before, counts = 0, 0, 0
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        other = plan.second[p] if plan.first[p] == v else plan.first[p]
        after += other > v
        before += other < v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        f = plan.slot_factor[plan.slots[q]]
        if plan.kind[f] == COUNT:
            counts += 1
        else:
            after += is_inner(plan, f, v, True)
            before += is_inner(plan, f, v, False)
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
    """Maxima of the rest of a pair over the states of the other variable; returns v's messages."""
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
def table_best(plan, s, tables, messages, z, out):
    """Maxima of the rest of a table over the other variables' states; returns slot z's messages."""
    base = plan.variables[s]
    first_slot = plan.scope_at[plan.factors[s]]
    f = plan.slot_factor[z]
    for state in range(plan.n_states[base + plan.scope[z]]):
        out[state] = -np.inf
    for e in range(plan.n_entries[f]):
        value = tables[plan.entry_at[f] + e]
        left, state = e, 0
        for y in range(plan.scope_at[f + 1] - 1, plan.scope_at[f] - 1, -1):
            k = plan.n_states[base + plan.scope[y]]
            value -= messages.value[messages.slot_at[y - first_slot] + left % k]
            if y == z:
                state = left % k
            left //= k
        out[state] = max(out[state], value)
    return messages.slot_at[z - first_slot]


@inner
def count_best(plan, s, messages, f):
    """Best score of a COUNT by its messages alone."""
    first_slot = plan.scope_at[plan.factors[s]]
    start, n = plan.scope_at[f], plan.scope_at[f + 1] - plan.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains, work = np.empty(n), np.empty(n)
    n_positive = 0
    for k in range(n):
        gains[k] = -messages.value[at + k]  # a message is what the count gave away
        n_positive += gains[k] > 0.0
    wanted = min(max(n_positive, plan.low[f]), plan.high[f])
    return sum_of_largest(gains, wanted, work) if wanted > 0 else 0.0


@inner
def update_count(plan, s, messages, f):
    """Gather the beliefs of a COUNT's variables, find its threshold, and hand half of it back.

    With gains g and the threshold t between those that are on and off, any part of ``g - t`` may
    stay with the variables: the bound of the count and its variables is then at its minimum.
    """
    base = plan.variables[s]
    first_slot = plan.scope_at[plan.factors[s]]
    start, n = plan.scope_at[f], plan.scope_at[f + 1] - plan.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains, ordered = np.empty(n), np.empty(n)
    n_positive = 0
    for k in range(n):
        state = plan.state_at[base + plan.scope[start + k]]
        gains[k] = messages.belief[state + 1] - messages.belief[state] - messages.value[at + k]
        n_positive += gains[k] > 0.0
    threshold = 0.0
    wanted = min(max(n_positive, plan.low[f]), plan.high[f])
    if wanted != n_positive:
        for k in range(n):
            ordered[k] = gains[k]
        if wanted == 0:
            threshold = max(0.0, kth_largest(ordered, 1))
        elif wanted == n:
            threshold = min(0.0, kth_largest(ordered, n))
        else:
            threshold = 0.5 * (kth_largest(ordered, wanted) + kth_largest(ordered, wanted + 1))
    for k in range(n):
        state = plan.state_at[base + plan.scope[start + k]]
        new = 0.5 * (gains[k] - threshold) - gains[k]
        messages.belief[state + 1] += new - messages.value[at + k]
        messages.value[at + k] = new


@leaf
def _gather_beliefs(plan, s, unary, tables, messages):
    """Beliefs anew from the scores and the messages, so that no rounding piles up."""
    base, first_pair = plan.variables[s], plan.pairs[s]
    first_slot = plan.scope_at[plan.factors[s]]
    own_scores(plan, s, unary, tables, messages.belief)
    for p in range(first_pair, plan.pairs[s + 1]):
        at = messages.pair_at[p - first_pair]
        for v in (plan.first[p], plan.second[p]):
            for state in range(plan.n_states[base + v]):
                messages.belief[plan.state_at[base + v] + state] += messages.value[at + state]
            at += plan.n_states[base + v]
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
            a = base + plan.scope[z]
            at = messages.slot_at[z - first_slot]
            if plan.kind[f] == COUNT:
                messages.belief[plan.state_at[a] + 1] += messages.value[at]
            else:
                for state in range(plan.n_states[a]):
                    messages.belief[plan.state_at[a] + state] += messages.value[at + state]


@leaf
def _largest(values, n):
    best = -np.inf
    for k in range(n):
        best = max(best, values[k])
    return best


@inner
def message_bound(plan, s, unary, tables, messages):
    """The upper bound that the messages prove."""
    base = plan.variables[s]
    _gather_beliefs(plan, s, unary, tables, messages)
    total = 0.0
    for a in range(base, plan.variables[s + 1]):
        total += _largest(messages.belief[plan.state_at[a] :], plan.n_states[a])
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        v = plan.first[p]
        pair_best(plan, s, tables, messages, v, p, messages.scratch)
        total += _largest(messages.scratch, plan.n_states[base + v])
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] == COUNT:
            total += count_best(plan, s, messages, f)
        else:
            z = plan.scope_at[f]
            table_best(plan, s, tables, messages, z, messages.scratch)
            total += _largest(messages.scratch, plan.n_states[base + plan.scope[z]])
    return total
