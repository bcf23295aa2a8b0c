"""True values on factor graphs: the primal at any messages, the soft dual at any beliefs."""

from __future__ import annotations

import numpy as np

from .._kernels.jit import implements, leaf, seldom
from .._kernels.protocol import score_rows
from .._kernels.simplex import clipped_difference, project
from ._soft_kernel import mix_example, true_entry
from .graph import COUNT, TABLE, TREE, BinaryGraphs, Graphs, PairGraphs
from .kernels.agreement import (
    entry_weight,
    factor_row,
    max_min_value,
    score_factor,
    subtract_messages,
)
from .kernels.global_factors import best_count, best_in_tree
from .kernels.potts import best_potts


@leaf
@seldom
def write_messages(graphs, beliefs, kappa, out):
    """Messages of all slots."""
    for m in range(graphs.shape.shape[0]):
        s = graphs.shape[m]
        base = graphs.variables[s]
        for z in range(graphs.scope_at[graphs.factors[s]], graphs.scope_at[graphs.factors[s + 1]]):
            a = base + graphs.scope[z]
            at = graphs.first_message[m] + graphs.message_at[z]
            own = graphs.first_state[m] + graphs.state_at[a]
            for j in range(graphs.n_states[a]):
                off = beliefs.implied[at + j] - beliefs.variables[own + j]
                out[at + j] = beliefs.eta[at + j] + kappa * off


@leaf
@seldom
def mix_messages(graphs, beliefs, kappa, share, mean, squares, first, last):
    """``mean += share * (messages - mean)`` for a range of examples; ``squares`` gets the squared
    norms of the messages."""
    for m in range(first, last):
        squares[m] = mix_example(graphs, beliefs, kappa, share, m, mean)


def slots_of_states(graphs):
    """Number of factors that contain the variable of each state."""
    held = np.repeat(np.diff(graphs.held_at), graphs.n_states).astype(float)
    ends = np.concatenate([[0], np.cumsum(graphs.n_states, dtype=np.int64)])[graphs.variables]
    return np.concatenate([held[ends[s] : ends[s + 1]] for s in graphs.shape])


@leaf
def _smooth_maximum(values, sigma, scaled, work, answer):
    """``max_b values @ b - sigma/2 |b|^2`` over the simplex; the plain maximum if sigma is 0."""
    n = values.shape[0]
    top = values[0]
    for j in range(1, n):
        top = max(top, values[j])
    if sigma == 0.0:
        return top
    for j in range(n):
        scaled[j] = (values[j] - top) / sigma
    project(scaled, work, 1.0, answer)
    total = top
    for j in range(n):
        total += (values[j] - top) * answer[j] - 0.5 * sigma * answer[j] * answer[j]
    return total


@leaf
def _smooth_max_min(theta, cost, sigma, work, answer):
    """``max_b cost * (1 - max b) + theta @ b - sigma/2 |b|^2`` over the simplex."""
    k = theta.shape[0]
    top = theta[0]
    for j in range(1, k):
        top = max(top, theta[j])
    for j in range(k):
        theta[j] -= top
    clipped_difference(theta, work, sigma, cost, answer)
    total, largest = top + cost, 0.0
    for j in range(k):
        total += theta[j] * answer[j] - 0.5 * sigma * answer[j] * answer[j]
        largest = max(largest, answer[j])
    return total - cost * largest


def variable_value(graphs, theta, cost, max_min, sigma, room):
    """Maximum of the block of a variable; ``theta`` includes the loss unless it is max-min."""


@implements(variable_value, (PairGraphs, BinaryGraphs))
def _plain_variable_value(graphs, theta, cost, max_min, sigma, room):
    if max_min and cost > 0.0:
        return max_min_value(theta, cost, room.work)
    top = theta[0]
    for j in range(1, theta.shape[0]):
        top = max(top, theta[j])
    return top


@implements(variable_value, Graphs)
def _any_variable_value(graphs, theta, cost, max_min, sigma, room):
    k = theta.shape[0]
    if max_min and sigma > 0.0 and cost > 0.0:
        return _smooth_max_min(theta, cost, sigma, room.work, room.answer[:k])
    if max_min and cost > 0.0:
        return max_min_value(theta, cost, room.work)
    return _smooth_maximum(theta, sigma, room.theta[:k], room.work, room.answer[:k])


