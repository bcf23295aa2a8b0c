"""Visits to batches of blocks by several threads (see :mod:`~maxmargin._kernels.team`).

Threads call the oracle for all examples of a batch at the weights before the batch. Then one step
after another is made at the weights of the moment: any output is a feasible direction, so every
exact step increases the dual, as in ``vertex_steps`` and ``pairwise_steps``. The outputs are those
of slightly older weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.atoms import find_atom, remove_atom, reserve_atoms, write_atom
from .._kernels.blocks import (
    clear_parts,
    expected_score,
    grow,
    has_room,
    mix_block,
    subtract_block,
)
from .._kernels.jit import implements, leaf
from .._kernels.passes import block_sizes, scratch_sizes
from .._kernels.team import answer_item, apply_item, in_batches
from ..structures import chain_revisit, tree_revisit  # noqa: F401  (answers, for the kernel)
from ._bcfw_kernel import lengthen
from ._pairwise_kernel import _look, _move_mass
from ._revisit_kernel import revisit_sizes

# Examples whose data are prefetched ahead of their visits.
_AHEAD = 2


class Vertices(NamedTuple):
    """Outputs of a batch: the number of their parts, 0 if there is no step; the parts; the part of
    the gap that does not depend on the weights; and the curvature of the step."""

    n_parts: np.ndarray
    parts: np.ndarray
    constant: np.ndarray
    curvature: np.ndarray


class VertexVisits(NamedTuple):
    """Steps towards the outputs of the oracle."""

    structure: Any
    rows: Any
    scales: np.ndarray
    visits: Any
    weights: np.ndarray
    trail: Any
    blocks: Any
    found: Vertices


class Prepared(NamedTuple):
    """What moves of mass in a batch need beside the weights; see ``prepare_revisit``."""

    places: np.ndarray
    counts: np.ndarray
    gram: np.ndarray


class PairwiseVisits(NamedTuple):
    """A new output of the oracle, if it is asked, and moves of mass between the outputs of the
    example."""

    structure: Any
    rows: Any
    scales: np.ndarray
    visits: Any
    weights: np.ndarray
    atoms: Any
    prepared: Prepared
    asks: bool
    size: int  # of a batch


@leaf
def _prefetch(structure, rows, order, item):
    if item + _AHEAD < order.shape[0]:
        generic.prefetch_block(structure, rows, order[item + _AHEAD])


@leaf
def _set_direction(blocks, i, parts, direction):
    """An output minus block i."""
    subtract_block(blocks, i, direction)
    for part in parts:
        direction[part] += 1.0


@implements(answer_item, VertexVisits)
def _answer_vertex(task, item, scratch):
    structure, rows, blocks, found = task.structure, task.rows, task.blocks, task.found
    gain_buffer, direction_buffer, _, output_buffer, work = scratch
    i = task.visits.order[item]
    _prefetch(structure, rows, task.visits.order, item)
    slot = item % found.n_parts.shape[0]
    found.n_parts[slot] = 0
    scale = task.scales[i]
    if scale == 0.0:
        return
    size = generic.block_size(structure, i)
    low, high = generic.label_range(structure, i)
    gains = gain_buffer[:size]
    output = output_buffer[: high - low]
    generic.score_block(structure, rows, task.weights, i, gains)
    generic.add_loss(structure, i, gains)
    value = generic.decode(structure, i, gains, work, output)
    gap = value - expected_score(blocks, i, gains)
    task.visits.gaps[i] = gap
    if gap <= 0.0:
        return
    count = generic.output_parts(structure, i, output, found.parts[slot])
    parts = found.parts[slot, :count]
    direction = direction_buffer[:size]
    _set_direction(blocks, i, parts, direction)
    found.constant[slot] = gap - generic.score_along(structure, rows, task.weights, i, direction)
    found.curvature[slot] = scale * generic.squared_norm(structure, rows, i, direction, work)
    clear_parts(blocks, i, parts, direction)
    found.n_parts[slot] = count


@implements(apply_item, VertexVisits)
def _apply_vertex(task, item, scratch):
    structure, rows, blocks, found = task.structure, task.rows, task.blocks, task.found
    _, direction_buffer, places, _, _ = scratch
    before = lengthen(task.trail)
    slot = item % found.n_parts.shape[0]
    if found.n_parts[slot] == 0:
        return
    i = task.visits.order[item]
    parts = found.parts[slot, : found.n_parts[slot]]
    direction = direction_buffer[: generic.block_size(structure, i)]
    _set_direction(blocks, i, parts, direction)
    gap = found.constant[slot] + generic.score_along(structure, rows, task.weights, i, direction)
    gamma = 0.0
    if gap > 0.0:
        gamma = 1.0 if gap >= found.curvature[slot] else gap / found.curvature[slot]
        change = -gamma * task.scales[i]
        generic.add_block(structure, rows, task.weights, i, direction, change)
        correction = task.trail.correction
        if correction.shape[0] > 0:
            generic.add_block(structure, rows, correction, i, direction, change * before)
    clear_parts(blocks, i, parts, direction)
    if gamma > 0.0:
        mix_block(blocks, i, parts, gamma, places)


@implements(answer_item, PairwiseVisits)
def _answer_pairwise(task, item, scratch):
    structure, rows, atoms = task.structure, task.rows, task.atoms
    (gains, _, _), output_buffer, known, work, moving = scratch
    i = task.visits.order[item]
    _prefetch(structure, rows, task.visits.order, item)
    if task.scales[i] == 0.0:
        return
    if not task.asks:
        _prepare(task, item, moving)
        return
    _, gap = _look(structure, rows, task.weights, atoms, i, gains, output_buffer, work, known)
    task.visits.gaps[i] = gap
    if gap > 0.0:
        low, high = generic.label_range(structure, i)
        output = output_buffer[: high - low]
        if find_atom(atoms, i, output) < 0:
            write_atom(atoms, i, output, 0.0)
        _prepare(task, item, moving)


@leaf
def _stored(task, i):
    """Stored outputs of an example, and the place of their shares."""
    low, high = generic.label_range(task.structure, i)
    count, first = task.atoms.count[i], task.atoms.labels_start[i]
    outputs = task.atoms.labels[first : first + count * (high - low)].reshape(count, high - low)
    return outputs, task.atoms.start[i]


@leaf
def _known(task, item, moving):
    """What is prepared for an item, and the scratch of its moves."""
    slot = item % task.prepared.counts.shape[0]
    places, counts, gram = task.prepared
    return places[slot], counts[slot], gram[slot], moving[0], moving[1]


@leaf
def _prepare(task, item, moving):
    """Prepare moves between the outputs of the example of an item."""
    i = task.visits.order[item]
    outputs, _ = _stored(task, i)
    known = _known(task, item, moving)
    generic.prepare_revisit(task.structure, task.rows, i, outputs, known)


@leaf
def _move(task, item, moving):
    """Make moves at the present weights; outputs without mass are removed."""
    atoms, i = task.atoms, task.visits.order[item]
    outputs, start = _stored(task, i)
    shares, known = atoms.weight[start : start + outputs.shape[0]], _known(task, item, moving)
    generic.revisit(
        task.structure, task.rows, task.weights, i, task.scales[i], outputs, shares, known
    )
    for a in range(outputs.shape[0] - 1, -1, -1):
        if shares[a] == 0.0:
            remove_atom(atoms, i, a, outputs.shape[1])


@leaf
def _rests(task, i):
    """Whether the block of an example stays as it is."""
    return task.scales[i] == 0.0 or (task.asks and task.visits.gaps[i] <= 0.0)


@leaf
def _prefetch_moves(task, item):
    """Prefetch the weights that the moves of the next example of the batch will use."""
    if (item + 1) % task.size == 0 or item + 1 == task.visits.order.shape[0]:
        return
    i, slot = task.visits.order[item + 1], (item + 1) % task.prepared.counts.shape[0]
    if not _rests(task, i):
        places, counts = task.prepared.places[slot], task.prepared.counts[slot]
        generic.prefetch_revisit(task.structure, task.rows, task.weights, i, places, counts)


@implements(apply_item, PairwiseVisits)
def _apply_pairwise(task, item, scratch):
    structure, rows, atoms = task.structure, task.rows, task.atoms
    (gains, pair, total), output_buffer, known, work, moving = scratch
    i = task.visits.order[item]
    _prefetch_moves(task, item)
    if _rests(task, i):
        return
    if generic.can_revisit(structure, i) or not task.asks:
        _move(task, item, moving)
        return
    size, scale = generic.block_size(structure, i), task.scales[i]
    _look(structure, rows, task.weights, atoms, i, gains, output_buffer, work, known)
    _move_mass(
        structure, rows, atoms, i, scale, (gains[:size], pair[:size], total[:size]), work, known
    )
    generic.add_block(structure, rows, task.weights, i, total[:size], -scale)


def vertex_batches(problem, visits, weights, trail, blocks):
    """As ``vertex_steps``, in batches; returns the storage of the dual."""
    structure, rows, size = problem.structure, problem.shared_rows, problem.batch
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    needed = int(blocks.count[visits.order].sum()) + (most_parts + 2) * len(visits.order)
    if not has_room(blocks, needed):
        blocks = grow(blocks, needed)
    found = Vertices(
        np.zeros(size, np.int64),
        np.empty((size, most_parts), np.int32),
        np.empty(size),
        np.empty(size),
    )
    task = VertexVisits(structure, rows, problem.scales, visits, weights, trail, blocks, found)

    def scratch(thread):
        return (
            np.empty(largest),
            np.zeros(largest),  # directions: zero between two visits
            np.full(largest, -1, np.int32),
            np.empty(most_labels, np.int32),
            problem.workspace.array("oracle", work, thread=thread),
        )

    costs = block_sizes(structure)[visits.order]
    in_batches(task, costs, size, problem.n_threads, scratch)
    return blocks


def pairwise_batches(problem, visits, weights, trail, atoms):
    """As ``pairwise_steps``, in batches and without an average; returns the storage of the dual."""
    atoms = reserve_atoms(problem.structure, atoms, visits.order)
    _in_pairs(problem, visits, weights, atoms, True)
    return atoms


def revisit_batches(problem, visits, weights, atoms):
    """As ``revisit_steps``, in batches: the same bits."""
    _in_pairs(problem, visits, weights, atoms, False)


def _in_pairs(problem, visits, weights, atoms, asks):
    structure, rows, size = problem.structure, problem.shared_rows, problem.batch
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    most = int(atoms.count[visits.order].max()) + 1
    n_lists, longest, n_products = revisit_sizes(structure, rows, most)
    array = problem.workspace.array
    # What is prepared does not depend on the weights: without oracles, threads are a batch ahead.
    room = size if asks else 2 * size
    prepared = Prepared(
        array("lists", (room, n_lists, longest), np.int32),
        np.empty((room, most), np.int64),
        array("products", (room, n_products, n_products)),
    )
    task = PairwiseVisits(
        structure, rows, problem.scales, visits, weights, atoms, prepared, asks, size
    )  # fmt: skip

    def scratch(thread):
        known = np.empty((most, most_parts), np.int32), np.empty(most, np.int64), np.empty(most)
        moving = np.empty((2, most)), array("moves", work, thread=thread)
        blocks = np.empty(largest), np.zeros(largest), np.empty(largest)
        own = array("oracle", work, thread=thread)
        return blocks, np.empty(most_labels, np.int32), known, own, moving

    costs = block_sizes(structure)[visits.order]
    in_batches(task, costs, size, problem.n_threads, scratch, ahead=not asks)
