"""Passes over the examples in permuted order, cut into slices by the clock."""

from __future__ import annotations

import time

import numpy as np

from maxmargin.solvers.loop import Stepper


class PermutedPasses(Stepper):
    """The part of a stepper that decides which examples are visited when.

    How the examples are cut into calls makes no difference to what happens. A subclass has
    ``_visit(order)``, which must not look at anything but the order.
    """

    def __init__(self, problem, rng):
        self.problem = problem
        self.rng = rng
        self.oracle_calls = 0
        self._pending = np.empty(0, np.int64)
        self._per_second = 0.0

    def _visit(self, order: np.ndarray) -> None:
        raise NotImplementedError

    @property
    def between_rounds(self) -> bool:
        """Whether the pass is finished."""
        return not len(self._pending)

    def advance(self, seconds: float, most: int) -> None:
        """Visit at most ``most`` examples, for about ``seconds``, no further than the pass."""
        if self.between_rounds:
            self._pending = self.rng.permutation(self.problem.n_examples)
        count = max(1, int(self._per_second * seconds)) if self._per_second else 64
        count = min(count, max(1, most))
        order, self._pending = self._pending[:count], self._pending[count:]
        began = time.perf_counter()
        warm = self.oracle_calls > 0  # the first call may include compilation
        self._visit(order)
        self.oracle_calls += len(order)
        if warm:
            self._per_second = len(order) / max(time.perf_counter() - began, 1e-9)
