"""From beliefs that nearly agree to a feasible point of the hard dual."""

from __future__ import annotations

import numpy as np

from .._kernels.jit import compiled, leaf, seldom
from .._kernels.protocol import add_row
from ._soft_check import certain
from ._soft_counts import ROUNDING, make_count_room, project_counts
from ._soft_kernel import add_factor_block, add_potts_block, is_short, make_room
from .graph import COUNT, TABLE


@leaf
def _agree(graphs, beliefs, truth, m, counts, out):
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
    if project_counts(graphs, s, out, counts) > 1.0:
        _go_to_truth(graphs, truth, m, out)


@leaf
def _go_to_truth(graphs, truth, m, out):
    """Mix beliefs with the truth, which is within all counts, as far as they need.

    For what a projection that ran out of steps has left. A count with ``low == high`` that is not
    met has no mixture but the truth itself: a feasible point whose bound is a poor one.
    """
    s = graphs.shape[m]
    base = graphs.variables[s]
    keep = 1.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if graphs.kind[f] != COUNT:
            continue
        count, right = 0.0, 0.0
        for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
            a = graphs.scope[z]
            count += out[graphs.state_at[base + a] + 1]
            right += truth[graphs.first_variable[m] + a]
        rounding = ROUNDING * (graphs.scope_at[f + 1] - graphs.scope_at[f])
        if count > graphs.high[f] + rounding:
            keep = min(keep, (graphs.high[f] - right) / (count - right))
        elif count < graphs.low[f] - rounding:
            keep = min(keep, (right - graphs.low[f]) / (right - count))
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
def _fit_potts(mass, first, second):
    """The mass on equal states nearest to the given one that marginals allow."""
    least, most = 0.0, 0.0
    for a in range(first.shape[0]):
        least = max(least, first[a] + second[a] - 1.0)
        most += min(first[a], second[a])
    return min(max(mass, least), most)


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
@seldom
def repair_graphs(
    graphs, rows, features, truth, costs, sample_weight, scales, beliefs, max_min, matrix,
    factor_weights,
):  # fmt: skip
    """Add the weights of beliefs that agree, near the given ones; return ``sum s_m H_m`` of them.

    The repaired beliefs are in the local polytope: a feasible point of the dual without penalty.
    Distributions sum to 1, tables have the marginals of their variables, and counts are in bounds
    to a few units in the last place per summand. This changes the value returned by as many units
    per weight that scores them, as the rounding of its own sums does.
    """
    room = make_room(graphs)
    most = 1
    for m in range(graphs.shape.shape[0]):
        most = max(most, graphs.first_state[m + 1] - graphs.first_state[m])
    agreed = np.empty(most)
    counts = make_count_room(graphs)
    edge = np.empty(room.table.shape[0] + room.values.shape[0])
    change = np.zeros(graphs.n_columns)
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        if scales[m] == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        _agree(graphs, beliefs, truth, m, counts, agreed)
        a = base
        concave = 0.0
        while a < end:
            step = graphs.row_step[a]
            change[:] = 0.0
            while a < end and graphs.row_step[a] == step:
                v = graphs.first_variable[m] + a - base
                k, at = graphs.n_states[a], graphs.state_at[a]
                concave += costs[v] * (1.0 - certain(agreed[at : at + k], truth[v], max_min))
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
            first = graphs.first_mass[m] + graphs.mass_at[f]
            mass = beliefs.tables[first : first + graphs.n_mass[f]]
            at = 0
            for z in range(begin, stop):
                v = base + graphs.scope[z]
                for j in range(graphs.n_states[v]):
                    room.delta[at] = agreed[graphs.state_at[v] + j]
                    at += 1
            if is_short(graphs, f):
                fitted = _fit_potts(mass[0], room.delta[: at // 2], room.delta[at // 2 : at])
                add_potts_block(graphs, features, truth, factor_weights, scales[m], m, f, fitted)
                continue
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
