"""Visits to examples in lanes that several threads run (see :mod:`~maxmargin.features.lanes`).

The examples of a batch are cut into lanes of about equal size. Each lane makes the visits of the
plain solver, at the weights before the batch and its own changes; then the changes are merged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.atoms import Atoms, find_atom, reserve_atoms, write_atom
from .._kernels.jit import implements, leaf
from .._kernels.passes import block_sizes, scratch_sizes
from .._kernels.team import do_phase, in_phases
from ..features.lanes import (
    Lanes,
    lane_rows,
    make_lanes,
    merge_lanes,
    open_lane,
    overlap_factor,
)
from ._pairwise_kernel import look, move_mass
from ._revisit_kernel import revisit_atoms

# Lanes of a batch, a power of two, and the examples of each. In smaller batches threads wait for
# each other more often; in larger ones lanes know less of each other's changes.
N_LANES, _IN_LANE = 2, 16


class AtomVisits(NamedTuple):
    """Visits to examples whose dual is stored as outputs: with a new output of the oracle, or, in
    ``order`` alone, between the outputs that there are."""

    structure: Any
    rows: Any
    scales: np.ndarray
    order: np.ndarray
    bounds: np.ndarray  # of the lanes of each batch, in the order
    gaps: np.ndarray  # of each example; empty: no oracle
    matrix: np.ndarray
    rest: np.ndarray
    lanes: Lanes
    atoms: Atoms


@implements(do_phase, AtomVisits)
def _visit_batch(task, phase, lane, scratch):
    lanes, matrix, rest = task.lanes, task.matrix, task.rest
    batch = phase // 2
    if phase % 2:
        merge_lanes(lanes, lane, matrix, rest, 1.0 / overlap_factor(lanes, batch))
        return
    factor = open_lane(lanes, lane, batch, rest)
    rows = lane_rows(lanes, task.rows, matrix, lane)
    last = task.bounds[batch, lane + 1]
    for item in range(task.bounds[batch, lane], last):
        i = task.order[item]
        if item + 1 < last:
            generic.prefetch_block(task.structure, rows, task.order[item + 1])
        scale = factor * task.scales[i]
        if scale == 0.0:
            continue
        if task.gaps.shape[0] > 0:
            _visit(task, rows, lanes.rest[lane], i, scale, scratch)
        else:
            revisit_atoms(
                task.structure, rows, lanes.rest[lane], task.atoms, i, scale, scratch[4]
            )


@leaf
def _visit(task, rows, rest, i, scale, scratch):
    """A visit of ``pairwise_steps``, with capacity for a new output."""
    structure, atoms = task.structure, task.atoms
    (gains, pair, total), output_buffer, known, work, _ = scratch
    parts, n_parts, scores = known
    value, gap = look(structure, rows, rest, atoms, i, gains, output_buffer, work, known)
    task.gaps[i] = gap
    if gap <= 0.0:
        return
    low, high = generic.label_range(structure, i)
    output = output_buffer[: high - low]
    if find_atom(atoms, i, output) < 0:
        a = atoms.count[i]
        write_atom(atoms, i, output, 0.0)
        n_parts[a] = generic.output_parts(structure, i, output, parts[a])
        scores[a] = value
    size = generic.block_size(structure, i)
    blocks = (gains[:size], pair[:size], total[:size])
    move_mass(structure, rows, atoms, i, scale, blocks, work, known)
    generic.add_block(structure, rows, rest, i, total[:size], -scale)


def lane_bounds(sizes: np.ndarray, batch: int, n_lanes: int) -> np.ndarray:
    """Where the lanes of each batch begin and end, so that their sums of sizes are about equal."""
    n = len(sizes)
    n_batches = -(-n // batch)
    sums = np.concatenate([[0], np.cumsum(sizes)])
    edges = np.minimum(np.arange(n_batches + 1) * batch, n)
    shares = np.arange(1, n_lanes) / n_lanes
    wanted = sums[edges[:-1], None] + shares * (sums[edges[1:]] - sums[edges[:-1]])[:, None]
    inner = np.searchsorted(sums, wanted)
    return np.column_stack([edges[:-1], inner, edges[1:]])


def visit_in_lanes(problem, order, gaps, weights, atoms, overlap):
    """Visit examples in lanes; with ``gaps``, oracles are called. Returns the storage of the dual.

    ``overlap`` has the running means of both squares of changes, and receives the new ones.
    """
    structure, rows = problem.structure, problem.shared_rows
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    if len(gaps):
        atoms = reserve_atoms(structure, atoms, order)
    most = int(atoms.count[order].max()) + 1
    bounds = lane_bounds(block_sizes(structure)[order], problem.batch, N_LANES)
    n_columns = structure.n_weights(1) - structure.n_weights(0)
    split = rows.n_inputs * n_columns
    stored = np.diff(rows.indptr[structure.indptr])[order]  # entries of the rows of each example
    in_lane = np.add.reduceat(np.append(stored, 0), bounds[:, :-1].ravel())
    room = min(rows.n_inputs, int(in_lane.max()) + 1)
    lanes = make_lanes(rows, n_columns, len(weights) - split, N_LANES, room, len(bounds))
    lanes.means[0] = overlap
    task = AtomVisits(
        structure, rows, problem.scales, order, bounds, gaps,
        weights[:split].reshape(rows.n_inputs, n_columns), weights[split:], lanes, atoms,
    )  # fmt: skip

    def scratch():
        known = np.empty((most, most_parts), np.int32), np.empty(most, np.int64), np.empty(most)
        revisiting = (
            np.empty((most, most_labels), np.int64),
            np.empty(most, np.int64),
            np.empty((most, most)),
            np.empty((2, most)),
            np.zeros(largest),
        )
        blocks = np.empty(largest), np.zeros(largest), np.empty(largest)
        return blocks, np.empty(most_labels, np.int32), known, np.empty(work), revisiting

    in_phases(task, 2 * len(bounds), N_LANES, problem.n_threads, scratch)
    open_lane(lanes, 0, len(bounds), task.rest)
    overlap[:] = lanes.means[-1]
    return atoms
