"""Sets of elements as outputs: uniform draws, membership, and neighbours.

A space is a family of sets: subsets of a fixed size, directed spanning trees (of any root), or
directed acyclic graphs with few parents; the elements of a graph are its edges. A set is an array
``[count, e_1 < e_2 < ...]``: in this form equal sets are equal arrays, and sums over them have one
order. Two sets are neighbours if they differ in one element; acyclic graphs also if one of them has
one additional element.

Random numbers come from a counter (splitmix64), so that every draw has a seed of its own and does
not depend on threads or on what was drawn before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.jit import compiled, leaf

SUBSET, TREE, ACYCLIC = 0, 1, 2
# Steps of the random walk over acyclic graphs, per ordered pair of nodes.
_WALK = 40


class ElementSpace(NamedTuple):
    """A family of sets; ``kind`` is a value, so that all kinds share their compiled code.

    ``limit`` is the size of a subset, or the largest number of parents of a node. ``table`` lists
    all sets if the family is small, otherwise it has no rows.
    """

    kind: int
    n_nodes: int
    limit: int
    n_elements: int
    width: int  # elements of the largest set
    table: np.ndarray  # (n_outputs, width + 1) int32


# --- random numbers ------------------------------------------------------------------------------


@leaf
def random_bits(rng):
    """The next 64 bits of the stream ``rng``, an array of one uint64."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@leaf
def start_stream(rng, seed, example, draw):
    """Begin the stream of one draw of one example."""
    rng[0] = np.uint64(seed)
    rng[0] = random_bits(rng) ^ np.uint64(example)
    rng[0] = random_bits(rng) ^ np.uint64(draw)
    rng[0] = random_bits(rng)


@leaf
def below(rng, n):
    """A uniform integer in 0, ..., n - 1."""
    return int((random_bits(rng) >> np.uint64(11)) * (n / 9007199254740992.0))


# --- edges and sets ------------------------------------------------------------------------------


@leaf
def edge_tail(n_nodes, edge):
    """Node that an edge leaves; edges are counted by tail, then by head, without loops."""
    return edge // (n_nodes - 1)


