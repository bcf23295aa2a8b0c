"""What the decoders need of the shapes of graphs, computed once.

The score of a TREE factor is the sum of its pair tables, so every decoder treats it as pairs. The
other factors are *whole* factors: tables over three or more variables, and counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import leaf
from ..graph import COUNT, TABLE, TREE, Graphs

# Traits of a shape.
PAIRWISE = 1  # no whole factors
BINARY = 2  # every variable has two states
FOREST = 4  # pairwise, and the pairs have no cycle


class Plan(NamedTuple):
    """Variables, pairs and whole factors of all shapes.

    Up to ``slot_factor`` these are arrays of :class:`~maxmargin.graphs.graph.Graphs`. Of a
    shape s:

    - pairs ``pairs[s] <= p < pairs[s+1]``: variables ``first[p]``, ``second[p]`` (within the
      shape), and the first entry of the table over both, ``entry[p]`` (within the example);
    - ``singles``: tables over one variable, ``single`` and ``single_entry``;
    - ``wholes``: ``whole`` is the number of the factor.

    Of a variable a (number within all shapes): its pairs are ``near[near_at[a] : near_at[a+1]]``,
    its places in whole factors ``slots[slot_at[a] : slot_at[a+1]]``. ``order`` and ``up`` are a
    spanning forest of the pairs: variables of the shape with parents first, and the pair that leads
    to the parent (-1 for a root).
    """

    variables: np.ndarray
    n_states: np.ndarray
    state_at: np.ndarray
    factors: np.ndarray
    kind: np.ndarray
    scope_at: np.ndarray
    entry_at: np.ndarray
    n_entries: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scope: np.ndarray
    slot_factor: np.ndarray

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


class PairPlan(Plan):
    """A plan of shapes without whole factors: decoders are compiled without code for these."""


class Examples(NamedTuple):
    """Shape of every example, and where its variables, states and table entries begin."""

    shape: np.ndarray
    variable: np.ndarray
    state: np.ndarray
    entry: np.ndarray


def list_examples(graphs: Graphs) -> Examples:
    """Shapes and offsets of the examples."""
    return Examples(graphs.shape, graphs.first_variable, graphs.first_state, graphs.first_entry)


@leaf
def _span(variables, first, second, near_at, near, order, up, seen, n_trees):
    """Breadth-first spanning forest and number of trees of every shape."""
    for s in range(len(variables) - 1):
        base, end = variables[s], variables[s + 1]
        head = tail = base
        n_trees[s] = 0
        for root in range(base, end):
            if seen[root]:
                continue
            n_trees[s] += 1
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


def _find_pairs(graphs: Graphs) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Factor, variables and first entry of every pair, in the order of the factors."""
    arity = np.diff(graphs.scope_at)
    tables = np.flatnonzero((graphs.kind == TABLE) & (arity == 2))
    start = graphs.scope_at[tables]
    in_tree = (graphs.kind[graphs.slot_factor] == TREE) & (graphs.parent >= 0)
    child = np.flatnonzero(in_tree)
    trees = graphs.slot_factor[child]
    parent = graphs.scope_at[trees] + graphs.parent[child]
    factor = np.concatenate([tables, trees])
    first = np.concatenate([graphs.scope[start], graphs.scope[child]])
    second = np.concatenate([graphs.scope[start + 1], graphs.scope[parent]])
    entry = graphs.entry_at[factor]
    entry[len(tables) :] += graphs.edge_entry[child]
    order = np.argsort(factor, kind="stable")
    return (
        factor[order],
        first[order].astype(np.int32),
        second[order].astype(np.int32),
        entry[order],
    )


def link(first: np.ndarray, second: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists of the pairs of each of n variables: where they begin, and the pairs."""
    ends = np.stack([first, second], axis=1).ravel()
    near = (np.argsort(ends, kind="stable") // 2).astype(np.int32)
    near_at = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))])
    return near_at.astype(np.int64), near


def _traits(graphs: Graphs, pairs: np.ndarray, wholes: np.ndarray, n_trees: np.ndarray):
    """Traits of each shape."""
    others = np.concatenate([[0], np.cumsum(graphs.n_states != 2)])[graphs.variables]
    pairwise = np.diff(wholes) == 0
    forest = pairwise & (np.diff(pairs) == np.diff(graphs.variables) - n_trees)
    binary = np.diff(others) == 0
    return (PAIRWISE * pairwise + BINARY * binary + FOREST * forest).astype(np.int8)


def make_plan(graphs: Graphs) -> Plan:
    """Find the pairs and whole factors of all shapes, and the traits of each shape."""
    arity = np.diff(graphs.scope_at)
    factor, first, second, entry = _find_pairs(graphs)
    pairs = np.searchsorted(factor, graphs.factors)
    single = np.flatnonzero((graphs.kind == TABLE) & (arity == 1))
    is_whole = (graphs.kind == COUNT) | ((graphs.kind == TABLE) & (arity > 2))
    whole = np.flatnonzero(is_whole)
    base = np.repeat(graphs.variables[:-1], np.diff(pairs))
    n_variables = len(graphs.n_states)
    near_at, near = link(base + first, base + second, n_variables)
    in_whole = is_whole[graphs.slot_factor[graphs.held]]
    slot_at = np.concatenate([[0], np.cumsum(in_whole)])[graphs.held_at]
    wholes = np.searchsorted(whole, graphs.factors)
    order, up = np.empty(n_variables, np.int32), np.empty(n_variables, np.int32)
    seen, n_trees = np.zeros(n_variables, bool), np.empty(len(graphs.factors) - 1, np.int64)
    _span(graphs.variables, first, second, near_at, near, order, up, seen, n_trees)
    kind = Plan if len(whole) else PairPlan
    return kind(
        graphs.variables, graphs.n_states, graphs.state_at, graphs.factors, graphs.kind,
        graphs.scope_at, graphs.entry_at, graphs.n_entries, graphs.low, graphs.high, graphs.scope,
        graphs.slot_factor,
        traits=_traits(graphs, pairs, wholes, n_trees),
        pairs=pairs.astype(np.int64), first=first, second=second, entry=entry,
        singles=np.searchsorted(single, graphs.factors).astype(np.int64),
        single=graphs.scope[graphs.scope_at[single]], single_entry=graphs.entry_at[single],
        wholes=wholes.astype(np.int64), whole=whole.astype(np.int32),
        near_at=near_at, near=near,
        slot_at=slot_at.astype(np.int64), slots=graphs.held[in_whole],
        order=order, up=up,
    )  # fmt: skip
