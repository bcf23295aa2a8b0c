"""Any subset of L labels: the output space is ``{0, 1}^L``, its marginal polytope a cube.

The parts of an example are the two states of every label: first the L absences, then the L
presences. ``Phi(x, y) = sum_l e_{l, y_l} (outer) x``. The marginals of the two states sum to 1, so
the weights of the two are opposite, ``w_{l,1} = -w_{l,0}``, and one of them is enough: stored is
``sqrt(2) w_{l,1}``, which has the norm of the two together.

The loss is a sum over labels: ``costs[y_l, l]`` where label l is predicted wrongly; the mean
Hamming loss has costs 1/L. Loss, scores and polytope decompose over labels, so every oracle and
every exact block has one formula per label.

An entry of the truth may be HIDDEN: the label of that example was not observed. Its loss is 0 for
any weights, because the best hidden state is also the best answer. Such a label has scores and
marginals 0 and does not contribute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.exponential import entropy_line, entropy_of_row, exp_row
from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row, prefetch_rows, score_rows
from .._kernels.vector import dot, prefetch
from .traits import Traits

_HALF = np.sqrt(0.5)
HIDDEN = 2


class Multilabel(NamedTuple):
    """Packed outputs of a multilabel problem: L zeros and ones per example, concatenated."""

    truth: np.ndarray  # 0, 1 or HIDDEN
    n_labels: int
    costs: np.ndarray  # (2, L): of an error on a label that is absent (row 0) or present (row 1)

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(exact_blocks=True, order="active")

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector."""
        return n_inputs * self.n_labels

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        hidden = self.truth == HIDDEN
        where = hidden.tobytes() if hidden.any() else b""
        return repr((len(self.truth), self.n_labels)).encode() + where


def label_weights(weights: np.ndarray, n_labels: int) -> np.ndarray:
    """Weights of presence minus those of absence, inputs by labels."""
    return weights.reshape(-1, n_labels) * np.sqrt(2.0)


# --- sizes and features ---------------------------------------------------------------------


@implements(generic.n_blocks, Multilabel)
def _n_blocks(structure):
    return structure.truth.shape[0] // structure.n_labels


@implements(generic.block_size, Multilabel)
def _block_size(structure, i):
    return 2 * structure.n_labels


@implements(generic.largest_block, Multilabel)
def _largest_block(structure):
    return 2 * structure.n_labels


@implements(generic.most_labels, Multilabel)
def _most_labels(structure):
    return structure.n_labels


@implements(generic.label_range, Multilabel)
def _label_range(structure, i):
    return i * structure.n_labels, (i + 1) * structure.n_labels


@implements(generic.work_size, Multilabel)
def _work_size(structure, rows):
    return 5 * structure.n_labels  # two changes and breakpoints; or loss-augmented scores


@implements(generic.prefetch_block, Multilabel)
def _prefetch_block(structure, rows, i):
    prefetch_rows(rows, i, i + 1)
    prefetch(structure.truth, i * structure.n_labels, (i + 1) * structure.n_labels)


@leaf
def _hidden(structure, i, k):
    return structure.truth[i * structure.n_labels + k] == HIDDEN


@implements(generic.score_block, Multilabel)
def _score_block(structure, rows, weights, i, scores):
    n = structure.n_labels
    present = scores[n:]
    score_rows(rows, weights.reshape(rows.n_inputs, n), i, i + 1, present.reshape(1, n))
    for k in range(n):
        present[k] = 0.0 if _hidden(structure, i, k) else present[k] * _HALF
        scores[k] = -present[k]


@implements(generic.add_block, Multilabel)
def _add_block(structure, rows, weights, i, direction, scale):
    # A direction is a difference of marginals: its first half is minus the second.
    n = structure.n_labels
    add_row(rows, weights.reshape(rows.n_inputs, n), i, direction[n:], 2.0 * _HALF * scale)


@implements(generic.squared_norm, Multilabel)
def _squared_norm(structure, rows, i, direction, work):
    present = direction[structure.n_labels :]
    return 2.0 * rows.squares[i] * dot(present, present)


# --- outputs --------------------------------------------------------------------------------


@implements(generic.decode, Multilabel)
def _decode(structure, i, scores, work, labels):
    n = structure.n_labels
    total = 0.0
    for k in range(n):
        labels[k] = 1 if scores[n + k] > scores[k] else 0
        if _hidden(structure, i, k):
            labels[k] = HIDDEN
        total += max(scores[k], scores[n + k])
    return total


