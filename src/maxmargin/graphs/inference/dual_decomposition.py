"""Dual decomposition: a decreasing upper bound, and labellings computed from its messages.

Block-coordinate descent in forward and backward sweeps over the variables: a variable collects the
max-marginals of all its factors, and divides the sum equally among the factors that are visited
later in the sweep. On pairs this is sequential tree-reweighted message passing (Kolmogorov 2006),
on larger tables its extension (Kolmogorov 2015). Counts send all their messages at once. No step
increases the bound.

Fixed points need not be optimal for the relaxation, but the bound is always valid.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import inner, leaf
from .messages import make_messages, message_bound, pair_best, pair_maxima
from .scores import add_pair, labelling_score
from .wholes import give_wholes, place_in_counts, read_wholes, take, take_wholes, update_counts

_CHECK_EVERY = 5  # forward and backward sweeps between two checks of the bound
_PATIENCE = 3  # checks without progress
_PROVEN = 1e-9


@leaf
def _visit(plan, s, tables, messages, v, forward):
    """Collect the maxima of all factors of v, and divide the belief among those visited later."""
    a = plan.variables[s] + v
    k, state_at = plan.n_states[a], plan.state_at[a]
    value, scratch = messages.value, messages.scratch
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        other = plan.second[p] if plan.first[p] == v else plan.first[p]
        # Messages of pairs with variables visited later were removed in the last sweep.
        if (other < v) == forward:
            # Not pair_best: passing it the whole plan takes longer than the maxima.
            first = plan.first[p] == v
            k_other = plan.n_states[plan.variables[s] + other]
            n_rows, n_columns = (k, k_other) if first else (k_other, k)
            at = messages.pair_at[p - plan.pairs[s]]
            table = tables[plan.entry[p] : plan.entry[p] + n_rows * n_columns]
            columns = value[at + n_rows : at + n_rows + n_columns]
            pair_maxima(table, value[at : at + n_rows], columns, first, scratch)
            take(messages, at if first else at + n_rows, state_at, k)
    take_wholes(plan, s, tables, messages, v)
    for state in range(k):
        scratch[state] = -messages.share[v] * messages.belief[state_at + state]
    for q in range(plan.near_at[a], plan.near_at[a + 1]):
        p = plan.near[q]
        first = plan.first[p] == v
        other = plan.second[p] if first else plan.first[p]
        if (other > v) == forward:
            at = messages.pair_at[p - plan.pairs[s]]
            if not first:
                at += plan.n_states[plan.variables[s] + other]
            take(messages, at, state_at, k)
    give_wholes(plan, s, messages, v, forward)


@leaf
def _sweep(plan, s, tables, messages, forward):
    n = plan.variables[s + 1] - plan.variables[s]
    for k in range(n):
        _visit(plan, s, tables, messages, k if forward else n - 1 - k, forward)
    update_counts(plan, s, messages)


@leaf
def _read_state(plan, s, tables, messages, labels, scores, v):
    """Best state of v, given those of the variables before it and the messages of the others."""
    a = plan.variables[s] + v
    k, state_at = plan.n_states[a], plan.state_at[a]
    first_pair = plan.pairs[s]
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
    read_wholes(plan, s, tables, messages, labels, scores, v)
    chosen = 0
    for state in range(k):
        if scores[state] > scores[chosen]:
            chosen = state
    return chosen


@leaf
def read_labels(plan, s, tables, messages, scores, labels):
    """Write a labelling: the best state of each variable in turn, given those before it."""
    first = plan.factors[s]
    for f in range(first, plan.factors[s + 1]):
        messages.counts[0, f - first] = 0
        messages.counts[1, f - first] = plan.scope_at[f + 1] - plan.scope_at[f]
    for v in range(plan.variables[s + 1] - plan.variables[s]):
        labels[v] = _read_state(plan, s, tables, messages, labels, scores, v)
        place_in_counts(plan, s, messages, v, labels[v])


@inner
def decompose(plan, s, unary, tables, scores, trial, labels, max_sweeps):
    """Write the best labelling found; returns its score and the upper bound.

    ``trial`` is scratch, one label per variable; ``scores`` too, one number per state.
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
