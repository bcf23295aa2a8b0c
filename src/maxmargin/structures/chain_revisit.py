"""Mixtures of the stored label sequences (atoms) of an example, improved without a new sequence.

Atoms of an example usually differ in few positions. With features relative to those of the first
one, ``psi_a = Phi(y_a) - Phi(y_0)``, their scores need only the rows of these positions, and their
inner products only the products of these rows: moving mass between them then costs a few
operations, and the weights are updated once.
"""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_label_losses, add_row, prefetch_weights, score_rows
from .._kernels.vector import add_scaled
from .chain import Chain

# Moves end when the best of them gains less than this share of the first, or after this number.
_ENOUGH = 0.3
_MOST_MOVES = 20


@leaf
def _list_differences(outputs, places, counts):
    """Positions in which each output differs from the first one; ``counts[0]`` of them in any."""
    total = 0
    counts[:] = 0
    for t in range(outputs.shape[1]):
        found = False
        for a in range(1, outputs.shape[0]):
            if outputs[a, t] != outputs[0, t]:
                places[a, counts[a]] = t
                counts[a] += 1
                found = True
        if found:
            places[0, total] = t
            total += 1
    counts[0] = total


@leaf
def _product(structure, i, s, t):
    """Inner product of the features of two positions of a sequence, ends included."""
    length = structure.indptr[i + 1] - structure.indptr[i]
    low, high = min(s, t), max(s, t)
    product = structure.products[structure.products_indptr[i] + high * (high + 1) // 2 + low]
    if structure.ends and s == t:
        product += np.float64(s == 0) + np.float64(s == length - 1)
    return product


@leaf
def _label_product(structure, i, outputs, places, counts, a, b):
    """``psi_a @ psi_b`` of the labels at positions."""
    total = 0.0
    for p in range(counts[a]):
        s = places[a, p]
        mine, first = outputs[a, s], outputs[0, s]
        for q in range(counts[b]):
            t = places[b, q]
            other, base = outputs[b, t], outputs[0, t]
            times = np.float64(mine == other) - np.float64(mine == base)
            times += np.float64(first == base) - np.float64(first == other)
            if times != 0.0:
                total += times * _product(structure, i, s, t)
    return total


@leaf
def _add_transitions(output, first, places, count, n, amount, table):
    """``table += amount * (transitions of an output - those of the first one)``."""
    last = output.shape[0] - 1
    done = -1
    for p in range(count):
        t = places[p]
        for s in range(max(t - 1, done + 1), min(t, last - 1) + 1):
            table[output[s] * n + output[s + 1]] += amount
            table[first[s] * n + first[s + 1]] -= amount
            done = s


@leaf
def _sum_transitions(output, first, places, count, n, table):
    """Sum of a table over the transitions of an output, minus that of the first one."""
    last = output.shape[0] - 1
    done = -1
    total = 0.0
    for p in range(count):
        t = places[p]
        for s in range(max(t - 1, done + 1), min(t, last - 1) + 1):
            total += table[output[s] * n + output[s + 1]] - table[first[s] * n + first[s + 1]]
            done = s
    return total


@leaf
def _fill_gram(structure, i, outputs, places, counts, table, gram):
    """``gram[a, b] = psi_a @ psi_b``; ``table`` is zero, before and after."""
    n = structure.n_labels
    for a in range(outputs.shape[0]):
        gram[0, a] = 0.0
        gram[a, 0] = 0.0
    for a in range(1, outputs.shape[0]):
        _add_transitions(outputs[a], outputs[0], places[a], counts[a], n, 1.0, table)
        for b in range(a, outputs.shape[0]):
            total = _sum_transitions(outputs[b], outputs[0], places[b], counts[b], n, table)
            total += _label_product(structure, i, outputs, places, counts, a, b)
            gram[a, b] = total
            gram[b, a] = total
        _add_transitions(outputs[a], outputs[0], places[a], counts[a], n, -1.0, table)


@leaf
def _score(structure, rows, weights, i, outputs, places, counts, gains, scores):
    """Loss-augmented scores of outputs, minus that of the first one."""
    n = structure.n_labels
    first = structure.indptr[i]
    split = rows.n_inputs * n
    ends = split + n * n
    matrix = weights[:split].reshape(rows.n_inputs, n)
    for a in range(outputs.shape[0]):
        scores[a] = 0.0
    for p in range(counts[0]):
        t = places[0, p]
        score_rows(rows, matrix, first + t, first + t + 1, gains)
        if structure.ends and t == 0:
            add_scaled(gains[0], weights[ends : ends + n], 1.0)
        if structure.ends and t == outputs.shape[1] - 1:
            add_scaled(gains[0], weights[ends + n :], 1.0)
        scale = structure.loss_scale[first + t]
        add_label_losses(structure.loss, structure.truth[first + t], scale, gains[0])
        for a in range(1, outputs.shape[0]):
            scores[a] += gains[0, outputs[a, t]] - gains[0, outputs[0, t]]
    for a in range(1, outputs.shape[0]):
        scores[a] += _sum_transitions(
            outputs[a], outputs[0], places[a], counts[a], n, weights[split:ends]
        )


@leaf
def _move(shares, scores, gram, scale):
    """Move mass from the worst output to the best, several times."""
    count = shares.shape[0]
    first_gain = 0.0
    for inner in range(_MOST_MOVES):
        best, worst = 0, -1
        for a in range(count):
            if scores[a] > scores[best]:
                best = a
            if shares[a] > 0.0 and (worst < 0 or scores[a] < scores[worst]):
                worst = a
        gain = scores[best] - scores[worst]
        if inner == 0:
            first_gain = gain
        if gain <= _ENOUGH * first_gain and inner > 0 or gain <= 0.0:
            break
        curvature = scale * (gram[best, best] - 2.0 * gram[best, worst] + gram[worst, worst])
        emptied = gain >= shares[worst] * curvature
        gamma = shares[worst] if emptied else gain / curvature
        shares[best] += gamma
        shares[worst] = 0.0 if emptied else shares[worst] - gamma
        for a in range(count):
            scores[a] -= gamma * scale * (gram[best, a] - gram[worst, a])


@implements(generic.can_revisit, Chain)
def _can_revisit(structure, i):
    return structure.products_indptr[i + 1] > structure.products_indptr[i]


@implements(generic.revisit_room, Chain)
def _revisit_room(structure, rows, most):
    return most, generic.most_labels(structure), most


@implements(generic.prepare_revisit, Chain)
def _prepare_revisit(structure, rows, i, outputs, scratch):
    if not generic.can_revisit(structure, i):
        return
    places, counts, gram, _, table = scratch
    counts, n = counts[: outputs.shape[0]], structure.n_labels
    _list_differences(outputs, places, counts)
    _fill_gram(structure, i, outputs, places, counts, table[: n * n], gram)


@implements(generic.prefetch_revisit, Chain)
def _prefetch_revisit(structure, rows, weights, i, places, counts):
    if not generic.can_revisit(structure, i):
        return
    n = structure.n_labels
    matrix = weights[: rows.n_inputs * n].reshape(rows.n_inputs, n)
    for p in range(counts[0]):
        prefetch_weights(rows, matrix, structure.indptr[i] + places[0, p])


@implements(generic.revisit, Chain)
def _revisit(structure, rows, weights, i, scale, outputs, shares, scratch):
    if not generic.can_revisit(structure, i):
        return
    n = structure.n_labels
    split = rows.n_inputs * n
    places, counts, gram, values, table = scratch
    count = outputs.shape[0]
    scores, before = values[0, :count], values[1, :count]
    counts = counts[:count]
    gains = table[n * n : n * n + n].reshape(1, n)
    _score(structure, rows, weights, i, outputs, places, counts, gains, scores)
    for a in range(count):
        before[a] = shares[a]
    _move(shares, scores, gram, scale)
    changed = False
    for a in range(count):
        before[a] = scale * (before[a] - shares[a])
        changed = changed or before[a] != 0.0
    if not changed:
        return
    matrix = weights[:split].reshape(rows.n_inputs, n)
    first, last = structure.indptr[i], outputs.shape[1] - 1
    ends = split + n * n
    for p in range(counts[0]):
        t = places[0, p]
        gains[0] = 0.0
        for a in range(1, count):
            gains[0, outputs[a, t]] += before[a]
            gains[0, outputs[0, t]] -= before[a]
        add_row(rows, matrix, first + t, gains[0], 1.0)
        if structure.ends and t == 0:
            add_scaled(weights[ends : ends + n], gains[0], 1.0)
        if structure.ends and t == last:
            add_scaled(weights[ends + n :], gains[0], 1.0)
    for a in range(1, count):
        if before[a] != 0.0:
            _add_transitions(
                outputs[a], outputs[0], places[a], counts[a], n, before[a], weights[split:ends]
            )
