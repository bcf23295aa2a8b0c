"""Blocks of local ascent on factor graphs: the exact step of a variable, moves within a table.

The dual of a graph has a distribution per variable and per factor. They need not agree: for every
slot (a variable in a factor) a message

    delta = eta + kappa * (implied - belief)

penalises the difference of the marginal of the factor (implied) and the belief of the variable. All
numbers are in units of one example: ``scale`` is ``s_i / (alpha W)``, the curvature of a unit
feature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._kernels.jit import leaf
from ..._kernels.simplex import clipped_difference, project
from ..._kernels.team import make_counters
from .ranges import Share, make_results

NEGLIGIBLE = 1e-15
# Moves within a table end when one gains less than this share of the first, or after this number.
ENOUGH = 0.3
MOST_MOVES = 10


class Beliefs(NamedTuple):
    """Dual state of packed graphs."""

    variables: np.ndarray  # distribution over the states of each variable
    tables: np.ndarray  # the same over the entries of the table(s) of each factor
    implied: np.ndarray  # marginals of the factors, one vector per slot
    eta: np.ndarray  # multipliers of the agreement, one vector per slot

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(sum(array.nbytes for array in self))


class Penalty(NamedTuple):
    """Parameters of the blocks."""

    kappa: float  # inverse strength of the penalty on messages, in units of one example
    sigma: float  # smoothing of the maxima
    max_min: bool  # whether the loss of a variable is the max-min one
    exact: bool  # exact and pairwise steps, or those of Frank-Wolfe
    augmented: bool = True  # whether multipliers are updated
    rounds: int = 1  # over the variables and factors of an example in one visit


class Room(NamedTuple):
    """Scratch for one visit."""

    scores: np.ndarray  # (1, n_columns) of a row of features
    change: np.ndarray  # (n_columns,) change of its distributions
    values: np.ndarray  # states of a variable, or entries of a factor
    work: np.ndarray  # twice as many
    answer: np.ndarray
    table: np.ndarray  # entries of a factor
    theta: np.ndarray
    columns: np.ndarray  # weights of a factor, tied, and one more
    support: np.ndarray  # integers: entries of a factor, and one more
    delta: np.ndarray  # messages of a factor
    node: np.ndarray  # the same size
    pointer: np.ndarray  # the same size, integers
    places: np.ndarray  # integers: states of the variables of a factor
    states: np.ndarray  # numbers of all states of an example
    gaps: np.ndarray  # variables of an example
    parts: np.ndarray  # results of ranges of factors, see ranges.py
    found: np.ndarray  # the same of all threads that share visits
    plan: np.ndarray  # integers that tell the steps of factors what comes next, see ranges.py
    share: Share
    counters: np.ndarray  # of these threads


# --- variables ------------------------------------------------------------------------------


@leaf
def gather_messages(graphs, beliefs, kappa, m, a, out):
    """Add the messages of all factors to ``out``, over the states of variable ``a``."""
    k = graphs.n_states[a]
    first = graphs.first_message[m]
    belief = beliefs.variables[graphs.first_state[m] + graphs.state_at[a] :]
    begin, end = graphs.held_at[a], graphs.held_at[a + 1]
    for h in range(begin, end):
        at = first + graphs.message_at[graphs.held[h]]
        for j in range(k):
            out[j] += beliefs.eta[at + j] + kappa * (beliefs.implied[at + j] - belief[j])
    return end - begin


@leaf
def variable_step(theta, belief, truth, cost, curvature, penalty, work, out):
    """New belief of a variable; returns the gap of its block.

    ``theta`` are scores and messages without the loss. The maximum of
    ``loss + theta @ b - curvature/2 |b - belief|^2 - sigma/2 |b|^2`` over the simplex, or its best
    point on the way to the Frank-Wolfe vertex.
    """
    k = theta.shape[0]
    sigma = penalty.sigma
    if not penalty.max_min:
        for j in range(k):
            if j != truth:
                theta[j] += cost
    top = 0
    for j in range(k):
        theta[j] -= sigma * belief[j]
        if theta[j] > theta[top]:
            top = j
    shift = theta[top]
    mean = 0.0
    for j in range(k):
        theta[j] -= shift
        mean += theta[j] * belief[j]
    gap = -mean
    h = curvature + sigma
    if penalty.max_min and cost > 0.0:
        return _max_min_step(theta, belief, cost, h, mean, work, out)
    if not h > 0.0:
        for j in range(k):
            out[j] = 1.0 if j == top else 0.0
    elif not penalty.exact:
        square = 0.0
        for j in range(k):
            d = (1.0 if j == top else 0.0) - belief[j]
            square += d * d
        step = 0.0
        if square > 0.0:
            step = min(1.0, gap / (h * square))
        for j in range(k):
            out[j] = belief[j] + step * ((1.0 if j == top else 0.0) - belief[j])
    elif k == 2:
        move = (theta[1] - theta[0]) / (2.0 * h)
        p = min(1.0, max(0.0, belief[1] + move))
        out[1] = p
        out[0] = 1.0 - p
    else:
        for j in range(k):
            theta[j] = belief[j] + theta[j] / h
        project(theta, work, 1.0, out)
    return gap


@leaf
def _max_min_step(theta, belief, cost, h, mean, work, out):
    """The same for the max-min loss of a variable, ``cost * (1 - max b)``; theta's maximum is 0."""
    k = theta.shape[0]
    largest = belief[0]
    for j in range(1, k):
        largest = max(largest, belief[j])
    value = max_min_value(theta, cost, work)
    gap = value - (cost * (1.0 - largest) + mean)
    if not h > 0.0:
        uniform_on_best(theta, cost, work, out)
        return gap
    for j in range(k):
        theta[j] += h * belief[j]
    clipped_difference(theta, work, h, cost, out)
    return gap


