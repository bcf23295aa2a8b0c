"""Storage of the dual of chains as flows: the mass on every pair of neighbouring labels.

One unit of mass flows through the labels of a sequence. Slot t of a sequence lists the edges
``(label at t-1, label at t)`` with mass (the first slot has label 0 before it), so the marginals of
labels and of transitions are sums over slots. A move takes mass from some edges and adds it to
others so that the flow into a label is equal to the flow out of it: every state has exactly the
marginals of some mixture of outputs, and these outputs need not be stored.

In addition, a distribution over the labels at each position is stored (``predictions``): the
solution of the inner minimum of the surrogate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import protocol as generic
from .jit import compiled, implements, leaf

# Mass below this is a rounding error.
NEGLIGIBLE = 1e-15


class Flows(NamedTuple):
    """Edges of position p are ``start[p] : start[p] + count[p]``; edge (j, k) is ``j * K + k``."""

    start: np.ndarray
    count: np.ndarray
    room: np.ndarray
    used: np.ndarray  # one number: the end of the used part of the pool
    edge: np.ndarray
    mass: np.ndarray
    predictions: np.ndarray  # (positions, K)

    @property
    def nbytes(self) -> int:
        """Bytes held by the pool and the predictions."""
        return int(sum(array.nbytes for array in self))


def truth_flows(truth: np.ndarray, indptr: np.ndarray, n_labels: int) -> Flows:
    """All mass, and all predictions, on the true labels."""
    n = len(truth)
    before = np.concatenate([[0], truth[:-1]])
    before[indptr[:-1]] = 0
    room = 6
    edge = np.zeros(room * n + 16, np.int32)
    mass = np.zeros(len(edge))
    edge[: room * n : room] = before * n_labels + truth
    mass[: room * n : room] = 1.0
    predictions = np.zeros((n, n_labels))
    predictions[np.arange(n), truth] = 1.0
    return Flows(
        np.arange(0, room * n, room, dtype=np.int64),
        np.ones(n, np.int32),
        np.full(n, room, np.int32),
        np.array([room * n], np.int64),
        edge,
        mass,
        predictions,
    )


@compiled
def grow(flows, extra):
    """Compact the pool into one with at least ``extra`` free entries."""
    live = 0
    for p in range(flows.start.shape[0]):
        live += flows.room[p]
    size = live + live // 2 + extra
    edge = np.empty(size, flows.edge.dtype)
    mass = np.empty(size, flows.mass.dtype)
    end = 0
    for p in range(flows.start.shape[0]):
        first = flows.start[p]
        for e in range(flows.count[p]):
            edge[end + e] = flows.edge[first + e]
            mass[end + e] = flows.mass[first + e]
        flows.start[p] = end
        end += flows.room[p]
    flows.used[0] = end
    return Flows(flows.start, flows.count, flows.room, flows.used, edge, mass, flows.predictions)


@leaf
def make_room(flows, first, last, extra):
    """Give every position of a range capacity for ``extra`` more edges; moves it if necessary.

    Returns the number of entries that are missing in the pool: 0 on success; otherwise call
    :func:`grow` and try again.
    """
    for p in range(first, last):
        if flows.count[p] + extra > flows.room[p]:
            room = 2 * flows.count[p] + extra
            if flows.used[0] + room > flows.edge.shape[0]:
                return room
            start = flows.used[0]
            for e in range(flows.count[p]):
                flows.edge[start + e] = flows.edge[flows.start[p] + e]
                flows.mass[start + e] = flows.mass[flows.start[p] + e]
            flows.start[p] = start
            flows.room[p] = room
            flows.used[0] += room
    return 0


@leaf
def find_edge(flows, p, edge):
    """Index of an edge in the pool, or -1."""
    for place in range(flows.start[p], flows.start[p] + flows.count[p]):
        if flows.edge[place] == edge:
            return place
    return -1


@leaf
def take_mass(flows, p, edge, amount):
    """Take mass from an edge; an empty edge is removed."""
    place = find_edge(flows, p, edge)
    flows.mass[place] -= amount
    if flows.mass[place] <= NEGLIGIBLE:
        flows.count[p] -= 1
        last = flows.start[p] + flows.count[p]
        flows.edge[place] = flows.edge[last]
        flows.mass[place] = flows.mass[last]


@leaf
def put_mass(flows, p, edge, amount):
    """Add mass to an edge; the position must have capacity for it."""
    place = find_edge(flows, p, edge)
    if place >= 0:
        flows.mass[place] += amount
        return
    place = flows.start[p] + flows.count[p]
    flows.edge[place] = edge
    flows.mass[place] = amount
    flows.count[p] += 1


@implements(generic.load_dual, Flows, at=1)
def _load_flows(structure, dual, i, parts, out):
    low, high = generic.label_range(structure, i)
    n = dual.predictions.shape[1]
    out[:] = 0.0
    for p in range(low, high):
        for place in range(dual.start[p], dual.start[p] + dual.count[p]):
            edge = dual.edge[place]
            out[(p - low) * n + edge % n] += dual.mass[place]
            if p > low:
                out[(high - low) * n + edge] += dual.mass[place]
