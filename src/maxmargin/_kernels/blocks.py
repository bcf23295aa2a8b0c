"""Storage of the dual: one sparse vector over the parts of each example, in one pool.

A block is loaded into a dense scratch vector, changed there, and stored again. Blocks of
max-margin and max-min solutions are sparse, so the pool stays small (two numbers per non-zero
part) for any number of classes; a block that exceeds its capacity moves to the end, and a full
pool is compacted into a larger one.

Marginals of a CRF have no zeros. Their blocks are dense, stored consecutively without indices
(*whole* blocks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import inner, leaf, seldom
from .vector import SHORT, copy, lowest_bit, mask_above, prefetch

# A part below this is a rounding error: it would only make later loads slower.
NEGLIGIBLE = 1e-15


class Blocks(NamedTuple):
    """Sparse dual blocks: block i is ``index/value[start[i] : start[i] + count[i]]``.

    If ``index`` is empty, blocks are whole.
    """

    start: np.ndarray
    count: np.ndarray
    room: np.ndarray
    used: np.ndarray  # one number: the end of the used part of the pool
    index: np.ndarray
    value: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held by the pool."""
        return int(sum(array.nbytes for array in self))


@leaf
def load_block(blocks, i, out):
    """Write block i into the dense vector ``out`` (all of it)."""
    first = blocks.start[i]
    if blocks.index.shape[0] == 0:
        copy(out, blocks.value[first : first + blocks.count[i]])
        return
    out[:] = 0.0
    for position in range(first, first + blocks.count[i]):
        out[blocks.index[position]] = blocks.value[position]


@leaf
def prefetch_stored(blocks, i):
    """Prefetch block i, which is the next one."""
    first = blocks.start[i]
    if blocks.index.shape[0] > 0:
        prefetch(blocks.index, first, first + blocks.count[i])
    prefetch(blocks.value, first, first + blocks.count[i])


@leaf
def has_room(blocks, needed):
    """Whether the pool has capacity to move a block with space for ``needed`` parts and more."""
    room = needed + needed // 2 + 2
    return blocks.index.shape[0] == 0 or blocks.used[0] + room <= blocks.index.shape[0]


@inner
@seldom
def grow(blocks, needed):
    """Compact the pool into one with capacity to move a block of ``needed`` parts."""
    extra = needed + needed // 2 + 2
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


@leaf
def find_parts(mu, found):
    """Write the indices of the parts of ``mu`` above the threshold; returns their number."""
    size = mu.shape[0]
    needed = 0
    eights = size - size % 8 if size > SHORT else 0
    for part in range(0, eights, 8):
        mask = mask_above(mu, part, NEGLIGIBLE)
        while mask != 0:
            found[needed] = part + lowest_bit(mask)
            needed += 1
            mask &= mask - 1
    for part in range(eights, size):  # without branches, which would be mispredicted
        found[needed] = part
        needed += mu[part] > NEGLIGIBLE
    return needed


@leaf
def _store_in_place(blocks, i, mu, found):
    """:func:`store_block` if the capacity of the block suffices; otherwise returns False."""
    start = blocks.start[i]
    if blocks.index.shape[0] == 0:
        copy(blocks.value[start : start + blocks.count[i]], mu)
        return True
    needed = find_parts(mu, found)
    if needed > blocks.room[i]:
        return False
    for place in range(needed):
        blocks.index[start + place] = found[place]
        blocks.value[start + place] = mu[found[place]]
    blocks.count[i] = needed
    return True


@leaf
def _move_block(blocks, i, needed):
    """Move block i with its contents, with new capacity for ``needed`` parts and some more."""
    room = needed + needed // 2 + 2
    old, new = blocks.start[i], blocks.used[0]
    for place in range(blocks.count[i]):
        blocks.index[new + place] = blocks.index[old + place]
        blocks.value[new + place] = blocks.value[old + place]
    blocks.start[i] = new
    blocks.room[i] = room
    blocks.used[0] += room


@leaf
def store_block(blocks, i, mu, found):
    """Replace block i by the non-zeros of ``mu``; the block is moved if its capacity is too small.

    The pool must have capacity for them. ``found`` is scratch for ``len(mu)`` indices.
    """
    if not _store_in_place(blocks, i, mu, found):
        blocks.count[i] = 0
        _move_block(blocks, i, find_parts(mu, found))
        _store_in_place(blocks, i, mu, found)


@leaf
def expected_score(blocks, i, scores):
    """``mu_i @ scores``, from the stored parts alone."""
    first = blocks.start[i]
    total = 0.0
    for position in range(first, first + blocks.count[i]):
        total += blocks.value[position] * scores[blocks.index[position]]
    return total


@leaf
def subtract_block(blocks, i, out):
    """``out -= mu_i``."""
    first = blocks.start[i]
    for position in range(first, first + blocks.count[i]):
        out[blocks.index[position]] -= blocks.value[position]


@leaf
def clear_parts(blocks, i, parts, out):
    """Set ``out`` to zero at the parts of block i and at ``parts``."""
    first = blocks.start[i]
    for position in range(first, first + blocks.count[i]):
        out[blocks.index[position]] = 0.0
    for part in parts:
        out[part] = 0.0


@leaf
def _mix_in_place(blocks, i, parts, share, places):
    """:func:`mix_block` if the capacity of the block suffices; otherwise returns False."""
    if blocks.count[i] + parts.shape[0] > blocks.room[i]:
        return False
    start = blocks.start[i]
    kept = 0
    for position in range(start, start + blocks.count[i]):
        value = (1.0 - share) * blocks.value[position]
        part = blocks.index[position]
        blocks.index[start + kept] = part
        blocks.value[start + kept] = value
        if value > NEGLIGIBLE:
            places[part] = kept
            kept += 1
    for part in parts:
        if places[part] < 0:
            blocks.index[start + kept] = part
            blocks.value[start + kept] = 0.0
            places[part] = kept
            kept += 1
        blocks.value[start + places[part]] += share
    blocks.count[i] = kept
    for position in range(start, start + kept):
        places[blocks.index[position]] = -1
    return True


@leaf
def mix_block(blocks, i, parts, share, places):
    """``mu_i <- (1 - share) mu_i + share * (indicator of parts)``; moves the block if necessary.

    The pool must have capacity for the parts of the block and these. ``places`` is scratch of the
    length of the largest block; all its entries are -1, before and after.
    """
    if not _mix_in_place(blocks, i, parts, share, places):
        _move_block(blocks, i, blocks.count[i] + parts.shape[0])
        _mix_in_place(blocks, i, parts, share, places)


def empty_blocks(n_blocks: int, expected: int) -> Blocks:
    """Storage for ``n_blocks`` blocks with capacity for ``expected`` non-zeros in total."""
    return Blocks(
        np.zeros(n_blocks, np.int64),
        np.zeros(n_blocks, np.int32),
        np.zeros(n_blocks, np.int32),
        np.zeros(1, np.int64),
        np.empty(max(expected, 16), np.int32),
        np.empty(max(expected, 16), np.float64),
    )


def whole_blocks(sizes: np.ndarray) -> Blocks:
    """Storage for whole blocks with ``sizes[i]`` parts."""
    ends = np.cumsum(sizes, dtype=np.int64)
    return Blocks(
        ends - sizes,
        sizes.astype(np.int32),
        sizes.astype(np.int32),
        ends[-1:].copy(),
        np.empty(0, np.int32),
        np.empty(int(ends[-1])),
    )
