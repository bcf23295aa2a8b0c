"""The same problem in two guises has one solution: other programs, weights, storage, structures."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

import steppers
from maxmargin import Accelerated, Averaged, BlockFrankWolfe, MulticlassClassifier, SequenceLabeler
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.features import rows
from maxmargin.solvers import loop
from maxmargin.solvers.frank_wolfe import ORDERS

EXACT = {"tol": 1e-12, "max_iter": 100_000, "random_state": 0}


@pytest.fixture(scope="module")
def iris():
    """Every third flower, standardised: three classes, two of which overlap."""
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::3], y[::3]


@pytest.fixture(scope="module")
def words():
    """Short sequences of noisy letters."""
    random = np.random.RandomState(0)
    y = [random.randint(0, 3, length) for length in (1, 2, 4, 3, 2, 4)]
    y[0][0], y[2][:] = 2, (0, 1, 2, 0)
    X = [np.eye(3, 5)[labels] + random.randn(len(labels), 5) for labels in y]
    return X, y


def flat(alpha=0.05, **settings):
    return MulticlassClassifier(alpha=alpha, **(EXACT | settings))


def chain(alpha=0.2, **settings):
    return SequenceLabeler(alpha=alpha, **({"solver": "pairwise"} | EXACT | settings))


def weights_of(model):
    parts = [model.coef_, model.intercept_]
    if isinstance(model, SequenceLabeler):
        parts += [model.transitions_, model.first_, model.last_]
    return np.concatenate([part.ravel() for part in parts])


def assert_close(first, second, atol):
    np.testing.assert_allclose(weights_of(first), weights_of(second), rtol=0, atol=atol)


def assert_same_bits(first, second):
    np.testing.assert_array_equal(weights_of(first), weights_of(second))
    assert (first.primal_, first.dual_) == (second.primal_, second.dual_)
    assert first.n_oracle_calls_ == second.n_oracle_calls_


# --- other programs -------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("alpha", [0.3, 0.02])
def test_max_margin_is_the_svm_of_crammer_and_singer(iris, k, alpha):
    X, y = iris
    if k == 2:
        X, y = X[y > 0], y[y > 0]
    model = flat(alpha, fit_intercept=False).fit(X, y)
    other = LinearSVC(
        multi_class="crammer_singer", C=1.0 / (alpha * len(X)), fit_intercept=False,
        tol=1e-10, max_iter=1_000_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    coef = model.coef_[1:] - model.coef_[:1] if k == 2 else model.coef_
    np.testing.assert_allclose(coef, other.coef_, rtol=0, atol=1e-5)


# --- examples and columns -------------------------------------------------------------------


def test_the_intercept_is_a_penalised_constant_column(iris):
    X, y = iris
    model = flat().fit(X, y)
    other = flat(fit_intercept=False).fit(np.hstack([X, np.ones((len(X), 1))]), y)
    assert np.abs(model.intercept_).max() > 0.01
    np.testing.assert_allclose(model.coef_, other.coef_[:, :-1], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, other.coef_[:, -1], atol=1e-6)
    assert model.primal_ == pytest.approx(other.primal_, rel=1e-11)


def test_weight_two_is_an_example_twice(iris):
    X, y = iris
    weights = 1.0 + (np.arange(len(X)) % 3 == 0)
    model = flat().fit(X, y, sample_weight=weights)
    twice = np.repeat(np.arange(len(X)), weights.astype(int))
    other = flat().fit(X[twice], y[twice])
    assert model.primal_ == pytest.approx(other.primal_, rel=1e-11)
    assert_close(model, other, 1e-5)


def test_weight_two_is_a_sequence_twice(words):
    X, y = words
    model = chain().fit(X, y, sample_weight=[1, 2, 1, 1, 2, 1])
    other = chain().fit(X + [X[1], X[4]], y + [y[1], y[4]])
    assert model.primal_ == pytest.approx(other.primal_, rel=1e-11)
    assert_close(model, other, 1e-5)


def test_weight_zero_is_no_example(iris, words):
    X, y = iris
    kept = np.arange(len(X)) % 4 > 0
    assert_same_bits(flat().fit(X, y, sample_weight=1.0 * kept), flat().fit(X[kept], y[kept]))
    X, y = words
    model = chain().fit(X, y, sample_weight=[1, 1, 1, 0, 1, 0])
    assert_same_bits(model, chain().fit(X[:3] + X[4:5], y[:3] + y[4:5]))


def test_the_scale_of_the_weights_does_not_matter_with_the_same_alpha(iris):
    X, y = iris
    weights = np.linspace(0.5, 2.0, len(X))
    model, other = (flat().fit(X, y, sample_weight=scale * weights) for scale in (1.0, 8.0))
    assert_close(model, other, 1e-6)


# --- storage --------------------------------------------------------------------------------


def thinned(X):
    """Half of the entries: dense enough that a dense array is not compressed."""
    random = np.random.RandomState(0)
    return X * (random.random_sample(X.shape) < 0.5)


def test_sparse_rows_are_dense_rows(iris):
    X, y = thinned(iris[0]), iris[1]
    dense, sparse = flat().fit(X, y), flat().fit(sp.csr_array(X), y)
    assert_close(dense, sparse, 1e-9)
    found = sparse.decision_function(sp.csr_array(X))
    np.testing.assert_allclose(found, dense.decision_function(X), atol=1e-9)


@pytest.mark.more
def test_sparse_sequences_are_dense_sequences(words):
    X, y = [thinned(x) for x in words[0]], words[1]
    for solver in ("pairwise", "bcfw"):
        settings = {"solver": solver, "tol": 1e-3}
        dense = chain(**settings).fit(X, y)
        sparse = chain(**settings).fit([sp.csr_array(x) for x in X], y)
        assert_close(dense, sparse, 1e-9)


@pytest.mark.more
def test_single_precision_is_close(iris, monkeypatch):
    X, y = iris
    model, converted = flat().fit(X, y), flat().fit(X.astype(np.float32), y)
    monkeypatch.setattr(rows, "NARROW_FROM", 0)
    kept = flat().fit(X.astype(np.float32), y)
    assert_close(model, converted, 1e-5)
    assert_close(converted, kept, 1e-9)


# --- repetition -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_seed_gives_the_same_bits(iris, words, order, monkeypatch):
    settings = {"tol": 0, "max_iter": 7, "solver": Averaged(Accelerated(BlockFrankWolfe(order)))}
    in_pairs = {"solver": BlockFrankWolfe(order, "pairwise", step_average=3.0)}
    fits = []
    for seconds in (loop._SLICE_SECONDS, loop._SLICE_SECONDS, 0.0):
        # However the work is cut into slices of time.
        monkeypatch.setattr(loop, "_SLICE_SECONDS", seconds)
        fits.append((flat(**settings).fit(*iris), chain(**settings | in_pairs).fit(*words)))
    for first, second in zip(fits[0] * 2, fits[1] + fits[2], strict=True):
        assert_same_bits(first, second)
    other = flat(**settings | {"random_state": 1}).fit(*iris)
    assert np.abs(weights_of(other) - weights_of(fits[0][0])).max() > 1e-6


def test_a_bool_of_numpy_is_a_bool(iris):
    settings = {"tol": 0, "max_iter": 3}
    for plain in (False, True):
        one, other = (
            flat(solver=BlockFrankWolfe(exact_blocks=b), **settings).fit(*iris)
            for b in (plain, np.bool_(plain))
        )
        assert_same_bits(one, other)


def test_threads_do_not_change_a_bit(iris, words):
    for make, data in ((flat, iris), (chain, words)):
        one, two = (make(n_jobs=n, tol=1e-3).fit(*data) for n in (1, 2))
        assert_same_bits(one, two)
        first, second = one.decision_function(data[0]), two.decision_function(data[0])
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)


# --- structures -----------------------------------------------------------------------------


def packed_problem(model, X, y):
    """The problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y)
    return solver.call_args.args[0]


