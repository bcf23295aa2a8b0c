"""Improve a labelling by changing one variable, or two at once.

Counts come first: a move that brings them nearer to what they allow is taken at any score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import compiled, leaf
from ..structures.graph import COUNT
from .scores import excess_of_count, n_on, own_scores, scores_given_others

# Examples up to this size try all pairs of variables, others only pairs and swaps within a count.
_SMALL = 64
_LARGEST_SWAP = 1000  # variables in a count
_MAX_ROUNDS = 100


class Climber(NamedTuple):
    """Scratch of the search."""

    own: np.ndarray  # scores of the states, those of the tables over one variable included
    on: np.ndarray  # variables in state 1, of every factor
    given: np.ndarray
    given_other: np.ndarray


@compiled
def make_climber(n_states: int, n_factors: int, most_states: int) -> Climber:
    """Scratch for examples of at most these sizes."""
    return Climber(
        np.empty(n_states),
        np.zeros(n_factors, np.int64),
        np.empty(most_states),
        np.empty(most_states),
    )


@leaf
def _count_change(graphs, pairs, s, on, v, old, new):
    """Change of the excesses of all counts if variable v changes its state."""
    change = 0
    a = graphs.variables[s] + v
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        f = graphs.slot_factor[pairs.slots[q]]
        if graphs.kind[f] == COUNT:
            found = on[f - graphs.factors[s]]
            change += excess_of_count(graphs, f, found + new - old)
            change -= excess_of_count(graphs, f, found)
    return change


@leaf
def _set(graphs, pairs, s, on, labels, v, new):
    a = graphs.variables[s] + v
    for q in range(pairs.slot_at[a], pairs.slot_at[a + 1]):
        f = graphs.slot_factor[pairs.slots[q]]
        if graphs.kind[f] == COUNT:
            on[f - graphs.factors[s]] += new - labels[v]
    labels[v] = new


@leaf
def _best_state(graphs, pairs, s, tables, climber, labels, v, given):
    """The best other state of v: state, change of the excesses, gain. ``given`` is scratch."""
    scores_given_others(graphs, pairs, s, climber.own, tables, labels, v, given)
    now = labels[v]
    best, best_change, best_gain = -1, 0, -np.inf
    for state in range(graphs.n_states[graphs.variables[s] + v]):
        if state != now:
            change = _count_change(graphs, pairs, s, climber.on, v, now, state)
            gain = given[state] - given[now]
            if best < 0 or change < best_change or (change == best_change and gain > best_gain):
                best, best_change, best_gain = state, change, gain
    return best, best_change, best_gain


@leaf
def _single_moves(graphs, pairs, s, tables, climber, labels, least):
    moved = False
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        state, change, gain = _best_state(
            graphs, pairs, s, tables, climber, labels, v, climber.given
        )
        if state >= 0 and (change < 0 or (change == 0 and gain > least)):
            _set(graphs, pairs, s, climber.on, labels, v, state)
            moved = True
    return moved


@leaf
def _try_other(graphs, pairs, s, tables, climber, labels, v, change, gain, least, other):
    """After v moved: move the other variable too if both together pay."""
    if other == v:
        return False
    state, more, gain_other = _best_state(
        graphs, pairs, s, tables, climber, labels, other, climber.given_other
    )
    change += more
    if state >= 0 and (change < 0 or (change == 0 and gain + gain_other > least)):
        _set(graphs, pairs, s, climber.on, labels, other, state)
        return True
    return False


@leaf
def _try_others(graphs, pairs, s, tables, climber, labels, v, change, gain, least):
    """Try to move a second variable: any one if the example is small, else related ones."""
    base = graphs.variables[s]
    n = graphs.variables[s + 1] - base
    if n <= _SMALL:
        for other in range(n):
            if _try_other(
                graphs, pairs, s, tables, climber, labels, v, change, gain, least, other
            ):
                return True
        return False
    for q in range(pairs.near_at[base + v], pairs.near_at[base + v + 1]):
        p = pairs.near[q]
        other = pairs.second[p] if pairs.first[p] == v else pairs.first[p]
        if _try_other(
            graphs, pairs, s, tables, climber, labels, v, change, gain, least, other
        ):
            return True
    for q in range(pairs.slot_at[base + v], pairs.slot_at[base + v + 1]):
        f = graphs.slot_factor[pairs.slots[q]]
        start, end = graphs.scope_at[f], graphs.scope_at[f + 1]
        if graphs.kind[f] == COUNT and end - start > _LARGEST_SWAP:
            continue
        for z in range(start, end):
            other = graphs.scope[z]
            if _try_other(
                graphs, pairs, s, tables, climber, labels, v, change, gain, least, other
            ):
                return True
    return False


@leaf
def _double_moves(graphs, pairs, s, tables, climber, labels, least):
    base = graphs.variables[s]
    moved = False
    for v in range(graphs.variables[s + 1] - base):
        state = 0
        while state < graphs.n_states[base + v]:
            before = labels[v]
            if state != before:
                scores_given_others(
                    graphs, pairs, s, climber.own, tables, labels, v, climber.given
                )
                gain = climber.given[state] - climber.given[before]
                change = _count_change(graphs, pairs, s, climber.on, v, before, state)
                _set(graphs, pairs, s, climber.on, labels, v, state)
                if _try_others(
                    graphs, pairs, s, tables, climber, labels, v, change, gain, least
                ):
                    moved = True
                else:
                    _set(graphs, pairs, s, climber.on, labels, v, before)
            state += 1
    return moved


@leaf
def climb(graphs, pairs, s, unary, tables, climber, labels, double):
    """Improve the labels of an example until no move helps; ``double``: also two at once."""
    own_scores(graphs, pairs, s, unary, tables, climber.own)
    for w in range(pairs.wholes[s], pairs.wholes[s + 1]):
        f = pairs.whole[w]
        if graphs.kind[f] == COUNT:
            climber.on[f - graphs.factors[s]] = n_on(graphs, s, f, labels)
    largest = 0.0
    for k in range(len(unary)):
        largest = max(largest, abs(climber.own[k]))
    least = 1e-12 * (1.0 + largest)  # a gain below is rounding, and could go round in circles
    for _ in range(_MAX_ROUNDS):
        if _single_moves(graphs, pairs, s, tables, climber, labels, least):
            continue
        if not double or not _double_moves(graphs, pairs, s, tables, climber, labels, least):
            break
