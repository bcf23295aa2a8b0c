"""Matchings whose pair features depend on a latent choice, such as a map of the points.

``scores[h, a, b]`` is the score of pairing a with b under choice h; a permutation y scores
``sum_a scores[h, a, y_a]``, summed in this order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._kernels.assignment import assign, assignment_work
from ..._kernels.jit import compiled, leaf, ordered_leaf
from .pair_map import worth
from .space_moves import below, start_stream


class MatchData(NamedTuple):
    """Packed features: of pairs (fixed), and of pairs under each choice (moved)."""

    sizes: np.ndarray  # (n,) points per side
    fixed: np.ndarray  # flat, (size, size, n_fixed) per example
    fixed_start: np.ndarray
    moved: np.ndarray  # flat, (n_choices, size, size, n_moved) per example
    moved_start: np.ndarray
    n_choices: int
    n_fixed: int
    n_moved: int


@leaf
def match_scores(data, i, w, out):
    """Write the scores of all pairs under all choices."""
    m = data.sizes[i]
    for a in range(m):
        for b in range(m):
            base = 0.0
            at = data.fixed_start[i] + (a * m + b) * data.n_fixed
            for k in range(data.n_fixed):
                base += w[k] * data.fixed[at + k]
            for h in range(data.n_choices):
                total = base
                at = data.moved_start[i] + ((h * m + a) * m + b) * data.n_moved
                for k in range(data.n_moved):
                    total += w[data.n_fixed + k] * data.moved[at + k]
                out[h, a, b] = total


@ordered_leaf
def permutation_score(scores, y, m):
    """Score of a permutation under one choice."""
    total = 0.0
    for a in range(m):
        total += scores[a, y[a]]
    return total


@leaf
def permutation_distortion(y, z, m):
    """Share of places that differ."""
    wrong = 0
    for a in range(m):
        wrong += 1 if y[a] != z[a] else 0
    return wrong / m


@compiled
def complete_matches(data, Y, w, n_allowed, examples, latents):
    """Best choice, among the first ``n_allowed``, of the true matchings."""
    largest = data.sizes.max()
    scores = np.empty((data.n_choices, largest, largest))
    for i in examples:
        match_scores(data, i, w, scores)
        top = -np.inf
        for h in range(n_allowed):
            score = permutation_score(scores[h], Y[i], data.sizes[i])
            if score > top:
                top = score
                latents[i] = h


@compiled
def best_matches(data, Y, w, n_allowed, margin, examples, outputs, latents, losses):
    """Best matching and choice, with the distortion added if ``margin``; solves one assignment
    problem per choice."""
    largest = data.sizes.max()
    scores = np.empty((data.n_choices, largest, largest))
    table, work = np.empty(largest * largest), np.empty(assignment_work(largest))
    labels = np.empty(largest, np.int32)
    for i in examples:
        m = data.sizes[i]
        match_scores(data, i, w, scores)
        matrix = table[: m * m].reshape(m, m)
        top = -np.inf
        for h in range(n_allowed):
            for a in range(m):
                for b in range(m):
                    extra = 1.0 / m if margin and b != Y[i, a] else 0.0
                    matrix[a, b] = scores[h, a, b] + extra
            value = assign(matrix, work, labels[:m])
            if value > top:
                top = value
                latents[i] = h
                for a in range(m):
                    outputs[i, a] = labels[a]
        losses[i] = permutation_distortion(Y[i], outputs[i], m)


@compiled
def list_matches(data, table, Y, w, references, objective, n_allowed, examples, found):
    """Maximise ``worth`` over the permutations of a table and all choices."""
    outputs, latents, losses = found
    largest = data.sizes.max()
    scores = np.empty((data.n_choices, largest, largest))
    for i in examples:
        match_scores(data, i, w, scores)
        top = -np.inf
        for row in table:
            d = permutation_distortion(Y[i], row, largest)
            for h in range(n_allowed):
                score = permutation_score(scores[h], row, largest)
                value = worth(objective, score, d, references[i])
                if value > top:
                    top = value
                    losses[i] = d
                    latents[i] = h
                    outputs[i] = row


@leaf
def _climb(scores, n_allowed, y, h, m):
    """Exchange two partners, or change the choice, while the score increases strictly."""
    value = permutation_score(scores[h], y, m)
    while True:
        before = value
        table = scores[h]
        for a in range(m):
            for b in range(a + 1, m):
                gain = table[a, y[b]] + table[b, y[a]] - table[a, y[a]] - table[b, y[b]]
                if gain < -1e-9 * (1.0 + abs(value)):
                    continue
                y[a], y[b] = y[b], y[a]
                score = permutation_score(table, y, m)
                if score > value:
                    value = score
                else:
                    y[a], y[b] = y[b], y[a]
        for other in range(n_allowed):
            score = permutation_score(scores[other], y, m)
            if score > value:
                value, h = score, other
        if value == before:
            return value, h


@compiled
def sample_matches(data, Y, w, references, objective, n_allowed, draws, examples, found):
    """Maximise ``worth`` over random matchings and choices (Algorithm 1).

    ``draws`` are their number, whether each is improved to a local optimum, and the seed.
    """
    n_samples, greedy, seed = draws
    outputs, latents, losses = found
    largest = data.sizes.max()
    scores = np.empty((data.n_choices, largest, largest))
    rng, y = np.empty(1, np.uint64), np.empty(largest, np.int32)
    for i in examples:
        m = data.sizes[i]
        match_scores(data, i, w, scores)
        top = -np.inf
        for t in range(n_samples):
            start_stream(rng, seed, i, t)
            for a in range(m):
                y[a] = a
            for a in range(m - 1, 0, -1):
                b = below(rng, a + 1)
                y[a], y[b] = y[b], y[a]
            h = below(rng, n_allowed)
            if greedy:
                score, h = _climb(scores, n_allowed, y, h, m)
            else:
                score = permutation_score(scores[h], y, m)
            d = permutation_distortion(Y[i], y, m)
            value = worth(objective, score, d, references[i])
            if value > top:
                top = value
                losses[i] = d
                latents[i] = h
                for a in range(m):
                    outputs[i, a] = y[a]


@compiled
def match_rows(data, outputs, latents, examples, values):
    """Features of matchings: sums over their pairs."""
    for i in examples:
        m = data.sizes[i]
        for a in range(m):
            b = outputs[i, a]
            at = data.fixed_start[i] + (a * m + b) * data.n_fixed
            for k in range(data.n_fixed):
                values[i, k] += data.fixed[at + k]
            at = data.moved_start[i] + ((latents[i] * m + a) * m + b) * data.n_moved
            for k in range(data.n_moved):
                values[i, data.n_fixed + k] += data.moved[at + k]
