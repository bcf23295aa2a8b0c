"""Compiled parts of the methods that answer a whole example by one linear program.

An *answer* is a point of the local polytope of an example: marginals of its states, and of the
entries of its tables.
"""

from __future__ import annotations

import numpy as np

from maxmargin._kernels.jit import compiled, leaf
from maxmargin._kernels.protocol import add_row, clear_rows, score_rows
from maxmargin.graphs._soft_check import concave_part
from maxmargin.graphs._soft_kernel import add_factor_block
from maxmargin.graphs._tighten_kernel import score_example
from maxmargin.graphs.graph import COUNT
from maxmargin.graphs.inference.max_flow import make_network
from maxmargin.graphs.inference.roof_duality import (
    half_labels,
    half_pair,
    half_score,
    largest_shape,
)
from maxmargin.graphs.kernels.agreement import add_to_factor
from maxmargin.solvers._bcfw_kernel import weight_of


@leaf
def write_marginals(plan, s, tables, halves, unary_out, tables_out):
    """Marginals of the states and the tables of an example from those of its variables."""
    base = plan.variables[s]
    for v in range(plan.variables[s + 1] - base):
        at = plan.state_at[base + v]
        unary_out[at + 1] = 0.5 * halves[v]
        unary_out[at] = 1.0 - unary_out[at + 1]
    for q in range(plan.singles[s], plan.singles[s + 1]):
        at, half = plan.single_entry[q], 0.5 * halves[plan.single[q]]
        tables_out[at] = 1.0 - half
        tables_out[at + 1] = half
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        at = plan.entry[p]
        found = half_pair(
            tables[at], tables[at + 1], tables[at + 2], tables[at + 3],
            halves[plan.first[p]], halves[plan.second[p]],
        )  # fmt: skip
        for k in range(4):
            tables_out[at + k] = found[k]


@leaf
def relax_example(plan, s, unary, tables, fixed, net, halves, unary_out, tables_out):
    """Optimum of the relaxation of one example; returns its value. The oracle of a solver."""
    half_labels(plan, s, unary, tables, fixed, net, halves)
    write_marginals(plan, s, tables, halves, unary_out, tables_out)
    return half_score(plan, s, unary, tables, halves)


@leaf
def _gather_row(graphs, s, a, unary, change):
    """Sum the values of all variables from ``a`` on that have its row, by column of the weights.

    Returns the first variable that has another row.
    """
    step = graphs.row_step[a]
    for j in range(graphs.n_columns):
        change[j] = 0.0
    while a < graphs.variables[s + 1] and graphs.row_step[a] == step:
        at, column = graphs.state_at[a], graphs.column[a]
        for j in range(graphs.scored_from[a], graphs.n_states[a]):
            change[column + j] += unary[at + j]
        a += 1
    return a


@leaf
def add_direction(
    graphs, rows, features, m, unary, tables, amount, matrix, factor_weights, room
):  # fmt: skip
    """``w += amount * Phi(direction)``."""
    s = graphs.shape[m]
    a = graphs.variables[s]
    while a < graphs.variables[s + 1]:
        row = graphs.first_row[m] + graphs.row_step[a]
        a = _gather_row(graphs, s, a, unary, room.change)
        add_row(rows, matrix, row, room.change, amount)
    add_tables(graphs, features, m, tables, amount, factor_weights)


@leaf
def add_tables(graphs, features, m, tables, amount, factor_weights):
    """The part of the factors of ``w += amount * Phi(direction)``."""
    s = graphs.shape[m]
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        at = graphs.entry_at[f]
        for e in range(graphs.n_entries[f]):
            if tables[at + e] != 0.0:
                add_to_factor(graphs, features, factor_weights, m, f, e, amount * tables[at + e])


