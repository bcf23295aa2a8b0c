"""Subsets of a fixed size: selection, thresholds on the hypersimplex, sums over all subsets.

The hypersimplex of s out of v is ``{ mu : 0 <= mu <= 1, sum mu = s }``, the convex hull of the
indicators of all subsets of size s.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled, leaf

_MOST_STEPS = 200


@leaf
def kth_largest(values, k):
    """The k-th largest number (k = 1: the largest); the order of ``values`` changes.

    Both searches are limited: with NaN no pivot would stop them.
    """
    low, high = 0, values.shape[0] - 1
    target = k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while left < high and values[left] > pivot:
                left += 1
            while right > low and values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if target <= right:
            high = right
        elif target >= left:
            low = left
        else:
            return values[target]
    return values[target]


@leaf
def best_subset(scores, work, labels):
    """Write the indices of the largest scores, in increasing order, and return their sum.

    Of equal scores the first ones are taken; ``work`` has the length of the scores.
    """
    v, s = scores.shape[0], labels.shape[0]
    copied = work[:v]
    for e in range(v):
        copied[e] = scores[e]
    least = kth_largest(copied, s)
    above = 0
    for e in range(v):
        if scores[e] > least:
            above += 1
    equal = s - above  # number of scores to take that are equal to the least one
    total, place = 0.0, 0
    for e in range(v):
        take = scores[e] > least
        if scores[e] == least and equal > 0:
            take = True
            equal -= 1
        if take and place < s:
            labels[place] = e
            place += 1
            total += scores[e]
    for rest in range(place, s):  # with NaN: any elements
        labels[rest] = rest
    return total


@leaf
def sum_of_largest(values, s, work):
    """Sum of the s largest numbers."""
    v = values.shape[0]
    copied = work[:v]
    for e in range(v):
        copied[e] = values[e]
    least = kth_largest(copied, s)
    total, above = 0.0, 0
    for e in range(v):
        if values[e] > least:
            total += values[e]
            above += 1
    return total + (s - above) * least


@leaf
def capped_threshold(values, cap, total):
    """The t with ``sum_e min(max(values_e - t, 0), cap) = total``, for 0 < total <= v * cap.

    Newton steps on a decreasing, piecewise linear function, within a bracket: in the right piece
    the step is exact.
    """
    v = values.shape[0]
    low, high = values[0], values[0]
    for e in range(v):
        low = min(low, values[e])
        high = max(high, values[e])
    low -= cap
    t = high - total / v
    if t < low:
        t = low
    for _ in range(_MOST_STEPS):
        found, inside, summed, full = 0.0, 0, 0.0, 0
        for e in range(v):
            above = values[e] - t
            if above >= cap:
                full += 1
                found += cap
            elif above > 0.0:
                inside += 1
                summed += values[e]
                found += above
        if found > total:
            low = t
        elif found < total:
            high = t
        else:
            return t
        step = 0.5 * (low + high)
        if inside > 0:
            newton = (summed + cap * full - total) / inside
            if low < newton < high:
                step = newton
        if step == t or high - low <= 1e-15 * max(abs(low), abs(high)):
            return step
        t = step
    return t


@leaf
def project_hypersimplex(values, s, out):
    """The nearest point of the hypersimplex: ``min(max(values - t, 0), 1)``.

    ``values`` are overwritten: after a shift that makes the s-th largest zero, t is between -1 and
    0, and large values that differ by less than 1 keep their precision. The rounding error of the
    sum is distributed, so that the answer is feasible for any values.
    """
    v = values.shape[0]
    for e in range(v):
        out[e] = values[e]
    pivot = kth_largest(out, s)
    for e in range(v):
        values[e] = min(max(values[e] - pivot, -2.0), 2.0)
    t = capped_threshold(values, 1.0, float(s))
    missing = float(s)
    for e in range(v):
        out[e] = min(max(values[e] - t, 0.0), 1.0)
        missing -= out[e]
    for e in range(v):
        if 0.0 < out[e] < 1.0:
            before = out[e]
            out[e] = min(max(before + missing, 0.0), 1.0)
            missing -= out[e] - before


@leaf
def _log_add(a, b):
    """``log(exp(a) + exp(b))``."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@leaf
def subset_marginals(scores, s, work, mu):
    """Marginals of the distribution proportional to ``exp(sum of the scores of a subset)``.

    Returns the logarithm of its normaliser, the s-th elementary symmetric polynomial of the
    ``exp(scores)``. From the last element to the first, each is chosen or not with the probability
    that the sums over the elements before it give. So the marginals are those of a distribution
    over subsets whatever the rounding errors of these sums, which are as large as the scores:
    marginals that sum to another number than s would be no point of a dual. ``work`` has
    ``(v + 1) (s + 1) + 2 (s + 1)`` numbers.
    """
    v = scores.shape[0]
    width = s + 1
    first = work[: (v + 1) * width].reshape(v + 1, width)
    rest = work[(v + 1) * width :]
    chosen, before = rest[:width], rest[width : 2 * width]
    for k in range(width):
        first[0, k] = 0.0 if k == 0 else -np.inf
        chosen[k] = 0.0  # probability that k of the elements up to here are chosen
    chosen[s] = 1.0
    for e in range(v):
        first[e + 1, 0] = 0.0
        for k in range(1, width):
            first[e + 1, k] = _log_add(first[e, k], first[e, k - 1] + scores[e])
    for e in range(v - 1, -1, -1):
        mu[e] = 0.0
        before[s] = 0.0
        for k in range(width):
            with_it = np.exp(first[e, k - 1] + scores[e] - first[e + 1, k]) if k > 0 else 0.0
            without = np.exp(first[e, k] - first[e + 1, k])
            share = with_it / (with_it + without) if chosen[k] > 0.0 else 0.0
            mu[e] += share * chosen[k]
            before[k] = (1.0 - share) * chosen[k]
            if k > 0:
                before[k - 1] += share * chosen[k]
        for k in range(width):
            chosen[k] = before[k]
        mu[e] = min(mu[e], 1.0)
    return first[v, s]


# --- many examples ---------------------------------------------------------------------------


@compiled
def best_subsets(scores, elements, indptr, labels):
    """The best subsets of all examples."""
    for i in range(len(elements) - 1):
        own = scores[elements[i] : elements[i + 1]]
        best_subset(own, np.empty(len(own)), labels[indptr[i] : indptr[i + 1]])


@compiled
def marginals_of_subsets(scores, elements, sizes, out):
    """Marginals of the elements of all examples."""
    for i in range(len(elements) - 1):
        low, high = elements[i], elements[i + 1]
        work = np.empty((high - low + 3) * (sizes[i] + 1))
        subset_marginals(scores[low:high], sizes[i], work, out[low:high])
