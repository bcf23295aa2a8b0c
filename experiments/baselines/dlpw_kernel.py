"""The compiled pass of DLPW: messages by block minimisation, weights by stochastic gradients."""

from __future__ import annotations

import numpy as np

from experiments.baselines.lp_kernel import add_answer, make_answers, score_example
from maxmargin._kernels.jit import compiled, leaf
from maxmargin.graphs._soft_kernel import make_room


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
    """``max_b score [b = j] - messages_b``: the lowest message, or the own one with the score."""
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


@leaf
def _best_of_others(graphs, m, z, table, messages, temperature, work, places, out):
    """Maxima of a table minus all messages but those of slot z, over the states of z."""
    f = graphs.slot_factor[z]
    base, start = graphs.variables[graphs.shape[m]], graphs.first_message[m]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    k = graphs.n_states[base + graphs.scope[z]]
    if end - begin == 2:
        other = begin + end - 1 - z
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
        return
    size = graphs.n_entries[f]
    for y in range(begin, end):
        places[y - begin] = 0
    for j in range(k):
        out[j] = -np.inf
    for sweep in range(1 if temperature == 0.0 else 2):
        for j in range(k):
            work[k + j] = 0.0
        for e in range(size):
            value = table[e]
            for y in range(begin, end):
                if y != z:
                    value -= messages[start + graphs.message_at[y] + places[y - begin]]
            j = places[z - begin]
            if sweep == 0:
                out[j] = max(out[j], value)
            else:
                work[k + j] += np.exp((value - out[j]) / temperature)
            for y in range(end - 1, begin - 1, -1):
                places[y - begin] += 1
                if places[y - begin] < graphs.n_states[base + graphs.scope[y]]:
                    break
                places[y - begin] = 0
    if temperature > 0.0:
        for j in range(k):
            out[j] += temperature * np.log(work[k + j])


@leaf
def minimise_messages(graphs, m, unary, tables, messages, temperature, work, best, total, places):
    """One sweep: for each variable the best messages of all its factors, the others fixed.

    With ``best_c`` the maxima of a factor over its other variables, the variable and its N factors
    share ``unary + sum_c best_c`` equally.
    """
    s = graphs.shape[m]
    start = graphs.first_message[m]
    for a in range(graphs.variables[s], graphs.variables[s + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        begin, end = graphs.held_at[a], graphs.held_at[a + 1]
        for j in range(k):
            total[j] = unary[at + j]
        for h in range(begin, end):
            z = graphs.held[h]
            first = graphs.entry_at[graphs.slot_factor[z]]
            table = tables[first : first + graphs.n_entries[graphs.slot_factor[z]]]
            _best_of_others(graphs, m, z, table, messages, temperature, work, places, best)
            place = start + graphs.message_at[z]
            for j in range(k):
                messages[place + j] = best[j]
                total[j] += best[j]
        for h in range(begin, end):
            place = start + graphs.message_at[graphs.held[h]]
            for j in range(k):
                messages[place + j] -= total[j] / (1.0 + end - begin)


@leaf
def _respond(values, temperature):
    """Replace values by their best, or soft-max, distribution."""
    n = values.shape[0]
    top = 0
    for j in range(n):
        if values[j] > values[top]:
            top = j
    if temperature == 0.0:
        for j in range(n):
            values[j] = 0.0
        values[top] = 1.0
        return
    highest, total = values[top], 0.0
    for j in range(n):
        values[j] = np.exp((values[j] - highest) / temperature)
        total += values[j]
    for j in range(n):
        values[j] /= total


@leaf
def respond_to_messages(graphs, m, unary, tables, messages, temperature, places):
    """Replace the scores of an example by the distributions of all its variables and factors."""
    s = graphs.shape[m]
    base, start = graphs.variables[s], graphs.first_message[m]
    for a in range(base, graphs.variables[s + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
            place = start + graphs.message_at[graphs.held[h]]
            for j in range(k):
                unary[at + j] += messages[place + j]
        _respond(unary[at : at + k], temperature)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
        first, size = graphs.entry_at[f], graphs.n_entries[f]
        for y in range(begin, end):
            places[y - begin] = 0
        for e in range(size):
            for y in range(begin, end):
                tables[first + e] -= messages[start + graphs.message_at[y] + places[y - begin]]
            for y in range(end - 1, begin - 1, -1):
                places[y - begin] += 1
                if places[y - begin] < graphs.n_states[base + graphs.scope[y]]:
                    break
                places[y - begin] = 0
        _respond(tables[first : first + size], temperature)


@compiled
def dlpw_steps(
    graphs, rows, features, truth, costs, factors, alpha, rate, delay, temperature, sweeps, order,
    n_before, messages, matrix, factor_weights, scale,
):  # fmt: skip
    """Visit examples: some sweeps over their messages, then a gradient step of the weights.

    The weights are ``scale[0]`` times what is stored, so that shrinking them costs nothing.
    """
    room = make_room(graphs)
    states, entries = make_answers(graphs)
    most = room.values.shape[0]
    work, best, total = np.empty(2 * most), np.empty(most), np.empty(most)
    for count in range(order.shape[0]):
        m = order[count]
        k = graphs.first_state[m + 1] - graphs.first_state[m]
        e = graphs.first_entry[m + 1] - graphs.first_entry[m]
        unary, tables = states[0, :k], entries[0, :e]
        score_example(
            graphs, rows, features, truth, costs, matrix, factor_weights, m, scale[0], room, unary,
            tables,
        )  # fmt: skip
        for _ in range(sweeps):
            minimise_messages(
                graphs, m, unary, tables, messages, temperature, work, best, total, room.places
            )
        respond_to_messages(graphs, m, unary, tables, messages, temperature, room.places)
        share = min(0.5, rate / (n_before + count + delay))  # alpha times the step
        scale[0] *= 1.0 - share
        amount = share * factors[m] / (alpha * scale[0])
        add_answer(
            graphs, rows, features, truth, m, unary, tables, amount, matrix, factor_weights, room
        )


@compiled
def tighten_messages(
    graphs, rows, features, truth, costs, sample_weight, matrix, factor_weights, sweeps, first,
    last, messages,
):  # fmt: skip
    """Lower the primal value at fixed weights: some sweeps over the messages of some examples."""
    room = make_room(graphs)
    states, entries = make_answers(graphs)
    most = room.values.shape[0]
    work, best, total = np.empty(2 * most), np.empty(most), np.empty(most)
    for m in range(first, last):
        if sample_weight[m] == 0.0:
            continue
        unary = states[0, : graphs.first_state[m + 1] - graphs.first_state[m]]
        tables = entries[0, : graphs.first_entry[m + 1] - graphs.first_entry[m]]
        score_example(
            graphs, rows, features, truth, costs, matrix, factor_weights, m, 1.0, room, unary,
            tables,
        )  # fmt: skip
        for _ in range(sweeps):
            minimise_messages(
                graphs, m, unary, tables, messages, 0.0, work, best, total, room.places
            )