@leaf
def edge_head(n_nodes, edge):
    """Node that an edge enters."""
    head = edge % (n_nodes - 1)
    return head + (1 if head >= edge // (n_nodes - 1) else 0)


@leaf
def edge_between(n_nodes, tail, head):
    """Index of an edge."""
    return tail * (n_nodes - 1) + head - (1 if head > tail else 0)


@leaf
def insert(y, element):
    """Add an element to a set that does not hold it."""
    k = y[0]
    while k > 0 and y[k] > element:
        y[k + 1] = y[k]
        k -= 1
    y[k + 1] = element
    y[0] += 1


@leaf
def holds(y, element):
    """Whether a set holds an element."""
    for k in range(1, y[0] + 1):
        if y[k] == element:
            return True
    return False


@leaf
def common(y, z):
    """Number of elements in both sets."""
    i, j, found = 1, 1, 0
    while i <= y[0] and j <= z[0]:
        if y[i] == z[j]:
            found += 1
            i += 1
            j += 1
        elif y[i] < z[j]:
            i += 1
        else:
            j += 1
    return found


@leaf
def set_distortion(y, z):
    """``1 - 2 |y & z| / (|y| + |z|)``: 0 for equal sets, 1 for sets without a common element."""
    size = y[0] + z[0]
    return 1.0 - 2.0 * common(y, z) / size if size > 0 else 0.0


@leaf
def neighbour(y, position, element, out):
    """Write y without its element at ``position`` (-1: none) and with ``element`` (-1: none)."""
    count = 0
    pending = element >= 0
    for k in range(y[0]):
        if k == position:
            continue
        value = y[k + 1]
        if pending and value > element:
            count += 1
            out[count] = element
            pending = False
        count += 1
        out[count] = value
    if pending:
        count += 1
        out[count] = element
    out[0] = count


@leaf
def is_member(space, y, work):
    """Whether a set of distinct elements belongs to the family; ``work`` holds 2 n_nodes ints."""
    if space.kind == SUBSET:
        return y[0] == space.limit
    n = space.n_nodes
    parents, depth = work[:n], work[n : 2 * n]
    if space.kind == TREE:
        if y[0] != n - 1:
            return False
        parents[:] = -1
        for k in range(1, y[0] + 1):
            head = edge_head(n, y[k])
            if parents[head] >= 0:
                return False
            parents[head] = edge_tail(n, y[k])
        for node in range(n):  # n steps end at the root, unless there is a cycle
            at, steps = node, 0
            while at >= 0 and steps <= n:
                at = parents[at]
                steps += 1
            if at >= 0:
                return False
        return True
    parents[:] = 0
    for k in range(1, y[0] + 1):
        head = edge_head(n, y[k])
        parents[head] += 1
        if parents[head] > space.limit:
            return False
    return _is_acyclic(n, y, depth)


@leaf
def _is_acyclic(n, y, depth):
    """Whether no path has more than n - 1 edges."""
    depth[:] = 0
    changed, rounds = True, 0
    while changed:
        changed = False
        rounds += 1
        if rounds > n:
            return False
        for k in range(1, y[0] + 1):
            tail, head = edge_tail(n, y[k]), edge_head(n, y[k])
            if depth[head] <= depth[tail]:
                depth[head] = depth[tail] + 1
                changed = True
    return True


# --- uniform draws -------------------------------------------------------------------------------


@leaf
def draw_set(space, rng, y, trial, work):
    """Write a uniformly random set of the family.

    Subsets: Floyd's algorithm. Trees: a uniform root, then Wilson's algorithm. Acyclic graphs:
    from the table if there is one; otherwise a long random walk that adds and removes edges, whose
    limit distribution is uniform.
    """
    y[0] = 0
    if space.kind == SUBSET:
        for top in range(space.n_elements - space.limit, space.n_elements):
            element = below(rng, top + 1)
            insert(y, top if holds(y, element) else element)
    elif space.kind == TREE:
        _draw_tree(space.n_nodes, rng, y, work)
    elif space.table.shape[0] > 0:
        row = space.table[below(rng, space.table.shape[0])]
        for k in range(row[0] + 1):
            y[k] = row[k]
    else:
        _walk_acyclic(space, rng, y, trial, work)


@leaf
def _draw_tree(n, rng, y, work):
    parents, inside = work[:n], work[n : 2 * n]
    inside[:] = 0
    root = below(rng, n)
    inside[root] = 1
    for node in range(n):
        at = node
        while inside[at] == 0:  # walk to the tree; a second visit to a node erases the loop
            step = below(rng, n - 1)
            parents[at] = step + (1 if step >= at else 0)
            at = parents[at]
        at = node
        while inside[at] == 0:
            inside[at] = 1
            insert(y, edge_between(n, parents[at], at))
            at = parents[at]


@leaf
def _walk_acyclic(space, rng, y, trial, work):
    for _ in range(_WALK * space.n_elements):
        element = below(rng, space.n_elements)
        position = -1
        for k in range(y[0]):
            if y[k + 1] == element:
                position = k
        if position < 0 and y[0] == space.width:
            continue
        neighbour(y, position, element if position < 0 else -1, trial)
        if position >= 0 or is_member(space, trial, work):
            for k in range(trial[0] + 1):
                y[k] = trial[k]


# --- for Python ----------------------------------------------------------------------------------


@compiled
def draw_sets(space, seed, out):
    """Uniform draws, one per row."""
    rng, work = np.empty(1, np.uint64), np.empty(2 * space.n_nodes + 1, np.int32)
    trial = np.empty(space.width + 1, np.int32)
    for t in range(out.shape[0]):
        start_stream(rng, seed, 0, t)
        draw_set(space, rng, out[t], trial, work)


@compiled
def are_members(space, sets):
    """Whether all rows, sets of distinct elements, belong to the family."""
    work = np.empty(2 * space.n_nodes + 1, np.int32)
    for y in sets:
        if not is_member(space, y, work):
            return False
    return True


@compiled
def neighbours(space, y):
    """All members that are neighbours of y, in the order in which local search tries them."""
    work = np.empty(2 * space.n_nodes + 1, np.int32)
    trial = np.empty(space.width + 1, np.int32)
    out = np.empty(((y[0] + 1) * (space.n_elements + 1), space.width + 1), np.int32)
    count = 0
    lowest = -1 if space.kind == ACYCLIC else 0
    for position in range(lowest, y[0]):
        if position < 0 and y[0] == space.width:
            continue
        for element in range(lowest, space.n_elements):
            if (position < 0 and element < 0) or (element >= 0 and holds(y, element)):
                continue
            neighbour(y, position, element, trial)
            if is_member(space, trial, work):
                out[count, : trial[0] + 1] = trial[: trial[0] + 1]
                out[count, trial[0] + 1 :] = -1
                count += 1
    return out[:count]
