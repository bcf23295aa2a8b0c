"""The compiled pass of block-coordinate Frank-Wolfe where H is linear: steps towards one output.

The steps are those of the general kernel, but only the parts of the new output and those stored in
the block are read: a few dozen of the hundreds of parts of a chain.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.blocks import (
    clear_parts,
    expected_score,
    grow,
    has_room,
    mix_block,
    prefetch_stored,
    subtract_block,
)
from .._kernels.jit import leaf
from .._kernels.passes import scratch_sizes
from ._bcfw_kernel import draw_from_sum_tree, lengthen, set_in_sum_tree


@leaf
def visit_blocks(structure, rows, scales, visits, weights, trail, blocks, first, scratch):
    """The loop of :func:`vertex_steps` from step ``first`` on, until the pool of the blocks is
    full; returns the number of steps done so far."""
    gain_buffer, direction_buffer, places, output_buffer, part_buffer, work = scratch
    order, draws, tree, gaps, _ = visits
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    for step in range(first, steps):
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        if not has_room(blocks, blocks.count[i] + part_buffer.shape[0]):
            return step
        before = lengthen(trail)
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
            prefetch_stored(blocks, order[step + 1])
        scale = scales[i]
        if scale == 0.0:
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        gains = gain_buffer[:size]
        output = output_buffer[: high - low]
        generic.score_block(structure, rows, weights, i, gains)
        generic.add_loss(structure, i, gains)
        value = generic.decode(structure, i, gains, work, output)
        gap = value - expected_score(blocks, i, gains)
        gaps[i] = gap
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gap, 0.0))
        if gap <= 0.0:
            continue
        parts = part_buffer[: generic.output_parts(structure, i, output, part_buffer)]
        direction = direction_buffer[:size]
        subtract_block(blocks, i, direction)
        for part in parts:
            direction[part] += 1.0
        curvature = scale * generic.squared_norm(structure, rows, i, direction, work)
        gamma = 1.0 if gap >= curvature else gap / curvature
        generic.add_block(structure, rows, weights, i, direction, -gamma * scale)
        if trail.correction.shape[0] > 0:
            change = -gamma * scale * before
            generic.add_block(structure, rows, trail.correction, i, direction, change)
        clear_parts(blocks, i, parts, direction)
        mix_block(blocks, i, parts, gamma, places)
    return steps


def vertex_steps(objective, rows, scales, visits, weights, trail, blocks):
    """Visit blocks: a loss-augmented argmax, and the exact step towards it.

    Arguments and result are those of ``bcfw_steps``; the surrogate must have a linear H.
    """
    structure = objective.structure
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    scratch = (
        np.empty(largest),
        np.zeros(largest),  # directions: zero between two visits
        np.full(largest, -1, np.int32),
        np.empty(most_labels, np.int32),
        np.empty(most_parts, np.int32),
        np.empty(work),
    )
    steps = visits.n_steps
    done = 0
    while True:
        done = visit_blocks(structure, rows, scales, visits, weights, trail, blocks, done, scratch)
        if done == steps:
            return blocks, steps
        blocks = grow(blocks, int(blocks.count.max()) + len(scratch[4]))