@leaf
def uniform_on_best(theta, cost, work, out):
    """The maximiser of :func:`max_min_value`."""
    best = max_min_value(theta, cost, work)
    k = theta.shape[0]
    for count in range(1, k + 1):
        # The `count` best entries, by their rank.
        total = 0.0
        for j in range(k):
            rank = 0
            for i in range(k):
                rank += theta[i] > theta[j] or (theta[i] == theta[j] and i < j)
            out[j] = 1.0 / count if rank < count else 0.0
            total += theta[j] * out[j]
        if total + cost * (1.0 - 1.0 / count) >= best - 1e-12 * abs(best):
            return


@leaf
def max_min_value(theta, cost, work):
    """``max_b cost * (1 - max b) + theta @ b`` over the simplex: uniform on the best few."""
    k = theta.shape[0]
    for j in range(k):
        work[j] = theta[j]
    total = 0.0
    best = -np.inf
    for count in range(1, k + 1):
        top = 0
        for j in range(1, k):
            if work[j] > work[top]:
                top = j
        if count > 1 and (total + work[top] - cost) / count <= best:
            return cost + best
        total += work[top]
        work[top] = -np.inf
        best = max(best, (total - cost) / count)
    return cost + best


# --- factors --------------------------------------------------------------------------------


@leaf
def is_short(graphs, f):
    """Whether only the mass on equal states is stored for a factor."""
    return graphs.potts[f] and graphs.n_mass[f] == 1


@leaf
def factor_row(graphs, m, f):
    """Row of the features of a factor."""
    step = graphs.factor_step[f]
    return graphs.first_factor_row[m] + step if step > 0 else 0


@leaf
def score_factor(graphs, features, weights, m, f, columns, out):
    """Scores of the entries of the table(s) of a factor."""
    size, n_tied = graphs.n_entries[f], graphs.n_tied[f]
    first = graphs.factor_column[f]
    row = features[factor_row(graphs, m, f)]
    tie_at = graphs.tie_at[f]
    target = out if tie_at < 0 else columns
    z = row[0]
    for j in range(n_tied):
        target[j] = z * weights[0, first + j]
    for p in range(1, features.shape[1]):
        z = row[p]
        if z != 0.0:
            for j in range(n_tied):
                target[j] += z * weights[p, first + j]
    if tie_at >= 0:
        for e in range(size):
            tie = graphs.ties[tie_at + e]
            out[e] = columns[tie] if tie >= 0 else 0.0


