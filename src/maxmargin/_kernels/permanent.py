"""Sums over all permutations: the permanent of ``exp(scores)`` and its marginals, for small n.

``f(S)`` is the sum over all ways to give the first ``|S|`` rows the columns S, ``b(S)`` that over
all ways to give the other rows the other columns::

    f(S) = sum_{j in S} w_{|S|-1, j} f(S - j),        b(S) = sum_{j not in S} w_{|S|, j} b(S + j)
    mu_ij = w_ij sum_{|S| = i, j not in S} f(S) b(S + j) / f(all)

This takes n 2^n steps, as Ryser's formula does for the permanent, and all terms are positive: no
digits are lost. The potentials of the best assignment make the largest term 1.
"""

from __future__ import annotations

import numpy as np

from .assignment import assignment_work, best_weight
from .jit import compiled, leaf

MOST_ITEMS = 12  # two tables of 2^12 numbers, 0.1 ms per matrix


@leaf
def permanent_work(n):
    """Length of the scratch vector of :func:`permutation_marginals`; 0 above the limit."""
    return assignment_work(n) + n * n + (2 << n) if n <= MOST_ITEMS else 0


@leaf
def permutation_marginals(scores, work, mu):
    """Write the marginals of permutations in proportion to ``exp(sum_i scores[i, y_i])``.

    ``scores`` and ``mu`` are (n, n) arrays. Returns the log of the sum of all these exponentials.
    """
    n = scores.shape[0]
    best_weight(scores, work)
    shift = 0.0
    potentials = work[: 2 * n]
    start = assignment_work(n)
    shares = work[start : start + n * n].reshape(n, n)
    forward = work[start + n * n : start + n * n + (1 << n)]
    backward = work[start + n * n + (1 << n) : start + n * n + (2 << n)]
    for i in range(n):
        shift += potentials[i] + potentials[n + i]
        for j in range(n):
            shares[i, j] = np.exp(scores[i, j] - potentials[i] - potentials[n + j])
            mu[i, j] = 0.0
    everything = (1 << n) - 1
    forward[0] = 1.0
    for chosen in range(1, everything + 1):
        row = -1
        for j in range(n):
            row += (chosen >> j) & 1
        total = 0.0
        for j in range(n):
            if (chosen >> j) & 1:
                total += shares[row, j] * forward[chosen ^ (1 << j)]
        forward[chosen] = total
    inverse = 1.0 / forward[everything]
    backward[everything] = 1.0
    for chosen in range(everything - 1, -1, -1):
        row = 0
        for j in range(n):
            row += (chosen >> j) & 1
        total = 0.0
        for j in range(n):
            if not (chosen >> j) & 1:
                term = shares[row, j] * backward[chosen | (1 << j)]
                total += term
                mu[row, j] += forward[chosen] * term * inverse
        backward[chosen] = total
    return shift + np.log(forward[everything])


@compiled
def marginals_of_permutations(scores, indptr, out):
    """Marginals of matrices of different sizes, one flat matrix after another."""
    n_largest = 0
    for i in range(indptr.shape[0] - 1):
        n_largest = max(n_largest, indptr[i + 1] - indptr[i])
    work = np.empty(permanent_work(n_largest))
    first = 0
    for i in range(indptr.shape[0] - 1):
        n = indptr[i + 1] - indptr[i]
        last = first + n * n
        permutation_marginals(scores[first:last].reshape(n, n), work, out[first:last].reshape(n, n))
        first = last


def refuse_large(n_items: int, owner: str) -> None:
    """Refuse permutations of more items than can be summed over."""
    if n_items > MOST_ITEMS:
        raise ValueError(
            f"probabilities of {owner} are sums over all permutations (permanents), of at most "
            f"{MOST_ITEMS} items; received {n_items}. Use surrogate='max-min' or 'max-margin'."
        )
