"""Decoding of factor graphs: against enumeration, and the relaxation against HiGHS."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from marks import more, split
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.graph import COUNT, TABLE
from maxmargin.graphs.inference import linear_program
from maxmargin.graphs.inference.decode import METHODS, decode
from maxmargin.graphs.inference.linear_program import relax
from maxmargin.graphs.inference.plan import BINARY, FOREST, PAIRWISE, make_plan
from maxmargin.graphs.packing import pack_graphs, plan_layout
from roof import roof_duality


def packed(graphs):
    return pack_graphs(graphs, plan_layout(graphs))[0]


def graph_of(states):
    states = [int(k) for k in states]
    return FactorGraph(np.zeros((len(states), 1)), states, groups=states)


def add_pair(graph, i, j):
    k = graph.n_states
    return graph.add_tables([(i, j)], group=("pair", int(k[i]), int(k[j])))


def random_scores(graphs, random, scale=1.0):
    return (
        random.randn(graphs.first_state[-1]),
        scale * random.randn(graphs.first_entry[-1]),
    )


def score(graph, unary, tables, labels):
    """Score of a labelling, from the user's description of the graph alone."""
    state_at = np.cumsum(graph.n_states) - graph.n_states
    total, at = unary[state_at + labels].sum(), 0
    for block in graph.blocks:
        for variables in block.variables:
            if block.kind == COUNT:
                if not block.low <= labels[variables].sum() <= block.high:
                    return -np.inf
            elif block.parents is None:
                sizes = tuple(graph.n_states[variables])
                table = tables[at : at + int(np.prod(sizes))].reshape(sizes)
                total += table[tuple(labels[variables])]
                at += table.size
            else:
                for child, parent in enumerate(block.parents):
                    if parent >= 0:
                        a, b = variables[child], variables[parent]
                        k = graph.n_states[b]
                        total += tables[at + labels[a] * k + labels[b]]
                        at += graph.n_states[a] * k
    return total


def best_scores(users, graphs, unary, tables):
    """The largest score of each graph, by trying all labellings."""
    found = []
    for m, graph in enumerate(users):
        own = unary[graphs.first_state[m] : graphs.first_state[m + 1]]
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        every = itertools.product(*(range(k) for k in graph.n_states))
        found.append(max(score(graph, own, entries, np.array(y)) for y in every))
    return np.array(found)


def check(users, graphs, unary, tables, decoded, truth, exact):
    """Values are those of the labels; nothing beats the bounds; exact methods are exact."""
    for m, graph in enumerate(users):
        own = unary[graphs.first_state[m] : graphs.first_state[m + 1]]
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        labels = decoded.labels[graphs.first_variable[m] : graphs.first_variable[m + 1]]
        assert (labels >= 0).all() and (labels < graph.n_states).all()
        np.testing.assert_allclose(decoded.values[m], score(graph, own, entries, labels), atol=1e-9)
    assert (decoded.bounds >= truth - 1e-9).all()
    assert (decoded.values <= truth + 1e-9).all()
    proven = decoded.bounds == decoded.values
    np.testing.assert_allclose(decoded.values[proven], truth[proven], atol=1e-8)
    if exact:
        assert proven.all()


def random_forest(random):
    n = random.randint(1, 7)
    graph = graph_of(random.randint(1, 4, n))
    for v in range(1, n):
        if random.rand() < 0.8:
            ends = [v, random.randint(v)]
            random.shuffle(ends)
            add_pair(graph, *ends)
    if random.rand() < 0.5:
        graph.add_tables([(0,)], group=("single", int(graph.n_states[0])))
    return graph


def random_binary(random, density=0.6, fewest=1):
    n = random.randint(fewest, 9)
    graph = graph_of([2] * n)
    for i, j in itertools.combinations(range(n), 2):
        if random.rand() < density:
            graph.add_tables([(i, j) if random.rand() < 0.5 else (j, i)], group="pair")
    if random.rand() < 0.3:
        graph.add_tables([(n - 1,)], group="single")
    return graph


def random_graph(random):
    """Pairs, tables over three variables, counts and trees, with any numbers of states."""
    n = random.randint(2, 7)
    states = random.randint(1, 4, n) if random.rand() < 0.5 else np.full(n, 2)
    graph = graph_of(states)
    for i, j in itertools.combinations(range(n), 2):
        if random.rand() < 0.4:
            add_pair(graph, j, i)
    if n >= 3 and random.rand() < 0.6:
        scope = random.permutation(n)[:3]
        graph.add_tables([scope], group=("triple", *states[scope].tolist()))
    binary = np.flatnonzero(states == 2)
    for _ in range(random.randint(3)):
        if len(binary) > 1:
            scope = random.permutation(binary)[: random.randint(2, len(binary) + 1)]
            graph.add_count(scope, at_least=1, at_most=random.randint(1, len(scope) + 1))
    if len(binary) > 2 and random.rand() < 0.5:
        graph.add_chain(random.permutation(binary)[:3], group="chain")
    return graph


