"""Kernels: the same problem in other coordinates, whatever the kernel and however it is stored."""

from __future__ import annotations

import pickle
from unittest import mock

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from marks import more, split
from maxmargin import (
    RBF,
    BlockFrankWolfe,
    Checked,
    EarlyStopping,
    KernelFunction,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    Polynomial,
    load,
    save,
)
from maxmargin.features.kernels import KernelRows
from maxmargin.features.rows import FeatureRows
from samebits import assert_same

X, Y = load_iris(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[::3], Y[::3]
MODELS = [MulticlassClassifier, OrdinalClassifier]
SURROGATES = ["max-margin", "max-min", "crf"]
TINY = 0.004  # megabytes: ten of the 50 rows


def fitted(model, surrogate, X=X, y=Y, **options):
    options = {"alpha": 0.02, "tol": 1e-5, "random_state": 0, **options}
    return model(surrogate, **options).fit(X, y)


def gamma_scale(X):
    return 1.0 / (X.shape[1] * X.var())


def factor(gram):
    """Features whose inner products are ``gram``."""
    return np.linalg.cholesky(gram + 1e-13 * np.eye(len(gram)))


# --- the same problem in other coordinates --------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "model, surrogate",
    [
        (MulticlassClassifier, "max-margin"),
        (MulticlassClassifier, "max-min"),
        more(MulticlassClassifier, "crf"),
        (OrdinalClassifier, "max-min"),
    ],
)
def test_linear_kernel_is_linear(model, surrogate, fit_intercept):
    # Few passes: later, equal gaps are told apart by rounding, and the two take turns differently.
    options = {"fit_intercept": fit_intercept, "tol": 0, "max_iter": 5}
    options["solver"] = BlockFrankWolfe("active")
    linear = fitted(model, surrogate, **options)
    dual = fitted(model, surrogate, X @ X.T, kernel="precomputed", **options)
    assert linear.n_iter_ == dual.n_iter_
    assert np.allclose(X[dual.support_].T @ dual.dual_coef_, linear.coef_.T, atol=1e-9)
    assert np.allclose(dual.intercept_, linear.intercept_, atol=1e-9)
    for mine, its in zip(dual.history_, linear.history_, strict=True):
        assert np.isclose(mine.primal, its.primal, atol=1e-11)
        assert np.isclose(mine.dual, its.dual, atol=1e-11)


@pytest.mark.parametrize(
    "solver",
    [
        BlockFrankWolfe("active", step_average=2.0),
        pytest.param(
            BlockFrankWolfe("active", "pairwise", step_average=2.0), marks=pytest.mark.slow
        ),
        "subgradient",
    ],
    ids=["bcfw", "pairwise", "subgradient"],
)
def test_every_solver(solver):
    options = {"solver": solver, "max_iter": 5, "tol": 0}
    linear = fitted(MulticlassClassifier, "max-margin", **options)
    dual = fitted(MulticlassClassifier, "max-margin", X @ X.T, kernel="precomputed", **options)
    assert np.isclose(linear.primal_, dual.primal_, atol=1e-11)
    assert np.isclose(linear.dual_, dual.dual_, atol=1e-11)
    assert np.allclose(linear.decision_function(X), dual.decision_function(X @ X.T), atol=1e-9)


@pytest.mark.parametrize("surrogate", split(SURROGATES, {"crf"}))
@pytest.mark.parametrize("model", MODELS)
def test_rbf_is_linear_on_a_factor_of_its_matrix(model, surrogate):
    gram = rbf_kernel(X, gamma=gamma_scale(X))
    dual = fitted(model, surrogate, kernel="rbf", tol=1e-7)
    linear = fitted(model, surrogate, factor(gram), tol=1e-7)
    assert abs(dual.primal_ - linear.primal_) < 1e-6
    assert dual.gap_ <= 1e-7 * dual.primal_


