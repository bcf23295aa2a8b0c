"""True values on factor graphs: the primal at any messages, the dual at repaired beliefs."""

from __future__ import annotations

import numpy as np

from .._kernels.agreement import (
    max_min_value,
    score_factor,
    subtract_messages,
)
from .._kernels.global_factors import best_count, best_in_tree
from .._kernels.jit import compiled, leaf
from .._kernels.protocol import add_row, score_rows
from .._kernels.simplex import project
from ..structures.graph import COUNT, TABLE, TREE
from ._soft_kernel import add_factor_block, make_room


@compiled
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


@compiled
def mix_messages(graphs, beliefs, kappa, share, mean):
    """``mean += share * (messages - mean)``; returns the squared norm of the messages."""
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        s = graphs.shape[m]
        base = graphs.variables[s]
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
def slots_of_states(graphs, out):
    """Number of factors that hold the variable of each state."""
    for m in range(graphs.shape.shape[0]):
        s = graphs.shape[m]
        for a in range(graphs.variables[s], graphs.variables[s + 1]):
            at = graphs.first_state[m] + graphs.state_at[a]
            for j in range(graphs.n_states[a]):
                out[at + j] = graphs.held_at[a + 1] - graphs.held_at[a]


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


@compiled
def evaluate_graphs(
    graphs, rows, features, truth, costs, sample_weight, max_min, sigma, messages, matrix,
    factor_weights, first, last, sums,
):  # fmt: skip
    """Sums over some examples: ``[sum s_m S_m, sum s_m |delta_m|^2]``.

    S_m is the surrogate of the relaxed problem at these weights and messages: an upper bound of its
    value at the best messages.
    """
    room = make_room(graphs)
    size = max(room.table.shape[0], room.values.shape[0])
    scaled, answer, work = np.empty(size), np.empty(size), np.empty(2 * size)
    sums[:] = 0.0
    for m in range(first, last):
        if sample_weight[m] == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        shift = graphs.first_message[m]
        total = 0.0
        before = -1
        for a in range(base, end):
            row = graphs.first_row[m] + graphs.row_step[a]
            if row != before:
                score_rows(rows, matrix, row, row + 1, room.scores)
                before = row
            k, column = graphs.n_states[a], graphs.column[a]
            v = graphs.first_variable[m] + a - base
            theta = room.values[:k]
            for j in range(k):
                theta[j] = room.scores[0, column + j]
            total -= theta[truth[v]]
            for h in range(graphs.held_at[a], graphs.held_at[a + 1]):
                at = shift + graphs.message_at[graphs.held[h]]
                for j in range(k):
                    theta[j] += messages[at + j]
            if max_min:
                total += max_min_value(theta, costs[v], work)
            else:
                for j in range(k):
                    if j != truth[v]:
                        theta[j] += costs[v]
                total += _smooth_maximum(theta, sigma, scaled[:k], work, answer[:k])
        if sigma == 0.0 and graphs.binary_pairs[s] and features.shape[1] == 1:
            total += _binary_pairs_maxima(graphs, truth, messages, factor_weights, m)
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            if sigma == 0.0 and graphs.binary_pairs[s] and features.shape[1] == 1:
                break
            begin, stop = graphs.scope_at[f], graphs.scope_at[f + 1]
            at = 0
            for z in range(begin, stop):
                place = shift + graphs.message_at[z]
                for j in range(graphs.n_states[base + graphs.scope[z]]):
                    room.delta[at] = messages[place + j]
                    at += 1
            if graphs.kind[f] == COUNT:
                gain = room.node[: stop - begin]
                for r in range(stop - begin):
                    gain[r] = room.delta[2 * r] - room.delta[2 * r + 1]
                    total -= room.delta[2 * r]
                total += best_count(gain, graphs.low[f], graphs.high[f])
                continue
            score_factor(graphs, features, factor_weights, m, f, room.columns, room.table)
            if graphs.kind[f] == TREE:
                total += best_in_tree(
                    graphs, m, f, room.delta, room.table, room.node, room.pointer, room.places
                )
                for z in range(begin, stop):
                    if graphs.parent[z] >= 0:
                        total -= room.table[_true_pair(graphs, truth, m, f, z)]
                continue
            e = _true_entry(graphs, truth, m, f)
            total -= room.table[e]
            size = graphs.n_entries[f]
            subtract_messages(graphs, m, f, room.delta, room.table, room.places, room.theta)
            total += _smooth_maximum(room.theta[:size], sigma, scaled[:size], work, answer[:size])
        square = 0.0
        for at in range(shift, graphs.first_message[m + 1]):
            square += messages[at] * messages[at]
        sums[0] += sample_weight[m] * total
        sums[1] += sample_weight[m] * square


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
        column = graphs.factor_column[f]
        l0, l1, r0, r1 = messages[at], messages[at + 1], messages[at + 2], messages[at + 3]
        best = max(w[column] - l0 - r0, w[column + 1] - l0 - r1)
        best = max(best, max(w[column + 2] - l1 - r0, w[column + 3] - l1 - r1))
        left = truth[variables + graphs.scope[slots + 2 * number]]
        right = truth[variables + graphs.scope[slots + 2 * number + 1]]
        total += best - w[column + 2 * left + right]
    return total


