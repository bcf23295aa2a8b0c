"""Clusters of three on factor graphs against a general convex solver and enumeration."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import steppers
from graph_models import PlainModel, make_problem, random_graph, random_truth
from maxmargin import FactorGraph, GraphLabeler, SoftAgreement
from maxmargin.graphs.clusters import with_triangles
from maxmargin.graphs.inference.decode import decode
from maxmargin.graphs.packing import pack_graphs, plan_layout
from maxmargin.solvers.loop import run


class Tighter(PlainModel):
    """The same with a distribution over the joint states of every ``order`` variables, whose
    marginals are those of their pairs."""

    def __init__(self, problem, order):
        super().__init__(problem)
        self.order = order

    def rules(self, mu):
        found, pairs = [], {}
        for start, sizes, members, m in self.entries:
            if len(sizes) == 2:
                pairs.setdefault((m, members[0][0], members[1][0]), (start, sizes))
        owners = {}
        for start, k, _ in self.unary:
            owners.setdefault(int(self.owner[start]), []).append((start, k))
        for m, variables in owners.items():
            for chosen in itertools.combinations(variables, min(self.order, len(variables))):
                places = [start for start, _ in chosen]
                sizes = [k for _, k in chosen]
                inside = [
                    (places.index(a), places.index(b), at)
                    for (n, a, b), (at, _) in pairs.items()
                    if n == m and a in places and b in places
                ]
                if self.order == 3 and len(inside) < 3:
                    continue
                joint = cp.Variable(int(np.prod(sizes)), nonneg=True)
                index = np.indices(sizes).reshape(len(sizes), -1)
                for a, b, at in inside:
                    state = index[a] * sizes[b] + index[b]
                    pick = np.zeros((sizes[a] * sizes[b], len(state)))
                    pick[state, np.arange(len(state))] = 1.0
                    found.append(pick @ joint == mu[at : at + len(pick)])
                for axis, (at, k) in enumerate(chosen):
                    pick = (index[axis] == np.arange(k)[:, None]).astype(float)
                    found.append(pick @ joint == mu[at : at + k])
        return found


def frustrated(kind, seed=0, n=3, n_variables=4, n_states=2, **options):
    """Graphs whose truth is at odds with what their pairs prefer, so that cycles matter."""
    rng = np.random.RandomState(seed)
    graphs = [
        random_graph(rng, kind=kind, n_variables=n_variables, n_states=n_states) for _ in range(n)
    ]
    return make_problem(graphs, [random_truth(rng, graph) for graph in graphs], **options)


def train(problem, passes=3000, tol=1e-8, **options):
    stepper = steppers.soft(problem, rng=np.random.RandomState(0), **options)
    return run(stepper, tol=tol, max_iter=passes, check_every=max(1, passes // 20))


@pytest.mark.parametrize(
    ("kind", "n_states", "max_min"),
    [("pairs", 2, False), ("pairs", 3, True), ("both on", 2, True), ("potts", 3, False),
     ("count", 2, False)],
)  # fmt: skip
def test_optimum_against_a_convex_solver(kind, n_states, max_min):
    problem = frustrated(kind, n_states=n_states, max_min=max_min, alpha=0.02)
    local, _ = PlainModel(problem).solve()
    tighter, _ = Tighter(problem, 3).solve()
    exact, _ = Tighter(problem, 4).solve()
    result = train(problem, clusters="triangles")
    assert exact - 1e-7 <= tighter <= local + 1e-7
    if kind in ("pairs", "both on"):
        assert tighter < 0.95 * local
    assert result.dual <= tighter + 1e-7
    assert result.primal >= tighter - 1e-7
    assert result.primal - tighter <= 1e-5
    assert tighter - result.dual <= 1e-5


def labelling_scores(graph, unary, tables):
    """Scores of all labellings of a graph of pairs, by enumeration."""
    edges = graph.blocks[0].variables
    k = int(graph.n_states[0])
    tables, unary = tables.reshape(len(edges), k, k), unary.reshape(-1, k)
    for y in itertools.product(range(k), repeat=graph.n_variables):
        pairs = sum(table[y[u], y[v]] for table, (u, v) in zip(tables, edges))
        yield pairs + sum(row[state] for row, state in zip(unary, y))


@pytest.mark.parametrize("n_states", [2, 3])
def test_bounds_of_labellings_against_enumeration(n_states):
    rng = np.random.RandomState(n_states)
    edges = list(itertools.combinations(range(4), 2)) + [(4, 3), (5, 4), (0, 5)]
    edges[1] = edges[1][::-1]  # pairs may be in any order
    graphs = [FactorGraph(np.zeros((6, 1)), n_states).add_tables(edges) for _ in range(20)]
    packed, _ = pack_graphs(graphs, plan_layout(graphs))
    unary = 0.1 * rng.randn(int(packed.first_state[-1]))
    # Neighbours prefer different states: with two states all triangles are frustrated.
    repel = -np.tile(np.eye(n_states).ravel(), len(edges) * len(graphs))
    tables = repel + 0.3 * rng.randn(len(repel))
    found = decode(packed, unary, tables, "triangles")
    local = decode(packed, unary, tables, "dual-decomposition")
    per = len(tables) // len(graphs), len(unary) // len(graphs)
    for m, graph in enumerate(graphs):
        own = unary[m * per[1] :][: per[1]], tables[m * per[0] :][: per[0]]
        best = max(labelling_scores(graph, *own))
        assert found.values[m] - 1e-9 <= best <= found.bounds[m] + 1e-9
    lower = (local.bounds - found.bounds)[local.bounds > local.values]
    assert len(lower) > 5 and np.mean(lower) > 0.05
    assert np.mean(found.bounds == found.values) >= np.mean(local.bounds == local.values)


def test_frustrated_triangle_is_solved():
    graph = FactorGraph(np.zeros((3, 1)), 2).add_tables([(0, 1), (1, 2), (2, 0)])
    packed, _ = pack_graphs([graph], plan_layout([graph]))
    tables = np.tile([0.0, 1.0, 1.0, 0.0], 3)  # at most two of three neighbours differ
    found = decode(packed, np.zeros(6), tables, "triangles")
    local = decode(packed, np.zeros(6), tables, "dual-decomposition")
    assert local.bounds[0] == pytest.approx(3.0)
    assert found.bounds[0] == found.values[0] == pytest.approx(2.0)


def test_cycles_without_a_chord_have_no_cluster():
    graph = FactorGraph(np.zeros((4, 1)), 2).add_tables([(0, 1), (1, 2), (2, 3), (3, 0)])
    packed, _ = pack_graphs([graph], plan_layout([graph]))
    assert with_triangles(packed).n_variables == 4


def test_what_clusters_need_is_said():
    edges = [(0, 1), (1, 2), (0, 2)]
    X, y = [(np.eye(3), edges)], [[0, 1, 0]]
    model = GraphLabeler(solver=SoftAgreement(clusters="triangles", steps="frank-wolfe"))
    with pytest.raises(ValueError, match="steps='exact'"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="clusters must be one of 'triangles'"):
        GraphLabeler(solver=SoftAgreement(clusters="cycles")).fit(X, y)
    chain = FactorGraph(np.eye(3), 2).add_chain([0, 1, 2])
    model = GraphLabeler().fit([chain], y)
    with pytest.raises(ValueError, match="needs graphs whose factors are tables"):
        model.decode([chain], method="triangles")
