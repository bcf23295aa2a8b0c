"""Latent variables and random structures: oracles and objectives against enumeration, training."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

from latent_models import (
    SPACES,
    NoLatent,
    OwnAnyPairs,
    OwnPairs,
    any_two,
    examples,
    loss,
    n_elements,
    phi,
    shared,
    tables,
)
from maxmargin import (
    DAG,
    AffineMap,
    AnyPairs,
    Arborescence,
    HiddenStates,
    LabelSequence,
    Latent,
    LatentPredictor,
    Permutation,
    SharedPairs,
    Subset,
)
from maxmargin.latent.objective import DrawnProblem, ExplainedProblem
from maxmargin.latent.pairs import shared_pairs
from maxmargin.latent.problem import (
    EXACT,
    INDICATOR,
    LISTED,
    MARGIN,
    SCORE,
    SLACK,
    Random,
)
from maxmargin.latent.solvers import WorkingSetAscent
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.loop import run


def problem_of(name, n=6, seed=0, superset=True):
    X, y = examples(name, n, seed)
    latent = Latent(SPACES[name], SharedPairs(), superset=AnyPairs() if superset else None)
    return latent.pack(X, y), X, y


def test_sizes_of_the_paper_s_latent_spaces():
    assert len(shared_pairs(12)) == len(shared(12)) == 660 and len(any_two(12)) == 2145
    assert len(shared_pairs(9)) == 252 and len(any_two(9)) == 630
    assert len({tuple(row) for row in shared_pairs(9)}) == 252


# --- the map of pairs ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("relaxed", [False, True])
def test_best_explanations_are_those_of_the_enumeration(name, relaxed):
    problem, X, y = problem_of(name)
    latents = (any_two if relaxed else shared)(n_elements(SPACES[name]))
    for seed in range(5):
        w = np.random.RandomState(seed).randn(problem.n_weights)
        found = problem.complete(w, relaxed, problem.everyone())
        scores = problem.rows(found, problem.everyone()).scores(w)
        for i, (x, output) in enumerate(zip(X, y, strict=True)):
            best = max(w @ phi(SPACES[name], x, output, h) for h in latents)
            assert scores[i] == pytest.approx(best, abs=1e-12)


def drawn(problem, relaxed, n_guesses):
    return DrawnProblem(
        problem, 1.0, np.ones(problem.n_examples), relaxed, draw=None, n_guesses=n_guesses
    )


@pytest.mark.parametrize("kind", [*SPACES, "python", "matchings", "chains"])
@pytest.mark.parametrize("relaxed", [False, True])
def test_drawn_explanations_are_at_most_the_best_ones_and_many_reach_them(kind, relaxed):
    if kind == "matchings":
        problem = Latent(Permutation(), AffineMap((0.8, 1.2), (-0.2, 0.2), groups=(1,)))
        problem = problem.pack(*matchings(5))
    elif kind == "chains":
        problem = Latent(LabelSequence(2), HiddenStates(2)).pack(*chains(4))
    else:
        name = "subsets" if kind == "python" else kind
        problem, X, y = problem_of(name)
        if kind == "python":
            problem = Latent(SPACES[name], OwnPairs(5), superset=OwnAnyPairs(5)).pack(X, y)
    relaxed = relaxed and problem.has_superset
    everyone, rng = problem.everyone(), np.random.RandomState(0)
    w = rng.randn(problem.n_weights)
    best = problem.rows(problem.complete(w, relaxed, everyone), everyone).scores(w)
    few = drawn(problem, relaxed, 2).explain_by(w, everyone, rng).scores(w)
    many = drawn(problem, relaxed, 2000).explain_by(w, everyone, rng).scores(w)
    assert (few <= best + 1e-12).all() and (few < best - 1e-3).any()
    np.testing.assert_allclose(many, best, atol=1e-12)


def worth(objective, d, margin, score):
    return {
        SCORE: score,
        SLACK: d * (1.0 - margin),
        MARGIN: d + score,
        INDICATOR: d * (margin <= 1.0),
    }[objective]


@pytest.mark.parametrize("space", [Arborescence(4), Subset(9, 3), DAG(4, 2)])
def test_margins_with_and_without_superset_coincide_for_three_elements(space):
    """Any two pairs of three elements share one; graphs of four edges have pairs that do not."""
    rng, outputs = np.random.RandomState(0), list(space.enumerate())
    elements = space.packed().n_elements
    X = rng.randint(2, size=(len(outputs), elements * (elements - 1) // 2))
    problem = Latent(space, SharedPairs(), superset=AnyPairs()).pack(X, outputs)
    w, everyone = rng.randn(X.shape[1]), problem.everyone()
    own, wide = (
        problem.rows(problem.complete(w, relaxed, everyone), everyone).scores(w)
        for relaxed in (False, True)
    )
    if isinstance(space, DAG):
        assert (wide >= own).all() and (wide > own + 0.1).any()
    else:
        np.testing.assert_array_equal(own, wide)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("objective", [SCORE, SLACK, MARGIN, INDICATOR])
def test_searches_find_the_maximum_of_the_enumeration(name, objective):
    problem, X, y = problem_of(name, n=4)
    space, everyone = SPACES[name], problem.everyone()
    w = np.random.RandomState(1).randn(problem.n_weights)
    references = np.random.RandomState(2).randn(4)
    many = Random(4000, 0, greedy=False)  # more than enough to meet all structures
    for how in (EXACT, LISTED, many):
        found = problem.search(w, references, objective, everyone, how)
        scores = problem.rows(found, everyone).scores(w)
        for i, x in enumerate(X):
            outputs, features = tables(space, x)
            d = np.array([space.distortion(y[i], z) for z in outputs])[:, None]
            all_scores = features @ w
            values = worth(objective, d, references[i] - all_scores, all_scores)
            value = worth(objective, found.losses[i], references[i] - scores[i], scores[i])
            assert value == pytest.approx(values.max(), abs=1e-12)
            assert found.losses[i] == pytest.approx(
                space.distortion(y[i], problem.outputs(found)[i]), abs=1e-12
            )


@pytest.mark.parametrize("name", SPACES)
def test_features_follow_their_definition(name):
    problem, X, y = problem_of(name)
    w = np.random.RandomState(0).randn(problem.n_weights)
    found = problem.search(w, np.zeros(6), SCORE, problem.everyone(), Random(1, 3))
    rows = problem.rows(found, problem.everyone())
    outputs, latents = problem.outputs(found), problem.latents(found)
    for i, x in enumerate(X):
        dense = np.zeros(problem.n_weights)
        np.add.at(dense, rows.indices[i], rows.values[i])
        assert np.array_equal(dense, phi(SPACES[name], x, outputs[i], latents[i]))
        assert np.linalg.norm(dense) <= problem.gamma


@pytest.mark.parametrize("name", SPACES)
def test_climbs_end_where_no_move_rises(name):
    problem, X, _ = problem_of(name)
    space, n = SPACES[name], n_elements(SPACES[name])
    w = np.random.RandomState(0).randn(problem.n_weights)
    found = problem.search(w, np.zeros(6), SCORE, problem.everyone(), Random(1, 5))
    for i, x in enumerate(X):
        output, h = problem.outputs(found)[i], problem.latents(found)[i]
        h = tuple(tuple(pair) for pair in h)
        assert len(h) == 2 and set(h[0]) & set(h[1])
        top = w @ phi(space, x, output, h)
        for other in space.moves(output):
            assert w @ phi(space, x, other, h) <= top + 1e-12
        for other in shared(n):
            if set(other) & set(h):
                assert w @ phi(space, x, output, other) <= top + 1e-12


@pytest.mark.parametrize("name", SPACES)
def test_samples_depend_on_the_order_of_the_scores_only(name):
    """Assumption C: the same order and the same seed give the same samples."""
    problem, X, _ = problem_of(name)
    rng = np.random.RandomState(0)
    w = rng.randn(problem.n_weights)
    changed = w + 1e-4 * rng.randn(problem.n_weights)
    differs = False
    for i, x in enumerate(X):
        features = tables(SPACES[name], x)[1].reshape(-1, problem.n_weights)
        features = np.unique(features, axis=0)
        assert np.array_equal(np.argsort(features @ w), np.argsort(features @ changed))
        for seed in range(20):
            samples = [
                problem.search(at, np.zeros(6), SCORE, np.array([i]), Random(1, seed))
                for at in (w, changed, 1e3 * w, -w)
            ]
            for other in samples[1:3]:
                assert np.array_equal(samples[0].outputs, other.outputs)
                assert np.array_equal(samples[0].latents, other.latents)
            differs |= not np.array_equal(samples[0].outputs, samples[3].outputs)
    assert differs


# --- objectives ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("trainer", "objective"), [("lssvm", MARGIN), ("all", SLACK)])
@pytest.mark.parametrize("name", SPACES)
def test_objective_and_subgradient(name, trainer, objective):
    problem, X, y = problem_of(name, superset=False)
    shares, alpha = np.array([1.0, 2.0, 0.5, 1.0, 0.0, 3.0]), 0.3
    training = ExplainedProblem(problem, alpha, shares, objective)
    known = [tables(SPACES[name], x) for x in X]

    def value(w):
        losses = [
            loss(SPACES[name], x, t, w, trainer, k) for x, t, k in zip(X, y, known, strict=True)
        ]
        return 0.5 * alpha * w @ w + shares @ losses / shares.sum()

    w = np.random.RandomState(3).randn(problem.n_weights)
    found_value, truths, found, rows = training.with_truth(training.explain(w)).search(w)
    assert found_value == pytest.approx(value(w), abs=1e-12)
    gradient = alpha * w
    for i in range(6):
        slack = 1.0 - truths.scores(w)[i] + rows.scores(w)[i]
        scale = found.losses[i] * (slack > 0) if objective == SLACK else 1.0
        for part, sign in ((rows, 1.0), (truths, -1.0)):
            step = sign * scale * shares[i] / shares.sum()
            np.add.at(gradient, part.indices[i], step * part.values[i])
    eps = 1e-6
    numeric = [
        (value(w + eps * e) - value(w - eps * e)) / (2 * eps) for e in np.eye(problem.n_weights)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)  # piecewise linear, plus a square


@pytest.mark.parametrize("trainer", ["lssvm", "all"])
@pytest.mark.parametrize("name", SPACES)
def test_objective_never_rises_and_is_the_enumerated_one(name, trainer):
    X, y = examples(name, 12, seed=4)
    latent = Latent(SPACES[name], SharedPairs())
    model = LatentPredictor(latent, trainer, alpha=0.05, tol=1e-3, random_state=0).fit(X, y)
    values = [check.primal for check in model.history_]
    assert (np.diff(values) <= 0.0).all() and values[-1] < 0.9 * values[0]
    losses = [loss(SPACES[name], x, t, model.coef_, trainer) for x, t in zip(X, y, strict=True)]
    expected = 0.025 * model.coef_ @ model.coef_ + np.mean(losses)
    assert model.objective_ == pytest.approx(expected, abs=1e-9)
    assert model.status_ == "stationary" and -1e-9 <= model.gap_ <= 0.02 * model.objective_
    more = LatentPredictor(latent, trainer, alpha=0.05, tol=1e-3, n_restarts=4, random_state=0).fit(
        X, y
    )
    assert more.objective_ <= model.objective_ + 1e-12


@pytest.mark.parametrize("trainer", ["lssvm", "all"])
def test_without_latent_variables_it_is_the_convex_optimum(trainer):
    """One latent value only: margin and slack re-scaled structural SVMs, by a convex solver."""
    rng = np.random.RandomState(0)
    space, X = Subset(4, 2), rng.randn(6, 4, 3)
    outputs = list(space.enumerate())
    y = [outputs[rng.randint(6)] for _ in X]
    shares, alpha = np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0]), 0.2
    w = cp.Variable(3)
    losses = []
    for x, truth in zip(X, y, strict=True):
        terms = [0.0]
        for z in outputs:
            d = space.distortion(truth, z)
            margin = (x[truth].sum(axis=0) - x[z].sum(axis=0)) @ w
            terms.append(d - margin if trainer == "lssvm" else d * (1 - margin))
        losses.append(cp.maximum(*terms))
    objective = alpha / 2 * cp.sum_squares(w) + shares / shares.sum() @ cp.hstack(losses)
    optimum = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    model = LatentPredictor(
        Latent(space, NoLatent()), trainer, alpha=alpha, tol=1e-9, random_state=0
    ).fit(X, y, sample_weight=shares)
    assert model.objective_ == pytest.approx(optimum, abs=1e-6)
    np.testing.assert_allclose(model.coef_, w.value, atol=1e-4)
    twice = np.repeat(np.arange(6), shares.astype(int))
    again = LatentPredictor(
        Latent(space, NoLatent()), trainer, alpha=alpha, tol=1e-9, random_state=0
    ).fit(X[twice], [y[i] for i in twice])
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-4)


def test_plain_python_gives_the_compiled_answers():
    X, y = examples("subsets", 4)
    compiled = Latent(Subset(5, 3), SharedPairs(), superset=AnyPairs()).pack(X, y)
    own = Latent(Subset(5, 3), OwnPairs(5), superset=OwnAnyPairs(5)).pack(X, y)
    everyone = own.everyone()
    w = np.random.RandomState(0).randn(10)
    for relaxed in (False, True):
        rows = [p.rows(p.complete(w, relaxed, everyone), everyone) for p in (compiled, own)]
        np.testing.assert_allclose(rows[0].scores(w), rows[1].scores(w), atol=1e-12)
    for objective in (SCORE, SLACK, MARGIN):
        found = [p.search(w, np.zeros(4), objective, everyone, EXACT) for p in (compiled, own)]
        np.testing.assert_allclose(found[0].losses, found[1].losses, atol=1e-12)
    climbed = own.search(w, np.zeros(4), SCORE, everyone, Random(20, 0))
    best = own.search(w, np.zeros(4), SCORE, everyone, EXACT)
    scores = [own.rows(f, everyone).scores(w) for f in (climbed, best)]
    assert (scores[0] <= scores[1] + 1e-12).all() and scores[0].sum() > 0.9 * scores[1].sum()


# --- matchings and chains ------------------------------------------------------------------------

SMALL_MAP = AffineMap((0.8, 1.2), (-0.2, 0.2))


def matchings(n, sizes=(3,), seed=0):
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        size = sizes[rng.randint(len(sizes))]
        points, order = rng.randn(size, 2), rng.permutation(size)
        moved = (points @ [[1.2, 0.2], [-0.2, 0.8]])[order] + 0.1 * rng.randn(size, 2)
        tags = rng.randn(size, 4)
        X.append(((points, tags), (moved, tags[order] + rng.randn(size, 4))))
        y.append(np.argsort(order))
    return X, y


def test_searches_over_matchings_find_the_maximum_of_the_enumeration():
    X, y = matchings(5)
    problem = Latent(Permutation(), AffineMap((0.8, 1.2), (-0.2, 0.2), groups=(1,))).pack(X, y)
    everyone, w = problem.everyone(), np.array([0.3, 0.1, 1.0])
    references = np.random.RandomState(0).randn(5)
    scored = []  # of all matchings and maps
    for z in itertools.permutations(range(3)):
        for h in range(16):
            found = problem.complete(w, False, everyone)
            found = found._replace(outputs=np.tile(np.int32(z), (5, 1)), latents=np.full(5, h))
            d = (found.outputs != np.array(y)).mean(axis=1)
            scored.append((d, problem.rows(found, everyone).scores(w)))
    for objective in (SCORE, SLACK, MARGIN):
        expected = np.max([worth(objective, d, references - s, s) for d, s in scored], axis=0)
        for how in (EXACT, LISTED, Random(2000, 0, greedy=False)):
            found = problem.search(w, references, objective, everyone, how)
            scores = problem.rows(found, everyone).scores(w)
            values = [
                worth(objective, d, r - s, s)
                for d, r, s in zip(found.losses, references, scores, strict=True)
            ]
            np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("centre", "scale"), [("mean", "each"), ((0.5, -1.0), "pair"), ("mean", 2.0), ((3, 1), "each")]
)
def test_features_of_a_matching(centre, scale):
    """Against all maps of the grid, with coordinates about the centre and in units of the scale."""
    X, y = matchings(1)
    (left, tags), (right, other) = X[0]
    right = 3.0 * right + 1.0
    space = AffineMap((0.8, 1.2), (-0.2, 0.2), centre=centre, scale=scale)
    problem = Latent(Permutation(), space).pack([((left, tags), (right, other))], y)
    found = problem.complete(np.array([0.2, 1.0]), False, problem.everyone())

    def about(points):
        return points - (points.mean(axis=0) if centre == "mean" else centre)

    def size(*sets):
        return np.sqrt(np.mean([point @ point for points in sets for point in about(points)]))

    units = {"each": [size(left), size(right)], "pair": [size(left, right)] * 2}
    units = units.get(scale, [scale] * 2)
    one, two = about(left) / units[0], about(right)[y[0]] / units[1]
    distance = ((tags - other[y[0]]) ** 2).sum()
    best = min(((one @ A - two) ** 2).sum() for A in space.maps())
    values = problem.rows(found, problem.everyone()).values[0]
    np.testing.assert_allclose(values, [-distance, -best])
    assert problem.gamma >= np.linalg.norm(values)


def test_a_map_about_a_centre_explains_what_the_mean_size_removes():
    """The right side is the left one, turned and stretched about a point: one map fits exactly."""
    points, centre = np.random.RandomState(0).randn(5, 2) + 10.0, np.array([9.0, 11.0])
    grid = (0.8, 1.2), (-0.2, 0.2)
    moved = (points - centre) @ np.array([[1.2, 0.2], [-0.2, 1.2]]) + centre
    X, y = [(points, moved)], [np.arange(5)]
    exact = Latent(Permutation(), AffineMap(*grid, centre=tuple(centre), scale=3.0)).pack(X, y)
    found = exact.complete(np.ones(1), False, exact.everyone())
    assert exact.rows(found, exact.everyone()).values[0, 0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(exact.latents(found)[0], [[1.2, 0.2], [-0.2, 1.2]])
    plain = Latent(Permutation(), AffineMap(*grid)).pack(X, y)
    found = plain.complete(np.ones(1), False, plain.everyone())
    assert plain.rows(found, plain.everyone()).values[0, 0] < -1e-3


def test_without_a_weight_of_coordinates_the_nearest_map_explains():
    """All maps score the same; an arbitrary one as the first explanation can end at w = 0."""
    X, y = matchings(4)
    problem = Latent(Permutation(), SMALL_MAP).pack(X, y)
    everyone = problem.everyone()
    near = problem.complete(np.array([0.0, 1.0]), False, everyone).latents
    assert len(set(near)) > 1
    for weights in ([0.0, 0.0], [-2.0, 0.0]):
        found = problem.complete(np.array(weights), False, everyone)
        np.testing.assert_array_equal(found.latents, near)


def test_random_training_over_everything_is_exact_training():
    """Enough uniform draws that T(w, x) holds all structures: the same weights, step by step."""
    X, y = matchings(8, seed=1)
    problem = Latent(Permutation(3), SMALL_MAP).pack(X, y)
    results = []
    for how in (Random(3000, 0, greedy=False), EXACT):
        drawn = DrawnProblem(problem, 0.05, np.ones(8), False, draw=lambda w, rng, how=how: how)
        solver = WorkingSetAscent(passes=3)
        start, rng = np.array([0.1, 0.2]), np.random.RandomState(0)
        climb = Climb(solver, drawn, rng=rng, start=start)
        results.append(run(climb, tol=0.0, max_iter=12, check_every=1))
    np.testing.assert_allclose(results[0].weights, results[1].weights, atol=1e-10)
    assert results[0].primal == pytest.approx(results[1].primal, abs=1e-10)
    assert results[0].primal < 0.5 * results[0].history[0].primal


@pytest.mark.parametrize("trainer", ["random", "lssvm"])
def test_matchings_under_a_map_are_learnt(trainer):
    X, y = matchings(40, sizes=(4, 5, 6), seed=2)
    latent = Latent(Permutation(), AffineMap())
    model = LatentPredictor(latent, trainer, alpha=0.01, random_state=0).fit(X[:20], y[:20])
    assert model.score(X[20:], y[20:]) > 0.9
    without = LatentPredictor(latent)
    without.coef_ = np.array([1.0, 0.0])  # descriptors only
    assert without.score(X[20:], y[20:]) < 0.85
    outputs, maps = model.predict(X[20:], return_latent=True)
    assert maps[0].shape == (2, 2) and sorted(outputs[0]) == list(range(len(outputs[0])))


def chains(n, seed=0):
    rng = np.random.RandomState(seed)
    X = [np.sign(rng.randn(rng.randint(2, 5), 2)) for _ in range(n)]
    return X, [(x[:, 0] != x[:, 1]).astype(int) for x in X]


def test_paths_are_those_of_the_enumeration():
    X, y = chains(4)
    problem = Latent(LabelSequence(2), HiddenStates(2)).pack(X, y)
    w = np.random.RandomState(0).randn(problem.n_weights)
    everyone = problem.everyone()

    def scored(i, states):
        found = problem.complete(w, False, everyone)
        found.outputs[problem.indptr[i] : problem.indptr[i + 1]] = states
        return problem.rows(found, everyone).scores(w)[i]

    unary, moves = w[:8].reshape(2, 4), w[8:].reshape(4, 4)
    for i, x in enumerate(X):
        paths = list(itertools.product(range(4), repeat=len(x)))
        scores = np.array([scored(i, states) for states in paths])
        direct = [
            sum(x[t] @ unary[:, s] for t, s in enumerate(path))
            + sum(moves[r, s] for r, s in itertools.pairwise(path))
            for path in paths
        ]
        np.testing.assert_allclose(scores, direct, atol=1e-12)
        d = np.array([np.mean(np.array(path) // 2 != y[i]) for path in paths])
        truth = problem.rows(problem.complete(w, False, everyone), everyone).scores(w)[i]
        assert truth == pytest.approx(scores[d == 0.0].max())
        for objective, how in (
            (SCORE, EXACT), (MARGIN, EXACT), (SLACK, EXACT), (INDICATOR, EXACT),
            (SLACK, Random(5000, 0, greedy=False)),
        ):  # fmt: skip
            found = problem.search(w, np.full(4, 0.3), objective, everyone, how)
            score = problem.rows(found, everyone).scores(w)[i]
            labels = problem.outputs(found)[i]
            assert found.losses[i] == pytest.approx(np.mean(labels != y[i]))
            value = worth(objective, found.losses[i], 0.3 - score, score)
            assert value == pytest.approx(worth(objective, d, 0.3 - scores, scores).max())


def test_slack_re_scaling_over_all_label_sequences_is_the_enumerated_one():
    X, y = chains(10)
    latent = Latent(LabelSequence(2), HiddenStates(2))
    model = LatentPredictor(latent, "all", alpha=0.05, tol=1e-4, random_state=0).fit(X, y)
    w = model.coef_
    problem, losses = latent.pack(X, y), []
    unary, moves = w[:8].reshape(2, 4), w[8:].reshape(4, 4)
    for x, labels in zip(X, y, strict=True):
        paths = np.array(list(itertools.product(range(4), repeat=len(x))))
        scores = np.take_along_axis(x @ unary, paths.T, axis=1).sum(axis=0)
        scores += moves[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        d = (paths // 2 != labels).mean(axis=1)
        losses.append(max(0.0, (d * (1.0 - scores[d == 0.0].max() + scores)).max()))
    assert 0.025 * w @ w + np.mean(losses) == pytest.approx(model.objective_, abs=1e-10)
    assert np.mean(losses) < 0.9 and -1e-9 <= model.gap_ <= 1e-4 * max(1.0, model.primal_)
    assert problem.n_weights == len(w)


def test_hidden_states_learn_what_labels_alone_cannot():
    X, y = chains(60)
    scores = {}
    for states in (1, 2):
        latent = Latent(LabelSequence(2), HiddenStates(states))
        model = LatentPredictor(latent, "lssvm", alpha=0.01, n_restarts=4, random_state=0)
        scores[states] = model.fit(X[:30], y[:30]).score(X[30:], y[30:])
    assert scores[2] > 0.95 and scores[1] < 0.8
    random = LatentPredictor(latent, alpha=0.01, n_iter=60, random_state=0).fit(X[:30], y[:30])
    assert math.isnan(random.gap_) and random.score(X[30:], y[30:]) > 0.8
