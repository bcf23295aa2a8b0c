"""Where the time of an update goes: the stages of one visit, added one after another.

The kernel visits all examples and does the first stages only; the time that a further stage adds is
its cost. Nothing is changed for good: the weights move by a scaled-down step, blocks are stored as
they were.
"""

from __future__ import annotations

import time

import numpy as np

from maxmargin._kernels import protocol as generic
from maxmargin._kernels.blocks import load_block, store_block
from maxmargin._kernels.jit import compiled

from .harness import Sample

STAGES = ("scores", "loss-augmented Viterbi", "gap", "norm", "weights", "storage")


@compiled
def visit(surrogate, structure, rows, order, weights, blocks, depth, scale):
    """The first ``depth`` stages of a visit to every example in ``order``."""
    buffers = np.empty((3, generic.largest_block(structure)))
    found = np.empty(buffers.shape[1], np.int32)
    labels = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    total = 0.0
    for i in order:
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores, mu, direction = buffers[0, :size], buffers[1, :size], buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        total += scores[0]
        if depth > 1:
            upper, lower = generic.best_response(
                surrogate, structure, i, scores, work, labels[: high - low], direction
            )
            total += upper + direction[0]
        if depth > 2:
            load_block(blocks, i, mu)
            for part in range(size):
                total += mu[part] * scores[part]
                direction[part] -= mu[part]
            total += generic.concave_part(surrogate, structure, i, mu, work)
        if depth > 3:
            total += generic.squared_norm(structure, rows, i, direction, work)
        if depth > 4:
            generic.add_block(structure, rows, weights, i, direction, scale)
        if depth > 5:
            blocks = store_block(blocks, i, mu, found)
    return total


def stages(problem, stepper, repeats: int) -> dict[str, Sample]:
    """Microseconds an update of every stage, at the state of a stepper."""
    order = np.random.RandomState(0).permutation(problem.n_examples)
    weights = stepper.weights.copy()

    def once(depth: int) -> float:
        began = time.perf_counter()
        visit(
            problem.surrogate, problem.structure, problem.rows, order, weights,
            stepper.dual_state, depth, -1e-9,
        )  # fmt: skip
        return 1e6 * (time.perf_counter() - began) / problem.n_examples

    once(len(STAGES))  # compiles
    spent = np.array([[once(d + 1) for d in range(len(STAGES))] for _ in range(2 * repeats + 1)])
    added = np.diff(spent, axis=1, prepend=0.0)
    return {stage: Sample(added[:, d].tolist()) for d, stage in enumerate(STAGES)}
