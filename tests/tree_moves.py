"""Trees as lists of heads: checks, all of them, random ones, and small changes.

``heads[d]`` is the head of word d + 1: 0 for the artificial root, else a word 1, ..., n. With a
single root these are the ``n^(n-1)`` directed trees on n nodes with any root; without,
``(n+1)^(n-1)``.

A *move* is a word and a new head for it. It is possible unless the head is the word itself or
one of its descendants. With a single root, making a word the root hangs the old root below it, and
the root itself cannot move otherwise; every tree can be reached from every other.

Random trees are drawn by Wilson's algorithm: loop-erased random walks.

References
----------
Wilson. Generating random spanning trees more quickly than the cover time. STOC 1996.
"""

from __future__ import annotations

import numpy as np

from maxmargin._kernels.jit import compiled, leaf


@leaf
def first_off_tree(heads):
    """Index of the first word whose chain of heads does not end at the root, or -1."""
    n = heads.shape[0]
    for word in range(n):
        node = word + 1
        for _ in range(n):
            node = heads[node - 1]
            if node == 0:
                break
        if node != 0:
            return word
    return -1


@leaf
def count_roots(heads):
    """Number of words whose head is the root."""
    roots = 0
    for word in range(heads.shape[0]):
        roots += heads[word] == 0
    return roots


@leaf
def wrong_heads(heads, others):
    """Number of words with different heads: n times the loss."""
    wrong = 0
    for word in range(heads.shape[0]):
        wrong += heads[word] != others[word]
    return wrong


@compiled
def enumerate_trees(n, single_root):
    """All trees of n words, ``(number, n)``, in lexicographic order of their heads."""
    count = n ** (n - 1) if single_root else (n + 1) ** (n - 1)
    found = np.empty((count, n), np.int32)
    heads = np.zeros(n, np.int32)
    place = 0
    while True:
        if first_off_tree(heads) < 0 and (not single_root or count_roots(heads) == 1):
            found[place] = heads
            place += 1
        word = n - 1
        while word >= 0 and heads[word] == n:
            heads[word] = 0
            word -= 1
        if word < 0:
            return found
        heads[word] += 1


# --- moves ------------------------------------------------------------------------------------


@leaf
def is_below(heads, node, word):
    """Whether a node (from 1) is the word (from 0) or one of its descendants."""
    while node > 0:
        if node == word + 1:
            return True
        node = heads[node - 1]
    return False


@leaf
def can_move(heads, word, head, single_root):
    """Whether a word may get a new head."""
    if head == heads[word] or head == word + 1:
        return False
    if head == 0:
        return True
    if single_root and heads[word] == 0:
        return False
    return not is_below(heads, head, word)


@leaf
def move(heads, word, head, single_root):
    """Give a word a new head, in place; the move must be possible."""
    if single_root and head == 0:
        for other in range(heads.shape[0]):
            if heads[other] == 0:
                heads[other] = word + 1
    heads[word] = head


# --- random trees -----------------------------------------------------------------------------


@leaf
def random_number(state):
    """A uniform number in [0, 1) from a generator of 64 bits (splitmix64); advances ``state``."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@leaf
def draw_place(sums, state):
    """Index of an entry, drawn in proportion to its weight; ``sums`` are the cumulated weights."""
    n = sums.shape[0]
    wanted = random_number(state) * sums[n - 1]
    for place in range(n - 1):
        if wanted < sums[place]:
            return place
    last = n - 1
    while last > 0 and sums[last] == sums[last - 1]:  # rounding: the last one with a weight
        last -= 1
    return last


@leaf
def draw_tree(sums, top, state, heads):
    """Draw a tree in proportion to the product of the weights of its arcs.

    Parameters
    ----------
    sums : (n, n + 1) array
        ``sums[d, h]``: weights of nodes 0, ..., h as the head of word d + 1, cumulated; the word
        itself has none.
    top : int
        0, or the word (from 1) that becomes the only one with head 0. For a distribution with a
        single root, it must be drawn from the marginals of the root's arcs.
    state : array of one uint64
        Of the random numbers.
    heads : (n,) array of int32
    """
    n = sums.shape[0]
    for word in range(n):
        heads[word] = -1  # not in the tree yet; -2 - h: head h, if the walk ends here
    if top > 0:
        heads[top - 1] = 0
    for start in range(n):
        node = start + 1
        while node > 0 and heads[node - 1] < 0:
            head = draw_place(sums[node - 1], state)
            if top > 0 and head == 0:  # the root has its one child
                continue
            heads[node - 1] = -2 - head
            node = head
        node = start + 1
        while node > 0 and heads[node - 1] < 0:
            heads[node - 1] = -2 - heads[node - 1]
            node = heads[node - 1]


@leaf
def draw_uniform_tree(n, single_root, state, heads):
    """Draw one of all trees, each as likely as any other; no scratch needed."""
    for word in range(n):
        heads[word] = -1
    if single_root:
        heads[min(int(random_number(state) * n), n - 1)] = 0
    nodes = n if single_root else n + 1
    for start in range(n):
        node = start + 1
        while node > 0 and heads[node - 1] < 0:
            head = min(int(random_number(state) * nodes), nodes - 1) + (1 if single_root else 0)
            if head == node:
                continue
            heads[node - 1] = -2 - head
            node = head
        node = start + 1
        while node > 0 and heads[node - 1] < 0:
            heads[node - 1] = -2 - heads[node - 1]
            node = heads[node - 1]


@compiled
def draw_uniform_trees(n, single_root, count, state):
    """Many of them, ``(count, n)``."""
    found = np.empty((count, n), np.int32)
    for k in range(count):
        draw_uniform_tree(n, single_root, state, found[k])
    return found


@compiled
def draw_trees(weights, roots, count, state):
    """Many trees in proportion to the product of their arcs' weights, ``(count, n)``.

    ``weights`` is ``(n, n + 1)``; ``roots`` is empty, or, for a single root, the probability of
    each word to be the one with head 0.
    """
    n = weights.shape[0]
    sums = np.empty((n, n + 1))
    for d in range(n):
        total = 0.0
        for h in range(n + 1):
            # A single root has its child by then: no walk may go there.
            if h != d + 1 and (h > 0 or roots.shape[0] == 0):
                total += weights[d, h]
            sums[d, h] = total
    cumulated = np.cumsum(roots)
    found = np.empty((count, n), np.int32)
    for k in range(count):
        top = draw_place(cumulated, state) + 1 if roots.shape[0] > 0 else 0
        draw_tree(sums, top, state, found[k])
    return found
