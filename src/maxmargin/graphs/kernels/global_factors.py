"""Factors without a joint table: counts and trees, and Frank-Wolfe steps on any factor.

The oracle of such a factor is its best labelling. Of its distribution only marginals are stored:
those of its variables (``implied``), and those of the pairs of a tree.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from ..graph import TREE
from .agreement import factor_messages, factor_row, score_factor, subtract_messages, tie_of

_BISECTIONS = 100


@leaf
def count_step(graphs, beliefs, penalty, m, f, room):
    """Exact step of a COUNT: the best marginals if between low and high variables are 1."""
    kappa = penalty.kappa
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    n = end - begin
    factor_messages(graphs, beliefs, kappa, m, f, room.delta)
    gain, before = room.node[:n], room.node[n : 2 * n]
    lowest, highest = np.inf, -np.inf
    mean = 0.0
    for r in range(n):
        gain[r] = room.delta[2 * r] - room.delta[2 * r + 1]
        before[r] = beliefs.implied[graphs.first_message[m] + graphs.message_at[begin + r] + 1]
        mean += gain[r] * before[r]
        # Beyond these prices all are 1, or none is.
        lowest = min(lowest, gain[r] + 2.0 * kappa * (before[r] - 1.0))
        highest = max(highest, gain[r] + 2.0 * kappa * before[r])
    gap = best_count(gain, graphs.low[f], graphs.high[f]) - mean
    price = 0.0
    total = _count_at(gain, before, kappa, 0.0)
    goal = min(max(total, float(graphs.low[f])), float(graphs.high[f]))
    if goal != total:
        low, high = min(lowest, 0.0), max(highest, 0.0)
        for _ in range(_BISECTIONS):
            price = 0.5 * (low + high)
            if _count_at(gain, before, kappa, price) > goal:
                low = price
            else:
                high = price
        # In the last interval the total is linear: interpolate.
        above, below = _count_at(gain, before, kappa, low), _count_at(gain, before, kappa, high)
        share = 0.0 if above == below else (goal - below) / (above - below)
        price = high + share * (low - high)
    for r in range(n):
        p = min(1.0, max(0.0, before[r] + 0.5 * (gain[r] - price) / kappa))
        at = graphs.first_message[m] + graphs.message_at[begin + r]
        beliefs.implied[at + 1] = p
        beliefs.implied[at] = 1.0 - p
    return gap


@leaf
def _count_at(gain, before, kappa, price):
    total = 0.0
    for r in range(gain.shape[0]):
        total += min(1.0, max(0.0, before[r] + 0.5 * (gain[r] - price) / kappa))
    return total


@leaf
def best_count(gain, low, high):
    """Largest sum of at least ``low`` and at most ``high`` gains; reads each rank in turn."""
    n = gain.shape[0]
    total = 0.0
    # The r-th largest, by counting: n is small, and no scratch is needed.
    for r in range(n):
        rank = 0
        for q in range(n):
            if gain[q] > gain[r] or (gain[q] == gain[r] and q < r):
                rank += 1
        if rank < low or (rank < high and gain[r] > 0.0):
            total += gain[r]
    return total


@leaf
def best_in_tree(graphs, m, f, delta, table, node, pointer, places):
    """Write the best labelling of a TREE to ``places``; returns its score."""
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    k = graphs.n_states[base + graphs.scope[begin]]  # the same for all
    n = end - begin
    for at in range(n * k):
        node[at] = -delta[at]
    for r in range(n - 1, -1, -1):
        parent = graphs.parent[begin + r]
        if parent < 0:
            continue
        pair = graphs.edge_entry[begin + r]
        for j in range(k):
            best, high = 0, -np.inf
            for i in range(k):
                value = node[r * k + i] + table[pair + i * k + j]
                if value > high:
                    high = value
                    best = i
            node[parent * k + j] += high
            pointer[r * k + j] = best
    total = 0.0
    for r in range(n):
        parent = graphs.parent[begin + r]
        if parent >= 0:
            places[r] = pointer[r * k + places[parent]]
            continue
        best = 0
        for i in range(1, k):
            if node[r * k + i] > node[r * k + best]:
                best = i
        places[r] = best
        total += node[r * k + best]
    return total


@leaf
def best_entry(graphs, m, f, room):
    """Write the best labelling of a table to ``places``; returns its score."""
    subtract_messages(graphs, m, f, room.delta, room.table, room.theta)
    best = 0
    for e in range(1, graphs.n_entries[f]):
        if room.theta[e] > room.theta[best]:
            best = e
    high = room.theta[best]
    base = graphs.variables[graphs.shape[m]]
    begin = graphs.scope_at[f]
    for z in range(graphs.scope_at[f + 1] - 1, begin - 1, -1):
        k = graphs.n_states[base + graphs.scope[z]]
        room.places[z - begin] = best % k
        best //= k
    return high


@leaf
def chosen_entry(graphs, m, f, places, r):
    """Entry that a labelling uses: of the whole table, or (TREE) of the edge above slot r."""
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    if graphs.kind[f] == TREE:
        k = graphs.n_states[base + graphs.scope[begin]]
        return graphs.edge_entry[begin + r] + places[r] * k + places[graphs.parent[begin + r]]
    e = 0
    for z in range(begin, end):
        e = e * graphs.n_states[base + graphs.scope[z]] + places[z - begin]
    return e


@leaf
def frank_wolfe_factor(data, beliefs, weights, penalty, m, f, room):
    """A Frank-Wolfe step of a table or TREE with the exact length; returns the gap of the block."""
    graphs = data.graphs
    features = data.features
    scale = data.scales[m]
    kappa, sigma = penalty.kappa, penalty.sigma
    size, n_tied = graphs.n_entries[f], graphs.n_tied[f]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    base = graphs.variables[graphs.shape[m]]
    mass = beliefs.tables[graphs.first_mass[m] + graphs.mass_at[f] :]
    score_factor(graphs, features, weights, m, f, room.columns, room.table)
    factor_messages(graphs, beliefs, kappa, m, f, room.delta)
    mean = 0.0
    for e in range(size):
        if graphs.kind[f] != TREE:  # a tree is not smoothed
            room.table[e] -= sigma * mass[e]
        mean += room.table[e] * mass[e]
    at = 0
    for z in range(begin, end):
        place = graphs.first_message[m] + graphs.message_at[z]
        for j in range(graphs.n_states[base + graphs.scope[z]]):
            mean -= room.delta[at] * beliefs.implied[place + j]
            at += 1
    is_tree = graphs.kind[f] == TREE
    if is_tree:
        value = best_in_tree(
            graphs, m, f, room.delta, room.table, room.node, room.pointer, room.places
        )
    else:
        value = best_entry(graphs, m, f, room)
    gap = value - mean
    if gap <= 0.0:
        return 0.0
    # Direction: the vertex minus the marginals, by weight and by slot.
    columns = room.columns
    for j in range(n_tied):
        columns[j] = 0.0
    curvature = 0.0
    for e in range(size):
        tie = tie_of(graphs, f, e)
        if tie >= 0:
            columns[tie] -= mass[e]
        if not is_tree:
            curvature += sigma * mass[e] * mass[e]
    for r in range(end - begin if is_tree else 1):
        if is_tree and graphs.parent[begin + r] < 0:
            continue
        e = chosen_entry(graphs, m, f, room.places, r)
        tie = tie_of(graphs, f, e)
        if tie >= 0:
            columns[tie] += 1.0
        if not is_tree:
            curvature += sigma * (1.0 - 2.0 * mass[e])
    row = features[factor_row(graphs, m, f)]
    square = 0.0
    for p in range(row.shape[0]):
        square += row[p] * row[p]
    for j in range(n_tied):
        curvature += scale * square * columns[j] * columns[j]
    for z in range(begin, end):
        place = graphs.first_message[m] + graphs.message_at[z]
        for j in range(graphs.n_states[base + graphs.scope[z]]):
            d = (1.0 if j == room.places[z - begin] else 0.0) - beliefs.implied[place + j]
            curvature += kappa * d * d
    step = 1.0 if curvature <= gap else gap / curvature
    for p in range(row.shape[0]):
        amount = -scale * step * row[p]
        for j in range(n_tied):
            weights[p, graphs.factor_column[f] + j] += amount * columns[j]
    for e in range(size):
        mass[e] *= 1.0 - step
    for r in range(end - begin if is_tree else 1):
        if not (is_tree and graphs.parent[begin + r] < 0):
            mass[chosen_entry(graphs, m, f, room.places, r)] += step
    for z in range(begin, end):
        place = graphs.first_message[m] + graphs.message_at[z]
        for j in range(graphs.n_states[base + graphs.scope[z]]):
            beliefs.implied[place + j] *= 1.0 - step
        beliefs.implied[place + room.places[z - begin]] += step
    return gap