def test_optimum_of_a_convex_solver():
    points, labels = X[::4], Y[::4]
    gram = rbf_kernel(points, gamma=0.5) + 1.0  # the intercept
    root = factor(gram)
    n, K = len(points), 3
    weights, slacks = cp.Variable((n, K)), cp.Variable(n)
    scores = root @ weights
    constraints = [
        slacks[i] >= float(k != labels[i]) + scores[i, k] - scores[i, labels[i]]
        for i in range(n)
        for k in range(K)
    ]
    objective = cp.Minimize(0.01 * cp.sum_squares(weights) + cp.sum(slacks) / n)
    optimum = cp.Problem(objective, constraints).solve(solver=cp.CLARABEL)
    found = fitted(MulticlassClassifier, "max-margin", points, labels, kernel=RBF(0.5),
                   tol=1e-8)  # fmt: skip
    assert abs(found.primal_ - optimum) < 1e-6
    assert abs(found.dual_ - optimum) < 1e-6


def own_kernel(A, B):
    return rbf_kernel(A, B, gamma=0.3)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_precomputed_and_function_are_the_named_kernel(surrogate):
    named = fitted(MulticlassClassifier, surrogate, kernel=RBF(0.3))
    function = fitted(MulticlassClassifier, surrogate, kernel=own_kernel)
    given = fitted(MulticlassClassifier, surrogate, own_kernel(X, X), kernel="precomputed")
    others = X[1::7] + 0.1
    scores = named.decision_function(others)
    assert np.allclose(function.decision_function(others), scores, atol=1e-9)
    assert np.allclose(given.decision_function(own_kernel(others, X)), scores, atol=1e-9)
    assert np.array_equal(given.support_, named.support_)
    assert given.support_vectors_.size == 0


def test_gamma_as_in_svc():
    for gamma in ("scale", "auto", 0.7):
        model = fitted(MulticlassClassifier, "max-margin", kernel=RBF(gamma))
        assert np.isclose(model.kernel_.gamma, SVC(gamma=gamma).fit(X, Y)._gamma)
    constant = fitted(MulticlassClassifier, "max-margin", np.zeros((50, 2)), kernel="rbf")
    assert constant.kernel_.gamma == 1.0
    sparse = fitted(MulticlassClassifier, "max-margin", sp.csr_array(X), kernel="rbf")
    assert np.isclose(sparse.kernel_.gamma, gamma_scale(X))


LABEL_SETS = np.stack([Y == 0, Y > 0, X[:, 0] * X[:, 1] > 0], axis=1).astype(int)


@pytest.mark.more
@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_multilabel(surrogate):
    options = {"alpha": 0.02, "tol": 0, "max_iter": 5, "random_state": 0}
    options["solver"] = BlockFrankWolfe("active")
    linear = MultiLabelClassifier(surrogate, edges="none", **options).fit(X, LABEL_SETS)
    dual = MultiLabelClassifier(surrogate, edges="none", kernel="precomputed", **options)
    dual.fit(X @ X.T, LABEL_SETS)
    assert np.allclose(X[dual.support_].T @ dual.dual_coef_, linear.coef_.T, atol=1e-9)
    assert np.allclose(dual.intercept_, linear.intercept_, atol=1e-9)
    for mine, its in zip(dual.history_, linear.history_, strict=True):
        assert np.isclose(mine.primal, its.primal, atol=1e-11)
        assert np.isclose(mine.dual, its.dual, atol=1e-11)
    curved = MultiLabelClassifier(
        surrogate, edges="none", kernel="rbf", alpha=0.003, random_state=0
    )
    curved.fit(X, LABEL_SETS)
    assert curved.gap_ <= 0.01 * curved.primal_
    assert curved.score(X, LABEL_SETS) > 0.9
    own = curved.decision_function(X)
    gram = rbf_kernel(X, curved.support_vectors_, curved.kernel_.gamma)
    assert np.allclose(own, gram @ curved.dual_coef_ + curved.intercept_)


