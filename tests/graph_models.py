"""Factor graphs written out in plain Python and given to a general convex solver."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np

from maxmargin.features.rows import pack_rows
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.graph import COUNT, TABLE, TREE
from maxmargin.graphs.packing import pack_graphs, plan_layout
from maxmargin.graphs.problem import GraphProblem

# Ties of the four entries of a table of two binary variables.
TIES = {"own tables": "full", "both on": [-1, -1, -1, 0], "own ties": [1, 0, 0, 1],
        "own potts": "potts"}  # fmt: skip


def random_graph(rng, *, n_variables=4, n_states=2, kind="pairs", n_features=2, edge_features=0):
    """A small graph of one of several kinds."""
    graph = FactorGraph(rng.randn(n_variables, n_features), n_states)
    pairs = list(itertools.combinations(range(n_variables), 2))
    edges = [pairs[i] for i in rng.permutation(len(pairs))[: max(1, len(pairs) - 1)]]
    features = rng.randn(len(edges), edge_features) if edge_features else None
    if kind == "pairs":
        graph.add_tables(edges, features)
    elif kind == "potts":
        graph.add_tables(edges, features, tie="potts")
    elif kind in TIES:
        for a, b in sorted(edges):
            graph.add_tables([(a, b)], group=(a, b), tie=TIES[kind])
    elif kind == "triples":
        graph.add_tables([(0, 1, 2)], group="triple").add_tables(edges)
    elif kind == "count":
        graph.add_tables(edges).add_count(range(n_variables), at_least=1, at_most=2)
    elif kind == "tree":
        graph.add_tree([(i, i + 1) for i in range(n_variables - 1)])
        graph.add_tables([(0, n_variables - 1)])
    elif kind == "chain":
        graph.add_chain(range(n_variables))
    elif kind == "path":
        graph.add_tables([(i, i + 1) for i in range(n_variables - 1)])
    return graph


def random_truth(rng, graph):
    """States that respect all counts."""
    while True:
        y = np.array([rng.randint(k) for k in graph.n_states])
        if all(
            block.low <= y[block.variables[0]].sum() <= block.high
            for block in graph.blocks
            if block.kind == COUNT
        ):
            return y


def make_problem(graphs, ys, *, alpha=0.1, weights=None, max_min=False, costs=None):
    """The packed problem of some graphs, mean Hamming loss."""
    layout = plan_layout(graphs)
    packed, features = pack_graphs(graphs, layout)
    X = np.concatenate([np.atleast_2d(graph.features) for graph in graphs])
    if costs is None:
        costs = np.concatenate([np.full(len(y), 1.0 / len(y)) for y in ys])
    return GraphProblem(
        packed, pack_rows(X, fit_intercept=True), features, np.concatenate(ys), costs,
        alpha=alpha, sample_weight=np.ones(len(ys)) if weights is None else weights,
        max_min=max_min,
    )  # fmt: skip


def small_problem(kind="pairs", *, seed=0, n=5, alpha=0.1, max_min=False, **options):
    """Some random graphs with weights."""
    rng = np.random.RandomState(seed)
    graphs = [random_graph(rng, kind=kind, **options) for _ in range(n)]
    truth = [random_truth(rng, graph) for graph in graphs]
    weights = rng.uniform(0.5, 2.0, n)
    return make_problem(graphs, truth, alpha=alpha, weights=weights, max_min=max_min)


def dense_rows(problem):
    rows = problem.rows
    n = len(rows.squares)
    return np.hstack([rows.values, np.full((n, 1), rows.bias)])


class PlainModel:
    """Parts, features and constraints of all examples as matrices."""

    def __init__(self, problem: GraphProblem):
        g, self.problem = problem.graphs, problem
        X = dense_rows(problem)
        n_unary = problem.n_unary
        self.unary, self.entries, self.slots, self.counts = [], [], [], []
        columns = []  # feature vector of each part
        truth = []  # indicator of the true parts
        owner = []
        for m in range(g.n_examples):
            s = g.shape[m]
            base = g.variables[s]
            y = problem.truth[g.first_variable[m] : g.first_variable[m + 1]]
            place = {}
            for a in range(base, g.variables[s + 1]):
                start = len(columns)
                for j in range(g.n_states[a]):
                    w = np.zeros(problem.n_weights)
                    block = w[:n_unary].reshape(-1, g.n_columns)
                    if j >= g.scored_from[a]:
                        block[:, g.column[a] + j] = X[g.first_row[m] + g.row_step[a]]
                    columns.append(w)
                    truth.append(float(j == y[a - base]))
                    owner.append(m)
                place[a - base] = (start, int(g.n_states[a]))
                self.unary.append((start, int(g.n_states[a]), g.first_variable[m] + a - base))
            for f in range(g.factors[s], g.factors[s + 1]):
                scope = [int(v) for v in g.scope[g.scope_at[f] : g.scope_at[f + 1]]]
                if g.kind[f] == COUNT:
                    self.counts.append(([place[v][0] + 1 for v in scope], g.low[f], g.high[f]))
                    continue
                step = g.factor_step[f]
                z = problem.features[g.first_factor_row[m] + step if step else 0]
                tables = [(0, scope)]
                if g.kind[f] == TREE:
                    begin = g.scope_at[f]
                    tables = [
                        (int(g.edge_entry[begin + r]), [scope[r], scope[g.parent[begin + r]]])
                        for r in range(len(scope))
                        if g.parent[begin + r] >= 0
                    ]
                for first, members in tables:
                    start = len(columns)
                    sizes = [place[v][1] for v in members]
                    for e, states in enumerate(itertools.product(*[range(k) for k in sizes])):
                        w = np.zeros(problem.n_weights)
                        tie = first + e
                        if g.tie_at[f] >= 0:
                            tie = g.ties[g.tie_at[f] + first + e]
                        if tie >= 0:
                            w[n_unary:].reshape(-1, g.n_factor_columns)[
                                :, g.factor_column[f] + tie
                            ] = z
                        columns.append(w)
                        truth.append(float(all(y[v] == j for v, j in zip(members, states))))
                        owner.append(m)
                    self.entries.append((start, sizes, [place[v] for v in members], m))
        self.features = np.array(columns).T  # (n_weights, n_parts)
        self.truth = np.array(truth)
        self.owner = np.array(owner)
        self.n_parts = len(columns)

    def _concave(self, mu):
        p = self.problem
        total = 0.0
        example = np.repeat(np.arange(p.n_examples), np.diff(p.graphs.first_variable))
        for start, k, v in self.unary:
            weight = p.costs[v] * p.sample_weight[example[v]] / p.total_weight
            belief = mu[start : start + k]
            sure = cp.max(belief) if p.max_min else belief[int(p.truth[v])]
            total = total + weight * (1.0 - sure)
        return total

    def _weights(self, mu):
        p = self.problem
        scale = p.scales[self.owner]
        return (self.features * scale) @ (self.truth - mu)

    def marginal(self, mu, entry, axis):
        start, sizes, _, _ = entry
        index = np.indices(sizes).reshape(len(sizes), -1)
        pick = np.zeros((sizes[axis], len(index[0])))
        pick[index[axis], np.arange(len(index[0]))] = 1.0
        return pick @ mu[start : start + len(index[0])]

    def rules(self, mu):
        """Further constraints."""
        return []

    def solve(self, *, kappa=None, sigma=0.0):
        """Optimal value of the hard (kappa None) or soft dual, with its weights."""
        p = self.problem
        mu = cp.Variable(self.n_parts, nonneg=True)
        rules = [cp.sum(mu[start : start + k]) == 1 for start, k, _ in self.unary]
        value = self._concave(mu) - 0.5 * p.alpha * cp.sum_squares(self._weights(mu))
        for entry in self.entries:
            start, sizes, members, m = entry
            size = int(np.prod(sizes))
            rules.append(cp.sum(mu[start : start + size]) == 1)
            share = p.sample_weight[m] / p.total_weight
            for axis, (at, k) in enumerate(members):
                off = self.marginal(mu, entry, axis) - mu[at : at + k]
                if kappa is None:
                    rules.append(off == 0)
                else:
                    value = value - 0.5 * kappa * share * cp.sum_squares(off)
        for places, low, high in self.counts:
            assert kappa is None
            total = sum(mu[i] for i in places)
            rules += [total >= low, total <= high]
        rules += self.rules(mu)
        if sigma:
            share = p.sample_weight[self.owner] / p.total_weight
            value = value - 0.5 * sigma * cp.sum(cp.multiply(share, cp.square(mu)))
        problem = cp.Problem(cp.Maximize(value), rules)
        problem.solve(solver="CLARABEL")
        assert problem.status == "optimal"
        return float(problem.value), self._weights(mu.value)


__all__ = ["COUNT", "TABLE", "TREE", "PlainModel", "make_problem", "random_graph", "random_truth"]
