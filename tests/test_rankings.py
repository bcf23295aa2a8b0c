"""Label ranking: structure against enumeration, optimum by a convex solver, interface."""

from __future__ import annotations

import functools
import itertools
import warnings
from unittest import mock

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import realdata
import steppers
from marks import more
from maxmargin import (
    BlockFrankWolfe,
    LabelRanker,
    MirrorProx,
    MulticlassClassifier,
    Proximal,
    load,
    metrics,
    save,
)
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.features.rows import pack_rows
from maxmargin.structures.permutation import Ranking

ALPHA = 0.1
EXACT = {"tol": 1e-8, "max_iter": 50_000, "random_state": 0}


def outputs(M):
    """All permutation matrices, flat, and their labels."""
    labels = list(itertools.permutations(range(M)))
    return np.array([np.eye(M)[list(y)].ravel() for y in labels]), labels


def problem_data(M=3, n=8, seed=0):
    """Features, positions of the items (0 = best) and weights; noisy rankings."""
    random = np.random.RandomState(seed)
    X = random.randn(n, 2)
    noisy = X @ random.randn(2, M) + 0.7 * random.randn(n, M)
    return X, np.argsort(np.argsort(-noisy, axis=1), axis=1), random.uniform(0.5, 2.0, n)


def with_constant(X):
    return np.hstack([X, np.ones((len(X), 1))])


