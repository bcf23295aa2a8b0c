"""Whole factors (counts, tables over three or more variables) and the messages of decoders.

Most graphs have none. These functions dispatch on the class of the plan, so that the code for whole
factors is compiled only where a graph has one. Their functions of labellings are in
:mod:`.whole_labels`.

Kernels take ``plan, s``; messages are those of :mod:`.messages`.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import implements, leaf
from ..._kernels.subsets import kth_largest, sum_of_largest
from ..graph import COUNT
from .plan import PairPlan, Plan
from .whole_labels import add_table

# --- interface ----------------------------------------------------------------------------------


def count_wholes(plan, a, v):
    """Whole factors of variable v, number a within all shapes: tables with variables after v, those
    with variables before it, and counts."""


def take_wholes(plan, s, tables, messages, v):
    """Move the maxima of all tables of v to its belief."""


def give_wholes(plan, s, messages, v, forward):
    """Move ``messages.scratch`` to the tables of v that are visited later in a sweep."""


def update_counts(plan, s, messages):
    """The best messages of each count, given the beliefs of its variables."""


def gather_wholes(plan, s, messages):
    """Add the messages of all whole factors to the beliefs."""


def bound_wholes(plan, s, tables, messages):
    """Sum of the maxima of all whole factors."""


def read_wholes(plan, s, tables, messages, labels, scores, v):
    """Add the scores of whole factors to the states of v, given the labels before v."""


def place_in_counts(plan, s, messages, v, label):
    """Update the counts of v by its label, after :func:`read_wholes`."""


# --- graphs of pairs only: nothing to do --------------------------------------------------------


@implements(count_wholes, PairPlan)
def _no_wholes(plan, a, v):
    return 0, 0, 0


@implements(take_wholes, PairPlan)
def _take_nothing(plan, s, tables, messages, v):
    return


@implements(give_wholes, PairPlan)
def _give_nothing(plan, s, messages, v, forward):
    return


@implements(update_counts, PairPlan)
@implements(gather_wholes, PairPlan)
def _without_messages(plan, s, messages):
    return


@implements(bound_wholes, PairPlan)
def _no_score(plan, s, tables, messages):
    return 0.0


@implements(read_wholes, PairPlan)
def _read_nothing(plan, s, tables, messages, labels, scores, v):
    return


@implements(place_in_counts, PairPlan)
def _place_nothing(plan, s, messages, v, label):
    return


# --- any graphs ---------------------------------------------------------------------------------


@leaf
def _is_inner(plan, f, v, forward):
    """Whether a factor has variables after v (forward) or before it."""
    for z in range(plan.scope_at[f], plan.scope_at[f + 1]):
        other = plan.scope[z]
        if (other > v) if forward else (other < v):
            return True
    return False


@implements(count_wholes, Plan)
def _count_wholes(plan, a, v):
    after, before, counts = 0, 0, 0
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        f = plan.slot_factor[plan.slots[q]]
        if plan.kind[f] == COUNT:
            counts += 1
        else:
            after += _is_inner(plan, f, v, True)
            before += _is_inner(plan, f, v, False)
    return after, before, counts


@leaf
def _table_best(plan, s, tables, messages, z, out):
    """Maxima of the rest of a table over the states of the other variables; returns the messages of
    slot z."""
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


@leaf
def take(messages, at, state_at, k):
    """Move ``messages.scratch``, one number per state, from a factor to its variable."""
    for state in range(k):
        messages.value[at + state] += messages.scratch[state]
        messages.belief[state_at + state] += messages.scratch[state]


@implements(take_wholes, Plan)
def _take_wholes(plan, s, tables, messages, v):
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        if plan.kind[plan.slot_factor[z]] != COUNT:
            at = _table_best(plan, s, tables, messages, z, messages.scratch)
            take(messages, at, plan.state_at[a], plan.n_states[a])


@implements(give_wholes, Plan)
def _give_wholes(plan, s, messages, v, forward):
    a = plan.variables[s] + v
    first_slot = plan.scope_at[plan.factors[s]]
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        f = plan.slot_factor[z]
        if plan.kind[f] != COUNT and _is_inner(plan, f, v, forward):
            at = messages.slot_at[z - first_slot]
            take(messages, at, plan.state_at[a], plan.n_states[a])


@leaf
def _update_count(plan, s, messages, f):
    """Collect the beliefs of the variables of a COUNT, find its threshold, and return half of it.

    With gains g and the threshold t between those that are on and off, any part of ``g - t`` may
    stay with the variables: the bound on the count and its variables is then at its minimum.
    """
    base = plan.variables[s]
    first_slot = plan.scope_at[plan.factors[s]]
    start, n = plan.scope_at[f], plan.scope_at[f + 1] - plan.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains, ordered = messages.gains[0, :n], messages.gains[1, :n]
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


@implements(update_counts, Plan)
def _update_counts(plan, s, messages):
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        if plan.kind[plan.whole[w]] == COUNT:
            _update_count(plan, s, messages, plan.whole[w])


@implements(gather_wholes, Plan)
def _gather_wholes(plan, s, messages):
    base = plan.variables[s]
    first_slot = plan.scope_at[plan.factors[s]]
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
def _count_best(plan, s, messages, f):
    """Best score of a COUNT, from its messages alone."""
    first_slot = plan.scope_at[plan.factors[s]]
    start, n = plan.scope_at[f], plan.scope_at[f + 1] - plan.scope_at[f]
    at = messages.slot_at[start - first_slot]
    gains = messages.gains[0, :n]
    n_positive = 0
    for k in range(n):
        gains[k] = -messages.value[at + k]  # messages are subtracted from the count
        n_positive += gains[k] > 0.0
    wanted = min(max(n_positive, plan.low[f]), plan.high[f])
    return sum_of_largest(gains, wanted, messages.gains[1]) if wanted > 0 else 0.0


@implements(bound_wholes, Plan)
def _bound_wholes(plan, s, tables, messages):
    base = plan.variables[s]
    total = 0.0
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] == COUNT:
            total += _count_best(plan, s, messages, f)
            continue
        z = plan.scope_at[f]
        _table_best(plan, s, tables, messages, z, messages.scratch)
        best = -np.inf
        for state in range(plan.n_states[base + plan.scope[z]]):
            best = max(best, messages.scratch[state])
        total += best
    return total


@leaf
def _allowed(plan, s, messages, f, state):
    """Whether a COUNT can still be satisfied if the next of its variables takes a state."""
    k = f - plan.factors[s]
    on, left = messages.counts[0, k], messages.counts[1, k]
    return on + state <= plan.high[f] and on + state + left - 1 >= plan.low[f]


@implements(read_wholes, Plan)
def _read_wholes(plan, s, tables, messages, labels, scores, v):
    a = plan.variables[s] + v
    k, first_slot = plan.n_states[a], plan.scope_at[plan.factors[s]]
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        z = plan.slots[q]
        f = plan.slot_factor[z]
        at = messages.slot_at[z - first_slot]
        if plan.kind[f] == COUNT:
            scores[1] -= messages.value[at]
            for state in range(2):
                if not _allowed(plan, s, messages, f, state):
                    scores[state] -= 1e300
        elif not _is_inner(plan, f, v, True):  # all its other variables have their labels
            add_table(plan, s, tables, labels, z, scores)
            for state in range(k):
                scores[state] -= messages.value[at + state]
        else:
            _table_best(plan, s, tables, messages, z, messages.scratch)
            for state in range(k):
                scores[state] += messages.scratch[state]


@implements(place_in_counts, Plan)
def _place_in_counts(plan, s, messages, v, label):
    a = plan.variables[s] + v
    for q in range(plan.slot_at[a], plan.slot_at[a + 1]):
        k = plan.slot_factor[plan.slots[q]] - plan.factors[s]
        messages.counts[0, k] += label
        messages.counts[1, k] -= 1
