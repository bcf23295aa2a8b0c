"""The best directed spanning tree: Chu-Liu and Edmonds, with dense rows, in O(n^2).

Words are 1, ..., n; node 0 is an artificial root. ``table[d, h]`` is the score of node h as the
head of word d + 1, so row d holds the arcs *into* one word; minus infinity forbids an arc. A tree
gives every word a head such that all chains of heads end at the root.

From any word, follow best arcs backwards. At the root, the words of the path are done; at a word of
the path, the cycle is contracted to one node: its row is the entrywise maximum of the rows of its
members, each minus the best arc of the member (Tarjan, Gabow). A contraction of k nodes costs k
rows, so all contractions cost O(n^2).

*A single root* (exactly one word with head 0) is the same algorithm on pairs (number of arcs from
the root, score), compared in that order: arcs from the root are taken where there is no other. As
such an arc always ends a chain, it is never part of a cycle, so the numbers need not be stored, and
no precision is lost to a large penalty.

References
----------
Edmonds. Optimum branchings. 1967.
Gabow, Galil, Spencer, Tarjan. Efficient algorithms for finding minimum spanning trees in undirected
and directed graphs. Combinatorica 1986.
Gabow, Tarjan. Efficient algorithms for a family of matroid intersection problems. 1984.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import compiled, leaf
from .maxima import largest
from .vector import copy


class _Forest(NamedTuple):
    """Scratch of one call. Nodes 0, ..., n - 1 are the words, those from n on are contractions."""

    enter: np.ndarray  # (n, n + 1): the word where an arc of a row ends
    head: np.ndarray  # of the best arc into each node,
    word: np.ndarray  # the word where this arc ends,
    best: np.ndarray  # and its score
    parent: np.ndarray  # contraction that a node is part of, or -1
    row: np.ndarray  # index of the row of a node
    state: np.ndarray  # 0: not visited, 1: on the path, 2: connected to the root
    top: np.ndarray  # outermost node of each word
    path: np.ndarray


@leaf
def arborescence_work(n):
    """Length of the scratch vector of :func:`best_tree` for n words."""
    return n * (n + 1) + 6 * (2 * n) + 2 * n


@leaf
def _forest(n, work):
    size = n * (n + 1)
    ends = work[size:]
    return _Forest(
        work[:size].reshape(n, n + 1),
        ends[: 2 * n],
        ends[2 * n : 4 * n],
        ends[4 * n : 6 * n],
        ends[6 * n : 8 * n],
        ends[8 * n : 10 * n],
        ends[10 * n : 12 * n],
        ends[12 * n : 13 * n],
        ends[13 * n : 14 * n],
    )


@leaf
def _choose(table, forest, node, single_root):
    """Best arc into a node; of several, that from the first head. Returns its head or -1."""
    n = forest.top.shape[0]
    row = table[int(forest.row[node])]
    enter = forest.enter[int(forest.row[node])]
    first = 1 if single_root else 0
    top = largest(row[first:])
    head = first
    if top == -np.inf:
        if not single_root or row[0] == -np.inf:
            return -1
        head = 0
    else:
        while head < n and row[head] != top:  # the limit is for NaN, which equals nothing
            head += 1
    forest.head[node] = head
    forest.word[node] = enter[head]
    forest.best[node] = row[head]
    return head


@leaf
def _contract(table, forest, first, last, node):
    """Contract the path from index ``first`` to ``last``, a cycle, to one node."""
    n = forest.top.shape[0]
    kept = int(forest.path[first])
    place = int(forest.row[kept])
    row, enter = table[place], forest.enter[place]
    shift = forest.best[kept]
    for h in range(n + 1):
        row[h] -= shift
    for at in range(first, last + 1):
        member = int(forest.path[at])
        forest.parent[member] = node
        if at == first:
            continue
        other, other_enter = table[int(forest.row[member])], forest.enter[int(forest.row[member])]
        shift = forest.best[member]
        for h in range(n + 1):
            value = other[h] - shift
            better = value > row[h]
            row[h] = value if better else row[h]
            enter[h] = other_enter[h] if better else enter[h]
    for word in range(n):
        if forest.parent[int(forest.top[word])] == node:
            forest.top[word] = node
            row[word + 1] = -np.inf
    forest.parent[node] = -1.0
    forest.row[node] = place
    forest.state[node] = 1.0


@leaf
def _grow(table, forest, start, n_nodes, single_root):
    """Connect a node to the root; returns the new number of nodes, or -1 if it is impossible."""
    last = 0
    forest.path[0] = start
    forest.state[start] = 1.0
    while True:
        node = int(forest.path[last])
        head = _choose(table, forest, node, single_root)
        if head < 0:
            return -1
        above = int(forest.top[head - 1]) if head > 0 else -1
        if above < 0 or forest.state[above] == 2.0:
            for at in range(last + 1):
                forest.state[int(forest.path[at])] = 2.0
            return n_nodes
        if forest.state[above] == 0.0 and last + 1 < forest.path.shape[0]:
            last += 1
            forest.path[last] = above
            forest.state[above] = 1.0
            continue
        if n_nodes == 2 * forest.top.shape[0]:  # with NaN the loop would not end
            return -1
        first = last
        while first > 0 and int(forest.path[first]) != above:
            first -= 1
        _contract(table, forest, first, last, n_nodes)
        last = first
        forest.path[last] = n_nodes
        n_nodes += 1


@leaf
def _expand(forest, n_nodes, heads):
    """Break the cycles, the outermost first: the arc into a contraction replaces the best arc of
    the member that it enters."""
    n = forest.top.shape[0]
    for node in range(n_nodes - 1, n - 1, -1):
        member = int(forest.word[node])
        while int(forest.parent[member]) != node:
            member = int(forest.parent[member])
        forest.head[member] = forest.head[node]
        forest.word[member] = forest.word[node]
    roots = 0
    for word in range(n):
        heads[word] = int(forest.head[word])
        roots += heads[word] == 0
    return roots


@leaf
def best_tree(table, single_root, work, heads):
    """Write the head of every word in the best tree; False if no tree is allowed.

    Parameters
    ----------
    table : (n, n + 1) array
        Scores, minus infinity for forbidden arcs, which include ``table[d, d + 1]``. Overwritten.
    single_root : bool
        Whether exactly one word must have the root as its head.
    work : array
        Scratch of length ``arborescence_work(n)``.
    heads : (n,) array of int32
    """
    n = table.shape[0]
    forest = _forest(n, work)
    for word in range(n):
        forest.top[word] = word
        forest.row[word] = word
        forest.state[word] = 0.0
        forest.parent[word] = -1.0
        forest.enter[word, :] = word
    n_nodes = n
    for word in range(n):
        if forest.state[int(forest.top[word])] == 0.0:
            n_nodes = _grow(table, forest, word, n_nodes, single_root)
            if n_nodes < 0:
                return False
    roots = _expand(forest, n_nodes, heads)
    return roots == 1 or not single_root


@leaf
def masked_table(scores, allowed, first, table):
    """Copy the scores of arcs, minus infinity where they are not allowed.

    ``scores`` and, from ``first`` on, ``allowed`` are flat, word by word; an empty ``allowed``
    forbids nothing but arcs from a word to itself.
    """
    n = table.shape[0]
    copy(table.reshape(n * (n + 1)), scores)
    for d in range(n):
        table[d, d + 1] = -np.inf
        if allowed.shape[0] > 0:
            for h in range(n + 1):
                if not allowed[first + d * (n + 1) + h]:
                    table[d, h] = -np.inf


@compiled
def best_trees(scores, indptr, single_root, heads, values):
    """Best trees for many flat tables, concatenated.

    ``heads`` of example i are written from ``indptr[i]`` on; ``values[i]`` is the score, minus
    infinity where no tree is allowed.
    """
    most = 0
    for i in range(indptr.shape[0] - 1):
        most = max(most, indptr[i + 1] - indptr[i])
    table_buffer = np.empty(most * (most + 1))
    work = np.empty(arborescence_work(most))
    nothing = np.empty(0, np.bool_)
    first = 0
    for i in range(indptr.shape[0] - 1):
        n = indptr[i + 1] - indptr[i]
        size = n * (n + 1)
        table = table_buffer[:size].reshape(n, n + 1)
        answer = heads[indptr[i] : indptr[i + 1]]
        masked_table(scores[first : first + size], nothing, 0, table)
        values[i] = -np.inf
        if best_tree(table, single_root, work, answer):
            total = 0.0
            for d in range(n):
                total += scores[first + d * (n + 1) + answer[d]]
            values[i] = total
        first += size