@implements(generic.most_parts, Multilabel)
def _most_parts(structure):
    return structure.n_labels


@implements(generic.output_parts, Multilabel)
def _output_parts(structure, i, labels, parts):
    n = structure.n_labels
    count = 0
    for k in range(n):
        if labels[k] != HIDDEN:
            parts[count] = labels[k] * n + k
            count += 1
    return count


@implements(generic.embed, Multilabel)
def _embed(structure, i, labels, out):
    n = structure.n_labels
    for k in range(n):
        out[k] = 1.0 if labels[k] == 0 else 0.0
        out[n + k] = 1.0 if labels[k] == 1 else 0.0


@implements(generic.embed_truth, Multilabel)
def _embed_truth(structure, i, out):
    n = structure.n_labels
    generic.embed(structure, i, structure.truth[i * n : (i + 1) * n], out)


@implements(generic.add_loss, Multilabel)
def _add_loss(structure, i, out):
    n = structure.n_labels
    for k in range(n):
        true = structure.truth[i * n + k]
        if true != HIDDEN:
            out[(1 - true) * n + k] += structure.costs[true, k]


@implements(generic.expected_loss, Multilabel)
def _expected_loss(structure, i, mu):
    n = structure.n_labels
    total = 0.0
    for k in range(n):
        true = structure.truth[i * n + k]
        if true != HIDDEN:
            total += structure.costs[true, k] * mu[(1 - true) * n + k]
    return total


@implements(generic.linear_prox, Multilabel)
def _linear_prox(structure, rows, i, scores, mu, scale, work, out):
    # For each label, max over p of p * gain - h (p - p0)^2, where |(1-p, p)|^2 cancels the 1/2.
    n = structure.n_labels
    curvature = 2.0 * scale * rows.squares[i]
    if curvature <= 0.0:
        return -np.inf
    inverse = 1.0 / curvature
    total = 0.0
    for k in range(n):
        true = structure.truth[i * n + k]
        if true == HIDDEN:
            out[k], out[n + k] = 0.0, 0.0
            continue
        cost = structure.costs[true, k]
        gain = scores[n + k] - scores[k] + (cost if true == 0 else -cost)
        total += gain * mu[k] if gain > 0.0 else -gain * mu[n + k]
        p = min(max(mu[n + k] + gain * inverse, 0.0), 1.0)
        out[k] = 1.0 - p
        out[n + k] = p
    return total


# --- max-min --------------------------------------------------------------------------------


@leaf
def _balance(absent, present):
    """The probability of presence at which both predictions cost the same."""
    both = absent + present
    return absent / both if both > 0.0 else 0.5


@implements(generic.max_min, Multilabel)
def _max_min(structure, i, scores, work, mu):
    # Concave and piecewise linear in p with one bend: the best of absent, present and the bend.
    n = structure.n_labels
    total = 0.0
    for k in range(n):
        if _hidden(structure, i, k):
            mu[k], mu[n + k] = 0.0, 0.0
            continue
        absent, present = structure.costs[0, k], structure.costs[1, k]
        p = _balance(absent, present)
        value = scores[k] * (1.0 - p) + scores[n + k] * p + min(absent * (1.0 - p), present * p)
        if scores[k] > value:
            p, value = 0.0, scores[k]
        if scores[n + k] > value:
            p, value = 1.0, scores[n + k]
        mu[k] = 1.0 - p
        mu[n + k] = p
        total += value
    return total, total


@implements(generic.smooth_max_min, Multilabel)
def _smooth_max_min(structure, strength, i, scores, work, mu):
    # Of each label: the share of presence in the prediction that makes both states cost the same.
    n = structure.n_labels
    lifted = work[: 2 * n]
    for k in range(n):
        cost = structure.costs[0, k]  # presences cost the same
        share = (scores[n + k] - scores[k] + cost) / (2.0 * cost)
        share = min(max(share, 0.0), 1.0)
        lifted[k] = (scores[k] + share * cost) / strength
        lifted[n + k] = (scores[n + k] + (1.0 - share) * cost) / strength
    value = strength * generic.gibbs(structure, i, lifted, work[2 * n :], mu)
    return value, value


@implements(generic.strong_concavity, Multilabel)
def _strong_concavity(structure):
    return 1.0 / structure.n_labels  # of each label alone; the sum of their squares is no less


