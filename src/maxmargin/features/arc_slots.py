"""Indices of the weights of single arcs, and the inner products of arcs that follow from them.

Features of arcs are indicators that are hashed to indices in a table of weights. An arc has an
index once per feature, so maybe several times; the inner product of two arcs is the number of pairs
of equal indices.
"""

from __future__ import annotations

import numpy as np

from .._kernels.jit import leaf
from .arcs import base_key, met_between, place_key, slot_of, tag_key
from .nodes import MOST_TAGS


@leaf
def most_slots(rows):
    """Upper bound on the number of features of an arc."""
    return 2 * rows.templates.shape[0] + 1 + MOST_TAGS


@leaf
def list_slots(rows, first, d, h, slots, start):
    """Write the indices of the features of an arc from ``start`` on; returns where they end.

    ``first`` is the first node of the sentence; the order is that of ``score_arc``.
    """
    head, dependent = first + h, first + d + 1
    place = place_key(rows, d, h)
    end = start
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        if rows.templates[t, 2] != 0:
            slots[end] = slot_of(rows, key)
            end += 1
        slots[end] = slot_of(rows, key ^ place)
        end += 1
    if h == 0 or rows.between_keys.shape[0] == 0:
        return end
    met = met_between(rows, head, dependent)
    base = base_key(rows, head, dependent)
    slots[end] = slot_of(rows, base ^ met.key)
    end += 1
    left = met.once
    step = 1 if head > dependent else -1
    node = dependent + step
    while left != 0:
        bit = np.uint64(1) << np.uint64(rows.tags[node])
        if left & bit:
            left ^= bit
            slots[end] = slot_of(rows, base ^ tag_key(rows, met, node))
            end += 1
        node += step
    return end


@leaf
def products_work(n_slots):
    """Length of the scratch vector of :func:`fill_products`."""
    return _table_size(n_slots) + 2 * n_slots


@leaf
def _table_size(n_slots):
    """The least power of two that is not below the number of indices."""
    size = 1
    while size < n_slots:
        size *= 2
    return size


@leaf
def fill_products(indptr, slots, work, gram):
    """``gram[p, q]`` = inner product of two arcs; the indices of arc p are
    ``slots[indptr[p] : indptr[p + 1]]``.

    All places of an index are found in a hash table of lists: most indices have one place only, so
    this takes far less time than a comparison of all pairs of arcs.
    """
    n_arcs, n_slots = gram.shape[0], indptr[gram.shape[0]]
    size = _table_size(n_slots)
    last = work[:size]  # place of the latest index in each list,
    before = work[size : size + n_slots]  # of the one before,
    arc_at = work[size + n_slots : size + 2 * n_slots]  # and the arc of each place
    last[:] = -1.0
    for p in range(n_arcs):
        row = gram[p]
        row[: p + 1] = 0.0
        for e in range(indptr[p], indptr[p + 1]):
            slot = slots[e]
            entry = slot & (size - 1)
            place = int(last[entry])
            before[e] = last[entry]
            last[entry] = e
            arc_at[e] = p
            row[p] += 1.0
            while place >= 0:
                if slots[place] == slot:
                    q = int(arc_at[place])
                    row[q] += 2.0 if q == p else 1.0
                place = int(before[place])
        for q in range(p):
            gram[q, p] = row[q]