@leaf
def squared_features(graphs, rows, features, m, unary, tables, matrix, factor_weights, room):
    """``|Phi(direction)|^2``; the scratch weights are zero before and after."""
    s = graphs.shape[m]
    total = 0.0
    first, last = graphs.first_row[m], graphs.first_row[m + 1]
    a = graphs.variables[s]
    while a < graphs.variables[s + 1]:
        row = first + graphs.row_step[a]
        a = _gather_row(graphs, s, a, unary, room.change)
        if last - first == 1:
            for j in range(graphs.n_columns):
                total += rows.squares[row] * room.change[j] * room.change[j]
        else:
            add_row(rows, matrix, row, room.change, 1.0)
    if last - first > 1:
        a = graphs.variables[s]
        while a < graphs.variables[s + 1]:
            row = first + graphs.row_step[a]
            a = _gather_row(graphs, s, a, unary, room.change)
            score_rows(rows, matrix, row, row + 1, room.scores)
            for j in range(graphs.n_columns):
                total += room.scores[0, j] * room.change[j]
        clear_rows(rows, matrix, first, last)
    add_tables(graphs, features, m, tables, 1.0, factor_weights)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        begin = graphs.factor_column[f]
        for column in range(begin, begin + graphs.n_tied[f]):
            for p in range(features.shape[1]):
                total += factor_weights[p, column] * factor_weights[p, column]
                factor_weights[p, column] = 0.0
    return total


@leaf
def step_towards(
    graphs, rows, features, scale, m, scores, score_tables, answer, answer_tables, mine,
    mine_tables, matrix, factor_weights, mean, mean_factors, before, spare, spare_factors, room,
):  # fmt: skip
    """Exact step from an example's marginals towards the answer, which becomes the direction.

    ``mean`` (empty if not wanted) gets ``before`` times the change of the weights. Returns the
    gap of the block.
    """
    gap = 0.0
    for k in range(answer.shape[0]):
        answer[k] -= mine[k]
        gap += answer[k] * scores[k]
    for e in range(answer_tables.shape[0]):
        answer_tables[e] -= mine_tables[e]
        gap += answer_tables[e] * score_tables[e]
    if gap <= 0.0:
        return gap
    curvature = scale * squared_features(
        graphs, rows, features, m, answer, answer_tables, spare, spare_factors, room
    )
    step = gap / curvature if curvature > gap else 1.0
    for k in range(answer.shape[0]):
        mine[k] += step * answer[k]
    for e in range(answer_tables.shape[0]):
        mine_tables[e] += step * answer_tables[e]
    amount = -scale * step
    add_direction(
        graphs, rows, features, m, answer, answer_tables, amount, matrix, factor_weights, room
    )
    if mean.shape[0] > 0:
        add_direction(
            graphs, rows, features, m, answer, answer_tables, amount * before, mean, mean_factors,
            room,
        )  # fmt: skip
    return gap


@leaf
def add_answer(
    graphs, rows, features, truth, m, unary, tables, amount, matrix, factor_weights, room
):
    """``w += amount * Phi(truth - answer)``."""
    s = graphs.shape[m]
    base = graphs.variables[s]
    a = base
    while a < graphs.variables[s + 1]:
        begin = a
        a = _gather_row(graphs, s, a, unary, room.change)
        for b in range(begin, a):
            state = truth[graphs.first_variable[m] + b - base]
            if state >= graphs.scored_from[b]:
                room.change[graphs.column[b] + state] -= 1.0
        row = graphs.first_row[m] + graphs.row_step[begin]
        add_row(rows, matrix, row, room.change, -amount)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if graphs.kind[f] != COUNT:
            at = graphs.entry_at[f]
            mass = tables[at : at + graphs.n_entries[f]]
            add_factor_block(graphs, features, truth, factor_weights, amount, m, f, mass)


@leaf
def answer_loss(graphs, answer, truth, costs, m):
    """Expected loss of an answer."""
    s = graphs.shape[m]
    base = graphs.variables[s]
    total = 0.0
    for a in range(base, graphs.variables[s + 1]):
        v = graphs.first_variable[m] + a - base
        total += costs[v] * (1.0 - answer[graphs.state_at[a] + truth[v]])
    return total