@leaf
def _true_entry(graphs, truth, m, f):
    base = graphs.variables[graphs.shape[m]]
    e = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        a = graphs.scope[z]
        e = e * graphs.n_states[base + a] + truth[graphs.first_variable[m] + a]
    return e


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
            1.0 - _certain(beliefs[at : at + graphs.n_states[a]], truth[v], max_min)
        )
    return total


@leaf
def _certain(belief, truth, max_min):
    """Mass that loses nothing: of the truth, or of the best prediction."""
    if not max_min:
        return belief[truth]
    largest = belief[0]
    for j in range(1, belief.shape[0]):
        largest = max(largest, belief[j])
    return largest


@compiled
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
                    at = graphs.first_entry[m] + graphs.entry_at[f]
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


# --- repair ---------------------------------------------------------------------------------


@leaf
def _agree(graphs, beliefs, truth, m, out):
    """Average of each variable's own belief and what its factors imply, within all counts."""
    s = graphs.shape[m]
    base = graphs.variables[s]
    first, shift = graphs.first_state[m], graphs.first_message[m]
    for a in range(base, graphs.variables[s + 1]):
        k, at = graphs.n_states[a], graphs.state_at[a]
        begin, end = graphs.held_at[a], graphs.held_at[a + 1]
        for j in range(k):
            out[at + j] = beliefs.variables[first + at + j]
        for h in range(begin, end):
            place = shift + graphs.message_at[graphs.held[h]]
            for j in range(k):
                out[at + j] += beliefs.implied[place + j]
        total = 0.0
        for j in range(k):
            out[at + j] = max(out[at + j], 0.0)
            total += out[at + j]
        for j in range(k):
            out[at + j] /= total
    # The truth is within all counts: go towards it as far as needed.
    keep = 1.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if graphs.kind[f] != COUNT:
            continue
        count, right = 0.0, 0.0
        for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
            a = graphs.scope[z]
            count += out[graphs.state_at[base + a] + 1]
            right += truth[graphs.first_variable[m] + a]
        if count > graphs.high[f]:
            keep = min(keep, (graphs.high[f] - right) / (count - right))
        elif count < graphs.low[f]:
            keep = min(keep, (right - graphs.low[f]) / (right - count))
    if keep < 1.0:
        keep = max(0.0, keep - 1e-12)
        for a in range(base, graphs.variables[s + 1]):
            at = graphs.state_at[a]
            for j in range(graphs.n_states[a]):
                out[at + j] *= keep
            out[at + truth[graphs.first_variable[m] + a - base]] += 1.0 - keep


@leaf
def _next_entry(graphs, base, begin, end, places):
    """The states of the next entry of a table."""
    for z in range(end - 1, begin - 1, -1):
        places[z - begin] += 1
        if places[z - begin] < graphs.n_states[base + graphs.scope[z]]:
            return
        places[z - begin] = 0


@leaf
def _axis_sums(graphs, base, begin, end, size, table, places, out):
    """Marginals of a table on all its variables, one after another."""
    at = 0
    for z in range(begin, end):
        places[z - begin] = 0
        at += graphs.n_states[base + graphs.scope[z]]
    for j in range(at):
        out[j] = 0.0
    for e in range(size):
        at = 0
        for z in range(begin, end):
            out[at + places[z - begin]] += table[e]
            at += graphs.n_states[base + graphs.scope[z]]
        _next_entry(graphs, base, begin, end, places)


