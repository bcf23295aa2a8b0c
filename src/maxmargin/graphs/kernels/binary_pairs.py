"""Moves within tables of two binary variables: all factors of an example in one loop.

For graphs in which every factor is such a table with a constant feature: interactions of labels.
Entries have weights of their own, share them, or have none.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from ..._kernels.vector import prefetch
from .agreement import ENOUGH, MOST_MOVES, NEGLIGIBLE, entry_weight, tie_of
from .four_pairs import move_four, move_four_tied
from .ranges import (
    AHEAD,
    GAP,
    LANES,
    RESIDUAL,
    SUMS,
    WANTS_SUMS,
    count_ranges,
    own_ranges,
    publish,
    range_ends,
)

# Values of ``graphs.binary_pairs``.
BINARY_PAIRS, IN_ORDER, TIED_IN_ORDER = 1, 2, 3
# Most moves within a table whose entries share weights, in a round. Rounds follow each other with
# new beliefs of the variables, so that more moves are seldom worth their time.
TIED_MOVES = 1


@leaf
def binary_pairs_step(data, beliefs, weights, penalty, m, wants_gap, room):
    """Moves within the factors of an example, of own ranges; ``found`` of the scratch receives the
    sums of gaps, if wanted, and of squared disagreement.

    All offsets follow from the index of the factor, so few arrays are read. Where sums are wanted,
    ``found`` also receives what the next steps of the variables need: the sums over slots of
    ``eta + kappa * implied``.
    """
    graphs = data.graphs
    s = graphs.shape[m]
    n_variables = graphs.variables[s + 1] - graphs.variables[s]
    fours = graphs.binary_pairs[s] >= IN_ORDER and penalty.sigma == 0.0
    if graphs.binary_pairs[s] == TIED_IN_ORDER:
        _write_shared(graphs, graphs.factors[s], room.delta[6 * LANES :])
    if fours:
        # Read once: what another thread has changed comes from its cache, all at the same time.
        for v in range(n_variables):
            room.states[v] = beliefs.variables[graphs.first_state[m] + 2 * v + 1]
    n_ranges = count_ranges(graphs, s)
    first, last = own_ranges(room.share, n_ranges)
    for g in range(first, last):
        begin, end = range_ends(graphs, s, n_ranges, g)
        part = room.parts[g]
        sums = part[SUMS : SUMS + n_variables]
        sums[:] = 0.0
        done, gap, residual = begin, 0.0, 0.0
        if fours:
            done = end - (end - begin) % LANES
            gap, residual = _four_at_a_time(
                data, beliefs, weights, penalty, m, sums, room, begin, done
            )
        more, further = _one_at_a_time(
            graphs, beliefs, weights, data.scales[m], penalty, m, sums, done, end
        )
        if wants_gap:
            part[GAP] = gap + more
        part[RESIDUAL] = residual + further
    end = SUMS + n_variables if room.plan[WANTS_SUMS] != 0 else SUMS
    publish(room, n_ranges, GAP if wants_gap else RESIDUAL, end)


@leaf
def _write_shared(graphs, f, out):
    """Which entries of a table use the same weight: a matrix, row by row."""
    for e in range(4):
        for other in range(4):
            tie = tie_of(graphs, f, e)
            same = tie >= 0 and tie == tie_of(graphs, f, other)
            out[4 * e + other] = 1.0 if same else 0.0


@leaf
def _read_scores(graphs, f, weights, column, n_tied, out):
    """Scores of the entries of four tables with the ties of factor f, one entry after another."""
    for e in range(4):
        tie = tie_of(graphs, f, e)
        for lane in range(LANES):
            place = column + n_tied * lane + tie
            out[LANES * e + lane] = weights[place] if tie >= 0 else 0.0


@leaf
def _write_scores(graphs, f, weights, column, n_tied, scores):
    """The inverse."""
    for e in range(4):
        tie = tie_of(graphs, f, e)
        if tie >= 0:
            for lane in range(LANES):
                weights[column + n_tied * lane + tie] = scores[LANES * e + lane]


@leaf
def _four_at_a_time(data, beliefs, weights, penalty, m, sums, room, begin, end):
    graphs, scale, values = data.graphs, data.scales[m], room.delta
    s = graphs.shape[m]
    kappa = penalty.kappa
    first_factor = graphs.factors[s]
    if begin == end:
        return 0.0, 0.0
    tied = graphs.binary_pairs[s] == TIED_IN_ORDER
    n_tied = graphs.n_tied[first_factor]
    scope = graphs.scope[graphs.scope_at[first_factor] :]
    entries, column = graphs.first_mass[m], graphs.factor_column[first_factor]
    messages = graphs.first_message[m]
    own, w = room.states, weights[0]
    scores = values[2 * LANES :]
    gap, residual = 0.0, 0.0
    ahead, wants_sums = room.plan[AHEAD], room.plan[WANTS_SUMS] != 0
    for number in range(begin, end, LANES):
        at = 2 * number
        if ahead != 0:
            place = messages + 4 * number + ahead
            prefetch(beliefs.eta, place, place + 16)
            prefetch(beliefs.implied, place, place + 16)
            place = entries + 4 * number + ahead
            prefetch(beliefs.tables, place, place + 16)
        for lane in range(LANES):
            values[lane] = own[scope[at + 2 * lane]]
            values[LANES + lane] = own[scope[at + 2 * lane + 1]]
        table, message, first = (
            entries + 4 * number,
            messages + 4 * number,
            column + n_tied * number,
        )
        if tied:
            _read_scores(graphs, first_factor, w, first, n_tied, scores)
            more, further = move_four_tied(
                beliefs, table, message, values, penalty, scale, TIED_MOVES, ENOUGH
            )
            _write_scores(graphs, first_factor, w, first, n_tied, scores)
        else:
            more, further = move_four(
                beliefs, table, message, w, first, values, penalty, scale, MOST_MOVES, ENOUGH
            )
        gap += more
        residual += further
        if wants_sums:
            for lane in range(LANES):
                sums[scope[at + 2 * lane]] += values[lane]
                sums[scope[at + 2 * lane + 1]] += values[LANES + lane]
    if not penalty.augmented:
        residual = 0.0
    return gap, residual / (kappa * kappa)


@leaf
def _one_at_a_time(graphs, beliefs, weights, scale, penalty, m, sums, begin, end):
    kappa, sigma = penalty.kappa, penalty.sigma
    s = graphs.shape[m]
    states, messages = graphs.first_state[m], graphs.first_message[m]
    entries = graphs.first_mass[m]
    implied, eta, own, tables = beliefs.implied, beliefs.eta, beliefs.variables, beliefs.tables
    w = weights[0]
    gap, residual = 0.0, 0.0
    first_factor = graphs.factors[s]
    slots = graphs.scope_at[first_factor]
    share = 1.0 / (kappa * kappa)
    for number in range(begin, end):
        v, u = graphs.scope[slots + 2 * number], graphs.scope[slots + 2 * number + 1]
        left, right = states + 2 * v, states + 2 * u
        at = messages + 4 * number
        e0, e1, e2, e3 = eta[at], eta[at + 1], eta[at + 2], eta[at + 3]
        l0 = e0 + kappa * (implied[at] - own[left])
        l1 = e1 + kappa * (implied[at + 1] - own[left + 1])
        r0 = e2 + kappa * (implied[at + 2] - own[right])
        r1 = e3 + kappa * (implied[at + 3] - own[right + 1])
        f = first_factor + number
        column = graphs.factor_column[f]
        w0, w1 = entry_weight(graphs, w, f, 0), entry_weight(graphs, w, f, 1)
        w2, w3 = entry_weight(graphs, w, f, 2), entry_weight(graphs, w, f, 3)
        mass = tables[entries + 4 * number : entries + 4 * number + 4]
        m0, m1, m2, m3 = mass[0], mass[1], mass[2], mass[3]
        first = 0.0
        moved_left, moved_right = 0.0, 0.0
        for count in range(MOST_MOVES):
            t0 = w0 - l0 - r0
            t1 = w1 - l0 - r1
            t2 = w2 - l1 - r0
            t3 = w3 - l1 - r1
            if sigma > 0.0:
                t0 -= sigma * mass[0]
                t1 -= sigma * mass[1]
                t2 -= sigma * mass[2]
                t3 -= sigma * mass[3]
            # Selection without branches, which would be mispredicted: the best entry varies.
            best = 1 if t1 > t0 else 0
            high = t1 if t1 > t0 else t0
            best = 2 if t2 > high else best
            high = t2 if t2 > high else high
            best = 3 if t3 > high else best
            high = t3 if t3 > high else high
            s0 = t0 if m0 > 0.0 else np.inf
            s1 = t1 if m1 > 0.0 else np.inf
            s2 = t2 if m2 > 0.0 else np.inf
            s3 = t3 if m3 > 0.0 else np.inf
            worst = 1 if s1 < s0 else 0
            low = s1 if s1 < s0 else s0
            worst = 2 if s2 < low else worst
            low = s2 if s2 < low else low
            worst = 3 if s3 < low else worst
            low = s3 if s3 < low else low
            diff = high - low
            if count == 0:
                first = diff
                gap += high - (t0 * m0 + t1 * m1 + t2 * m2 + t3 * m3)
            if best == worst or diff <= NEGLIGIBLE or diff < ENOUGH * first:
                break
            differ = best ^ worst
            to, away = tie_of(graphs, f, best), tie_of(graphs, f, worst)
            curvature = 2.0 * sigma
            if to != away:
                curvature += scale * ((to >= 0) + (away >= 0))
            if differ & 2:
                curvature += 2.0 * kappa
            if differ & 1:
                curvature += 2.0 * kappa
            step = mass[worst]
            if curvature * step > diff:
                step = diff / curvature
                mass[worst] -= step
            else:
                mass[worst] = 0.0
            mass[best] += step
            m0, m1, m2, m3 = mass[0], mass[1], mass[2], mass[3]
            if to != away:
                if to >= 0:
                    w[column + to] -= scale * step
                if away >= 0:
                    w[column + away] += scale * step
                w0, w1 = entry_weight(graphs, w, f, 0), entry_weight(graphs, w, f, 1)
                w2, w3 = entry_weight(graphs, w, f, 2), entry_weight(graphs, w, f, 3)
            if differ & 2:
                move = step if best & 2 else -step
                moved_left += move
                l1 += kappa * move
                l0 -= kappa * move
            if differ & 1:
                move = step if best & 1 else -step
                moved_right += move
                r1 += kappa * move
                r0 -= kappa * move
        if moved_left != 0.0:
            implied[at + 1] += moved_left
            implied[at] -= moved_left
        if moved_right != 0.0:
            implied[at + 3] += moved_right
            implied[at + 2] -= moved_right
        if penalty.augmented:
            eta[at] = l0
            eta[at + 1] = l1
            eta[at + 2] = r0
            eta[at + 3] = r1
            square = (l0 - e0) ** 2 + (l1 - e1) ** 2 + (r0 - e2) ** 2 + (r1 - e3) ** 2
            residual += share * square
            e1, e3 = l1, r1
        sums[v] += e1 + kappa * implied[at + 1]
        sums[u] += e3 + kappa * implied[at + 3]
    return gap, residual
