"""Where the time of an update goes: the stages of one visit, added one after another.

The kernel visits all examples and does the first stages only; the time that a further stage adds is
its cost. Nothing is changed to speak of: weights and blocks move by steps scaled down.
"""

from __future__ import annotations

import time

import numpy as np

from maxmargin._kernels import protocol as generic
from maxmargin._kernels.blocks import (
    clear_parts,
    expected_score,
    has_room,
    mix_block,
    subtract_block,
)
from maxmargin._kernels.jit import compiled, leaf

from .harness import Sample

STAGES = ("scores", "loss-augmented Viterbi", "gap", "norm", "weights", "storage")


@leaf
def _visit_one(structure, rows, i, weights, blocks, depth, scale, scratch):
    """The first ``depth`` stages of a visit to one example, as in the solver's own kernel."""
    gain_buffer, direction_buffer, places, output_buffer, part_buffer, work = scratch
    size = generic.block_size(structure, i)
    low, high = generic.label_range(structure, i)
    gains, output = gain_buffer[:size], output_buffer[: high - low]
    generic.score_block(structure, rows, weights, i, gains)
    total = gains[0]
    if depth > 1:
        generic.add_loss(structure, i, gains)
        total += generic.decode(structure, i, gains, work, output)
    if depth > 2:
        total -= expected_score(blocks, i, gains)
    if depth > 3:
        parts = part_buffer[: generic.output_parts(structure, i, output, part_buffer)]
        direction = direction_buffer[:size]
        subtract_block(blocks, i, direction)
        for part in parts:
            direction[part] += 1.0
        total += generic.squared_norm(structure, rows, i, direction, work)
        if depth > 4:
            generic.add_block(structure, rows, weights, i, direction, scale)
        clear_parts(blocks, i, parts, direction)
        if depth > 5 and has_room(blocks, blocks.count[i] + part_buffer.shape[0]):
            mix_block(blocks, i, parts, 1e-14, places)
    return total


@compiled
def visit(structure, rows, order, weights, blocks, depth, scale):
    """The first ``depth`` stages of a visit to every example in ``order``."""
    largest = generic.largest_block(structure)
    scratch = (
        np.empty(largest),
        np.zeros(largest),
        np.full(largest, -1, np.int32),
        np.empty(generic.most_labels(structure), np.int32),
        np.empty(generic.most_parts(structure), np.int32),
        np.empty(generic.work_size(structure, rows)),
    )
    total = 0.0
    for step in range(order.shape[0]):
        if step + 1 < order.shape[0]:
            generic.prefetch_block(structure, rows, order[step + 1])
        total += _visit_one(structure, rows, order[step], weights, blocks, depth, scale, scratch)
    return total


def stages(problem, stepper, repeats: int) -> dict[str, Sample]:
    """Microseconds an update of every stage, at the state of a stepper."""
    order = np.random.RandomState(0).permutation(problem.n_examples)
    weights = stepper.weights.copy()

    def once(depth: int) -> float:
        began = time.perf_counter()
        visit(problem.structure, problem.rows, order, weights, stepper.dual_state, depth, -1e-9)
        return 1e6 * (time.perf_counter() - began) / problem.n_examples

    once(len(STAGES))  # compiles
    spent = np.array([[once(d + 1) for d in range(len(STAGES))] for _ in range(2 * repeats + 1)])
    added = np.diff(spent, axis=1, prepend=0.0)
    return {stage: Sample(added[:, d].tolist()) for d, stage in enumerate(STAGES)}
