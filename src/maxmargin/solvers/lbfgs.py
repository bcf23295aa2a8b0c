"""Limited-memory BFGS on the primal of a smooth surrogate (CRF), with a true certificate.

With L the mean surrogate and q its gradient at w, ``-q/alpha`` is the w(mu) of the marginals mu of
the model at w. They are dual feasible, so every gradient comes with a lower bound, without storing
any marginals:

    D(mu) = L(w) - q @ w - |q|^2 / (2 alpha),          P(w) - D(mu) = |grad P(w)|^2 / (2 alpha).

A mixture of several mu is feasible too, and its entropy is at least the mixture of theirs. The
bound stored here belongs to a mixture of all marginals so far: each new one enters with the weight
that increases the bound most. This needs one vector, and gives a gap that is about three times
smaller than that of the last gradient alone.

References
----------
Nocedal, Wright. Numerical Optimization, chapters 3 and 7. 2006.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.passes import inner_product
from .._validation import is_array
from ._gradient_kernel import add_vector
from .base import Solver
from .problem import DualPoint, Evaluation, mean_gradient

_NONE = np.empty(0)

# Number of stored pairs of steps and gradient changes: ten, or fewer to fit into a gigabyte.
_MEMORY = 10
_NUMBERS_IN_MEMORY = 1 << 27
# Wolfe's conditions: required shares of the predicted decrease, and of the decrease of the slope.
_DECREASE = 1e-4
_DECLINE = 0.9
# Values closer than this are equal up to rounding: then only slopes locate the minimum.
_ROUNDING = 1e-13
_MOST_TRIALS = 25


class Iterate(NamedTuple):
    """Objective and gradient at some weights."""

    weights: np.ndarray
    value: float
    gradient: np.ndarray
    error: float = 0.0  # of the oracle


class Search(NamedTuple):
    """Search for a step along a direction that meets Wolfe's conditions, one trial at a time.

    ``low`` and ``high`` are steps with their values and slopes; the result is between them.
    """

    value: float
    slope: float
    step: float
    low: tuple[float, float, float]
    high: tuple[float, float, float] | None = None
    trials: int = 0

    def after(self, value: float, slope: float) -> tuple[bool, Search]:
        """Whether the last trial meets the conditions, and the search with the next one."""
        here = (self.step, value, slope)
        equal = abs(value - self.value) <= _ROUNDING * abs(self.value)
        promised = self.value + _DECREASE * self.step * self.slope
        too_far = slope > -0.8 * self.slope if equal else not value <= promised
        low, high = self.low, self.high
        if too_far:
            high = here
        elif slope < _DECLINE * self.slope:
            low = here
        else:
            return True, self
        step = _between(low, high) if high else 4.0 * self.step
        return False, self._replace(step=step, low=low, high=high, trials=self.trials + 1)


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


Pair = tuple[np.ndarray, np.ndarray, float]


class LbfgsState(NamedTuple):
    """``at`` is the last accepted point; ``pairs`` are steps, changes of the gradient and the
    inverses of their products; ``bound`` is a mixture of all marginals so far."""

    at: Iterate
    calls: int
    pairs: tuple[Pair, ...]
    direction: np.ndarray
    search: Search | None
    bound: DualPoint | None

    @property
    def weights(self) -> np.ndarray:
        return self.at.weights

    @property
    def dual(self) -> np.ndarray:
        """Where a refit starts: the weights."""
        return self.at.weights

    @property
    def pending(self) -> np.ndarray:
        return _NONE


def _rounding(problem: Any, weights: np.ndarray) -> float:
    """A bound on the rounding error of the mean loss: its terms are as large as the scores.

    The entropy in a lower bound is the difference of such terms. After a first step that is far too
    long the scores may be so large that no digit of it is correct.
    """
    scores = np.sqrt(1.0 + problem.mean_square()) * np.sqrt(problem.squared_norm(weights))
    return 32.0 * np.finfo(float).eps * float(scores)


class LBFGS(Solver):
    """Limited-memory BFGS; a step is one gradient, a pass over the data.

    Where parts of the answers are hidden (the problem has a ``clamped`` structure), it minimises
    the likelihood of what was observed. With Z_i the sum over all outputs and Z_i(y) the sum over
    those that agree with what is known::

        L(w) = alpha/2 |w|^2 + (1/W) sum_i s_i [ log Z_i - log Z_i(y_i) ],

    which is not convex. At any weights it is touched from above by a convex function of the same
    gradient (the one that EM minimises next), whose minimum is at most ``|grad L|^2 / (2 alpha)``
    lower. That is the gap reported then: 0 at stationary points, and no bound on L elsewhere.
    """

    sums_gradients = True

    def missing(self, problem):
        found = []
        if not problem.cost.smooth:
            found.append("a smooth surrogate (surrogate='crf')")
        if problem.in_kernel_space:
            found.append("weights of features (kernel='linear')")
        return found

    def init(self, problem, start, rng):
        weights = np.zeros(problem.n_weights)
        if is_array(start) and start.shape == weights.shape:
            weights = start.copy()
        at, bound = self._look(problem, weights, None)
        return LbfgsState(at, 0, (), _NONE, None, bound)

    def _look(self, problem, weights, bound: DualPoint | None):
        """Objective and gradient, and the bound improved by them."""
        loss, slopes, error = problem.mean_answer(weights)
        if problem.clamped is not None:
            # Both sums contain the score of the truth, which cancels.
            known, known_slopes, _ = mean_gradient(problem, problem.clamped, weights)
            loss -= known
            add_vector(slopes, known_slopes, -1.0)
        else:
            constant = loss - error - inner_product(slopes, weights)
            constant -= _rounding(problem, weights)
            new = DualPoint(constant, slopes * (-1.0 / problem.alpha))
            if bound is None:  # that of the truth: no loss, no slope
                bound = DualPoint(0.0, np.zeros_like(slopes))
            bound = problem.better_mixture(bound, new)
        value = loss + problem.penalty(weights)
        add_vector(slopes, weights, problem.alpha)
        return Iterate(weights, value, slopes, error), bound

    def advance(self, problem, state, steps):
        """One trial of the line search: one pass over the data."""
        if state.search is None:
            state = self._new_search(state)
        weights = state.at.weights.copy()
        add_vector(weights, state.direction, state.search.step)
        trial, bound = self._look(problem, weights, state.bound)
        state = state._replace(calls=state.calls + problem.n_examples, bound=bound)
        slope = inner_product(trial.gradient, state.direction)
        accepted, search = state.search.after(trial.value, slope)
        if accepted:
            return self._move(problem, state, trial)
        if search.trials >= _MOST_TRIALS:  # rounding: start again from the gradient alone
            return state._replace(pairs=(), search=None)
        return state._replace(search=search)

    def _move(self, problem, state, trial: Iterate):
        """Accept a point and store its pair of step and change of the gradient."""
        step = trial.weights - state.at.weights
        change = trial.gradient - state.at.gradient
        product = inner_product(step, change)
        pairs = state.pairs
        if product > 0.0:
            most = min(max(_NUMBERS_IN_MEMORY // (2 * problem.n_weights), 3), _MEMORY)
            pairs = (*pairs[1 - most :], (step, change, 1.0 / product))
        return state._replace(at=trial, pairs=pairs, search=None)

    def _new_search(self, state):
        """Two loops over the stored pairs: minus the inverse Hessian times the gradient."""
        direction = -state.at.gradient
        factors = []
        for step, change, inverse in reversed(state.pairs):
            factors.append(inverse * inner_product(step, direction))
            add_vector(direction, change, -factors[-1])
        first_step = 1.0
        if state.pairs:
            step, change, inverse = state.pairs[-1]
            direction *= 1.0 / (inverse * inner_product(change, change))
        else:
            first_step = 1.0 / max(np.sqrt(inner_product(direction, direction)), 1e-300)
        for (step, change, inverse), factor in zip(state.pairs, reversed(factors), strict=True):
            add_vector(direction, step, factor - inverse * inner_product(change, direction))
        slope = inner_product(direction, state.at.gradient)
        low = (0.0, state.at.value, slope)
        search = Search(state.at.value, slope, first_step, low)
        return state._replace(direction=direction, search=search)

    def estimate(self, problem, state, apart=0.0):
        """The gap itself."""
        if problem.clamped is None:
            return state.at.value - problem.dual_value(state.bound)
        gradient = state.at.gradient
        return inner_product(gradient, gradient) / (2.0 * problem.alpha)

    def check(self, problem, state, at=None, dual_weights=None):
        """The last accepted weights with the best bound: known without another pass."""
        value = state.at.value
        if problem.clamped is None:
            dual = problem.dual_value(state.bound)
        else:
            dual = value - self.estimate(problem, state)
        return state, [(state.at.weights, Evaluation(value, dual, state.at.error))]
