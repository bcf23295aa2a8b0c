"""Weights only for the labels seen with a feature: against masks, enumeration, convex solvers."""

from __future__ import annotations

import copy
import itertools
import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import RBF, EarlyStopping, SequenceLabeler, load, save
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.protocol import add_row, clear_rows
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from maxmargin.features.rows import pack_rows, scores_of
from maxmargin.features.states import seen_states, states_of

N_LABELS, N_FEATURES, ALPHA = 4, 7, 0.05


def sequences(lengths, n_labels=N_LABELS, n_features=N_FEATURES, seed=0):
    """Sparse rows, of which some features are seen with one label and some with several."""
    random = np.random.RandomState(seed)
    weights = 2.0 * random.randn(n_features, n_labels)
    X = [sp.random(t, n_features, 0.4, format="csr", random_state=random) for t in lengths]
    y = [(x @ weights + random.randn(x.shape[0], n_labels)).argmax(axis=1) for x in X]
    return X, y


SMALL = sequences([1, 2, 3, 3, 2, 3])
SOME = sequences([3, 5, 2, 7, 4] * 6, 5, 30, seed=1)


def mask_of(X, y, n_labels):
    """Which features are at a position with which label."""
    mask = np.zeros((n_labels, X[0].shape[1]), bool)
    for x, labels in zip(X, y, strict=True):
        for row, label in zip(x.toarray(), labels, strict=True):
            mask[label] |= row != 0.0
    return mask


def labeler(surrogate="max-margin", **settings):
    settings = {"alpha": ALPHA, "state_features": "seen", "random_state": 0} | settings
    return SequenceLabeler(surrogate, **settings)


def optimum(surrogate, X, y, mask):
    """The smallest objective over weights that are 0 where the mask is, by a convex solver."""
    K = N_LABELS
    coef, constant = cp.Variable(mask.shape), cp.Variable(K)
    moves, ends = cp.Variable((K, K)), cp.Variable((2, K))
    losses = []
    for x, truth in zip(X, y, strict=True):
        unary = x.toarray() @ coef.T + np.ones((x.shape[0], 1)) @ cp.reshape(constant, (1, K), "C")

        def score(labels, unary=unary):
            total = ends[0, labels[0]] + ends[1, labels[-1]]
            total += sum(unary[t, int(k)] for t, k in enumerate(labels))
            return total + sum(moves[a, b] for a, b in itertools.pairwise(labels))

        outputs = list(itertools.product(range(K), repeat=len(truth)))
        if surrogate == "crf":
            top = cp.log_sum_exp(cp.hstack([score(labels) for labels in outputs]))
        else:
            wrong = (np.array(outputs) != truth).sum(axis=1)
            top = cp.max(cp.hstack([score(z) + w for z, w in zip(outputs, wrong, strict=True)]))
        losses.append(top - score(truth.tolist()))
    parts = (coef, constant, moves, ends)
    objective = ALPHA / 2 * sum(map(cp.sum_squares, parts)) + sum(losses) / len(losses)
    problem = cp.Problem(cp.Minimize(objective), [cp.multiply(coef, ~mask) == 0.0])
    return problem.solve(solver="CLARABEL"), coef.value


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_the_optimum_is_that_of_masked_weights(surrogate):
    mask = mask_of(*SMALL, N_LABELS)
    seen_with = mask.sum(axis=0)
    assert {1, 2} & {*seen_with.tolist()} and 3 in seen_with, "short lists and masked rows"
    lowest, coef = optimum(surrogate, *SMALL, mask)
    model = labeler(surrogate, tol=1e-6, max_iter=20_000).fit(*SMALL)
    assert model.dual_ <= lowest * (1 + 1e-7) and lowest <= model.primal_ * (1 + 1e-7)
    assert model.gap_ <= 2e-6 * lowest
    np.testing.assert_allclose(model.coef_.toarray(), coef, atol=0.02)
    stored = np.zeros_like(mask)
    stored[model.coef_.nonzero()] = True
    assert not (stored & ~mask).any() and model.coef_.nnz == mask.sum()
    assert lowest > 1.001 * optimum(surrogate, *SMALL, np.ones_like(mask))[0]


@compiled
def change(rows, weights, values, row, clear):
    n = values.shape[0]
    matrix = weights[: rows.n_inputs * n].reshape(rows.n_inputs, n)
    if clear:
        clear_rows(rows, matrix, row, row + 2)
    else:
        add_row(rows, matrix, row, values, 0.5)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 7, 8, 22])
