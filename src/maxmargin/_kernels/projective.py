"""The best projective tree whose score has parts of two arcs: siblings and grandparents.

Only *candidate* arcs are allowed. Arc a of a sentence leads from node ``head[a]`` to word
``dependent[a]``; the arcs into one word follow each other, those out of a node are listed in
``out``, by their dependents. With g the head of h, k counting the arcs into h:

    I[a, k]    best span from h to d that ends with the arc a = (h, d), if g is the k-th head of h
    C[h, e, k] best span from h to e, all of it descendants of h, if g is the k-th head of h

    I[a, k] = arc(a) + grandparent(g, h, d)
              + max( sibling(h, -, d) + C[d, h +- 1, a],
                     max over arcs b = (h, s), s between h and d, of
                     I[b, k] + sibling(h, s, d) + max_r C[s, r, b] + C[d, r +- 1, a] )
    C[h, e, k] = max over arcs a = (h, d), d between h and e or e itself, of I[a, k] + C[d, e, a]

in the order of the lengths of the spans (Eisner; Koo and Collins, model 1, whose parts of three
arcs are sums here). The root has no head: one k, without a score. With K candidates per word this
takes O(n^2 K^2) steps.

Trees are reconstructed from the tables: the maximum is computed again for every span of the tree.

References
----------
Eisner. Three new probabilistic models for dependency parsing. COLING 1996.
Koo, Collins. Efficient third-order dependency parsers. ACL 2010.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import leaf


class Candidates(NamedTuple):
    """The candidate arcs of one sentence, and the indices of their parts in a vector of scores."""

    n: int
    single_root: bool
    into: np.ndarray  # (n + 1,): first arc into each word
    head: np.ndarray
    dependent: np.ndarray
    out_start: np.ndarray  # (n + 2,): arcs out of each node
    out: np.ndarray
    siblings_start: np.ndarray  # (arcs + 1,): first sibling part of each arc
    sibling: np.ndarray  # of each sibling part: the arc to the inner sibling, or -1
    grandparents_start: np.ndarray  # (arcs + 1,): first grandparent part of each arc


class _Tables(NamedTuple):
    incomplete: np.ndarray  # I: (arcs, K)
    complete: np.ndarray  # C: (n + 1, n + 1, K)


@leaf
def projective_work(n, n_arcs, most_heads):
    """Length of the scratch vector of :func:`best_projective`."""
    return (n_arcs + (n + 1) * (n + 1)) * most_heads + 4 * (n + 2)


@leaf
def _heads_of(c, node):
    """Number of candidate heads of a node; the root has none, which counts as one."""
    return 1 if node == 0 else c.into[node] - c.into[node - 1]


@leaf
def _rank(c, arc):
    """Rank of an arc among the arcs into its dependent."""
    return arc - c.into[c.dependent[arc] - 1]


@leaf
def _meeting(c, tables, inner, outer):
    """Best split of the words between two siblings: the value, and the last word of the inner."""
    s, d = c.dependent[inner], c.dependent[outer]
    step = 1 if d > s else -1
    left, right = _rank(c, inner), _rank(c, outer)
    best, at = -np.inf, s
    r = s
    while r != d:
        value = tables.complete[s, r, left] + tables.complete[d, r + step, right]
        if value > best:
            best, at = value, r
        r += step
    return best, at


@leaf
def _alone(c, tables, arc):
    """Value of the words between a head and its innermost dependent: descendants of the latter."""
    h, d = c.head[arc], c.dependent[arc]
    return tables.complete[d, h + 1 if d > h else h - 1, _rank(c, arc)]


@leaf
def _fill_incomplete(c, scores, tables, arc):
    """Write I[arc, :]."""
    h = c.head[arc]
    count = _heads_of(c, h)
    row = tables.incomplete[arc]
    row[:count] = -np.inf
    for place in range(c.siblings_start[arc], c.siblings_start[arc + 1]):
        inner = c.sibling[place - c.head.shape[0]]
        if inner < 0:
            value = scores[place] + _alone(c, tables, arc)
            for k in range(count):
                row[k] = max(row[k], value)
        else:
            value = scores[place] + _meeting(c, tables, inner, arc)[0]
            before = tables.incomplete[inner]
            for k in range(count):
                row[k] = max(row[k], value + before[k])
    first = c.grandparents_start[arc]
    for k in range(count):
        row[k] += scores[arc] + (scores[first + k] if h > 0 else 0.0)


@leaf
def _fill_complete(c, tables, h, e):
    """Write C[h, e, :]."""
    count = _heads_of(c, h)
    row = tables.complete[h, e]
    row[:count] = -np.inf
    for at in range(c.out_start[h], c.out_start[h + 1]):
        arc = c.out[at]
        d = c.dependent[arc]
        if (h < d <= e) or (e <= d < h):
            value = tables.complete[d, e, _rank(c, arc)]
            before = tables.incomplete[arc]
            for k in range(count):
                row[k] = max(row[k], before[k] + value)


@leaf
def _fill(c, scores, tables):
    for h in range(c.n + 1):
        for k in range(tables.complete.shape[2]):
            tables.complete[h, h, k] = 0.0
    for width in range(1, c.n + 1):
        for arc in range(c.head.shape[0]):
            if abs(c.head[arc] - c.dependent[arc]) == width:
                _fill_incomplete(c, scores, tables, arc)
        for h in range(c.n + 1):
            if h + width <= c.n:
                _fill_complete(c, tables, h, h + width)
            if h - width >= 1:
                _fill_complete(c, tables, h, h - width)


@leaf
def _best_root(c, tables):
    """Value and arc of the best tree with a single root; the arc is -1 if there is none."""
    best, found = -np.inf, -1
    for at in range(c.out_start[0], c.out_start[1]):
        arc = c.out[at]
        # Without an inner sibling: the words before are descendants of this one.
        value = tables.incomplete[arc, 0] + tables.complete[c.dependent[arc], c.n, _rank(c, arc)]
        if value > best:
            best, found = value, arc
    return best, found


@leaf
def _trace_complete(c, tables, h, e, k):
    """The outermost arc of C[h, e, k]."""
    best, found = -np.inf, -1
    for at in range(c.out_start[h], c.out_start[h + 1]):
        arc = c.out[at]
        d = c.dependent[arc]
        if (h < d <= e) or (e <= d < h):
            value = tables.incomplete[arc, k] + tables.complete[d, e, _rank(c, arc)]
            if value > best:
                best, found = value, arc
    return found


@leaf
def _trace_incomplete(c, scores, tables, arc, k):
    """The inner sibling of I[arc, k], or -1."""
    best, found = -np.inf, -1
    for place in range(c.siblings_start[arc], c.siblings_start[arc + 1]):
        inner = c.sibling[place - c.head.shape[0]]
        value = scores[place]
        if inner < 0:
            value += _alone(c, tables, arc)
        else:
            value += _meeting(c, tables, inner, arc)[0] + tables.incomplete[inner, k]
        if value > best:
            best, found = value, inner
    return found


@leaf
def _push(stack, size, h, e, k):
    """Push a span to reconstruct, unless it is a single word."""
    if h == e:
        return size
    stack[size, 0], stack[size, 1], stack[size, 2] = h, e, k
    return size + 1


@leaf
def _read_side(c, scores, tables, arc, k, stack, size, heads):
    """Write the arcs of I[arc, k], from the outermost inwards; pushes the spans in them."""
    while True:
        d, h = c.dependent[arc], c.head[arc]
        heads[d - 1] = h
        inner = _trace_incomplete(c, scores, tables, arc, k)
        if inner < 0:
            return _push(stack, size, d, h + 1 if d > h else h - 1, _rank(c, arc))
        r = _meeting(c, tables, inner, arc)[1]
        size = _push(stack, size, c.dependent[inner], r, _rank(c, inner))
        size = _push(stack, size, d, r + 1 if d > h else r - 1, _rank(c, arc))
        arc = inner


@leaf
def best_projective(c, scores, work, heads):
    """Write the head of every word in the best projective tree; returns its score.

    Minus infinity if the candidates allow no tree.

    Parameters
    ----------
    c : Candidates
    scores : array
        Scores of all parts: arcs, then siblings and grandparents at the indices in ``c``.
    work : array
        Scratch of length ``projective_work(n, arcs, most heads)``.
    heads : (n,) array of int32
    """
    n_arcs = c.head.shape[0]
    most = 1
    for node in range(1, c.n + 1):
        most = max(most, _heads_of(c, node))
    end = n_arcs * most
    last = end + (c.n + 1) * (c.n + 1) * most
    tables = _Tables(
        work[:end].reshape(n_arcs, most), work[end:last].reshape(c.n + 1, c.n + 1, most)
    )
    stack = work[last : last + 3 * (c.n + 1)].reshape(c.n + 1, 3)
    _fill(c, scores, tables)
    if c.single_root:
        value, arc = _best_root(c, tables)
    else:
        value, arc = tables.complete[0, c.n, 0], _trace_complete(c, tables, 0, c.n, 0)
    if value == -np.inf:
        return value
    size = _push(stack, 0, c.dependent[arc], c.n, _rank(c, arc))
    size = _read_side(c, scores, tables, arc, 0, stack, size, heads)
    while size > 0:
        size -= 1
        h, e, k = int(stack[size, 0]), int(stack[size, 1]), int(stack[size, 2])
        arc = _trace_complete(c, tables, h, e, k)
        size = _push(stack, size, c.dependent[arc], e, _rank(c, arc))
        size = _read_side(c, scores, tables, arc, k, stack, size, heads)
    return value
