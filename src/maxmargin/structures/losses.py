"""Losses of one label: 0-1, absolute, or any matrix; times a cost of the true class.

``loss(j, z)`` is the cost of predicting class j when class z is true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.exponential import exp_row, extremes
from .._kernels.game import game_work, solve_game
from .._kernels.game_block import game_block
from .._kernels.jit import implements, leaf
from .._kernels.maxima import largest
from .._kernels.protocol import (
    add_label_losses,
    add_mixed_losses,
    descend_losses,
    expected_label_loss,
    expected_losses,
    label_loss,
    label_work,
    lowest_loss,
    max_cost,
    max_min_label,
    max_min_label_prox,
    restricted_label,
    smooth_max_min_label,
)
from .._kernels.simplex import capped_projection, clipped_difference, median_split, threshold
from .._kernels.vector import add_scaled, dot


class ZeroOneLoss(NamedTuple):
    """``costs[z] * 1[j != z]``."""

    costs: np.ndarray
    uniform: bool

    def dense(self, n_classes: int) -> np.ndarray:
        """The loss as a matrix, rows predicted and columns true."""
        return (1.0 - np.eye(n_classes)) * self.costs


class AbsoluteLoss(NamedTuple):
    """``costs[z] * |j - z|``."""

    costs: np.ndarray
    uniform: bool

    def dense(self, n_classes: int) -> np.ndarray:
        """The loss as a matrix."""
        labels = np.arange(n_classes, dtype=float)
        return np.abs(labels[:, None] - labels) * self.costs


class MatrixLoss(NamedTuple):
    """``matrix[j, z]``, with the costs already inside."""

    matrix: np.ndarray

    def dense(self, n_classes: int) -> np.ndarray:
        """The loss as a matrix."""
        return self.matrix


LabelLoss = ZeroOneLoss | AbsoluteLoss | MatrixLoss


@implements(label_loss, ZeroOneLoss)
def _zero_one(loss, predicted, true):
    return 0.0 if predicted == true else loss.costs[true]


@implements(label_loss, AbsoluteLoss)
def _absolute(loss, predicted, true):
    return abs(predicted - true) * loss.costs[true]


@implements(label_loss, MatrixLoss)
def _matrix(loss, predicted, true):
    return loss.matrix[predicted, true]


@implements(add_label_losses, ZeroOneLoss)
def _add_zero_one(loss, true, scale, out):
    kept = out[true]
    cost = scale * loss.costs[true]
    for k in range(out.shape[0]):
        out[k] += cost
    out[true] = kept


@implements(add_label_losses, (AbsoluteLoss, MatrixLoss))
def _add_any(loss, true, scale, out):
    for k in range(out.shape[0]):
        out[k] += scale * label_loss(loss, k, true)


@implements(max_cost, (ZeroOneLoss, AbsoluteLoss))
def _max_cost(loss):
    largest = 0.0
    for cost in loss.costs:
        largest = max(largest, cost)
    return largest


@implements(max_cost, MatrixLoss)
def _max_cost_matrix(loss):
    largest = 0.0
    for row in range(loss.matrix.shape[0]):
        for cost in loss.matrix[row]:
            largest = max(largest, cost)
    return largest


@implements(expected_label_loss, ZeroOneLoss)
def _expected_true_zero_one(loss, mu, true):
    return loss.costs[true] * (1.0 - mu[true])


@implements(expected_label_loss, (AbsoluteLoss, MatrixLoss))
def _expected_true(loss, mu, true):
    total = 0.0
    for k in range(mu.shape[0]):
        total += mu[k] * label_loss(loss, k, true)
    return total


@implements(expected_losses, ZeroOneLoss)
def _expected_zero_one(loss, mu, out):
    total = 0.0
    for z in range(mu.shape[0]):
        total += loss.costs[z] * mu[z]
    for j in range(mu.shape[0]):
        out[j] = total - loss.costs[j] * mu[j]


@implements(expected_losses, AbsoluteLoss)
def _expected_absolute(loss, mu, out):
    # Moving the prediction up by one adds the mass at or below it and removes the mass above.
    n = mu.shape[0]
    total = 0.0
    start = 0.0
    for z in range(n):
        total += loss.costs[z] * mu[z]
        start += z * loss.costs[z] * mu[z]
    below = 0.0
    out[0] = start
    for j in range(1, n):
        below += loss.costs[j - 1] * mu[j - 1]
        out[j] = out[j - 1] + 2.0 * below - total


@implements(expected_losses, MatrixLoss)
def _expected_matrix(loss, mu, out):
    n = mu.shape[0]
    for j in range(n):
        total = 0.0
        for z in range(n):
            total += loss.matrix[j, z] * mu[z]
        out[j] = total


@implements(label_work, (ZeroOneLoss, AbsoluteLoss))
def _label_work(loss, n):
    return 4 * n


@implements(label_work, MatrixLoss)
def _label_work_matrix(loss, n):
    return game_work(n)


@implements(max_min_label, MatrixLoss)
def _max_min_matrix(loss, scores, work, mu):
    return solve_game(loss.matrix, scores, work, mu)


@implements(lowest_loss, ZeroOneLoss)
def _lowest_zero_one(loss, mu, work):
    total = dot(loss.costs, mu)
    if loss.uniform:
        return total - loss.costs[0] * largest(mu)
    for z in range(mu.shape[0]):
        work[z] = loss.costs[z] * mu[z]
    return total - largest(work[: mu.shape[0]])


@implements(lowest_loss, (AbsoluteLoss, MatrixLoss))
def _lowest(loss, mu, work):
    losses = work[: mu.shape[0]]
    expected_losses(loss, mu, losses)
    lowest = losses[0]
    for j in range(1, mu.shape[0]):
        lowest = min(lowest, losses[j])
    return lowest


@implements(descend_losses, ZeroOneLoss)
def _descend_zero_one(loss, mu, step, work, out):
    if loss.uniform:
        add_scaled(out, mu, step * loss.costs[0])
    else:
        for j in range(mu.shape[0]):
            out[j] += step * loss.costs[j] * mu[j]


@implements(descend_losses, (AbsoluteLoss, MatrixLoss))
def _descend(loss, mu, step, work, out):
    losses = work[: mu.shape[0]]
    expected_losses(loss, mu, losses)
    add_scaled(out, losses, -step)


@implements(add_mixed_losses, ZeroOneLoss)
def _mixed_zero_one(loss, nu, scale, out):
    add_scaled(out, loss.costs, scale)
    if loss.uniform:
        add_scaled(out, nu, -scale * loss.costs[0])
    else:
        for z in range(nu.shape[0]):
            out[z] -= scale * loss.costs[z] * nu[z]


@implements(add_mixed_losses, (AbsoluteLoss, MatrixLoss))
def _mixed(loss, nu, scale, out):
    for j in range(nu.shape[0]):
        if nu[j] != 0.0:
            for z in range(nu.shape[0]):
                out[z] += scale * nu[j] * label_loss(loss, j, z)


@implements(max_min_label, ZeroOneLoss)
def _max_min_zero_one(loss, scores, work, mu):
    """The answer spreads ``mu_j`` in proportion to ``1 / costs_j`` over the classes whose
    ``u_j = scores_j + costs_j`` exceeds its value t, where ``sum_j (u_j - t)_+ / costs_j = 1``.

    With equal costs s this is ``t = s + max_j (sum of the j best scores - s) / j``. Found by
    dropping classes below t until none is left: linear time, no sorting.
    """
    n = scores.shape[0]
    kept = work[:n]
    for j in range(n):
        kept[j] = j
    size = n
    while True:
        gain, mass = -1.0, 0.0
        for place in range(size):
            j = int(kept[place])
            gain += (scores[j] + loss.costs[j]) / loss.costs[j]
            mass += 1.0 / loss.costs[j]
        value = gain / mass
        left = 0
        for place in range(size):
            j = int(kept[place])
            if scores[j] + loss.costs[j] > value:
                kept[left] = j
                left += 1
        if left == size or left == 0:
            break
        size = left
    mu[:] = 0.0
    for place in range(size):
        j = int(kept[place])
        mu[j] = 1.0 / (loss.costs[j] * mass)
    return value, value


@implements(max_min_label, AbsoluteLoss)
def _max_min_absolute(loss, scores, work, mu):
    """The answer has mass on two classes a <= b, with ``c_a mu_a = c_b mu_b``; its value is
    ``(c_b v_a + c_a v_b + c_a c_b (b - a)) / (c_a + c_b)``, the best over all pairs.

    With equal costs s this is ``(1/2) max_{a<=b} (v_a + v_b + s (b - a))``, where the best a
    maximises ``v_a - s a`` so far: linear time.
    """
    n = scores.shape[0]
    costs = loss.costs
    best = -np.inf
    low = 0
    high = 0
    left = 0
    for b in range(n):
        if loss.uniform:
            if scores[b] - costs[0] * b > scores[left] - costs[0] * left:
                left = b
            first = left
            end = left + 1
        else:
            first = 0
            end = b + 1
        for a in range(first, end):
            both = costs[a] + costs[b]
            share = costs[b] / both if both > 0.0 else 0.5
            value = share * (scores[a] + costs[a] * (b - a)) + (1.0 - share) * scores[b]
            if value > best:
                best = value
                low = a
                high = b
    both = costs[low] + costs[high]
    share = costs[high] / both if both > 0.0 else 0.5
    mu[:] = 0.0
    mu[low] += share
    mu[high] += 1.0 - share
    return best, best


@implements(max_min_label_prox, ZeroOneLoss)
def _prox_zero_one(loss, scores, mu, curvature, work, out):
    n = scores.shape[0]
    values = work[:n]
    if loss.uniform:
        for j in range(n):
            values[j] = scores[j] + curvature * mu[j]
        clipped_difference(values, work[n:], curvature, loss.costs[0], out)
        return True
    for j in range(n):
        values[j] = scores[j] + loss.costs[j] + curvature * mu[j]
    capped_projection(values, loss.costs, curvature, out)
    return True


@implements(max_min_label_prox, AbsoluteLoss)
def _prox_absolute(loss, scores, mu, curvature, work, out):
    median_split(scores, mu, curvature, loss.costs, work, out)
    return True


@implements(max_min_label_prox, MatrixLoss)
def _prox_matrix(loss, scores, mu, curvature, work, out):
    return game_block(loss.matrix, scores, mu, curvature, work, out)


# --- with entropy ---------------------------------------------------------------------------


@leaf
def _log_sum(logits, strength, mu):
    """Write the softmax of ``logits`` and return ``strength`` times the log of the sum."""
    top = extremes(logits)[1]
    total = exp_row(logits, top, mu)
    share = 1.0 / total
    for k in range(mu.shape[0]):
        mu[k] *= share
    return strength * (top + np.log(total))


@leaf
def _log_total(logits, scratch):
    top = extremes(logits)[1]
    return top + np.log(exp_row(logits, top, scratch))


@implements(smooth_max_min_label, ZeroOneLoss)
def _smooth_zero_one(loss, strength, scores, work, mu):
    """The best predictions are proportional to ``(v - t)_+``.

    For equal costs only.
    """
    n = scores.shape[0]
    logits = work[:n]
    t = threshold(scores, work[n:], loss.costs[0])
    for k in range(n):
        logits[k] = min(scores[k], t) / strength
    return loss.costs[0] + _log_sum(logits, strength, mu)


@implements(smooth_max_min_label, AbsoluteLoss)
def _smooth_absolute(loss, strength, scores, work, mu):
    """The best prediction is the median m of ``exp((v + |. - m|) / s)``. If that has more than half
    of its mass below m, and that of m - 1 less, then both are medians: their shares in the
    prediction are such that both halves have the same mass.

    For equal costs only.
    """
    n = scores.shape[0]
    logits = work[:n]
    cost = loss.costs[0]
    value = 0.0
    for m in range(n):
        for k in range(n):
            logits[k] = (scores[k] + cost * abs(k - m)) / strength
        value = _log_sum(logits, strength, mu)
        below, above = 0.0, 0.0
        for k in range(n):
            if k < m:
                below += mu[k]
            else:
                above += mu[k]
        if below > above:
            # from the logits: one of both sums may be below the smallest number
            shift = 0.5 * (_log_total(logits[:m], mu[:m]) - _log_total(logits[m:], mu[m:]))
            for k in range(n):
                logits[k] += -shift if k < m else shift
            return _log_sum(logits, strength, mu)
        if below + mu[m] >= above - mu[m]:
            return value
    return value


# --- restricted to distributions under which the truth is a best prediction --------------------


@implements(restricted_label, ZeroOneLoss)
def _restricted_zero_one(loss, true, scores, work, mu):
    """Uniform on the truth and the classes of the best other scores.

    For equal costs only.
    """
    n = scores.shape[0]
    left = work[:n]
    for k in range(n):
        left[k] = scores[k]
        mu[k] = 0.0
    left[true] = -np.inf
    total, count = scores[true], 1
    mu[true] = 1.0
    while count < n:
        top = 0
        for k in range(1, n):
            if left[k] > left[top]:
                top = k
        # One more class changes the mean by its own part: worth it if that is above the mean.
        if scores[top] + loss.costs[0] <= (total + (count - 1) * loss.costs[0]) / count:
            break
        total += scores[top]
        left[top] = -np.inf
        mu[top] = 1.0
        count += 1
    for k in range(n):
        mu[k] /= count
    return (total + (count - 1) * loss.costs[0]) / count


@implements(restricted_label, AbsoluteLoss)
def _restricted_absolute(loss, true, scores, work, mu):
    """Half of the mass on a class up to the truth, half on one from it on: it is a median.

    For equal costs only.
    """
    cost = loss.costs[0]
    low, high = true, true
    for k in range(scores.shape[0]):
        mu[k] = 0.0
        if k < true and scores[k] - cost * k > scores[low] - cost * low:
            low = k
        if k > true and scores[k] + cost * k > scores[high] + cost * high:
            high = k
    mu[low] += 0.5
    mu[high] += 0.5
    return 0.5 * (scores[low] + scores[high] + cost * (high - low))