@pytest.mark.parametrize("bias", [False, True])
def test_rows_against_a_masked_matrix(n_labels, bias):
    random = np.random.RandomState(n_labels)
    X = sp.random(60, 25, 0.2, format="csr", random_state=random)
    X = sp.csr_array(np.hstack([X.toarray(), np.zeros((60, 1))]))  # an empty column
    truth = np.minimum(random.poisson(n_labels / 3, 60), n_labels - 1)
    mask = mask_of([X], [truth], n_labels)
    dense = X.toarray()
    states = seen_states(X, truth, np.ones(60, bool), n_labels)
    rows = states.restrict(pack_rows(X, fit_intercept=bias))
    coef, constant = np.where(mask, random.randn(*mask.shape), 0.0), random.randn(n_labels)

    def flat(coef, constant):
        stored = sp.csc_array((coef[mask_t(mask)], *places(mask)), shape=mask.shape)
        return np.concatenate([states.weights(stored).ravel(), constant if bias else []])

    def as_coef(weights):
        return states.coef(weights).toarray()

    weights = flat(coef, constant)
    assert len(weights) == rows.n_inputs * n_labels
    np.testing.assert_array_equal(as_coef(weights), coef)
    scores = np.empty((60, n_labels))
    scores_of(rows, weights, scores)
    np.testing.assert_allclose(scores, dense @ coef.T + bias * constant, atol=1e-12)
    for values in (random.randn(n_labels), np.eye(n_labels)[0]):
        for row in range(60):
            change(rows, weights, values, row, False)
            coef += np.where(mask, 0.5 * np.outer(values, dense[row]), 0.0)
            constant += 0.5 * values
    np.testing.assert_allclose(as_coef(weights), coef, atol=1e-12)
    np.testing.assert_allclose(weights, flat(coef, constant), atol=1e-12)  # the rest stays 0
    change(rows, weights, values, 5, True)
    used = (dense[5:7] != 0.0).any(axis=0)
    assert not as_coef(weights)[:, used].any()  # and without a constant the last row of the matrix
    if bias:
        np.testing.assert_allclose(as_coef(weights), np.where(used, 0.0, coef), atol=1e-12)


def mask_t(mask):
    return np.nonzero(mask.T)[::-1]


def places(mask):
    return np.nonzero(mask.T)[1], np.concatenate([[0], np.cumsum(mask.sum(axis=0))])


def test_places_follow_from_the_stored_weights():
    X, y = SOME
    model = labeler().fit(X, y)
    found, kept = states_of(model.coef_), model._states
    for mine, other in zip(found, kept, strict=True):
        np.testing.assert_array_equal(mine, other)


SOLVERS = {
    "max-margin": ["accelerated", "bcfw", "pairwise", "flow"],
    "max-min": ["flow"],
    "crf": ["accelerated", "bcfw", "lbfgs"],
    "smooth-max-min": ["lbfgs"],
}


@pytest.mark.parametrize(
    "surrogate, solver", [(s, n) for s, names in SOLVERS.items() for n in names]
)
def test_all_solvers_agree(surrogate, solver):
    """Brackets of the optimum by different solvers, and by weights that are masked, overlap."""
    X, y = SOME
    long = [sp.vstack(X[:20]).tocsr()], [np.concatenate(y[:20])]  # no stored inner products
    X, y = X + long[0], y + long[1]
    settings = {"tol": 1e-3, "max_iter": 5000}
    model = labeler(surrogate, solver=solver, **settings).fit(X, y)
    assert model.status_ == "converged" and model.dual_ <= model.primal_
    other = labeler(surrogate, **settings).fit(X, y)
    assert model.dual_ <= other.primal_ * (1 + 1e-9)
    assert other.dual_ <= model.primal_ * (1 + 1e-9)


def test_the_dual_never_falls():
    """Steps use the inner products of all labels, which are upper bounds."""
    found = []
    labeler(
        solver="bcfw", tol=1e-6, max_iter=60, callbacks=lambda check: found.append(check.dual)
    ).fit(*SOME)
    assert len(found) > 4 and (np.diff(found) >= -1e-12).all()


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_saved_models_predict_the_same(surrogate, tmp_path):
    X, y = SOME
    model = labeler(surrogate).fit(X, y)
    save(model, tmp_path / "m", dual=True)
    for other in (load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.weights_, model.weights_)
        np.testing.assert_array_equal(other.coef_.toarray(), model.coef_.toarray())
        for a, b in zip(other.decision_function(X), model.decision_function(X), strict=True):
            np.testing.assert_array_equal(a, b)
    arrays = [x.toarray() for x in X]
    np.testing.assert_array_equal(np.concatenate(model.predict(arrays)), predicted(model, X))
    if surrogate == "crf":
        loaded = load(tmp_path / "m")
        for a, b in zip(loaded.predict_marginals(X), model.predict_marginals(X), strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a.sum(axis=1), 1.0)


def predicted(model, X):
    return np.concatenate(model.predict(X))


def test_scores_are_sums_over_the_stored_weights():
    X, y = SOME
    model = labeler("crf").fit(X, y)
    coef = model.coef_.toarray()
    x = X[0].toarray()
    unary = x @ coef.T + model.intercept_
    unary[0] += model.first_
    unary[-1] += model.last_
    by_output = {
        labels: unary[range(len(labels)), labels].sum()
        + sum(model.transitions_[a, b] for a, b in itertools.pairwise(labels))
        for labels in itertools.product(range(5), repeat=len(x))
    }
    total = np.logaddexp.reduce(list(by_output.values()))
    expected = by_output[tuple(y[0])] - total
    np.testing.assert_allclose(model.log_likelihood(X[:1], y[:1]), expected, rtol=1e-9)
    assert tuple(model.predict(X[:1])[0]) == max(by_output, key=by_output.get)


