"""Improve a labelling by changing one variable, or two at once.

Counts come first: a move that reduces their violation is accepted at any score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import inner, leaf
from .scores import own_scores, scores_given_others
from .whole_labels import change_counts, count_labels, excess_change, list_related

# Examples up to this size try all pairs of variables, others only those that share a factor.
_SMALL = 64
_MOST_OTHERS = 1000  # variables tried together with one
_MAX_ROUNDS = 100


class Climber(NamedTuple):
    """Scratch of the search."""

    own: np.ndarray  # scores of the states, those of the tables over one variable included
    on: np.ndarray  # variables in state 1, of every factor
    given: np.ndarray
    given_other: np.ndarray
    others: np.ndarray


@inner
def make_climber(n_states: int, n_factors: int, most_states: int) -> Climber:
    """Scratch for examples of at most these sizes."""
    return Climber(
        np.empty(n_states),
        np.zeros(n_factors, np.int64),
        np.empty(most_states),
        np.empty(most_states),
        np.empty(_MOST_OTHERS, np.int32),
    )


@leaf
def _set(plan, s, on, labels, v, new):
    change_counts(plan, s, on, v, new - labels[v])
    labels[v] = new


@leaf
def _best_state(plan, s, tables, climber, labels, v, given):
    """The best other state of v: state, change of the excesses, gain. ``given`` is scratch."""
    scores_given_others(plan, s, climber.own, tables, labels, v, given)
    now = labels[v]
    best, best_change, best_gain = -1, 0, -np.inf
    for state in range(plan.n_states[plan.variables[s] + v]):
        if state != now:
            change = excess_change(plan, s, climber.on, v, now, state)
            gain = given[state] - given[now]
            if best < 0 or change < best_change or (change == best_change and gain > best_gain):
                best, best_change, best_gain = state, change, gain
    return best, best_change, best_gain


@leaf
def _single_moves(plan, s, tables, climber, labels, least):
    moved = False
    for v in range(plan.variables[s + 1] - plan.variables[s]):
        state, change, gain = _best_state(plan, s, tables, climber, labels, v, climber.given)
        if state >= 0 and (change < 0 or (change == 0 and gain > least)):
            _set(plan, s, climber.on, labels, v, state)
            moved = True
    return moved


@leaf
def _list_others(plan, s, v, others):
    """Variables to move together with v: all if the example is small, else related ones."""
    base = plan.variables[s]
    n = plan.variables[s + 1] - base
    if n <= _SMALL:
        for other in range(n):
            others[other] = other
        return n
    found = 0
    for q in range(plan.near_at[base + v], plan.near_at[base + v + 1]):
        if found < len(others):
            p = plan.near[q]
            others[found] = plan.second[p] if plan.first[p] == v else plan.first[p]
            found += 1
    return list_related(plan, s, v, others, found)


@leaf
def _move_other(plan, s, tables, climber, labels, v, change, gain, least):
    """After v moved: move a second variable if both moves together improve the labelling."""
    for k in range(_list_others(plan, s, v, climber.others)):
        other = climber.others[k]
        if other != v:
            state, more, gained = _best_state(
                plan, s, tables, climber, labels, other, climber.given_other
            )
            total = change + more
            if state >= 0 and (total < 0 or (total == 0 and gain + gained > least)):
                _set(plan, s, climber.on, labels, other, state)
                return True
    return False


@leaf
def _double_moves(plan, s, tables, climber, labels, least):
    base = plan.variables[s]
    moved = False
    for v in range(plan.variables[s + 1] - base):
        state = 0
        while state < plan.n_states[base + v]:
            before = labels[v]
            if state != before:
                scores_given_others(plan, s, climber.own, tables, labels, v, climber.given)
                gain = climber.given[state] - climber.given[before]
                change = excess_change(plan, s, climber.on, v, before, state)
                _set(plan, s, climber.on, labels, v, state)
                if _move_other(plan, s, tables, climber, labels, v, change, gain, least):
                    moved = True
                else:
                    _set(plan, s, climber.on, labels, v, before)
            state += 1
    return moved


@leaf
def climb(plan, s, unary, tables, climber, labels):
    """Improve the labels of an example until no move of one or two variables helps."""
    own_scores(plan, s, unary, tables, climber.own)
    count_labels(plan, s, labels, climber.on)
    largest = 0.0
    for k in range(len(unary)):
        largest = max(largest, abs(climber.own[k]))
    least = 1e-12 * (1.0 + largest)  # a smaller gain is a rounding error, and moves could cycle
    for _ in range(_MAX_ROUNDS):
        if _single_moves(plan, s, tables, climber, labels, least):
            continue
        if not _double_moves(plan, s, tables, climber, labels, least):
            break
