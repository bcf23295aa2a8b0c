"""Clusters of three on factor graphs against a general convex solver and enumeration."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import steppers
from graph_models import PlainModel, make_problem, random_graph, random_truth
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.solvers.loop import run

KINDS = ("pairs", "both on", "potts", "count")


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
    print(kind, local, tighter, exact, result.primal, result.dual)
    assert result.dual <= tighter + 1e-7
    assert result.primal >= tighter - 1e-7
    assert result.primal - tighter <= 1e-5
    assert tighter - result.dual <= 1e-5