# --- how values are stored ------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("cache_size", [1e-6, TINY, 0.015])
@pytest.mark.parametrize(
    "as_matrix", [np.asarray, pytest.param(sp.csr_array, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kernel", [RBF(), Polynomial(degree=2, coef0=1.0)])
def test_values_when_needed_are_the_values(kernel, as_matrix, cache_size):
    data = np.where(np.abs(X - X.mean(axis=0)) < 0.3, 0.0, X)
    whole = fitted(MulticlassClassifier, "max-margin", data, kernel=kernel)
    kernel = clone(kernel).set_params(cache_size=cache_size)
    parts = fitted(MulticlassClassifier, "max-margin", as_matrix(data), kernel=kernel)
    assert whole.n_iter_ == parts.n_iter_
    assert np.isclose(whole.primal_, parts.primal_, atol=1e-10)
    assert np.isclose(whole.dual_, parts.dual_, atol=1e-10)
    found = parts.decision_function(as_matrix(data))
    assert np.allclose(found, whole.decision_function(data), atol=1e-7)


def packed_rows(**options):
    """The rows that a fit hands to its solver."""
    with mock.patch.object(MulticlassClassifier, "_solve", side_effect=KeyError) as solve:
        with pytest.raises(KeyError):
            MulticlassClassifier(**options).fit(X, Y)
    return solve.call_args.args[0].rows


def test_budget_decides_the_store():
    rows = packed_rows(kernel="rbf")
    assert isinstance(rows, FeatureRows) and rows.in_kernel_space
    n = len(X)
    just = n * n * 8 / 2**20
    assert isinstance(packed_rows(kernel=RBF(cache_size=just)), FeatureRows)
    rows = packed_rows(kernel=RBF(cache_size=just * 0.99))
    assert isinstance(rows, KernelRows)
    assert rows.lines.nbytes <= 0.99 * just * 2**20
    assert packed_rows(kernel=RBF(cache_size=1e-6)).lines.size == 0


@pytest.mark.parametrize(
    "cache_size", [200, *(pytest.param(size, marks=pytest.mark.slow) for size in (TINY, 1e-6))]
)
def test_results_do_not_depend_on_threads_nor_on_what_is_remembered(cache_size):
    one = fitted(MulticlassClassifier, "max-min", kernel=RBF(cache_size=cache_size))
    two = fitted(MulticlassClassifier, "max-min", kernel=RBF(cache_size=cache_size), n_jobs=2)
    assert_same(one.dual_coef_, two.dual_coef_)
    assert [check[2:6] for check in one.history_] == [check[2:6] for check in two.history_]
    if cache_size < 1:
        none = fitted(MulticlassClassifier, "max-min", kernel=RBF(cache_size=1e-6))
        assert_same(one.dual_coef_, none.dual_coef_)


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", SURROGATES[:2])  # a CRF is never sure of its truth
@pytest.mark.parametrize("model", MODELS)
def test_only_the_support_is_kept(model, surrogate):
    found = fitted(model, surrogate, kernel="rbf", alpha=0.005, tol=1e-3)
    n_support = len(found.support_)
    assert 3 <= n_support < len(X) - 5
    assert found.dual_coef_.shape == (n_support, 3)
    assert np.array_equal(found.support_vectors_, X[found.support_])
    assert np.allclose(found.intercept_, found.dual_coef_.sum(axis=0))
    assert np.abs(found.dual_coef_).max(axis=1).min() > 1e-9
    by_hand = rbf_kernel(X, found.support_vectors_, gamma_scale(X)) @ found.dual_coef_
    assert np.allclose(found.decision_function(X), by_hand + found.intercept_)


def test_gap_is_never_negative():
    for kernel in ("rbf", Polynomial(coef0=1.0)):
        for surrogate in SURROGATES:
            found = fitted(MulticlassClassifier, surrogate, solver=Checked(), kernel=kernel)
            assert min(check.gap for check in found.history_) >= -1e-9
            duals = [check.dual for check in found.history_]
            assert (np.diff(duals) >= -1e-12).all()


def test_linear_and_kernel_models_do_not_mix():
    model = fitted(MulticlassClassifier, "max-margin", kernel="rbf")
    with pytest.raises(AttributeError, match="only available with kernel='linear'"):
        _ = model.coef_
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing
    model.set_params(kernel="linear").fit(X, Y)
    assert model.coef_.shape == (3, 4)
    assert not hasattr(model, "dual_coef_")
    model.set_params(kernel="rbf")  # says nothing about the model there is
    assert model.predict(X).shape == (50,)
    model.fit(X, Y)
    assert not hasattr(model, "coef_")


def test_weightless_examples_are_left_out():
    weights = np.ones(len(X))
    weights[::5] = 0.0
    used = np.flatnonzero(weights)
    whole = clone(fitted(MulticlassClassifier, "max-margin", kernel="rbf"))
    whole.fit(X, Y, sample_weight=weights)
    part = clone(whole).fit(X[used], Y[used])
    assert_same(whole.dual_coef_, part.dual_coef_)
    assert np.array_equal(whole.support_, used[part.support_])
    given = clone(whole).set_params(kernel="precomputed")
    given.fit(rbf_kernel(X, gamma=part.kernel_.gamma), Y, sample_weight=weights)
    assert np.array_equal(given.support_, whole.support_)


@pytest.mark.parametrize("data", ["features", "precomputed"])
def test_early_stopping(data):
    gram = rbf_kernel(X, gamma=0.3)
    features = X if data == "features" else gram
    kernel = RBF(0.3) if data == "features" else "precomputed"
    model = fitted(
        MulticlassClassifier, "max-margin", features, kernel=kernel,
        early_stopping=EarlyStopping(validation_fraction=0.3),
    )  # fmt: skip
    scores = [check.validation_score for check in model.history_]
    assert max(scores) > 0.8
    assert len(model.support_) <= 35


def test_warm_start_continues():
    model = fitted(MulticlassClassifier, "max-min", kernel=RBF(), warm_start=True, tol=1e-4)
    assert model.n_oracle_calls_ > 0
    assert model.fit(X, Y).n_oracle_calls_ == 0
    model.set_params(kernel__gamma=0.8).fit(X, Y)
    cold = clone(model).fit(X, Y)
    assert abs(cold.primal_ - model.primal_) <= 1e-4 * cold.primal_


# --- in the company of scikit-learn ---------------------------------------------------------------


@pytest.mark.parametrize("data", [X, sp.csr_array(X)])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_saved_models_answer_bit_for_bit(tmp_path, kernel, data):
    model = fitted(MulticlassClassifier, "max-margin", data, kernel=kernel)
    save(model, tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_same(again.decision_function(data), model.decision_function(data))
        assert again.kernel_ == model.kernel_


def test_saved_function_must_be_given_again(tmp_path):
    model = fitted(MulticlassClassifier, "max-margin", kernel=own_kernel)
    with pytest.warns(UserWarning, match="'kernel' is a function and is not saved"):
        save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"set_params\(kernel=function\)"):
        again.predict(X)
    again.set_params(kernel=own_kernel)
    assert_same(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("value, name", [(RBF(), "rbf"), (Polynomial(), "poly")])
def test_a_name_is_the_value_with_its_default_parameters(value, name):
    named, given = (fitted(MulticlassClassifier, "max-margin", kernel=k) for k in (name, value))
    assert named.kernel_ == given.kernel_
    assert_same(named.dual_coef_, given.dual_coef_)


def test_values_are_printed_copied_and_saved(tmp_path):
    kernel = Polynomial(degree=2, coef0=1.0, cache_size=50)
    model = fitted(MulticlassClassifier, "max-margin", kernel=kernel)
    assert "kernel=Polynomial(cache_size=50, coef0=1.0, degree=2)" in repr(model)
    assert clone(model).get_params()["kernel__degree"] == 2
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert repr(again.kernel) == repr(kernel)
    assert_same(again.predict(X), model.predict(X))


def test_a_function_with_a_budget_is_not_part_of_a_file(tmp_path):
    model = fitted(MulticlassClassifier, "max-margin", kernel=KernelFunction(own_kernel, 10))
    with pytest.warns(UserWarning, match="'function' is a function and is not saved"):
        save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kernel.cache_size == 10
    with pytest.raises(ValueError, match=r"set_params\(kernel=function\)"):
        again.predict(X)
    again.set_params(kernel__function=own_kernel)
    assert_same(again.decision_function(X), model.decision_function(X))


def test_search_over_kernel_parameters():
    grid = {"kernel__gamma": [0.01, 0.5], "alpha": [0.002, 0.1]}
    search = GridSearchCV(MulticlassClassifier(kernel=RBF(), random_state=0), grid, cv=3)
    assert search.fit(X, Y).best_score_ > 0.9


def test_precomputed_is_split_in_pairs():
    given = MulticlassClassifier(kernel="precomputed", random_state=0)
    assert given.__sklearn_tags__().input_tags.pairwise
    assert not MulticlassClassifier(kernel="rbf").__sklearn_tags__().input_tags.pairwise
    named = MulticlassClassifier(kernel=RBF(0.3), random_state=0)
    assert np.array_equal(cross_val_score(given, own_kernel(X, X), Y), cross_val_score(named, X, Y))


def test_pipeline_with_approximate_features():
    exact = make_pipeline(StandardScaler(), MulticlassClassifier(kernel=RBF(0.3), tol=1e-4))
    features = Nystroem(gamma=0.3, n_components=len(X), random_state=0)
    nystroem = make_pipeline(StandardScaler(), features, MulticlassClassifier(tol=1e-4))
    exact.fit(X, Y)
    nystroem.fit(X, Y)
    difference = exact[-1].primal_ - nystroem[-1].primal_
    assert abs(difference) <= 2e-4 * exact[-1].primal_  # all rows as landmarks: the same problem


def test_real_problem_beside_svc():
    points, labels = load_iris(return_X_y=True)
    svc = SVC().fit(points, labels)
    ours = MulticlassClassifier(kernel="rbf", alpha=1 / len(points), random_state=0)
    agreement = np.mean(ours.fit(points, labels).predict(points) == svc.predict(points))
    assert agreement > 0.95


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gauss"}, r"kernel must be one of 'linear', 'rbf', .* received 'gauss'"),
        ({"kernel": None}, "kernel must be one of .* received None"),
        ({"kernel": RBF(0.0)}, "gamma must be a finite number > 0; received 0.0"),
        ({"kernel": RBF("big")}, "gamma must be one of 'scale', 'auto'"),
        ({"kernel": Polynomial(0)}, "degree must be an integer >= 1; received 0"),
        ({"kernel": Polynomial(2.5)}, "degree must be an integer >= 1; received 2.5"),
        ({"kernel": Polynomial(coef0=-1.0)}, "coef0 must be a finite number >= 0; received -1.0"),
        ({"kernel": RBF(cache_size=0)}, "cache_size must be a finite number > 0"),
        (
            {"kernel": KernelFunction(own_kernel, TINY)},
            r"Function\(function, cache_size=1\)",
        ),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        MulticlassClassifier(**options).fit(X, Y)


GRAM = rbf_kernel(X, gamma=0.3)


def changed(*places):
    gram = GRAM.copy()
    for row, column, value in places:
        gram[row, column] = value
    return gram


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (GRAM[:, :30], r"must be a square matrix .* received shape \(50, 30\)"),
        (changed((3, 4, 0.1)), "must be symmetric; received .* at row 3, column 4"),
        (changed((7, 7, -1.0)), "must be positive semidefinite: its diagonal has -1 at row 7"),
        (changed((3, 40, 1.5), (40, 3, 1.5)), "1.5 at row 3, column 40 is more than its diagonal"),
        (2 * np.eye(50) - GRAM, "it has the eigenvalue -"),
        (changed((2, 2, np.nan)), "X contains NaN at row 2, column 2"),
    ],
)
def test_bad_matrices(gram, message):
    with pytest.raises(ValueError, match=message):
        MulticlassClassifier(kernel="precomputed").fit(gram, Y)


@pytest.mark.more
def test_rounding_of_a_matrix_is_no_error():
    noise = np.random.RandomState(0).uniform(-1e-12, 1e-12, GRAM.shape)
    MulticlassClassifier(kernel="precomputed").fit(GRAM + noise, Y)
    MulticlassClassifier(kernel="precomputed").fit(GRAM.astype(np.float32), Y)
    MulticlassClassifier(kernel="precomputed").fit(np.ones((50, 50)), Y)
    zero = MulticlassClassifier(kernel="precomputed", fit_intercept=False).fit(0 * GRAM, Y)
    assert zero.status_ == "converged"


def test_bad_matrix_in_prediction():
    model = MulticlassClassifier(kernel="precomputed").fit(GRAM, Y)
    with pytest.raises(ValueError, match="must have 50 columns .* 50 training rows; received 4"):
        model.predict(X)
    with pytest.raises(TypeError, match="[Ss]parse"):
        MulticlassClassifier(kernel="precomputed").fit(sp.csr_array(GRAM), Y)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: own_kernel(A, B)[:-1], r"must have shape \(50, 50\), .* received shape \(49"),
        (lambda A, B: own_kernel(A, B) * np.nan, "must be finite .*; received nan for row 0 of X"),
        (lambda A, B: "no", "must return an array of numbers; received str"),
        (lambda A, B: -polynomial_kernel(A, B), r"kernel\(X, X\) must be positive semidefinite"),
    ],
)
def test_bad_functions(function, message):
    with pytest.raises(ValueError, match=message):
        MulticlassClassifier(kernel=function).fit(X, Y)
