"""The compiled pass of soft agreement: visits to the variables and factors of each graph."""

from __future__ import annotations

import numpy as np

from .._kernels.jit import compiled, inner, leaf, seldom
from .._kernels.protocol import add_row, score_rows
from ..solvers._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree
from .graph import COUNT, TABLE
from .kernels.agreement import (
    Beliefs,
    Room,
    factor_row,
    gather_messages,
    move_multipliers,
    table_step,
    take_sums,
    variable_step,
)
from .kernels.binary_pairs import binary_pairs_step
from .kernels.global_factors import count_step, frank_wolfe_factor
from .kernels.pair_tables import pair_table_step
from .kernels.potts import potts_step

# Moves within a table end when one gains less than this share of the first, or after so many.
_ENOUGH = 0.3
_MOST_MOVES = 10


@inner
def make_room(graphs):
    """Scratch for the largest variable and factor."""
    k, entries, columns, messages, arity = 1, 1, 1, 8, 1
    for a in range(graphs.n_states.shape[0]):
        k = max(k, graphs.n_states[a])
    for f in range(graphs.kind.shape[0]):
        entries = max(entries, graphs.n_entries[f])
        columns = max(columns, graphs.n_tied[f])
        size = graphs.scope_at[f + 1] - graphs.scope_at[f]
        arity = max(arity, size)
    messages = max(messages, arity * k)
    states = 1
    for m in range(graphs.shape.shape[0]):
        states = max(states, graphs.first_state[m + 1] - graphs.first_state[m])
    return Room(
        np.empty((1, graphs.n_columns)),
        np.zeros(graphs.n_columns),
        np.empty(k),
        np.empty(2 * k),
        np.empty(k),
        np.empty(entries),
        np.empty(entries),
        np.empty(columns + 1),
        np.empty(entries + 1, np.int32),
        np.empty(messages),
        np.empty(messages),
        np.empty(messages, np.int32),
        np.empty(arity, np.int32),
        np.empty(states),
    )


@leaf
def is_short(graphs, f):
    """Whether of a factor only the mass on equal states is kept."""
    return graphs.potts[f] and graphs.n_mass[f] == 1


@compiled
@seldom
def true_beliefs(graphs, truth, beliefs):
    """All mass on the true states."""
    for m in range(graphs.shape.shape[0]):
        s = graphs.shape[m]
        base = graphs.variables[s]
        at = graphs.first_variable[m] - base
        for a in range(base, graphs.variables[s + 1]):
            beliefs.variables[graphs.first_state[m] + graphs.state_at[a] + truth[at + a]] = 1.0
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
            e = 0
            for z in range(begin, end):
                a = base + graphs.scope[z]
                place = graphs.first_message[m] + graphs.message_at[z]
                beliefs.implied[place + truth[at + a]] = 1.0
                e = e * graphs.n_states[a] + truth[at + a]
            first = graphs.first_mass[m] + graphs.mass_at[f]
            if is_short(graphs, f):
                first_state = truth[at + base + graphs.scope[begin]]
                second_state = truth[at + base + graphs.scope[begin + 1]]
                beliefs.tables[first] = 1.0 if first_state == second_state else 0.0
            elif graphs.kind[f] == TABLE:
                beliefs.tables[first + e] = 1.0
            elif graphs.kind[f] != COUNT:
                for z in range(begin, end):
                    if graphs.parent[z] >= 0:
                        child = truth[at + base + graphs.scope[z]]
                        parent = base + graphs.scope[begin + graphs.parent[z]]
                        pair = child * graphs.n_states[parent] + truth[at + parent]
                        beliefs.tables[first + graphs.edge_entry[z] + pair] = 1.0


