"""Matching of point sets: structure against enumeration, optimum by a convex solver, interface."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import realdata
import steppers
from maxmargin import BlockFrankWolfe, Matcher, MirrorProx, load, save
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.features.rows import pack_rows
from test_rankings import packed_problem, solve

ALPHA = 0.05
EXACT = {"tol": 1e-6, "max_iter": 50_000, "random_state": 0}


def permutations(n):
    labels = list(itertools.permutations(range(n)))
    return np.array([np.eye(n)[list(y)].ravel() for y in labels]), labels


def problem_data(sides=(3, 2, 3, 1, 3), seed=0, noise=1.5):
    """Pair features, matchings and weights; the points of the other side are moved and shuffled."""
    random = np.random.RandomState(seed)
    X, y = [], []
    for n in sides:
        points, order = random.randn(n, 3), random.permutation(n)
        others = points[order] + noise * random.randn(n, 3)
        X.append((points[:, None] - others) ** 2)
        y.append(np.argsort(order))
    return X, y, random.uniform(0.5, 2.0, len(sides))


def optimum(surrogate, X, y, weights):
    """The smallest objective, with all matchings enumerated."""
    w = cp.Variable(X[0].shape[2])
    slacks = cp.Variable(len(X))
    constraints = []
    for i, (x, partners) in enumerate(zip(X, y, strict=True)):
        n = len(x)
        phi, labels = permutations(n)
        losses = 1.0 - phi @ phi.T / n
        true = labels.index(tuple(partners.tolist()))
        scores = phi @ x.reshape(n * n, -1) @ w
        if surrogate == "max-margin":
            augmented = losses[true]
        else:
            nu = cp.Variable(len(phi), nonneg=True)
            constraints.append(cp.sum(nu) == 1)
            augmented = nu @ losses
        constraints.append(slacks[i] >= augmented + scores - scores[true])
    return solve(0.5 * ALPHA * cp.sum_squares(w) + weights @ slacks / weights.sum(), constraints)


@compiled
def block_maps(structure, rows, weights, i, labels, other, scores, followed):
    """Answers of the linear maps of a block, for the direction phi(labels) - phi(other) / 2."""
    size = generic.block_size(structure, i)
    direction, away = np.empty(size), np.empty(size)
    generic.score_block(structure, rows, weights, i, followed)
    generic.embed(structure, i, labels, direction)
    generic.embed(structure, i, other, away)
    direction -= 0.5 * away
    work = np.full(generic.work_size(structure, rows), np.nan)
    best = np.empty(labels.shape[0], np.int32)
    value = generic.decode(structure, i, followed, work, best)
    norm = generic.squared_norm(structure, rows, i, direction, work)
    cheap = generic.add_gram(structure, rows, i, direction, 0.7, followed)
    generic.add_block(structure, rows, weights, i, direction, 0.7)
    generic.score_block(structure, rows, weights, i, scores)
    return value, norm, cheap


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_structure_agrees_with_enumeration(kind):
    random = np.random.RandomState(0)
    X, y, weights = problem_data()
    problem = packed_problem(Matcher(), X, y, weights)
    matching = problem.structure
    flat = np.concatenate([x.reshape(-1, 3) for x in X])
    rows = pack_rows(
        sp.csr_array(flat) if kind == "sparse" else flat, fit_intercept=False, compress=False
    )
    for i, x in enumerate(X):
        n = len(x)
        phi, labels = permutations(n)
        features = phi @ x.reshape(n * n, -1)
        w = random.randn(3)
        first, second = random.randint(len(phi), size=2)
        moved, scores, followed = w.copy(), np.empty(n * n), np.empty(n * n)
        value, norm, cheap = block_maps(
            matching, rows, moved, i, np.array(labels[first], np.int32),
            np.array(labels[second], np.int32), scores, followed,
        )  # fmt: skip
        assert value == pytest.approx((features @ w).max(), abs=1e-12)
        direction = features[first] - 0.5 * features[second]
        assert norm == pytest.approx(direction @ direction, rel=1e-12)
        np.testing.assert_allclose(moved, w + 0.7 * direction, atol=1e-12)
        np.testing.assert_allclose(scores, x.reshape(n * n, -1) @ moved, atol=1e-11)
        assert cheap
        np.testing.assert_allclose(followed, scores, atol=1e-11)


# --- optimal values -------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_optimum_of_matchings(surrogate):
    X, y, weights = problem_data()
    model = Matcher(surrogate, alpha=ALPHA, **EXACT).fit(X, y, sample_weight=weights)
    wanted = optimum(surrogate, X, y, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= wanted + 1e-8
    assert model.primal_ >= wanted - 1e-8
    assert model.primal_ == pytest.approx(wanted, abs=1e-6)
    assert model.dual_ == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("surrogate", "method", "settings"),
    [
        ("max-margin", steppers.pairwise, {}),
        ("max-min", steppers.frank_wolfe, {}),
        pytest.param(
            "max-min",
            steppers.frank_wolfe,
            {"oracle": MirrorProx(iterations=1)},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_dual_rises_and_the_certificate_is_true(surrogate, method, settings):
    X, y, weights = problem_data()
    problem = packed_problem(Matcher(surrogate, alpha=ALPHA, tol=1e-6), X, y, weights)
    wanted = optimum(surrogate, X, y, weights)
    stepper = method(problem, rng=np.random.RandomState(0), **settings)
    dual, first_gap = -np.inf, None
    for _ in range(60):
        [(_, found)] = stepper.check()
        assert found.dual >= dual - 1e-12
        assert found.dual <= wanted + 1e-8
        assert found.primal >= wanted - 1e-8
        dual = found.dual
        first_gap = first_gap or found.primal - found.dual
        stepper.advance(1.0, len(X))
    assert wanted - dual < 0.3 * first_gap


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_weight_two_is_the_same_as_twice(surrogate):
    X, y, _ = problem_data((4, 3, 5, 4))
    a = Matcher(surrogate, alpha=ALPHA, **EXACT).fit(X, y, sample_weight=[1, 2, 0, 1])
    chosen = [0, 1, 1, 3]
    b = Matcher(surrogate, alpha=ALPHA, **EXACT).fit([X[i] for i in chosen], [y[i] for i in chosen])
    # Both have the same optimum, and each is certified to be at most its gap above it.
    assert max(a.gap_, b.gap_) < 1e-6
    assert abs(a.primal_ - b.primal_) <= max(a.gap_, b.gap_)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-3)


# --- public interface -----------------------------------------------------------------------


def test_point_sets_are_turned_into_pair_features():
    random = np.random.RandomState(1)
    sets = [(random.randn(n, 2), random.randn(n, 2)) for n in (3, 4, 2)]
    y = [random.permutation(len(left)) for left, _ in sets]
    ready = [(a[:, None] - b) ** 2 for a, b in sets]
    given = Matcher(random_state=0).fit(ready, y)
    made = Matcher(random_state=0).fit(sets, y)
    called = Matcher(pair_features=lambda a, b: (a[:, None] - b) ** 2, random_state=0).fit(sets, y)
    for model in (made, called):
        np.testing.assert_array_equal(model.coef_, given.coef_)
    absolute = Matcher(pair_features="absolute-difference", random_state=0).fit(sets, y)
    again = Matcher(random_state=0).fit([np.abs(a[:, None] - b) for a, b in sets], y)
    np.testing.assert_array_equal(absolute.coef_, again.coef_)
    for x, scores, found in zip(
        ready, given.decision_function(ready), given.predict(sets), strict=True
    ):
        np.testing.assert_allclose(scores, x @ given.coef_, atol=1e-12)
        n = len(x)
        best = max(scores[np.arange(n), list(z)].sum() for z in itertools.permutations(range(n)))
        assert scores[np.arange(n), found].sum() == pytest.approx(best, abs=1e-12)
    wanted = np.mean([np.mean(a == b) for a, b in zip(given.predict(ready), y, strict=True)])
    assert given.score(ready, y) == pytest.approx(wanted)


def test_interface(tmp_path):
    X, y, _ = problem_data((4, 3, 5, 4, 3, 4, 5, 2, 3, 4), noise=0.3)
    search = GridSearchCV(Matcher("max-min", random_state=0), {"alpha": [0.01, 10.0]}, cv=2)
    search.fit(X, y)
    assert search.best_score_ > 0.5
    model = clone(search.best_estimator_).set_params(warm_start=True).fit(X, y)
    save(model, tmp_path / "model", dual=True)
    loaded = load(tmp_path / "model")
    for a, b in zip(loaded.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.fit(X, y).n_oracle_calls_ <= model.n_oracle_calls_
    early = Matcher(early_stopping=True, random_state=0).fit(X, y)
    assert early.history_[-1].validation_score is not None
    threads = Matcher("max-min", n_jobs=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(Matcher("max-min", random_state=0).fit(X, y).coef_, threads.coef_)


GOOD_X, GOOD_Y, _ = problem_data((3, 2))
BAD_X = {
    "one array": (GOOD_X[0], r"wrap it in a list"),
    "number": (3, "X must be a list of examples; received int"),
    "nothing": ([], "X is empty"),
    "not square": ([GOOD_X[0][:, :2], GOOD_X[1]], r"X\[0\] must have shape \(n, n, n_features\)"),
    "flat": ([GOOD_X[0], np.eye(2)], r"X\[1\] must be an array of numbers of shape"),
    "widths": (
        [GOOD_X[0], GOOD_X[1][:, :, :2]],
        r"X\[1\] has 2 features per pair but X\[0\] has 3",
    ),
    "no points": ([np.empty((0, 0, 3)), GOOD_X[1]], r"X\[0\] has no points"),
    "no features": ([np.empty((3, 3, 0)), np.empty((2, 2, 0))], "0 features"),
    "words": ([GOOD_X[0], [[["a"]]]], r"X\[1\] must be an array of numbers"),
    "sides": ([(np.eye(3), np.eye(3)[:2]), GOOD_X[1]], r"X\[0\] has 3 points on one side and 2"),
    "coordinates": ([(np.eye(3), np.eye(3)[:, :2])] * 2, r"X\[0\] has points of 3 and of 2"),
    "nan": ([GOOD_X[0], np.full((2, 2, 3), np.nan)], r"X\[1\] contains NaN at pair \(0, 0\)"),
}
BAD_Y = {
    "repeated": ([[0, 1, 1], [0, 1]], r"y\[0\] is not a permutation: it holds 1 at places 1, 2"),
    "from one": ([[1, 2, 3], [1, 2]], r"y\[0\] is not a permutation: it holds 3 at place 2"),
    "length": ([[0, 1, 2], [0, 1, 2]], r"y\[1\] has 3 entries but X\[1\] has 2 points"),
    "missing": ([[0, 1, 2], [0, np.nan]], r"y\[1\] is not known \(NaN\) at place 1"),
    "words": ([[0, 1, 2], ["a", "b"]], r"y\[1\] must be a row of integers"),
    "too few": ([[0, 1, 2]], "X has 2 examples but y has 1"),
    "none": (None, "y is None"),
    "text": ("ab", "list of permutations"),
}


@pytest.mark.parametrize("kind", BAD_X)
def test_bad_examples_are_refused_with_their_place(kind):
    X, message = BAD_X[kind]
    with pytest.raises(ValueError, match=message):
        Matcher().fit(X, GOOD_Y)


@pytest.mark.parametrize("kind", BAD_Y)
def test_bad_matchings_are_refused_with_their_place(kind):
    y, message = BAD_Y[kind]
    with pytest.raises(ValueError, match=message):
        Matcher().fit(GOOD_X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"surrogate": "crf", "solver": "bcfw"}, "entropy of given marginals"),
        ({"pair_features": "product"}, "pair_features must be one of"),
        ({"solver": BlockFrankWolfe(oracle="magic")}, "oracle must be 'auto' or an oracle"),
    ],
)
def test_bad_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Matcher(**settings).fit(GOOD_X, GOOD_Y)


def test_a_function_for_pair_features_is_checked():
    sets = [(np.eye(3), np.eye(3))] * 2
    with pytest.raises(ValueError, match=r"pair_features of X\[0\] must be an array"):
        Matcher(pair_features=lambda a, b: a @ b).fit(sets, [[0, 1, 2]] * 2)
    model = Matcher(random_state=0).fit(GOOD_X, GOOD_Y)
    with pytest.raises(ValueError, match="2 features per pair, but Matcher was fitted with 3"):
        model.predict([GOOD_X[1][:, :, :2]])


# --- real data ------------------------------------------------------------------------------


def stickmen():
    """Pairs of successive frames of an episode: ten key points each, those of the second shuffled.

    Features of a pair: squared differences of positions within the figure, of colour and of
    gradients; the published split by episode.
    """
    data = realdata.load_npz("buffy_stickmen")
    random = np.random.RandomState(0)
    points = data["keypoints"].astype(float)
    points = points - points.mean(axis=1, keepdims=True)
    points /= np.sqrt((points**2).mean(axis=(1, 2), keepdims=True))
    blocks = (points, data["kp_color"].astype(float), data["kp_grad"].astype(float))
    found = {True: ([], []), False: ([], [])}
    for i in range(len(points) - 1):
        if data["episode"][i] != data["episode"][i + 1]:
            continue
        order = random.permutation(10)
        features = []
        for block in blocks:
            left, right = block[i], block[i + 1][order]
            squared = (left[:, None] - right) ** 2
            features.append(squared if block is points else squared.sum(axis=2, keepdims=True))
        X, y = found[bool(data["is_train"][i])]
        X.append(np.concatenate(features, axis=2))
        y.append(np.argsort(order))
    return found[True], found[False]


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_key_points_of_successive_frames(surrogate):
    (X, y), (X_test, y_test) = stickmen()
    model = Matcher(surrogate, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert 0.0 <= model.gap_ <= 0.01 * model.primal_
    # With equal weights descriptors alone match .74, positions alone .905; chance is .1.
    assert model.score(X_test, y_test) > 0.88