@leaf
def tie_of(graphs, f, e):
    """Weight that an entry uses, -1 for none."""
    tie_at = graphs.tie_at[f]
    return e if tie_at < 0 else graphs.ties[tie_at + e]


@leaf
def entry_weight(graphs, weights, f, e):
    """Score of an entry of a table whose only feature is the constant one."""
    tie = tie_of(graphs, f, e)
    return weights[graphs.factor_column[f] + tie] if tie >= 0 else 0.0


@leaf
def add_to_factor(graphs, features, weights, m, f, e, amount):
    """Add ``amount`` times the features of entry e to the weights."""
    tie = tie_of(graphs, f, e)
    if tie >= 0:
        row = features[factor_row(graphs, m, f)]
        column = graphs.factor_column[f] + tie
        for p in range(features.shape[1]):
            weights[p, column] += amount * row[p]


@leaf
def factor_messages(graphs, beliefs, kappa, m, f, out):
    """Messages of all slots of a factor, concatenated."""
    start = graphs.first_message[m]
    states = graphs.first_state[m]
    base = graphs.variables[graphs.shape[m]]
    at = 0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        a = base + graphs.scope[z]
        own = states + graphs.state_at[a]
        place = start + graphs.message_at[z]
        for j in range(graphs.n_states[a]):
            out[at] = beliefs.eta[place + j] + kappa * (
                beliefs.implied[place + j] - beliefs.variables[own + j]
            )
            at += 1


@leaf
def subtract_messages(graphs, m, f, delta, table, out):
    """``out = table`` minus the messages at the states of each entry."""
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    if end - begin == 2:
        k = graphs.n_states[base + graphs.scope[begin]]
        q = graphs.n_states[base + graphs.scope[begin + 1]]
        for a in range(k):
            left = delta[a]
            for b in range(q):
                out[a * q + b] = table[a * q + b] - left - delta[k + b]
        return
    size = graphs.n_entries[f]
    for e in range(size):
        out[e] = table[e]
    at = 0
    for z in range(begin, end):
        states = graphs.maps[graphs.map_at[z] :]
        for e in range(size):
            out[e] -= delta[at + states[e]]
        at += graphs.n_states[base + graphs.scope[z]]


@leaf
def _move_between(data, beliefs, weights, penalty, m, f, worst, best, diff, room):
    """Move mass from one entry to another: the best amount, at most all of it."""
    graphs = data.graphs
    features = data.features
    scale = data.scales[m]
    base = graphs.variables[graphs.shape[m]]
    begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
    row = features[factor_row(graphs, m, f)]
    square = 0.0
    for p in range(row.shape[0]):
        square += row[p] * row[p]
    tie_best, tie_worst = tie_of(graphs, f, best), tie_of(graphs, f, worst)
    curvature = 2.0 * penalty.sigma
    if tie_best != tie_worst:
        curvature += scale * square * ((tie_best >= 0) + (tie_worst >= 0))
    for z in range(begin, end):
        states = graphs.maps[graphs.map_at[z] :]
        if states[best] != states[worst]:
            curvature += 2.0 * penalty.kappa
    mass = beliefs.tables[graphs.first_mass[m] + graphs.mass_at[f] :]
    step = mass[worst]
    if curvature * step > diff:
        step = diff / curvature
        mass[worst] -= step
    else:
        mass[worst] = 0.0
    mass[best] += step
    if tie_best != tie_worst:
        add_to_factor(graphs, features, weights, m, f, best, -scale * step)
        add_to_factor(graphs, features, weights, m, f, worst, scale * step)
    # Own scores: all entries that share a weight with one of the two.
    change = scale * square * step
    if tie_best != tie_worst:
        if graphs.tie_at[f] < 0:
            room.table[best] -= change
            room.table[worst] += change
        else:
            for e in range(graphs.n_entries[f]):
                tie = tie_of(graphs, f, e)
                if tie >= 0 and tie == tie_best:
                    room.table[e] -= change
                elif tie >= 0 and tie == tie_worst:
                    room.table[e] += change
    at = 0
    for z in range(begin, end):
        states = graphs.maps[graphs.map_at[z] :]
        i, j = states[best], states[worst]
        if i != j:
            place = graphs.first_message[m] + graphs.message_at[z]
            beliefs.implied[place + i] += step
            beliefs.implied[place + j] -= step
            room.delta[at + i] += penalty.kappa * step
            room.delta[at + j] -= penalty.kappa * step
        at += graphs.n_states[base + graphs.scope[z]]


