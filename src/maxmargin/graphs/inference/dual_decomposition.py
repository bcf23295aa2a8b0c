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

from ..._kernels.jit import inner, leaf
from ..graph import COUNT
from .messages import (
    is_inner,
    make_messages,
    message_bound,
    pair_best,
    pair_maxima,
    table_best,
    update_count,
)
from .scores import add_pair, add_table, labelling_score

_CHECK_EVERY = 5  # sweeps to and fro between two checks of the bound
_PATIENCE = 3  # checks without progress
_PROVEN = 1e-9


@leaf
def _take(value, at, belief, state_at, amount, k):
    """Move an amount of each state from a factor to its variable."""
    for state in range(k):
        value[at + state] += amount[state]
        belief[state_at + state] += amount[state]


@leaf
def _visit(plan, s, tables, messages, v, forward):
    """Gather the maxima of all factors of v, and share the belief among those still to come."""
    a = plan.variables[s] + v
    k, state_at = plan.n_states[a], plan.state_at[a]
    value, belief, scratch = messages.value, messages.belief, messages.scratch
    first_slot = plan.scope_at[plan.factors[s]]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        other = plan.second[p] if plan.first[p] == v else plan.first[p]
        # Pairs with variables still to come were emptied when the last sweep came by here.
        if (other < v) == forward:
            # Not pair_best: handing it the whole plan takes longer than the maxima.
            first = plan.first[p] == v
            k_other = plan.n_states[plan.variables[s] + other]
            n_rows, n_columns = (k, k_other) if first else (k_other, k)
            at = messages.pair_at[p - plan.pairs[s]]
            table = tables[plan.entry[p] : plan.entry[p] + n_rows * n_columns]
            columns = value[at + n_rows : at + n_rows + n_columns]
            pair_maxima(table, value[at : at + n_rows], columns, first, scratch)
            _take(value, at if first else at + n_rows, belief, state_at, scratch, k)
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        if plan.kind[plan.slot_factor[z]] != COUNT:
            at = table_best(plan, s, tables, messages, z, scratch)
            _take(value, at, belief, state_at, scratch, k)
    for state in range(k):
        scratch[state] = -messages.share[v] * belief[state_at + state]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        first = plan.first[p] == v
        other = plan.second[p] if first else plan.first[p]
        if (other > v) == forward:
            at = messages.pair_at[p - plan.pairs[s]]
            if not first:
                at += plan.n_states[plan.variables[s] + other]
            _take(value, at, belief, state_at, scratch, k)
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        f = plan.slot_factor[z]
        if plan.kind[f] != COUNT and is_inner(plan, f, v, forward):
            _take(value, messages.slot_at[z - first_slot], belief, state_at, scratch, k)


@inner
def _sweep(plan, s, tables, messages, forward):
    n = plan.variables[s + 1] - plan.variables[s]
    for k in range(n):
        _visit(plan, s, tables, messages, k if forward else n - 1 - k, forward)
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        if plan.kind[plan.whole[w]] == COUNT:
            update_count(plan, s, messages, plan.whole[w])


@leaf
def _allowed(plan, s, on, left, f, state):
    """Whether a COUNT can still be met if the next of its variables takes a state."""
    k = f - plan.factors[s]
    return on[k] + state <= plan.high[f] and on[k] + state + left[k] - 1 >= plan.low[f]


@leaf
def _is_last(plan, f, v):
    """Whether all other variables of a table come before v."""
    return not is_inner(plan, f, v, True)


@leaf
def _read_state(plan, s, tables, messages, labels, scores, v, on, left):
    """Best state of v, given those of the variables before it and the messages of the others."""
    a = plan.variables[s] + v
    k, state_at = plan.n_states[a], plan.state_at[a]
    first_pair, first_slot = plan.pairs[s], plan.scope_at[plan.factors[s]]
    for state in range(k):
        scores[state] = messages.belief[state_at + state]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        first = plan.first[p] == v
        other = plan.second[p] if first else plan.first[p]
        if other < v:
            add_pair(plan, s, tables, labels, v, p, scores)
            at = messages.pair_at[p - first_pair]
            at += 0 if first else plan.n_states[plan.variables[s] + other]
            for state in range(k):
                scores[state] -= messages.value[at + state]
        else:
            pair_best(plan, s, tables, messages, v, p, messages.scratch)
            for state in range(k):
                scores[state] += messages.scratch[state]
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        f = plan.slot_factor[z]
        at = messages.slot_at[z - first_slot]
        if plan.kind[f] == COUNT:
            scores[1] -= messages.value[at]
            for state in range(2):
                if not _allowed(plan, s, on, left, f, state):
                    scores[state] -= 1e300
        elif _is_last(plan, f, v):
            add_table(plan, s, tables, labels, z, scores)
            for state in range(k):
                scores[state] -= messages.value[at + state]
        else:
            table_best(plan, s, tables, messages, z, messages.scratch)
            for state in range(k):
                scores[state] += messages.scratch[state]
    chosen = 0
    for state in range(k):
        if scores[state] > scores[chosen]:
            chosen = state
    return chosen


@inner
def read_labels(plan, s, tables, messages, scores, labels):
    """Write a labelling: each variable in turn the best state, given those before it."""
    first = plan.factors[s]
    on = np.zeros(plan.factors[s + 1] - first, np.int64)
    left = np.zeros(plan.factors[s + 1] - first, np.int64)
    for f in range(first, plan.factors[s + 1]):
        left[f - first] = plan.scope_at[f + 1] - plan.scope_at[f]
    for v in range(plan.variables[s + 1] - plan.variables[s]):
        labels[v] = _read_state(plan, s, tables, messages, labels, scores, v, on, left)
        a = plan.variables[s] + v
        for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
            f = plan.slot_factor[plan.slots[q]]
            on[f - first] += labels[v]
            left[f - first] -= 1


@inner
def decompose(plan, s, unary, tables, scores, trial, labels, max_sweeps):
    """Write the best labelling found; returns its score and the upper bound.

    ``trial`` is scratch, one label a variable; ``scores`` too, one number a state of a variable.
    """
    messages = make_messages(plan, s, len(unary))
    n = plan.variables[s + 1] - plan.variables[s]
    bound = message_bound(plan, s, unary, tables, messages)
    best = -np.inf
    waited = 0
    for sweep in range(max_sweeps):
        _sweep(plan, s, tables, messages, True)
        _sweep(plan, s, tables, messages, False)
        last = sweep + 1 == max_sweeps
        if (sweep + 1) % _CHECK_EVERY != 0 and sweep > 0 and not last:
            continue
        new = message_bound(plan, s, unary, tables, messages)
        read_labels(plan, s, tables, messages, scores, trial)
        value = labelling_score(plan, s, unary, tables, trial)
        improved = value > best
        if improved or sweep == 0:
            best = value
            for v in range(n):
                labels[v] = trial[v]
        small = 1e-3 * (bound - best) + 1e-12 * abs(bound)
        waited = 0 if improved or new < bound - small else waited + 1
        bound = min(bound, new)
        if bound - best <= _PROVEN * max(1.0, abs(best)) or waited >= _PATIENCE:
            break
    return best, bound
