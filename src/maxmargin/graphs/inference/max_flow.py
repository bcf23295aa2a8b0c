"""Minimum cuts: the best labelling of binary pairwise graphs, and the optimum of their relaxation.

Written with spins, the score of a binary pairwise graph is, up to a constant,

    - sum_i c_i [x_i = 1] - sum_p r_p [x_i != x_j]   (or [x_i = x_j] where the pair is repulsive)

with ``r_p >= 0``. Without repulsive pairs the best labelling is a minimum cut. With them, the same
flow on two copies of each variable, x and 1 - x, joined so that no pair is repulsive, solves the
relaxation over the local polytope (roof duality: Hammer, Hansen and Simeone 1984; Boros and Hammer
2002).

The flow is Dinic's, along shortest paths to the sink. A node that is saturated has exactly zero
residual capacity, so that floating-point capacities need no tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import inner, leaf


class Network(NamedTuple):
    """Scratch of a flow; node ``n_copies * v + copy`` of each variable v.

    The arc of pair p from copy b of its first variable to the second variable has residual
    ``residual[2 * (n_copies * p + b)]``, that of the reverse arc is the number after it. The arc
    ends at copy ``b`` or, if ``repulsive[p]``, at the other one.
    """

    excess: np.ndarray  # residual capacity from the source, or minus that to the sink
    residual: np.ndarray
    repulsive: np.ndarray
    level: np.ndarray  # arcs to the sink, plus one; 0 if the sink cannot be reached
    arc: np.ndarray  # next arc to try
    queue: np.ndarray
    path: np.ndarray  # arcs from the node of the source


@inner
def make_network(n_variables: int, n_pairs: int, n_copies: int) -> Network:
    """Scratch for graphs of at most these sizes."""
    n = n_copies * n_variables
    return Network(
        np.empty(n),
        np.empty(2 * n_copies * n_pairs),
        np.empty(n_pairs, np.int8),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n + 1, np.int64),
    )


@leaf
def _step(plan, net, first_pair, n_copies, v, copy, p):
    """Arc out of a node along pair p, and the node it leads to."""
    local = p - first_pair
    turned = copy ^ net.repulsive[local]
    if plan.first[p] == v:
        return 2 * (n_copies * local + copy), n_copies * plan.second[p] + turned
    return 2 * (n_copies * local + turned) + 1, n_copies * plan.first[p] + turned


@leaf
def _find_levels(plan, s, net, n_copies):
    """Distances to the sink, until the source is reached; returns whether it was reached."""
    base, first_pair = plan.variables[s], plan.pairs[s]
    n = n_copies * (plan.variables[s + 1] - base)
    tail = 0
    for node in range(n):
        net.level[node] = 0
        net.arc[node] = plan.near_at[base + node // n_copies]
        if net.excess[node] < 0.0:
            net.level[node] = 1
            net.queue[tail] = node
            tail += 1
    head = 0
    last = n + 2
    while head < tail:
        node = net.queue[head]
        head += 1
        if net.level[node] >= last:
            break
        v, copy = node // n_copies, node % n_copies
        for q in range(plan.near_at[base + v], plan.near_at[base + v + 1]):
            arc, other = _step(plan, net, first_pair, n_copies, v, copy, plan.near[q])
            if net.level[other] == 0 and net.residual[arc ^ 1] > 0.0:
                net.level[other] = net.level[node] + 1
                net.queue[tail] = other
                tail += 1
                if net.excess[other] > 0.0:
                    last = min(last, net.level[other])
    return last < n + 2


@leaf
def _advance(plan, s, net, n_copies, node):
    """The next arc and node on a shortest path to the sink, (-1, -1) if there is none."""
    v, copy = node // n_copies, node % n_copies
    end = plan.near_at[plan.variables[s] + v + 1]
    while net.arc[node] < end:
        p = plan.near[net.arc[node]]
        arc, other = _step(plan, net, plan.pairs[s], n_copies, v, copy, p)
        if net.residual[arc] > 0.0 and net.level[other] == net.level[node] - 1:
            return arc, other
        net.arc[node] += 1
    return -1, -1


@leaf
def _push(net, source, sink, length):
    """Augment the flow along the path; returns the first saturated arc, or the length."""
    amount = min(net.excess[source], -net.excess[sink])
    for k in range(length):
        amount = min(amount, net.residual[net.path[k]])
    net.excess[source] -= amount
    net.excess[sink] += amount
    full = length
    for k in range(length - 1, -1, -1):
        arc = net.path[k]
        net.residual[arc] -= amount
        net.residual[arc ^ 1] += amount
        if net.residual[arc] <= 0.0:
            full = k
    return full


@leaf
def _drain(plan, s, net, n_copies, source):
    """Send the excess of a node to the sink along shortest paths, as far as possible.

    ``net.queue`` holds the nodes of the path.
    """
    length, node = 0, source
    net.queue[0] = source
    while net.excess[source] > 0.0:
        if net.level[node] == 1:
            full = length
            if net.excess[node] < 0.0:
                full = _push(net, source, node, length)
            if full == length:  # the arc to the sink is saturated
                if net.excess[source] <= 0.0 or length == 0:
                    return
                length -= 1
                net.arc[net.queue[length]] += 1
            else:
                length = full
            node = net.queue[length]
            continue
        arc, other = _advance(plan, s, net, n_copies, node)
        if arc >= 0:
            net.path[length] = arc
            length += 1
            node = other
            net.queue[length] = node
        else:
            if length == 0:
                return
            length -= 1
            node = net.queue[length]
            net.arc[node] += 1


@leaf
def run_flow(plan, s, net, n_copies):
    """Maximum flow; afterwards ``level`` is positive exactly on the sink side of the cut.

    The sink side is the smallest possible: nodes from which the sink can be reached.
    """
    n = n_copies * (plan.variables[s + 1] - plan.variables[s])
    while _find_levels(plan, s, net, n_copies):
        for node in range(n):
            if net.excess[node] > 0.0 and net.level[node] > 0:
                _drain(plan, s, net, n_copies, node)


@leaf
def load_network(plan, s, unary, tables, fixed, net, n_copies):
    """Write the capacities of an example; returns whether no pair is repulsive.

    ``fixed[v]`` is the state of a variable that is fixed, or -1. A fixed variable has no arcs.
    """
    base, first_pair = plan.variables[s], plan.pairs[s]
    for v in range(plan.variables[s + 1] - base):
        at = plan.state_at[base + v]
        net.excess[n_copies * v] = unary[at] - unary[at + 1]
    for q in range(plan.singles[s], plan.singles[s + 1]):
        at = plan.single_entry[q]
        net.excess[n_copies * plan.single[q]] += tables[at] - tables[at + 1]
    attractive = True
    for p in range(first_pair, plan.pairs[s + 1]):
        i, j = plan.first[p], plan.second[p]
        at = plan.entry[p]
        t00, t01, t10, t11 = tables[at], tables[at + 1], tables[at + 2], tables[at + 3]
        local = p - first_pair
        strength = 0.0
        if fixed[i] < 0 and fixed[j] < 0:
            net.excess[n_copies * i] += 0.5 * ((t00 - t10) + (t01 - t11))
            net.excess[n_copies * j] += 0.5 * ((t00 - t01) + (t10 - t11))
            strength = 0.5 * ((t00 - t01) + (t11 - t10))
        elif fixed[i] < 0:
            net.excess[n_copies * i] += t00 - t10 if fixed[j] == 0 else t01 - t11
        elif fixed[j] < 0:
            net.excess[n_copies * j] += t00 - t01 if fixed[i] == 0 else t10 - t11
        if n_copies == 1:  # not repulsive, so negative values are rounding errors
            strength = max(0.0, strength)
        net.repulsive[local] = strength < 0.0
        attractive = attractive and strength >= 0.0
        for arc in range(2 * n_copies * local, 2 * n_copies * (local + 1)):
            net.residual[arc] = abs(strength)
    for v in range(plan.variables[s + 1] - base):
        if fixed[v] >= 0:
            net.excess[n_copies * v] = 1.0 if fixed[v] == 0 else -1.0
        if n_copies == 2:
            net.excess[2 * v + 1] = -net.excess[2 * v]
    return attractive


@leaf
def is_attractive(plan, s, tables):
    """Whether no pair prefers different states: the best labelling is a minimum cut."""
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        at = plan.entry[p]
        if (tables[at] - tables[at + 1]) + (tables[at + 3] - tables[at + 2]) < 0.0:
            return False
    return True


@leaf
def cut_labels(plan, s, unary, tables, fixed, net, labels):
    """Best labelling of an example without repulsive pairs. ``net`` has one copy, fixed is -1."""
    load_network(plan, s, unary, tables, fixed, net, 1)
    run_flow(plan, s, net, 1)
    for v in range(plan.variables[s + 1] - plan.variables[s]):
        labels[v] = 1 if net.level[v] > 0 else 0
