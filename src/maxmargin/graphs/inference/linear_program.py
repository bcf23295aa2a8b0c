"""Relaxation over the local polytope as a linear program, solved by HiGHS.

    maximise    sum_i <unary_i, mu_i> + sum_c <table_c, mu_c>
    subject to  mu >= 0,  sum mu_i = 1,  mu_c has the marginals mu_i,  low <= sum_i mu_i(1) <= high

A TREE factor is written as its pairs, which is exact. Needs the extra ``lp``.
Values are accurate to the tolerances of HiGHS, set to 1e-9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array

from ..._optional import require
from ..graph import COUNT, Graphs
from .plan import Plan, make_plan
from .roof_duality import Relaxed


def _table_scopes(plan: Plan, s: int) -> list[tuple[int, np.ndarray]]:
    """First entry and variables of every table of a shape."""
    scopes = []
    for q in range(plan.singles[s], plan.singles[s + 1]):
        scopes.append((int(plan.single_entry[q]), np.array([plan.single[q]])))
    for p in range(plan.pairs[s], plan.pairs[s + 1]):
        scopes.append((int(plan.entry[p]), np.array([plan.first[p], plan.second[p]])))
    for w in range(plan.wholes[s], plan.wholes[s + 1]):
        f = plan.whole[w]
        if plan.kind[f] != COUNT:
            scope = plan.scope[plan.scope_at[f] : plan.scope_at[f + 1]]
            scopes.append((int(plan.entry_at[f]), scope))
    return scopes


def _agreement_rows(
    scopes: list[tuple[int, np.ndarray]],
    n_states: np.ndarray,
    state_at: np.ndarray,
    n: int,
    row: int,
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], int]:
    """Rows, columns and values of the constraints that tables have the marginals of variables."""
    rows, columns, values = [], [], []
    for first_entry, scope in scopes:
        sizes = tuple(int(k) for k in n_states[scope])
        index = np.indices(sizes).reshape(len(sizes), -1)
        entries = n + first_entry + np.arange(index.shape[1])
        for place, v in enumerate(scope):
            # The last state of all but the first variable follows from the other rows.
            k = sizes[place] - (place > 0)
            keep = index[place] < k
            rows += [row + index[place][keep], row + np.arange(k)]
            columns += [entries[keep], state_at[v] + np.arange(k)]
            values += [np.ones(keep.sum()), np.full(k, -1.0)]
            row += k
    return rows, columns, values, row


def constraints(plan: Plan, s: int) -> tuple[coo_array, np.ndarray, np.ndarray]:
    """Local polytope of a shape: ``lower <= matrix @ mu <= upper``; states first, then entries."""
    span = slice(plan.variables[s], plan.variables[s + 1])
    n_states, state_at = plan.n_states[span], plan.state_at[span]
    factors = slice(plan.factors[s], plan.factors[s + 1])
    n, n_entries = int(n_states.sum()), int(plan.n_entries[factors].sum())
    owner = np.repeat(np.arange(len(n_states)), n_states)
    scopes = _table_scopes(plan, s)
    rows, columns, values, row = _agreement_rows(scopes, n_states, state_at, n, len(n_states))
    lower = np.concatenate([np.ones(len(n_states)), np.zeros(row - len(n_states))])
    upper = lower.copy()
    counts = [f for f in range(factors.start, factors.stop) if plan.kind[f] == COUNT]
    for number, f in enumerate(counts):
        scope = plan.scope[plan.scope_at[f] : plan.scope_at[f + 1]]
        rows.append(np.full(len(scope), row + number))
        columns.append(state_at[scope] + 1)
        values.append(np.ones(len(scope)))
    lower = np.concatenate([lower, plan.low[counts]])
    upper = np.concatenate([upper, plan.high[counts]])
    i = np.concatenate([owner, *rows])
    j = np.concatenate([np.arange(n), *columns])
    x = np.concatenate([np.ones(n), *values])
    return coo_array((x, (i, j)), (len(lower), n + n_entries)), lower, upper


class LinearProgram:
    """The linear program of one shape of graph.

    The model is reused: a further call changes only its objective, and starts from the basis that
    was optimal before.

    Parameters
    ----------
    graphs : Graphs
    shape : int
        Index of the shape.
    warm : bool
        Whether to keep the basis; otherwise every call solves from scratch, presolve included.
    """

    def __init__(
        self, graphs: Graphs, shape: int = 0, *, warm: bool = True, plan: Plan | None = None
    ):
        self._highspy = require("highspy", "lp", "Decoding by linear programming")
        plan = make_plan(graphs) if plan is None else plan
        span = slice(graphs.variables[shape], graphs.variables[shape + 1])
        self.n_states = int(graphs.n_states[span].sum())
        self.warm = warm
        matrix, lower, upper = constraints(plan, shape)
        self._model = self._build(matrix.tocsc(), lower, upper)
        self._solver: Any = self._make_solver() if warm else None

    def _build(self, matrix: Any, lower: np.ndarray, upper: np.ndarray) -> Any:
        highspy = self._highspy
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = matrix.shape
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.zeros(matrix.shape[1])
        model.col_lower_ = np.zeros(matrix.shape[1])
        model.col_upper_ = np.full(matrix.shape[1], np.inf)
        model.row_lower_, model.row_upper_ = lower, upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = matrix.indptr
        model.a_matrix_.index_ = matrix.indices
        model.a_matrix_.value_ = matrix.data
        return model

    def _make_solver(self) -> Any:
        solver = self._highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("primal_feasibility_tolerance", 1e-9)
        solver.setOptionValue("dual_feasibility_tolerance", 1e-9)
        if self.warm:
            # Presolve would discard the basis. Dual simplex was up to three times as fast as primal
            # simplex, although only the objective changes.
            solver.setOptionValue("presolve", "off")
            solver.setOptionValue("solver", "simplex")
            solver.setOptionValue("simplex_strategy", 1)
        solver.passModel(self._model)
        return solver

    def solve(self, unary: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Optimal marginals of the states and the tables of one example, and their score."""
        solver = self._solver if self.warm else self._make_solver()
        cost = np.concatenate([unary, tables])
        solver.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        solver.run()
        status = solver.getModelStatus()
        if status != self._highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(
                "HiGHS did not solve the relaxation of a graph: "
                f"{solver.modelStatusToString(status)}. If it is infeasible, its counts contradict "
                "each other."
            )
        found = np.array(solver.getSolution().col_value)
        return found[: self.n_states], found[self.n_states :], float(found @ cost)


def relax(
    graphs: Graphs,
    unary: np.ndarray,
    tables: np.ndarray,
    *,
    warm: bool = True,
    plan: Plan | None = None,
) -> Relaxed:
    """Relaxation of every example over the local polytope, by HiGHS.

    Parameters
    ----------
    warm : bool
        Keep one model per shape of graph, and start from its last basis.
    """
    plan = make_plan(graphs) if plan is None else plan
    found = Relaxed(np.empty(len(unary)), np.empty(len(tables)), np.empty(len(graphs.shape)))
    programs: dict[int, LinearProgram] = {}
    for m in np.argsort(graphs.shape, kind="stable"):
        s = int(graphs.shape[m])
        if s not in programs:
            programs = {s: LinearProgram(graphs, s, warm=warm, plan=plan)}
        states = slice(graphs.first_state[m], graphs.first_state[m + 1])
        entries = slice(graphs.first_entry[m], graphs.first_entry[m + 1])
        found.unary[states], found.tables[entries], found.values[m] = programs[s].solve(
            unary[states], tables[entries]
        )
    return found
