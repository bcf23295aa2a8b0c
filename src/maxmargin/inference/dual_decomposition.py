"""Dual decomposition: an upper bound that falls, and labellings read off its messages.

Block-coordinate descent in sweeps over the variables, to and fro: a variable takes the best that
each of its factors can do for each of its states, and hands the sum in equal shares to the factors
that the sweep has yet to meet. On pairs this is sequential tree-reweighted message passing
(Kolmogorov 2006), on larger tables its extension (Kolmogorov 2015). Counts hand over all their
messages at once. No step raises the bound.

Fixed points need not be optimal for the relaxation; the bound is true all the same.
"""

from __future__ import annotations

import numpy as np

from .._kernels.jit import compiled, leaf
from ..structures.graph import COUNT
from .local_search import climb
from .messages import (
    is_inner, make_messages, message_bound, pair_best, table_best, update_count,
)  # fmt: skip
from .scores import add_pair, add_table, labelling_score

_CHECK_EVERY = 5  # sweeps to and fro between two checks of the bound
_PATIENCE = 3  # checks without progress
_PROVEN = 1e-9


@leaf
def _take(messages, at, state_at, k):
    """Move the maxima in ``scratch`` from a factor to its variable."""
    for state in range(k):
        messages.value[at + state] += messages.scratch[state]
        messages.belief[state_at + state] += messages.scratch[state]


@leaf
def _visit(graphs, pairs, s, tables, messages, v, forward):
    """Gather the maxima of all factors of v, and share the belief among those still to come."""
    a = graphs.variables[s] + v
    k, state_at = graphs.n_states[a], graphs.state_at[a]
    first_slot = graphs.scope_at[graphs.factors[s]]
    for q in range(pairs.near_at[a], pairs.near_at[a + 1]):
        p = pairs.near[q]
        at = pair_best(graphs, pairs, s, tables, messages, v, p, messages.scratch)
        _take(messages, at, state_at, k)
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        z = pairs.slots[q]
        if graphs.kind[graphs.slot_factor[z]] != COUNT:
            at = table_best(graphs, s, tables, messages, z, messages.scratch)
            _take(messages, at, state_at, k)
    for state in range(k):
        messages.scratch[state] = -messages.share[v] * messages.belief[state_at + state]
    for q in range(pairs.near_at[a], pairs.near_at[a + 1]):
        p = pairs.near[q]
        first = pairs.first[p] == v
        other = pairs.second[p] if first else pairs.first[p]
        if (other > v) == forward:
            at = messages.pair_at[p - pairs.pairs[s]]
            if not first:
                at += graphs.n_states[graphs.variables[s] + other]
            _take(messages, at, state_at, k)
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        z = pairs.slots[q]
        f = graphs.slot_factor[z]
        if graphs.kind[f] != COUNT and is_inner(graphs, f, v, forward):
            _take(messages, messages.slot_at[z - first_slot], state_at, k)


@compiled
def _sweep(graphs, pairs, s, tables, messages, forward):
    n = graphs.variables[s + 1] - graphs.variables[s]
    for k in range(n):
        _visit(graphs, pairs, s, tables, messages, k if forward else n - 1 - k, forward)
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        if graphs.kind[pairs.whole[w]] == COUNT:
            update_count(graphs, s, messages, pairs.whole[w])


@leaf
def _allowed(graphs, s, on, left, f, state):
    """Whether a COUNT can still be met if the next of its variables takes a state."""
    k = f - graphs.factors[s]
    return on[k] + state <= graphs.high[f] and on[k] + state + left[k] - 1 >= graphs.low[f]


@leaf
def _is_last(graphs, f, v):
    """Whether all other variables of a table come before v."""
    return not is_inner(graphs, f, v, True)


