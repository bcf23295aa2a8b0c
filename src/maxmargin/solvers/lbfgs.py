"""Limited-memory BFGS on the primal of a smooth surrogate (CRF), with a true certificate.

With L the mean surrogate and q its gradient at w, ``-q/alpha`` is the w(mu) of the marginals mu of
the model at w. They are dual feasible, so every gradient comes with a lower bound, without storing
any marginals:

    D(mu) = L(w) - q @ w - |q|^2 / (2 alpha),          P(w) - D(mu) = |grad P(w)|^2 / (2 alpha).

A mixture of several mu is feasible too, and its entropy is at least the mixture of theirs. The
bound kept here belongs to a mixture of all marginals met so far: each new one enters with the
weight that raises it most. That costs one vector, and certifies about three times as well as the
last gradient alone.

References
----------
Nocedal, Wright. Numerical Optimization, chapters 3 and 7. 2006.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled, leaf
from .._kernels.passes import inner_product
from .._kernels.vector import add_scaled
from .problem import Evaluation, in_threads

# Pairs of steps and gradient changes that are remembered: ten, or what fits into a gigabyte.
_MEMORY = 10
_NUMBERS_IN_MEMORY = 1 << 27
# Partial gradients, each over a fixed share of the examples: sums do not depend on the threads.
_PARTS = 16
_NUMBERS_IN_PARTS = 1 << 22
# Wolfe's conditions: what share of the promised decrease, and of the slope's decline, is enough.
_DECREASE = 1e-4
_DECLINE = 0.9
# Values closer than this are equal up to rounding: then only slopes tell where the minimum is.
_ROUNDING = 1e-13
_MOST_TRIALS = 25


@compiled
def gradient_of_range(surrogate, structure, rows, shares, weights, first, last, gradient):
    """Add the gradient of ``sum_i shares_i S_i`` over a range of examples; returns that sum."""
    buffers = np.empty((3, generic.largest_block(structure)))
    labels = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    total = 0.0
    for i in range(first, last):
        if shares[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        answer = buffers[1, :size]
        truth = buffers[2, :size]
        generic.score_block(structure, rows, weights, i, scores)
        value, _ = generic.best_response(
            surrogate, structure, i, scores, work, labels[: high - low], answer
        )
        generic.embed_truth(structure, i, truth)
        for part in range(size):
            value -= truth[part] * scores[part]
            answer[part] -= truth[part]
        total += shares[i] * value
        generic.add_block(structure, rows, gradient, i, answer, shares[i])
    return total


@leaf
def _add(out, vector, factor):
    """``out += factor * vector``, in place."""
    add_scaled(out, vector, factor)


class Point(NamedTuple):
    """Objective and gradient at some weights."""

    weights: np.ndarray
    value: float
    gradient: np.ndarray


class Bound:
    """The best dual value known: a mixture of all marginals met."""

    def __init__(self, alpha: float, n_weights: int):
        self.alpha = alpha
        self.constant = 0.0
        self.slopes = np.zeros(n_weights)  # of the truth: no loss, no slope

    @property
    def value(self) -> float:
        return self.constant - inner_product(self.slopes, self.slopes) / (2.0 * self.alpha)

    def add(self, constant: float, slopes: np.ndarray) -> None:
        """Take in ``L(v) >= constant + slopes @ v`` with the weight that helps most."""
        difference = slopes - self.slopes
        square = inner_product(difference, difference)
        if square == 0.0:
            self.constant = max(self.constant, constant)
            return
        gain = self.alpha * (constant - self.constant) - inner_product(self.slopes, difference)
        share = min(max(gain / square, 0.0), 1.0)
        _add(self.slopes, difference, share)
        self.constant += share * (constant - self.constant)


class Search:
    """A step along a direction that meets Wolfe's conditions, one trial at a time."""

    def __init__(self, value: float, slope: float, step: float):
        self.value = value
        self.slope = slope
        self.low = (0.0, value, slope)
        self.high: tuple[float, float, float] | None = None
        self.step = step
        self.trials = 0

    def accepts(self, value: float, slope: float) -> bool:
        """Whether the last trial will do; if not, ``step`` is the next one."""
        self.trials += 1
        here = (self.step, value, slope)
        equal = abs(value - self.value) <= _ROUNDING * abs(self.value)
        promised = self.value + _DECREASE * self.step * self.slope
        too_far = slope > -0.8 * self.slope if equal else not value <= promised
        if too_far:
            self.high = here
        elif slope < _DECLINE * self.slope:
            self.low = here
        else:
            return True
        self.step = _between(self.low, self.high) if self.high else 4.0 * self.step
        return False


