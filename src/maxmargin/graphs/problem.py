"""A training problem on factor graphs, relaxed to the local polytope.

hard primal  g(w, delta) = alpha/2 |w|^2 + (1/W) sum_m s_m [ sum_i max theta_i + sum_c max theta_c ]
             theta_i = scores + loss + messages of its factors,   theta_c = scores - messages
soft primal  g + (1/W) sum_m s_m rho/2 |delta_m|^2
hard dual    f(mu) = (1/W) sum_m s_m H_m(mu) - alpha/2 |w(mu)|^2,   mu in the local polytope
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import numpy as np

from ..features.kernels import squared_combination
from ..features.rows import COEFFICIENTS
from ..solvers.groups import for_groups
from ..solvers.problem import DualPoint, TrainingProblem, least_group
from ..structures.take import take_rows
from ..structures.traits import GRAPH
from ..surrogates.max_margin import MaxMargin
from ..surrogates.max_min import MaxMin
from ._soft_check import evaluate_graphs, mix_messages, soft_dual_sums
from ._soft_kernel import add_beliefs
from ._soft_repair import repair_graphs
from ._tighten_kernel import make_answers, tighten_messages
from .clusters import joint_states, with_triangles
from .graph import TABLE, GraphData, Graphs, GraphWeights
from .kernels.agreement import Beliefs, make_room
from .kernels.binary_pairs import TIED_IN_ORDER
from .label_graph import BOTH_ON_TIE, all_pairs
from .packing import for_exact_steps, take_graphs


class GraphProblem(TrainingProblem):
    """The compiled problem on graphs.

    Parameters
    ----------
    graphs : Graphs
    rows : feature rows of the variables
    features : array of shape (n_factor_rows, n_factor_inputs)
        Features of the factors; row 0 is ``(1, 0, ...)``.
    truth, costs : arrays of shape (n_variables,)
        True states, and the loss of any other state.
    alpha, sample_weight, n_threads
        As in :class:`~maxmargin.solvers.problem.Problem`.
    max_min : bool
        Whether the surrogate is max-min rather than max-margin.
    """

    traits = GRAPH

    def __init__(
        self,
        graphs: Graphs,
        rows: Any,
        features: np.ndarray,
        truth: np.ndarray,
        costs: np.ndarray,
        *,
        alpha: float,
        sample_weight: np.ndarray,
        max_min: bool = False,
        n_threads: int = 1,
    ):
        super().__init__(alpha, sample_weight)
        self.graphs = graphs
        self.rows = rows
        self.surrogate = MaxMin() if max_min else MaxMargin()
        self.in_kernel_space = rows.weighs == COEFFICIENTS
        self.shared_rows = rows.for_reading
        self.features = np.ascontiguousarray(features, dtype=np.float64)
        self.truth = np.ascontiguousarray(truth, dtype=np.int32)
        self.costs = np.ascontiguousarray(costs, dtype=np.float64)
        self.max_min = bool(max_min)
        self.n_threads = n_threads
        self.n_unary = rows.n_inputs * graphs.n_columns
        self.n_weights = self.n_unary + self.features.shape[1] * graphs.n_factor_columns

    @property
    def order(self) -> str:
        """The order for labels if all variables of an example share its row, as labels do."""
        rows = np.diff(self.graphs.first_row)
        shared = bool((rows < self.graphs.n_scored[self.graphs.shape]).any())
        return "active" if shared else "permutation"

    @property
    def tied_pairs(self) -> bool:
        """Whether all factors are tables of binary pairs with the same tie, each with weights of
        its own: few entries have a weight, so that examples are less coupled than by full tables.
        """
        return bool((self.graphs.binary_pairs == TIED_IN_ORDER).all())

    @property
    def both_on_pairs(self) -> bool:
        """Whether graphs are label sets with all pairs of labels and one weight per pair, for both
        labels being present."""
        graphs = self.graphs
        one = len(graphs.variables) == 2 and self.n_unary == self.rows.n_inputs * graphs.n_scored[0]
        if not (
            one and self.tied_pairs and len(self.costs) == self.n_examples * graphs.variables[1]
        ):
            return False
        pairs = all_pairs(int(graphs.variables[1]))
        return (
            self.features.shape == (1, 1)
            and np.array_equal(graphs.scope.reshape(-1, 2), pairs)
            and np.array_equal(graphs.ties[:4], BOTH_ON_TIE)
            and not graphs.tie_at.any()
            and bool((np.diff(graphs.first_row) == 1).all())
            and bool((graphs.scored_from == 1).all())
        )

    def for_exact_steps(self) -> GraphProblem:
        """The same problem for exact steps: beliefs have one number per Potts table, and kernels
        only have code for the kinds of factors that occur."""
        changed = copy.copy(self)
        changed.graphs = for_exact_steps(self.graphs, self.features.shape[1] == 1)
        return changed

    def data(self, rows: Any = None) -> GraphData:
        """The data for kernels; ``rows`` are those for all threads, if given."""
        return GraphData(
            self.graphs, self.rows if rows is None else rows, self.features, self.truth, self.costs,
            self.sample_weight, self.scales,
        )  # fmt: skip

    def with_triangles(self) -> GraphProblem:
        """The same problem with the relaxation of :mod:`.clusters`."""
        changed = copy.copy(self)
        changed.graphs = with_triangles(self.graphs)
        changed.truth = joint_states(self.graphs, changed.graphs, self.truth)
        # Variables of an example come before the joint states of its pairs.
        own = np.arange(len(self.truth)) + np.repeat(
            changed.graphs.first_variable[:-1] - self.graphs.first_variable[:-1],
            np.diff(self.graphs.first_variable),
        )
        changed.costs = np.zeros(len(changed.truth))
        changed.costs[own] = self.costs
        return changed

    def with_truth(self, truth: np.ndarray) -> GraphProblem:
        """The same problem with other true states."""
        changed = copy.copy(self)
        changed.truth = np.ascontiguousarray(truth, dtype=np.int32)
        return changed

    def subset(self, examples: np.ndarray) -> GraphProblem:
        """The problem of some of the graphs."""
        examples = np.asarray(examples)
        graphs, places = take_graphs(self.graphs, examples)
        variables, rows = places["first_variable"], places["first_row"]
        factor_rows = np.append(0, 1 + places["first_factor_row"])  # row 0 is that of all
        alpha, sample_weight = self.share(examples)
        return GraphProblem(
            graphs,
            take_rows(self.rows, rows, examples),
            self.features[factor_rows],
            self.truth[variables],
            self.costs[variables],
            alpha=alpha,
            sample_weight=sample_weight,
            max_min=self.max_min,
            n_threads=self.n_threads,
        )

    def mean_square(self) -> float:
        """Mean over examples of the squared norms of the features of all variables and factors."""
        graphs = self.graphs
        total = 0.0
        counts = np.bincount(graphs.shape, minlength=len(graphs.variables) - 1)
        own = np.diff(graphs.first_row)
        rows = graphs.n_scored[graphs.shape]
        shared = own < rows  # one row for many variables
        repeated = np.repeat(np.where(shared, rows / np.maximum(own, 1), 1.0), own)
        total += float(repeated @ self.rows.squares[: len(repeated)])
        squares = (self.features**2).sum(axis=1)
        plain = np.add.reduceat(
            np.append(((graphs.factor_step == 0) & (graphs.n_tied > 0)).astype(float), 0.0),
            graphs.factors[:-1],
        ) * (np.diff(graphs.factors) > 0)
        total += float(counts @ plain) * float(squares[0]) + float(squares[1:].sum())
        return total / self.n_examples

    def split(self, weights: np.ndarray) -> GraphWeights:
        """Weights of the variables and of the factors, as matrices (views)."""
        matrix = weights[: self.n_unary].reshape(self.rows.n_inputs, self.graphs.n_columns)
        shape = (self.features.shape[1], self.graphs.n_factor_columns)
        return GraphWeights(matrix, weights[self.n_unary :].reshape(shape))

    def signature(self) -> bytes:
        """Hash of the output spaces: beliefs are feasible where it is equal."""
        digest, packed = hashlib.sha256(b"graphs"), self.graphs._asdict()
        for name in ("shape", "variables", "n_states", "factors", "kind", "scope_at", "scope",
                     "low", "high", "parent"):  # fmt: skip
            digest.update(np.ascontiguousarray(packed[name]).tobytes())
        return digest.digest()

    def weights_of(self, beliefs: Beliefs) -> np.ndarray:
        """``w(mu)``, from scratch."""
        weights = np.zeros(self.n_weights)
        add_beliefs(self.data(), self.split(weights), beliefs, np.empty(self.graphs.n_columns))
        return weights

    def squared_norm(self, weights: np.ndarray) -> float:
        """``|w|^2``; with a kernel, the weights of the variables are coefficients of rows."""
        if not self.in_kernel_space:
            return super().squared_norm(weights)
        matrix, factor = self.split(weights)
        plain = self.rows.without_bias
        sums = for_groups(
            lambda first, last: squared_combination(plain, matrix, first, last),
            len(self.rows.squares),
            self.n_threads,
        )
        constant = matrix[len(self.rows.squares) :]  # the row of the intercept is explicit
        return float(np.sum(sums)) + float((constant**2).sum()) + float((factor**2).sum())

    @property
    def _least_group(self) -> int:
        return least_group(self.n_examples, int(self.graphs.first_message[-1]))

    def primal(
        self, weights: np.ndarray, messages: np.ndarray, *, rho: float = 0.0, sigma: float = 0.0
    ) -> float:
        """Hard primal at weights and messages; with ``rho`` or ``sigma`` the soft, smoothed one."""
        data, parts = self.data(self.shared_rows), self.split(weights)
        if sigma > 0.0:  # the code for exact steps has no smoothing
            data = data._replace(graphs=Graphs(*self.graphs))

        def work(first, last):
            sums, room = np.empty(2), make_room(self.graphs)
            ends = np.array([first, last])
            evaluate_graphs(data, parts, messages, self.max_min, float(sigma), ends, sums, room)
            return sums

        found = for_groups(work, self.n_examples, self.n_threads, self._least_group)
        sums = np.sum(found, axis=0) / self.total_weight
        return self.penalty(weights) + float(sums[0]) + 0.5 * rho * float(sums[1])

    def mix_messages(
        self, beliefs: Beliefs, kappa: float, share: float, mean: np.ndarray, squares: np.ndarray
    ) -> None:
        """Add messages with a share to their mean; ``squares`` gets their squared norms."""

        def work(first, last):
            mix_messages(self.graphs, beliefs, kappa, share, mean, squares, first, last)

        for_groups(work, self.n_examples, self.n_threads, self._least_group)

    @property
    def can_tighten(self) -> bool:
        """Whether :meth:`tightened` is available: only tables, and no max-min variables."""
        return not self.max_min and bool((self.graphs.kind == TABLE).all())

    def tightened(self, weights: np.ndarray, messages: np.ndarray, sweeps: int) -> np.ndarray:
        """Messages with a hard primal value at most that of the given ones, at the same weights."""
        better = messages.copy()
        data, parts = self.data(self.shared_rows), self.split(weights)

        def work(first, last):
            room, answers = make_room(self.graphs), make_answers(self.graphs)
            ends = np.array([first, last])
            tighten_messages(data, parts, better, sweeps, ends, room, answers)

        for_groups(work, self.n_examples, self.n_threads, self._least_group)
        return better

    def soft_dual(self, beliefs: Beliefs, weights: np.ndarray, kappa: float, sigma: float) -> float:
        """Dual of the soft problem at beliefs whose weights are given.

        A lower bound on the soft primal where the multipliers are zero.
        """
        sums = np.empty(2)
        soft_dual_sums(
            self.graphs, beliefs, self.truth, self.costs, self.sample_weight, self.max_min, sigma,
            kappa, sums,
        )  # fmt: skip
        sums /= self.total_weight
        return float(sums[0] - 0.5 / kappa * sums[1]) - self.penalty(weights)

    def hard_dual(self, beliefs: Beliefs) -> DualPoint:
        """A feasible point of the hard dual near the beliefs."""
        weights = np.zeros(self.n_weights)
        room = make_room(self.graphs)
        total = repair_graphs(self.data(), self.split(weights), beliefs, self.max_min, room)
        return DualPoint(total / self.total_weight, weights)
