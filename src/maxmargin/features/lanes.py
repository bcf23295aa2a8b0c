"""Rows of features under weights that several lanes of examples change at the same time.

The examples are cut into fixed batches, and the examples of a batch into lanes. Features that occur
in one lane of a batch only are read and changed in place. Of the others, which the lanes share, each
lane has a copy of the weights, as of the weights that belong to no feature; after the work of all
lanes on the batch their changes are summed. The result does not depend on which thread runs which
lane.

The changes D_l of two lanes raise the dual by ``G - a <D_1, D_2>``: G is the sum of what the steps of
each lane gain by themselves, and ``a`` the strength of the penalty. Both are known after a batch; as
long as their running means show that too much of the gain is lost, one lane visits all examples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.jit import compiled, implements, leaf, seldom
from .._kernels.protocol import add_row, cross_products, prefetch_rows, score_rows
from .._kernels.vector import add_scaled, address_of, copy, prefetch, spread_row, sum_rows
from .rows import FeatureRows

# Number of lanes, and of examples in a batch. In smaller batches threads wait for each other more
# often; in larger ones lanes know less of each other's changes.
N_LANES, _BATCH = 2, 32
# Share of the batches before the last in the running means.
_MEMORY = 0.9
# Weights that a cache near the processor holds, as for other rows.
_CACHED = 1 << 16


class LanePlan(NamedTuple):
    """Batches and lanes of the examples of a problem."""

    batch: np.ndarray  # of each example
    lane: np.ndarray  # of each example
    codes: np.ndarray  # of each entry: its feature, or its place among the shared ones, inverted
    shared: np.ndarray  # shared features: those of a batch from ``first`` on,
    first: np.ndarray
    count: np.ndarray  # and their number

    def grouped(self, order: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """Examples by batch and lane: batches in random order, those of a lane as they were."""
        rank = rng.permutation(len(self.first))[self.batch[order]]
        return order[np.argsort(N_LANES * rank + self.lane[order], kind="stable")]

    def bounds(self, order: np.ndarray) -> np.ndarray:
        """Batches of some grouped examples: the batch, and where its lanes begin and end. In any
        other order, examples of different lanes that are not together are batches of their own."""
        batch, lane = self.batch[order], self.lane[order]
        new = np.diff(batch, prepend=-1) != 0
        new[1:] |= np.diff(lane) < 0
        begin = np.flatnonzero(new)
        ends = [np.add.reduceat((lane <= k).astype(np.int64), begin) for k in range(N_LANES)]
        return np.column_stack([batch[begin], begin, *[begin + end for end in ends]])

    def end_of_batch(self, order: np.ndarray, count: int) -> int:
        """At least ``count`` of the grouped examples, up to the end of a batch."""
        if count >= len(order):
            return len(order)
        later = np.flatnonzero(self.batch[order[count:]] != self.batch[order[count - 1]])
        return count + int(later[0]) if len(later) else len(order)


class Lanes(NamedTuple):
    """Weights of all lanes, and what is known of their batches, which are counted."""

    pool: np.ndarray  # of the shared features, by lane, if it has changed them
    where: np.ndarray  # addresses of the weights of shared features, by lane
    changed: np.ndarray  # shared features that a lane has changed,
    count: np.ndarray  # and their number
    own: np.ndarray  # whether a lane has changed a shared feature
    rest: np.ndarray  # of the weights that belong to no feature, by lane
    gains: np.ndarray  # of the steps, by batch and lane, in units of the strength of the penalty
    lost: np.ndarray  # products of the changes of two lanes, by batch and share of the weights
    means: np.ndarray  # running means of gains and losses before each batch


class LaneRows(NamedTuple):
    """Rows as one lane sees them. For structures they have no inputs of their own: the weights that
    are passed along with them are those behind the features."""

    rows: Any
    squares: np.ndarray
    n_inputs: int
    codes: np.ndarray
    shared: np.ndarray  # of the batch
    matrix: np.ndarray
    pool: np.ndarray
    where: np.ndarray
    changed: np.ndarray
    count: np.ndarray
    own: np.ndarray


def make_plan(rows: FeatureRows, first_row: np.ndarray) -> LanePlan:
    """Cut examples, whose rows begin at ``first_row``, into random batches with lanes of about
    equal size, and find the features that lanes share."""
    n = len(first_row) - 1
    entries = rows.indptr[first_row]
    n_batches = -(-n // _BATCH)
    members = np.random.RandomState(0).permutation(n)
    batch = np.empty(n, np.int64)
    batch[members] = np.arange(n) * n_batches // n
    sums = np.concatenate([[0], np.cumsum(np.diff(entries)[members])])
    edges = np.searchsorted(batch[members], np.arange(n_batches + 1))
    low, high = sums[edges[:-1]], sums[edges[1:]]
    middle = 0.5 * (sums[:-1] + sums[1:])  # of each example, among the entries of all
    here = batch[members]
    share = (middle - low[here]) / np.maximum(high - low, 1)[here]
    lane = np.empty(n, np.int64)
    lane[members] = np.minimum(N_LANES * share, N_LANES - 1).astype(np.int64)
    first = low // 2 + np.arange(n_batches)
    plan = LanePlan(
        batch, lane, np.empty(len(rows.indices), np.int32),
        np.empty(int(sums[-1]) // 2 + n_batches, np.int32), first, np.zeros(n_batches, np.int64),
    )  # fmt: skip
    stamps = np.full((2, rows.n_inputs), -1, np.int64)
    _find_shared(rows, entries, members, edges, stamps, plan)
    return plan


@compiled
@seldom
def _find_shared(rows, entries, members, edges, stamps, plan):
    """Write the shared features and the codes; ``stamps`` are the last lane of each feature, and
    its place among the shared ones."""
    batch, lanes, codes, shared, first, count = plan
    owner, place = stamps
    indices = rows.indices
    for b in range(edges.shape[0] - 1):
        if rows.bias != 0.0:
            shared[first[b]] = rows.n_inputs - 1
            count[b] = 1
        for member in members[edges[b] : edges[b + 1]]:
            here = N_LANES * b + lanes[member]
            for at in range(entries[member], entries[member + 1]):
                f = indices[at]
                if owner[f] < N_LANES * b:
                    owner[f], place[f] = here, -1
                elif owner[f] != here and place[f] < 0:
                    place[f] = count[b]
                    shared[first[b] + count[b]] = f
                    count[b] += 1
        for member in members[edges[b] : edges[b + 1]]:
            for at in range(entries[member], entries[member + 1]):
                f = indices[at]
                codes[at] = f if place[f] < 0 else ~place[f]


def make_lanes(plan: LanePlan, n_columns: int, n_rest: int, n_batches: int) -> Lanes:
    """Storage for visits to some batches."""
    most = max(1, int(plan.count.max()))
    return Lanes(
        np.empty((N_LANES, most, n_columns)),
        np.empty((N_LANES, most), np.int64),
        np.empty((N_LANES, most), np.int32),
        np.zeros((N_LANES, 8), np.int64),  # a cache line each
        np.zeros((N_LANES, most), np.bool_),
        np.empty((N_LANES, n_rest)),
        np.zeros((n_batches, N_LANES)),
        np.zeros((n_batches, N_LANES)),
        np.zeros((n_batches + 1, 2)),
    )


@leaf
def open_lane(lanes, plan, lane, batch, number, matrix, rest):
    """Begin the work of a lane on a batch, at the common weights; returns the caution of its steps.
    ``number`` counts the batches."""
    copy(lanes.rest[lane], rest)
    first = plan.first[batch]
    lanes.count[lane, 0] = 0
    for at in range(plan.count[batch]):
        lanes.where[lane, at] = address_of(matrix, plan.shared[first + at])
        lanes.own[lane, at] = False
    gains, lost = update_means(lanes, lane, number)
    most = np.float64(lanes.pool.shape[0])
    if lost <= 0.0:
        return 1.0
    return 1.0 + lost / gains if lost < (most - 1.0) * gains else most


@leaf
def update_means(lanes, lane, number):
    """Running means of gains and losses before a batch; one lane stores them for later."""
    if number == 0:
        return lanes.means[0, 0], lanes.means[0, 1]
    gains, lost = _MEMORY * lanes.means[number - 1, 0], _MEMORY * lanes.means[number - 1, 1]
    for other in range(lanes.gains.shape[1]):
        gains += lanes.gains[number - 1, other]
        lost += lanes.lost[number - 1, other]
    if lane == 0:
        lanes.means[number, 0] = gains
        lanes.means[number, 1] = lost
    return gains, lost


@leaf
def merge_lanes(lanes, plan, share, batch, number, matrix, rest):
    """Add the changes of all lanes to one share of the common weights."""
    n_lanes, first = lanes.pool.shape[0], plan.first[batch]
    lost = 0.0
    for lane in range(n_lanes):
        for place in range(lanes.count[lane, 0]):
            at = lanes.changed[lane, place]
            if at % N_LANES == share:
                lost += _merge_row(lanes, lane, at, matrix[plan.shared[first + at]])
    if share == 0:
        for j in range(rest.shape[0]):
            here, change, squares = rest[j], 0.0, 0.0
            for lane in range(n_lanes):
                own = lanes.rest[lane, j] - here
                change += own
                squares += own * own
            lost += 0.5 * (change * change - squares)
            rest[j] = here + change
    lanes.lost[number, share] = lost


@leaf
def _merge_row(lanes, first, at, row):
    """Add the changes of a row by the lanes from ``first`` on, unless an earlier one has changed it
    too; returns the sum of the products of the changes of any two."""
    own, n_lanes = lanes.own, lanes.pool.shape[0]
    for lane in range(first):
        if own[lane, at]:
            return 0.0
    mine = lanes.pool[first, at]
    lost = 0.0
    for lane in range(first + 1, n_lanes):
        if own[lane, at]:
            other = lanes.pool[lane, at]
            for j in range(row.shape[0]):
                change = other[j] - row[j]
                lost += change * (mine[j] - row[j])
                mine[j] += change
    copy(row, mine)
    return lost


@leaf
def _own_row(lane, at):
    """Copy the weights of a shared feature before the first change."""
    if not lane.own[at]:
        lane.own[at] = True
        copy(lane.pool[at], lane.matrix[lane.shared[at]])
        lane.where[at] = address_of(lane.pool, at)
        lane.changed[lane.count[0]] = at
        lane.count[0] += 1


@implements(score_rows, LaneRows)
def _score(lane, matrix, first, last, out):
    rows, common, codes = lane.rows, lane.matrix, lane.codes
    # A constant is the first of the shared features; without one this row counts zero times.
    constant = lane.pool[0] if lane.own[0] else common[rows.n_inputs - 1]
    far = common.size > _CACHED
    for row in range(first, last):
        begin, end = rows.indptr[row], rows.indptr[row + 1]
        if far and row + 1 < last:
            for place in range(end, rows.indptr[row + 2]):
                f = max(codes[place], 0)
                prefetch(common, f, f + 1)
        sum_rows(
            (common, lane.where), codes, rows.data, begin, end, constant, rows.bias,
            out[row - first],
        )  # fmt: skip


@implements(add_row, LaneRows)
def _add(lane, matrix, row, values, scale):
    rows, codes = lane.rows, lane.codes
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    for place in range(begin, end):
        if codes[place] < 0:
            _own_row(lane, ~codes[place])
    spread_row((lane.matrix, lane.where), codes, rows.data, begin, end, values, scale)
    if rows.bias != 0.0:
        _own_row(lane, 0)
        add_scaled(lane.pool[0], values, scale * rows.bias)


@implements(prefetch_rows, LaneRows)
def _prefetch(lane, first, last):
    rows = lane.rows
    prefetch(rows.squares, first, last)
    prefetch(rows.data, rows.indptr[first], rows.indptr[last])
    prefetch(lane.codes, rows.indptr[first], rows.indptr[last])


@implements(cross_products, LaneRows)
def _cross_products(lane, first, unary, moved_at, moved, scratch):
    return cross_products(lane.rows, first, unary, moved_at, moved, scratch)
