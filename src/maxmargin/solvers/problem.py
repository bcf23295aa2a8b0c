"""A training problem: packed data, a structure, a surrogate and a strength of regularisation.

primal   P(w)  = alpha/2 |w|^2 + (1/W) sum_i s_i [ max_mu { H_i(mu) + v_i @ mu } - v_i @ phi(y_i) ]
dual     D(mu) = (1/W) sum_i s_i H_i(mu_i) - alpha/2 |w(mu)|^2
         w(mu) = 1/(alpha W) sum_i s_i Phi(x_i) (phi(y_i) - mu_i),        W = sum_i s_i
"""

from __future__ import annotations

import copy
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .._kernels import passes
from .._kernels.atoms import Atoms, empty_atoms, truth_atoms
from .._kernels.blocks import Blocks, empty_blocks, whole_blocks
from ..features.kernels import GramRows, KernelRows, squared_combination
from ..features.rows import Rows
from ..structures.arborescence import Arborescence
from ..structures.chain import Chain
from ..structures.multiclass import Multiclass
from ..structures.multilabel import Multilabel
from ..structures.subset import Subset
from ..surrogates.crf import Crf
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin

# Surrogates that have no oracle, or no closed form of the concave part, for a structure.
_WITHOUT_ORACLE: dict[type, tuple[type, ...]] = {
    Chain: (MaxMin, Crf),
    Arborescence: (Crf,),
    Subset: (Crf,),
}

# Examples are summed in this many groups whatever the number of threads: equal sums, bit by bit.
_GROUPS = 64


class Evaluation(NamedTuple):
    """Values at one pair of weights and dual blocks."""

    primal: float
    dual: float  # minus infinity without dual blocks
    oracle_error: float


class DualPoint(NamedTuple):
    """A feasible point of a dual, as what its value and mixtures need."""

    concave: float  # (1/W) sum s_i H_i, or a lower bound on it
    weights: np.ndarray


def best_share(slope: float, curvature: float) -> float:
    """The share in [0, 1] that maximises ``share * slope - share^2 / 2 * curvature``."""
    if slope <= 0.0:
        return 0.0
    return 1.0 if slope >= curvature else slope / curvature


class Regularised:
    """What every problem can say of its quadratic term: subclasses have ``alpha``, ``scales`` and
    ``squared_norm``."""

    alpha: float
    scales: np.ndarray
    in_kernel_space = False  # whether weights are coefficients of rows
    clamped: Any = None  # structure of the outputs that agree with what is known, if some is hidden
    has_outputs = False  # whether oracles answer with single outputs that can be stored
    has_oracle = True  # whether blocks can climb: there is an oracle and a value of marginals
    has_exact_blocks = False  # whether max-margin blocks have an exact maximum

    def squared_norm(self, weights: np.ndarray) -> float:
        """``|w|^2``."""
        return passes.inner_product(weights, weights)

    def penalty(self, weights: np.ndarray) -> float:
        """``alpha/2 |w|^2``."""
        return 0.5 * self.alpha * self.squared_norm(weights)

    def with_inertia(self, inertia: float) -> Any:
        """The same problem with ``inertia * alpha / 2 |w - c|^2`` added, for whatever centre c:
        that is how far the step of a block moves the weights."""
        changed = copy.copy(self)
        changed.scales = self.scales / (1.0 + inertia)
        return changed

    def dual_value(self, point: DualPoint) -> float:
        """The dual at a feasible point."""
        return point.concave - self.penalty(point.weights)

    def better_mixture(self, old: DualPoint | None, new: DualPoint) -> DualPoint:
        """The best mixture of two feasible points: H is concave, so it is worth at least that."""
        if old is None:
            return new
        direction = new.weights - old.weights
        square = self.squared_norm(direction)
        # Derivative at the old point; products of weights by polarisation, right with kernels too.
        cross = 0.5 * (self.squared_norm(new.weights) - self.squared_norm(old.weights) - square)
        slope = new.concave - old.concave - self.alpha * cross
        curvature = self.alpha * square
        step = best_share(slope, curvature)
        direction *= step
        direction += old.weights
        return DualPoint((1.0 - step) * old.concave + step * new.concave, direction)


def group_bounds(n: int) -> np.ndarray:
    """Bounds of the groups of examples that one thread handles at a time."""
    return np.unique(np.linspace(0, n, min(n, _GROUPS) + 1).astype(np.int64))


def for_groups(work, n: int, n_threads: int) -> list:
    """Call ``work(first, last)`` for all groups, in threads, and return the answers in order."""
    bounds = group_bounds(n)
    return in_threads(work, list(zip(bounds[:-1], bounds[1:], strict=True)), n_threads)


def in_threads(work, pairs: list, n_threads: int) -> list:
    """Call ``work(first, last)`` for all pairs, in threads, and return the answers in order."""
    if n_threads == 1 or len(pairs) < 2:
        return [work(first, last) for first, last in pairs]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda pair: work(*pair), pairs))


