"""The quadratic program over mixtures of stored outputs, solved by an interior-point method.

    minimise    1/2 x' Q x + q' x - sum_i cost_i t_i
    subject to  sum_a x_ia = 1,  x >= 0,  (L_i x_i)_b >= t_i  for all b

Example i mixes its columns a with shares ``x_i``; ``t_i`` is the value of the mixture against the
best of its rows b. Arrays are padded to the largest number of columns and rows of an example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

# Largest number of steps, and the length of a step as a share of the distance to the boundary.
_MOST_STEPS = 60
_TO_BOUNDARY = 0.995
# The least distance from the boundary at the start, in units of losses and of costs.
_INSIDE = 0.1
# Relative amount added to the diagonal of a matrix that is indefinite due to rounding.
_RIDGE = 1e-14


class Program(NamedTuple):
    """``gram`` is that of the columns, each minus the first one of its example; ``linear`` is q."""

    gram: np.ndarray
    features: Any  # of all columns, one per row: Q is their Gram matrix
    linear: np.ndarray  # (n, c)
    losses: np.ndarray  # (n, b, c)
    columns: np.ndarray  # (n, c): whether a column is used; the first one always is
    rows: np.ndarray  # (n, b)
    costs: np.ndarray  # (n,)


class Point(NamedTuple):
    """Shares, values, multipliers of the rows; slacks of rows and columns; of the sums."""

    x: np.ndarray
    t: np.ndarray
    nu: np.ndarray
    slack: np.ndarray
    z: np.ndarray
    y: np.ndarray


def _gradient(program: Program, x: np.ndarray) -> np.ndarray:
    found = np.zeros(x.shape)
    features = program.features
    found[program.columns] = features @ (features.T @ x[program.columns])
    return found + program.linear


def _start(program: Program) -> Point:
    x = program.columns / program.columns.sum(axis=1, keepdims=True)
    nu = program.rows * (program.costs / program.rows.sum(axis=1))[:, None]
    worth = np.einsum("nbc,nc->nb", program.losses, x)
    lowest = np.where(program.rows, worth, np.inf).min(axis=1)
    t = lowest - _INSIDE * max(1.0, float(program.losses.max()))
    slack = np.where(program.rows, worth - t[:, None], 1.0)
    gradient = _gradient(program, x) - np.einsum("nbc,nb->nc", program.losses, nu)
    least = np.where(program.columns, gradient, np.inf).min(axis=1)
    y = least - _INSIDE * float(program.costs.max())
    z = np.where(program.columns, gradient - y[:, None], 0.0)
    return Point(x, t, nu, slack, z, y)


class _System:
    """The equations of a Newton step at a point; all unknowns but the shares are eliminated."""

    def __init__(self, program: Program, at: Point):
        self.program, self.at = program, at
        columns, losses = program.columns, program.losses
        self.stiff = np.where(program.rows, at.nu / at.slack, 0.0)
        self.total = self.stiff.sum(axis=1)
        self.pull = np.einsum("nbc,nb->nc", losses, self.stiff)
        centred = losses - (self.pull / self.total[:, None])[:, None, :]
        centred *= np.sqrt(self.stiff)[:, :, None]
        blocks = np.matmul(centred.transpose(0, 2, 1), centred)
        self.barrier = np.where(columns, at.z / np.where(columns, at.x, 1.0), 0.0)
        matrix = program.gram.copy()
        done = 0
        for i, count in enumerate(columns.sum(axis=1)):
            block = blocks[i, :count, :count] + np.diag(self.barrier[i, :count])
            block = block[1:] - block[:1]
            more = count - 1
            matrix[done : done + more, done : done + more] += block[:, 1:] - block[:, :1]
            done += more
        self.factor = cholesky(matrix)
        self.dual_error = np.where(
            columns,
            _gradient(program, at.x) - np.einsum("nbc,nb->nc", losses, at.nu) - at.z
            - at.y[:, None],
            0.0,
        )  # fmt: skip
        self.sum_error = at.nu.sum(axis=1) - program.costs

    def direction(self, of_columns: np.ndarray, of_rows: np.ndarray) -> Point:
        """The step towards given products of shares and slacks of columns, and of rows."""
        program, at = self.program, self.at
        columns, rows, losses = program.columns, program.rows, program.losses
        first = np.where(columns, (of_columns - at.x * at.z) / np.where(columns, at.x, 1.0), 0.0)
        second = np.where(rows, (of_rows - at.slack * at.nu) / at.slack, 0.0)
        rest = (second.sum(axis=1) + self.sum_error) / self.total
        right = first - self.dual_error + np.einsum("nbc,nb->nc", losses, second)
        right -= self.pull * rest[:, None]
        change = _expand(cho_solve(self.factor, _relative(right, columns)), columns)
        t = (self.pull * change).sum(axis=1) / self.total - rest
        slack = np.where(rows, np.einsum("nbc,nc->nb", losses, change) - t[:, None], 0.0)
        nu = second - self.stiff * slack
        z = np.where(columns, first - self.barrier * change, 0.0)
        features = program.features
        moved = np.zeros(change.shape)
        moved[columns] = features @ (features.T @ change[columns])
        moved += self.dual_error - np.einsum("nbc,nb->nc", losses, nu) - z
        y = moved[:, 0]  # the same in every column that is used
        return Point(change, t, nu, slack, z, y)


def cholesky(matrix: np.ndarray, strength: float = 0.0) -> Any:
    """Factorise a matrix, of which the upper triangle is read, with ``strength`` added to its
    diagonal, and more where rounding has made it indefinite; its diagonal is overwritten."""
    diagonal = np.diagonal(matrix).copy()
    ridge = 0.0
    while True:
        np.fill_diagonal(matrix, diagonal + strength + ridge)
        try:
            return cho_factor(matrix, lower=False)
        except LinAlgError:
            ridge = max(10.0 * ridge, _RIDGE * float(diagonal.max()))


def _relative(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Values of all columns but the first of each example, minus that of the first."""
    others = columns.copy()
    others[:, 0] = False
    return (values - values[:, :1])[others]