def attract(graphs, tables):
    """Make every table over two binary variables prefer equal states."""
    tables = tables.reshape(-1, 4).copy()
    lack = np.maximum(0.0, tables[:, 1] + tables[:, 2] - tables[:, 0] - tables[:, 3])
    tables[:, 0] += lack * (1 + 1e-9)
    return tables.ravel()


@pytest.mark.parametrize("method", ["tree", "auto", "exhaustive", "dual-decomposition"])
def test_forests_are_decoded_exactly(method):
    random = np.random.RandomState(0)
    users = [random_forest(random) for _ in range(80)]
    graphs = packed(users)
    assert (make_plan(graphs).traits & FOREST).all()
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    check(users, graphs, unary, tables, decode(graphs, unary, tables, method), truth, True)


@pytest.mark.parametrize("method", ["max-flow", "auto"])
def test_attractive_binary_graphs_are_decoded_exactly(method):
    random = np.random.RandomState(1)
    users = [random_binary(random) for _ in range(80)]
    users = [u for u in users if not any(b.variables.shape[1] == 1 for b in u.blocks)]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    tables = attract(graphs, tables)
    truth = best_scores(users, graphs, unary, tables)
    check(users, graphs, unary, tables, decode(graphs, unary, tables, method), truth, True)


@pytest.mark.parametrize("scale", [1.0, more(0.3), more(3.0)])
def test_binary_graphs_are_decoded_exactly_by_roof_duality_and_branching(scale):
    random = np.random.RandomState(2)
    users = [random_binary(random, 0.9, fewest=6) for _ in range(60)]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random, scale)
    truth = best_scores(users, graphs, unary, tables)
    check(users, graphs, unary, tables, decode(graphs, unary, tables), truth, True)
    if scale == 3.0:  # some relaxations are open, so that branching had work to do
        assert (roof_duality(graphs, unary, tables).values > truth + 1e-6).mean() > 0.2


@pytest.mark.parametrize("max_nodes", [1, 5, 12, 40])
def test_branching_that_is_cut_short_has_true_bounds(max_nodes):
    random = np.random.RandomState(12)
    users = [graph_of([2] * 12).add_tables(list(itertools.combinations(range(12), 2)))] * 40
    graphs = packed(users)
    unary, tables = random_scores(graphs, random, 2.0)
    truth = decode(graphs, unary, tables, "exhaustive").values
    found = decode(graphs, unary, tables, max_nodes=max_nodes)
    check(users, graphs, unary, tables, found, truth, False)
    if 1 < max_nodes < 40:
        assert (found.bounds > found.values).any()  # it was cut short


@pytest.mark.parametrize("scale", [1.0, more(0.3), more(3.0)])
def test_roof_duality_solves_the_relaxation(scale):
    random = np.random.RandomState(3)
    users = [random_binary(random, 0.8) for _ in range(200)]
    graphs = packed(users)
    plan = make_plan(graphs)
    unary, tables = random_scores(graphs, random, scale)
    tables[::7] = np.round(tables[::7])  # ties
    found = roof_duality(graphs, unary, tables)
    wanted = relax(graphs, unary, tables)
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-8)
    assert set(np.unique(found.unary)) <= {0.0, 0.5, 1.0}
    for m in range(graphs.n_examples):
        states = slice(graphs.first_state[m], graphs.first_state[m + 1])
        entries = slice(graphs.first_entry[m], graphs.first_entry[m + 1])
        marginals = np.concatenate([found.unary[states], found.tables[entries]])
        scores = np.concatenate([unary[states], tables[entries]])
        matrix, lower, upper = linear_program.constraints(plan, graphs.shape[m])
        assert (marginals >= 0).all()
        assert (matrix @ marginals >= lower - 1e-12).all()
        assert (matrix @ marginals <= upper + 1e-12).all()
        np.testing.assert_allclose(scores @ marginals, found.values[m], atol=1e-9)


def test_relaxation_warm_equals_cold_and_bounds_every_labelling():
    random = np.random.RandomState(4)
    users = [random_graph(random) for _ in range(40)]
    users += [users[0]] * 5 + [users[1]] * 5
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    feasible = np.isfinite(truth)
    users = [u for u, keep in zip(users, feasible, strict=True) if keep]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    warm = relax(graphs, unary, tables)
    cold = relax(graphs, unary, tables, warm=False)
    np.testing.assert_allclose(warm.values, cold.values, atol=1e-8)
    assert (warm.values >= truth - 1e-8).all()


