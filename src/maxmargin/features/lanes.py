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
from .._kernels.vector import (
    add_scaled,
    address_of,
    copy,
    dot,
    prefetch_at,
    spread_row,
    sum_rows_at,
)
from .rows import FeatureRows

# Share of the merges before the last in the running mean of both squares.
_MEMORY = 0.9
# Weights that a cache near the processor holds, as for other rows.
_CACHED = 1 << 16


class Lanes(NamedTuple):
    """Changes of all lanes; the first axis of each array is the lane."""

    slots: np.ndarray  # of each row of the weights: its place in the pool, -1 if it has none
    pool: np.ndarray  # rows of the weights with the changes
    changed: np.ndarray  # rows of the weights that the pool has
    count: np.ndarray  # and their number
    addresses: np.ndarray  # scratch for the entries of two rows of features: where their weights are
    places: np.ndarray  # the same for one: places in the pool
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
    addresses: np.ndarray
    places: np.ndarray


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
        np.empty((n_lanes, 2, widest), np.int64),
        np.empty((n_lanes, widest), np.int32),
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
def merge_lanes(lanes, share, matrix, rest, factor):
    """Add the changes of all lanes, times a factor, to one share of the common weights."""
    n_lanes = lanes.slots.shape[0]
    total, alone = 0.0, 0.0
    for lane in range(n_lanes):
        for at in range(lanes.count[lane, 0]):
            f = lanes.changed[lane, at]
            # Rows that an earlier lane has, too, were merged with those of that lane.
            if f & (n_lanes - 1) == share and lanes.slots[lane, f] >= 0:
                both, each = _merge_row(lanes, lane, f, matrix[f], factor)
                total += both
                alone += each
    if share == 0:
        for j in range(rest.shape[0]):
            here, change = rest[j], 0.0
            for lane in range(n_lanes):
                own = lanes.rest[lane, j] - here
                alone += own * own
                change += own
            total += change * change
            rest[j] = here + factor * change
    lanes.squares[share, 0] = total
    lanes.squares[share, 1] = alone


@leaf
def _merge_row(lanes, first, f, row, factor):
    """Add the changes of a row by all lanes from ``first`` on; returns the square of the sum of the
    changes, and the sum of their squares."""
    own = lanes.pool[first, lanes.slots[first, f]]
    lanes.slots[first, f] = -1
    shared = False
    for lane in range(first + 1, lanes.slots.shape[0]):
        shared = shared or lanes.slots[lane, f] >= 0
    if not shared:
        square = 0.0
        for j in range(row.shape[0]):
            change = own[j] - row[j]
            square += change * change
            row[j] += factor * change
        return square, square
    alone = 0.0
    for j in range(row.shape[0]):
        own[j] -= row[j]
        alone += own[j] * own[j]
    for lane in range(first + 1, lanes.slots.shape[0]):
        at = lanes.slots[lane, f]
        if at >= 0:
            other = lanes.pool[lane, at]
            lanes.slots[lane, f] = -1
            for j in range(row.shape[0]):
                change = other[j] - row[j]
                alone += change * change
                own[j] += change
    add_scaled(row, own, factor)
    return dot(own, own), alone


@leaf
def lane_rows(lanes, rows, matrix, lane):
    """The rows as a lane sees them."""
    return LaneRows(
        rows, rows.squares, 0, matrix, lanes.slots[lane], lanes.pool[lane], lanes.changed[lane],
        lanes.count[lane], lanes.addresses[lane], lanes.places[lane],
    )  # fmt: skip


@leaf
def _locate(lane, row, addresses, ahead):
    """Write where the weights of the entries of a row are, and prefetch them."""
    rows, common, slots, pool = lane.rows, lane.matrix, lane.slots, lane.pool
    begin = rows.indptr[row]
    for place in range(begin, rows.indptr[row + 1]):
        f = rows.indices[place]
        own = slots[f]
        there = address_of(common, f) if own < 0 else address_of(pool, own)
        addresses[place - begin] = there
        if ahead:
            prefetch_at(there, common.shape[1])


@implements(score_rows, LaneRows)
def _score(lane, matrix, first, last, out):
    rows, common, slots = lane.rows, lane.matrix, lane.slots
    end = rows.n_inputs - 1  # the constant column, if there is one
    constant = common[end] if slots[end] < 0 else lane.pool[slots[end]]
    far = common.size > _CACHED
    if first < last:
        _locate(lane, first, lane.addresses[0], False)
    for row in range(first, last):
        at = (row - first) & 1
        if row + 1 < last:
            _locate(lane, row + 1, lane.addresses[1 - at], far)
        begin, stop = rows.indptr[row], rows.indptr[row + 1]
        sum_rows_at(
            lane.addresses[at], rows.data[begin:stop], 0, stop - begin, constant, rows.bias,
            out[row - first],
        )  # fmt: skip


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
        lane.places[place - begin] = _own_row(lane, rows.indices[place])
    data = rows.data[begin:end]
    spread_row(lane.pool, lane.places, data, 0, end - begin, values, scale)
    if rows.bias != 0.0:
        own = _own_row(lane, rows.n_inputs - 1)
        add_scaled(lane.pool[own], values, scale * rows.bias)


@implements(prefetch_rows, LaneRows)
def _prefetch(lane, first, last):
    prefetch_rows(lane.rows, first, last)


@implements(cross_products, LaneRows)
def _cross_products(lane, first, unary, moved_at, moved, scratch):
    return cross_products(lane.rows, first, unary, moved_at, moved, scratch)
