"""Label sequences in which every label has hidden sub-states.

States are ``label * n_sub + sub``. ``unary`` has a row of scores for each position of all
examples, ``pairs[r, s]`` is the score of state s after state r.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import compiled, leaf, ordered_leaf
from .pair_map import worth
from .space_moves import below, start_stream


@ordered_leaf
def path_score(unary, pairs, states):
    """Score of a sequence of states."""
    total = unary[0, states[0]]
    for t in range(1, states.shape[0]):
        total += pairs[states[t - 1], states[t]]
        total += unary[t, states[t]]
    return total


@leaf
def _best_path(unary, pairs, truth, n_sub, fixed, bonus, values, back, states):
    """Viterbi: with ``fixed`` only states of the true labels, otherwise plus ``bonus`` for each
    wrong label."""
    length, n = unary.shape
    for t in range(length):
        for s in range(n):
            wrong = s // n_sub != truth[t]
            if fixed and wrong:
                values[t, s] = -np.inf
                back[t, s] = 0
                continue
            top, at = 0.0, 0
            if t > 0:
                top = -np.inf
                for r in range(n):
                    value = values[t - 1, r] + pairs[r, s]
                    if value > top:
                        top, at = value, r
            values[t, s] = top + unary[t, s] + (bonus if wrong else 0.0)
            back[t, s] = at
    best = 0
    for s in range(1, n):
        if values[length - 1, s] > values[length - 1, best]:
            best = s
    states[length - 1] = best
    for t in range(length - 1, 0, -1):
        states[t - 1] = back[t, states[t]]


@leaf
def label_distortion(states, truth, n_sub):
    """Share of positions with a wrong label."""
    wrong = 0
    for t in range(truth.shape[0]):
        wrong += 1 if states[t] // n_sub != truth[t] else 0
    return wrong / truth.shape[0]


@compiled
def best_paths(unary, pairs, indptr, truth, n_sub, fixed, margin, examples, states, losses):
    """Best states of examples; see :func:`_best_path`."""
    longest = 0
    for i in examples:
        longest = max(longest, indptr[i + 1] - indptr[i])
    values = np.empty((longest, pairs.shape[0]))
    back = np.empty((longest, pairs.shape[0]), np.int32)
    for i in examples:
        first, last = indptr[i], indptr[i + 1]
        bonus = 1.0 / (last - first) if margin else 0.0
        _best_path(
            unary[first:last], pairs, truth[first:last], n_sub, fixed, bonus, values, back,
            states[first:last]
        )  # fmt: skip
        losses[i] = label_distortion(states[first:last], truth[first:last], n_sub)


@leaf
def _count_paths(unary, pairs, truth, n_sub, values, back):
    """Viterbi for each number k of wrong labels.

    ``values[t % 2, k, s]`` is the best score of the positions up to t that end in state s.
    """
    length, n = unary.shape
    for t in range(length):
        now, before = values[t % 2], values[(t + 1) % 2]
        for k in range(t + 2):
            for s in range(n):
                left = k - 1 if s // n_sub != truth[t] else k  # wrong labels before t
                top, at = -np.inf, 0
                if t == 0:
                    top = 0.0 if left == 0 else -np.inf
                elif 0 <= left <= t:
                    for r in range(n):
                        value = before[left, r] + pairs[r, s]
                        if value > top:
                            top, at = value, r
                now[k, s] = top + unary[t, s]
                back[t, k, s] = at


@compiled
def worst_paths(chain, references, objective, examples, states, losses):
    """Maximise ``worth`` over all sequences of states.

    With the number of wrong labels fixed it does not fall as the score rises: the best path of each
    number, then the best number.
    """
    unary, pairs, indptr, truth, n_sub = chain
    longest, n = 0, pairs.shape[0]
    for i in examples:
        longest = max(longest, indptr[i + 1] - indptr[i])
    values = np.empty((2, longest + 1, n))
    back = np.empty((longest, longest + 1, n), np.int32)
    for i in examples:
        first, last = indptr[i], indptr[i + 1]
        length = last - first
        _count_paths(unary[first:last], pairs, truth[first:last], n_sub, values, back)
        final = values[(length - 1) % 2]
        top, wrong, state = -np.inf, 0, 0
        for k in range(length + 1):
            best = 0
            for s in range(1, n):
                if final[k, s] > final[k, best]:
                    best = s
            value = worth(objective, final[k, best], k / length, references[i])
            if value > top:
                top, wrong, state = value, k, best
        losses[i] = wrong / length
        for t in range(length - 1, -1, -1):
            states[first + t] = state
            at = back[t, wrong, state]
            wrong -= 1 if state // n_sub != truth[first + t] else 0
            state = at


@leaf
def _climb_path(unary, pairs, states):
    """Change states at single positions while the score increases strictly."""
    length, n = unary.shape
    value = path_score(unary, pairs, states)
    while True:
        before = value
        for t in range(length):
            for s in range(n):
                old = states[t]
                gain = unary[t, s] - unary[t, old]
                if t > 0:
                    gain += pairs[states[t - 1], s] - pairs[states[t - 1], old]
                if t + 1 < length:
                    gain += pairs[s, states[t + 1]] - pairs[old, states[t + 1]]
                if s == old or gain < -1e-9 * (1.0 + abs(value)):
                    continue
                states[t] = s
                score = path_score(unary, pairs, states)
                if score > value:
                    value = score
                else:
                    states[t] = old
        if value == before:
            return value


@compiled
def sample_paths(chain, references, objective, draws, examples, states, losses):
    """Maximise ``worth`` over random sequences of states (Algorithm 1).

    ``draws`` are their number, whether each is improved to a local optimum, and the seed.
    """
    unary, pairs, indptr, truth, n_sub = chain
    n_samples, greedy, seed = draws
    trial = np.empty(unary.shape[0], np.int32)
    for i in examples:
        first, last = indptr[i], indptr[i + 1]
        part = trial[first:last]
        rng = np.empty(1, np.uint64)
        top = -np.inf
        for t in range(n_samples):
            start_stream(rng, seed, i, t)
            for k in range(last - first):
                part[k] = below(rng, pairs.shape[0])
            if greedy:
                score = _climb_path(unary[first:last], pairs, part)
            else:
                score = path_score(unary[first:last], pairs, part)
            d = label_distortion(part, truth[first:last], n_sub)
            value = worth(objective, score, d, references[i])
            if value > top:
                top = value
                losses[i] = d
                for k in range(last - first):
                    states[first + k] = part[k]
