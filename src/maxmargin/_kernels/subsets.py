"""Subsets of a fixed size: selection, thresholds on the hypersimplex, sums over all subsets.

The hypersimplex of s out of v is ``{ mu : 0 <= mu <= 1, sum mu = s }``, the convex hull of the
indicators of all subsets of size s.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled, leaf

_MOST_STEPS = 200
# An element whose score is this much above the s-th largest, and twice the logarithm of the number
# of elements, is in all subsets but a share below the precision of a number.
_CERTAIN = 40.0
# Marginals whose variances sum to less are 0 or 1; the inverse of this sum may overflow.
_NOTHING = 1e-100


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
def _shifted(scores, s, out):
    """Write scores minus the s-th largest, limited to where an element is in every subset up to
    rounding; returns what the best subset loses by this, and the limit."""
    v = scores.shape[0]
    for e in range(v):
        out[e] = scores[e]
    pivot = kth_largest(out, s)
    limit = _CERTAIN + 2.0 * np.log(v)
    lost = s * pivot
    for e in range(v):
        above = scores[e] - pivot
        lost += max(above - limit, 0.0)
        out[e] = min(above, limit)
    return lost, limit


@leaf
def _fill_up(s, mu):
    """Remove the rounding error of the sum of marginals, which the scores would multiply."""
    missing, movable = float(s), 0.0
    for e in range(mu.shape[0]):
        missing -= mu[e]
        movable += mu[e] * (1.0 - mu[e])
    if movable > _NOTHING:
        for e in range(mu.shape[0]):
            more = missing * (mu[e] * (1.0 - mu[e]) / movable)
            mu[e] = min(max(mu[e] + more, 0.0), 1.0)


@leaf
def subset_marginals(scores, s, work, mu):
    """Marginals of the distribution proportional to ``exp(sum of the scores of a subset)``.

    Returns the logarithm of its normaliser, the s-th elementary symmetric polynomial of the
    ``exp(scores)``: at every element, sums over the subsets of the elements before it and of those
    after it are combined. ``work`` has ``(v + 1) (s + 1) + 2 (s + 1)`` numbers.

    The marginals are feasible up to the rounding of one addition each, however large the scores
    are: then ``value - scores @ mu`` is their entropy up to terms of second order.
    """
    v = scores.shape[0]
    width = s + 1
    first = work[: (v + 1) * width].reshape(v + 1, width)
    rest = work[(v + 1) * width :]
    last, after = rest[:width], rest[width : 2 * width]
    lost, limit = _shifted(scores, s, mu)
    for k in range(width):
        first[0, k] = 0.0 if k == 0 else -np.inf
        last[k] = 0.0 if k == 0 else -np.inf
    for e in range(v):
        first[e + 1, 0] = 0.0
        for k in range(1, width):
            first[e + 1, k] = _log_add(first[e, k], first[e, k - 1] + mu[e])
    value = first[v, s]
    for e in range(v - 1, -1, -1):
        score, share = mu[e], 0.0
        for k in range(s):
            share += np.exp(first[e, k] + last[s - 1 - k] + score - value)
        mu[e] = 1.0 if score >= limit else min(share, 1.0)
        after[0] = 0.0
        for k in range(1, width):
            after[k] = _log_add(last[k], last[k - 1] + score)
        for k in range(width):
            last[k] = after[k]
    _fill_up(s, mu)
    return value + lost


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
