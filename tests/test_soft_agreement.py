"""Training on factor graphs against a general convex solver, and against itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import steppers
from graph_models import PlainModel, make_problem, random_graph, random_truth
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.packing import pack_graphs, plan_layout
from maxmargin.graphs.soft import SoftAgreement
from maxmargin.graphs.soft_bounds import curvature, theorem_h
from maxmargin.solvers.loop import run

KINDS = ("pairs", "own tables", "both on", "own ties", "potts", "triples", "count", "tree", "chain")


def some_problem(kind, seed=0, n=3, n_states=2, edge_features=0, **options):
    rng = np.random.RandomState(seed)
    graphs = [
        random_graph(
            rng, kind=kind, n_variables=4 - (m == 1 and kind != "triples"), n_states=n_states,
            edge_features=edge_features,
        )
        for m in range(n)
    ]  # fmt: skip
    options.setdefault("weights", np.array([1.0, 2.0, 0.5])[:n])
    return make_problem(graphs, [random_truth(rng, graph) for graph in graphs], **options)


def train(problem, *, passes=3000, tol=1e-9, seed=0, **options):
    stepper = steppers.soft(problem, rng=np.random.RandomState(seed), **options)
    return stepper, run(stepper, tol=tol, max_iter=passes, check_every=max(1, passes // 20))


@pytest.mark.parametrize("max_min", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_hard_optimum_against_a_convex_solver(kind, max_min):
    problem = some_problem(kind, max_min=max_min)
    truth, weights = PlainModel(problem).solve()
    trees = kind in ("tree", "chain")
    options = {"rho": 10.0, "passes": 10_000} if trees else {}
    stepper, result = train(problem, **options)
    assert result.primal >= truth - 1e-7
    assert result.dual <= truth + 1e-7
    # Trees take plain Frank-Wolfe steps, whose last digits are slow.
    accuracy = 1e-4 if trees else 1e-6
    assert result.primal - truth <= accuracy
    assert truth - result.dual <= accuracy
    if accuracy == 1e-6:
        np.testing.assert_allclose(result.weights, weights, atol=2e-3)
    bounds = stepper.bounds()
    assert bounds["hard_gap"] == pytest.approx(result.gap, abs=1e-12)


@pytest.mark.parametrize("edge_features", [0, 2])
@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("kind", ["pairs", "potts"])
def test_soft_optimum_against_a_convex_solver(kind, n_states, edge_features):
    problem = some_problem(kind, n_states=n_states, edge_features=edge_features)
    truth, _ = PlainModel(problem).solve(kappa=0.5)
    _, result = train(problem, agreement="soft", rho=2.0)
    assert result.primal == pytest.approx(truth, abs=1e-6)
    assert result.dual == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("sigma", [0.05, 0.5])
def test_smoothed_soft_optimum_against_a_convex_solver(sigma):
    problem = some_problem("pairs", n_states=3)
    truth, _ = PlainModel(problem).solve(kappa=0.5, sigma=sigma)
    _, result = train(problem, agreement="soft", rho=2.0, smoothing=sigma)
    assert result.primal == pytest.approx(truth, abs=1e-6)
    assert result.dual == pytest.approx(truth, abs=1e-6)


def test_max_min_soft_optimum_against_a_convex_solver():
    problem = some_problem("pairs", n_states=3, max_min=True)
    truth, _ = PlainModel(problem).solve(kappa=0.5)
    _, result = train(problem, agreement="soft", rho=2.0)
    assert result.primal == pytest.approx(truth, abs=1e-6)
    assert result.dual == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("steps", ["exact", "frank-wolfe"])
@pytest.mark.parametrize("kind", KINDS)
def test_state_is_what_it_says_after_many_steps(kind, steps):
    problem = some_problem(kind)
    stepper = steppers.soft(
        problem, steps=steps, order="uniform", rng=np.random.RandomState(1), average=False
    )
    for _ in range(1000):
        stepper.advance(10.0, 3)
    beliefs = stepper.dual_state
    fresh = stepper.problem.weights_of(beliefs)
    np.testing.assert_allclose(stepper.dual_weights(), fresh, atol=1e-9)
    model = PlainModel(problem)
    # Marginals that the tables imply are those that are stored.
    g = stepper.problem.graphs
    entry = 0
    for m in range(g.n_examples):
        s = g.shape[m]
        for f in range(g.factors[s], g.factors[s + 1]):
            slots = range(g.scope_at[f], g.scope_at[f + 1])
            stored = {
                int(g.scope[z]): beliefs.implied[g.first_message[m] + g.message_at[z] :][:2]
                for z in slots
            }
            for values in stored.values():
                assert values.sum() == pytest.approx(1.0, abs=1e-9)
                assert values.min() >= -1e-12
            if g.kind[f] == 1:
                total = sum(values[1] for values in stored.values())
                assert g.low[f] - 1e-9 <= total <= g.high[f] + 1e-9
                continue
            first = g.first_mass[m] + g.mass_at[f]
            if g.n_mass[f] < g.n_entries[f]:  # of a Potts table, the mass on equal states
                p, q = stored.values()
                least = max(0.0, (p + q).max() - 1.0)
                assert least - 1e-9 <= beliefs.tables[first] <= np.minimum(p, q).sum() + 1e-9
                entry += 1
                continue
            mass = beliefs.tables[first : first + g.n_entries[f]]
            assert mass.min() >= 0.0
            n_tables = 1 if g.kind[f] == 0 else len(slots) - 1
            for part in np.split(mass, n_tables):
                _, sizes, members, _ = model.entries[entry]
                table = part.reshape(sizes)
                base = model.unary[g.first_variable[m]][0]
                for axis, (at, k) in enumerate(members):
                    others = tuple(i for i in range(len(sizes)) if i != axis)
                    variable = (at - base) // k
                    np.testing.assert_allclose(table.sum(axis=others), stored[variable], atol=1e-9)
                entry += 1


def test_dual_never_falls_with_exact_blocks_and_gap_is_positive():
    problem = some_problem("pairs", n_states=3, edge_features=1)
    for steps in ("exact", "frank-wolfe"):
        stepper = steppers.soft(
            problem, agreement="soft", rho=1.0, steps=steps, inertia=0.0, average=False,
            rng=np.random.RandomState(0),
        )  # fmt: skip
        last = -np.inf
        for _ in range(60):
            stepper.advance(10.0, 1)
            (_, found), *_ = stepper.check()
            assert found.dual >= last - 1e-12
            assert found.primal >= found.dual - 1e-12
            last = found.dual


@pytest.mark.parametrize("kind", ["pairs", "triples", "count", "tree"])
def test_hard_certificate_is_never_beyond_the_truth(kind):
    problem = some_problem(kind, alpha=0.02)
    truth, _ = PlainModel(problem).solve()
    stepper = steppers.soft(problem, rng=np.random.RandomState(0))
    duals = []
    for _ in range(80):
        stepper.advance(10.0, 3)
        for _, found in stepper.check():
            assert found.primal >= truth - 1e-7
            assert found.dual <= truth + 1e-7
        duals.append(stepper.bounds()["hard_dual"])
    assert np.all(np.diff(duals) >= -1e-12)  # mixtures with earlier points only help
    assert duals[-1] > duals[0]


def test_one_table_over_all_variables_is_the_exact_model():
    """With a table over everything the relaxation is tight: the structural SVM, by enumeration."""
    rng = np.random.RandomState(3)
    graphs = [FactorGraph(rng.randn(3, 2), 2).add_tables([(0, 1, 2)]) for _ in range(3)]
    ys = [rng.randint(0, 2, 3) for _ in graphs]
    problem = make_problem(graphs, ys, alpha=0.1)
    _, result = train(problem)
    matrix, table = problem.split(result.weights)
    total = 0.5 * problem.alpha * result.weights @ result.weights
    for graph, y in zip(graphs, ys, strict=True):
        scores = np.hstack([graph.features, np.ones((3, 1))]) @ matrix

        def value(states, scores=scores):
            return (
                scores[np.arange(3), states].sum()
                + table[0, 4 * states[0] + 2 * states[1] + states[2]]
            )

        best = max(
            value(np.array(states)) + np.mean(np.array(states) != y)
            for states in itertools.product((0, 1), repeat=3)
        )
        total += (best - value(y)) / 3
    assert result.primal == pytest.approx(total, abs=1e-6)


def test_a_tree_is_the_same_as_a_factor_and_as_pairs():
    rng = np.random.RandomState(0)
    Xs = [rng.randn(4, 2) for _ in range(3)]
    ys = [rng.randint(0, 3, 4) for _ in range(3)]
    pairs = [FactorGraph(X, 3).add_tables([(0, 1), (2, 1), (2, 3)]) for X in Xs]
    trees = [FactorGraph(X, 3).add_tree([(0, 1), (2, 1), (2, 3)]) for X in Xs]
    _, of_pairs = train(make_problem(pairs, ys))
    _, of_trees = train(make_problem(trees, ys))
    assert of_trees.primal == pytest.approx(of_pairs.primal, abs=1e-3)
    assert of_trees.primal >= of_pairs.dual - 1e-9
    assert of_trees.dual <= of_pairs.primal + 1e-9


def test_small_rho_tends_to_the_hard_optimum():
    problem = some_problem("pairs", n_states=3)
    truth, _ = PlainModel(problem).solve()
    excess = []
    state = None
    for rho in (1.0, 0.1, 0.01, 0.003):
        stepper, result = train(
            problem, agreement="soft", rho=rho, rounds=10, dual_state=state, tol=1e-4
        )
        state = stepper.dual_state
        bounds = stepper.bounds()
        # Theorem 4.1: the soft optimum is above the hard one, by no more than the bound.
        assert result.primal >= truth - 1e-7
        assert result.dual - bounds["agreement_bound"] <= truth
        assert bounds["hard_primal"] - truth <= bounds["hard_suboptimality"]
        excess.append((result.primal - truth) / truth)
    assert np.all(np.diff(excess) < 0)
    assert excess[-1] < 0.012
    # In the end in proportion to rho: it tends to zero.
    assert excess[-1] == pytest.approx(0.3 * excess[-2], rel=0.1)


def test_constants_of_theorem_4_1_by_hand():
    """``h = n (8 Y_max q (B R + L))^2`` as in the paper, worked out for two variables."""
    graph = FactorGraph([[2.0, 2.0], [1.0, 0.0]], 2).add_tables([(0, 1)])
    truth = np.array([0, 1])
    problem = make_problem([graph, graph], [truth, truth], alpha=0.5)
    # n = 2. Variables have Y_max = 2 states (the table's 4 entries do not count), and q = 3: two
    # variables and a factor. Each label costs 1/2: L = 1/2, and g(0) = 1/2 + 1/2, so that
    # B = sqrt(2 * 1 / 0.5) = 2. Features with the intercept: R = |(2, 2, 1)| = 3, above the 1 of
    # the table. h = 2 (8 * 2 * 3 * (2 * 3 + 1/2))^2 = 2 * 312^2.
    assert theorem_h(problem) == pytest.approx(2 * 312**2)
    stepper, _ = train(problem, agreement="soft", rho=0.01, passes=20)
    bounds = stepper.bounds()
    assert bounds["agreement_bound"] == pytest.approx(0.5 * 0.01 * 312**2)
    assert bounds["hard_suboptimality"] == pytest.approx(bounds["soft_gap"] + 0.005 * 312**2)
    # Smoothing lowers each of the q = 3 maxima by at most sigma/2.
    stepper, _ = train(problem, agreement="soft", rho=0.01, smoothing=0.1, passes=20)
    bounds = stepper.bounds()
    slack = bounds["hard_suboptimality"] - bounds["soft_gap"] - bounds["agreement_bound"]
    assert slack == pytest.approx(0.15)
    # As one factor, a chain of three edges has features of norm 3 where all entries are equal:
    # R = 3 rather than |(1, 1)|. q = 5, B = 2: h = (8 * 2 * 5 * (2 * 3 + 1/4))^2.
    chain = FactorGraph(np.ones((4, 1)), 2).add_chain(range(4))
    problem = make_problem([chain], [np.zeros(4, int)], alpha=0.5)
    assert theorem_h(problem) == pytest.approx(500.0**2)
    # A count forbids labellings: a score of minus infinity, for which the theorem says nothing.
    counted = FactorGraph(np.ones((4, 1)), 2).add_count(range(4), at_most=2)
    assert theorem_h(make_problem([counted], [np.zeros(4, int)])) == np.inf


def test_bounds_of_algorithm_1_by_hand_and_after_training():
    """Theorem 5.1 and its corollaries: two variables, a factor, two examples of weights 1 and 3."""
    graph = FactorGraph([[2.0, 2.0], [1.0, 0.0]], 2).add_tables([(0, 1)])
    truth = np.array([0, 1])
    weights = np.array([1.0, 3.0])
    problem = make_problem([graph, graph], [truth, truth], alpha=0.5, weights=weights)
    # q = 3, R^2 = 9, the factor has two variables: D = 2. Shares of 1/4 and 3/4.
    expected = 4 * 3 * (4 * 9 * (1 / 16 + 9 / 16) / 0.5 + 2 / 0.1)
    assert curvature(problem, 0.1) == pytest.approx(expected)
    solver = SoftAgreement.algorithm1(rho=0.1)
    stepper = steppers.Stepper(solver, problem, rng=np.random.RandomState(0))
    result = run(stepper, tol=0.0, max_iter=50)
    bounds = result.bounds
    t, total = 2 * 50 * 3, expected + 1.0  # g(0) = 1
    assert bounds["expected_error"] == pytest.approx(12 / (t + 12) * total)
    assert bounds["expected_gap"] == pytest.approx(36 / (t + 1) * total)
    assert bounds["steps_to_gap"] == pytest.approx(36 * total / bounds["soft_gap"] - 1)
    # After these steps with that rho the expected gap is half the hard one, and so is rho/2 h.
    rho = bounds["rho_to_hard_gap"]
    reached = bounds["soft_gap"]  # no certificate of the hard problem was asked for
    assert rho == pytest.approx(reached / (theorem_h(problem) / 4.0))
    steps = bounds["steps_to_hard_gap"]
    assert 36 * (curvature(problem, rho) + 1.0) / (steps + 1) == pytest.approx(0.5 * reached)
    # The bounds hold: the dual is as near to its optimum as promised, and the gap as small.
    best, _ = PlainModel(problem).solve(kappa=10.0)
    assert best - result.dual <= bounds["expected_error"]
    assert result.gap <= bounds["expected_gap"]


@pytest.mark.parametrize("kind", ["own tables", "triples"])
def test_curvature_bounds_every_block(kind):
    """The Hessian of the soft dual along the moves between vertices of each block."""
    problem = some_problem(kind, weights=np.ones(3))
    model = PlainModel(problem)
    rho, total = 0.3, 0.0
    blocks = [(start, k) for start, k, _ in model.unary]
    blocks += [(start, int(np.prod(sizes))) for start, sizes, _, _ in model.entries]
    for start, size in blocks:
        worst = 0.0
        for a, b in itertools.combinations(range(size), 2):
            d = np.zeros(model.n_parts)
            d[start + a], d[start + b] = 1.0, -1.0
            w = (model.features * problem.scales[model.owner]) @ d
            off = sum(
                ((model.marginal(d, entry, axis) - d[at : at + k]) ** 2).sum()
                for entry in model.entries
                for axis, (at, k) in enumerate(entry[2])
            )
            worst = max(worst, problem.alpha * w @ w + off / (3.0 * rho))
        total += worst
    assert total <= curvature(problem, rho)


def test_algorithm_1_has_the_soft_optimum():
    problem = some_problem("pairs")
    truth, _ = PlainModel(problem).solve(kappa=0.5)
    solver = SoftAgreement.algorithm1(rho=2.0)
    assert solver.get_params()["steps"] == "frank-wolfe"
    stepper = steppers.Stepper(solver, problem, rng=np.random.RandomState(0))
    result = run(stepper, tol=2e-3, max_iter=20_000)
    assert result.status == "converged"
    assert truth - 1e-7 <= result.primal <= truth + 2e-3 * result.primal
    assert truth - 2e-3 * result.primal <= result.dual <= truth + 1e-7


@pytest.mark.parametrize("rho", [0.002, 0.05])
def test_annealing_does_not_freeze_from_a_small_rho(rho):
    """Where the first rho is too small already, annealing is as good as leaving it alone."""
    problem = some_problem("pairs", n_states=3)
    truth, _ = PlainModel(problem).solve()
    excess = {}
    for agreement in ("soft", "annealed"):
        stepper, _ = train(problem, agreement=agreement, rho=rho, inertia=0.0, passes=1500, tol=0)
        excess[agreement] = stepper.bounds()["hard_primal"] - truth
    assert excess["annealed"] <= excess["soft"]


def test_annealing_tends_to_the_hard_optimum():
    problem = some_problem("pairs", n_states=3)
    truth, _ = PlainModel(problem).solve()
    _, short = train(problem, agreement="annealed", rho=1.0, rounds=10, passes=100)
    _, longer = train(problem, agreement="annealed", rho=1.0, rounds=10, passes=2000)
    for result in (short, longer):
        assert result.primal >= truth - 1e-7
        assert result.dual <= truth + 1e-7
    assert longer.primal - truth < 0.5 * (short.primal - truth)
    assert longer.primal == pytest.approx(truth, rel=0.01)


def test_duplicated_examples_are_weights_and_rho_does_not_depend_on_n():
    rng = np.random.RandomState(5)
    graphs = [random_graph(rng, n_states=3) for _ in range(2)]
    ys = [random_truth(rng, graph) for graph in graphs]
    weighted = make_problem(graphs, ys, weights=np.array([2.0, 1.0]))
    doubled = make_problem([graphs[0], *graphs], [ys[0], *ys])
    for options in ({}, {"agreement": "soft", "rho": 0.7}):
        _, one = train(weighted, **options)
        _, two = train(doubled, **options)
        assert one.primal == pytest.approx(two.primal, abs=1e-6)


@pytest.mark.parametrize("order", ["permutation", "uniform", "gap", "active"])
def test_orders_reach_the_same_optimum(order):
    problem = some_problem("pairs", n_states=3)
    _, result = train(problem, order=order)
    truth, _ = PlainModel(problem).solve()
    assert result.primal == pytest.approx(truth, abs=1e-5)


def test_warm_start_is_at_the_optimum_at_once():
    problem = some_problem("pairs")
    stepper, result = train(problem)
    again = steppers.soft(
        problem, rng=np.random.RandomState(0), dual_state=stepper.dual_state, inertia=0.0
    )
    (_, found), *_ = again.check()
    assert found.primal - found.dual <= 1e-4 * found.primal
    assert found.primal >= result.dual - 1e-9


def test_smoothed_max_min_soft_optimum_against_a_convex_solver():
    problem = some_problem("pairs", n_states=3, max_min=True)
    truth, _ = PlainModel(problem).solve(kappa=0.5, sigma=0.1)
    _, result = train(problem, agreement="soft", rho=2.0, smoothing=0.1)
    assert result.primal == pytest.approx(truth, abs=1e-6)
    assert result.dual == pytest.approx(truth, abs=1e-6)


def test_variables_without_features_and_factors_have_an_answer():
    """No curvature at all: the step is the maximiser itself."""
    graphs = [FactorGraph(np.zeros((2, 1)), 3), FactorGraph(np.ones((2, 1)), 3)]
    for max_min in (False, True):
        problem = make_problem(graphs, [np.array([0, 1]), np.array([1, 2])], max_min=max_min)
        problem.rows.squares[:2] = 0.0  # as without an intercept
        stepper = steppers.soft(problem, rng=np.random.RandomState(0))
        stepper.advance(10.0, 2)
        assert all(np.isfinite(array).all() for array in stepper.dual_state)


def test_a_tree_may_use_part_of_the_weights_of_its_group():
    rng = np.random.RandomState(0)
    graphs = [
        FactorGraph(rng.randn(n, 2), 2).add_tree([(i + 1, i) for i in range(n - 1)], shared=False)
        for n in (30, 3)
    ]
    ys = [rng.randint(0, 2, graph.n_variables) for graph in graphs]
    layout = plan_layout(graphs)
    small, _ = pack_graphs(graphs[1:], layout)
    # More weights than entries: a list of ties, so that scores never run over the table.
    assert small.n_tied[0] > small.n_entries[0]
    assert small.tie_at[0] >= 0
    problem = make_problem(graphs, ys, weights=np.array([1.0, 2.0]))
    _, result = train(problem, passes=50)
    assert result.primal >= result.dual - 1e-9


def test_tightened_messages_lower_the_primal_value():
    problem = some_problem("triples")
    stepper, _ = train(problem, passes=3)
    for weights, messages in stepper.points():
        before = problem.primal(weights, messages)
        values = [
            problem.primal(weights, problem.tightened(weights, messages, sweeps))
            for sweeps in (1, 2, 10)
        ]
        assert before + 1e-12 >= values[0] >= values[1] - 1e-12
        assert values[2] <= values[1] + 1e-12
    assert not some_problem("count").can_tighten
