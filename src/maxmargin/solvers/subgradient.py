"""Stochastic subgradient (Pegasos), the baseline; with a true dual value after every pass.

Steps ``1/(alpha t)`` make the iterate ``w_t = u_t / (alpha t)`` with ``u_t`` a plain sum of
subgradients, so no step touches more weights than its example. When every example was visited
equally often, w_t is the ``w(mu)`` of the dual point that averages the oracle's answers of each
example; its dual value bounds the optimum from below. That is why the order is by permutation.
"""

from __future__ import annotations

import time

import numpy as np

from .._kernels import protocol as generic
from .._kernels.jit import compiled
from . import interpreted
from .problem import Evaluation, Problem


@compiled
def subgradient_steps(surrogate, structure, rows, factors, alpha, order, n_before, sums, late):
    """Visit examples in order; returns the sum of the concave parts of the oracle's answers.

    ``sums`` is ``u_t``; ``late`` gets ``(t - 1)`` times the change at step t, so that
    ``sum_{s <= t} u_s = t u_t - late``.
    """
    buffers = np.empty((3, generic.largest_block(structure)))
    label_buffer = np.empty(generic.most_labels(structure), np.int32)
    work = np.empty(generic.work_size(structure, rows))
    concave = 0.0
    for step in range(order.shape[0]):
        i = order[step]
        t = n_before + step
        if factors[i] == 0.0:
            continue
        size = generic.block_size(structure, i)
        low, high = generic.label_range(structure, i)
        scores = buffers[0, :size]
        answer = buffers[1, :size]
        direction = buffers[2, :size]
        generic.score_block(structure, rows, sums, i, scores)
        shrink = 1.0 / (alpha * t) if t > 0 else 0.0
        for part in range(size):
            scores[part] *= shrink
        generic.best_response(
            surrogate, structure, i, scores, work, label_buffer[: high - low], answer
        )
        concave += factors[i] * generic.concave_part(surrogate, structure, i, answer, work)
        generic.embed_truth(structure, i, direction)
        for part in range(size):
            direction[part] -= answer[part]
        generic.add_block(structure, rows, sums, i, direction, factors[i])
        generic.add_block(structure, rows, late, i, direction, factors[i] * t)
    return concave


class Subgradient:
    """Stepper of the stochastic subgradient method, with the average weighted by t beside it.

    Parameters
    ----------
    problem : Problem or PythonProblem
    rng : numpy.random.RandomState
    """

    dual_state = None  # nothing to continue from: a refit starts anew

    def __init__(self, problem, *, rng):
        self.problem = problem
        self.rng = rng
        self.sums = np.zeros(problem.n_weights)
        self.late = np.zeros(problem.n_weights)
        self.oracle_calls = 0
        self._factors = problem.scales * (problem.alpha * problem.n_examples)
        self._concave = 0.0
        self._pending = np.empty(0, np.int64)
        self._per_second = 0.0
        compiled_problem = isinstance(problem, Problem)
        self._steps = subgradient_steps if compiled_problem else interpreted.subgradient_steps

    @property
    def between_rounds(self) -> bool:
        """Whether the pass is finished."""
        return not len(self._pending)

    def advance(self, seconds: float, most: int) -> None:
        """Take at most ``most`` steps, for about ``seconds``, at most to the end of the pass."""
        if self.between_rounds:
            self._pending = self.rng.permutation(self.problem.n_examples)
        count = max(1, int(self._per_second * seconds)) if self._per_second else 64
        count = min(count, max(1, most))
        order, self._pending = self._pending[:count], self._pending[count:]
        began = time.perf_counter()
        self._concave += self._steps(
            self.problem.surrogate, self.problem.structure, self.problem.rows, self._factors,
            self.problem.alpha, order, self.oracle_calls, self.sums, self.late,
        )  # fmt: skip
        if self.oracle_calls:
            self._per_second = len(order) / max(time.perf_counter() - began, 1e-9)
        self.oracle_calls += len(order)

    def estimate(self) -> float:
        """No guess of the gap: checks follow their own schedule."""
        return np.inf

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values at the last iterate and at the weighted average."""
        t, alpha = self.oracle_calls, self.problem.alpha
        if t == 0:
            weights = np.zeros(self.problem.n_weights)
            return [(weights, self.problem.evaluate(weights)._replace(dual=0.0))]
        last = self.sums / (alpha * t)
        average = (t * self.sums - self.late) * (2.0 / (alpha * t * (t + 1.0)))
        at_last = self.problem.evaluate(last)
        if self.between_rounds:  # whole passes only: see the module's description
            dual = self._concave / t - 0.5 * alpha * self.problem.squared_norm(last)
            at_last = at_last._replace(dual=dual)
        return [(last, at_last), (average, self.problem.evaluate(average))]

    def refresh(self) -> bool:
        """Nothing to rebuild: the weights are a plain sum."""
        return False