@pytest.mark.parametrize(
    "method", split(sorted({*METHODS} - {"tree", "max-flow"}), {*METHODS} - {"auto"})
)
def test_any_graph_against_enumeration(method):
    random = np.random.RandomState(5)
    users = [random_graph(random) for _ in range(120)]
    if method == "triangles":  # for tables alone
        users = [graph for graph in users if (packed([graph]).kind == TABLE).all()]
        assert len(users) > 10
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    users = [u for u, keep in zip(users, np.isfinite(truth), strict=True) if keep]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    found = decode(graphs, unary, tables, method)
    check(users, graphs, unary, tables, found, truth, method in ("auto", "exhaustive"))
    assert np.isfinite(found.values).mean() >= 0.95  # counts are respected
    if method in ("lp", "dual-decomposition"):
        assert (found.bounds == found.values).mean() > 0.6
        assert (found.values >= truth - 1e-9).mean() > 0.85


def test_bounds_of_the_dual_decomposition_fall_to_the_relaxation():
    random = np.random.RandomState(6)
    users = [random_graph(random) for _ in range(60)]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    feasible = np.isfinite(best_scores(users, graphs, unary, tables))
    users = [u for u, keep in zip(users, feasible, strict=True) if keep]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    runs = [
        decode(graphs, unary, tables, "dual-decomposition", max_sweeps=sweeps).bounds
        for sweeps in (1, 3, 10, 200)
    ]
    for earlier, later in itertools.pairwise(runs):
        assert (later <= earlier + 1e-9).all()
    relaxed = relax(graphs, unary, tables).values
    assert (runs[-1] >= relaxed - 1e-7).all()
    assert (runs[-1] <= relaxed + 1e-3).mean() > 0.8


def test_a_tree_factor_is_the_sum_of_its_pairs():
    random = np.random.RandomState(7)
    whole = [graph_of([3] * 6).add_chain([4, 0, 2, 5]) for _ in range(5)]
    pairs = []
    for graph in whole:
        other = graph_of([3] * 6)
        block = graph.blocks[0]
        for child, parent in enumerate(block.parents):
            if parent >= 0:
                ends = (block.variables[0, child], block.variables[0, parent])
                other.add_tables([ends], group="pair")
        pairs.append(other)
    graphs, others = packed(whole), packed(pairs)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(whole, graphs, unary, tables)
    for method in ("auto", "tree", "lp", "dual-decomposition"):
        found = decode(graphs, unary, tables, method)
        check(whole, graphs, unary, tables, found, truth, True)
        np.testing.assert_array_equal(found.labels, decode(others, unary, tables, method).labels)


def test_assignments_by_counts():
    random = np.random.RandomState(8)
    for n in (2, 4, 6):
        cells = np.arange(n * n).reshape(n, n)
        graph = FactorGraph(np.zeros((n * n, 1)), 2)
        for line in [*cells, *cells.T]:
            graph.add_count(line, at_least=1, at_most=1)
        graphs = packed([graph])
        gains = random.randn(n, n)
        unary = np.stack([np.zeros(n * n), gains.ravel()], axis=1).ravel()
        rows, columns = linear_sum_assignment(gains, maximize=True)
        best = gains[rows, columns].sum()
        found = decode(graphs, unary, np.empty(0), "lp")
        np.testing.assert_allclose([found.values[0], found.bounds[0]], best, atol=1e-8)
        found = decode(graphs, unary, np.empty(0), "dual-decomposition")
        assert found.labels.reshape(n, n).sum(axis=0).tolist() == [1] * n
        assert found.labels.reshape(n, n).sum(axis=1).tolist() == [1] * n
        assert found.values[0] <= best + 1e-9 <= found.bounds[0] + 2e-9


def grid_edges(n):
    number = np.arange(n * n).reshape(n, n)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return np.concatenate([across, down])


@pytest.mark.more
def test_a_hundred_thousand_variables():
    random = np.random.RandomState(9)
    n = 316
    edges = grid_edges(n)
    graphs = packed([FactorGraph(np.zeros((n * n, 1)), 2).add_tables(edges)])
    unary, tables = random_scores(graphs, random)
    attractive = decode(graphs, unary, attract(graphs, tables))
    assert attractive.values[0] == attractive.bounds[0]
    mixed = decode(graphs, unary, tables)
    relaxed = roof_duality(graphs, unary, tables)
    assert mixed.values[0] <= mixed.bounds[0] <= relaxed.values[0]
    assert mixed.values[0] > 0.99 * relaxed.values[0]
    quick = decode(graphs, unary, tables, "dual-decomposition", max_sweeps=2)
    assert quick.bounds[0] >= mixed.values[0] >= quick.values[0] - 1e-6
    parents = (random.rand(n * n - 1) * np.arange(1, n * n)).astype(int)
    tree = np.stack([np.arange(1, n * n), parents], axis=1)
    path = np.stack([np.arange(1, n * n), np.arange(n * n - 1)], axis=1)
    for links in (tree, path):
        graphs = packed([FactorGraph(np.zeros((n * n, 1)), 3).add_tables(links)])
        unary, tables = random_scores(graphs, random)
        found = decode(graphs, unary, tables)
        assert found.values[0] == found.bounds[0]
        improved = decode(graphs, unary, tables, "local-search")
        assert improved.values[0] <= found.values[0] <= improved.bounds[0]


