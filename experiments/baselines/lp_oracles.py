"""Oracles over the local polytope, for the methods that answer a whole example at once.

    max over mu in the local polytope of  <unary, mu> + <tables, mu>

- ``"roof-duality"``: binary pairwise graphs, exactly, by one maximum flow; compiled;
- ``"potts"``: pairs whose table has one weight for equal states. The mass on the diagonal of a pair
  with marginals p and q can be anything from ``max(0, max_a p_a + q_a - 1)`` to
  ``sum_a min(p_a, q_a)``, so the linear program needs k + 1 numbers per pair instead of k * k.
  HiGHS, the model of each graph kept with its last basis;
- ``"highs-warm"``: HiGHS, the model of each shape of graph kept with its last basis;
- ``"highs-cold"``: HiGHS, every call from scratch.

``"auto"`` is the first that fits the graphs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array

from experiments.baselines.lp_kernel import roof_values
from maxmargin._optional import require
from maxmargin._validation import check_choice
from maxmargin.graphs._tighten_kernel import make_answers, score_example
from maxmargin.graphs.graph import Graphs
from maxmargin.graphs.inference.linear_program import LinearProgram
from maxmargin.graphs.inference.plan import BINARY, PAIRWISE, Plan, make_plan
from maxmargin.graphs.kernels.agreement import make_room
from maxmargin.graphs.problem import GraphProblem
from maxmargin.solvers.groups import for_groups

ORACLES = ("roof-duality", "potts", "highs-warm", "highs-cold")


class Oracle:
    """Common part: values of the relaxation at given weights."""

    is_compiled = False

    def __init__(self, problem: GraphProblem):
        if problem.max_min:
            raise ValueError(
                "methods with an LP oracle train the max-margin surrogate only; received a problem "
                "with max_min=True. Use SoftAgreement."
            )
        self.problem = problem
        self.plan = make_plan(problem.graphs)
        self.room = make_room(problem.graphs)
        self.answers = make_answers(problem.graphs)
        self.states, self.entries = self.answers

    def score(self, weights: np.ndarray, m: int, shrink: float = 1.0) -> tuple[float, Any, Any]:
        """Score of the truth, and the scores of states and tables with the loss added."""
        p, g = self.problem, self.problem.graphs
        unary = self.states[0, : g.first_state[m + 1] - g.first_state[m]]
        tables = self.entries[0, : g.first_entry[m + 1] - g.first_entry[m]]
        right = score_example(p.data(), p.split(weights), m, shrink, self.room, unary, tables)
        return right, unary, tables

    def answer(
        self, m: int, unary: np.ndarray, tables: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Optimal marginals of the states and the tables of one example, and their score."""
        raise NotImplementedError

    def compress(self, tables: np.ndarray) -> None:
        """Bring the marginals of all tables into the form of the answers."""

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Value of the surrogate of each example."""
        values = np.empty(self.problem.n_examples)
        for m in range(self.problem.n_examples):
            right, unary, tables = self.score(weights, m)
            values[m] = self.answer(m, unary, tables)[2] - right
        return values

    def primal(self, weights: np.ndarray) -> float:
        """``g(w)``: the hard primal at the best messages."""
        problem = self.problem
        mean = problem.sample_weight @ self.values(weights) / problem.total_weight
        return problem.penalty(weights) + float(mean)


class RoofDuality(Oracle):
    """Binary pairwise graphs: one maximum flow each, compiled over whole passes."""

    is_compiled = True

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Value of the surrogate of each example."""
        p = self.problem
        data, parts, values = p.data(p.shared_rows), p.split(weights), np.empty(p.n_examples)
        for_groups(
            lambda first, last: roof_values(
                data, self.plan, parts, first, last, values, make_room(p.graphs),
                make_answers(p.graphs),
            ),
            p.n_examples,
            p.n_threads,
        )  # fmt: skip
        return values


class Highs(Oracle):
    """HiGHS on the full local polytope."""

    def __init__(self, problem: GraphProblem, *, warm: bool):
        super().__init__(problem)
        self.warm = warm
        self._programs: dict[int, LinearProgram] = {}

    def answer(self, m, unary, tables):
        """Optimal marginals, and their score."""
        s = int(self.problem.graphs.shape[m])
        if s not in self._programs:
            self._programs[s] = LinearProgram(
                self.problem.graphs, s, warm=self.warm, plan=self.plan
            )
        return self._programs[s].solve(unary, tables)


