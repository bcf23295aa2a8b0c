"""The best path through a chain of states."""

from __future__ import annotations

from .jit import leaf
from .vector import best_step, copy


@leaf
def viterbi(unary, transitions, arrive, leave, labels):
    """Maximise ``sum_t unary[t, y_t] + sum_t transitions[y_t, y_{t+1}]`` over label sequences.

    ``arrive`` and ``leave`` are scratch of the shape of ``unary``: the best score of a path
    that reaches a label, without and with the score of the label. No back pointers are stored: the
    forward pass consists of vector maxima only, and the backward pass searches for the label whose
    sum is equal to the maximum, bit for bit. Ties go to the smaller label.
    """
    length, n_labels = unary.shape
    copy(leave[0], unary[0])
    for t in range(1, length):
        best_step(leave[t - 1], transitions, unary[t], arrive[t], leave[t])
    last = 0
    for k in range(1, n_labels):
        if leave[length - 1, k] > leave[length - 1, last]:
            last = k
    labels[length - 1] = last
    value = leave[length - 1, last]
    for t in range(length - 2, -1, -1):
        best = arrive[t + 1, last]
        for j in range(n_labels):
            if leave[t, j] + transitions[j, last] >= best:
                last = j
                break
        labels[t] = last
    return value
