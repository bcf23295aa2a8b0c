"""Permutations: the terms of an example in the Hessian with respect to the weights."""

from __future__ import annotations

from .._kernels import protocol as generic
from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row
from .._kernels.vector import add_scaled
from .permutation import Matching, Ranking


@leaf
def _take_row(rows, row, one, out):
    """Write the features of a row."""
    out[:] = 0.0
    one[0] = 1.0
    add_row(rows, out.reshape(out.shape[0], 1), row, one, 1.0)


@implements(generic.add_curvature, Ranking)
def _add_curvature_ranking(structure, rows, i, response, scale, work, hessian):
    d, size = rows.n_inputs, response.shape[0]
    x, line = work[:d], work[d : d + d * size]
    _take_row(rows, i, line[:1], x)
    for k in range(size):
        for b in range(d):
            part = line[b * size : (b + 1) * size]
            part[:] = 0.0
            add_scaled(part, response[k], x[b])
        for a in range(d):
            if x[a] != 0.0:
                add_scaled(hessian[a * size + k, a * size :], line[a * size :], scale * x[a])


@implements(generic.add_curvature, Matching)
def _add_curvature_matching(structure, rows, i, response, scale, work, hessian):
    d, size = rows.n_inputs, response.shape[0]
    first = structure.parts_indptr[i]
    table = work[: size * d].reshape(size, d)
    moved, one = work[size * d : size * d + d], work[size * d + d : size * d + d + 1]
    for k in range(size):
        _take_row(rows, first + k, one, table[k])
    for k in range(size):
        moved[:] = 0.0
        for m in range(size):
            add_scaled(moved, table[m], scale * response[k, m])
        for a in range(d):
            if table[k, a] != 0.0:
                add_scaled(hessian[a, a:], moved[a:], table[k, a])
