"""Projection of beliefs onto those that satisfy all counts of a graph.

The binary variables of a graph with counts have ``x`` (beliefs of state 1) in the polytope
``0 <= x <= 1``, ``low_c <= sum of x over c <= high_c``. The projection of ``v`` is
``clip(v - A' t, 0, 1)``, with a multiplier (price) ``t_c`` per count (A: counts by variables):
positive where ``high`` is active, negative where ``low`` is. The price of one count, given those of
the others, is found exactly. Counts without a common variable need one sweep; where counts
overlap, sweeps alternate with Newton steps on all prices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import inner, leaf
from .graph import COUNT

# Rounding error per variable of a count: eight units in the last place of 1. Differences and sums
# of numbers of order 1 are not more accurate.
ROUNDING = 2.0**-50
# Allowed distance of a count with a price from its bound, in units of rounding: about 1e-9.
_NEAR = 1e6
# Largest number of steps for a price; bisection alone, which is rare, would need about 60.
_MOST_STEPS = 100
# Largest number of Newton steps, sweeps before each, and steps of conjugate gradients.
_MOST_NEWTON, _SWEEPS, _MOST_GRADIENTS = 50, 3, 500


class CountRoom(NamedTuple):
    """Scratch for the counts of one graph."""

    centre: np.ndarray  # of each variable, v - A' t: x before it is clipped
    kept: np.ndarray  # the same, before a Newton step
    image: np.ndarray  # of each variable, a change of prices
    values: np.ndarray  # variables of one count
    price: np.ndarray  # of each factor; only those of counts are read
    residual: np.ndarray
    step: np.ndarray
    direction: np.ndarray
    product: np.ndarray


@inner
def make_count_room(graphs, s):
    """Scratch for a graph of shape s."""
    variables = graphs.variables[s + 1] - graphs.variables[s]
    factors = graphs.factors[s + 1] - graphs.factors[s]
    return CountRoom(
        np.empty(variables), np.empty(variables), np.empty(variables), np.empty(variables),
        np.empty(factors), np.empty(factors), np.empty(factors), np.empty(factors),
        np.empty(factors),
    )  # fmt: skip


@leaf
def _clip(value):
    return min(1.0, max(0.0, value))


@leaf
def capped_shift(values, low, high):
    """The t for which ``clip(values - t, 0, 1)`` is nearest to ``values``, with a sum in bounds.

    The set is ``{x in [0, 1]^n, low <= sum x <= high}``. The sum decreases with t and is linear
    between two breakpoints, so that Newton steps reach the exact solution; where one leaves the
    bracket, the bracket is halved.
    """
    n = values.shape[0]
    total = 0.0
    least, most = values[0], values[0]
    for r in range(n):
        total += _clip(values[r])
        least, most = min(least, values[r]), max(most, values[r])
    if low <= total <= high:
        return 0.0
    goal = float(high) if total > high else float(low)
    if goal <= 0.0:
        return most
    if goal >= n:
        return least - 2.0
    least -= 1.0
    shift = 0.0
    for _ in range(_MOST_STEPS):
        total = 0.0
        free = 0
        for r in range(n):
            x = values[r] - shift
            total += _clip(x)
            free += 0.0 < x < 1.0
        if total == goal:
            break
        if total > goal:
            least = max(least, shift)
        else:
            most = min(most, shift)
        middle = 0.5 * (least + most)
        after = shift + (total - goal) / free if free > 0 else middle
        if not least < after < most:
            after = middle
        if after == shift:
            break
        shift = after
    return shift


@leaf
def _count(graphs, f, centre):
    """Sum of the clipped beliefs of a count."""
    total = 0.0
    for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
        total += _clip(centre[graphs.scope[z]])
    return total


@leaf
def _measure(graphs, s, room):
    """Largest violation of a count, and largest distance of a count with a price from its bound.

    Both are in units of rounding. The first must vanish; the second need not, but unless it does
    the point is not the nearest one.
    """
    violation, off = 0.0, 0.0
    first = graphs.factors[s]
    for f in range(first, graphs.factors[s + 1]):
        if graphs.kind[f] == COUNT:
            total = _count(graphs, f, room.centre)
            unit = ROUNDING * (graphs.scope_at[f + 1] - graphs.scope_at[f])
            above, below = total - graphs.high[f], graphs.low[f] - total
            violation = max(violation, max(above, below) / unit)
            price = room.price[f - first]
            if price > 0.0:
                off = max(off, -above / unit)
            elif price < 0.0:
                off = max(off, -below / unit)
    return violation, off


@leaf
def _sweep(graphs, s, room):
    """Exact prices of all counts, one after another."""
    first = graphs.factors[s]
    for f in range(first, graphs.factors[s + 1]):
        if graphs.kind[f] != COUNT:
            continue
        begin, end = graphs.scope_at[f], graphs.scope_at[f + 1]
        values = room.values[: end - begin]
        for z in range(begin, end):
            values[z - begin] = room.centre[graphs.scope[z]] + room.price[f - first]
        shift = capped_shift(values, graphs.low[f], graphs.high[f])
        room.price[f - first] = shift
        for z in range(begin, end):
            room.centre[graphs.scope[z]] = values[z - begin] - shift


@leaf
def _spread(graphs, s, amounts, out):
    """``out = A' amounts``: to each variable the sum of the amounts of its counts."""
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        out[v] = 0.0
    first = graphs.factors[s]
    for f in range(first, graphs.factors[s + 1]):
        if graphs.kind[f] == COUNT:
            for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
                out[graphs.scope[z]] += amounts[f - first]


