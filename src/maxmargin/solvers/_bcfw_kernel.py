"""The compiled pass of block-coordinate Frank-Wolfe: one kernel for all structures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.blocks import grow, has_room, load_block, prefetch_stored, store_block
from .._kernels.jit import leaf
from .._kernels.passes import make_scratch
from .._kernels.vector import add_scaled, dot


@leaf
def build_sum_tree(values, tree):
    """Binary tree of partial sums; leaf i is ``tree[n_leaves + i]``, the root is ``tree[1]``."""
    half = tree.shape[0] // 2
    tree[:] = 0.0
    for i in range(values.shape[0]):
        tree[half + i] = values[i]
    for node in range(half - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@leaf
def set_in_sum_tree(tree, i, value):
    """Change one leaf."""
    node = tree.shape[0] // 2 + i
    tree[node] = value
    node //= 2
    while node > 0:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@leaf
def draw_from_sum_tree(tree, uniform):
    """The leaf at which a share ``uniform`` of the total is passed."""
    half = tree.shape[0] // 2
    node = 1
    rest = uniform * tree[1]
    while node < half:
        node *= 2
        if rest >= tree[node] and tree[node + 1] > 0.0:
            rest -= tree[node]
            node += 1
    return node - half


@leaf
def weight_of(t, power):
    """``t ** power``; the usual powers without a ``pow``."""
    if power == 3.0:
        return t * t * t
    return t if power == 1.0 else t**power


class Trail(NamedTuple):
    """The average over all steps, the t-th iterate weighted by ``t ** power``: it differs from the
    last iterate by ``correction / mass[0]``. ``mass[1]`` is t. Without ``correction`` no average is
    computed."""

    correction: np.ndarray
    mass: np.ndarray
    power: float


@leaf
def lengthen(trail):
    """Count a step; returns the weight of all iterates before it."""
    if trail.correction.shape[0] == 0:
        return 0.0
    before = trail.mass[0]
    trail.mass[1] += 1.0
    trail.mass[0] += weight_of(trail.mass[1], trail.power)
    return before


class Visits(NamedTuple):
    """The blocks to visit next; or, if ``draws`` is not empty, uniform numbers that draw them in
    proportion to ``gaps * sample weight`` from the sum tree. ``gaps`` are those of the last visits.
    Step lengths are found by line search; if ``before`` is not negative, it is the number t of
    steps so far, and steps have the length ``2n / (t + 2n)``."""

    order: np.ndarray
    draws: np.ndarray
    tree: np.ndarray
    gaps: np.ndarray
    before: int = -1

    @property
    def n_steps(self) -> int:
        """Number of visits."""
        return len(self.draws) or len(self.order)


@leaf
def visit_blocks(objective, rows, scales, visits, weights, trail, blocks, first, scratch):
    """The loop of :func:`bcfw_steps` from step ``first`` on, until the pool of the blocks is full;
    returns the number of steps done so far."""
    oracle, surrogate, structure = objective
    buffers, found, label_buffer, work = scratch
    order, draws, tree, gaps, fixed = visits
    twice = 2.0 * generic.n_blocks(structure)
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    for step in range(first, steps):
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        size = generic.block_size(structure, i)
        if not has_room(blocks, size):
            return step
        before = lengthen(trail)
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
            prefetch_stored(blocks, order[step + 1])
        scale = scales[i]
        if scale == 0.0:
            continue
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        mu = buffers[1, :size]
        direction = buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        load_block(blocks, i, mu)
        labels = label_buffer[: high - low]
        gap, whole = generic.respond(
            oracle, surrogate, structure, rows, i, scores, mu, scale, (work, labels), direction
        )
        gaps[i] = gap
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gap, 0.0))
        if gap <= 0.0:
            continue
        add_scaled(direction, mu, -1.0)
        gamma = 1.0
        if not whole:
            if fixed >= 0:
                gamma = twice / (fixed + step + twice)
            else:
                slope = dot(direction, scores)
                curvature = scale * generic.squared_norm(structure, rows, i, direction, work)
                gamma = generic.line_step(
                    surrogate, structure, i, mu, direction, gap, slope, curvature, work
                )
            generic.learn_step(oracle, i, gamma)
        if gamma <= 0.0:
            continue
        add_scaled(mu, direction, gamma)
        generic.add_block(structure, rows, weights, i, direction, -gamma * scale)
        if trail.correction.shape[0] > 0:
            change = -gamma * scale * before
            generic.add_block(structure, rows, trail.correction, i, direction, change)
        store_block(blocks, i, mu, found)
    return steps


def bcfw_steps(objective, rows, scales, visits, weights, trail, blocks):
    """Visit blocks one after another and maximise the dual along one direction in each.

    Parameters
    ----------
    objective : Objective
    scales : array
        ``sample_weight_i / (alpha * total weight)``: the step of w in a block.
    visits : Visits
        The blocks to visit; receives the gap of each block at its visit.
    trail : Trail
        The average over all steps, or none.

    Returns
    -------
    blocks, steps
        The storage of the dual and the number of steps.
    """
    buffers, labels, _, work = make_scratch(objective.structure, rows)
    found = np.empty(buffers.shape[1], np.int32)
    steps = visits.n_steps
    done = 0
    while True:
        done = visit_blocks(
            objective, rows, scales, visits, weights, trail, blocks, done,
            (buffers, found, labels, work),
        )  # fmt: skip
        if done == steps:
            return blocks, steps
        blocks = grow(blocks, len(found))
