"""The compiled pass of block-coordinate Frank-Wolfe where H is linear: steps towards one output.

The same steps as the general kernel's, but only the parts of the output found and those stored in
the block are touched: a few dozen of the hundreds of parts of a chain.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.blocks import (
    clear_parts,
    expected_score,
    mix_block,
    mix_in_place,
    prefetch_stored,
    subtract_block,
)
from .._kernels.jit import compiled, leaf
from ._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree, weight_of


@leaf
def _visit(structure, rows, scale, i, weights, blocks, averaged, before, scratch):
    """One step of block i; returns its gap, the step if the block had no room for it, and the
    number of parts of the output."""
    gain_buffer, direction_buffer, places, output_buffer, part_buffer, work = scratch
    size = generic.block_size(structure, i)
    low, high = generic.label_range(structure, i)
    gains = gain_buffer[:size]
    output = output_buffer[: high - low]
    generic.score_block(structure, rows, weights, i, gains)
    generic.add_loss(structure, i, gains)
    value = generic.decode(structure, i, gains, work, output)
    gap = value - expected_score(blocks, i, gains)
    if gap <= 0.0:
        return gap, 0.0, 0
    parts = part_buffer[: generic.output_parts(structure, i, output, part_buffer)]
    direction = direction_buffer[:size]
    subtract_block(blocks, i, direction)
    for part in parts:
        direction[part] += 1.0
    curvature = scale * generic.squared_norm(structure, rows, i, direction, work)
    gamma = 1.0 if gap >= curvature else gap / curvature
    generic.add_block(structure, rows, weights, i, direction, -gamma * scale)
    if averaged.shape[0] > 0:
        generic.add_block(structure, rows, averaged, i, direction, -gamma * scale * before)
    clear_parts(blocks, i, parts, direction)
    if mix_in_place(blocks, i, parts, gamma, places):
        return gap, 0.0, 0
    return gap, gamma, parts.shape[0]


@compiled
def vertex_steps(
    surrogate,
    structure,
    rows,
    scales,
    exact,
    order,
    draws,
    tree,
    gaps,
    weights,
    blocks,
    averaged,
    power,
    mass,
    n_before,
):
    """Visit blocks: a loss-augmented argmax, and the exact step towards it.

    Arguments and answer are those of ``bcfw_steps``; ``surrogate`` must have a linear H.
    """
    largest = generic.largest_block(structure)
    gain_buffer = np.empty(largest)
    direction_buffer = np.zeros(largest)  # zero between two visits
    places = np.full(largest, -1, np.int32)
    output_buffer = np.empty(generic.most_labels(structure), np.int32)
    part_buffer = np.empty(generic.most_parts(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    scratch = (gain_buffer, direction_buffer, places, output_buffer, part_buffer, work)
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    gap_sum = 0.0
    for step in range(steps):
        before = mass[0]
        mass[0] += weight_of(n_before + step + 1.0, power)
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
            prefetch_stored(blocks, order[step + 1])
        scale = scales[i]
        if scale == 0.0:
            continue
        gap, gamma, n_parts = _visit(
            structure, rows, scale, i, weights, blocks, averaged, before, scratch
        )
        if gamma > 0.0:  # the block has outgrown its place
            blocks = mix_block(blocks, i, part_buffer[:n_parts], gamma, places)
        gaps[i] = gap
        gap_sum += scale * gap
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gap, 0.0))
    return blocks, steps, gap_sum
