"""The relaxation of binary pairwise graphs over the local polytope, exactly, by one maximum flow.

Its optimum is half-integral: the marginal of state 1 of every variable is 0, 1/2 or 1. Some best
labelling is equal to it where it is integral.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import inner, leaf
from .max_flow import load_network, run_flow


class Relaxed(NamedTuple):
    """Optimum of the relaxation over the local polytope, of each example.

    ``unary`` has a number for each state and ``tables`` for each entry of a table; ``values`` are
    the scores, upper bounds on the score of any labelling.
    """

    unary: np.ndarray
    tables: np.ndarray
    values: np.ndarray


@leaf
def half_labels(plan, s, unary, tables, fixed, net, halves):
    """Write twice the optimal marginal of state 1 of each variable: 0, 1 or 2.

    ``net`` has two copies; ``fixed[v]`` is the state of a fixed variable, else -1. Returns the
    number of variables that are undecided.
    """
    load_network(plan, s, unary, tables, fixed, net, 2)
    run_flow(plan, s, net, 2)
    undecided = 0
    for v in range(plan.variables[s + 1] - plan.variables[s]):
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
def half_score(plan, s, unary, tables, halves):
    """Score of half-integral marginals, with the best marginals of every pair."""
    base = plan.variables[s]
    total = 0.0
    for v in range(plan.variables[s + 1] - base):
        at = plan.state_at[base + v]
        total += (1.0 - 0.5 * halves[v]) * unary[at] + 0.5 * halves[v] * unary[at + 1]
    for q in range(plan.singles[s], plan.singles[s + 1]):
        at, half = plan.single_entry[q], 0.5 * halves[plan.single[q]]
        total += (1.0 - half) * tables[at] + half * tables[at + 1]
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        at = plan.entry[p]
        t00, t01, t10, t11 = tables[at], tables[at + 1], tables[at + 2], tables[at + 3]
        i, j = halves[plan.first[p]], halves[plan.second[p]]
        m00, m01, m10, m11 = half_pair(t00, t01, t10, t11, i, j)
        total += m00 * t00 + m01 * t01 + m10 * t10 + m11 * t11
    return total


@inner
def largest_shape(plan):
    """The largest numbers of variables and pairs that a shape has."""
    n_variables, n_pairs = 1, 1
    for s in range(len(plan.variables) - 1):
        n_variables = max(n_variables, plan.variables[s + 1] - plan.variables[s])
        n_pairs = max(n_pairs, plan.pairs[s + 1] - plan.pairs[s])
    return n_variables, n_pairs