@leaf
def table_step(data, beliefs, weights, penalty, m, f, room):
    """Moves within a table, from the worst entry with mass to the best; returns the gap."""
    graphs = data.graphs
    features = data.features
    size = graphs.n_entries[f]
    mass = beliefs.tables[graphs.first_mass[m] + graphs.mass_at[f] :]
    score_factor(graphs, features, weights, m, f, room.columns, room.table)
    factor_messages(graphs, beliefs, penalty.kappa, m, f, room.delta)
    gap = 0.0
    first = 0.0
    for count in range(MOST_MOVES):
        subtract_messages(graphs, m, f, room.delta, room.table, room.theta)
        theta = room.theta
        best, worst = 0, -1
        high, low = -np.inf, np.inf
        mean = 0.0
        for e in range(size):
            value = theta[e]
            if mass[e] > 0.0:
                value -= penalty.sigma * mass[e]
                mean += value * mass[e]
                if value < low:
                    low = value
                    worst = e
            if value > high:
                high = value
                best = e
        diff = high - low
        if count == 0:
            first = diff
            gap = high - mean
        if best == worst or diff <= NEGLIGIBLE or diff < ENOUGH * first:
            break
        _move_between(data, beliefs, weights, penalty, m, f, worst, best, diff, room)
    return gap


@leaf
def move_multipliers(graphs, beliefs, kappa, m, f):
    """``eta += kappa * (implied - belief)`` at a factor; returns the squared disagreement."""
    base = graphs.variables[graphs.shape[m]]
    total = 0.0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        a = base + graphs.scope[z]
        at = graphs.first_message[m] + graphs.message_at[z]
        own = graphs.first_state[m] + graphs.state_at[a]
        for j in range(graphs.n_states[a]):
            off = beliefs.implied[at + j] - beliefs.variables[own + j]
            beliefs.eta[at + j] += kappa * off
            total += off * off
    return total


def make_room(graphs: Any) -> Room:
    """Scratch for the largest variable and factor."""
    k = int(graphs.n_states.max(initial=1))
    entries = int(graphs.n_entries.max(initial=1))
    arity = int(np.diff(graphs.scope_at).max(initial=1))
    messages = max(40, arity * k)  # four tables of binary pairs at once need 40 numbers
    largest = max(k, entries)
    variables = int(np.diff(graphs.variables).max(initial=1))
    results = make_results(variables)
    return Room(
        scores=np.empty((1, graphs.n_columns)),
        change=np.zeros(graphs.n_columns),
        values=np.empty(largest),
        work=np.empty(2 * largest),
        answer=np.empty(largest),
        table=np.empty(entries),
        theta=np.empty(largest),
        columns=np.empty(int(graphs.n_tied.max(initial=1)) + 1),
        support=np.empty(entries + 1, np.int32),
        delta=np.empty(messages),
        node=np.empty(messages),
        pointer=np.empty(messages, np.int32),
        places=np.empty(arity, np.int32),
        states=np.empty(int(np.diff(graphs.first_state).max(initial=1))),
        gaps=np.empty(variables),
        parts=results,
        found=results,
        plan=np.zeros(2, np.int64),
        share=Share(),
        counters=make_counters(1),
    )
