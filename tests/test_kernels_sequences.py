"""Kernels between the positions of sequences, and transformers that work position by position."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import RBF, BlockFrankWolfe, EarlyStopping, SequenceLabeler, load, save
from samebits import assert_same

pytestmark = pytest.mark.more

K = 3


def sequences(n=12, d=4, longest=6, seed=0):
    """Labels that depend on the position's features in a curved way, and on the label before."""
    random = np.random.RandomState(seed)
    lengths = random.randint(1, longest + 1, n)
    X = [random.randn(length, d) for length in lengths]
    y = [(np.abs(x[:, 0]) > 0.8).astype(int) + (x[:, 1] * x[:, 2] > 0.3) for x in X]
    return X, [np.array(labels) for labels in y]


X, Y = sequences()
STACKED = np.concatenate(X)
CUTS = np.cumsum([len(x) for x in X])[:-1]


def fitted(X=X, y=Y, **options):
    options = {"alpha": 0.05, "tol": 1e-5, "random_state": 0, **options}
    return SequenceLabeler(**options).fit(X, y)


def split(stacked):
    return np.split(stacked, CUTS)


def factor(gram):
    return np.linalg.cholesky(gram + 1e-13 * np.eye(len(gram)))


@pytest.mark.parametrize("boundary_weights", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("steps", ["pairwise", "plain", "subgradient"])
def test_linear_kernel_is_linear(steps, fit_intercept, boundary_weights):
    options = {
        "solver": "subgradient"
        if steps == "subgradient"
        else BlockFrankWolfe(steps=steps, step_average=2.0),
        "fit_intercept": fit_intercept,
        "boundary_weights": boundary_weights,
        "tol": 0,
        # Exact steps make remembered outputs equally good; later, rounding chooses between them.
        "max_iter": 1 if steps == "pairwise" else 5,
    }
    linear = fitted(**options)
    dual = fitted(kernel=lambda A, B: A @ B.T, **options)
    assert np.allclose(STACKED[dual.support_].T @ dual.dual_coef_, linear.coef_.T, atol=1e-9)
    for name in ("intercept_", "transitions_", "first_", "last_"):
        assert np.allclose(getattr(dual, name), getattr(linear, name), atol=1e-9)
    for mine, its in zip(dual.history_, linear.history_, strict=True):
        assert np.isclose(mine.primal, its.primal, atol=1e-11)
        assert np.isclose(mine.dual, its.dual, atol=1e-11)
    for a, b in zip(linear.decision_function(X), dual.decision_function(X), strict=True):
        assert np.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("longest", [6, 90])  # longer than the sequences whose products are kept
def test_rbf_is_linear_on_a_factor_of_its_matrix(longest):
    X, y = sequences(n=5, longest=longest, seed=1)
    stacked = np.concatenate(X)
    gram = rbf_kernel(stacked, gamma=1 / (4 * stacked.var()))
    features = np.split(factor(gram), np.cumsum([len(x) for x in X])[:-1])
    options = {"alpha": 2.0, "solver": BlockFrankWolfe()}
    dual = fitted(X, y, kernel="rbf", tol=0, max_iter=5, **options)
    assert np.isclose(dual.kernel_.gamma, 1 / (4 * stacked.var()))
    linear = fitted(features, y, tol=0, max_iter=5, **options)
    assert abs(dual.primal_ - linear.primal_) < 1e-9
    assert abs(dual.dual_ - linear.dual_) < 1e-9
    assert min(check.gap for check in dual.history_) >= -1e-9


@pytest.mark.slow
def test_max_min_too(cache_size=0.003):
    gram = rbf_kernel(STACKED, gamma=0.5)
    options = {"surrogate": "max-min", "alpha": 0.5, "tol": 1e-4, "n_jobs": 2}
    dual = fitted(kernel=RBF(0.5, cache_size), **options)
    linear = fitted(split(factor(gram)), **options)
    assert abs(dual.primal_ - linear.primal_) <= 2e-4 * linear.primal_
    assert abs(dual.dual_ - linear.dual_) <= 2e-4 * linear.primal_
    assert min(check.gap for check in dual.history_) >= -1e-9


def test_optimum_of_rbf_is_that_of_a_factor_of_its_matrix():
    gram = rbf_kernel(STACKED, gamma=0.5)
    dual = fitted(kernel=RBF(0.5), alpha=0.5, tol=1e-6)
    linear = fitted(split(factor(gram)), alpha=0.5, tol=1e-6)
    assert abs(dual.primal_ - linear.primal_) < 1e-6
    assert abs(dual.dual_ - linear.dual_) < 1e-6


@pytest.mark.slow  # single labels have the same test
@pytest.mark.parametrize("longest", [6, 90])
@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_values_when_needed_are_the_values(as_matrix, longest):
    X, y = sequences(n=5, longest=longest, seed=2)
    options = {"solver": "bcfw", "tol": 0, "max_iter": 5}
    whole = fitted(X, y, kernel="rbf", **options)
    for cache_size in (0.001, 1e-7):
        kernel = RBF(cache_size=cache_size)
        parts = fitted([as_matrix(x) for x in X], y, kernel=kernel, **options)
        assert np.isclose(parts.primal_, whole.primal_, atol=1e-10)
        assert np.isclose(parts.dual_, whole.dual_, atol=1e-10)


def own_kernel(A, B):
    return rbf_kernel(A, B, gamma=0.3)


def test_precomputed_and_function_are_the_named_kernel():
    named = fitted(kernel=RBF(0.3))
    function = fitted(kernel=own_kernel)
    given = fitted(split(own_kernel(STACKED, STACKED)), kernel="precomputed")
    for other in (function, given):
        assert np.isclose(other.primal_, named.primal_, atol=1e-10)
    others = sequences(seed=5)[0]
    from_matrix = given.decision_function([own_kernel(x, STACKED) for x in others])
    by_function = function.decision_function(others)
    for a, b, c in zip(named.decision_function(others), from_matrix, by_function, strict=True):
        assert np.allclose(a, b, atol=1e-8)
        assert np.allclose(a, c, atol=1e-8)


def test_model_keeps_the_support_and_answers_again(tmp_path):
    model = fitted(kernel="rbf", alpha=0.005, tol=1e-2)
    assert 0 < len(model.support_) < len(STACKED)
    assert np.array_equal(model.support_vectors_, STACKED[model.support_])
    assert model.dual_coef_.shape == (len(model.support_), K)
    with pytest.raises(AttributeError, match="kernel='linear'"):
        _ = model.coef_
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_same(again.decision_function(X), model.decision_function(X))
        assert_same(again.predict(X), model.predict(X))
    assert_same(model.set_params(n_jobs=2).predict(X), again.predict(X))


def test_threads_make_no_difference():
    for cache_size in (200, 0.003):
        one = fitted(kernel=RBF(cache_size=cache_size), solver="bcfw")
        two = fitted(kernel=RBF(cache_size=cache_size), solver="bcfw", n_jobs=2)
        assert_same(one.dual_coef_, two.dual_coef_)
        assert one.gap_ == two.gap_


def test_curved_problem_is_learned_only_with_a_kernel():
    train, test = sequences(n=150, seed=3), sequences(n=60, seed=4)
    linear = fitted(*train, alpha=0.002, tol=0.05).score(*test)
    curved = fitted(*train, alpha=0.002, tol=0.05, kernel="rbf").score(*test)
    assert curved > 0.8 > linear + 0.1


def test_feature_dicts():
    dicts = [[{f"f{j}": value for j, value in enumerate(row)} for row in x] for x in X]
    named = fitted(dicts, kernel="rbf")
    plain = fitted(kernel="rbf")
    assert np.isclose(named.primal_, plain.primal_, atol=1e-10)
    assert_same(named.predict(dicts), plain.predict(X))


def test_early_stopping_and_warm_start():
    model = fitted(kernel="rbf", early_stopping=EarlyStopping(validation_fraction=0.3), max_iter=50)
    assert len(model.support_) < len(STACKED)
    best = max(check.validation_score for check in model.history_)
    assert best > 0.4
    warm = fitted(kernel="rbf", warm_start=True, tol=1e-3)
    assert warm.n_iter_ > 10
    assert warm.fit(X, Y).n_iter_ <= 1  # the best weights may be of an earlier check
    assert warm.set_params(kernel=RBF(1.0)).fit(X, Y).status_ == "converged"


def test_constraints_hold_with_a_kernel():
    forbidden = {"transitions": [(2, 0)]}
    labels = [np.where((np.r_[0, y[:-1]] == 2) & (y == 0), 1, y) for y in Y]
    model = fitted(y=labels, kernel="rbf", constraints=forbidden)
    for labels in model.predict(sequences(n=40, seed=9)[0]):
        assert not ((labels[:-1] == 2) & (labels[1:] == 0)).any()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (X, "must be a square matrix with kernel='precomputed'"),
        ([sp.csr_array(x) for x in split(own_kernel(STACKED, STACKED))], "dense"),
    ],
)
def test_bad_precomputed(X, message):
    with pytest.raises(ValueError, match=message):
        fitted(X, kernel="precomputed")


def test_bad_width_in_prediction():
    given = fitted(split(own_kernel(STACKED, STACKED)), kernel="precomputed")
    with pytest.raises(ValueError, match=f"must have {len(STACKED)} columns"):
        given.predict(X)
