"""What the decoders need to know about the shapes of graphs, found once.

A TREE factor scores the sum of its pair tables, so every decoder sees it as pairs. What is left is
*whole* factors: tables over three or more variables, and counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import compiled, leaf
from ..structures.graph import COUNT, TREE, Graphs

# Traits of a shape.
PAIRWISE = 1  # no whole factors
BINARY = 2  # every variable has two states
FOREST = 4  # pairwise, and the pairs have no cycle


class Pairs(NamedTuple):
    """Pairs and whole factors of all shapes.

    Of a shape s:

    - pairs ``pairs[s] <= p < pairs[s+1]``: variables ``first[p]``, ``second[p]`` (within the
      shape), and the first entry of the table over both, ``entry[p]`` (within the example);
    - ``singles``: tables over one variable, ``single`` and ``single_entry``;
    - ``wholes``: ``whole`` is the number of the factor.

    Of a variable a (number within all shapes): its pairs are ``near[near_at[a] : near_at[a+1]]``,
    its places in whole factors ``slots[slot_at[a] : slot_at[a+1]]``. ``order`` and ``up`` describe a
    spanning forest of the pairs: variables of the shape with parents first, and the pair that leads
    to the parent (-1 for a root).
    """

    traits: np.ndarray
    pairs: np.ndarray
    first: np.ndarray
    second: np.ndarray
    entry: np.ndarray
    singles: np.ndarray
    single: np.ndarray
    single_entry: np.ndarray
    wholes: np.ndarray
    whole: np.ndarray
    near_at: np.ndarray
    near: np.ndarray
    slot_at: np.ndarray
    slots: np.ndarray
    order: np.ndarray
    up: np.ndarray


@leaf
def _count_terms(graphs, pairs, singles, wholes):
    """Fill the running numbers of pairs, tables over one variable, and whole factors."""
    for s in range(len(graphs.factors) - 1):
        n_pairs, n_singles, n_wholes = 0, 0, 0
        for f in range(graphs.factors[s], graphs.factors[s + 1]):
            start, end = graphs.scope_at[f], graphs.scope_at[f + 1]
            if graphs.kind[f] == TREE:
                for z in range(start, end):
                    n_pairs += graphs.parent[z] >= 0
            elif graphs.kind[f] == COUNT or end - start > 2:
                n_wholes += 1
            elif end - start == 2:
                n_pairs += 1
            else:
                n_singles += 1
        pairs[s + 1] = pairs[s] + n_pairs
        singles[s + 1] = singles[s] + n_singles
        wholes[s + 1] = wholes[s] + n_wholes


@leaf
def _list_terms(graphs, first, second, entry, single, single_entry, whole):
    p, q, w = 0, 0, 0
    for f in range(len(graphs.kind)):
        start, end = graphs.scope_at[f], graphs.scope_at[f + 1]
        if graphs.kind[f] == TREE:
            for z in range(start, end):
                if graphs.parent[z] >= 0:
                    first[p] = graphs.scope[z]
                    second[p] = graphs.scope[start + graphs.parent[z]]
                    entry[p] = graphs.entry_at[f] + graphs.edge_entry[z]
                    p += 1
        elif graphs.kind[f] == COUNT or end - start > 2:
            whole[w] = f
            w += 1
        elif end - start == 2:
            first[p] = graphs.scope[start]
            second[p] = graphs.scope[start + 1]
            entry[p] = graphs.entry_at[f]
            p += 1
        else:
            single[q] = graphs.scope[start]
            single_entry[q] = graphs.entry_at[f]
            q += 1


@leaf
def _link(graphs, pairs, first, second, near_at, near, fill):
    """Lists of the pairs of each variable."""
    n_shapes = len(graphs.variables) - 1
    for s in range(n_shapes):
        base = graphs.variables[s]
        for p in range(pairs[s], pairs[s + 1]):
            near_at[base + first[p] + 1] += 1
            near_at[base + second[p] + 1] += 1
    for a in range(len(near_at) - 1):
        near_at[a + 1] += near_at[a]
        fill[a] = near_at[a]
    for s in range(n_shapes):
        base = graphs.variables[s]
        for p in range(pairs[s], pairs[s + 1]):
            a, b = base + first[p], base + second[p]
            near[fill[a]] = p
            fill[a] += 1
            near[fill[b]] = p
            fill[b] += 1


@leaf
def _is_whole(graphs, z):
    f = graphs.slot_factor[z]
    if graphs.kind[f] == COUNT:
        return True
    return graphs.kind[f] != TREE and graphs.scope_at[f + 1] - graphs.scope_at[f] > 2


@leaf
def _list_slots(graphs, slot_at, slots):
    at = 0
    for a in range(len(slot_at) - 1):
        for q in range(graphs.held_at[a], graphs.held_at[a + 1]):
            if _is_whole(graphs, graphs.held[q]):
                slots[at] = graphs.held[q]
                at += 1
        slot_at[a + 1] = at


@leaf
def _span(graphs, s, first, second, near_at, near, order, up, seen):
    """Breadth-first spanning forest of a shape; returns the number of its trees."""
    base, end = graphs.variables[s], graphs.variables[s + 1]
    head = tail = base
    n_trees = 0
    for root in range(base, end):
        if seen[root]:
            continue
        n_trees += 1
        seen[root] = True
        order[tail] = root - base
        up[root] = -1
        tail += 1
        while head < tail:
            v = order[head]
            head += 1
            for q in range(near_at[base + v], near_at[base + v + 1]):
                p = near[q]
                other = second[p] if first[p] == v else first[p]
                if not seen[base + other]:
                    seen[base + other] = True
                    order[tail] = other
                    up[base + other] = p
                    tail += 1
    return n_trees


@compiled
def pair_up(graphs: Graphs) -> Pairs:
    """Find the pairs and whole factors of all shapes, and what kind of graph each shape is."""
    n_shapes = len(graphs.variables) - 1
    n_variables = len(graphs.n_states)
    pairs = np.zeros(n_shapes + 1, np.int64)
    singles = np.zeros(n_shapes + 1, np.int64)
    wholes = np.zeros(n_shapes + 1, np.int64)
    _count_terms(graphs, pairs, singles, wholes)
    first = np.empty(pairs[-1], np.int32)
    second = np.empty(pairs[-1], np.int32)
    entry = np.empty(pairs[-1], np.int64)
    single = np.empty(singles[-1], np.int32)
    single_entry = np.empty(singles[-1], np.int64)
    whole = np.empty(wholes[-1], np.int32)
    _list_terms(graphs, first, second, entry, single, single_entry, whole)
    near_at = np.zeros(n_variables + 1, np.int64)
    near = np.empty(2 * pairs[-1], np.int32)
    _link(graphs, pairs, first, second, near_at, near, np.empty(n_variables, np.int64))
    slot_at = np.zeros(n_variables + 1, np.int64)
    n_slots = 0
    for f in whole:
        n_slots += graphs.scope_at[f + 1] - graphs.scope_at[f]
    slots = np.empty(n_slots, np.int32)
    _list_slots(graphs, slot_at, slots)
    order = np.empty(n_variables, np.int32)
    up = np.empty(n_variables, np.int32)
    seen = np.zeros(n_variables, np.bool_)
    traits = np.zeros(n_shapes, np.int8)
    for s in range(n_shapes):
        n_trees = _span(graphs, s, first, second, near_at, near, order, up, seen)
        n = graphs.variables[s + 1] - graphs.variables[s]
        found = BINARY
        for a in range(graphs.variables[s], graphs.variables[s + 1]):
            if graphs.n_states[a] != 2:
                found = 0
        if wholes[s + 1] == wholes[s]:
            found += PAIRWISE
            if pairs[s + 1] - pairs[s] == n - n_trees:
                found += FOREST
        traits[s] = found
    return Pairs(
        traits, pairs, first, second, entry, singles, single, single_entry, wholes, whole,
        near_at, near, slot_at, slots, order, up,
    )  # fmt: skip
