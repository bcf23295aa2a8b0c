"""Moves within the table of a pair of variables, optimised for tables with hundreds of entries.

Scores are updated from move to move, rows are searched by vector instructions, and only entries
with mass are searched for mass.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from .agreement import (
    ENOUGH,
    MOST_MOVES,
    NEGLIGIBLE,
    add_to_factor,
    factor_messages,
    factor_row,
    tie_of,
)


@leaf
def _score_pair(graphs, features, weights, m, f, columns, out):
    """Scores of the entries; ``columns`` has one more entry, the weight 0 of untied entries."""
    size, n_tied = graphs.n_entries[f], graphs.n_tied[f]
    first, tie_at = graphs.factor_column[f], graphs.tie_at[f]
    row = features[factor_row(graphs, m, f)]
    target = out[:n_tied] if tie_at < 0 else columns[1 : n_tied + 1]
    z = row[0]
    for j in range(n_tied):
        target[j] = z * weights[0, first + j]
    for p in range(1, row.shape[0]):
        z = row[p]
        for j in range(n_tied):
            target[j] += z * weights[p, first + j]
    if tie_at >= 0:
        columns[0] = 0.0
        for e in range(size):
            out[e] = columns[graphs.ties[tie_at + e] + 1]


@leaf
def _change_tied(graphs, f, best, worst, change, theta):
    """Update the scores of all entries that share a weight with one of the two of a move."""
    tie_at = graphs.tie_at[f]
    if tie_at < 0:
        theta[best] -= change
        theta[worst] += change
        return
    tie_best, tie_worst = graphs.ties[tie_at + best], graphs.ties[tie_at + worst]
    if tie_best >= 0:
        for e in range(graphs.n_entries[f]):
            theta[e] -= change if graphs.ties[tie_at + e] == tie_best else 0.0
    if tie_worst >= 0:
        for e in range(graphs.n_entries[f]):
            theta[e] += change if graphs.ties[tie_at + e] == tie_worst else 0.0


@leaf
def _shift_row(theta, row, q, amount):
    for b in range(q):
        theta[row * q + b] += amount


@leaf
def _shift_column(theta, column, k, q, amount):
    for a in range(k):
        theta[a * q + column] += amount


@leaf
def _best_of(theta, k, q):
    """Place of the largest entry: the best row first, by its maximum."""
    high, row = -np.inf, 0
    for a in range(k):
        top = -np.inf
        for b in range(q):
            value = theta[a * q + b]
            top = value if value > top else top
        if top > high:
            high = top
            row = a
    for b in range(q):
        if theta[row * q + b] == high:
            return row * q + b
    return row * q


@leaf
def pair_table_step(graphs, features, beliefs, weights, scale, penalty, m, f, room):
    """As :func:`table_step`, for two variables and no smoothing; returns the gap of the block."""
    kappa = penalty.kappa
    base = graphs.variables[graphs.shape[m]]
    z = graphs.scope_at[f]
    k = graphs.n_states[base + graphs.scope[z]]
    q = graphs.n_states[base + graphs.scope[z + 1]]
    size = graphs.n_entries[f]
    start = graphs.first_mass[m] + graphs.mass_at[f]
    mass = beliefs.tables[start : start + size]
    left = graphs.first_message[m] + graphs.message_at[z]
    right = graphs.first_message[m] + graphs.message_at[z + 1]
    theta, support = room.theta, room.support
    _score_pair(graphs, features, weights, m, f, room.columns, theta)
    factor_messages(graphs, beliefs, kappa, m, f, room.delta)
    for a in range(k):
        own = room.delta[a]
        for b in range(q):
            theta[a * q + b] -= own + room.delta[k + b]
    row = features[factor_row(graphs, m, f)]
    square = 0.0
    for p in range(row.shape[0]):
        square += row[p] * row[p]
    n_support = 0
    for e in range(size):
        support[n_support] = e
        n_support += mass[e] > 0.0
    gap, first = 0.0, 0.0
    for count in range(MOST_MOVES):
        best = _best_of(theta, k, q)
        high, low, worst, mean = theta[best], np.inf, -1, 0.0
        for place in range(n_support):
            e = support[place]
            if mass[e] > 0.0:
                mean += theta[e] * mass[e]
                if theta[e] < low:
                    low = theta[e]
                    worst = e
        diff = high - low
        if count == 0:
            first = diff
            gap = high - mean
        if best == worst or diff <= NEGLIGIBLE or diff < ENOUGH * first:
            break
        tie_best, tie_worst = tie_of(graphs, f, best), tie_of(graphs, f, worst)
        a, b = best // q, best % q
        i, j = worst // q, worst % q
        curvature = 2.0 * kappa * ((a != i) + (b != j))
        if tie_best != tie_worst:
            curvature += scale * square * ((tie_best >= 0) + (tie_worst >= 0))
        step = mass[worst]
        if curvature * step > diff:
            step = diff / curvature
            mass[worst] -= step
        else:
            mass[worst] = 0.0
        if mass[best] == 0.0:
            known = False
            for place in range(n_support):
                known = known or support[place] == best
            if not known:
                support[n_support] = best
                n_support += 1
        mass[best] += step
        if tie_best != tie_worst:
            add_to_factor(graphs, features, weights, m, f, best, -scale * step)
            add_to_factor(graphs, features, weights, m, f, worst, scale * step)
            _change_tied(graphs, f, best, worst, scale * square * step, theta)
        if a != i:
            beliefs.implied[left + a] += step
            beliefs.implied[left + i] -= step
            _shift_row(theta, a, q, -kappa * step)
            _shift_row(theta, i, q, kappa * step)
        if b != j:
            beliefs.implied[right + b] += step
            beliefs.implied[right + j] -= step
            _shift_column(theta, b, k, q, -kappa * step)
            _shift_column(theta, j, k, q, kappa * step)
    return gap