@leaf
@seldom
def evaluate_graphs(data, weights, messages, max_min, sigma, ends, sums, room):
    """Sums over the examples from ``ends[0]`` to ``ends[1]``:
    ``[sum s_m S_m, sum s_m |delta_m|^2]``.

    S_m is the surrogate of the relaxed problem at these weights and messages: an upper bound on its
    value at the best messages.
    """
    graphs, rows = data.graphs, data.rows  # here, because each mention of a NamedTuple is a copy
    truth, costs = data.truth, data.costs
    sums[:] = 0.0
    for m in range(ends[0], ends[1]):
        if data.sample_weight[m] == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        shift = graphs.first_message[m]
        total = 0.0
        before = -1
        for a in range(base, end):
            row = graphs.first_row[m] + graphs.row_step[a]
            if row != before:
                score_rows(rows, weights.unary, row, row + 1, room.scores)
                before = row
            k, column = graphs.n_states[a], graphs.column[a]
            v = graphs.first_variable[m] + a - base
            theta = room.values[:k]
            for j in range(k):
                theta[j] = room.scores[0, column + j] if j >= graphs.scored_from[a] else 0.0
            total -= theta[truth[v]]
            for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
                at = shift + graphs.message_at[graphs.held[h]]
                for j in range(k):
                    theta[j] += messages[at + j]
            if not max_min:
                for j in range(k):
                    if j != truth[v]:
                        theta[j] += costs[v]
            total += variable_value(graphs, theta, costs[v], max_min, sigma, room)
        total += factors_value(graphs, data, weights.factor, messages, sigma, m, room)
        square = 0.0
        for at in range(shift, graphs.first_message[m + 1]):
            square += messages[at] * messages[at]
        sums[0] += data.sample_weight[m] * total
        sums[1] += data.sample_weight[m] * square


def factors_value(graphs, data, weights, messages, sigma, m, room):
    """Sum of the maxima of all factors of an example, minus the score of the truth there."""


@implements(factors_value, BinaryGraphs)
def _binary_value(graphs, data, weights, messages, sigma, m, room):
    return _binary_pairs_maxima(graphs, data.truth, messages, weights, m)


@implements(factors_value, PairGraphs)
def _pairs_value(graphs, data, weights, messages, sigma, m, room):
    s = graphs.shape[m]
    base, shift = graphs.variables[s], graphs.first_message[m]
    total = 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        z = graphs.scope_at[f]
        k = graphs.n_states[base + graphs.scope[z]]
        q = graphs.n_states[base + graphs.scope[z + 1]]
        at, next_at = shift + graphs.message_at[z], shift + graphs.message_at[z + 1]
        left, right = messages[at : at + k], messages[next_at : next_at + q]
        if graphs.potts[f]:
            total += _potts_value(graphs, data.features, data.truth, weights, m, f, left, right)
            continue
        score_factor(graphs, data.features, weights, m, f, room.columns, room.table)
        total -= room.table[true_entry(graphs, data.truth, m, f)]
        best = -np.inf
        for a in range(k):
            for b in range(q):
                best = max(best, room.table[a * q + b] - left[a] - right[b])
        total += best
    return total


