"""Block-coordinate Frank-Wolfe in marginal space, with exact steps.

Each step visits one example, asks the surrogate's oracle for the best response ``mu_bar``, and
moves ``mu_i`` to the exact maximum of the dual along ``mu_bar - mu_i``; or, where the structure
knows it, to the exact maximum over the whole block (multiclass: a projection onto the simplex).

References
----------
Lacoste-Julien, Jaggi, Schmidt, Pletscher. Block-coordinate Frank-Wolfe optimization for
structural SVMs. ICML 2013.
Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien. Minding the gaps for block Frank-Wolfe
optimization of structured SVMs. ICML 2016.
"""

from __future__ import annotations

import time

import numpy as np

from . import _bcfw_kernel, interpreted
from .problem import Evaluation, Problem

ORDERS = ("permutation", "uniform", "gap")
_NONE = np.empty(0)


class BlockFrankWolfe:
    """Stepper of block-coordinate Frank-Wolfe.

    Parameters
    ----------
    problem : Problem or PythonProblem
    order : {"permutation", "uniform", "gap"}
        How blocks are chosen: a new permutation each pass, uniformly with replacement, or in
        proportion to the last known gap of each block.
    average : bool
        Also keep the average of all iterates, weighted by their number; at every check the
        better of the two counts.
    exact_blocks : bool
        Take the exact maximum of a block where the structure has one.
    rng : numpy.random.RandomState
    dual_state : optional
        Dual blocks to start from; by default the truth (w = 0).
    """

    def __init__(
        self,
        problem,
        *,
        order="permutation",
        average=False,
        exact_blocks=True,
        rng,
        dual_state=None,
    ):
        self.problem = problem
        self.order = order
        self.exact_blocks = exact_blocks
        self.rng = rng
        fits = dual_state is not None and problem.accepts(dual_state)
        self.dual_state = dual_state if fits else problem.start()
        self.weights = problem.weights_of(self.dual_state)
        self.averaged = np.zeros(problem.n_weights) if average else _NONE
        self.gaps = np.zeros(problem.n_examples)
        self.oracle_calls = 0
        self._pending = np.empty(0, np.int64)  # rest of the pass under way
        self._gap_of_pass = 0.0
        self._estimate = np.inf
        self._per_second = 0.0
        compiled = isinstance(problem, Problem)
        self._steps = _bcfw_kernel.bcfw_steps if compiled else interpreted.bcfw_steps

    def advance(self, seconds: float) -> float:
        """Visit blocks for about ``seconds``, at most to the end of the pass."""
        n = self.problem.n_examples
        if not len(self._pending):
            self._pending = self._new_pass(n)
            self._gap_of_pass = 0.0
        count = max(1, int(self._per_second * seconds)) if self._per_second else min(n, 64)
        order, self._pending = self._pending[:count], self._pending[count:]
        tree, draws = _NONE, _NONE
        if self.order == "gap":
            draws = self.rng.random_sample(len(order))
            leaves = 1 << max(1, int(n - 1).bit_length())
            tree = np.empty(2 * leaves)
            _bcfw_kernel.build_sum_tree(np.maximum(self.gaps, 0.0) * self.problem.scales, tree)
            if not tree[1] > 0.0:  # nothing known to gain anywhere: look at the blocks in turn
                draws = _NONE
        began = time.perf_counter()
        self.dual_state, done, gap = self._steps(
            self.problem.surrogate, self.problem.structure, self.problem.rows,
            self.problem.scales, self.exact_blocks, order, draws, tree, self.gaps,
            self.weights, self.dual_state, self.averaged, self.oracle_calls,
        )  # fmt: skip
        elapsed = time.perf_counter() - began
        if self.oracle_calls:  # the first call may include compilation
            self._per_second = done / max(elapsed, 1e-9)
        self.oracle_calls += done
        self._gap_of_pass += gap
        if not len(self._pending):
            self._estimate = self._gap_of_pass * self.problem.alpha
        return done / n

    def _new_pass(self, n: int) -> np.ndarray:
        if self.order == "uniform":
            return self.rng.randint(0, n, n)
        if self.order == "gap":  # drawn step by step; the order counts only while no gap is known
            return np.arange(n)
        return self.rng.permutation(n)

    def estimate(self) -> float:
        """Sum of the gaps met during the last pass."""
        if self.order == "permutation":
            return self._estimate
        return float(self.gaps @ self.problem.scales) * self.problem.alpha

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values at the last iterate and, if kept, at the average."""
        found = self.problem.evaluate(self.weights, self.dual_state, self.gaps)
        candidates = [(self.weights, found)]
        t = self.oracle_calls
        if len(self.averaged) and t > 0:
            average = self.weights - self.averaged / (0.5 * t * (t + 1.0))
            candidates.append((average, self.problem.evaluate(average)))
        return candidates

    def refresh(self) -> None:
        """Rebuild the weights from the dual blocks."""
        self.weights = self.problem.weights_of(self.dual_state)
