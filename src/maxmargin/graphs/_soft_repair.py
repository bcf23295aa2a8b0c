"""Repair beliefs that nearly agree to a feasible point of the hard dual."""

from __future__ import annotations

from .._kernels.jit import implements, inner, leaf, seldom
from .._kernels.protocol import add_row
from ._soft_check import certain
from ._soft_counts import ROUNDING, has_counts, make_count_room, project_counts
from ._soft_kernel import add_factor_block, add_off_truth, add_potts_block
from .graph import COUNT, TABLE, BinaryGraphs, Graphs, PairGraphs
from .kernels.agreement import is_short


def put_within_counts(graphs, truth, m, out):
    """Move the beliefs of the variables of an example to the nearest ones within its counts."""


@implements(put_within_counts, (PairGraphs, BinaryGraphs), allocates=True)
def _without_counts(graphs, truth, m, out):
    return


@implements(put_within_counts, Graphs, allocates=True)
def _put_within_counts(graphs, truth, m, out):
    s = graphs.shape[m]
    if has_counts(graphs, s) and project_counts(graphs, s, out, make_count_room(graphs, s)) > 1.0:
        _go_to_truth(graphs, truth, m, out)


@leaf
def _agree(graphs, beliefs, m, out):
    """Average of the belief of each variable and the marginals of its factors."""
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


@leaf
def _go_to_truth(graphs, truth, m, out):
    """Mix beliefs with the truth, which satisfies all counts, until they satisfy them too.

    For violations that remain after a projection reached its limit of steps. If a count with
    ``low == high`` is violated, only the truth itself is feasible: its bound is a poor one.
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
    """Marginals of a table on all its variables, concatenated."""
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

    One variable after another, states with too much mass are scaled down; the missing mass is
    distributed in proportion to the product of the deficits of all variables.
    """
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    size = graphs.n_entries[f]
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
    """The mass on equal states nearest to ``mass`` that the marginals allow."""
    least, most = 0.0, 0.0
    for a in range(first.shape[0]):
        least = max(least, first[a] + second[a] - 1.0)
        most += min(first[a], second[a])
    return min(max(mass, least), most)


@leaf
def _fit_binary(mass, wanted, out):
    """The table of two binary variables with the wanted marginals, both in state 1 as near as
    possible to ``mass``."""
    a, b = wanted[1], wanted[3]
    both = min(max(mass[3], max(0.0, a + b - 1.0)), min(a, b))
    out[3] = both
    out[2] = a - both
    out[1] = b - both
    out[0] = max(0.0, 1.0 - a - b + both)


@leaf
def _fit_pair(mass, first, second, lacks, out):
    """As :func:`fit_table` for a pair of variables; ``lacks`` is scratch, one per state."""
    k, q = first.shape[0], second.shape[0]
    for i in range(k):
        total = 0.0
        for j in range(q):
            out[i * q + j] = max(mass[i * q + j], 0.0)
            total += out[i * q + j]
        if total > first[i]:
            for j in range(q):
                out[i * q + j] *= first[i] / total
    lack = 0.0
    for j in range(q):
        total = 0.0
        for i in range(k):
            total += out[i * q + j]
        if total > second[j]:
            for i in range(k):
                out[i * q + j] *= second[j] / total
        else:
            lack += second[j] - total
    if lack <= 1e-300:
        return
    for i in range(k):
        lacks[i] = first[i]
        for j in range(q):
            lacks[i] -= out[i * q + j]
    for j in range(q):
        missing = second[j]
        for i in range(k):
            missing -= out[i * q + j]
        missing = max(0.0, missing) / lack
        for i in range(k):
            out[i * q + j] += missing * max(0.0, lacks[i])


def fit_factor(graphs, m, f, mass, room):
    """Write the table(s) of a factor with exactly the marginals in the field ``delta`` of the
    scratch, near ``mass``, to its field ``table``."""


@implements(fit_factor, BinaryGraphs)
def _fit_binary_factor(graphs, m, f, mass, room):
    _fit_binary(mass, room.delta, room.table)