def _expand(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The inverse for changes of shares: those of an example sum to zero."""
    others = columns.copy()
    others[:, 0] = False
    found = np.zeros(columns.shape)
    found[others] = values
    found[:, 0] = -found.sum(axis=1)
    return found


def _longest(values: np.ndarray, change: np.ndarray, there: np.ndarray) -> float:
    falls = there & (change < 0.0)
    return float(min(1.0, (values[falls] / -change[falls]).min(initial=1.0)))


def solve_program(program: Program, accuracy: float) -> Point:
    """Solve until the products of shares and slacks sum to at most ``accuracy``, which bounds the
    distance of the value to the optimum."""
    at = _start(program)
    columns, rows = program.columns, program.rows
    n_products = int(columns.sum() + rows.sum())
    for _ in range(_MOST_STEPS):
        total = _products(program, at, at, 0.0)
        if not total > accuracy:
            break
        system = _System(program, at)
        step = system.direction(np.zeros(at.x.shape), np.zeros(at.nu.shape))
        length = _length(program, at, step)
        goal = (_products(program, at, step, length) / total) ** 3 * total / n_products
        step = system.direction(
            np.where(columns, goal - step.x * step.z, 0.0),
            np.where(rows, goal - step.slack * step.nu, 0.0),
        )
        length = min(1.0, _TO_BOUNDARY * _length(program, at, step))
        after = Point(*(value + length * move for value, move in zip(at, step, strict=True)))
        if not _products(program, after, after, 0.0) < total:
            break
        at = after
    return at


def _products(program: Program, at: Point, step: Point, length: float) -> float:
    columns = (at.x + length * step.x) * (at.z + length * step.z)
    rows = (at.slack + length * step.slack) * (at.nu + length * step.nu)
    return float(columns.sum() + rows[program.rows].sum())


def _length(program: Program, at: Point, step: Point) -> float:
    return min(
        _longest(at.x, step.x, program.columns),
        _longest(at.z, step.z, program.columns),
        _longest(at.slack, step.slack, program.rows),
        _longest(at.nu, step.nu, program.rows),
    )
