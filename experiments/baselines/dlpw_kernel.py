"""The compiled pass of DLPW: messages by block minimisation, weights by stochastic gradients."""

from __future__ import annotations

import numpy as np

from experiments.baselines.lp_kernel import add_answer
from maxmargin._kernels.jit import compiled, leaf
from maxmargin.graphs._tighten_kernel import minimise_messages, score_example


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
    data, factors, alpha, rate, delay, temperature, sweeps, order, n_before, messages, weights,
    scale, room, answers,
):  # fmt: skip
    """Visit examples: some sweeps over their messages, then a gradient step of the weights.

    The weights are ``scale[0]`` times what is stored, so that shrinking them costs nothing.
    """
    graphs = data.graphs
    states, entries = answers.states, answers.entries
    for count in range(order.shape[0]):
        m = order[count]
        k = graphs.first_state[m + 1] - graphs.first_state[m]
        e = graphs.first_entry[m + 1] - graphs.first_entry[m]
        unary, tables = states[0, :k], entries[0, :e]
        score_example(data, weights, m, scale[0], room, unary, tables)
        for _ in range(sweeps):
            minimise_messages(graphs, m, unary, tables, messages, temperature, room)
        respond_to_messages(graphs, m, unary, tables, messages, temperature, room.places)
        share = min(0.5, rate / (n_before + count + delay))  # alpha times the step
        scale[0] *= 1.0 - share
        amount = share * factors[m] / (alpha * scale[0])
        add_answer(
            graphs, data.rows, data.features, data.truth, m, unary, tables, amount, weights.unary,
            weights.factor, room,
        )  # fmt: skip