@pytest.mark.parametrize("method", METHODS)
def test_graphs_without_factors(method):
    users = [graph_of([2]), graph_of([2, 2, 2]), graph_of([2, 2]).add_tables([])]
    graphs = packed(users)
    unary = np.array([1.0, 2.0, 3.0, 0.0, -1.0, -2.0, 0.0, 5.0, 1.0, 0.0, 0.0, 4.0])
    found = decode(graphs, unary, np.empty(0), method)
    assert found.labels.tolist() == [1, 0, 0, 1, 0, 1]
    np.testing.assert_allclose(found.values, [2.0, 7.0, 5.0])
    np.testing.assert_array_equal(found.bounds, found.values)


def test_isolated_variables_and_single_states():
    random = np.random.RandomState(10)
    users = [add_pair(graph_of([2, 1, 3, 2]), 0, 3), graph_of([1])]
    users.append(add_pair(graph_of([2, 1]), 1, 0))
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    truth = best_scores(users, graphs, unary, tables)
    for method in ("auto", "lp", "dual-decomposition", "exhaustive"):
        check(users, graphs, unary, tables, decode(graphs, unary, tables, method), truth, True)


def test_threads_change_nothing():
    random = np.random.RandomState(11)
    users = [random_graph(random) for _ in range(30)] + [random_binary(random) for _ in range(30)]
    graphs = packed(users)
    unary, tables = random_scores(graphs, random)
    for method in ("auto", "dual-decomposition", "local-search"):
        one, three = (decode(graphs, unary, tables, method, n_jobs=jobs) for jobs in (1, 3))
        for a, b in zip(one, three, strict=True):
            np.testing.assert_array_equal(a, b)


def test_traits_of_shapes():
    triangle = graph_of([2, 2, 2]).add_tables([(0, 1), (1, 2), (0, 2)])
    counted = graph_of([2, 2]).add_count([0, 1], at_most=1)
    forest = add_pair(graph_of([2, 3]), 0, 1)
    twice = add_pair(add_pair(graph_of([3, 3]), 0, 1), 1, 0)
    traits = make_plan(packed([triangle, counted, forest, twice])).traits
    assert traits.tolist() == [PAIRWISE | BINARY, BINARY, PAIRWISE | FOREST, PAIRWISE]


def test_bad_input_is_refused():
    triangle = graph_of([2, 2, 2]).add_tables([(0, 1), (1, 2), (0, 2)])
    graphs = packed([graph_of([2]), triangle])
    unary, tables = np.zeros(8), np.tile([0.0, 1.0, 1.0, 0.0], 3)
    with pytest.raises(ValueError, match=r"unary must have shape \(8,\)"):
        decode(graphs, unary[1:], tables)
    with pytest.raises(ValueError, match="tables of graph 1 contain nan"):
        decode(graphs, unary, np.full(12, np.nan))
    with pytest.raises(ValueError, match='"tree" cannot decode graph 1'):
        decode(graphs, unary, tables, "tree")
    with pytest.raises(ValueError, match='"max-flow" cannot decode graph 1'):
        decode(graphs, unary, tables, "max-flow")
    with pytest.raises(ValueError, match='"exhaustive" cannot decode graph 0'):
        decode(packed([graph_of([2] * 21)]), np.zeros(42), np.empty(0), "exhaustive")
    with pytest.raises(ValueError, match="method must be one of"):
        decode(graphs, unary, tables, "best")
    counts = graph_of([2, 2]).add_count([0, 1], at_least=2).add_count([0, 1], at_most=0)
    with pytest.raises(RuntimeError, match="counts contradict"):
        relax(packed([counts]), np.zeros(4), np.empty(0))


def test_without_highspy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "highspy", None)
    graphs = packed([graph_of([2])])
    with pytest.raises(ImportError, match=r"pip install \"maxmargin\[lp\]\""):
        decode(graphs, np.zeros(2), np.empty(0), "lp")
    assert decode(graphs, np.array([0.0, 1.0]), np.empty(0)).labels.tolist() == [1]