def solve(objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


def optimum(surrogate, X, positions, weights, alpha=ALPHA):
    """The smallest objective, with all permutations enumerated."""
    X, M = with_constant(X), positions.shape[1]
    phi, labels = outputs(M)
    losses = 1.0 - phi @ phi.T / M  # predicted by true, symmetric
    truth = [labels.index(tuple(y)) for y in positions.tolist()]
    w = cp.Variable((X.shape[1], M * M))
    slacks = cp.Variable(len(X))
    scores = (X @ w) @ phi.T
    constraints = []
    if surrogate == "max-min":
        nu = cp.Variable((len(X), len(phi)), nonneg=True)
        constraints.append(cp.sum(nu, axis=1) == 1)
    for i, true in enumerate(truth):
        augmented = losses[true] if surrogate == "max-margin" else nu[i] @ losses
        constraints.append(slacks[i] >= augmented + scores[i] - scores[i, true])
    return solve(0.5 * alpha * cp.sum_squares(w) + weights @ slacks / weights.sum(), constraints)


def packed_problem(model, X, y, weights=None):
    """The problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y, sample_weight=weights)
    return solver.call_args.args[0]


# --- structure ------------------------------------------------------------------------------


@compiled
def block_maps(structure, rows, weights, i, labels, other, scores, followed):
    """Answers of the linear maps of a block, for the direction phi(labels) - phi(other) / 2."""
    size = generic.block_size(structure, i)
    direction, away, mu = np.empty(size), np.empty(size), np.empty(size)
    generic.score_block(structure, rows, weights, i, followed)
    generic.embed(structure, i, labels, direction)
    generic.embed(structure, i, other, away)
    mu[:] = 0.5 * (direction + away)
    direction -= 0.5 * away
    work = np.full(generic.work_size(structure, rows), np.nan)
    best = np.empty(labels.shape[0], np.int32)
    value = generic.decode(structure, i, followed, work, best)
    norm = generic.squared_norm(structure, rows, i, direction, work)
    expected = generic.expected_loss(structure, i, mu)
    floor = generic.loss_floor(structure, i, mu, work)
    cheap = generic.add_gram(structure, rows, i, direction, 0.7, followed)
    generic.add_block(structure, rows, weights, i, direction, 0.7)
    generic.score_block(structure, rows, weights, i, scores)
    augmented = np.zeros(size)
    generic.add_loss(structure, i, augmented)
    return value, best, norm, expected, floor, cheap, augmented


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("M", [2, 3, 4])
def test_the_structure_agrees_with_enumeration(kind, M):
    random = np.random.RandomState(M)
    X, positions, _ = problem_data(M, 5, seed=M)
    rows = pack_rows(sp.csr_array(X) if kind == "sparse" else X, fit_intercept=True, compress=False)
    ranking = Ranking(positions.ravel().astype(np.int32), np.arange(6) * M, M)
    phi, labels = outputs(M)
    losses = 1.0 - phi @ phi.T / M
    X = with_constant(X)
    for i in range(5):
        weights = random.randn(ranking.n_weights(3))
        matrix = weights.reshape(3, M * M)
        first, second = random.randint(len(phi), size=2)
        moved, scores, followed = weights.copy(), np.empty(M * M), np.empty(M * M)
        value, best, norm, expected, floor, cheap, augmented = block_maps(
            ranking, rows, moved, i, np.array(labels[first], np.int32),
            np.array(labels[second], np.int32), scores, followed,
        )  # fmt: skip
        known = phi @ (X[i] @ matrix)
        assert value == pytest.approx(known.max(), abs=1e-12)
        assert known[labels.index(tuple(best.tolist()))] == pytest.approx(known.max(), abs=1e-12)
        direction = np.outer(X[i], phi[first] - 0.5 * phi[second])
        np.testing.assert_allclose(moved, weights + 0.7 * direction.ravel(), atol=1e-12)
        assert norm == pytest.approx((direction**2).sum(), rel=1e-12)
        assert cheap
        np.testing.assert_allclose(followed, scores, atol=1e-12)
        truth = labels.index(tuple(positions[i].tolist()))
        mixture = 0.5 * (losses[first] + losses[second])
        assert expected == pytest.approx(mixture[truth], abs=1e-14)
        assert floor == pytest.approx(mixture.min(), abs=1e-14)
        np.testing.assert_allclose(phi @ augmented, losses[truth], atol=1e-14)


@compiled
def best_step(structure, rows, mu, direction, slope, curvature):
    work = np.full(generic.work_size(structure, rows), np.nan)
    return generic.loss_floor_step(structure, 0, mu, direction, slope, curvature, work)


@pytest.mark.parametrize("M", [2, 3, 5, 8])
def test_the_line_search_finds_the_best_step(M):
    random = np.random.RandomState(M)
    ranking = Ranking(np.arange(M, dtype=np.int32), np.array([0, M]), M)
    rows = pack_rows(np.ones((1, 1)), fit_intercept=False, compress=False)

    def mixture():
        chosen = [np.eye(M)[random.permutation(M)].ravel() for _ in range(3)]
        return random.dirichlet(np.ones(3)) @ chosen

    def value(gamma):
        point = (mu + gamma * direction).reshape(M, M)
        at = point[linear_sum_assignment(point, maximize=True)].sum()
        return 1 - at / M + gamma * slope - 0.5 * gamma**2 * curvature

    for _ in range(40):
        mu = mixture()
        direction = mixture() - mu
        slope, curvature = random.uniform(-0.1, 0.3), random.choice([0.0, 0.1, 1.0])
        found = best_step(ranking, rows, mu, direction, slope, curvature)
        grid = [value(gamma) for gamma in np.linspace(0, 1, 401)]
        assert 0.0 <= found <= 1.0
        assert value(found) >= max(grid) - 1e-12


# --- optimal values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "surrogate,solver",
    [
        ("max-margin", "auto"),
        more("max-min", "auto"),
        pytest.param("max-margin", "bcfw", marks=pytest.mark.slow),
        pytest.param("max-min", "bcfw", marks=pytest.mark.slow),
    ],
)
def test_optimum_of_rankings(surrogate, solver):
    X, positions, weights = problem_data()
    model = LabelRanker(surrogate, alpha=ALPHA, solver=solver, **EXACT)
    model.fit(X, positions + 1, sample_weight=weights)
    wanted = optimum(surrogate, X, positions, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= wanted + 1e-8
    assert model.primal_ >= wanted - 1e-8
    assert model.primal_ == pytest.approx(wanted, abs=1e-6)
    assert model.dual_ == pytest.approx(wanted, abs=1e-6)
    scores = model.decision_function(X)
    w = np.concatenate([model.coef_.ravel(), model.intercept_.ravel()])
    if surrogate == "max-margin":  # the objective at the public weights
        phi, labels = outputs(3)
        total = scores.reshape(len(X), -1) @ phi.T
        slacks = []
        for i, y in enumerate(positions.tolist()):
            true = labels.index(tuple(y))
            slacks.append((1 - phi @ phi[true] / 3 + total[i] - total[i, true]).max())
        value = 0.5 * ALPHA * w @ w + np.average(slacks, weights=weights)
        assert value == pytest.approx(model.primal_, abs=1e-12)


@functools.cache
def known_problem(surrogate, M=3, **settings):
    X, positions, weights = problem_data(M)
    model = LabelRanker(surrogate, alpha=ALPHA, tol=1e-6, **settings)
    wanted = optimum(surrogate, X, positions, weights) if M == 3 else None
    return model, X, positions, weights, wanted


@pytest.mark.parametrize(
    ("surrogate", "method", "settings"),
    [
        ("max-margin", steppers.pairwise, {}),
        more("max-margin", steppers.frank_wolfe, {}),
        more("max-min", steppers.frank_wolfe, {}),
        more("max-min", steppers.frank_wolfe, {"oracle": Proximal(iterations=1)}),
        more("max-min", steppers.frank_wolfe, {"oracle": MirrorProx()}),
        more("max-min", steppers.frank_wolfe, {"oracle": MirrorProx(iterations=1)}),
        more("max-min", steppers.frank_wolfe, {"oracle": MirrorProx(projection="quadratic")}),
    ],
)
def test_the_dual_rises_and_the_certificate_is_true(surrogate, method, settings):
    model, X, positions, weights, wanted = known_problem(surrogate)
    problem = packed_problem(model, X, positions, weights)
    stepper = method(problem, rng=np.random.RandomState(0), **settings)
    dual, first_gap = -np.inf, None
    for _ in range(40):
        [(_, found)] = stepper.check()
        assert found.dual >= dual - 1e-12
        assert found.dual <= wanted + 1e-8
        assert found.primal >= wanted - 1e-8
        assert found.primal - found.dual >= -1e-9
        assert found.oracle_error >= -1e-12
        dual = found.dual
        first_gap = first_gap or found.primal - found.dual
        stepper.advance(1.0, len(X))
    assert wanted - dual < 0.2 * first_gap


@pytest.mark.more
def test_more_items_than_can_be_enumerated():
    X, positions, weights = problem_data(9, 12, seed=3)
    found = {}
    by_mirror_prox = BlockFrankWolfe("active", step_average=3.0, oracle=MirrorProx(iterations=50))
    for key, solver in ((0, "auto"), (2, by_mirror_prox)):
        model = LabelRanker("max-min", alpha=0.5, tol=1e-2, random_state=0, solver=solver)
        model.fit(X, positions, sample_weight=weights)
        assert model.status_ == "converged"
        found[key] = model
    # Two oracles, one problem: the brackets overlap.
    assert found[0].dual_ <= found[2].primal_ + 1e-12
    assert found[2].dual_ <= found[0].primal_ + 1e-12
    # An error is never said to be more than the gap, so compare them where the gap is still wide.
    widest = {k: max(check.oracle_error for check in found[k].history_) for k in found}
    assert widest[0] < 0.1 * widest[2]


@pytest.mark.more
def test_evaluation_changes_nothing():
    model, X, positions, weights, _ = known_problem("max-min")
    problem = packed_problem(model, X, positions, weights)
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0), oracle=MirrorProx())
    stepper.advance(1.0, len(X))
    before = [array.copy() for array in stepper.state.oracle[1:]]
    first = stepper.check()[0][1]
    assert stepper.check()[0][1] == first
    for old, new in zip(before, stepper.state.oracle[1:], strict=True):
        np.testing.assert_array_equal(old, new)


# --- special cases --------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["max-margin", more("max-min")])
def test_two_items_are_two_classes(surrogate):
    X, positions, weights = problem_data(2, 20, seed=5)
    y = positions[:, 0]
    ranker = LabelRanker(surrogate, alpha=0.2, **EXACT).fit(X, positions, sample_weight=weights)
    # The score of a ranking sums two entries, so its features count twice.
    classes = MulticlassClassifier(surrogate, alpha=0.1, **EXACT).fit(X, y, sample_weight=weights)
    assert ranker.primal_ == pytest.approx(classes.primal_, abs=1e-6)
    scores = ranker.decision_function(X)
    ours = scores[:, 0, 1] + scores[:, 1, 0] - scores[:, 0, 0] - scores[:, 1, 1]
    np.testing.assert_allclose(ours, classes.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_weight_two_is_the_same_as_twice(surrogate):
    X, positions, _ = problem_data(4, 10, seed=2)
    weights = np.ones(10)
    weights[:4] = 2.0
    twice = np.concatenate([np.arange(10), np.arange(4)])
    a = LabelRanker(surrogate, alpha=0.1, **EXACT).fit(X, positions, sample_weight=weights)
    b = LabelRanker(surrogate, alpha=0.1, **EXACT).fit(X[twice], positions[twice])
    assert a.primal_ == pytest.approx(b.primal_, abs=1e-7)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-3)
    weights[5] = 0.0
    c = LabelRanker(surrogate, alpha=0.1, **EXACT).fit(X, positions, sample_weight=weights)
    keep = weights > 0
    d = LabelRanker(surrogate, alpha=0.1, **EXACT).fit(X[keep], positions[keep], weights[keep])
    assert c.primal_ == d.primal_


def test_sparse_is_dense_and_threads_do_not_matter(surrogate="max-margin"):
    X, positions, weights = problem_data(4, 30, seed=1)
    models = [
        LabelRanker(surrogate, random_state=0, n_jobs=jobs).fit(data, positions, weights)
        for data, jobs in ((X, None), (X, 2), (sp.csr_matrix(X), None))
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].primal_ == models[1].primal_
    np.testing.assert_allclose(models[0].coef_, models[2].coef_, atol=1e-9)
    np.testing.assert_array_equal(models[0].predict(X), models[2].predict(sp.csr_matrix(X)))


@pytest.mark.slow
def test_kernels(surrogate="max-min"):
    X, positions, weights = problem_data(4, 30, seed=1)
    settings = {"tol": 1e-6, "max_iter": 20_000, "random_state": 0}
    linear = LabelRanker(surrogate, **settings).fit(X, positions, weights)
    gram = LabelRanker(surrogate, kernel="precomputed", **settings)
    gram.fit(X @ X.T, positions, weights)
    assert gram.primal_ == pytest.approx(linear.primal_, rel=2e-6)
    scores = linear.decision_function(X)
    np.testing.assert_allclose(gram.decision_function(X @ X.T), scores, atol=2e-3)
    curved = LabelRanker(surrogate, kernel="rbf", alpha=0.02, random_state=0).fit(X, positions)
    assert curved.status_ == "converged"
    assert curved.score(X, positions) > linear.score(X, positions)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_a_warm_start_goes_on(surrogate):
    X, positions, _ = problem_data(4, 30, seed=1)
    model = LabelRanker(surrogate, tol=1e-4, warm_start=True, random_state=0).fit(X, positions)
    before = model.n_oracle_calls_
    model.fit(X, positions)
    assert model.status_ == "converged"
    assert model.n_oracle_calls_ < 0.3 * before


def test_early_stopping():
    X, positions, _ = problem_data(4, 60, seed=1)
    model = LabelRanker(early_stopping=True, random_state=0).fit(X, positions)
    assert model.history_[-1].validation_score is not None


@pytest.mark.more
def test_the_subgradient_method():
    X, positions, _ = problem_data(4, 60, seed=1)
    with pytest.warns(ConvergenceWarning):
        model = LabelRanker("max-min", solver="subgradient", max_iter=20).fit(X, positions)
    assert 0.0 <= model.dual_ <= model.primal_


# --- formats --------------------------------------------------------------------------------


def test_all_formats_are_the_same_model():
    X, positions, _ = problem_data(4, 25, seed=7)
    names = np.array(["d", "b", "c", "a"])
    orderings = np.argsort(positions, axis=1)
    settings = {"random_state": 0, "tol": 1e-4}
    zero = LabelRanker(**settings).fit(X, positions)
    one = LabelRanker(**settings).fit(X, (positions + 1).tolist())
    floats = LabelRanker(**settings).fit(X, positions + 1.0)
    numbers = LabelRanker(y_format="orderings", **settings).fit(X, orderings)
    from_one = LabelRanker(y_format="orderings", **settings).fit(X, orderings + 1)
    named = LabelRanker(y_format="orderings", items=names, **settings).fit(X, names[orderings])
    for model in (one, floats, numbers, from_one, named):
        np.testing.assert_array_equal(model.coef_, zero.coef_)
    found = zero.predict(X)
    assert found.min() == 0
    np.testing.assert_array_equal(one.predict(X), found + 1)
    np.testing.assert_array_equal(floats.predict(X), found + 1)
    np.testing.assert_array_equal(numbers.predict(X), np.argsort(found, axis=1))
    np.testing.assert_array_equal(from_one.predict(X), np.argsort(found, axis=1) + 1)
    np.testing.assert_array_equal(named.predict(X), names[np.argsort(found, axis=1)])
    score = zero.score(X, positions)
    assert score == pytest.approx(np.mean(found == positions))
    assert one.score(X, positions + 1) == named.score(X, names[orderings]) == score
    assert numbers.score(X, orderings) == score
    best = zero.decision_function(X)[np.arange(25)[:, None], np.arange(4), found].sum(axis=1)
    for y in itertools.permutations(range(4)):
        other = zero.decision_function(X)[:, np.arange(4), list(y)].sum(axis=1)
        assert (best >= other - 1e-12).all()


def test_items_without_a_name_are_sorted_labels():
    X, positions, _ = problem_data(3, 10)
    orderings = np.array(["z", "x", "y"])[np.argsort(positions, axis=1)]
    model = LabelRanker(y_format="orderings", random_state=0).fit(X, orderings)
    assert model.items_.tolist() == ["x", "y", "z"]
    ranks = metrics.ranks_of_orderings(orderings)
    np.testing.assert_array_equal(model.items_[np.argsort(ranks, axis=1)], orderings)


def test_columns_of_a_data_frame_are_items(tmp_path):
    X, positions, _ = problem_data(3, 10)
    frame = pd.DataFrame(positions, columns=["tea", "ale", "mead"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # items with names are no orderings: nothing to ask about
        model = LabelRanker(random_state=0).fit(X, frame)
    assert model.items_.tolist() == ["tea", "ale", "mead"]
    save(model, tmp_path / "model.mm")
    assert load(tmp_path / "model.mm").items_.tolist() == ["tea", "ale", "mead"]
    assert model.score(X, frame) == model.score(X, positions)
    with pytest.raises(ValueError, match=r"y has the columns \['ale', 'tea', 'mead'\], but"):
        model.score(X, frame[["ale", "tea", "mead"]])
    with pytest.raises(ValueError, match=r"y has the columns \['ale', 'tea', 'mead'\], but"):
        LabelRanker(items=["tea", "ale", "mead"]).fit(X, frame[["ale", "tea", "mead"]])
    named = LabelRanker(items=["a", "b", "c"], random_state=0).fit(X, frame)
    assert named.items_.tolist() == ["a", "b", "c"]
    numbered = LabelRanker(y_format="ranks", random_state=0).fit(X, pd.DataFrame(positions))
    assert numbered.items_.tolist() == [0, 1, 2]
    orderings = pd.DataFrame(np.argsort(positions, axis=1), columns=["first", "second", "third"])
    ordered = LabelRanker(y_format="orderings", random_state=0).fit(X, orderings)
    assert ordered.items_.tolist() == [0, 1, 2]


# --- bad input ------------------------------------------------------------------------------

GOOD = [[1, 2, 3], [2, 1, 3], [3, 1, 2]]
BAD_RANKS = {
    "ties": ([[1, 2, 3], [2, 2, 3], [3, 1, 2]], r"y\[1\] holds 2 at places 0, 1 and 1 nowhere"),
    "out of range": ([[1, 2, 3], [2, 1, 3], [3, 1, 4]], r"y\[2\] holds 4 at place 2"),
    "mixed bases": ([[1, 2, 3], [0, 1, 2], [3, 1, 2]], r"y\[0\] holds 3 at place 2"),
    "sizes": ([[1, 2, 3], [2, 1], [3, 1, 2]], r"y\[1\] ranks 2 items but y\[0\] ranks 3"),
    "missing": ([[1, 2, 3], [2, np.nan, 3], [3, 1, 2]], r"y\[1\] is not known \(NaN\) at place 1"),
    "none": ([[1, 2, 3], [2, None, 3], [3, 1, 2]], r"y\[1\]"),
    "fractions": ([[1, 2, 3], [2, 1.5, 3], [3, 1, 2]], r"y\[1\] must hold integers"),
    "words": ([[1, 2, 3], [2, "b", 3], [3, 1, 2]], r"y\[1\] must be a row of integers"),
    "one dimension": (np.array([1, 2, 3]), r"shape \(n_examples, n_items\)"),
    "too few": ([[1, 2, 3]], "X has 3 rows but y has 1 rankings"),
    "one item": ([[1], [1], [1]], "expected at least 2"),
    "numbers": ([1, 2, 3], r"y\[0\] must be a ranking"),
    "nothing": (None, "y is None"),
    "sparse": (sp.eye(3).tocsr(), "csr"),
}


@pytest.mark.parametrize("kind", BAD_RANKS)
def test_bad_ranks_are_refused_with_their_place(kind):
    y, message = BAD_RANKS[kind]
    with pytest.raises(ValueError, match=message):
        LabelRanker().fit(np.eye(3), y)


BAD_ORDERINGS = {
    "repeated": ([["a", "b"], ["b", "b"], ["a", "b"]], None, r"y\[1\].*'b' more than once"),
    "repeated, named": ([["a", "b"], ["b", "b"], ["a", "b"]], "ab", r"y\[1\].*lacks 'a'"),
    "unknown": ([["a", "b"], ["b", "c"], ["a", "b"]], ["a", "b"], r"y\[1\] holds 'c' at place 1"),
    "other items": ([["a", "b"], ["c", "d"], ["a", "b"]], None, r"y\[1\] orders the item 'c'"),
    "too many names": ([["a", "b"]] * 3, ["a", "b", "c"], "ranks 2 items, but items has 3"),
    "names twice": ([["a", "b"]] * 3, ["a", "a"], "'a' more than once"),
    "no names": ([["a", "b"]] * 3, 7, "items must be a sequence"),
}


@pytest.mark.parametrize("kind", BAD_ORDERINGS)
def test_bad_orderings_are_refused_with_their_place(kind):
    y, items, message = BAD_ORDERINGS[kind]
    items = list(items) if items == "ab" else items
    with pytest.raises(ValueError, match=message):
        LabelRanker(y_format="orderings", items=items).fit(np.eye(3), y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"surrogate": "crf", "kernel": "rbf"}, "kernel='linear'"),
        ({"surrogate": "max-min", "solver": "pairwise"}, "single outputs"),
        ({"y_format": "scores"}, "y_format must be one of 'ranks', 'orderings'"),
        ({"solver": BlockFrankWolfe(oracle="magic")}, "oracle must be 'auto' or an oracle"),
        (
            {"solver": BlockFrankWolfe(oracle=Proximal(iterations=0))},
            "iterations must be an integer >= 1",
        ),
        (
            {"solver": BlockFrankWolfe(oracle=MirrorProx(projection="l1"))},
            "projection must be one of 'sinkhorn', 'quadratic'",
        ),
        ({"alpha": -1}, "alpha"),
    ],
)
def test_bad_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LabelRanker(**settings).fit(np.eye(3), GOOD)


def test_bad_features_are_refused():
    X = np.eye(3)
    X[1, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 1, column 2"):
        LabelRanker().fit(X, GOOD)
    model = LabelRanker(random_state=0).fit(np.eye(3), GOOD)
    with pytest.raises(ValueError, match="features"):
        model.predict(np.eye(2))
    with pytest.raises(ValueError, match=r"y\[0\] ranks 2 items, but the model was fitted on 3"):
        model.score(np.eye(3), [[1, 2]] * 3)
    with pytest.raises(ValueError, match=r"y\[0\] holds 0 at place 0"):  # fitted on ranks from 1
        model.score(np.eye(3), [[0, 1, 2]] * 3)


# --- interface ------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_saved_rankers_answer_the_same(tmp_path, surrogate):
    X, positions, _ = problem_data(4, 20)
    names = np.array(["d", "b", "c", "a"])
    y = names[np.argsort(positions, axis=1)]
    model = LabelRanker(surrogate, y_format="orderings", warm_start=True, random_state=0).fit(X, y)
    save(model, tmp_path / "model", dual=True)
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.fit(X, y).n_oracle_calls_ < model.n_oracle_calls_


def test_pipelines_searches_and_clones():
    X, positions, _ = problem_data(3, 40)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LabelRanker(random_state=0)),
        {"labelranker__alpha": [0.01, 1.0], "labelranker__surrogate": ["max-margin", "max-min"]},
        cv=3,
    ).fit(X, positions)
    assert search.best_score_ > 0.5
    assert search.predict(X).shape == positions.shape
    twin = clone(search.best_estimator_)
    np.testing.assert_array_equal(twin.fit(X, positions).predict(X), search.predict(X))


def test_metrics_of_rankings():
    random = np.random.RandomState(0)
    true = np.argsort(random.randn(20, 5), axis=1) + 1
    found = np.argsort(random.randn(20, 5), axis=1) + 1
    wanted = np.mean([kendalltau(a, b).statistic for a, b in zip(true, found, strict=True)])
    assert metrics.kendall_tau(true, found) == pytest.approx(wanted, abs=1e-12)
    assert metrics.kendall_tau(true, true) == 1.0
    assert metrics.kendall_tau(true, 6 - true) == -1.0
    assert metrics.hamming_loss(true, found) == np.mean(true != found)
    assert metrics.spearman_footrule(true, true) == 0.0
    assert metrics.spearman_footrule([[1, 2, 3, 4]], [[4, 3, 2, 1]]) == 1.0
    assert metrics.spearman_footrule([[1, 2, 3]], [[3, 2, 1]]) == 1.0
    with pytest.raises(ValueError, match="same shape"):
        metrics.kendall_tau(true, found[:3])


# --- real data ------------------------------------------------------------------------------

# Kendall's tau to be reached; one ranking for all reaches .67, .30, .15, .19 and -.04. On bodyfat
# no ranking of an example is likely, and max-margin learns nothing.
LEAST_TAU = {"glass": 0.8, "wine": 0.8, "vehicle": 0.8, "vowel": 0.7, "bodyfat": 0.15}
LARGE = ("vehicle", "vowel")


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
@pytest.mark.parametrize(
    "name",
    [
        *(name for name in LEAST_TAU if name not in LARGE),
        *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE),
    ],
)
def test_real_rankings(name, surrogate):
    data = realdata.load_npz(f"lr_{name}")
    X, ranks = data["X"].astype(float), data["rank"].astype(int) + 1
    test = np.arange(len(X)) % 5 == 0
    model = make_pipeline(StandardScaler(), LabelRanker(surrogate, tol=0.05, random_state=0))
    model.fit(X[~test], ranks[~test])
    ranker = model[-1]
    assert ranker.status_ == "converged"
    assert 0.0 <= ranker.gap_ <= 0.05 * ranker.primal_
    found = model.predict(X[test])
    assert (np.sort(found, axis=1) == np.arange(ranks.shape[1]) + 1).all()
    tau = metrics.kendall_tau(ranks[test], found)
    assert (tau >= LEAST_TAU[name]) == (name != "bodyfat" or surrogate == "max-min")
    right = 1 - metrics.hamming_loss(ranks[test], found)
    assert model.score(X[test], ranks[test]) == pytest.approx(right, abs=1e-12)
