"""Training problems: the interface of all, and the problem of the compiled structures.

:class:`TrainingProblem` defines the interface and what all problems share. The problem of a
structure and a surrogate, :class:`Problem`, is

primal   P(w)  = alpha/2 |w|^2 + (1/W) sum_i s_i [ max_mu { H_i(mu) + v_i @ mu } - v_i @ phi(y_i) ]
dual     D(mu) = (1/W) sum_i s_i H_i(mu_i) - alpha/2 |w(mu)|^2
         w(mu) = 1/(alpha W) sum_i s_i Phi(x_i) (phi(y_i) - mu_i),        W = sum_i s_i
"""

from __future__ import annotations

import copy
import hashlib
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._kernels import passes
from .._kernels.atoms import Atoms, empty_atoms, truth_atoms
from .._kernels.blocks import Blocks, empty_blocks, whole_blocks
from .._kernels.passes import Objective, Sums
from .._kernels.team import Workspace
from ..features.couplings import Couplings, couplings_of
from ..features.kernels import KernelRows, squared_combination
from ..features.rows import COEFFICIENTS, FEATURES, HASHED, FeatureRows
from ..oracles.values import make_oracle
from ..structures import chain_smooth  # noqa: F401  (its answers, for the kernels)
from ..structures.entropy_chain import entropy_chain
from ..structures.take import take_problem
from ..structures.traits import Traits
from ._gradient_kernel import add_vector, gradient_of_range
from .groups import for_groups, in_threads
from .outline import Outline

# Partial gradients, each over a fixed share of the examples: sums do not depend on the threads.
_PARTS = 16
_NUMBERS_IN_PARTS = 1 << 22
# Bytes of the marginals of a CRF up to which "auto" may choose coordinate ascent.
_DUAL_BYTES = 1e9
# Least number of parts of the examples of a group: fewer take less time than a call from Python.
_PARTS_IN_GROUP = 1 << 14


class Evaluation(NamedTuple):
    """Values at one pair of weights and dual blocks."""

    primal: float
    dual: float  # minus infinity without dual blocks
    oracle_error: float


class DualPoint(NamedTuple):
    """A feasible point of a dual: the numbers that its value and mixtures need."""

    concave: float  # (1/W) sum s_i H_i, or a lower bound on it
    weights: np.ndarray


class MeanAnswer(NamedTuple):
    """Means over the answers of an oracle at some weights."""

    loss: float  # the surrogate, or an upper bound on it
    slopes: np.ndarray  # w(mu) of the answers, times -alpha: its gradient
    error: float  # upper minus lower bounds