@leaf
def _write_residuals(graphs, s, room):
    """Distance of each count from its bound; 0 where it is inactive. Returns the sum of squares."""
    first = graphs.factors[s]
    square = 0.0
    for f in range(first, graphs.factors[s + 1]):
        r = f - first
        room.step[r] = room.residual[r] = room.direction[r] = room.product[r] = 0.0
        if graphs.kind[f] != COUNT:
            continue
        total = _count(graphs, f, room.centre)
        if room.price[r] > 0.0 or total > graphs.high[f]:
            room.residual[r] = total - graphs.high[f]
        elif room.price[r] < 0.0 or total < graphs.low[f]:
            room.residual[r] = total - graphs.low[f]
        room.direction[r] = room.residual[r]
        square += room.residual[r] * room.residual[r]
    return square


@leaf
def _holds(room, r):
    """Whether a count is part of a Newton step."""
    return room.price[r] != 0.0 or room.residual[r] != 0.0


@leaf
def _newton_step(graphs, s, room):
    """Solve ``A_F A_F' step = residual`` by conjugate gradients; F are beliefs inside (0, 1).

    No matrix is stored, and redundant counts, as in permutation matrices, are allowed.
    """
    first, last = graphs.factors[s], graphs.factors[s + 1]
    square = _write_residuals(graphs, s, room)
    enough = 1e-32 * square
    for _ in range(min(_MOST_GRADIENTS, 2 * (last - first))):
        if square <= enough:
            return
        _spread(graphs, s, room.direction, room.image)
        curvature = 0.0
        for f in range(first, last):
            if graphs.kind[f] != COUNT or not _holds(room, f - first):
                continue
            total = 0.0
            for z in range(graphs.scope_at[f], graphs.scope_at[f + 1]):
                v = graphs.scope[z]
                if 0.0 < room.centre[v] < 1.0:
                    total += room.image[v]
            room.product[f - first] = total
            curvature += total * room.direction[f - first]
        if curvature <= 0.0:
            return
        length = square / curvature
        before, square = square, 0.0
        for r in range(last - first):
            room.step[r] += length * room.direction[r]
            room.residual[r] -= length * room.product[r]
            square += room.residual[r] * room.residual[r]
        for r in range(last - first):
            room.direction[r] = room.residual[r] + square / before * room.direction[r]


@leaf
def _try_newton(graphs, s, room, violation, off):
    """Take a Newton step on all prices, if it lowers the larger of the two measures."""
    _newton_step(graphs, s, room)
    _spread(graphs, s, room.step, room.image)
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        room.kept[v] = room.centre[v]
        room.centre[v] -= room.image[v]
    for r in range(graphs.factors[s + 1] - graphs.factors[s]):
        room.price[r] += room.step[r]
    after, off_after = _measure(graphs, s, room)
    if max(after, off_after) < max(violation, off):
        return after, off_after
    for r in range(graphs.factors[s + 1] - graphs.factors[s]):
        room.price[r] -= room.step[r]
    for v in range(graphs.variables[s + 1] - graphs.variables[s]):
        room.centre[v] = room.kept[v]
    return violation, off


@leaf
def has_counts(graphs, s):
    """Whether a graph of shape s has counts."""
    for f in range(graphs.factors[s], graphs.factors[s + 1]):
        if graphs.kind[f] == COUNT:
            return True
    return False


@leaf
def project_counts(graphs, s, out, room):
    """Move the beliefs ``out`` of a graph of shape s to the nearest ones that satisfy its counts.

    Returns the largest violation that remains, in units of rounding: at most 1 unless the limit of
    steps was reached, which is possible only if counts overlap.
    """
    if not has_counts(graphs, s):
        return 0.0
    base = graphs.variables[s]
    for a in range(base, graphs.variables[s + 1]):
        room.centre[a - base] = out[graphs.state_at[a] + 1] if graphs.n_states[a] == 2 else 0.0
    for r in range(graphs.factors[s + 1] - graphs.factors[s]):
        room.price[r] = 0.0
    violation, off = _measure(graphs, s, room)
    if violation <= 0.0:
        return violation
    for _ in range(_MOST_NEWTON):
        for _ in range(_SWEEPS):
            _sweep(graphs, s, room)
            violation, off = _measure(graphs, s, room)
            if violation <= 1.0 and off <= _NEAR:
                break
        if violation > 1.0 or off > _NEAR:
            violation, off = _try_newton(graphs, s, room, violation, off)
        if violation <= 1.0 and off <= _NEAR:
            break
    for a in range(base, graphs.variables[s + 1]):
        if graphs.n_states[a] == 2 and graphs.held_at[a + 1] > graphs.held_at[a]:
            p = _clip(room.centre[a - base])
            out[graphs.state_at[a] + 1] = p
            out[graphs.state_at[a]] = 1.0 - p
    return violation
