"""The compiled pass of soft agreement: visits to the variables and factors of each graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import leaf, seldom
from .._kernels.protocol import add_row, score_rows
from .._kernels.team import wait_for_all
from ..solvers._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree
from .graph import COUNT, TABLE
from .kernels.agreement import (
    Beliefs,
    factor_row,
    gather_messages,
    is_short,
    variable_step,
)
from .kernels.ranges import (
    AHEAD,
    GAP,
    RESIDUAL,
    SQUARE,
    WANTS_SUMS,
    count_ranges,
    gather_ranges,
    own_ranges,
    publish,
    range_ends,
    take_sums,
    total_of,
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
def _has_sums(data, penalty, m):
    """Whether messages to the variables come as sums over ranges of factors."""
    graphs = data.graphs
    return (
        graphs.binary_pairs[graphs.shape[m]] > 0 and penalty.exact and data.features.shape[1] == 1
    )


@leaf
def _visit_variables(data, weights, beliefs, penalty, m, r, room):
    """Steps of the variables in round r, those of the share of a thread, one row of features after
    another; ``gaps`` of the scratch receives their gaps.

    Variables of one row use different columns of the weights, so they do not depend on each other,
    and the weights change once per row. If there is only one row, its scores are updated from round
    to round.
    """
    graphs = data.graphs
    rows = data.rows
    truth, costs, scale, matrix = data.truth, data.costs, data.scales[m], weights.unary
    s = graphs.shape[m]
    base = graphs.variables[s]
    end = min(base + room.share.last_variable, graphs.variables[s + 1])
    one_row = graphs.first_row[m + 1] - graphs.first_row[m] == 1
    has_sums = _has_sums(data, penalty, m)
    first_column = room.share.first_column
    a = base + room.share.first_variable
    while a < end:
        row = graphs.first_row[m] + graphs.row_step[a]
        square = scale * rows.squares[row]
        if not one_row or r == 0:
            score_rows(rows, matrix, row, row + 1, room.scores)
        scores = room.scores[0]
        if not one_row or r == 0:
            for j in range(room.change.shape[0]):
                room.change[j] = 0.0
        step = graphs.row_step[a]
        while a < end and graphs.row_step[a] == step:
            k, column = graphs.n_states[a], graphs.column[a] - first_column
            at = graphs.first_state[m] + graphs.state_at[a]
            v = graphs.first_variable[m] + a - base
            belief = beliefs.variables[at : at + k]
            theta, answer = room.values[:k], room.answer[:k]
            scored = graphs.scored_from[a]
            for j in range(k):
                theta[j] = scores[column + j] if j >= scored else 0.0
            if has_sums:
                held = graphs.held_at[a + 1] - graphs.held_at[a]
                take_sums(room, belief, penalty.kappa, a - base, held, theta)
            else:
                held = gather_messages(graphs, beliefs, penalty.kappa, m, a, theta)
            # A binary variable moves by (-t, t): half as much curvature without weights of state 0.
            curvature = held * penalty.kappa
            if scored < k:
                curvature += square - 0.5 * scored * square
            gap = variable_step(
                theta, belief, truth[v], costs[v], curvature, penalty, room.work, answer
            )
            if r == 0:
                room.gaps[a - base] = gap
            for j in range(k):
                move = answer[j] - belief[j]
                belief[j] = answer[j]
                if j >= scored:
                    room.change[column + j] += move
                    scores[column + j] -= square * move
            a += 1
        if not one_row:
            add_row(rows, matrix, row, room.change, -scale)


@leaf
def _step_factors(data, weights, beliefs, penalty, m, r, ahead, room):
    """Steps of the factors in round r, and, after the last steps of the variables of one row, the
    change of its weights; those of the share of a thread.

    Every other thread does it in the other order: weights of two threads are in the same line of
    the cache where their columns meet.
    """
    graphs = data.graphs
    first_row = graphs.first_row[m]
    last = r == penalty.rounds - 1
    room.plan[AHEAD] = ahead if last else 0
    room.plan[WANTS_SUMS] = 0 if last else 1
    adds = graphs.first_row[m + 1] - first_row == 1 and last
    for part in range(2):
        if part != room.share.number % 2:
            visit_factors(graphs, data, beliefs, weights.factor, penalty, m, r == 0, room)
        elif adds:
            add_row(data.rows, weights.unary, first_row, room.change, -data.scales[m])


@leaf
def _mix_slots(graphs, beliefs, kappa, share, m, mean, begin, end):
    """``mean += share * (messages - mean)`` for some slots of an example; ``|messages|^2``."""
    base = graphs.variables[graphs.shape[m]]
    total = 0.0
    for z in range(begin, end):
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
def mix_example(graphs, beliefs, kappa, share, m, mean):
    """``mean += share * (messages - mean)`` for one example; returns ``|messages|^2``."""
    s = graphs.shape[m]
    begin, end = graphs.scope_at[graphs.factors[s]], graphs.scope_at[graphs.factors[s + 1]]
    return _mix_slots(graphs, beliefs, kappa, share, m, mean, begin, end)


@leaf
def _mix_ranges(graphs, beliefs, kappa, mean, m, room):
    """The same for own ranges of factors; ``found`` receives the squares."""
    s = graphs.shape[m]
    first_factor, n_ranges = graphs.factors[s], count_ranges(graphs, s)
    low, high = own_ranges(room.share, n_ranges)
    for g in range(low, high):
        first, last = range_ends(graphs, s, n_ranges, g)
        begin, end = graphs.scope_at[first_factor + first], graphs.scope_at[first_factor + last]
        room.parts[g, SQUARE] = _mix_slots(
            graphs, beliefs, kappa, mean.share, m, mean.messages, begin, end
        )
    publish(room, n_ranges, SQUARE, SQUARE + 1)


@leaf
def _gap_of_variables(graphs, m, room):
    total = 0.0
    for v in range(graphs.first_variable[m + 1] - graphs.first_variable[m]):
        total += room.gaps[v]
    return total


@leaf
def _write_results(progress, mean, m, gap, room):
    """Results of a visit, by the leader; ``gap`` is the sum over the variables."""
    found, n_threads = room.found, room.share.n_threads
    progress.gaps[m] = gap + total_of(found, n_threads, GAP)
    progress.residuals[m] = total_of(found, n_threads, RESIDUAL)
    if mean.share > 0.0:
        progress.squares[m] = total_of(found, n_threads, SQUARE)


@leaf
def soft_steps(data, weights, beliefs, penalty, visits, progress, mean, room):
    """Visit the examples in ``visits.order``, or, with ``draws``, one example drawn per number.

    A visit is some rounds over the variables and factors of the example; with an augmented penalty
    multipliers are updated after each round. With a share the mean of the messages is updated
    during the visit.

    Several threads can share all visits (see :mod:`.kernels.ranges`), unless examples are drawn.
    They wait for each other between the steps of variables and of factors. The leader writes the
    results of a visit when all have come to the next one.
    """
    graphs = data.graphs
    number, n_threads = room.share.number, room.share.n_threads
    before, gap, phase = -1, 0.0, 0
    for count in range(visits.order.shape[0]):
        m = visits.order[count]
        if visits.tree.shape[0] > 0:
            m = draw_from_sum_tree(visits.tree, visits.draws[count])
        if data.scales[m] == 0.0:
            if number == 0:
                progress.gaps[m] = 0.0
                progress.residuals[m] = 0.0
            continue
        ahead = 0
        if count + 1 < visits.order.shape[0]:
            ahead = graphs.first_message[visits.order[count + 1]] - graphs.first_message[m]
        if _has_sums(data, penalty, m):
            gather_ranges(graphs, beliefs, penalty.kappa, m, room)
        phase += 1
        if not wait_for_all(room.counters, number, n_threads, phase):
            return
        if before >= 0 and number == 0:
            _write_results(progress, mean, before, gap, room)
        for r in range(penalty.rounds):
            if r > 0:
                phase += 1
                if not wait_for_all(room.counters, number, n_threads, phase):
                    return
            _visit_variables(data, weights, beliefs, penalty, m, r, room)
            phase += 1
            if not wait_for_all(room.counters, number, n_threads, phase):
                return
            if r == 0 and number == 0:
                gap = _gap_of_variables(graphs, m, room)
            _step_factors(data, weights, beliefs, penalty, m, r, ahead, room)
        if mean.share > 0.0:
            _mix_ranges(graphs, beliefs, penalty.kappa, mean, m, room)
        before = m
        if visits.tree.shape[0] > 0:
            _write_results(progress, mean, m, gap, room)
            set_in_sum_tree(visits.tree, m, progress.gaps[m] * data.scales[m])
    phase += 1
    if wait_for_all(room.counters, number, n_threads, phase) and before >= 0 and number == 0:
        _write_results(progress, mean, before, gap, room)


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
