"""Lower the primal value of a graph at fixed weights: block minimisation over its messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import implements, leaf
from .._kernels.protocol import score_rows
from ._soft_check import _true_pair
from ._soft_kernel import true_entry
from .graph import COUNT, TABLE, BinaryGraphs, Graphs, PairGraphs
from .kernels.agreement import score_factor


@leaf
def score_example(data, weights, m, shrink, room, unary, tables):
    """Write the scores of an example, of ``shrink`` times the weights, with the loss added.

    Returns the score of the truth.
    """
    graphs = data.graphs
    truth, costs = data.truth, data.costs
    s = graphs.shape[m]
    base = graphs.variables[s]
    right = 0.0
    before = -1
    for a in range(base, graphs.variables[s + 1]):
        step = graphs.row_step[a]
        if step != before:
            row = graphs.first_row[m] + step
            score_rows(data.rows, weights.unary, row, row + 1, room.scores)
            before = step
        v = graphs.first_variable[m] + a - base
        at, column = graphs.state_at[a], graphs.column[a]
        for j in range(graphs.n_states[a]):
            unary[at + j] = costs[v]
            if j >= graphs.scored_from[a]:
                unary[at + j] += shrink * room.scores[0, column + j]
        unary[at + truth[v]] -= costs[v]
        right += unary[at + truth[v]]
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if graphs.kind[f] == COUNT:
            continue
        at, size = graphs.entry_at[f], graphs.n_entries[f]
        table = tables[at : at + size]
        score_factor(graphs, data.features, weights.factor, m, f, room.columns, table)
        if shrink != 1.0:
            for e in range(size):
                table[e] *= shrink
        if graphs.kind[f] == TABLE:
            right += table[true_entry(graphs, truth, m, f)]
            continue
        for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
            if graphs.parent[z] >= 0:
                right += table[_true_pair(graphs, truth, m, f, z)]
    return right


class Answers(NamedTuple):
    """Scores and answers of an example for states and tables: two rows each."""

    states: np.ndarray
    entries: np.ndarray


def make_answers(graphs) -> Answers:
    """Arrays for the largest example."""
    states = int(np.diff(graphs.first_state).max(initial=1))
    entries = int(np.diff(graphs.first_entry).max(initial=1))
    return Answers(np.empty((2, states)), np.empty((2, entries)))


@leaf
def _soft_maximum(values, n, temperature):
    """Maximum, or ``temperature * log sum exp(values / temperature)``."""
    top = values[0]
    for j in range(1, n):
        top = max(top, values[j])
    if temperature == 0.0:
        return top
    total = 0.0
    for j in range(n):
        total += np.exp((values[j] - top) / temperature)
    return top + temperature * np.log(total)


@leaf
def _best_of_other_potts(score, messages, out):
    """``max_b score [b = j] - messages_b``: at the lowest message, or at ``b = j``."""
    lowest, second, place = np.inf, np.inf, 0
    for b in range(messages.shape[0]):
        if messages[b] < lowest:
            second = lowest
            lowest = messages[b]
            place = b
        else:
            second = min(second, messages[b])
    for j in range(messages.shape[0]):
        out[j] = max(score - messages[j], -second if j == place else -lowest)


def best_of_others(graphs, m, z, table, messages, temperature, room):
    """Write, for each state of slot z, the maximum of a table minus all messages but those of z to
    the field ``answer`` of the scratch."""


@implements(best_of_others, (PairGraphs, BinaryGraphs))
def _best_of_pair_graphs(graphs, m, z, table, messages, temperature, room):
    _best_of_pair(graphs, m, z, table, messages, temperature, room)


@leaf
def _best_of_pair(graphs, m, z, table, messages, temperature, room):
    f = graphs.slot_factor[z]
    base, start = graphs.variables[graphs.shape[m]], graphs.first_message[m]
    begin = graphs.scope_at[f]
    k = graphs.n_states[base + graphs.scope[z]]
    work, out = room.work, room.answer
    other = 2 * begin + 1 - z
    at = start + graphs.message_at[other]
    n = graphs.n_states[base + graphs.scope[other]]
    if graphs.potts[f] and temperature == 0.0:
        _best_of_other_potts(table[0], messages[at : at + n], out[:n])
        return
    for j in range(k):
        for b in range(n):
            entry = j * n + b if z == begin else b * k + j
            work[b] = table[entry] - messages[at + b]
        out[j] = _soft_maximum(work, n, temperature)


@implements(best_of_others, Graphs)
def _best_of_any(graphs, m, z, table, messages, temperature, room):
    f = graphs.slot_factor[z]
    base, start = graphs.variables[graphs.shape[m]], graphs.first_message[m]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    if end - begin == 2:
        _best_of_pair(graphs, m, z, table, messages, temperature, room)
        return
    k = graphs.n_states[base + graphs.scope[z]]
    work, out = room.work, room.answer
    size = graphs.n_entries[f]
    for j in range(k):
        out[j] = -np.inf
    for sweep in range(1 if temperature == 0.0 else 2):
        for j in range(k):
            work[k + j] = 0.0
        for e in range(size):
            value = table[e]
            for y in range(begin, end):
                if y != z:
                    state = graphs.maps[graphs.map_at[y] + e]
                    value -= messages[start + graphs.message_at[y] + state]
            j = graphs.maps[graphs.map_at[z] + e]
            if sweep == 0:
                out[j] = max(out[j], value)
            else:
                work[k + j] += np.exp((value - out[j]) / temperature)
    if temperature > 0.0:
        for j in range(k):
            out[j] += temperature * np.log(work[k + j])


@leaf
def minimise_messages(graphs, m, unary, tables, messages, temperature, room):
    """One sweep: for each variable the best messages of all its factors, with the others fixed.

    With ``best_c`` the maxima of a factor over its other variables, ``unary + sum_c best_c`` is
    divided equally among the variable and its N factors.
    """
    s = graphs.shape[m]
    start = graphs.first_message[m]
    best, total = room.answer, room.values
    for a in range(graphs.variables[s], graphs.variables[s + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        begin, end = graphs.held_at[a], graphs.held_at[a + 1]
        for j in range(k):
            total[j] = unary[at + j]
        for h in range(begin, end):
            z = graphs.held[h]
            first = graphs.entry_at[graphs.slot_factor[z]]
            table = tables[first : first + graphs.n_entries[graphs.slot_factor[z]]]
            best_of_others(graphs, m, z, table, messages, temperature, room)
            place = start + graphs.message_at[z]
            for j in range(k):
                messages[place + j] = best[j]
                total[j] += best[j]
        for h in range(begin, end):
            place = start + graphs.message_at[graphs.held[h]]
            for j in range(k):
                messages[place + j] -= total[j] / (1.0 + end - begin)


@leaf
def tighten_messages(data, weights, messages, sweeps, ends, room, answers):
    """Lower the primal value at fixed weights: some sweeps over the messages of some examples."""
    graphs = data.graphs
    for m in range(ends[0], ends[1]):
        if data.sample_weight[m] == 0.0:
            continue
        unary = answers.states[0, : graphs.first_state[m + 1] - graphs.first_state[m]]
        tables = answers.entries[0, : graphs.first_entry[m + 1] - graphs.first_entry[m]]
        score_example(data, weights, m, 1.0, room, unary, tables)
        for _ in range(sweeps):
            minimise_messages(graphs, m, unary, tables, messages, 0.0, room)
