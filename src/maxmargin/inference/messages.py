"""Messages of the dual decomposition: how a variable and its factors share their scores.

    belief_i = unary_i + sum_c message_ci,      rest_c = table_c - sum_i message_ci
    bound    = sum_i max belief_i + sum_c max rest_c

Any messages give a true upper bound of the score of every labelling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import compiled, leaf
from ..structures.graph import COUNT
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


@compiled
def make_messages(graphs, pairs, s, n_states):
    """Messages of zero."""
    base, first_pair = graphs.variables[s], pairs.pairs[s]
    first_slot = graphs.scope_at[graphs.factors[s]]
    pair_at = np.empty(pairs.pairs[s + 1] - first_pair, np.int64)
    slot_at = np.full(graphs.scope_at[graphs.factors[s + 1]] - first_slot, -1, np.int64)
    size = 0
    for p in range(first_pair, pairs.pairs[s + 1]):
        pair_at[p - first_pair] = size
        size += graphs.n_states[base + pairs.first[p]] + graphs.n_states[base + pairs.second[p]]
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
            slot_at[z - first_slot] = size
            counts = graphs.kind[f] == COUNT
            size += 1 if counts else graphs.n_states[base + graphs.scope[z]]
    n = graphs.variables[s + 1] - base
    most = 1
    for a in range(base, base + n):
        most = max(most, graphs.n_states[a])
    found = Messages(
        np.zeros(size), pair_at, slot_at, np.empty(n_states), np.empty(n), np.empty(most)
    )
    for v in range(n):
        found.share[v] = _share(graphs, pairs, s, v)
    return found


@leaf
def is_inner(graphs, f, v, forward):
    """Whether a factor has variables after v (forward) or before it."""
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        other = graphs.scope[z]
        if (other > v) if forward else (other < v):
            return True
    return False


@leaf
def _share(graphs, pairs, s, v):
    """Part of its belief that v hands to each factor that is still to come in a sweep."""
    a = graphs.variables[s] + v
    after, before, counts = 0, 0, 0
    for q in range(pairs.near_at[a], pairs.near_at[a + 1]):
        p = pairs.near[q]
        other = pairs.second[p] if pairs.first[p] == v else pairs.first[p]
        after += other > v
        before += other < v
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        f = graphs.slot_factor[pairs.slots[q]]
        if graphs.kind[f] == COUNT:
            counts += 1
        else:
            after += is_inner(graphs, f, v, True)
            before += is_inner(graphs, f, v, False)
    return 1.0 / max(1, max(after, before) + counts)


@leaf
def pair_best(graphs, pairs, s, tables, messages, v, p, out):
    """Maxima of the rest of a pair over the states of the other variable; returns v's messages."""
    base = graphs.variables[s]
    n_rows, n_columns = (
        graphs.n_states[base + pairs.first[p]],
        graphs.n_states[base + pairs.second[p]],
    )
    row_at = messages.pair_at[p - pairs.pairs[s]]
    rows = messages.value[row_at : row_at + n_rows]
    columns = messages.value[row_at + n_rows : row_at + n_rows + n_columns]
    table = tables[pairs.entry[p] : pairs.entry[p] + n_rows * n_columns]
    if pairs.first[p] == v:
        for a in range(n_rows):
            best = -np.inf
            for b in range(n_columns):
                best = max(best, table[a * n_columns + b] - columns[b])
            out[a] = best - rows[a]
        return row_at
    for b in range(n_columns):
        out[b] = -np.inf
    for a in range(n_rows):
        for b in range(n_columns):
            out[b] = max(out[b], table[a * n_columns + b] - rows[a])
    for b in range(n_columns):
        out[b] -= columns[b]
    return row_at + n_rows


@leaf
def table_best(graphs, s, tables, messages, z, out):
    """Maxima of the rest of a table over the other variables' states; returns slot z's messages."""
    base = graphs.variables[s]
    first_slot = graphs.scope_at[graphs.factors[s]]
    f = graphs.slot_factor[z]
    for state in range(graphs.n_states[base + graphs.scope[z]]):
        out[state] = -np.inf
    for e in range(graphs.n_entries[f]):
        value = tables[graphs.entry_at[f] + e]
        left, state = e, 0
        for y in range(graphs.scope_at[f + 1] - 1, graphs.scope_at[f] - 1, -1):
            k = graphs.n_states[base + graphs.scope[y]]
            value -= messages.value[messages.slot_at[y - first_slot] + left % k]
            if y == z:
                state = left % k
            left //= k
        out[state] = max(out[state], value)
    return messages.slot_at[z - first_slot]


