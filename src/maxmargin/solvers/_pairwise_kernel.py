"""The compiled pass of block-coordinate pairwise Frank-Wolfe over stored outputs (atoms)."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.atoms import append_atom, find_atom, remove_atom
from .._kernels.jit import compiled, leaf
from .._kernels.vector import add_scaled
from ._bcfw_kernel import draw_from_sum_tree, lengthen, set_in_sum_tree

# Steps over atoms end when the best of them gains less than this share of the gain of the first
# step, or after this number of steps.
_ENOUGH = 0.3
_MOST_STEPS = 20


@leaf
def _list_parts(structure, atoms, i, length, parts, n_parts):
    """Parts of all atoms of example i."""
    for a in range(atoms.count[i]):
        first = atoms.labels_start[i] + a * length
        n_parts[a] = generic.output_parts(
            structure, i, atoms.labels[first : first + length], parts[a]
        )


@leaf
def _score_atoms(count, gains, parts, n_parts, scores):
    """Scores of the atoms."""
    for a in range(count):
        total = 0.0
        for p in range(n_parts[a]):
            total += gains[parts[a, p]]
        scores[a] = total


@leaf
def _extremes(atoms, i, scores):
    """The best atom, and the worst one with positive weight."""
    best, worst = 0, -1
    for a in range(atoms.count[i]):
        if scores[a] > scores[best]:
            best = a
        if atoms.weight[atoms.start[i] + a] > 0.0 and (worst < 0 or scores[a] < scores[worst]):
            worst = a
    return best, worst


@leaf
def _look(structure, rows, weights, atoms, i, gains_buffer, output_buffer, work, known):
    """Write the loss-augmented argmax of example i to ``output``, and parts and scores of its atoms
    to ``known``; returns the value of the argmax and its gap to the mixture of the atoms."""
    parts, n_parts, scores = known
    low, high = generic.label_range(structure, i)
    output = output_buffer[: high - low]
    gains = gains_buffer[: generic.block_size(structure, i)]
    generic.score_block(structure, rows, weights, i, gains)
    generic.add_loss(structure, i, gains)
    value = generic.decode(structure, i, gains, work, output)
    _list_parts(structure, atoms, i, high - low, parts, n_parts)
    _score_atoms(atoms.count[i], gains, parts, n_parts, scores)
    gap = value
    for a in range(atoms.count[i]):
        gap -= atoms.weight[atoms.start[i] + a] * scores[a]
    return value, gap


@leaf
def _move_mass(structure, rows, atoms, i, scale, blocks, work, known):
    """Move mass from the worst atom to the best, several times.

    ``blocks`` are the gains of the parts, zeros, and an array that receives the sum of moves."""
    gains, pair, total = blocks
    parts, n_parts, scores = known
    low, high = generic.label_range(structure, i)
    total[:] = 0.0
    first_gain = 0.0
    for inner in range(_MOST_STEPS):
        best, worst = _extremes(atoms, i, scores)
        gain = scores[best] - scores[worst]
        if inner == 0:
            first_gain = gain
        if gain <= _ENOUGH * first_gain and inner > 0 or gain <= 0.0:
            break
        for p in range(n_parts[best]):
            pair[parts[best, p]] += 1.0
        for p in range(n_parts[worst]):
            pair[parts[worst, p]] -= 1.0
        curvature = scale * generic.squared_norm(structure, rows, i, pair, work)
        available = atoms.weight[atoms.start[i] + worst]
        emptied = gain >= available * curvature
        gamma = available if emptied else gain / curvature
        atoms.weight[atoms.start[i] + best] += gamma
        atoms.weight[atoms.start[i] + worst] -= gamma
        add_scaled(total, pair, gamma)
        cheap = generic.add_gram(structure, rows, i, pair, -gamma * scale, gains)
        for p in range(n_parts[best]):
            pair[parts[best, p]] = 0.0
        for p in range(n_parts[worst]):
            pair[parts[worst, p]] = 0.0
        if emptied:
            remove_atom(atoms, i, worst, high - low)
            last = atoms.count[i]
            n_parts[worst] = n_parts[last]
            for p in range(n_parts[last]):
                parts[worst, p] = parts[last, p]
        if not cheap:
            break
        _score_atoms(atoms.count[i], gains, parts, n_parts, scores)


@compiled
def pairwise_steps(objective, rows, scales, visits, weights, trail, atoms):
    """Visit examples: call the oracle for a new output, then move mass between atoms.

    A step moves mass from the worst output to the best, by exact line search. The scores of the
    block are updated with its own Gram matrix, so that only the sum of all moves changes the
    weights. Arguments and result are those of ``bcfw_steps``; the surrogate must have a linear H.
    """
    structure = objective.structure
    largest = generic.largest_block(structure)
    gains_buffer = np.empty(largest)
    pair_buffer = np.zeros(largest)
    total_buffer = np.empty(largest)
    output_buffer = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    capacity = 16
    parts = np.empty((capacity, generic.most_parts(structure)), np.int32)
    n_parts = np.empty(capacity, np.int64)
    scores = np.empty(capacity)
    order, draws, tree, gaps, _ = visits
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    for step in range(steps):
        before = lengthen(trail)
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
        scale = scales[i]
        if scale == 0.0:
            continue
        if atoms.count[i] + 1 > capacity:
            capacity = 2 * (atoms.count[i] + 1)
            parts = np.empty((capacity, parts.shape[1]), np.int32)
            n_parts = np.empty(capacity, np.int64)
            scores = np.empty(capacity)
        known = (parts, n_parts, scores)
        value, gap = _look(
            structure, rows, weights, atoms, i, gains_buffer, output_buffer, work, known
        )
        gaps[i] = gap
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gap, 0.0))
        if gap <= 0.0:
            continue
        low, high = generic.label_range(structure, i)
        output = output_buffer[: high - low]
        if find_atom(atoms, i, output) < 0:
            a = atoms.count[i]
            atoms = append_atom(structure, atoms, i, output, 0.0)
            n_parts[a] = generic.output_parts(structure, i, output, parts[a])
            scores[a] = value
        size = generic.block_size(structure, i)
        total = total_buffer[:size]
        blocks = (gains_buffer[:size], pair_buffer[:size], total)
        _move_mass(structure, rows, atoms, i, scale, blocks, work, known)
        generic.add_block(structure, rows, weights, i, total, -scale)
        if trail.correction.shape[0] > 0:
            generic.add_block(structure, rows, trail.correction, i, total, -scale * before)
    return atoms, steps
