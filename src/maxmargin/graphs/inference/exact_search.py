"""Exact search: all labellings of tiny examples, and branch and bound with roof duality."""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import inner, leaf
from .roof_duality import half_labels, half_score
from .scores import labelling_score


@leaf
def enumerate_labels(plan, s, unary, tables, trial, labels):
    """Best of all labellings, the first one among equals; returns its score. ``trial``: scratch."""
    base = plan.variables[s]
    n = plan.variables[s + 1] - base
    trial[:n] = 0
    labels[:n] = 0
    best = -np.inf
    while True:
        value = labelling_score(plan, s, unary, tables, trial)
        if value > best:
            best = value
            for v in range(n):
                labels[v] = trial[v]
        v = n - 1
        while v >= 0 and trial[v] == plan.n_states[base + v] - 1:
            trial[v] = 0
            v -= 1
        if v < 0:
            return best
        trial[v] += 1


@leaf
def _fix_decided(fixed, halves, n, trail, length):
    """Fix variables that the relaxation decides; returns the new length of the trail."""
    for v in range(n):
        if fixed[v] < 0 and halves[v] != 1:
            fixed[v] = halves[v] // 2
            trail[length] = v
            length += 1
    return length


@leaf
def _most_involved(plan, s, tables, halves, weight, n):
    """The undecided variable with the strongest pairs to undecided ones. ``weight`` is scratch."""
    weight[:n] = 0.0
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        i, j = plan.first[p], plan.second[p]
        if halves[i] == 1 and halves[j] == 1:
            at = plan.entry[p]
            strength = abs((tables[at] - tables[at + 1]) + (tables[at + 3] - tables[at + 2]))
            weight[i] += strength
            weight[j] += strength
    chosen = -1
    for v in range(n):
        if halves[v] == 1 and (chosen < 0 or weight[v] > weight[chosen]):
            chosen = v
    return chosen


@inner
def branch_and_bound(plan, s, unary, tables, net, labels, best, max_nodes):
    """Improve the labels of a binary pairwise example, with roof duality as the bound.

    Starts from ``labels`` with score ``best``; returns the best score and an upper bound, equal if
    the search ended before it had solved ``max_nodes`` relaxations.
    """
    n = plan.variables[s + 1] - plan.variables[s]
    fixed = np.full(n, -1, np.int8)
    halves = np.empty(n, np.int8)
    weight = np.empty(n)
    trail = np.empty(n, np.int32)
    after = np.empty(n, np.int64)  # length of the trail after the choice of a level
    bounds = np.empty(n)
    turned = np.empty(n, np.bool_)  # whether the second state of a level is being tried
    length = depth = n_nodes = 0
    unexplored = -np.inf
    while True:
        undecided = half_labels(plan, s, unary, tables, fixed, net, halves)
        bound = half_score(plan, s, unary, tables, halves)
        n_nodes += 1
        least = 1e-12 * (1.0 + abs(bound))
        if undecided == 0 and bound > best:
            best = bound
            for v in range(n):
                labels[v] = halves[v] // 2
        if undecided > 0 and bound > best + least and n_nodes < max_nodes:
            length = _fix_decided(fixed, halves, n, trail, length)
            v = _most_involved(plan, s, tables, halves, weight, n)
            fixed[v] = labels[v]
            trail[length] = v
            length += 1
            after[depth], bounds[depth], turned[depth] = length, bound, False
            depth += 1
            continue
        if undecided > 0 and bound > best + least:
            unexplored = max(unexplored, bound)
        while depth > 0 and (turned[depth - 1] or bounds[depth - 1] <= best + least):
            depth -= 1
            first = after[depth - 1] if depth > 0 else 0
            while length > first:
                length -= 1
                fixed[trail[length]] = -1
        if depth == 0:
            return best, max(best, unexplored)
        while length > after[depth - 1]:
            length -= 1
            fixed[trail[length]] = -1
        v = trail[length - 1]
        fixed[v] = 1 - fixed[v]
        turned[depth - 1] = True