@leaf
def fit_table(graphs, m, f, mass, wanted, sums, places, out):
    """A table with exactly the ``wanted`` marginals, near ``mass``.

    One variable after another, states with too much are scaled down; what is missing is spread in
    proportion to the product of what all variables lack.
    """
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    size = graphs.n_entries[f]
    if size == 4 and end - begin == 2 and graphs.n_states[base + graphs.scope[begin]] == 2:
        a, b = wanted[1], wanted[3]
        both = min(max(mass[3], max(0.0, a + b - 1.0)), min(a, b))
        out[3] = both
        out[2] = a - both
        out[1] = b - both
        out[0] = max(0.0, 1.0 - a - b + both)
        return
    for e in range(size):
        out[e] = max(mass[e], 0.0)
    skip = 0
    for axis in range(begin, end):
        _axis_sums(graphs, base, begin, end, size, out, places, sums)
        for z in range(begin, end):
            places[z - begin] = 0
        for e in range(size):
            j = skip + places[axis - begin]
            if sums[j] > wanted[j]:
                out[e] *= wanted[j] / sums[j]
            _next_entry(graphs, base, begin, end, places)
        skip += graphs.n_states[base + graphs.scope[axis]]
    _axis_sums(graphs, base, begin, end, size, out, places, sums)
    lack = 0.0
    for j in range(skip):
        sums[j] = max(0.0, wanted[j] - sums[j])
        if j < graphs.n_states[base + graphs.scope[begin]]:
            lack += sums[j]
    if lack <= 1e-300:
        return
    for z in range(begin, end):
        places[z - begin] = 0
    for e in range(size):
        share = lack
        at = 0
        for z in range(begin, end):
            share *= sums[at + places[z - begin]] / lack
            at += graphs.n_states[base + graphs.scope[z]]
        out[e] += share
        _next_entry(graphs, base, begin, end, places)


@leaf
def _fit_edge(mass, k, child, parent, out):
    """The same for one edge of a tree, k states each."""
    for i in range(k):
        total = 0.0
        for j in range(k):
            total += mass[i * k + j]
        factor = child[i] / total if total > child[i] else 1.0
        for j in range(k):
            out[i * k + j] = mass[i * k + j] * factor
    lack = 0.0
    for j in range(k):
        total = 0.0
        for i in range(k):
            total += out[i * k + j]
        if total > parent[j]:
            for i in range(k):
                out[i * k + j] *= parent[j] / total
        else:
            lack += parent[j] - total
    if lack <= 1e-300:
        return
    for i in range(k):
        missing = child[i]
        for j in range(k):
            missing -= out[i * k + j]
        # Columns are read before this row is written, so the lack of each is still to be found.
        out[k * k + i] = max(0.0, missing)
    for j in range(k):
        missing = parent[j]
        for i in range(k):
            missing -= out[i * k + j]
        missing = max(0.0, missing) / lack
        for i in range(k):
            out[i * k + j] += missing * out[k * k + i]


@compiled
def repair_graphs(
    graphs, rows, features, truth, costs, sample_weight, scales, beliefs, max_min, matrix,
    factor_weights,
):  # fmt: skip
    """Add the weights of beliefs that agree, near the given ones; return ``sum s_m H_m`` of them.

    The repaired beliefs are in the local polytope: a feasible point of the dual without penalty.
    """
    room = make_room(graphs)
    most = 1
    for m in range(graphs.shape.shape[0]):
        most = max(most, graphs.first_state[m + 1] - graphs.first_state[m])
    agreed = np.empty(most)
    edge = np.empty(room.table.shape[0] + room.values.shape[0])
    change = np.zeros(graphs.n_columns)
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        if scales[m] == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        _agree(graphs, beliefs, truth, m, agreed)
        a = base
        concave = 0.0
        while a < end:
            step = graphs.row_step[a]
            change[:] = 0.0
            while a < end and graphs.row_step[a] == step:
                v = graphs.first_variable[m] + a - base
                k, at = graphs.n_states[a], graphs.state_at[a]
                concave += costs[v] * (1.0 - _certain(agreed[at : at + k], truth[v], max_min))
                for j in range(k):
                    change[graphs.column[a] + j] -= agreed[at + j]
                change[graphs.column[a] + truth[v]] += 1.0
                a += 1
            add_row(rows, matrix, graphs.first_row[m] + step, change, scales[m])
        total += sample_weight[m] * concave
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            if graphs.kind[f] == COUNT:
                continue
            begin, stop = graphs.scope_at[f], graphs.scope_at[f + 1]
            first = graphs.first_entry[m] + graphs.entry_at[f]
            mass = beliefs.tables[first : first + graphs.n_entries[f]]
            at = 0
            for z in range(begin, stop):
                v = base + graphs.scope[z]
                for j in range(graphs.n_states[v]):
                    room.delta[at] = agreed[graphs.state_at[v] + j]
                    at += 1
            if graphs.kind[f] == TABLE:
                fit_table(graphs, m, f, mass, room.delta, room.node, room.places, room.table)
            else:
                k = graphs.n_states[base + graphs.scope[begin]]
                for z in range(begin, stop):
                    r, parent = z - begin, graphs.parent[z]
                    if parent >= 0:
                        pair = graphs.edge_entry[z]
                        child = room.delta[r * k : (r + 1) * k]
                        above = room.delta[parent * k : (parent + 1) * k]
                        _fit_edge(mass[pair : pair + k * k], k, child, above, edge)
                        for e in range(k * k):
                            room.table[pair + e] = edge[e]
            size = graphs.n_entries[f]
            add_factor_block(
                graphs, features, truth, factor_weights, scales[m], m, f, room.table[:size]
            )
    return total