def _between(low, high) -> float:
    """Minimum of the cubic through two points with their slopes, away from both ends."""
    (a, value_a, slope_a), (b, value_b, slope_b) = low, high
    width = b - a
    step = 0.5
    if np.isfinite(value_b) and np.isfinite(slope_b):
        middle = slope_a + slope_b - 3.0 * (value_b - value_a) / width
        root = middle * middle - slope_a * slope_b
        if root > 0.0:
            root = np.sqrt(root)
            below = slope_b - slope_a + 2.0 * root
            step = 1.0 - (slope_b + root - middle) / below if below != 0.0 else 0.5
    return a + width * min(max(step, 0.1), 0.9)


class Lbfgs:
    """Stepper of limited-memory BFGS; a step is one gradient, a pass over the data.

    Parameters
    ----------
    problem : Problem
        With a surrogate that is smooth: the CRF.
    dual_state : array, optional
        Weights to start from; 0 by default.
    """

    between_rounds = True

    def __init__(self, problem, *, dual_state=None):
        self.problem = problem
        self.oracle_calls = 0
        n, size = problem.n_examples, problem.n_weights
        parts = min(max(_NUMBERS_IN_PARTS // size, 2), _PARTS, n)
        self._bounds = np.unique(np.linspace(0, n, parts + 1).astype(np.int64))
        self._shares = problem.sample_weight / problem.total_weight
        self._memory = min(max(_NUMBERS_IN_MEMORY // (2 * size), 3), _MEMORY)
        self._pairs: list[tuple[np.ndarray, np.ndarray, float]] = []
        self._search: Search | None = None
        self._direction = np.empty(0)
        self.bound = Bound(problem.alpha, size)
        start = np.zeros(size)
        if isinstance(dual_state, np.ndarray) and dual_state.shape == start.shape:
            start = dual_state.copy()
        self.point = self._evaluate(start)

    def _sum(self, structure, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean surrogate and its gradient."""
        problem = self.problem

        def work(first, last):
            partial = np.zeros(problem.n_weights)
            value = gradient_of_range(
                problem.surrogate, structure, problem.rows, self._shares, weights, first, last,
                partial,
            )  # fmt: skip
            return value, partial

        ranges = list(zip(self._bounds[:-1], self._bounds[1:], strict=True))
        loss, slopes = 0.0, np.zeros(problem.n_weights)
        for value, partial in in_threads(work, ranges, problem.n_threads):
            loss += value
            _add(slopes, partial, 1.0)
        return loss, slopes

    def _evaluate(self, weights: np.ndarray) -> Point:
        """Objective and gradient; their bound is taken in."""
        loss, slopes = self._sum(self.problem.structure, weights)
        self.bound.add(loss - inner_product(slopes, weights), slopes)
        return self._point(weights, loss, slopes)

    def _point(self, weights: np.ndarray, loss: float, slopes: np.ndarray) -> Point:
        """The objective from the loss; ``slopes`` becomes its gradient."""
        alpha = self.problem.alpha
        value = loss + 0.5 * alpha * inner_product(weights, weights)
        _add(slopes, weights, alpha)
        return Point(weights, value, slopes)

    def advance(self, seconds: float, most: int) -> None:
        """One trial of the line search: one pass over the data."""
        search = self._search or self._new_search()
        weights = self.point.weights.copy()
        _add(weights, self._direction, search.step)
        trial = self._evaluate(weights)
        self.oracle_calls += self.problem.n_examples
        if search.accepts(trial.value, inner_product(trial.gradient, self._direction)):
            self._move(trial)
        elif search.trials >= _MOST_TRIALS:  # rounding: start again from the gradient alone
            self._pairs.clear()
            self._search = None

    def _move(self, trial: Point) -> None:
        """Accept a point and remember what it tells about the curvature."""
        step = trial.weights - self.point.weights
        change = trial.gradient - self.point.gradient
        product = inner_product(step, change)
        if product > 0.0:
            self._pairs = self._pairs[1 - self._memory :] if self._memory > 1 else []
            self._pairs.append((step, change, 1.0 / product))
        self.point = trial
        self._search = None

    def _new_search(self) -> Search:
        """Two loops over the remembered pairs: minus the inverse Hessian times the gradient."""
        direction = -self.point.gradient
        factors = []
        for step, change, inverse in reversed(self._pairs):
            factors.append(inverse * inner_product(step, direction))
            _add(direction, change, -factors[-1])
        first_step = 1.0
        if self._pairs:
            step, change, inverse = self._pairs[-1]
            direction *= 1.0 / (inverse * inner_product(change, change))
        else:
            first_step = 1.0 / max(np.sqrt(inner_product(direction, direction)), 1e-300)
        for (step, change, inverse), factor in zip(self._pairs, reversed(factors), strict=True):
            _add(direction, step, factor - inverse * inner_product(change, direction))
        slope = inner_product(direction, self.point.gradient)
        self._direction = direction
        self._search = Search(self.point.value, slope, first_step)
        return self._search

    def estimate(self) -> float:
        """The gap itself."""
        return self.point.value - self.bound.value

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """The last accepted weights with the best bound: known without another pass."""
        found = Evaluation(self.point.value, self.bound.value, 0.0)
        return [(self.point.weights, found)]

    def refresh(self) -> bool:
        """Nothing to rebuild."""
        return False

    @property
    def dual_state(self) -> np.ndarray:
        """Where a refit starts: the weights."""
        return self.point.weights


class HiddenLbfgs(Lbfgs):
    """The same where parts of the answers are hidden: the likelihood of what was observed.

    With Z_i the sum over all outputs and Z_i(y) the sum over those that agree with what is known,

        L(w) = alpha/2 |w|^2 + (1/W) sum_i s_i [ log Z_i - log Z_i(y_i) ],

    which is not convex. At any weights it is touched from above by a convex function of the same
    gradient (the one that EM minimises next), whose minimum is at most ``|grad L|^2 / (2 alpha)``
    lower. That is the gap reported here: 0 at stationary points, and no bound of L at others.

    Parameters
    ----------
    problem : Problem
        With the CRF as surrogate; its truth makes no difference where it is hidden.
    clamped : structure
        That of the problem, restricted to the outputs that agree with what is known.
    dual_state : array, optional
        Weights to start from; 0 by default.
    """

    local_bounds = True

    def __init__(self, problem, clamped, *, dual_state=None):
        self._clamped = clamped
        super().__init__(problem, dual_state=dual_state)

    def _evaluate(self, weights: np.ndarray) -> Point:
        # Both sums have the score of the truth, which cancels.
        loss, slopes = self._sum(self.problem.structure, weights)
        known, known_slopes = self._sum(self._clamped, weights)
        _add(slopes, known_slopes, -1.0)
        return self._point(weights, loss - known, slopes)

    def estimate(self) -> float:
        """The gap itself."""
        gradient = self.point.gradient
        return inner_product(gradient, gradient) / (2.0 * self.problem.alpha)

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """The last accepted weights, and the minimum of the convex function that touches there."""
        value = self.point.value
        return [(self.point.weights, Evaluation(value, value - self.estimate(), 0.0))]