@compiled
def count_best(graphs, s, messages, f):
    """Best score of a COUNT by its messages alone."""
    first_slot = graphs.scope_at[graphs.factors[s]]
    start, n = graphs.scope_at[f], graphs.scope_at[f + 1] - graphs.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains = np.sort(messages.value[at : at + n])  # a message is what the count gave away
    total = 0.0
    for k in range(graphs.high[f]):
        if k < graphs.low[f] or gains[k] < 0.0:
            total -= gains[k]
    return total


@compiled
def update_count(graphs, s, messages, f):
    """Gather the beliefs of a COUNT's variables, find its threshold, and hand half of it back.

    With gains g and the threshold t between those that are on and off, any part of ``g - t`` may
    stay with the variables: the bound of the count and its variables is then at its minimum.
    """
    base = graphs.variables[s]
    first_slot = graphs.scope_at[graphs.factors[s]]
    start, n = graphs.scope_at[f], graphs.scope_at[f + 1] - graphs.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains = np.empty(n)
    n_positive = 0
    for k in range(n):
        state = graphs.state_at[base + graphs.scope[start + k]]
        gains[k] = messages.belief[state + 1] - messages.belief[state] - messages.value[at + k]
        n_positive += gains[k] > 0.0
    threshold = 0.0
    wanted = min(max(n_positive, graphs.low[f]), graphs.high[f])
    if wanted != n_positive:
        ordered = np.sort(gains)[::-1]
        if wanted == 0:
            threshold = max(0.0, ordered[0])
        elif wanted == n:
            threshold = min(0.0, ordered[n - 1])
        else:
            threshold = 0.5 * (ordered[wanted - 1] + ordered[wanted])
    for k in range(n):
        state = graphs.state_at[base + graphs.scope[start + k]]
        new = 0.5 * (gains[k] - threshold) - gains[k]
        messages.belief[state + 1] += new - messages.value[at + k]
        messages.value[at + k] = new


@leaf
def _gather_beliefs(graphs, pairs, s, unary, tables, messages):
    """Beliefs anew from the scores and the messages, so that no rounding piles up."""
    base, first_pair = graphs.variables[s], pairs.pairs[s]
    first_slot = graphs.scope_at[graphs.factors[s]]
    own_scores(graphs, pairs, s, unary, tables, messages.belief)
    for p in range(first_pair, pairs.pairs[s + 1]):
        at = messages.pair_at[p - first_pair]
        for v in (pairs.first[p], pairs.second[p]):
            for state in range(graphs.n_states[base + v]):
                messages.belief[graphs.state_at[base + v] + state] += messages.value[at + state]
            at += graphs.n_states[base + v]
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
            a = base + graphs.scope[z]
            at = messages.slot_at[z - first_slot]
            if graphs.kind[f] == COUNT:
                messages.belief[graphs.state_at[a] + 1] += messages.value[at]
            else:
                for state in range(graphs.n_states[a]):
                    messages.belief[graphs.state_at[a] + state] += messages.value[at + state]


@leaf
def _largest(values, n):
    best = -np.inf
    for k in range(n):
        best = max(best, values[k])
    return best


@compiled
def message_bound(graphs, pairs, s, unary, tables, messages):
    """The upper bound that the messages prove."""
    base = graphs.variables[s]
    _gather_beliefs(graphs, pairs, s, unary, tables, messages)
    total = 0.0
    for a in range(base, graphs.variables[s + 1]):
        total += _largest(messages.belief[graphs.state_at[a] :], graphs.n_states[a])
    for p in range(pairs.pairs[s], pairs.pairs[s + 1]):
        v = pairs.first[p]
        pair_best(graphs, pairs, s, tables, messages, v, p, messages.scratch)
        total += _largest(messages.scratch, graphs.n_states[base + v])
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        if graphs.kind[f] == COUNT:
            total += count_best(graphs, s, messages, f)
        else:
            z = graphs.scope_at[f]
            table_best(graphs, s, tables, messages, z, messages.scratch)
            total += _largest(messages.scratch, graphs.n_states[base + graphs.scope[z]])
    return total
