"""Soft agreement on factor graphs whose scores are given, such as those of a network.

The relaxed surrogate of a graph is the minimum over messages delta of

    S(delta) = sum_i max theta_i + sum_c max theta_c - score of the truth,
    theta_i = scores + loss + messages of its factors,   theta_c = scores - messages,

and every S(delta) is an upper bound on it. Beliefs of variables and factors, which need not agree,
are the dual variables: steps of an augmented Lagrangian, those of
:mod:`maxmargin.graphs.kernels.agreement` without the curvature of weights, move them towards the
maximiser of the relaxation, whose marginals are the gradient. Beliefs and multipliers are kept
between visits.
"""

from __future__ import annotations

import numpy as np

from .._kernels.jit import compiled, leaf
from ._soft_check import factors_value, variable_value
from ._soft_kernel import mix_example
from .kernels.agreement import Penalty, gather_messages, variable_step
from .kernels.visits import visit_factors


@leaf
def _visit_variables(data, states, beliefs, penalty, m, room):
    """Exact steps of all variables of an example."""
    graphs = data.graphs
    base = graphs.variables[graphs.shape[m]]
    for a in range(base, graphs.variables[graphs.shape[m] + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        v, first = graphs.first_variable[m] + a - base, graphs.first_state[m] + at
        theta, answer = room.values[:k], room.answer[:k]
        for j in range(k):
            theta[j] = states[at + j]
        held = gather_messages(graphs, beliefs, penalty.kappa, m, a, theta)
        belief = beliefs.variables[first : first + k]
        curvature = held * penalty.kappa
        variable_step(
            theta, belief, data.truth[v], data.costs[v], curvature, penalty, room.work, answer
        )
        for j in range(k):
            belief[j] = answer[j]


@leaf
def _variables_value(data, states, messages, max_min, m, room):
    """Sum of the maxima of the variables of an example, minus the score of the truth there."""
    graphs = data.graphs
    base = graphs.variables[graphs.shape[m]]
    total = 0.0
    for a in range(base, graphs.variables[graphs.shape[m] + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        v = graphs.first_variable[m] + a - base
        theta = room.values[:k]
        for j in range(k):
            cost = 0.0 if max_min or j == data.truth[v] else data.costs[v]
            theta[j] = states[at + j] + cost
        for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
            slot = graphs.first_message[m] + graphs.message_at[graphs.held[h]]
            for j in range(k):
                theta[j] += messages[slot + j]
        total += variable_value(graphs, theta, data.costs[v], max_min, 0.0, room)
        total -= states[at + data.truth[v]]
    return total


@leaf
def _deviation(values):
    """Standard deviation; 0 if there are no values."""
    n, total, square = values.shape[0], 0.0, 0.0
    for k in range(n):
        total += values[k] / n
    for k in range(n):
        square += (values[k] - total) ** 2 / n
    return np.sqrt(square)


@compiled
def agree(data, states, tables, beliefs, stiffness, messages, upper, first, last, room):
    """Rounds of steps on the examples from first to last; ``upper`` receives S at their messages.

    ``states`` and ``tables`` are the scores of all examples, ``messages`` scratch for all. The
    kappa of an example is that of ``stiffness`` times a cost plus the deviation of the scores.
    """
    graphs = data.graphs
    for m in range(first, last):
        own = states[graphs.first_state[m] : graphs.first_state[m + 1]]
        begin, end = graphs.first_entry[m], graphs.first_entry[m + 1]
        entries = tables[begin:end].reshape(1, end - begin)
        spread = _deviation(own) + _deviation(tables[begin:end])
        kappa = stiffness.kappa * (data.costs[graphs.first_variable[m]] + spread)
        penalty = Penalty(
            kappa,
            stiffness.sigma,
            stiffness.max_min,
            stiffness.exact,
            stiffness.augmented,
            stiffness.rounds,
        )
        for _ in range(stiffness.rounds):
            _visit_variables(data, own, beliefs, penalty, m, room)
            visit_factors(graphs, data, beliefs, entries, penalty, m, False, room)
        mix_example(graphs, beliefs, penalty.kappa, 1.0, m, messages)
        value = _variables_value(data, own, messages, penalty.max_min, m, room)
        upper[m] = value + factors_value(graphs, data, entries, messages, 0.0, m, room)
