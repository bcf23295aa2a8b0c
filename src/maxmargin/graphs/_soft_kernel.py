"""The compiled pass of soft agreement: visits to the variables and factors of each graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import leaf, seldom
from .._kernels.protocol import add_row, score_rows
from ..solvers._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree
from .graph import COUNT, TABLE
from .kernels.agreement import (
    Beliefs,
    factor_row,
    gather_messages,
    is_short,
    take_sums,
    variable_step,
)
from .kernels.visits import visit_factors
from .truth import set_true_beliefs


class Progress(NamedTuple):
    """Results of visits, per example: the sum of the gaps of the blocks in the first round, the
    squared disagreement, and the squared norm of the messages."""

    gaps: np.ndarray
    residuals: np.ndarray
    squares: np.ndarray


class MeanMessages(NamedTuple):
    """The mean of the messages so far, and the share of the next ones in it."""

    share: float
    messages: np.ndarray


@leaf
def _visit_variables(data, weights, beliefs, penalty, m, r, room):
    """Steps of all variables in round r, one row of features after another; returns the sum of
    their gaps.

    Variables of one row use different columns of the weights, so they do not depend on each other,
    and the weights change once per row. If there is only one row, its scores are updated from round
    to round.
    """
    graphs = data.graphs
    rows = data.rows
    truth, costs, scale, matrix = data.truth, data.costs, data.scales[m], weights.unary
    s = graphs.shape[m]
    base, end = graphs.variables[s], graphs.variables[s + 1]
    one_row = graphs.first_row[m + 1] - graphs.first_row[m] == 1
    known_sums = r > 0 and graphs.binary_pairs[s] and penalty.exact and data.features.shape[1] == 1
    total = 0.0
    a = base
    while a < end:
        row = graphs.first_row[m] + graphs.row_step[a]
        square = scale * rows.squares[row]
        if not one_row or r == 0:
            score_rows(rows, matrix, row, row + 1, room.scores)
        scores = room.scores[0]
        if not one_row or r == 0:
            for j in range(graphs.n_columns):
                room.change[j] = 0.0
        step = graphs.row_step[a]
        while a < end and graphs.row_step[a] == step:
            k, column = graphs.n_states[a], graphs.column[a]
            at = graphs.first_state[m] + graphs.state_at[a]
            v = graphs.first_variable[m] + a - base
            belief = beliefs.variables[at : at + k]
            theta, answer = room.values[:k], room.answer[:k]
            scored = graphs.scored_from[a]
            for j in range(k):
                theta[j] = scores[column + j] if j >= scored else 0.0
            if known_sums:
                held = take_sums(graphs, room.sums, belief, penalty.kappa, a, theta)
            else:
                held = gather_messages(graphs, beliefs, penalty.kappa, m, a, theta)
            # A binary variable moves by (-t, t): half as much curvature without weights of state 0.
            curvature = held * penalty.kappa
            if scored < k:
                curvature += square - 0.5 * scored * square
            total += variable_step(
                theta, belief, truth[v], costs[v], curvature, penalty, room.work, answer
            )
            for j in range(k):
                move = answer[j] - belief[j]
                belief[j] = answer[j]
                if j >= scored:
                    room.change[column + j] += move
                    scores[column + j] -= square * move
            a += 1
        if not one_row or r == penalty.rounds - 1:
            add_row(rows, matrix, row, room.change, -scale)
    return total


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


@leaf
def soft_steps(data, weights, beliefs, penalty, visits, progress, mean, room):
    """Visit the examples in ``visits.order``, or, with ``draws``, one example drawn per number.

    A visit is some rounds over the variables and factors of the example; with an augmented penalty
    multipliers are updated after each round. With a share the mean of the messages is updated
    during the visit.
    """
    graphs = data.graphs
    gaps = progress.gaps
    for count in range(visits.order.shape[0]):
        m = visits.order[count]
        if visits.tree.shape[0] > 0:
            m = draw_from_sum_tree(visits.tree, visits.draws[count])
        if data.scales[m] == 0.0:
            gaps[m] = 0.0
            progress.residuals[m] = 0.0
            continue
        for r in range(penalty.rounds):
            gap = _visit_variables(data, weights, beliefs, penalty, m, r, room)
            more, progress.residuals[m] = visit_factors(
                graphs, data, beliefs, weights.factor, penalty, m, r == 0, room
            )
            if r == 0:
                gaps[m] = gap + more
        if mean.share > 0.0:
            progress.squares[m] = mix_example(
                graphs, beliefs, penalty.kappa, mean.share, m, mean.messages
            )
        if visits.tree.shape[0] > 0:
            set_in_sum_tree(visits.tree, m, gaps[m] * data.scales[m])


@leaf
def add_off_truth(graphs, a, belief, state, change):
    """Add the true state of variable a minus its belief to ``change``, by columns."""
    first = graphs.scored_from[a]
    for j in range(first, graphs.n_states[a]):
        change[graphs.column[a] + j] -= belief[j]
    if state >= first:
        change[graphs.column[a] + state] += 1.0


@leaf
@seldom
def add_beliefs(data, weights, beliefs, change):
    """``w += sum_m scale_m Phi(x_m) (phi(y_m) - mu_m)``; ``change``: scratch, one per column."""
    graphs, rows = data.graphs, data.rows  # here, because each mention of a NamedTuple is a copy
    truth = data.truth
    for m in range(graphs.shape.shape[0]):
        scale = data.scales[m]
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
                state = truth[graphs.first_variable[m] + a - base]
                add_off_truth(graphs, a, beliefs.variables[at:], state, change)
                a += 1
            add_row(rows, weights.unary, graphs.first_row[m] + step, change, scale)
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            first = graphs.first_mass[m] + graphs.mass_at[f]
            if is_short(graphs, f):
                add_potts_block(
                    graphs, data.features, truth, weights.factor, scale, m, f, beliefs.tables[first]
                )
            elif graphs.kind[f] != COUNT:
                mass = beliefs.tables[first : first + graphs.n_entries[f]]
                add_factor_block(graphs, data.features, truth, weights.factor, scale, m, f, mass)


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
def true_entry(graphs, truth, m, f):
    """Entry of a table at the truth; of a table without weights any one, which scores 0."""
    if graphs.n_tied[f] == 0:
        return 0
    base = graphs.variables[graphs.shape[m]]
    e, size = 0, 1
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        a = graphs.scope[z]
        if size < graphs.n_entries[f]:  # a pair in a cluster has its joint state as third variable
            e = e * graphs.n_states[base + a] + truth[graphs.first_variable[m] + a]
            size *= graphs.n_states[base + a]
    return e


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
        e = true_entry(graphs, truth, m, f)
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
    set_true_beliefs(graphs, truth, beliefs)
    return beliefs
