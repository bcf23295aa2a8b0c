"""Passes over a range of examples that every solver needs: evaluate, decode, rebuild weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import protocol as generic
from .blocks import find_parts, grow, has_room, store_block
from .jit import compiled, leaf, seldom
from .vector import dot


class Objective(NamedTuple):
    """What the blocks of a problem maximise, and how: ``H_i(mu) + scores @ mu`` over the outputs
    of a structure. ``oracle`` may store values per example."""

    oracle: Any
    surrogate: Any
    structure: Any


class Sums(NamedTuple):
    """Results of :func:`evaluate_blocks`: three sums, and the gaps of blocks."""

    sums: np.ndarray
    gaps: np.ndarray


@leaf
def inner_product(left, right):
    """``left @ right``, without a BLAS, whose threads would be slower."""
    return dot(left, right)


@compiled
@seldom
def block_sizes(structure):
    """Number of parts of every block."""
    sizes = np.empty(generic.n_blocks(structure), np.int64)
    for i in range(sizes.shape[0]):
        sizes[i] = generic.block_size(structure, i)
    return sizes


@compiled
@seldom
def scratch_sizes(structure, rows):
    """Sizes of the scratch arrays of loops over examples: the largest block, most labels and most
    parts of an output, and the scratch of the oracles."""
    return (
        generic.largest_block(structure),
        generic.most_labels(structure),
        generic.most_parts(structure),
        generic.work_size(structure, rows),
    )


def make_scratch(structure, rows):
    """Scratch: three blocks, labels and parts of an output, and the scratch of the oracles."""
    largest, most_labels, most_parts, work = scratch_sizes(structure, rows)
    return (
        np.empty((3, largest)),
        np.empty(most_labels, np.int32),
        np.empty(most_parts, np.int32),
        np.empty(work),
    )


@leaf
@seldom
def truth_range(structure, blocks, first, mu_buffer, found):
    """The loop of :func:`truth_blocks` from block ``first`` on, until the pool is full; returns the
    number of blocks done so far."""
    n = generic.n_blocks(structure)
    for i in range(first, n):
        mu = mu_buffer[: generic.block_size(structure, i)]
        generic.embed_truth(structure, i, mu)
        if not has_room(blocks, find_parts(mu, found)):
            return i
        store_block(blocks, i, mu, found)
    return n


def truth_blocks(structure, rows, blocks):
    """Set every block to the indicator of its true output."""
    largest = scratch_sizes(structure, rows)[0]
    mu, found = np.empty(largest), np.empty(largest, np.int32)
    done = 0
    while True:
        done = truth_range(structure, blocks, done, mu, found)
        if done == len(blocks.start):
            return blocks
        blocks = grow(blocks, largest)


@leaf
@seldom
def add_range(structure, rows, scales, blocks, weights, buffers, parts):
    """The loop of :func:`add_blocks`."""
    for i in range(generic.n_blocks(structure)):
        if scales[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        mu = buffers[0, :size]
        generic.load_dual(structure, blocks, i, parts, mu)
        direction = buffers[1, :size]
        generic.embed_truth(structure, i, direction)
        for part in range(size):
            direction[part] -= mu[part]
        generic.add_block(structure, rows, weights, i, direction, scales[i])


def add_blocks(structure, rows, scales, blocks, weights):
    """``weights += sum_i scales_i Phi(x_i) (phi(y_i) - mu_i)``."""
    buffers, _, parts, _ = make_scratch(structure, rows)
    add_range(structure, rows, scales, blocks, weights, buffers, parts)


@leaf
def evaluate_range(objective, rows, sample_weight, weights, blocks, with_dual, ends, out, scratch):
    """The loop of :func:`evaluate_blocks`."""
    oracle, surrogate, structure = objective
    sums, gaps = out
    buffers, labels, parts, work = scratch
    sums[:] = 0.0
    for i in range(ends[0], ends[1]):
        weight = sample_weight[i]
        if weight == 0.0:
            if with_dual:
                gaps[i] = 0.0
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        answer = buffers[1, :size]
        other = buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        upper, lower = generic.answer(
            oracle, surrogate, structure, i, scores, work, labels[: high - low], answer
        )
        generic.embed_truth(structure, i, other)
        sums[0] += weight * (upper - dot(other, scores))
        sums[2] += weight * (upper - lower)
        if with_dual:
            generic.load_dual(structure, blocks, i, parts, other)
            concave = generic.concave_part(surrogate, structure, i, other, work)
            sums[1] += weight * concave
            gaps[i] = upper - concave - dot(other, scores)


@leaf
@seldom
def concave_range(surrogate, structure, sample_weight, blocks, first, last, scratch):
    """``sum_i s_i H_i(mu_i)`` over a range of examples."""
    buffers, _, parts, work = scratch
    total = 0.0
    for i in range(first, last):
        if sample_weight[i] > 0.0:
            mu = buffers[0, : generic.block_size(structure, i)]
            generic.load_dual(structure, blocks, i, parts, mu)
            total += sample_weight[i] * generic.concave_part(surrogate, structure, i, mu, work)
    return total


def evaluate_blocks(objective, rows, sample_weight, weights, blocks, with_dual, ends, out):
    """Sum losses (primal), concave parts (dual) and oracle errors over the examples from
    ``ends[0]`` to ``ends[1]``.

    ``out.sums`` gets ``[sum s_i S_i, sum s_i H_i(mu_i), sum s_i error_i]``; ``out.gaps[i]`` the gap
    of block i if ``with_dual``.
    """
    scratch = make_scratch(objective.structure, rows)
    evaluate_range(objective, rows, sample_weight, weights, blocks, with_dual, ends, out, scratch)


@compiled
def decode_blocks(structure, rows, weights, first, last, labels, values):
    """Write labels and scores of the best output of each example in a range."""
    buffer = np.empty(generic.largest_block(structure))
    work = np.empty(generic.work_size(structure, rows))
    for i in range(first, last):
        scores = buffer[: generic.block_size(structure, i)]
        low, high = generic.label_range(structure, i)
        generic.score_block(structure, rows, weights, i, scores)
        values[i] = generic.decode(structure, i, scores, work, labels[low:high])
