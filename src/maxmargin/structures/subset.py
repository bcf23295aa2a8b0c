"""Subsets: ``y`` is a choice of exactly s out of v elements; both may differ by example.

``phi(y)`` is the indicator of the chosen elements, ``Phi(x, y) = sum_{e in y} x_e``: the elements
of all examples share their weights. The marginal polytope is the hypersimplex
``{ mu : 0 <= mu <= 1, sum mu = s }``. The loss is the share of true elements that are missed,
``1 - <phi(y), phi(z)> / s``.

Max-min has a closed form. With ``H(mu) = 1 - (sum of the s largest mu) / s``,

    max_mu min_nu 1 - nu @ mu / s + v @ mu  =  s t + sum_e (v_e - t)_+,
    where t solves  sum_e min((v_e - t)_+, 1/s) = 1.

The predictions are ``nu = s min((v - t)_+, 1/s)``, a projection onto the hypersimplex; mu is 1
where nu is 1, 0 where nu is 0, and the same number on all elements between. The maximum with a
quadratic term, ``H(mu) + v @ mu - h/2 |mu - mu_0|^2``, is two such projections: nu from
``b = v + h mu_0`` as above, then ``mu`` from ``(b - nu/s) / h``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.protocol import clear_rows
from .._kernels.subsets import (
    best_subset,
    capped_threshold,
    kth_largest,
    project_hypersimplex,
    subset_marginals,
    sum_of_largest,
)
from .._kernels.vector import add_scaled, copy, dot
from .traits import Traits

# Number of bisection steps of a line search: the error is at most 1/2 to this power.
_HALVINGS = 40
_NO_CURVATURE = 1e-100
# Largest number of proximal steps per visit of a block.
_BLOCK_STEPS = 6


class Subset(NamedTuple):
    """Packed subsets: elements of example i are rows ``parts_indptr[i]`` to ``parts_indptr[i+1]``,
    those chosen are ``truth[indptr[i] : indptr[i+1]]``, increasing and counted from its first."""

    truth: np.ndarray
    indptr: np.ndarray
    parts_indptr: np.ndarray
    most_elements: int
    most_chosen: int

    @staticmethod
    def traits() -> Traits:
        """Properties that solvers need."""
        return Traits(
            no_oracle={
                "crf": "the entropy of given marginals, which subsets do not have in closed form "
                "(solver='auto' or 'lbfgs')"
            }
        )

    def n_weights(self, n_inputs: int) -> int:
        """Length of the weight vector: one weight per feature of an element."""
        return n_inputs

    def output_space(self) -> bytes:
        """Data that determine the set of outputs."""
        return self.indptr.tobytes() + self.parts_indptr.tobytes()


# --- sizes ----------------------------------------------------------------------------------


@implements(generic.largest_block, Subset)
def _largest_block(structure):
    return structure.most_elements


@implements(generic.most_labels, Subset)
def _most_labels(structure):
    return structure.most_chosen


@implements(generic.most_parts, Subset)
def _most_parts(structure):
    return structure.most_chosen


@implements(generic.work_size, Subset)
def _work_size(structure, rows):
    v, s = structure.most_elements, structure.most_chosen
    return rows.n_inputs + max(6 * v, (v + 3) * (s + 1)) + v


@leaf
def _chosen(structure, i):
    return structure.indptr[i + 1] - structure.indptr[i]


# --- scores and weights ---------------------------------------------------------------------


# --- outputs --------------------------------------------------------------------------------


@implements(generic.decode, Subset)
def _decode(structure, i, scores, work, labels):
    return best_subset(scores, work, labels)


@implements(generic.fix_part, Subset)
def _fix_part(structure, i, part, scores):
    scores[part] = np.inf


@implements(generic.output_parts, Subset)
def _output_parts(structure, i, labels, parts):
    for k in range(labels.shape[0]):
        parts[k] = labels[k]
    return labels.shape[0]


@implements(generic.embed, Subset)
def _embed(structure, i, labels, out):
    out[:] = 0.0
    for k in range(labels.shape[0]):
        out[labels[k]] = 1.0


@implements(generic.add_loss, Subset)
def _add_loss(structure, i, out):
    # Every output has s elements: a true one lowers the loss, and any other raises it as much.
    cost = 1.0 / _chosen(structure, i)
    for e in range(out.shape[0]):
        out[e] += cost
    for place in range(structure.indptr[i], structure.indptr[i + 1]):
        out[structure.truth[place]] -= cost


@implements(generic.expected_loss, Subset)
def _expected_loss(structure, i, mu):
    kept = 0.0
    for place in range(structure.indptr[i], structure.indptr[i + 1]):
        kept += mu[structure.truth[place]]
    return 1.0 - kept / _chosen(structure, i)


# --- max-min --------------------------------------------------------------------------------


@implements(generic.max_min, Subset)
def _max_min(structure, i, scores, work, mu):
    s = _chosen(structure, i)
    cap = 1.0 / s
    t = capped_threshold(scores, cap, 1.0)
    value = s * t
    full, inside = 0, 0
    for e in range(scores.shape[0]):
        above = scores[e] - t
        value += max(above, 0.0)
        mu[e] = 0.0
        if above >= cap:
            mu[e] = 1.0
            full += 1
        elif above > 0.0:
            inside += 1
    if full != s:
        _share(scores, t, cap, s, full, inside, work, mu)
    return value, dot(scores, mu) + 1.0 - sum_of_largest(mu, s, work) / s


@leaf
def _share(scores, t, cap, s, full, inside, work, mu):
    """Divide the remaining mass among the elements between the bounds; if rounding has left none of
    them (or too many above), take the best subset."""
    if full > s or full + inside < s:
        v = scores.shape[0]
        copied = work[:v]
        copy(copied, scores)
        least = kth_largest(copied, s)
        left = s
        for e in range(v):
            mu[e] = 1.0 if scores[e] > least else 0.0
            left -= int(mu[e])
        for e in range(v):
            if scores[e] == least and left > 0:
                mu[e] = 1.0
                left -= 1
        return
    level = (s - full) / inside
    for e in range(scores.shape[0]):
        if 0.0 < scores[e] - t < cap:
            mu[e] = level


@implements(generic.loss_floor, Subset)
def _loss_floor(structure, i, mu, work):
    s = _chosen(structure, i)
    return 1.0 - sum_of_largest(mu, s, work) / s


@leaf
def _floor_slope(mu, direction, g, s, work):
    """Derivative of the loss floor along a line, where no two elements change places."""
    v = mu.shape[0]
    copied = work[:v]
    for e in range(v):
        copied[e] = mu[e] + g * direction[e]
    least = kth_largest(copied, s)
    total, equal, tied, above = 0.0, 0, 0.0, 0
    for e in range(v):
        here = mu[e] + g * direction[e]
        if here > least:
            total += direction[e]
            above += 1
        elif here == least:
            equal += 1
            tied += direction[e]
    return -(total + (s - above) * tied / max(equal, 1)) / s


@implements(generic.loss_floor_step, Subset)
def _loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    # The derivative decreases, and is known between ties: this is enough for bisection.
    s = _chosen(structure, i)
    if slope + _floor_slope(mu, direction, 1.0, s, work) >= curvature:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if slope + _floor_slope(mu, direction, middle, s, work) > middle * curvature:
            low = middle
        else:
            high = middle
    return low


@leaf
def _proximal(s, scores, mu, h, work, out):
    """Maximise ``H(m) + scores @ m - h/2 |m - mu|^2`` over the hypersimplex."""
    v = mu.shape[0]
    centre = work[:v]
    for e in range(v):
        centre[e] = scores[e] + h * mu[e]
    cap = 1.0 / s
    t = capped_threshold(centre, cap, 1.0)
    for e in range(v):
        centre[e] = (centre[e] - min(max(centre[e] - t, 0.0), cap)) / h
    project_hypersimplex(centre, s, out)


@implements(generic.max_min_prox, Subset)
def _max_min_prox(structure, rows, i, scores, mu, scale, work, out):
    # Elements share their weights, so the curvature differs between directions: a few proximal
    # steps with a curvature that adapts, each along a line to its exact best point.
    v = mu.shape[0]
    s = _chosen(structure, i)
    moved, rest = work[: rows.n_inputs], work[rows.n_inputs :]
    now, direction, change, rest = rest[:v], rest[v : 2 * v], rest[2 * v : 3 * v], rest[3 * v :]
    first, last = structure.parts_indptr[i], structure.parts_indptr[i + 1]
    mean = 0.0
    for row in range(first, last):
        mean += rows.squares[row]
    h = scale * mean / v
    if h <= _NO_CURVATURE:  # a division by it could overflow; a line search is equally good
        return False
    copy(now, scores)
    copy(out, mu)
    for _ in range(_BLOCK_STEPS):
        _proximal(s, now, out, h, rest, direction)
        add_scaled(direction, out, -1.0)
        slope = dot(direction, now)
        clear_rows(rows, moved.reshape(rows.n_inputs, 1), first, last)
        generic.add_block(structure, rows, moved, i, direction, 1.0)
        curvature = scale * dot(moved, moved)
        g = generic.loss_floor_step(structure, i, out, direction, slope, curvature, rest)
        if g <= 0.0:
            break
        add_scaled(out, direction, g)
        generic.score_block(structure, rows, moved, i, change)
        add_scaled(now, change, -scale * g)
        h *= 0.5 if g >= 1.0 else 2.0 if g < 0.5 else 1.0
    return True


# --- crf ------------------------------------------------------------------------------------


@implements(generic.gibbs, Subset)
def _gibbs(structure, i, scores, work, mu):
    return subset_marginals(scores, _chosen(structure, i), work, mu)
