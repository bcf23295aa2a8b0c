"""The relaxation of binary pairwise graphs over the local polytope, exactly, by one maximum flow.

Its optimum is half-integral: every variable is in state 1 by 0, 1/2 or 1. Where it is integral some
best labelling agrees with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import compiled, leaf
from ..structures.graph import Graphs
from .max_flow import load_network, make_network, run_flow
from .pairs import BINARY, PAIRWISE, Pairs, pair_up


class Relaxed(NamedTuple):
    """Optimum of the relaxation over the local polytope, of each example.

    ``unary`` has a number for each state and ``tables`` for each entry of a table; ``values`` are
    the scores, upper bounds of the score of any labelling.
    """

    unary: np.ndarray
    tables: np.ndarray
    values: np.ndarray


@leaf
def half_labels(graphs, pairs, s, unary, tables, fixed, net, halves):
    """Write twice the optimal marginal of state 1 of each variable: 0, 1 or 2.

    ``net`` has two copies; ``fixed[v]`` is the state of a fixed variable, else -1. Returns the
    number of variables that are undecided.
    """
    load_network(graphs, pairs, s, unary, tables, fixed, net, 2)
    run_flow(graphs, pairs, s, net, 2)
    undecided = 0
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        one, zero = net.level[2 * v] > 0, net.level[2 * v + 1] > 0
        halves[v] = 1 if one == zero else 2 * one
        undecided += one == zero
    return undecided


@leaf
def half_pair(t00, t01, t10, t11, i, j):
    """Best marginals of a pair (state 00, 01, 10, 11) whose variables have these halves."""
    if i == 1 and j == 1:
        both = 0.5 if (t00 - t01) + (t11 - t10) >= 0.0 else 0.0
    else:
        both = 0.25 * i * j
    return 1.0 - 0.5 * (i + j) + both, 0.5 * j - both, 0.5 * i - both, both


@leaf
def half_score(graphs, pairs, s, unary, tables, halves):
    """Score of half-integral marginals, every pair at its best."""
    base = graphs.variables[s]
    total = 0.0
    for v in range(graphs.variables[s + 1] - base):
        at = graphs.state_at[base + v]
        total += (1.0 - 0.5 * halves[v]) * unary[at] + 0.5 * halves[v] * unary[at + 1]
    for q in range(pairs.singles[s], pairs.singles[s + 1]):
        at, half = pairs.single_entry[q], 0.5 * halves[pairs.single[q]]
        total += (1.0 - half) * tables[at] + half * tables[at + 1]
    for p in range(pairs.pairs[s], pairs.pairs[s + 1]):
        at = pairs.entry[p]
        t00, t01, t10, t11 = tables[at], tables[at + 1], tables[at + 2], tables[at + 3]
        i, j = halves[pairs.first[p]], halves[pairs.second[p]]
        m00, m01, m10, m11 = half_pair(t00, t01, t10, t11, i, j)
        total += m00 * t00 + m01 * t01 + m10 * t10 + m11 * t11
    return total


@leaf
def write_marginals(graphs, pairs, s, tables, halves, unary_out, tables_out):
    """Marginals of the states and the tables of an example from those of its variables."""
    base = graphs.variables[s]
    for v in range(graphs.variables[s + 1] - base):
        at = graphs.state_at[base + v]
        unary_out[at + 1] = 0.5 * halves[v]
        unary_out[at] = 1.0 - unary_out[at + 1]
    for q in range(pairs.singles[s], pairs.singles[s + 1]):
        at, half = pairs.single_entry[q], 0.5 * halves[pairs.single[q]]
        tables_out[at] = 1.0 - half
        tables_out[at + 1] = half
    for p in range(pairs.pairs[s], pairs.pairs[s + 1]):
        at = pairs.entry[p]
        found = half_pair(
            tables[at], tables[at + 1], tables[at + 2], tables[at + 3],
            halves[pairs.first[p]], halves[pairs.second[p]],
        )  # fmt: skip
        for k in range(4):
            tables_out[at + k] = found[k]


@leaf
def relax_example(graphs, pairs, s, unary, tables, fixed, net, halves, unary_out, tables_out):
    """Optimum of the relaxation of one example; returns its value. The oracle of a solver."""
    half_labels(graphs, pairs, s, unary, tables, fixed, net, halves)
    write_marginals(graphs, pairs, s, tables, halves, unary_out, tables_out)
    return half_score(graphs, pairs, s, unary, tables, halves)


@compiled
def largest_shape(graphs, pairs):
    """The largest numbers of variables and pairs that a shape has."""
    n_variables, n_pairs = 1, 1
    for s in range(len(graphs.variables) - 1):
        n_variables = max(n_variables, graphs.variables[s + 1] - graphs.variables[s])
        n_pairs = max(n_pairs, pairs.pairs[s + 1] - pairs.pairs[s])
    return n_variables, n_pairs


@compiled
def _relax_all(graphs, pairs, unary, tables, unary_out, tables_out, values):
    n_variables, n_pairs = largest_shape(graphs, pairs)
    net = make_network(n_variables, n_pairs, 2)
    halves = np.empty(n_variables, np.int8)
    fixed = np.full(n_variables, -1, np.int8)
    for m in range(len(graphs.shape)):
        states = slice(graphs.first_state[m], graphs.first_state[m + 1])
        entries = slice(graphs.first_entry[m], graphs.first_entry[m + 1])
        values[m] = relax_example(
            graphs, pairs, graphs.shape[m], unary[states], tables[entries], fixed, net, halves,
            unary_out[states], tables_out[entries],
        )  # fmt: skip


def roof_duality(
    graphs: Graphs, unary: np.ndarray, tables: np.ndarray, pairs: Pairs | None = None
) -> Relaxed:
    """Relaxation of binary pairwise graphs over the local polytope, solved exactly.

    Parameters
    ----------
    graphs : Graphs
        Every variable has two states; tables are over one or two variables; no counts.
    unary, tables : arrays of float
        Scores of the states of all examples, and of the entries of their tables.
    pairs : Pairs, optional
        ``pair_up(graphs)``, to save its time when called often.
    """
    pairs = pair_up(graphs) if pairs is None else pairs
    wanted = PAIRWISE | BINARY
    bad = np.flatnonzero((pairs.traits[graphs.shape] & wanted) != wanted)
    if len(bad):
        raise ValueError(
            f"graph {bad[0]}: roof duality needs variables with two states and tables over at most "
            'two of them, and no counts; use method="lp".'
        )
    unary = np.ascontiguousarray(unary, dtype=np.float64)
    tables = np.ascontiguousarray(tables, dtype=np.float64)
    found = Relaxed(np.empty_like(unary), np.empty_like(tables), np.empty(len(graphs.shape)))
    _relax_all(graphs, pairs, unary, tables, *found)
    return found
