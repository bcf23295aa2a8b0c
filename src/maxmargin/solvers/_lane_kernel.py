"""Visits to examples in lanes that several threads run (see :mod:`~maxmargin.features.lanes`).

Each lane makes the visits of the plain solver, at the weights before its batch and its own changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.atoms import Atoms, find_atom, reserve_atoms, write_atom
from .._kernels.jit import implements, leaf
from .._kernels.passes import scratch_sizes
from .._kernels.team import do_phase, in_phases
from ..features.lanes import (
    N_LANES,
    LanePlan,
    LaneRows,
    Lanes,
    make_lanes,
    merge_lanes,
    open_lane,
    update_means,
)
from ._pairwise_kernel import look, move_mass
from ._revisit_kernel import revisit_atoms


class AtomVisits(NamedTuple):
    """Visits to examples whose dual is stored as outputs: with a new output of the oracle, or, if
    there are no ``gaps``, between the outputs that there are."""

    structure: Any
    rows: Any
    scales: np.ndarray
    order: np.ndarray
    bounds: np.ndarray  # batch, and limits of its lanes in the order
    gaps: np.ndarray
    weights: tuple[np.ndarray, np.ndarray]  # of the features, and behind them
    plan: LanePlan
    lanes: Lanes
    atoms: Atoms


@implements(do_phase, AtomVisits)
def _visit_batch(task, phase, lane, scratch):
    lanes, plan, (matrix, rest) = task.lanes, task.plan, task.weights
    number = phase // 2
    batch = task.bounds[number, 0]
    if phase % 2:
        merge_lanes(lanes, plan, lane, batch, number, matrix, rest)
        return
    first, last = task.bounds[number, lane + 1], task.bounds[number, lane + 2]
    caution = open_lane(lanes, plan, lane, batch, number, matrix, rest)
    rows = LaneRows(
        task.rows, task.rows.squares, 0, plan.codes, plan.shared[plan.first[batch] :], matrix,
        lanes.pool[lane], lanes.where[lane], lanes.changed[lane], lanes.count[lane], lanes.own[lane],
    )  # fmt: skip
    gained = 0.0
    for item in range(first, last):
        i = task.order[item]
        if item + 1 < last:
            generic.prefetch_block(task.structure, rows, task.order[item + 1])
        scale = task.scales[i]
        if scale == 0.0:
            continue
        if task.gaps.shape[0] > 0:
            gain = _visit(task, rows, lanes.rest[lane], i, caution, scratch)
        else:
            gain = revisit_atoms(
                task.structure, rows, lanes.rest[lane], task.atoms, i, scale, caution, scratch[4]
            )
        gained += scale * gain
    lanes.gains[number, lane] = gained


@leaf
def _visit(task, rows, rest, i, caution, scratch):
    """A visit of ``pairwise_steps``, with capacity for a new output; returns its gain."""
    structure, atoms, scale = task.structure, task.atoms, task.scales[i]
    (gains, pair, total), output_buffer, known, work, _ = scratch
    parts, n_parts, scores = known
    value, gap = look(structure, rows, rest, atoms, i, gains, output_buffer, work, known)
    task.gaps[i] = gap
    if gap <= 0.0:
        return 0.0
    low, high = generic.label_range(structure, i)
    output = output_buffer[: high - low]
    if find_atom(atoms, i, output) < 0:
        a = atoms.count[i]
        write_atom(atoms, i, output, 0.0)
        n_parts[a] = generic.output_parts(structure, i, output, parts[a])
        scores[a] = value
    size = generic.block_size(structure, i)
    blocks = (gains[:size], pair[:size], total[:size])
    gain = move_mass(structure, rows, atoms, i, caution * scale, blocks, work, known)
    generic.add_block(structure, rows, rest, i, total[:size], -scale)
    return gain


def visit_in_lanes(problem, order, gaps, weights, atoms, means):
    """Visit examples, grouped by the batches of ``problem.lanes``; with ``gaps``, oracles are
    called. Returns the storage of the dual.

    ``means`` are the running means of gains and losses, and receive the new ones.
    """
    structure, rows, plan = problem.structure, problem.shared_rows, problem.lanes
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    if len(gaps):
        atoms = reserve_atoms(structure, atoms, order)
    most = int(atoms.count[order].max()) + 1
    bounds = plan.bounds(order)
    n_columns = structure.n_weights(1) - structure.n_weights(0)
    split = rows.n_inputs * n_columns
    lanes = make_lanes(plan, n_columns, len(weights) - split, len(bounds))
    lanes.means[0] = means
    parts = weights[:split].reshape(rows.n_inputs, n_columns), weights[split:]
    task = AtomVisits(
        structure, rows, problem.scales, order, bounds, gaps, parts, plan, lanes, atoms
    )

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
    update_means(lanes, 0, len(bounds))
    means[:] = lanes.means[-1]
    return atoms
