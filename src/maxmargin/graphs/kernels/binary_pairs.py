"""Moves within tables of two binary variables: all factors of an example in one loop.

For graphs in which every factor is such a table, with four weights of its own and a constant
feature: interactions of labels.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from .agreement import ENOUGH, MOST_MOVES, NEGLIGIBLE
from .four_pairs import LANES, move_four

# What ``graphs.binary_pairs`` says of a shape.
BINARY_PAIRS, IN_ORDER = 1, 2


@leaf
def binary_pairs_step(data, beliefs, weights, penalty, m, room):
    """Moves within all factors of an example; returns the sum of gaps and squared disagreement.

    The places of everything follow from the number of the factor, so little is looked up.
    ``room.sums`` gets what the variables will ask for next: the sum over slots of
    ``eta + kappa * implied``.
    """
    graphs = data.graphs
    s = graphs.shape[m]
    first_factor = graphs.factors[s]
    n_factors = graphs.factors[s + 1] - first_factor
    sums = room.sums[: graphs.first_state[m + 1] - graphs.first_state[m]]
    sums[:] = 0.0
    done, gap, residual = 0, 0.0, 0.0
    if graphs.binary_pairs[s] == IN_ORDER and penalty.sigma == 0.0:
        done = n_factors - n_factors % LANES
        gap, residual = _four_at_a_time(
            graphs, beliefs, weights, data.scales[m], penalty, m, sums, room.delta, done
        )
    more, further = _one_at_a_time(
        graphs, beliefs, weights, data.scales[m], penalty, m, sums, done, n_factors
    )
    base = graphs.variables[s]
    for a in range(base, graphs.variables[s + 1]):
        # Messages of a binary variable are opposite: what is missing follows.
        held = graphs.held_at[a + 1] - graphs.held_at[a]
        sums[2 * (a - base)] = held * penalty.kappa - sums[2 * (a - base) + 1]
    return gap + more, residual + further


@leaf
def _four_at_a_time(graphs, beliefs, weights, scale, penalty, m, sums, values, n_factors):
    s = graphs.shape[m]
    kappa = penalty.kappa
    first_factor = graphs.factors[s]
    scope = graphs.scope[graphs.scope_at[first_factor] :]
    states, messages = graphs.first_state[m], graphs.first_message[m]
    entries, column = graphs.first_mass[m], graphs.factor_column[first_factor]
    own = beliefs.variables
    gap, residual = 0.0, 0.0
    for number in range(0, n_factors, LANES):
        at = 2 * number
        for lane in range(LANES):
            values[lane] = own[states + 2 * scope[at + 2 * lane] + 1]
            values[LANES + lane] = own[states + 2 * scope[at + 2 * lane + 1] + 1]
        more, further = move_four(
            beliefs, entries + 4 * number, messages + 4 * number, weights[0], column + 4 * number,
            values, penalty, scale, MOST_MOVES, ENOUGH,
        )  # fmt: skip
        gap += more
        residual += further
        for lane in range(LANES):
            sums[2 * scope[at + 2 * lane] + 1] += values[lane]
            sums[2 * scope[at + 2 * lane + 1] + 1] += values[LANES + lane]
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
        left = states + 2 * graphs.scope[slots + 2 * number]
        right = states + 2 * graphs.scope[slots + 2 * number + 1]
        at = messages + 4 * number
        e0, e1, e2, e3 = eta[at], eta[at + 1], eta[at + 2], eta[at + 3]
        l0 = e0 + kappa * (implied[at] - own[left])
        l1 = e1 + kappa * (implied[at + 1] - own[left + 1])
        r0 = e2 + kappa * (implied[at + 2] - own[right])
        r1 = e3 + kappa * (implied[at + 3] - own[right + 1])
        column = graphs.factor_column[first_factor + number]
        mass = tables[entries + 4 * number : entries + 4 * number + 4]
        m0, m1, m2, m3 = mass[0], mass[1], mass[2], mass[3]
        first = 0.0
        moved_left, moved_right = 0.0, 0.0
        for count in range(MOST_MOVES):
            t0 = w[column] - l0 - r0
            t1 = w[column + 1] - l0 - r1
            t2 = w[column + 2] - l1 - r0
            t3 = w[column + 3] - l1 - r1
            if sigma > 0.0:
                t0 -= sigma * mass[0]
                t1 -= sigma * mass[1]
                t2 -= sigma * mass[2]
                t3 -= sigma * mass[3]
            # Choices without branches: which entry is best changes from factor to factor.
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
            curvature = 2.0 * (scale + sigma)
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
            w[column + best] -= scale * step
            w[column + worst] += scale * step
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
        left -= states
        right -= states
        sums[left + 1] += e1 + kappa * implied[at + 1]
        sums[right + 1] += e3 + kappa * implied[at + 3]
    return gap, residual