@leaf
def _read_state(graphs, pairs, s, tables, messages, labels, scores, v, on, left):
    """Best state of v, given those of the variables before it and the messages of the others."""
    a = graphs.variables[s] + v
    k, state_at = graphs.n_states[a], graphs.state_at[a]
    first_pair, first_slot = pairs.pairs[s], graphs.scope_at[graphs.factors[s]]
    for state in range(k):
        scores[state] = messages.belief[state_at + state]
    for q in range(pairs.near_at[a], pairs.near_at[a + 1]):
        p = pairs.near[q]
        first = pairs.first[p] == v
        other = pairs.second[p] if first else pairs.first[p]
        if other < v:
            add_pair(graphs, pairs, s, tables, labels, v, p, scores)
            at = messages.pair_at[p - first_pair]
            at += 0 if first else graphs.n_states[graphs.variables[s] + other]
            for state in range(k):
                scores[state] -= messages.value[at + state]
        else:
            pair_best(graphs, pairs, s, tables, messages, v, p, messages.scratch)
            for state in range(k):
                scores[state] += messages.scratch[state]
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        z = pairs.slots[q]
        f = graphs.slot_factor[z]
        at = messages.slot_at[z - first_slot]
        if graphs.kind[f] == COUNT:
            scores[1] -= messages.value[at]
            for state in range(2):
                if not _allowed(graphs, s, on, left, f, state):
                    scores[state] -= 1e300
        elif _is_last(graphs, f, v):
            add_table(graphs, s, tables, labels, z, scores)
            for state in range(k):
                scores[state] -= messages.value[at + state]
        else:
            table_best(graphs, s, tables, messages, z, messages.scratch)
            for state in range(k):
                scores[state] += messages.scratch[state]
    chosen = 0
    for state in range(k):
        if scores[state] > scores[chosen]:
            chosen = state
    return chosen


@compiled
def read_labels(graphs, pairs, s, tables, messages, scores, labels):
    """Write a labelling: each variable in turn the best state, given those before it."""
    first = graphs.factors[s]
    on = np.zeros(graphs.factors[s + 1] - first, np.int64)
    left = np.zeros(graphs.factors[s + 1] - first, np.int64)
    for f in range(first, graphs.factors[s + 1]):
        left[f - first] = graphs.scope_at[f + 1] - graphs.scope_at[f]
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        labels[v] = _read_state(
            graphs, pairs, s, tables, messages, labels, scores, v, on, left
        )
        a = graphs.variables[s] + v
        for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
            f = graphs.slot_factor[pairs.slots[q]]
            on[f - first] += labels[v]
            left[f - first] -= 1


@compiled
def decompose(graphs, pairs, s, unary, tables, climber, trial, labels, max_sweeps):
    """Write the best labelling found; returns its score and the upper bound.

    ``trial`` is scratch, one label a variable.
    """
    messages = make_messages(graphs, pairs, s, len(unary))
    n = graphs.variables[s + 1] - graphs.variables[s]
    bound = message_bound(graphs, pairs, s, unary, tables, messages)
    best = -np.inf
    waited = 0
    for sweep in range(max_sweeps):
        _sweep(graphs, pairs, s, tables, messages, True)
        _sweep(graphs, pairs, s, tables, messages, False)
        last = sweep + 1 == max_sweeps
        if (sweep + 1) % _CHECK_EVERY != 0 and sweep > 0 and not last:
            continue
        new = message_bound(graphs, pairs, s, unary, tables, messages)
        read_labels(graphs, pairs, s, tables, messages, climber.given, trial)
        climb(graphs, pairs, s, unary, tables, climber, trial, False)
        value = labelling_score(graphs, pairs, s, unary, tables, trial)
        improved = value > best
        if improved or sweep == 0:
            best = value
            labels[:n] = trial[:n]
        small = 1e-6 * (bound - best) + 1e-12 * abs(bound)
        waited = 0 if improved or new < bound - small else waited + 1
        bound = min(bound, new)
        if bound - best <= _PROVEN * max(1.0, abs(best)) or waited >= _PATIENCE:
            break
    climb(graphs, pairs, s, unary, tables, climber, labels, True)
    return labelling_score(graphs, pairs, s, unary, tables, labels), bound