@leaf
def _visit_variables(
    graphs, rows, beliefs, matrix, truth, costs, scale, penalty, m, first_round, last_round,
    plain, room,
):  # fmt: skip
    """Steps of all variables, one row of features after another; returns the sum of their gaps.

    Variables of one row use different columns of the weights, so they do not see each other, and
    the weights change once a row. While only one row is in play its scores are kept up to date
    from round to round.
    """
    s = graphs.shape[m]
    base, end = graphs.variables[s], graphs.variables[s + 1]
    one_row = graphs.first_row[m + 1] - graphs.first_row[m] == 1
    known_sums = not first_round and graphs.binary_pairs[s] and penalty.exact and plain
    total = 0.0
    a = base
    while a < end:
        row = graphs.first_row[m] + graphs.row_step[a]
        square = rows.squares[row]
        if not one_row or first_round:
            score_rows(rows, matrix, row, row + 1, room.scores)
        scores = room.scores[0]
        if not one_row or first_round:
            for j in range(graphs.n_columns):
                room.change[j] = 0.0
        step = graphs.row_step[a]
        while a < end and graphs.row_step[a] == step:
            k, column = graphs.n_states[a], graphs.column[a]
            at = graphs.first_state[m] + graphs.state_at[a]
            v = graphs.first_variable[m] + a - base
            belief = beliefs.variables[at : at + k]
            theta, answer = room.values[:k], room.answer[:k]
            for j in range(k):
                theta[j] = scores[column + j]
            if known_sums:
                held = take_sums(graphs, room.sums, belief, penalty.kappa, a, theta)
            else:
                held = gather_messages(graphs, beliefs, penalty.kappa, m, a, theta)
            curvature = scale * square + held * penalty.kappa
            total += variable_step(
                theta, belief, truth[v], costs[v], curvature, penalty, room.work, answer
            )
            for j in range(k):
                move = answer[j] - belief[j]
                belief[j] = answer[j]
                room.change[column + j] += move
                scores[column + j] -= scale * square * move
            a += 1
        if not one_row or last_round:
            add_row(rows, matrix, row, room.change, -scale)
    return total


@leaf
def _visit_factors(
    graphs, features, beliefs, weights, scale, penalty, augmented, m, wants_gap, room
):
    """Steps of all factors of an example; returns the sum of gaps and the squared disagreement.

    Gaps may be left out where ``wants_gap`` is false.
    """
    s = graphs.shape[m]
    if graphs.binary_pairs[s] and penalty.exact and features.shape[1] == 1:
        return binary_pairs_step(
            graphs, beliefs, weights, scale, penalty, augmented, m, _MOST_MOVES, _ENOUGH,
            room.sums[: graphs.first_state[m + 1] - graphs.first_state[m]], room.delta,
        )  # fmt: skip
    total, residual = 0.0, 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if is_short(graphs, f):
            gap, apart = potts_step(
                graphs, features, beliefs, weights, scale, penalty, augmented, m, f, wants_gap, room
            )
            total += gap
            residual += apart
            continue
        if graphs.kind[f] == COUNT:
            total += count_step(graphs, beliefs, penalty, m, f, room)
        elif graphs.kind[f] != TABLE or not penalty.exact:
            total += frank_wolfe_factor(
                graphs, features, beliefs, weights, scale, penalty, m, f, room
            )
        elif penalty.sigma == 0.0 and graphs.scope_at[f + 1] - graphs.scope_at[f] == 2:
            total += pair_table_step(
                graphs, features, beliefs, weights, scale, penalty, m, f, _MOST_MOVES, _ENOUGH, room
            )
        else:
            total += table_step(
                graphs, features, beliefs, weights, scale, penalty, m, f, _MOST_MOVES, _ENOUGH, room
            )
        if augmented:
            residual += move_multipliers(graphs, beliefs, penalty.kappa, m, f)
    return total, residual


@leaf
def mix_example(graphs, beliefs, kappa, share, m, mean):
    """``mean += share * (messages - mean)`` for one example; returns ``|messages|^2``."""
    s = graphs.shape[m]
    base = graphs.variables[s]
    total = 0.0
    for z in range(graphs.scope_at[graphs.factors[s]], graphs.scope_at[graphs.factors[s + 1]]):
        a = base + graphs.scope[z]
        at = graphs.first_message[m] + graphs.message_at[z]
        own = graphs.first_state[m] + graphs.state_at[a]
        for j in range(graphs.n_states[a]):
            off = beliefs.implied[at + j] - beliefs.variables[own + j]
            now = beliefs.eta[at + j] + kappa * off
            mean[at + j] += share * (now - mean[at + j])
            total += now * now
    return total


@compiled
def soft_steps(
    graphs, rows, features, truth, costs, scales, penalty, rounds, augmented, order, draws, tree,
    gaps, residuals, matrix, factor_weights, beliefs, share, mean, squares,
):  # fmt: skip
    """Visit the examples in ``order``, or as many that the numbers in ``draws`` draw.

    A visit is some ``rounds`` over the variables and factors of the example; with ``augmented``
    multipliers move after each of them. ``gaps[m]`` gets the sum of the blocks' gaps in the first
    round, ``residuals[m]`` the squared disagreement. With a ``share`` the messages are mixed into
    their ``mean`` while they are at hand, and ``squares[m]`` gets their squared norm.
    """
    room = make_room(graphs)
    for count in range(order.shape[0]):
        m = order[count]
        if tree.shape[0] > 0:
            m = draw_from_sum_tree(tree, draws[count])
        scale = scales[m]
        if scale == 0.0:
            gaps[m] = 0.0
            residuals[m] = 0.0
            continue
        for r in range(rounds):
            gap = _visit_variables(
                graphs, rows, beliefs, matrix, truth, costs, scale, penalty, m, r == 0,
                r == rounds - 1, features.shape[1] == 1, room,
            )  # fmt: skip
            more, residuals[m] = _visit_factors(
                graphs, features, beliefs, factor_weights, scale, penalty, augmented, m, r == 0,
                room,
            )  # fmt: skip
            if r == 0:
                gaps[m] = gap + more
        if share > 0.0:
            squares[m] = mix_example(graphs, beliefs, penalty.kappa, share, m, mean)
        if tree.shape[0] > 0:
            set_in_sum_tree(tree, m, gaps[m] * scale)