@implements(fit_factor, PairGraphs)
def _fit_pair_factor(graphs, m, f, mass, room):
    _fit_pair_table(graphs, m, f, mass, room)


@leaf
def _fit_pair_table(graphs, m, f, mass, room):
    base, z = graphs.variables[graphs.shape[m]], graphs.scope_at[f]
    k = graphs.n_states[base + graphs.scope[z]]
    q = graphs.n_states[base + graphs.scope[z + 1]]
    if k == 2 and q == 2:
        _fit_binary(mass, room.delta, room.table)
    else:
        _fit_pair(mass, room.delta[:k], room.delta[k : k + q], room.node, room.table)


@implements(fit_factor, Graphs)
def _fit_any_factor(graphs, m, f, mass, room):
    begin, stop = graphs.scope_at[f], graphs.scope_at[f + 1]
    if graphs.kind[f] == TABLE and stop - begin == 2:
        _fit_pair_table(graphs, m, f, mass, room)
        return
    if graphs.kind[f] == TABLE:
        fit_table(graphs, m, f, mass, room.delta, room.node, room.places, room.table)
        return
    k = graphs.n_states[graphs.variables[graphs.shape[m]] + graphs.scope[begin]]
    for z in range(begin, stop):
        r, parent = z - begin, graphs.parent[z]
        if parent >= 0:
            at = graphs.edge_entry[z]
            child = room.delta[r * k : (r + 1) * k]
            above = room.delta[parent * k : (parent + 1) * k]
            _fit_pair(mass[at : at + k * k], child, above, room.node, room.table[at : at + k * k])


@inner
@seldom
def repair_graphs(data, weights, beliefs, max_min, room):
    """Add the weights of beliefs that agree, near the given ones; return ``sum s_m H_m`` of them.

    The repaired beliefs are in the local polytope: a feasible point of the dual without penalty.
    Distributions sum to 1, tables have the marginals of their variables, and counts are satisfied,
    up to a few units in the last place per summand. The error of the returned value is of the same
    size as the rounding error of its own sums.
    """
    graphs, rows = data.graphs, data.rows  # here, because each mention of a NamedTuple is a copy
    truth = data.truth
    agreed, change = room.sums, room.change
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        scale = data.scales[m]
        if scale == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        _agree(graphs, beliefs, m, agreed)
        put_within_counts(graphs, truth, m, agreed)
        a = base
        concave = 0.0
        while a < end:
            step = graphs.row_step[a]
            change[:] = 0.0
            while a < end and graphs.row_step[a] == step:
                v = graphs.first_variable[m] + a - base
                k, at = graphs.n_states[a], graphs.state_at[a]
                concave += data.costs[v] * (1.0 - certain(agreed[at : at + k], truth[v], max_min))
                add_off_truth(graphs, a, agreed[at : at + k], truth[v], change)
                a += 1
            add_row(rows, weights.unary, graphs.first_row[m] + step, change, scale)
        total += data.sample_weight[m] * concave
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            _add_fitted(data, weights.factor, beliefs, m, f, agreed, room)
    return total


@leaf
def _add_fitted(data, weights, beliefs, m, f, agreed, room):
    """Add the weights of a factor whose marginals are those of the variables."""
    graphs = data.graphs
    if graphs.kind[f] == COUNT:
        return
    base = graphs.variables[graphs.shape[m]]
    first = graphs.first_mass[m] + graphs.mass_at[f]
    mass = beliefs.tables[first : first + graphs.n_mass[f]]
    at = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        v = base + graphs.scope[z]
        for j in range(graphs.n_states[v]):
            room.delta[at] = agreed[graphs.state_at[v] + j]
            at += 1
    features, truth, scale = data.features, data.truth, data.scales[m]
    if is_short(graphs, f):
        fitted = _fit_potts(mass[0], room.delta[: at // 2], room.delta[at // 2 : at])
        add_potts_block(graphs, features, truth, weights, scale, m, f, fitted)
        return
    fit_factor(graphs, m, f, mass, room)
    size = graphs.n_entries[f]
    add_factor_block(graphs, features, truth, weights, scale, m, f, room.table[:size])
