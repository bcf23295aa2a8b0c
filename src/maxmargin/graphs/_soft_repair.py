"""Repair beliefs that nearly agree to a feasible point of the hard dual."""

from __future__ import annotations

from .._kernels.jit import implements, inner, leaf, seldom
from .._kernels.protocol import add_row
from ._cluster_repair import fit_clusters, is_joint
from ._soft_check import certain
from ._soft_counts import ROUNDING, has_counts, make_count_room, project_counts
from ._soft_kernel import add_factor_block, add_off_truth, add_potts_block
from ._table_repair import fit_binary, fit_pair, fit_potts, fit_table
from .graph import COUNT, TABLE, BinaryGraphs, Graphs, PairGraphs
from .kernels.agreement import is_short


def put_within_clusters(graphs, beliefs, m, out, room):
    """Give the joint states of pairs in triangles beliefs that agree with those of the variables
    and with a distribution of each triangle."""


@implements(put_within_clusters, (PairGraphs, BinaryGraphs))
def _without_clusters(graphs, beliefs, m, out, room):
    return


@implements(put_within_clusters, Graphs)
def _put_within_clusters(graphs, beliefs, m, out, room):
    s = graphs.shape[m]
    last = graphs.variables[s + 1] - 1
    if last >= graphs.variables[s] and is_joint(graphs, last):  # they come last
        fit_clusters(graphs, beliefs, m, out, room)


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


def fit_factor(graphs, m, f, mass, room):
    """Write the table(s) of a factor with exactly the marginals in the field ``delta`` of the
    scratch, near ``mass``, to its field ``table``."""


@implements(fit_factor, BinaryGraphs)
def _fit_binary_factor(graphs, m, f, mass, room):
    fit_binary(mass, room.delta, room.table)


@implements(fit_factor, PairGraphs)
def _fit_pair_factor(graphs, m, f, mass, room):
    _fit_pair_table(graphs, m, f, mass, room)


@leaf
def _fit_pair_table(graphs, m, f, mass, room):
    base, z = graphs.variables[graphs.shape[m]], graphs.scope_at[f]
    k = graphs.n_states[base + graphs.scope[z]]
    q = graphs.n_states[base + graphs.scope[z + 1]]
    if k == 2 and q == 2:
        fit_binary(mass, room.delta, room.table)
    else:
        fit_pair(mass, room.delta[:k], room.delta[k : k + q], room.node, room.table)


@implements(fit_factor, Graphs)
def _fit_any_factor(graphs, m, f, mass, room):
    begin, stop = graphs.scope_at[f], graphs.scope_at[f + 1]
    if graphs.kind[f] == TABLE and stop - begin == 2:
        _fit_pair_table(graphs, m, f, mass, room)
        return
    base = graphs.variables[graphs.shape[m]]
    if graphs.kind[f] == TABLE and is_joint(graphs, base + graphs.scope[stop - 1]):
        size = graphs.n_entries[f]  # the joint states of a pair in a triangle are its table
        at = graphs.n_states[base + graphs.scope[begin]]
        at += graphs.n_states[base + graphs.scope[begin + 1]]
        for e in range(size):
            room.table[e] = room.delta[at + e]
        return
    if graphs.kind[f] == TABLE:
        sizes = room.pointer[: stop - begin]
        for z in range(begin, stop):
            sizes[z - begin] = graphs.n_states[base + graphs.scope[z]]
        table = room.table[: graphs.n_entries[f]]
        fit_table(sizes, mass, room.delta, room.node, room.places, table)
        return
    k = graphs.n_states[base + graphs.scope[begin]]
    for z in range(begin, stop):
        r, parent = z - begin, graphs.parent[z]
        if parent >= 0:
            at = graphs.edge_entry[z]
            child = room.delta[r * k : (r + 1) * k]
            above = room.delta[parent * k : (parent + 1) * k]
            fit_pair(mass[at : at + k * k], child, above, room.node, room.table[at : at + k * k])


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
    agreed, change = room.states, room.change
    total = 0.0
    for m in range(graphs.shape.shape[0]):
        scale = data.scales[m]
        if scale == 0.0:
            continue
        s = graphs.shape[m]
        base, end = graphs.variables[s], graphs.variables[s + 1]
        _agree(graphs, beliefs, m, agreed)
        put_within_counts(graphs, truth, m, agreed)
        put_within_clusters(graphs, beliefs, m, agreed, room)
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
    if graphs.n_tied[f] == 0:  # counts, clusters
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
        fitted = fit_potts(mass[0], room.delta[: at // 2], room.delta[at // 2 : at])
        add_potts_block(graphs, features, truth, weights, scale, m, f, fitted)
        return
    fit_factor(graphs, m, f, mass, room)
    size = graphs.n_entries[f]
    add_factor_block(graphs, features, truth, weights, scale, m, f, room.table[:size])