@pytest.mark.parametrize("order", ORDERS)
def test_sequences_of_length_one_are_rows(iris, order):
    X, y = iris
    rows = packed_problem(flat(), X, y)
    sequences = packed_problem(
        chain(0.05, boundary_weights=False), [x[None] for x in X], [[label] for label in y]
    )
    one, other = (
        steppers.frank_wolfe(
            problem, order=order, average=True, exact_blocks=False, rng=np.random.RandomState(0)
        )
        for problem in (rows, sequences)
    )
    for _ in range(15):
        for (w, found), (v, found_other) in zip(one.check(), other.check(), strict=True):
            np.testing.assert_allclose(v[: len(w)], w, rtol=0, atol=1e-10)
            np.testing.assert_array_equal(v[len(w) :], 0.0)
            np.testing.assert_allclose(found_other, found, rtol=0, atol=1e-12)
        assert one.advance(60.0, 1) == other.advance(60.0, 1)
    assert np.abs(one.weights).max() > 0.1


def test_consistency_where_no_class_has_a_majority():
    X, y, weights = np.ones((3, 1)), [0, 1, 2], [0.3, 0.3, 0.4]
    for alpha in (0.1, 0.03):
        settings = {"alpha": alpha, "fit_intercept": False, "tol": 1e-14}
        model = MulticlassClassifier("max-margin", **EXACT | settings)
        scores = model.fit(X, y, sample_weight=weights).decision_function(X)
        np.testing.assert_allclose(scores, 0.0, atol=1e-6)
        model = MulticlassClassifier("max-min", **EXACT | settings)
        scores = model.fit(X, y, sample_weight=weights).decision_function(X)
        np.testing.assert_allclose(scores, np.tile([-1 / 3, -1 / 3, 2 / 3], (3, 1)), atol=1e-6)
        assert model.predict(X).tolist() == [2, 2, 2]


# --- warm starts ----------------------------------------------------------------------------


def assert_same_optimum(warm, cold, tol=1e-6):
    """Both certificates hold, and hold for the same problem."""
    assert warm.status_ == cold.status_ == "converged"
    assert warm.dual_ <= cold.primal_ * (1 + 1e-12)
    assert cold.dual_ <= warm.primal_ * (1 + 1e-12)
    assert warm.primal_ == pytest.approx(cold.primal_, rel=tol)


