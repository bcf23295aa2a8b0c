"""Rows of features under weights that several lanes of examples change at the same time.

A lane reads the common weights plus its own changes. Rows of the weight matrix that it changes are
copied to a pool of its own first, so that the common weights stay as they are until the changes of
all lanes are added to them, in the order of the lanes. The result does not depend on which thread
runs which lane.

With changes D_l of the lanes, ``|sum_l D_l|^2 <= sigma sum_l |D_l|^2`` for a sigma between 0 and
the number of lanes. A lane that overestimates its change by such a factor, as a part does (see
:mod:`~maxmargin.solvers.partitions`), raises the dual whatever the others do. The ratio of the two
squares is measured at every merge, and the factor follows its running mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row, cross_products, prefetch_rows, score_rows
from .._kernels.vector import add_scaled, combine_rows, copy, dot, prefetch, spread_row, sum_rows
from .rows import FeatureRows

# Share of the merges before the last in the running mean of both squares.
_MEMORY = 0.9
# Weights that a cache near the processor holds, as for other rows.
_CACHED = 1 << 16


class Lanes(NamedTuple):
    """Changes of all lanes; the first axis of each array is the lane."""

    slots: np.ndarray  # of each row of the weights: its place in the pool, -1 if it has none
    pool: np.ndarray  # rows of the weights with the changes; between work and merge, the changes
    changed: np.ndarray  # rows of the weights that the pool has
    count: np.ndarray  # and their number
    places: np.ndarray  # scratch for the entries of a row: of the common weights, of the pool
    values: np.ndarray
    rest: np.ndarray  # the weights behind those of the features, with the changes
    squares: np.ndarray  # of the sum of the changes, and their sum, of the last merge
    means: np.ndarray  # running means of these before each merge


class LaneRows(NamedTuple):
    """Rows as one lane sees them. For structures they have no inputs of their own: the weights that
    are passed along with them are those behind the features."""

    rows: Any
    squares: np.ndarray
    n_inputs: int
    matrix: np.ndarray
    slots: np.ndarray
    pool: np.ndarray
    changed: np.ndarray
    count: np.ndarray
    places: np.ndarray
    values: np.ndarray


def make_lanes(
    rows: FeatureRows, n_columns: int, n_rest: int, n_lanes: int, most: int, n_merges: int
) -> Lanes:
    """Empty lanes, each for ``most`` changed rows of the weights."""
    widest = int(np.diff(rows.indptr).max(initial=0)) + 1
    return Lanes(
        np.full((n_lanes, rows.n_inputs), -1, np.int32),
        np.empty((n_lanes, most, n_columns)),
        np.empty((n_lanes, most), np.int32),
        np.zeros((n_lanes, 8), np.int64),  # a cache line each
        np.empty((n_lanes, 2, widest), np.int32),
        np.empty((n_lanes, 2, widest)),
        np.empty((n_lanes, n_rest)),
        np.zeros((n_lanes, 2)),
        np.zeros((n_merges + 1, 2)),
    )


@leaf
def open_lane(lanes, lane, merge, rest):
    """Begin the work of a lane before a merge; returns the factor of its steps."""
    lanes.count[lane, 0] = 0
    copy(lanes.rest[lane], rest)
    if merge == 0:
        return overlap_factor(lanes, 0)
    means, before = lanes.means[merge], lanes.means[merge - 1]
    first, second = _MEMORY * before[0], _MEMORY * before[1]
    for share in range(lanes.squares.shape[0]):
        first += lanes.squares[share, 0]
        second += lanes.squares[share, 1]
    if lane == 0:
        means[0], means[1] = first, second
    return _factor(lanes, first, second)


@leaf
def _factor(lanes, first, second):
    most = np.float64(lanes.slots.shape[0])
    return most if second <= 0.0 else min(most, max(1.0, first / second))


@leaf
def overlap_factor(lanes, merge):
    """The factor of the steps before a merge."""
    return _factor(lanes, lanes.means[merge, 0], lanes.means[merge, 1])


@leaf
def close_lane(lanes, lane, matrix, rest):
    """End the work of a lane: its pool becomes that of the changes alone."""
    for at in range(lanes.count[lane, 0]):
        add_scaled(lanes.pool[lane, at], matrix[lanes.changed[lane, at]], -1.0)
    add_scaled(lanes.rest[lane], rest, -1.0)


@leaf
def merge_lanes(lanes, share, matrix, rest, factor):
    """Add the changes of all lanes, times a factor, to one share of the common weights."""
    n_lanes = lanes.slots.shape[0]
    alone, shared = 0.0, 0.0
    for lane in range(n_lanes):
        for at in range(lanes.count[lane, 0]):
            f = lanes.changed[lane, at]
            if f & (n_lanes - 1) != share:
                continue
            change = lanes.pool[lane, at]
            alone += dot(change, change)
            for other in range(lane):
                place = lanes.slots[other, f]
                if place >= 0:
                    shared += dot(change, lanes.pool[other, place])
            add_scaled(matrix[f], change, factor)
    for lane in range(n_lanes):
        for at in range(lanes.count[lane, 0]):
            f = lanes.changed[lane, at]
            if f & (n_lanes - 1) == share:
                lanes.slots[lane, f] = -1
    if share == 0:
        for lane in range(n_lanes):
            alone += dot(lanes.rest[lane], lanes.rest[lane])
            for other in range(lane):
                shared += dot(lanes.rest[lane], lanes.rest[other])
            add_scaled(rest, lanes.rest[lane], factor)
    lanes.squares[share, 0] = alone + 2.0 * shared
    lanes.squares[share, 1] = alone


@leaf
def lane_rows(lanes, rows, matrix, lane):
    """The rows as a lane sees them."""
    return LaneRows(
        rows, rows.squares, 0, matrix, lanes.slots[lane], lanes.pool[lane], lanes.changed[lane],
        lanes.count[lane], lanes.places[lane], lanes.values[lane],
    )  # fmt: skip


@implements(score_rows, LaneRows)
def _score(lane, matrix, first, last, out):
    rows, common, slots, pool = lane.rows, lane.matrix, lane.slots, lane.pool
    places, values = lane.places, lane.values
    indices, indptr, data = rows.indices, rows.indptr, rows.data
    end = rows.n_inputs - 1  # the constant column, if there is one
    constant = common[end] if slots[end] < 0 else pool[slots[end]]
    far = common.size > _CACHED
    for row in range(first, last):
        n_common, n_own = 0, 0
        for place in range(indptr[row], indptr[row + 1]):
            f = indices[place]
            own = slots[f]
            # Both are written, and one is kept: no branch that cannot be predicted.
            places[0, n_common], values[0, n_common] = f, data[place]
            places[1, n_own], values[1, n_own] = own, data[place]
            n_own += np.int64(own >= 0)
            n_common += np.int64(own < 0)
        if far and row + 1 < last:
            for place in range(indptr[row + 1], indptr[row + 2]):
                prefetch(common, indices[place], indices[place] + 1)
        scores = out[row - first]
        sum_rows(common, places[0], values[0], 0, n_common, constant, rows.bias, scores)
        combine_rows(pool, places[1], values[1], 0, n_own, scores)


@leaf
def _own_row(lane, f):
    """Place of a row of the weights in the pool, where it is copied to if it is new."""
    own = lane.slots[f]
    if own < 0:
        own = np.int32(lane.count[0])
        lane.count[0] += 1
        lane.slots[f] = own
        lane.changed[own] = f
        copy(lane.pool[own], lane.matrix[f])
    return own


@implements(add_row, LaneRows)
def _add(lane, matrix, row, values, scale):
    rows = lane.rows
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    for place in range(begin, end):
        lane.places[1, place - begin] = _own_row(lane, rows.indices[place])
        lane.values[1, place - begin] = rows.data[place]
    spread_row(lane.pool, lane.places[1], lane.values[1], 0, end - begin, values, scale)
    if rows.bias != 0.0:
        own = _own_row(lane, rows.n_inputs - 1)
        add_scaled(lane.pool[own], values, scale * rows.bias)


@implements(prefetch_rows, LaneRows)
def _prefetch(lane, first, last):
    prefetch_rows(lane.rows, first, last)


@implements(cross_products, LaneRows)
def _cross_products(lane, first, unary, moved_at, moved, scratch):
    return cross_products(lane.rows, first, unary, moved_at, moved, scratch)
