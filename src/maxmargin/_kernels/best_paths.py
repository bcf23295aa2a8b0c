"""The k best paths through a chain of states."""

from __future__ import annotations

import numpy as np

from .jit import leaf


@leaf
def _merge(scores, steps, taken, out, came_from, came_rank):
    """The best sums ``scores[j, r] + steps[j]``, best first; returns their number.

    Each row of scores is sorted. ``taken`` is scratch: the number of used entries of every row.
    Among equal sums the smaller j comes first.
    """
    n_states, k = scores.shape
    taken[:] = 0
    for place in range(k):
        best, chosen = -np.inf, -1
        for j in range(n_states):
            if taken[j] < k and scores[j, taken[j]] + steps[j] > best:
                best = scores[j, taken[j]] + steps[j]
                chosen = j
        if chosen < 0:
            out[place:] = -np.inf
            return place
        out[place] = best
        came_from[place] = chosen
        came_rank[place] = taken[chosen]
        taken[chosen] += 1
    return k


@leaf
def k_best_paths(unary, turned, scores, came_from, came_rank, scratch, taken, labels, values):
    """Write the k best label sequences and their scores, best first; returns their number.

    Parameters
    ----------
    unary : array of shape (T, K)
    turned : array of shape (K, K)
        ``turned[b, a]`` is the score of label b after label a.
    scores : array of shape (2, K, k)
        Scratch: sorted scores of the best paths to each label.
    came_from, came_rank : integer arrays of shape (T + 1, K, k)
        Scratch: label and rank of the path that each path continues.
    scratch : array of K zeros
    taken : integer array of K
        Scratch.
    labels : integer array of shape (k, T)
    values : array of shape (k,)
    """
    length, n = unary.shape
    k = values.shape[0]
    now = scores[0]
    now[:] = -np.inf
    for label in range(n):
        now[label, 0] = unary[0, label]
    for t in range(1, length):
        before, now = scores[(t - 1) % 2], scores[t % 2]
        for label in range(n):
            row = now[label]
            _merge(before, turned[label], taken, row, came_from[t, label], came_rank[t, label])
            for rank in range(k):
                row[rank] += unary[t, label]
    found = _merge(now, scratch, taken, values, came_from[length, 0], came_rank[length, 0])
    for place in range(found):
        label, rank = came_from[length, 0, place], came_rank[length, 0, place]
        for t in range(length - 1, -1, -1):
            labels[place, t] = label
            if t > 0:
                label, rank = came_from[t, label, rank], came_rank[t, label, rank]
    return found