def assert_continued(model):
    """The first check of a refit found that there was nothing to do."""
    assert model.status_ == "converged"
    assert model.n_iter_ == 1
    assert model.n_oracle_calls_ == 0
    assert model.gap_ <= model.tol * model.primal_


WARM = {"warm_start": True, "tol": 1e-7}


def test_a_refit_continues(iris):
    model = flat(solver=BlockFrankWolfe("active"), **WARM).fit(*iris)
    assert model.n_oracle_calls_ > 0
    before = weights_of(model)
    assert_continued(model.fit(*iris))
    np.testing.assert_allclose(weights_of(model), before, atol=1e-9)


def test_an_accelerated_refit_starts_from_the_dual(iris):
    # Averages and mixtures are not part of the dual state: a refit has to find new ones.
    model = flat(**WARM).fit(*iris)
    calls = model.n_oracle_calls_
    assert model.fit(*iris).n_oracle_calls_ < 0.5 * calls


@pytest.mark.parametrize("steps", ["plain", "pairwise"])
def test_a_refit_of_sequences_continues(words, steps):
    solver = BlockFrankWolfe(steps=steps)
    model = chain(solver=solver, **WARM | {"tol": 1e-3}).fit(*words)
    calls = model.n_oracle_calls_
    assert calls > 0
    model.fit(*words)
    if steps == "pairwise":
        assert_continued(model)
    # The best weights may be those of an earlier check than the last dual point: one more pass.
    assert model.n_oracle_calls_ <= len(words[0])
    # An average is not part of the dual state: a refit has to find a new one, from a good start.
    solver = BlockFrankWolfe(steps=steps, step_average=3.0)
    model = chain(solver=solver, **WARM | {"tol": 1e-3}).fit(*words)
    calls = model.n_oracle_calls_
    assert model.fit(*words).n_oracle_calls_ < 0.5 * calls


def test_without_warm_start_a_refit_is_a_first_fit(iris):
    model = flat(tol=1e-3).fit(*iris)
    before = weights_of(model)
    calls = model.n_oracle_calls_
    model.fit(*iris)
    assert model.n_oracle_calls_ == calls > 0
    np.testing.assert_array_equal(weights_of(model), before)


def changed(X, y):
    """Refits of rows that change something: parameters, labels, weights, features, classes."""
    weights = np.linspace(0.2, 3.0, len(X))
    yield {"alpha": 0.4}, (X, y)
    yield {}, (X, np.roll(y, 7))
    yield {}, (X, np.array(["c", "a", "b"])[y])
    yield {}, (X, y, weights)
    yield {}, (X[:, :2] * 3.0, y)
    yield {}, (X[:30], y[:30])
    yield {"classes": [0, 1, 2, 3]}, (X, y)
    yield {}, (X, np.minimum(y, 1))
    yield {"class_weight": {0: 2.0, 1: 0.3}}, (X, y)
    yield {"surrogate": "max-min"}, (X, y)


def test_a_refit_of_something_else_has_its_own_optimum(iris):
    for settings, data in changed(*iris):
        warm = flat(**WARM).fit(*iris)
        warm.set_params(**settings).fit(*data)
        assert_same_optimum(warm, flat(**{"tol": 1e-7} | settings).fit(*data))


def changed_words(X, y):
    """The labels of a first fit, and a second one that changes something."""
    rising = [np.sort(labels) for labels in y]
    rule = {"transitions": [(1, 0), (2, 0), (2, 1)]}
    allowed = [[{int(label), 0} for label in labels] for labels in y]
    yield y, {"alpha": 1.0}, (X, y)
    yield y, {}, (X, [(labels + 1) % 3 for labels in y])
    yield y, {}, (X[::-1], y[::-1])  # as many positions, cut at other places
    yield y, {"boundary_weights": False}, (X, y)
    yield y, {"classes": [0, 1, 2, 3]}, (X, y)
    yield rising, {"constraints": rule}, (X, rising)
    yield rising, {"alpha": 5.0, "constraints": rule}, (X, rising)
    yield y, {"alpha": 5.0}, (X, y), allowed


@pytest.mark.more
@pytest.mark.parametrize("solver", ["bcfw", "pairwise"])
def test_a_refit_of_other_sequences_has_its_own_optimum(words, solver):
    for labels, settings, data, *allowed in changed_words(*words):
        first = {"alpha": settings.get("alpha", 0.2), "tol": 1e-3, "solver": solver}
        warm = chain(**first, warm_start=True).fit(words[0], labels)
        # A plain solver would take long to a small gap: there its certificate has to do.
        tol = 1e-7 if solver == "pairwise" else 1e-2
        more = {"allowed": allowed[0]} if allowed else {}
        warm.set_params(**settings, tol=tol).fit(*data, **more)
        cold = chain(**{"tol": 1e-7} | settings).fit(*data, **more)
        assert_same_optimum(warm, cold, tol=max(tol, 1e-6))