class PottsProgram(LinearProgram):
    """The smaller linear program of one shape; the model is kept with its last basis."""

    def __init__(self, plan: Plan, s: int):
        self._highspy = require("highspy", "lp", "An oracle by linear programming")
        self.warm = True
        span = slice(plan.pairs[s], plan.pairs[s + 1])
        self.first, self.second = plan.first[span], plan.second[span]
        self.entries = plan.entry[span]
        base = plan.variables[s]
        n = int(plan.variables[s + 1] - base)
        self.k = int(plan.n_states[base]) if n else 1
        self.n_states = n * self.k
        matrix, lower, upper = potts_constraints(n, self.k, self.first, self.second)
        self._model = self._build(matrix.tocsc(), lower, upper)
        self._solver = self._make_solver()

    def solve(self, unary, tables):
        """As in :class:`LinearProgram`, with the diagonal of a table in its first entry."""
        pull = tables[self.entries]
        extra = np.concatenate([np.repeat(np.maximum(pull, 0.0), self.k), np.minimum(pull, 0.0)])
        found, _, _ = super().solve(unary, extra)
        states = np.maximum(found, 0.0).reshape(-1, self.k)
        states /= states.sum(axis=1, keepdims=True)
        left, right = states[self.first], states[self.second]
        most = np.minimum(left, right).sum(axis=1)
        least = np.maximum(0.0, (left + right - 1.0).max(axis=1, initial=-1.0))
        answer = np.zeros(len(tables))
        answer[self.entries] = np.where(pull >= 0.0, most, least)
        value = unary @ states.ravel() + pull @ answer[self.entries]
        return states.ravel(), answer, float(value)


class Potts(Oracle):
    """HiGHS on a smaller linear program with the same optimum, for Potts tables.

    Of an answer's tables only the first entry is set, to the mass on the whole diagonal: no weight
    sees more of a table than that.
    """

    def __init__(self, problem: GraphProblem):
        super().__init__(problem)
        self._programs: dict[int, PottsProgram] = {}

    def compress(self, tables: np.ndarray) -> None:
        """Diagonals into the first entries."""
        k = int(self.plan.n_states[0])
        squares = tables.reshape(-1, k * k)
        diagonal = squares[:, :: k + 1].sum(axis=1)
        squares[:] = 0.0
        squares[:, 0] = diagonal

    def answer(self, m, unary, tables):
        """Optimal marginals, and their score."""
        s = int(self.problem.graphs.shape[m])
        if s not in self._programs:
            self._programs[s] = PottsProgram(self.plan, s)
        return self._programs[s].solve(unary, tables)


def potts_constraints(n: int, k: int, first: np.ndarray, second: np.ndarray):
    """``lower <= matrix @ x <= upper``: states, then k numbers per pair, then one per pair.

    The k numbers are at most the marginals of either side; the one is at least what both have in
    common beyond 1.
    """
    first, second = first.astype(np.int64), second.astype(np.int64)
    pairs, states = len(first), np.arange(k)
    rows, columns, values = [np.repeat(np.arange(n), k)], [np.arange(n * k)], [np.ones(n * k)]
    row = n
    equal = n * k + np.arange(pairs * k)
    for end in (first, second):
        here = row + np.arange(pairs * k)
        rows += [here, here]
        columns += [equal, (end[:, None] * k + states).ravel()]
        values += [np.ones(pairs * k), np.full(pairs * k, -1.0)]
        row += pairs * k
    here = row + np.arange(pairs * k)
    rows += [here] * 3
    columns += [np.repeat(n * k + pairs * k + np.arange(pairs), k)]
    columns += [(end[:, None] * k + states).ravel() for end in (first, second)]
    values += [np.ones(pairs * k)] + [np.full(pairs * k, -1.0)] * 2
    shape = (row + pairs * k, n * k + pairs * (k + 1))
    found = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    lower = np.concatenate([np.ones(n), np.full(2 * pairs * k, -np.inf), np.full(pairs * k, -1.0)])
    upper = np.concatenate([np.ones(n), np.zeros(2 * pairs * k), np.full(pairs * k, np.inf)])
    return coo_array(found, shape), lower, upper


def is_potts(graphs: Graphs) -> bool:
    """Whether all factors are pairs with one weight for equal states, none for others."""
    one_size = len(set(graphs.n_states.tolist())) == 1
    return one_size and len(graphs.potts) > 0 and bool(graphs.potts.all())


def make_oracle(problem: GraphProblem, name: str = "auto") -> Oracle:
    """The oracle of that name."""
    check_choice("oracle", name, ("auto", *ORACLES))
    wanted = PAIRWISE | BINARY
    traits = make_plan(problem.graphs).traits[problem.graphs.shape]
    binary = bool(((traits & wanted) == wanted).all())
    if name == "auto":
        potts = "potts" if is_potts(problem.graphs) else "highs-warm"
        name = "roof-duality" if binary else potts
    if name == "roof-duality":
        if not binary:
            raise ValueError(
                'oracle="roof-duality" needs variables with two states and tables over at most two '
                'of them; use "highs-warm".'
            )
        return RoofDuality(problem)
    if name == "potts":
        if not is_potts(problem.graphs):
            raise ValueError(
                'oracle="potts" needs pairs with tie="potts" and nothing else; use "highs-warm".'
            )
        return Potts(problem)
    return Highs(problem, warm=name == "highs-warm")