def least_group(n_examples: int, n_parts: int) -> int:
    """Least number of examples of a group, if all have ``n_parts`` parts together."""
    return max(1, _PARTS_IN_GROUP * n_examples // max(1, n_parts))


def best_share(slope: float, curvature: float) -> float:
    """The share in [0, 1] that maximises ``share * slope - share^2 / 2 * curvature``."""
    if slope <= 0.0:
        return 0.0
    return 1.0 if slope >= curvature else slope / curvature


# What dual values certify.
GLOBAL = "global"  # no weights have a smaller primal value
LOCAL = "local"  # the same for a convex upper bound that equals the objective at these weights
NOTHING = "nothing"  # there are none, and primal values at different weights cannot be compared


class TrainingProblem(Outline):
    """Interface of a problem for the loop, the wrappers around solvers and the estimators.

    Problems whose blocks are marginals (nothing in ``no_oracle``) also have ``start()``,
    ``concave(dual)`` and ``evaluate(weights, dual, gaps, dual_weights)``; further requirements of a
    solver are checked by :meth:`~maxmargin.solvers.base.Solver.missing`.

    Parameters
    ----------
    alpha : float
        Strength of the regularisation.
    sample_weight : array of shape (n_examples,)
        Weights ``s_i`` of the examples.

    Attributes
    ----------
    scales : array of shape (n_examples,)
        ``s_i / (alpha W)``: change of the weights per unit of mass in a block.
    """

    surrogate: Any = None  # None where there is only one
    traits = Traits()
    in_kernel_space = False

    def __init__(self, alpha: float, sample_weight: np.ndarray):
        self.alpha = float(alpha)
        self.sample_weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
        self.total_weight = float(self.sample_weight.sum())
        self.n_examples = len(self.sample_weight)
        self.scales = self.sample_weight / (self.alpha * self.total_weight)
        self.workspace = Workspace()

    def in_blocks(self) -> Any:
        """The same problem in a form for block-coordinate ascent."""
        return self

    @property
    def certifies(self) -> str:
        """What dual values certify."""
        return GLOBAL if self.clamped is None else LOCAL

    def signature(self) -> bytes | None:
        """Hash of the output spaces of all examples: a dual state is feasible where it is equal.

        Features, weights, losses, truths and alpha may change: the weights are rebuilt from the
        state. None: no other problem can use a state of this one.
        """
        raise NotImplementedError

    def weights_of(self, dual: Any) -> np.ndarray:
        """``w(mu)``, from scratch."""
        raise NotImplementedError

    def mean_square(self) -> float:
        """Mean over examples of the squared norms of all their rows of features."""
        raise NotImplementedError

    def mean_answer(self, weights: np.ndarray) -> MeanAnswer:
        """Mean surrogate, its gradient and the error of the oracle, where it is smooth."""
        raise NotImplementedError

    def couplings(self) -> Couplings | None:
        """How much the columns of the features are coupled with each other; None if unknown."""
        return None

    def mean_loss(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean surrogate and its gradient, where it is smooth."""
        loss, slopes, _ = self.mean_answer(weights)
        return loss, slopes

    def with_truth(self, truth: Any) -> Any:
        """The same problem with other true outputs: dual points stay feasible, unless they hold
        losses (:mod:`~maxmargin.solvers.interpreted`)."""
        raise NotImplementedError

    def subset(self, examples: np.ndarray) -> Any:
        """The problem of some of the examples, with the weights of the whole.

        ``alpha W`` is that of the whole, and therefore ``scales`` and every step of a block, too:
        with parts p of a partition, ``w(mu) = sum_p w_p(mu_p)``, and values times ``W_p`` without
        the penalty sum to that of the whole times W.
        """
        raise NotImplementedError

    def share(self, examples: np.ndarray) -> tuple[float, np.ndarray]:
        """``alpha`` and weights of a subset of the examples."""
        weights = self.sample_weight[examples]
        if not weights.sum() > 0.0:
            raise ValueError("the examples of a subset have no weight; expected some that have.")
        return self.alpha * self.total_weight / float(weights.sum()), weights

    def with_strength(self, strength: float) -> Any:
        """The same problem as part of a whole whose ``alpha W`` is given."""
        changed = copy.copy(self)
        changed.alpha = strength / self.total_weight
        changed.scales = self.sample_weight / (changed.alpha * self.total_weight)
        return changed

    def squared_norm(self, weights: np.ndarray) -> float:
        """``|w|^2``."""
        return passes.inner_product(weights, weights)

    def penalty(self, weights: np.ndarray) -> float:
        """``alpha/2 |w|^2``."""
        return 0.5 * self.alpha * self.squared_norm(weights) if self.penalised else 0.0

    def with_inertia(self, inertia: float) -> Any:
        """The same problem with ``inertia * alpha / 2 |w - c|^2`` added, for any centre c: only the
        change of the weights by the step of a block differs."""
        changed = copy.copy(self)
        changed.scales = self.scales / (1.0 + inertia)
        return changed

    def dual_value(self, point: DualPoint) -> float:
        """The dual at a feasible point."""
        return point.concave - self.penalty(point.weights)

    def better_mixture(self, old: DualPoint | None, new: DualPoint) -> DualPoint:
        """The best mixture of two feasible points; its value is a lower bound, as H is concave."""
        if old is None:
            return new
        direction = new.weights - old.weights
        square = self.squared_norm(direction)
        # Derivative at the old point; products of weights by polarisation, valid with kernels too.
        cross = 0.5 * (self.squared_norm(new.weights) - self.squared_norm(old.weights) - square)
        slope = new.concave - old.concave - self.alpha * cross
        curvature = self.alpha * square
        step = best_share(slope, curvature)
        direction *= step
        direction += old.weights
        return DualPoint((1.0 - step) * old.concave + step * new.concave, direction)


def mean_gradient(problem: Any, structure: Any, weights: np.ndarray) -> MeanAnswer:
    """Mean surrogate and its gradient, over the outputs of a structure."""
    n, size = problem.n_examples, problem.n_weights
    parts = min(max(_NUMBERS_IN_PARTS // size, 2), _PARTS, n)
    bounds = np.unique(np.linspace(0, n, parts + 1).astype(np.int64))
    shares = problem.sample_weight / problem.total_weight

    def work(first, last):
        partial = np.zeros(size)
        value, error = gradient_of_range(
            problem.surrogate, structure, problem.rows, shares, weights, first, last, partial
        )
        return value, partial, error

    loss, slopes, error = 0.0, np.zeros(size), 0.0
    ranges = list(zip(bounds[:-1], bounds[1:], strict=True))
    for value, partial, more in in_threads(work, ranges, problem.n_threads):
        loss += value
        error += more
        add_vector(slopes, partial, 1.0)
    return MeanAnswer(loss, slopes, error)


class Problem(TrainingProblem):
    """The compiled problem that solvers climb.

    Parameters
    ----------
    structure, surrogate, rows : NamedTuples
        Packed outputs, surrogate and features. The weights of a structure are first a matrix of
        ``rows.n_inputs`` rows, then those that do not depend on the features.
    alpha : float
        Strength of the regularisation.
    sample_weight : array of shape (n_examples,)
        Weights ``s_i`` of the examples.
    n_threads : int
        Number of threads for evaluations; the results do not depend on it.
    """

    def __init__(self, structure, surrogate, rows, alpha, sample_weight, n_threads=1):
        super().__init__(alpha, sample_weight)
        self.structure = structure
        self.surrogate = surrogate
        self.traits = getattr(structure, "traits", Traits)()
        self.rows: FeatureRows | KernelRows = rows
        # For passes in threads: rows with a cache must not change there.
        self.shared_rows = rows.for_reading
        self.n_threads = n_threads
        self.in_kernel_space = rows.weighs == COEFFICIENTS
        self.hashes_features = rows.weighs == HASHED
        self.n_weights = structure.n_weights(rows.n_inputs)
        # Used where there is no dual state: passes are compiled for one kind of state.
        self._no_dual: Blocks | Atoms = empty_blocks(0, 0)

    @cached_property
    def least_group(self) -> int:
        """Least number of examples that a thread evaluates at a time."""
        return least_group(self.n_examples, int(passes.block_sizes(self.structure).sum()))

    @property
    def suits_gradients(self) -> bool:
        """A step of coordinate ascent changes only the weights of the features of its example; one
        of L-BFGS reads all weights many times, but needs no logarithms and can use several threads.
        So L-BFGS is for data with at least as many rows as features, and where the marginals would
        not fit into memory."""
        if self.rows.weighs != FEATURES:
            return False
        rows: Any = self.rows
        return not self.dual_fits or rows.n_columns <= len(rows.squares)

    @property
    def dual_fits(self) -> bool:
        """Whether the marginals of all examples fit into memory."""
        return 8 * int(passes.block_sizes(self.structure).sum()) <= _DUAL_BYTES

    def in_blocks(self) -> Problem:
        """The same problem; blocks of sequences also store their entropy if they maximise it."""
        if not (self.cost.smooth and self.traits.entropy_apart):
            return self
        changed = copy.copy(self)
        changed.structure = entropy_chain(self.structure, self.rows)
        changed.traits = changed.structure.traits()
        changed.surrogate = self.surrogate.bounded
        return changed

    def objective(self, oracle: Any = None) -> Objective:
        """The objective of blocks, with the stored values of an oracle; by default a new one."""
        if oracle is None:
            oracle = make_oracle("auto", self).init(self)
        return Objective(oracle, self.surrogate, self.structure)

    def start(self) -> Blocks:
        """Dual blocks at the truth: w = 0."""
        if self.cost.fills_blocks:
            room = whole_blocks(passes.block_sizes(self.structure))
        else:
            room = empty_blocks(self.n_examples, 4 * self.n_examples)
        return passes.truth_blocks(self.structure, self.rows, room)

    def start_atoms(self) -> Atoms:
        """The same point as a mixture of outputs."""
        self._no_dual = empty_atoms(0, 0)
        atoms = empty_atoms(self.n_examples, len(self.structure.truth))
        return truth_atoms(self.structure, self.structure.truth, atoms)

    def signature(self) -> bytes | None:
        """Hash of the output spaces of all examples."""
        if self.cost.of_truth:
            return None
        digest = hashlib.sha256(repr(type(self.structure)).encode())
        digest.update(self.structure.output_space())
        return digest.digest()

    def with_truth(self, truth: np.ndarray) -> Problem:
        """The same problem with other true outputs."""
        changed = copy.copy(self)
        changed.structure = self.structure._replace(truth=truth)
        return changed

    def subset(self, examples: np.ndarray) -> Problem:
        """The problem of some of the examples."""
        examples = np.asarray(examples)
        data = take_problem(self.structure, self.surrogate, self.rows, examples)
        return Problem(*data, *self.share(examples), self.n_threads)

    def weights_of(self, blocks: Blocks | Atoms) -> np.ndarray:
        """``w(mu)``, from scratch."""
        weights = np.zeros(self.n_weights)
        passes.add_blocks(self.structure, self.rows, self.scales, blocks, weights)
        return weights

    def squared_norm(self, weights: np.ndarray) -> float:
        """``|w|^2``; with a kernel, the weights are not orthogonal coordinates."""
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

    def couplings(self) -> Couplings | None:
        """How much the columns of the features are coupled with each other, where that is known."""
        return couplings_of(self.structure, self.rows)

    def mean_answer(self, weights: np.ndarray) -> MeanAnswer:
        """Mean surrogate, its gradient and the error of the oracle."""
        return mean_gradient(self, self.structure, weights)

    def concave(self, blocks: Blocks | Atoms) -> float:
        """``(1/W) sum_i s_i H_i(mu_i)``."""

        def work(first, last):
            return passes.concave_range(
                self.surrogate, self.structure, self.sample_weight, blocks, first, last,
                passes.make_scratch(self.structure, self.shared_rows),
            )  # fmt: skip

        sums = for_groups(work, self.n_examples, self.n_threads, self.least_group)
        return float(np.sum(sums)) / self.total_weight

    def evaluate(
        self,
        weights: np.ndarray,
        blocks: Blocks | Atoms | None = None,
        gaps: np.ndarray | None = None,
        dual_weights: np.ndarray | None = None,
        oracle: Any = None,
    ) -> Evaluation:
        """True primal value at ``weights``, and dual value at ``blocks``.

        ``dual_weights`` are ``w(blocks)``, by default ``weights``; ``gaps``, if given, receives the
        gap of every block at ``weights``; ``oracle`` has the stored values of an oracle, and is not
        changed.
        """
        objective = self.objective(oracle)
        with_dual = blocks is not None
        if blocks is None:
            blocks = self._no_dual
        if gaps is None:
            gaps = np.empty(self.n_examples)

        def work(first, last):
            sums = np.empty(3)
            passes.evaluate_blocks(
                objective, self.shared_rows, self.sample_weight, weights, blocks, with_dual,
                (first, last), Sums(sums, gaps),
            )  # fmt: skip
            return sums

        sums = for_groups(work, self.n_examples, self.n_threads, self.least_group)
        loss, concave, error = np.sum(sums, axis=0) / self.total_weight
        penalty = self.penalty(weights)
        dual = -np.inf
        if with_dual:
            dual = concave - (penalty if dual_weights is None else self.penalty(dual_weights))
        return Evaluation(penalty + loss, dual, error)
