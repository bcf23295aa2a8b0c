"""Storage of the dual as convex combinations: a few outputs of each example with their weights.

Unlike blocks of marginals, this storage has the outputs of the mixture, so that mass can be moved
from the worst output to the best one, and earlier outputs can be used again without a call of the
oracle. An output takes its labels (4 bytes each) and its weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import protocol as generic
from .blocks import Blocks, load_block
from .jit import compiled, implements, inner, leaf, seldom


class Atoms(NamedTuple):
    """Outputs of example i are ``start[i] : start[i] + count[i]`` of the weights, and their labels
    are stored consecutively from ``labels_start[i]``."""

    start: np.ndarray
    count: np.ndarray
    room: np.ndarray
    labels_start: np.ndarray
    used: np.ndarray  # ends of the used parts of the two pools
    weight: np.ndarray
    labels: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held by the pools."""
        return int(sum(array.nbytes for array in self))


def empty_atoms(n_examples: int, n_labels: int) -> Atoms:
    """Storage for some outputs per example; it grows."""
    return Atoms(
        np.zeros(n_examples, np.int64),
        np.zeros(n_examples, np.int32),
        np.zeros(n_examples, np.int32),
        np.zeros(n_examples, np.int64),
        np.zeros(2, np.int64),
        np.empty(max(16, 2 * n_examples)),
        np.empty(max(16, 2 * n_labels), np.int32),
    )


@inner
def _compact(structure, atoms, extra, extra_labels):
    """Copy everything to larger pools, without unused entries."""
    total, total_labels = 0, 0
    for i in range(atoms.start.shape[0]):
        low, high = generic.label_range(structure, i)
        total += atoms.room[i]
        total_labels += atoms.room[i] * (high - low)
    weight = np.empty(total + total // 2 + extra, atoms.weight.dtype)
    labels = np.empty(total_labels + total_labels // 2 + extra_labels, atoms.labels.dtype)
    end, labels_end = 0, 0
    for i in range(atoms.start.shape[0]):
        low, high = generic.label_range(structure, i)
        length = high - low
        for a in range(atoms.count[i]):
            weight[end + a] = atoms.weight[atoms.start[i] + a]
        for place in range(atoms.count[i] * length):
            labels[labels_end + place] = atoms.labels[atoms.labels_start[i] + place]
        atoms.start[i] = end
        atoms.labels_start[i] = labels_end
        end += atoms.room[i]
        labels_end += atoms.room[i] * length
    atoms.used[0] = end
    atoms.used[1] = labels_end
    return Atoms(
        atoms.start, atoms.count, atoms.room, atoms.labels_start, atoms.used, weight, labels
    )


@inner
def _with_room(structure, atoms, i):
    """Storage with capacity for one more output of example i; it may be a new one."""
    if atoms.count[i] < atoms.room[i]:
        return atoms
    low, high = generic.label_range(structure, i)
    length = high - low
    room = 2 * atoms.room[i] + 2
    if (
        atoms.used[0] + room > atoms.weight.shape[0]
        or atoms.used[1] + room * length > atoms.labels.shape[0]
    ):
        atoms = _compact(structure, atoms, room, room * length)
    start, labels_start = atoms.used[0], atoms.used[1]
    for a in range(atoms.count[i]):
        atoms.weight[start + a] = atoms.weight[atoms.start[i] + a]
    for place in range(atoms.count[i] * length):
        atoms.labels[labels_start + place] = atoms.labels[atoms.labels_start[i] + place]
    atoms.start[i] = start
    atoms.labels_start[i] = labels_start
    atoms.room[i] = room
    atoms.used[0] += room
    atoms.used[1] += room * length
    return atoms


@compiled
@seldom
def reserve_atoms(structure, atoms, order):
    """Storage with capacity for one more output of each of some examples."""
    for i in order:
        atoms = _with_room(structure, atoms, i)
    return atoms


@leaf
def write_atom(atoms, i, output, weight):
    """Add an output to example i, for which there must be capacity."""
    at, length = atoms.count[i], output.shape[0]
    atoms.weight[atoms.start[i] + at] = weight
    first = atoms.labels_start[i] + at * length
    for place in range(length):
        atoms.labels[first + place] = output[place]
    atoms.count[i] += 1


@inner
def append_atom(structure, atoms, i, output, weight):
    """Add an output to example i; returns the storage, which may be a new one."""
    atoms = _with_room(structure, atoms, i)
    write_atom(atoms, i, output, weight)
    return atoms


@leaf
def remove_atom(atoms, i, a, length):
    """Remove output ``a`` of example i: the last one takes its place."""
    last = atoms.count[i] - 1
    first = atoms.labels_start[i]
    if a != last:
        atoms.weight[atoms.start[i] + a] = atoms.weight[atoms.start[i] + last]
        for place in range(length):
            atoms.labels[first + a * length + place] = atoms.labels[first + last * length + place]
    atoms.count[i] = last


@leaf
def find_atom(atoms, i, output):
    """Index of an output among those of example i, or -1."""
    length = output.shape[0]
    for a in range(atoms.count[i]):
        first = atoms.labels_start[i] + a * length
        same = True
        for place in range(length):
            if atoms.labels[first + place] != output[place]:
                same = False
                break
        if same:
            return a
    return -1


@compiled
@seldom
def truth_atoms(structure, truth, atoms):
    """Give every example its true output, with all the weight."""
    for i in range(generic.n_blocks(structure)):
        low, high = generic.label_range(structure, i)
        atoms = append_atom(structure, atoms, i, truth[low:high], 1.0)
    return atoms


@implements(generic.load_dual, Blocks, at=1)
def _load_blocks(structure, dual, i, parts, out):
    load_block(dual, i, out)


@implements(generic.load_dual, Atoms, at=1)
def _load_atoms(structure, dual, i, parts, out):
    low, high = generic.label_range(structure, i)
    length = high - low
    out[:] = 0.0
    for a in range(dual.count[i]):
        first = dual.labels_start[i] + a * length
        weight = dual.weight[dual.start[i] + a]
        n_parts = generic.output_parts(structure, i, dual.labels[first : first + length], parts)
        for p in range(n_parts):
            out[parts[p]] += weight
