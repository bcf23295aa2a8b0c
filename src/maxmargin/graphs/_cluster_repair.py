"""Repair the beliefs of pairs in triangles: a feasible point of the relaxation with clusters."""

from __future__ import annotations

from .._kernels.jit import leaf
from ._table_repair import fit_pair, fit_table, next_entry

# Entries above minus this are not negative.
ROUNDING = 1e-15


@leaf
def is_joint(graphs, a):
    """Whether a variable is the joint state of a pair in a triangle: it has no scores."""
    return graphs.scored_from[a] == graphs.n_states[a]


@leaf
def _pair_of(graphs, a):
    """The first slot of the table of a pair, whose joint state is variable a."""
    return graphs.held[graphs.held_at[a]] - 2


@leaf
def _is_triangle(graphs, base, f):
    begin = graphs.scope_at[f]
    return graphs.scope_at[f + 1] - begin == 3 and is_joint(graphs, base + graphs.scope[begin])


@leaf
def _fit_triangle(graphs, beliefs, m, f, agreed, ends, room):
    """Write a distribution of a triangle with the marginals of its three variables, near its
    belief, to ``room.table``.

    ``ends[:3]`` become the variables, in ascending order, and ``room.delta`` their beliefs.
    """
    base, begin = graphs.variables[graphs.shape[m]], graphs.scope_at[f]
    z = _pair_of(graphs, base + graphs.scope[begin])
    next_z = _pair_of(graphs, base + graphs.scope[begin + 1])
    ends[0] = base + min(graphs.scope[z], graphs.scope[z + 1])
    ends[1] = base + max(graphs.scope[z], graphs.scope[z + 1])
    ends[2] = base + max(graphs.scope[next_z], graphs.scope[next_z + 1])
    sizes = ends[3:6]
    at = 0
    for r in range(3):
        sizes[r] = graphs.n_states[ends[r]]
        for j in range(sizes[r]):
            room.delta[at] = agreed[graphs.state_at[ends[r]] + j]
            at += 1
    mass = beliefs.tables[graphs.first_mass[m] + graphs.mass_at[f] :]
    table = room.table[: graphs.n_entries[f]]
    fit_table(sizes, mass, room.delta, room.node, room.places, table)


@leaf
def fit_clusters(graphs, beliefs, m, agreed, room):
    """Beliefs of all joint states that agree with those of the variables and of all triangles.

    A pair in one triangle has the marginal of a distribution q of it. The others are averages,
    fitted to their variables; d are the differences to the marginals of q. Then ``q + sum_pairs
    d (x) b``, with b the belief of the third variable, has the marginals of all three pairs, and if
    an entry is negative, all pairs are mixed with the product of their variables, which has the
    product as its distribution, until none is.
    """
    s = graphs.shape[m]
    base = graphs.variables[s]
    ends = room.pointer[:6]
    for a in range(base, graphs.variables[s + 1]):
        if is_joint(graphs, a):
            _fit_joint(graphs, base, a, agreed, room)
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if _is_triangle(graphs, base, f):
            _fit_triangle(graphs, beliefs, m, f, agreed, ends, room)
            for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
                a = base + graphs.scope[z]
                if graphs.held_at[a + 1] - graphs.held_at[a] == 2:  # its table and this triangle
                    at = graphs.state_at[a]
                    for j in range(graphs.n_states[a]):
                        agreed[at + j] = 0.0
                    for e in range(graphs.n_entries[f]):
                        agreed[at + graphs.maps[graphs.map_at[z] + e]] += room.table[e]
    share = 0.0
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if _is_triangle(graphs, base, f):
            _fit_triangle(graphs, beliefs, m, f, agreed, ends, room)
            share = max(share, _share_of_product(graphs, m, f, agreed, ends, room))
    if share > 0.0:
        for a in range(base, graphs.variables[s + 1]):
            if is_joint(graphs, a):
                _mix_with_product(graphs, base, a, share, agreed)


@leaf
def _fit_joint(graphs, base, a, agreed, room):
    """Fit the belief of a joint state to those of its two variables."""
    z = _pair_of(graphs, a)
    u, v = base + graphs.scope[z], base + graphs.scope[z + 1]
    at, next_at = graphs.state_at[u], graphs.state_at[v]
    first = agreed[at : at + graphs.n_states[u]]
    second = agreed[next_at : next_at + graphs.n_states[v]]
    table = agreed[graphs.state_at[a] : graphs.state_at[a] + graphs.n_states[a]]
    fit_pair(table, first, second, room.node, table)


@leaf
def _share_of_product(graphs, m, f, agreed, ends, room):
    """Least share of the product of the variables with which a triangle has the marginals of its
    pairs; its fitted distribution is in ``room.table``, beliefs of the variables in ``room.delta``.
    """
    base, begin = graphs.variables[graphs.shape[m]], graphs.scope_at[f]
    off, table, places = room.node, room.table, room.places
    n = 0
    for z in range(begin, begin + 3):
        a = base + graphs.scope[z]
        for j in range(graphs.n_states[a]):
            off[n + j] = agreed[graphs.state_at[a] + j]
        for e in range(graphs.n_entries[f]):
            off[n + graphs.maps[graphs.map_at[z] + e]] -= table[e]
        n += graphs.n_states[a]
    sizes = ends[3:6]
    second = graphs.n_states[base + graphs.scope[begin]]
    third = second + graphs.n_states[base + graphs.scope[begin + 1]]
    for axis in range(3):
        places[axis] = 0
    share = 0.0
    for e in range(graphs.n_entries[f]):
        i = room.delta[places[0]]
        j = room.delta[sizes[0] + places[1]]
        k = room.delta[sizes[0] + sizes[1] + places[2]]
        value = table[e] + off[graphs.maps[graphs.map_at[begin] + e]] * k
        value += off[second + graphs.maps[graphs.map_at[begin + 1] + e]] * i
        value += off[third + graphs.maps[graphs.map_at[begin + 2] + e]] * j
        if value < -ROUNDING:
            share = max(share, -value / (i * j * k - value))
        next_entry(sizes, places)
    return share


@leaf
def _mix_with_product(graphs, base, a, share, agreed):
    """Mix the belief of a joint state with the product of those of its two variables."""
    z = _pair_of(graphs, a)
    u, v = base + graphs.scope[z], base + graphs.scope[z + 1]
    q, at = graphs.n_states[v], graphs.state_at[a]
    for i in range(graphs.n_states[u]):
        for j in range(q):
            product = agreed[graphs.state_at[u] + i] * agreed[graphs.state_at[v] + j]
            agreed[at + i * q + j] += share * (product - agreed[at + i * q + j])