@implements(generic.loss_floor, Multilabel)
def _loss_floor(structure, i, mu, work):
    n = structure.n_labels
    total = 0.0
    for k in range(n):
        total += min(structure.costs[0, k] * mu[k], structure.costs[1, k] * mu[n + k])
    return total


@implements(generic.max_min_prox, Multilabel)
def _max_min_prox(structure, rows, i, scores, mu, scale, work, out):
    n = structure.n_labels
    curvature = 2.0 * scale * rows.squares[i]
    for k in range(n):  # below this curvature the best response is as good, and steps overflow
        if curvature <= 1e-9 * max(structure.costs[0, k], structure.costs[1, k]):
            return False
    inverse = 1.0 / curvature
    for k in range(n):
        if _hidden(structure, i, k):
            out[k], out[n + k] = 0.0, 0.0
            continue
        absent, present = structure.costs[0, k], structure.costs[1, k]
        bend = _balance(absent, present)
        gain = scores[n + k] - scores[k]
        # The slope of the loss floor is `present` below the bend and `-absent` above it.
        below = mu[n + k] + (gain + present) * inverse
        above = mu[n + k] + (gain - absent) * inverse
        p = below if below < bend else max(above, bend)
        p = min(max(p, 0.0), 1.0)
        out[k] = 1.0 - p
        out[n + k] = p
    return True


@leaf
def _sort(values, count):
    """Sort the first numbers in place (Shell's method)."""
    step = count // 2
    while step > 0:
        for place in range(step, count):
            value = values[place]
            at = place
            while at >= step and values[at - step] > value:
                values[at] = values[at - step]
                at -= step
            values[at] = value
        step //= 2


@leaf
def _slope_between(structure, mu, direction, g):
    """Derivative of the loss floor of ``mu + g direction``, between two bends."""
    n = structure.n_labels
    total = 0.0
    for k in range(n):
        absent, present = structure.costs[0, k], structure.costs[1, k]
        if absent * (mu[k] + g * direction[k]) < present * (mu[n + k] + g * direction[n + k]):
            total += absent * direction[k]
        else:
            total += present * direction[n + k]
    return total


@implements(generic.loss_floor_step, Multilabel, allocates=True)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    """The derivative decreases, with a jump at the bend of each label: search over the bends."""
    n = structure.n_labels
    bends = 0
    for k in range(n):
        absent, present = structure.costs[0, k], structure.costs[1, k]
        fall = absent * direction[k] - present * direction[n + k]
        meet = (present * mu[n + k] - absent * mu[k]) / fall if fall != 0.0 else -1.0
        if 0.0 < meet < 1.0:
            work[bends] = meet
            bends += 1
    _sort(work, bends)
    first, last = 0, bends  # intervals, each ending at a bend or at 1
    while first < last:
        middle = (first + last) // 2
        start = work[middle - 1] if middle > 0 else 0.0
        ascent = slope + _slope_between(structure, mu, direction, 0.5 * (start + work[middle]))
        if ascent <= curvature * work[middle]:
            last = middle
        else:
            first = middle + 1
    start = work[first - 1] if first > 0 else 0.0
    end = work[first] if first < bends else 1.0
    ascent = slope + _slope_between(structure, mu, direction, 0.5 * (start + end))
    if ascent >= curvature * end:
        return end
    return max(ascent / curvature, start) if curvature > 0.0 else start


# --- crf ------------------------------------------------------------------------------------


@implements(generic.gibbs, Multilabel)
def _gibbs(structure, i, scores, work, mu):
    n = structure.n_labels
    likelier, less = work[:n], work[n : 2 * n]
    for k in range(n):
        likelier[k] = -abs(scores[n + k] - scores[k])
    exp_row(likelier, 0.0, less)
    total = 0.0
    for k in range(n):
        if _hidden(structure, i, k):
            mu[k], mu[n + k] = 0.0, 0.0
            continue
        is_present = scores[n + k] > scores[k]
        share = 1.0 / (1.0 + less[k])
        mu[k] = less[k] * share if is_present else share
        mu[n + k] = share if is_present else less[k] * share
        total += max(scores[k], scores[n + k]) + np.log1p(less[k])
    return total


@implements(generic.entropy, Multilabel)
def _entropy(structure, i, mu, work):
    return entropy_of_row(mu)  # the labels are independent: a sum over all parts


@implements(generic.entropy_slope, Multilabel)
def _entropy_slope(structure, i, mu, direction, gamma, work):
    slope, curvature = entropy_line(mu, direction, gamma)
    return -slope, -curvature
