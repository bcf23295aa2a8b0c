"""Storage of the dual: one sparse vector over the parts of each example, in one pool.

A block is loaded into a dense scratch vector, changed there, and stored again. Blocks of
max-margin and max-min solutions are sparse, so the pool stays small (two numbers a non-zero
part) whatever the number of classes; a block that outgrows its place moves to the end, and a
full pool is compacted into a larger one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import compiled
from .vector import lowest_bit, mask_above, prefetch

# A part below this belongs to rounding: it would only make later loads slower.
NEGLIGIBLE = 1e-15


class Blocks(NamedTuple):
    """Sparse dual blocks: block i is ``index/value[start[i] : start[i] + count[i]]``."""

    start: np.ndarray
    count: np.ndarray
    room: np.ndarray
    used: np.ndarray  # one number: the end of the pool's used part
    index: np.ndarray
    value: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held by the pool."""
        return int(sum(array.nbytes for array in self))


@compiled
def load_block(blocks, i, out):
    """Write block i into the dense vector ``out`` (all of it)."""
    out[:] = 0.0
    first = blocks.start[i]
    for position in range(first, first + blocks.count[i]):
        out[blocks.index[position]] = blocks.value[position]


@compiled
def prefetch_stored(blocks, i):
    """Bring block i into the cache: it is the next one."""
    first = blocks.start[i]
    prefetch(blocks.index, first, first + blocks.count[i])
    prefetch(blocks.value, first, first + blocks.count[i])


@compiled
def _grow(blocks, extra):
    """Compact the pool into one with at least ``extra`` free places."""
    live = 0
    for i in range(blocks.start.shape[0]):
        live += blocks.room[i]
    size = live + live // 2 + extra
    index = np.empty(size, blocks.index.dtype)
    value = np.empty(size, blocks.value.dtype)
    end = 0
    for i in range(blocks.start.shape[0]):
        first = blocks.start[i]
        for position in range(blocks.count[i]):
            index[end + position] = blocks.index[first + position]
            value[end + position] = blocks.value[first + position]
        blocks.start[i] = end
        end += blocks.room[i]
    blocks.used[0] = end
    return Blocks(blocks.start, blocks.count, blocks.room, blocks.used, index, value)


@compiled
def store_block(blocks, i, mu, found):
    """Replace block i by the non-zeros of ``mu``; returns the storage, which may be a new one.

    ``found`` is scratch for as many indices as mu is long.
    """
    size = mu.shape[0]
    needed = 0
    eights = size - size % 8
    for part in range(0, eights, 8):
        mask = mask_above(mu, part, NEGLIGIBLE)
        while mask != 0:
            found[needed] = part + lowest_bit(mask)
            needed += 1
            mask &= mask - 1
    for part in range(eights, size):
        if mu[part] > NEGLIGIBLE:
            found[needed] = part
            needed += 1
    if needed > blocks.room[i]:
        room = needed + needed // 2 + 2
        if blocks.used[0] + room > blocks.index.shape[0]:
            blocks.count[i] = 0
            blocks.room[i] = 0
            blocks = _grow(blocks, room)
        blocks.start[i] = blocks.used[0]
        blocks.room[i] = room
        blocks.used[0] += room
    start = blocks.start[i]
    for place in range(needed):
        blocks.index[start + place] = found[place]
        blocks.value[start + place] = mu[found[place]]
    blocks.count[i] = needed
    return blocks


def empty_blocks(n_blocks: int, expected: int) -> Blocks:
    """Storage for ``n_blocks`` blocks with room for ``expected`` non-zeros in all."""
    return Blocks(
        np.zeros(n_blocks, np.int64),
        np.zeros(n_blocks, np.int32),
        np.zeros(n_blocks, np.int32),
        np.zeros(1, np.int64),
        np.empty(max(expected, 16), np.int32),
        np.empty(max(expected, 16), np.float64),
    )