@implements(factors_value, Graphs)
def _any_value(graphs, data, weights, messages, sigma, m, room):
    s = graphs.shape[m]
    truth = data.truth
    if sigma == 0.0 and graphs.binary_pairs[s] and data.features.shape[1] == 1:
        return _binary_pairs_maxima(graphs, truth, messages, weights, m)
    total = 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        begin, stop = graphs.scope_at[f], graphs.scope_at[f + 1]
        at = copy_messages(graphs, messages, m, f, room.delta)
        if graphs.kind[f] == COUNT:
            gain = room.node[: stop - begin]
            for r in range(stop - begin):
                gain[r] = room.delta[2 * r] - room.delta[2 * r + 1]
                total -= room.delta[2 * r]
            total += best_count(gain, graphs.low[f], graphs.high[f])
            continue
        if graphs.potts[f] and sigma == 0.0:
            left, right = room.delta[: at // 2], room.delta[at // 2 : at]
            total += _potts_value(graphs, data.features, truth, weights, m, f, left, right)
            continue
        score_factor(graphs, data.features, weights, m, f, room.columns, room.table)
        if graphs.kind[f] == TREE:
            total += best_in_tree(
                graphs, m, f, room.delta, room.table, room.node, room.pointer, room.places
            )
            for z in range(begin, stop):
                if graphs.parent[z] >= 0:
                    total -= room.table[_true_pair(graphs, truth, m, f, z)]
            continue
        total -= room.table[true_entry(graphs, truth, m, f)]
        size = graphs.n_entries[f]
        subtract_messages(graphs, m, f, room.delta, room.table, room.theta)
        total += _smooth_maximum(
            room.theta[:size], sigma, room.table[:size], room.work, room.answer[:size]
        )
    return total


@leaf
def copy_messages(graphs, messages, m, f, out):
    """Copy the messages of a factor, one variable after another; returns their number."""
    base = graphs.variables[graphs.shape[m]]
    at = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        place = graphs.first_message[m] + graphs.message_at[z]
        for j in range(graphs.n_states[base + graphs.scope[z]]):
            out[at] = messages[place + j]
            at += 1
    return at


@leaf
def _potts_value(graphs, features, truth, weights, m, f, left, right):
    """Maximum of a Potts table minus the score of the truth."""
    row = features[factor_row(graphs, m, f)]
    score = 0.0
    for p in range(row.shape[0]):
        score += row[p] * weights[p, graphs.factor_column[f]]
    at, z = graphs.first_variable[m], graphs.scope_at[f]
    same = truth[at + graphs.scope[z]] == truth[at + graphs.scope[z + 1]]
    return best_potts(score, left, right) - (score if same else 0.0)


@leaf
def _binary_pairs_maxima(graphs, truth, messages, factor_weights, m):
    """Maxima of all factors minus the scores of the truth, where all are tables of binary pairs."""
    s = graphs.shape[m]
    first_factor = graphs.factors[s]
    slots = graphs.scope_at[first_factor]
    variables = graphs.first_variable[m]
    w = factor_weights[0]
    total = 0.0
    for f in range(first_factor, graphs.factors[s + 1]):
        number = f - first_factor
        at = graphs.first_message[m] + 4 * number
        l0, l1, r0, r1 = messages[at], messages[at + 1], messages[at + 2], messages[at + 3]
        s0, s1 = entry_weight(graphs, w, f, 0), entry_weight(graphs, w, f, 1)
        s2, s3 = entry_weight(graphs, w, f, 2), entry_weight(graphs, w, f, 3)
        best = max(max(s0 - l0 - r0, s1 - l0 - r1), max(s2 - l1 - r0, s3 - l1 - r1))
        left = truth[variables + graphs.scope[slots + 2 * number]]
        right = truth[variables + graphs.scope[slots + 2 * number + 1]]
        total += best - entry_weight(graphs, w, f, 2 * left + right)
    return total


@leaf
def _true_pair(graphs, truth, m, f, z):
    base = graphs.variables[graphs.shape[m]]
    child = graphs.scope[z]
    parent = graphs.scope[graphs.scope_at[f] + graphs.parent[z]]
    at = graphs.first_variable[m]
    e = graphs.edge_entry[z] + truth[at + child] * graphs.n_states[base + parent]
    return e + truth[at + parent]


@leaf
def concave_part(graphs, beliefs, truth, costs, max_min, m):
    """``H_m`` of the variables' beliefs."""
    s = graphs.shape[m]
    base = graphs.variables[s]
    total = 0.0
    for a in range(base, graphs.variables[s + 1]):
        v = graphs.first_variable[m] + a - base
        at = graphs.first_state[m] + graphs.state_at[a]
        total += costs[v] * (
            1.0 - certain(beliefs[at : at + graphs.n_states[a]], truth[v], max_min)
        )
    return total


@leaf
def certain(belief, truth, max_min):
    """Mass without loss: of the truth, or of the best prediction."""
    if not max_min:
        return belief[truth]
    largest = belief[0]
    for j in range(1, belief.shape[0]):
        largest = max(largest, belief[j])
    return largest


@leaf
@seldom
def soft_dual_sums(graphs, beliefs, truth, costs, sample_weight, max_min, sigma, kappa, sums):
    """``[sum s_m (H_m - sigma/2 |mu|^2), sum s_m (|delta_m|^2 - |eta_m|^2)]``."""
    sums[:] = 0.0
    for m in range(graphs.shape.shape[0]):
        if sample_weight[m] == 0.0:
            continue
        s = graphs.shape[m]
        base = graphs.variables[s]
        total = concave_part(graphs, beliefs.variables, truth, costs, max_min, m)
        if sigma > 0.0:
            for at in range(graphs.first_state[m], graphs.first_state[m + 1]):
                total -= 0.5 * sigma * beliefs.variables[at] ** 2
            for f in range(graphs.factors[s], graphs.factors[s + 1]):
                if graphs.kind[f] == TABLE:
                    at = graphs.first_mass[m] + graphs.mass_at[f]
                    for e in range(graphs.n_entries[f]):
                        total -= 0.5 * sigma * beliefs.tables[at + e] ** 2
        square = 0.0
        for z in range(graphs.scope_at[graphs.factors[s]], graphs.scope_at[graphs.factors[s + 1]]):
            a = base + graphs.scope[z]
            at = graphs.first_message[m] + graphs.message_at[z]
            own = graphs.first_state[m] + graphs.state_at[a]
            for j in range(graphs.n_states[a]):
                eta = beliefs.eta[at + j]
                delta = eta + kappa * (beliefs.implied[at + j] - beliefs.variables[own + j])
                square += delta * delta - eta * eta
        sums[0] += sample_weight[m] * total
        sums[1] += sample_weight[m] * square