@compiled
def total_loss(graphs, variables, truth, costs, sample_weight):
    """``sum_m s_m H_m`` of the marginals of all states."""
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        total += sample_weight[m] * concave_part(graphs, variables, truth, costs, False, m)
    return total


@compiled
def roof_values(data, plan, weights, first, last, values, room, answers):
    """Maxima of the relaxation minus the score of the truth, of examples ``first`` to ``last``."""
    graphs = data.graphs
    states, entries = answers.states, answers.entries
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    for m in range(first, last):
        k = graphs.first_state[m + 1] - graphs.first_state[m]
        e = graphs.first_entry[m + 1] - graphs.first_entry[m]
        right = score_example(data, weights, m, 1.0, room, states[0, :k], entries[0, :e])
        values[m] = -right + relax_example(
            plan, graphs.shape[m], states[0, :k], entries[0, :e], fixed, net, halves,
            states[1, :k], entries[1, :e],
        )  # fmt: skip


@compiled
def roof_steps(
    data, plan, order, gaps, weights, variables, tables, mean, power, mass, n_before, spare, room,
    answers,
):  # fmt: skip
    """Visit the examples in ``order``: ask for the optimum of the relaxation, and step to it."""
    graphs = data.graphs
    scales = data.scales
    states, entries = answers.states, answers.entries
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    for count in range(order.shape[0]):
        m = order[count]
        before = mass[0]
        mass[0] += weight_of(n_before + count + 1.0, power)
        if scales[m] == 0.0:
            continue
        first, last = graphs.first_state[m], graphs.first_state[m + 1]
        begin, end = graphs.first_entry[m], graphs.first_entry[m + 1]
        k, e = last - first, end - begin
        score_example(data, weights, m, 1.0, room, states[0, :k], entries[0, :e])
        relax_example(
            plan, graphs.shape[m], states[0, :k], entries[0, :e], fixed, net, halves,
            states[1, :k], entries[1, :e],
        )  # fmt: skip
        gaps[m] = step_towards(
            graphs, data.rows, data.features, scales[m], m, states[0, :k], entries[0, :e],
            states[1, :k], entries[1, :e], variables[first:last], tables[begin:end], weights.unary,
            weights.factor, mean.unary, mean.factor, before, spare.unary, spare.factor, room,
        )  # fmt: skip


@compiled
def roof_subgradient_steps(
    data, plan, factors, alpha, order, n_before, weights, late, room, answers
):
    """Add the subgradients of the examples in ``order``; returns the sum of the answers' losses.

    ``w_t = sums / (alpha t)``; ``late`` gets ``t - 1`` times the change at step t.
    """
    graphs = data.graphs
    rows = data.rows
    features, truth, costs = data.features, data.truth, data.costs
    states, entries = answers.states, answers.entries
    n_variables, n_pairs = largest_shape(plan)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    total = 0.0
    for count in range(order.shape[0]):
        m, t = order[count], n_before + count
        if factors[m] == 0.0:
            continue
        k = graphs.first_state[m + 1] - graphs.first_state[m]
        e = graphs.first_entry[m + 1] - graphs.first_entry[m]
        shrink = 1.0 / (alpha * t) if t > 0 else 0.0
        score_example(data, weights, m, shrink, room, states[0, :k], entries[0, :e])
        answer, answer_tables = states[1, :k], entries[1, :e]
        relax_example(
            plan, graphs.shape[m], states[0, :k], entries[0, :e], fixed, net, halves, answer,
            answer_tables,
        )  # fmt: skip
        total += factors[m] * answer_loss(graphs, answer, truth, costs, m)
        add_answer(
            graphs, rows, features, truth, m, answer, answer_tables, factors[m],
            weights.unary, weights.factor, room,
        )  # fmt: skip
        add_answer(
            graphs, rows, features, truth, m, answer, answer_tables, factors[m] * t,
            late.unary, late.factor, room,
        )  # fmt: skip
    return total