class Problem(Regularised):
    """The compiled problem that solvers climb.

    Parameters
    ----------
    structure, surrogate, rows : NamedTuples
        Packed outputs, surrogate and features. The weights of a structure are first a matrix of
        ``rows.n_inputs`` rows, then whatever does not depend on the features.
    alpha : float
        Strength of the regularisation.
    sample_weight : array of shape (n_examples,)
        Weights ``s_i`` of the examples.
    n_threads : int
        Threads for passes that evaluate; the answers do not depend on it.
    """

    def __init__(self, structure, surrogate, rows, alpha, sample_weight, n_threads=1):
        self.structure = structure
        self.surrogate = surrogate
        self.rows: Rows | GramRows | KernelRows = rows
        # For passes in threads: rows that remember what they computed must not change there.
        self.shared_rows = getattr(rows, "for_reading", rows)
        self.alpha = float(alpha)
        self.sample_weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
        self.total_weight = float(self.sample_weight.sum())
        self.n_threads = n_threads
        self.in_kernel_space = isinstance(rows, (GramRows, KernelRows))
        self.has_outputs = isinstance(surrogate, MaxMargin)
        self.has_exact_blocks = isinstance(structure, (Multiclass, Multilabel))
        self.has_oracle = not isinstance(surrogate, _WITHOUT_ORACLE.get(type(structure), ()))
        self.n_examples = len(self.sample_weight)
        self.n_weights = structure.n_weights(rows.n_inputs)
        self.scales = self.sample_weight / (self.alpha * self.total_weight)
        # Stands in where there is no dual state: passes are compiled for one kind of state.
        self._no_dual: Blocks | Atoms = empty_blocks(0, 0)

    def start(self) -> Blocks:
        """Dual blocks at the truth: w = 0."""
        if getattr(self.surrogate, "fills_blocks", False):
            room = whole_blocks(passes.block_sizes(self.structure))
        else:
            room = empty_blocks(self.n_examples, 4 * self.n_examples)
        return passes.truth_blocks(self.structure, self.rows, room)

    def start_atoms(self) -> Atoms:
        """The same point as a mixture of outputs."""
        self._no_dual = empty_atoms(0, 0)
        atoms = empty_atoms(self.n_examples, len(self.structure.truth))
        return truth_atoms(self.structure, self.structure.truth, atoms)

    def signature(self) -> bytes:
        """Hash of the output spaces of all examples: a dual state is feasible wherever it agrees.

        Features, weights, losses and alpha may change: the weights are rebuilt from the state.
        """
        digest = hashlib.sha256(repr(type(self.structure)).encode())
        digest.update(self.structure.output_space())
        return digest.digest()

    def weights_of(self, blocks: Blocks | Atoms) -> np.ndarray:
        """``w(mu)``, from scratch."""
        weights = np.zeros(self.n_weights)
        passes.add_blocks(self.structure, self.rows, self.scales, blocks, weights)
        return weights

    def squared_norm(self, weights: np.ndarray) -> float:
        """``|w|^2``; with a kernel, the weights are no orthogonal coordinates."""
        if not self.in_kernel_space:
            return super().squared_norm(weights)
        rows: Any = self.rows
        n_columns = self.structure.n_weights(1) - self.structure.n_weights(0)
        n_rows = len(rows.squares)
        matrix = weights[: n_rows * n_columns].reshape(n_rows, n_columns)
        explicit = weights[n_rows * n_columns :]
        plain = rows.without_bias
        sums = for_groups(
            lambda first, last: squared_combination(plain, matrix, first, last),
            n_rows,
            self.n_threads,
        )
        return float(np.sum(sums)) + passes.inner_product(explicit, explicit)

    def mean_square(self) -> float:
        """Mean over examples of the squared norms of all their rows."""
        return float(self.rows.squares.sum()) / self.n_examples

    def concave(self, blocks: Blocks | Atoms) -> float:
        """``(1/W) sum_i s_i H_i(mu_i)``."""

        def work(first, last):
            return passes.concave_range(
                self.surrogate, self.structure, self.sample_weight, blocks, first, last,
                passes.make_scratch(self.structure, self.shared_rows),
            )  # fmt: skip

        return float(np.sum(for_groups(work, self.n_examples, self.n_threads))) / self.total_weight

    def evaluate(
        self, weights, blocks: Blocks | Atoms | None = None, gaps=None, dual_weights=None
    ) -> Evaluation:
        """True primal value at ``weights``, and dual value at ``blocks``.

        ``dual_weights`` are ``w(blocks)``, by default ``weights``; ``gaps``, if given, receives the
        gap of every block at ``weights``.
        """
        with_dual = blocks is not None
        if blocks is None:
            blocks = self._no_dual
        if gaps is None:
            gaps = np.empty(self.n_examples)

        def work(first, last):
            sums = np.empty(3)
            passes.evaluate_blocks(
                self.surrogate, self.structure, self.shared_rows, self.sample_weight, weights,
                blocks, with_dual, first, last, sums, gaps,
            )  # fmt: skip
            return sums

        sums = np.sum(for_groups(work, self.n_examples, self.n_threads), axis=0)
        loss, concave, error = sums / self.total_weight
        penalty = self.penalty(weights)
        dual = -np.inf
        if with_dual:
            dual = concave - (penalty if dual_weights is None else self.penalty(dual_weights))
        return Evaluation(penalty + loss, dual, error)