@compiled
@seldom
def add_beliefs(graphs, rows, features, truth, scales, beliefs, matrix, factor_weights):
    """``w += sum_m scale_m Phi(x_m) (phi(y_m) - mu_m)``."""
    change = np.zeros(graphs.n_columns)
    for m in range(graphs.shape.shape[0]):
        scale = scales[m]
        if scale == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        a = base
        while a < end:
            step = graphs.row_step[a]
            change[:] = 0.0
            while a < end and graphs.row_step[a] == step:
                at = graphs.first_state[m] + graphs.state_at[a]
                for j in range(graphs.n_states[a]):
                    change[graphs.column[a] + j] -= beliefs.variables[at + j]
                change[graphs.column[a] + truth[graphs.first_variable[m] + a - base]] += 1.0
                a += 1
            add_row(rows, matrix, graphs.first_row[m] + step, change, scale)
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            first = graphs.first_mass[m] + graphs.mass_at[f]
            if is_short(graphs, f):
                add_potts_block(
                    graphs, features, truth, factor_weights, scale, m, f, beliefs.tables[first]
                )
            elif graphs.kind[f] != COUNT:
                mass = beliefs.tables[first : first + graphs.n_entries[f]]
                add_factor_block(graphs, features, truth, factor_weights, scale, m, f, mass)


@leaf
def add_potts_block(graphs, features, truth, factor_weights, scale, m, f, mass):
    """The same as :func:`add_factor_block` for the mass on equal states of a Potts table."""
    variables, z = graphs.first_variable[m], graphs.scope_at[f]
    same = truth[variables + graphs.scope[z]] == truth[variables + graphs.scope[z + 1]]
    amount = scale * ((1.0 if same else 0.0) - mass)
    row = features[factor_row(graphs, m, f)]
    for p in range(row.shape[0]):
        factor_weights[p, graphs.factor_column[f]] += amount * row[p]


@leaf
def add_factor_block(graphs, features, truth, factor_weights, scale, m, f, mass):
    """``w += scale * Phi_f (phi_f(y) - mass)`` for one factor."""
    step = graphs.factor_step[f]
    row = features[graphs.first_factor_row[m] + step if step > 0 else 0]
    first, tie_at = graphs.factor_column[f], graphs.tie_at[f]
    for e in range(graphs.n_entries[f]):
        if mass[e] != 0.0:
            tie = e if tie_at < 0 else graphs.ties[tie_at + e]
            if tie >= 0:
                for p in range(row.shape[0]):
                    factor_weights[p, first + tie] -= scale * mass[e] * row[p]
    base = graphs.variables[graphs.shape[m]]
    at = graphs.first_variable[m]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    if graphs.kind[f] == TABLE:
        e = 0
        for z in range(begin, end):
            a = graphs.scope[z]
            e = e * graphs.n_states[base + a] + truth[at + a]
        tie = e if tie_at < 0 else graphs.ties[tie_at + e]
        if tie >= 0:
            for p in range(row.shape[0]):
                factor_weights[p, first + tie] += scale * row[p]
        return
    for z in range(begin, end):
        if graphs.parent[z] >= 0:
            child, parent = graphs.scope[z], graphs.scope[begin + graphs.parent[z]]
            e = graphs.edge_entry[z] + truth[at + child] * graphs.n_states[base + parent]
            e += truth[at + parent]
            tie = e if tie_at < 0 else graphs.ties[tie_at + e]
            if tie >= 0:
                for p in range(row.shape[0]):
                    factor_weights[p, first + tie] += scale * row[p]


def start_beliefs(graphs, truth) -> Beliefs:
    """Beliefs at the truth, multipliers zero."""
    n_messages = int(graphs.first_message[-1])
    beliefs = Beliefs(
        np.zeros(int(graphs.first_state[-1])),
        np.zeros(int(graphs.first_mass[-1])),
        np.zeros(n_messages),
        np.zeros(n_messages),
    )
    true_beliefs(graphs, truth, beliefs)
    return beliefs
