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

from maxmargin._kernels.blocks import Blocks
from maxmargin._kernels.passes import inner_product
from maxmargin.solvers import _bcfw_kernel
from maxmargin.solvers.loop import Stepper
from maxmargin.solvers.problem import Evaluation

ORDERS = ("permutation", "active", "uniform", "gap")
_NONE = np.empty(0)
# "active": after a round over all blocks, rounds over those whose gap is at least this
# share of the mean. On uci_letter this halves the work to the same gap; on chains it is neutral.
_ACTIVE_ROUNDS = 9
_ACTIVE_SHARE = 0.1


class BlockStepper(Stepper):
    """Stepper of block-coordinate Frank-Wolfe.

    Parameters
    ----------
    problem : Problem or PythonProblem
    order : {"permutation", "active", "uniform", "gap"}
        How blocks are chosen: a new permutation each pass; the same, with most rounds only over
        blocks that still have a gap; uniformly with replacement; or in proportion to the last
        known gap of each block.
    average : bool or float
        Also keep the average of all iterates, the t-th weighted by ``t ** average``; at every
        check the better of the two counts. True is 3: late iterates count most, as they
        should once the solver converges. (1 is the average of Lacoste-Julien et al.)
    exact_blocks : bool
        Take the exact maximum of a block where the structure has one.
    rng : numpy.random.RandomState
    dual_state : optional
        Dual state to start from, of a problem with the same ``signature()``; by default the
        truth (w = 0).
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
        fits = isinstance(dual_state, self._state)
        self.dual_state = dual_state if fits else self._start()
        self.weights = problem.weights_of(self.dual_state)
        is_switch = isinstance(average, (bool, np.bool_))
        self.averaged = np.zeros(problem.n_weights) if not is_switch or average else _NONE
        self.power = 3.0 if is_switch else float(average)
        self._mass = np.zeros(1)
        self.gaps = np.zeros(problem.n_examples)
        self.oracle_calls = 0
        self._fresh_at = 0
        self._pending = np.empty(0, np.int64)  # rest of the round under way
        self._draws, self._tree = _NONE, _NONE
        self._round = 0
        self._per_second = 0.0
        self._steps = self._kernel()

    _state: type = Blocks

    def _start(self):
        return self.problem.start()

    def _kernel(self):
        raise NotImplementedError(f"{type(self).__name__}._kernel")

    @property
    def between_rounds(self) -> bool:
        """Whether every block planned was visited."""
        return not len(self._pending)

    def advance(self, seconds: float, most: int) -> None:
        """Visit at most ``most`` blocks, for about ``seconds``, at most to the end of the round.

        How the blocks are cut into calls makes no difference to what happens.
        """
        if self.between_rounds:
            self._pending = self._new_round(self.problem.n_examples)
            if self.order == "gap":
                self._draws, self._tree = self._new_draws(len(self._pending))
        count = max(1, int(self._per_second * seconds)) if self._per_second else 64
        count = min(count, max(1, most))
        order, self._pending = self._pending[:count], self._pending[count:]
        draws, self._draws = self._draws[:count], self._draws[count:]
        began = time.perf_counter()
        warm = self.oracle_calls > 0  # the first call may include compilation
        self._visit(order, draws)
        if warm:
            self._per_second = len(order) / max(time.perf_counter() - began, 1e-9)

    def _visit(self, order, draws) -> None:
        """Visit the blocks in ``order``, or as many that the numbers in ``draws`` draw."""
        raise NotImplementedError(f"{type(self).__name__}._visit")

    def _new_round(self, n: int) -> np.ndarray:
        """Blocks to visit next; in gap order it only tells how many."""
        self._round += 1
        if self.order == "uniform":
            return self.rng.randint(0, n, n)
        if self.order == "gap":
            return np.arange(n)
        if self.order == "active" and self._round % (_ACTIVE_ROUNDS + 1) != 1:
            active = np.flatnonzero(self.gaps > _ACTIVE_SHARE * self.gaps.mean())
            if len(active):
                return self.rng.permutation(active)
        return self.rng.permutation(n)

    def _new_draws(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers and the sum tree that turns them into blocks with a gap."""
        n = self.problem.n_examples
        tree = np.empty(2 << max(1, int(n - 1).bit_length()))
        _bcfw_kernel.build_sum_tree(np.maximum(self.gaps, 0.0) * self.problem.scales, tree)
        if not tree[1] > 0.0:  # nothing known to gain anywhere: look at the blocks in turn
            return _NONE, _NONE
        return self.rng.random_sample(count), tree

    def estimate(self) -> float:
        """Mean of the gaps that the blocks had when they were visited last."""
        return inner_product(self.gaps, self.problem.scales) * self.problem.alpha

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values at the last iterate and, if kept, at the average."""
        found = self.problem.evaluate(self.weights, self.dual_state, self.gaps)
        candidates = [(self.weights, found)]
        if len(self.averaged) and self.oracle_calls:
            average = self.averaged / self._mass[0]
            np.subtract(self.weights, average, out=average)  # weights may be most of the memory
            candidates.append((average, self.problem.evaluate(average)))
        return candidates

    def refresh(self) -> bool:
        """Rebuild the weights from the dual state."""
        stale = self._fresh_at != self.oracle_calls
        if stale:
            self.weights = self.problem.weights_of(self.dual_state)
            self._fresh_at = self.oracle_calls
        return stale
