"""Ranges of the factors of an example, and the share of a visit that one thread does.

While the beliefs of the variables are fixed, tables of pairs with weights of their own do not
depend on each other, so threads can step different ranges of them. What the variables need, sums
over slots, and the results of a visit are summed per range, and then over the ranges in their
order: the number of ranges depends on the graph only, so results do not depend on the number of
threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import leaf, ordered_leaf
from ..._kernels.vector import add_scaled, copy

# Tables that are stepped at once, see four_pairs.py.
LANES = 4
# Ranges of an example, and most threads that can share a visit.
RANGES = 8
# Fewest factors of an example that are stepped in ranges. Two threads made a pass over label sets
# of RCV1 1.1 times as fast as one with 231 pairs and 1.3 times with 435, but 0.8 times with 91. And
# fewest per variable, as sums over the ranges take time in proportion to the variables.
FEWEST_FACTORS, FEWEST_PER_VARIABLE = 231, 4
# Columns of the results of a range: the squared norm of the messages, the sum of gaps, the squared
# disagreement. From the last on: sums over slots, one per variable.
SQUARE, GAP, RESIDUAL, SUMS = 0, 1, 2, 3
# What comes after the steps of the factors: how far from the messages of this example those of the
# next one are stored, 0 if it is not next; and whether steps of the variables need sums.
AHEAD, WANTS_SUMS = 0, 1
_ALL = 1 << 40


class Share(NamedTuple):
    """What one of several threads does in each visit, by numbers within the example."""

    number: int = 0  # of the thread; 0 leads
    n_threads: int = 1
    first_variable: int = 0
    last_variable: int = _ALL
    first_column: int = 0  # of the weights of its variables
    first_range: int = 0
    last_range: int = RANGES


@leaf
def count_ranges(graphs, s):
    """Number of ranges of the factors of a shape."""
    n_factors = graphs.factors[s + 1] - graphs.factors[s]
    n_variables = graphs.variables[s + 1] - graphs.variables[s]
    many = n_factors >= FEWEST_FACTORS and n_factors >= FEWEST_PER_VARIABLE * n_variables
    return RANGES if many else 1


@leaf
def range_ends(graphs, s, n_ranges, g):
    """First and last factor of a range, by numbers within the shape: whole groups of four, and the
    rest in the last range."""
    n_factors = graphs.factors[s + 1] - graphs.factors[s]
    fours = n_factors // LANES
    end = LANES * (fours * (g + 1) // n_ranges)
    return LANES * (fours * g // n_ranges), n_factors if g == n_ranges - 1 else end


@leaf
def own_ranges(share, n_ranges):
    """First and last range of the share of a thread."""
    return min(share.first_range, n_ranges), min(share.last_range, n_ranges)


@leaf
def publish(room, n_ranges, begin, end):
    """Add the results of own ranges in some columns, and show their sum to all threads.

    They are added in pairs, these again, and so on: a thread has a half of all ranges, a quarter or
    an eighth, so that all sums over all ranges are rounded in the same way.
    """
    first, last = own_ranges(room.share, n_ranges)
    width = 1
    while width < last - first:
        for g in range(first, last, 2 * width):
            add_scaled(room.parts[g, begin:end], room.parts[g + width, begin:end], 1.0)
        width *= 2
    if room.share.n_threads > 1:
        copy(room.found[first, begin:end], room.parts[first, begin:end])


@ordered_leaf
def total_of(found, n_threads, c):
    """Sum over the results of all threads."""
    if n_threads == 1:
        return found[0, c]
    if n_threads == 2:
        return found[0, c] + found[4, c]
    if n_threads == 4:
        return (found[0, c] + found[2, c]) + (found[4, c] + found[6, c])
    left = (found[0, c] + found[1, c]) + (found[2, c] + found[3, c])
    return left + ((found[4, c] + found[5, c]) + (found[6, c] + found[7, c]))


@leaf
def gather_ranges(graphs, beliefs, kappa, m, room):
    """Sums over slots of ``eta + kappa * implied`` of state 1, of own ranges of binary pairs."""
    s = graphs.shape[m]
    scope = graphs.scope[graphs.scope_at[graphs.factors[s]] :]
    eta = beliefs.eta[graphs.first_message[m] :]
    implied = beliefs.implied[graphs.first_message[m] :]
    n_variables = graphs.variables[s + 1] - graphs.variables[s]
    n_ranges = count_ranges(graphs, s)
    first, last = own_ranges(room.share, n_ranges)
    for g in range(first, last):
        sums = room.parts[g, SUMS : SUMS + n_variables]
        sums[:] = 0.0
        begin, end = range_ends(graphs, s, n_ranges, g)
        for number in range(begin, end):
            at = 4 * number
            sums[scope[2 * number]] += eta[at + 1] + kappa * implied[at + 1]
            sums[scope[2 * number + 1]] += eta[at + 3] + kappa * implied[at + 3]
    publish(room, n_ranges, SUMS, SUMS + n_variables)


@leaf
def take_sums(room, belief, kappa, v, held, out):
    """Add the messages of all factors to ``out``, over the states of binary variable ``v``.

    The two messages of a binary variable are opposite: one sum is enough.
    """
    total = total_of(room.found, room.share.n_threads, SUMS + v)
    out[0] += held * kappa * (1.0 - belief[0]) - total
    out[1] += total - held * kappa * belief[1]


def make_results(n_variables: int) -> np.ndarray:
    """Space for the results of all ranges, in cache lines of their own."""
    line = 8
    width = line * (-(-(SUMS + n_variables) // line) + 1)
    space = np.empty(RANGES * width + line)
    begin = -(space.ctypes.data // space.itemsize) % line
    return space[begin : begin + RANGES * width].reshape(RANGES, width)