def test_pruned_models():
    words = [[{"w": "a"}, {"w": "b"}, {"w": "c"}], [{"w": "b"}, {"w": "d"}], [{"w": "a"}]]
    y = [["x", "y", "z"], ["y", "z"], ["x"]]
    model = labeler().fit(words, y)
    assert model.coef_.nnz == 4
    small = model.prune(0.5, single=True)
    assert small.coef_.dtype == np.float32 and small.coef_.nnz <= 4 and small.status_ == "pruned"
    assert len(small.vectorizer_.feature_names_) == small.coef_.shape[1]
    assert [list(labels) for labels in small.predict(words)] == y
    whole = model.prune()
    np.testing.assert_array_equal(predicted(whole, words), predicted(model, words))


def test_warm_starts():
    model = labeler(warm_start=True, tol=1e-4, max_iter=2000).fit(*SOME)
    first = model.n_iter_
    model.fit(*SOME)
    assert model.n_iter_ < first and model.gap_ <= 1.1e-4 * model.primal_
    other = labeler(state_features="all", warm_start=True, tol=1e-4, max_iter=2000).fit(*SOME)
    other.set_params(state_features="seen").fit(*SOME)  # the dual has no features
    assert other.dual_ <= model.primal_ and model.dual_ <= other.primal_


class Killed(BaseException):
    """In the place of a signal."""


def test_a_killed_fit_ends_with_the_same_bits(tmp_path):
    whole = labeler(tol=1e-5).fit(*SOME)
    left = [4]

    def write(state):
        left[0] -= 1
        if not left[0]:
            write_checkpoint(tmp_path / "c", {}, state)
            raise Killed

    model = labeler(tol=1e-5)
    model._recorder = Recorder(write, 0.0)
    with pytest.raises(Killed):
        model.fit(*SOME)
    model = labeler(tol=1e-5)
    model._recorder = Recorder(lambda state: None, np.inf, read_checkpoint(tmp_path / "c")[1])
    model.fit(*SOME)
    np.testing.assert_array_equal(model.weights_, whole.weights_)
    assert (model.primal_, model.dual_) == (whole.primal_, whole.dual_)


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_threads_change_no_bits(surrogate):
    models = [labeler(surrogate, n_jobs=n).fit(*SOME) for n in (1, 2)]
    np.testing.assert_array_equal(models[0].weights_, models[1].weights_)


def test_lists_dicts_and_matrices_are_alike():
    lists = [[["a", "b"], ["b", "c"]], [["c"], ["a", "d"], ["d"]]]
    dicts = [[dict.fromkeys(names, 1.0) for names in tokens] for tokens in lists]
    columns = "abcd"
    matrices = [
        sp.csr_array([[float(name in token) for name in columns] for token in tokens])
        for tokens in lists
    ]
    given = [matrix.copy() for matrix in matrices]
    y = [["x", "y"], ["y", "z", "z"]]
    models = [labeler(alpha="auto", tol=1e-8).fit(X, y) for X in (lists, dicts, matrices)]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_.toarray(), models[0].coef_.toarray(), atol=1e-3)
        assert model.alpha_ == pytest.approx(models[0].alpha_)
    for before, after in zip(given, matrices, strict=True):  # matrices of users stay as they are
        np.testing.assert_array_equal(before.toarray(), after.toarray())
        np.testing.assert_array_equal(before.indices, after.indices)
    everything = SequenceLabeler(alpha="auto").fit(lists, y)
    assert models[0].alpha_ == pytest.approx(0.5 * everything.alpha_)


def test_a_hidden_label_may_be_any():
    words = [[["a"], ["b"], ["c"]], [["b"], ["c"]], [["a"], ["c"]]]
    y = [["x", None, "y"], ["x", "y"], ["x", "y"]]
    model = labeler().fit(words, y)
    stored = np.zeros(model.coef_.shape, int)
    stored[model.coef_.tocoo().coords] = 1
    assert model.vectorizer_.feature_names_ == ["a", "b", "c"]
    assert stored.tolist() == [[1, 1, 0], [0, 1, 1]]


def test_held_out_sequences_name_no_features():
    X, y = SOME
    model = labeler(early_stopping=EarlyStopping(0.3, 50), max_iter=20).fit(X, y)
    assert 0 < model.coef_.nnz < mask_of(X, y, 5).sum()
    assert model.score(X, y) > 0.5


def test_other_features_are_refused():
    X, y = SOME
    with pytest.raises(ValueError, match="state_features='seen' is for feature dicts"):
        labeler().fit([x.toarray() for x in X], y)
    with pytest.raises(ValueError, match="state_features='seen' needs kernel='linear'"):
        labeler(kernel=RBF()).fit(X, y)
    with pytest.raises(ValueError, match="state_features must be 'all' or 'seen'"):
        labeler(state_features="some").fit(X, y)
    with pytest.raises(TypeError, match=r"write state_features=StateFeatures\(min_count=2\)"):
        SequenceLabeler(feature_min_count=2)
