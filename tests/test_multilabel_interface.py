"""Sets of labels as users have them: formats, refusals, scikit-learn, files, real data."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.metrics import f1_score, hamming_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import EarlyStopping, MultiLabelClassifier, UnseenLabelWarning, load, save
from realdata import load_npz
from samebits import assert_same

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(60, 3)
Y = (X @ RANDOM.randn(3, 3) + 0.3 * RANDOM.randn(60, 3) > 0.0).astype(int)
NAMES = np.array(["cat", "dog", "owl"])
SETS = [set(NAMES[row == 1].tolist()) for row in Y]


def fitted(y=Y, **settings):
    """Labels that do not interact; those that do have tests of their own."""
    return MultiLabelClassifier(random_state=0, edges="none", **settings).fit(X, y)


# --- formats --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y",
    [
        Y.astype(bool),
        Y.astype(np.uint8),
        Y.astype(float),
        Y.astype(object),
        np.asfortranarray(Y),
        Y.tolist(),
        pd.DataFrame(Y),
    ],
    ids=["bool", "uint8", "float", "object", "fortran", "lists", "frame"],
)
def test_all_dense_indicators_are_one(y):
    expected, model = fitted(), fitted(y)
    assert_same(model.coef_, expected.coef_)
    assert model.classes_.tolist() == [0, 1, 2]
    found = model.predict(X)
    assert isinstance(found, np.ndarray) and found.shape == Y.shape
    assert_same(found, expected.predict(X))
    assert model.score(X, y) == expected.score(X, Y) == np.mean((found == Y).all(axis=1))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array])
def test_sparse_indicators(kind):
    model = fitted(kind(Y))
    assert_same(model.coef_, fitted().coef_)
    found = model.predict(X)
    assert sp.issparse(found) and (found.toarray() == fitted().predict(X)).all()
    assert model.score(X, kind(Y)) == model.score(X, Y)


@pytest.mark.parametrize(
    "y",
    [
        SETS,
        [frozenset(names) for names in SETS],
        [sorted(names) for names in SETS],
        [tuple(names) for names in SETS],
        tuple(SETS),
        pd.Series(SETS),
        [np.array(sorted(names)) for names in SETS],
    ],
    ids=["set", "frozenset", "list", "tuple", "tuple of sets", "series", "arrays"],
)
def test_collections_of_names(y):
    model = fitted(y)
    assert_same(model.coef_, fitted().coef_)
    assert model.classes_.tolist() == NAMES.tolist()
    found = model.predict(X)
    assert all(isinstance(names, tuple) for names in found)
    expected = fitted().predict(X)
    assert found == [tuple(NAMES[row == 1].tolist()) for row in expected]
    assert model.score(X, y) == fitted().score(X, Y)
    assert model.score(X, Y) == fitted().score(X, Y)  # the other format scores too


@pytest.mark.parametrize(
    "labels", [[3, 1, 2**40], [("a", 1), ("a", 2), None], [1, "one", 2.5], [-1.0, 0.0, 7.0]]
)
def test_any_hashable_labels(labels, tmp_path):
    y = [{labels[k] for k in np.flatnonzero(row)} for row in Y]
    model = fitted(y, classes=labels)
    assert_same(model.coef_, fitted().coef_)
    expected = [tuple(labels[k] for k in np.flatnonzero(row)) for row in fitted().predict(X)]
    assert model.predict(X) == expected
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict(X) == expected
    assert_same(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, y) == model.score(X, y)


def test_columns_have_names():
    frame = pd.DataFrame(Y, columns=NAMES)
    model = fitted(frame)
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.score(X, frame) == model.score(X, Y)
    with pytest.raises(ValueError, match="y has the columns .* in this order. Reorder them"):
        model.score(X, frame[NAMES[::-1]])
    model = fitted(Y, classes=["a", "b", "c"], class_weight={"b": 2.0})
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert_same(model.predict(X).shape, Y.shape)
    with pytest.raises(ValueError, match="classes names 2 labels but y has 3 columns"):
        fitted(Y, classes=["a", "b"])


def test_one_label_and_labels_that_do_not_occur():
    model = fitted(Y[:, :1])
    assert model.coef_.shape == (1, 3) and model.decision_function(X).shape == (60, 1)
    assert model.predict(X).shape == (60, 1)
    model = fitted(SETS, classes=["ant", *NAMES])
    assert model.classes_.tolist() == ["ant", *NAMES]
    assert not any("ant" in names for names in model.predict(X))
    assert fitted([{"only"} if row[0] else set() for row in Y]).classes_.tolist() == ["only"]


def test_examples_without_weight_bring_no_labels():
    weights = np.ones(60)
    weights[7] = 0.0
    y = [set(names) for names in SETS]
    y[7] = {"never"}
    model = MultiLabelClassifier(random_state=0).fit(X, y, sample_weight=weights)
    assert model.classes_.tolist() == NAMES.tolist()


# --- refusals -------------------------------------------------------------------------------


def changed(at, value, dtype=float):
    y = Y.astype(dtype)
    y[at] = value
    return y


def with_row(i, row, y=SETS):
    return [*y[:i], row, *y[i + 1 :]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (changed((4, 1), 2, int), r"received 2 at row 4, column 1"),
        (changed((4, 1), -2, int), r"received -2 at row 4, column 1"),
        (changed((0, 2), 0.5), r"received 0.5 at row 0, column 2. A continuous target"),
        (changed((5, 0), np.nan), r"received nan at row 5, column 0"),
        (changed((5, 0), "x", object), r"received 'x' at row 5, column 0"),
        (sp.csr_matrix(changed((4, 1), 3, int)), r"received 3 at row 4, column 1"),
        (Y[:, 0], r"received an array of shape \(60,\)"),
        (Y[:, 0].tolist(), r"y\[0\] must be a set, list or tuple of labels; received [01]"),
        (Y[:, :, None], r"received an array of shape \(60, 3, 1\)"),
        (Y[:, :0], "y has 0 columns"),
        (Y[:-1], "X has 60 rows but y has 59"),
        (SETS[:-1], "X has 60 rows but y has 59"),
        (Y[:, :1].tolist(), "rows of an indicator matrix, or collections of the labels 0 and 1"),
        (with_row(3, "cat"), r"y\[3\] must be a set, list or tuple of labels; received 'cat'"),
        (with_row(3, None), r"y\[3\] must be a set, list or tuple"),
        (with_row(3, {"cat": 1}), r"y\[3\] must be a set, list or tuple"),
        (with_row(3, ["cat", "cat"]), r"y\[3\] names the label 'cat' twice"),
        (with_row(3, ["cat", ["owl"]]), r"y\[3\]\[1\] is a list, which cannot be a label"),
        (with_row(3, [np.nan]), r"y\[3\]\[0\] is nan, which cannot be a label"),
        (with_row(2, [0, 1, 2], Y.tolist()), "names the label [01] twice"),
        ([set()] * 60, "y has 0 classes"),
        (None, "requires y to be passed"),
    ],
)
def test_what_is_no_set_of_labels(y, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier().fit(X, y)


def test_unknown_labels():
    with pytest.raises(ValueError, match=r"is the label 'owl', which is not among the 2 classes"):
        fitted(SETS, classes=["cat", "dog"])
    model = fitted(SETS)
    right = model.score(X, SETS)
    first = next(i for i, found in enumerate(model.predict(X)) if set(found) == SETS[i])
    with pytest.warns(UnseenLabelWarning, match="'emu'"):
        worse = model.score(X, with_row(first, SETS[first] | {"emu"}))
    assert worse == pytest.approx(right - 1 / 60)
    with pytest.raises(ValueError, match="y has 2 columns but the model knows 3 labels"):
        model.score(X, Y[:, :2])


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight must be None, 'balanced' or a dict; received 'even'"),
        ({"emu": 1.0}, "class_weight names 'emu', which is not among the classes"),
        ({"cat": -1.0}, r"class_weight\['cat'\] must be a finite number >= 0"),
        ({"cat": 0.0, "dog": 0.0, "owl": 0.0}, "class_weight is 0 for all labels"),
    ],
)
def test_class_weights_that_mean_nothing(class_weight, message):
    with pytest.raises(ValueError, match=message):
        fitted(SETS, class_weight=class_weight)


@pytest.mark.more
def test_a_label_of_no_weight_is_not_learned():
    model = fitted(SETS, class_weight={"dog": 0.0}, surrogate="max-min", tol=1e-6)
    assert np.abs(model.coef_[1]).max() == 0.0 and np.abs(model.coef_[0]).max() > 0.1


# --- scikit-learn ---------------------------------------------------------------------------

OTHER_LABELS = "hands in one column of labels other than 0 and 1"
ONE_COLUMN = "hands in one label per example, not a set of labels"
EXPECTED = {
    "check_estimators_dtypes": OTHER_LABELS,
    "check_sample_weights_pandas_series": OTHER_LABELS,
    "check_sample_weights_not_an_array": OTHER_LABELS,
    "check_sample_weights_shape": OTHER_LABELS,
    "check_sample_weights_not_overwritten": OTHER_LABELS,
    "check_classifier_data_not_an_array": OTHER_LABELS,
    "check_fit2d_1feature": OTHER_LABELS,
    "check_classifier_not_supporting_multiclass": OTHER_LABELS,
    "check_classifiers_classes": ONE_COLUMN,
    "check_classifiers_regression_target": ONE_COLUMN,
    "check_class_weight_classifiers": ONE_COLUMN,
    "check_classifiers_train": "a list of lists of one 0 or 1 has two meanings, and is refused",
    "check_classifiers_one_label_sample_weights": "all labels absent is a case to learn from here",
    "check_sample_weight_equivalence_on_dense_data": "compares scores to 1e-7 at tol=0.01",
    "check_sample_weight_equivalence_on_sparse_data": "compares scores to 1e-7 at tol=0.01",
}


@parametrize_with_checks(
    [MultiLabelClassifier()], expected_failed_checks=lambda estimator: EXPECTED
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_tags_and_clone():
    model = MultiLabelClassifier("max-min", alpha=0.5, classes=NAMES, class_weight={"cat": 2.0})
    assert is_classifier(model)
    tags = model.__sklearn_tags__()
    assert tags.classifier_tags.multi_label and tags.target_tags.multi_output
    copy = clone(model)
    assert copy.get_params()["alpha"] == 0.5 and (copy.classes == NAMES).all()
    again = pickle.loads(pickle.dumps(copy.fit(X, SETS)))
    assert again.predict(X) == copy.predict(X)


def test_searches_and_pipelines():
    grid = {"multilabelclassifier__alpha": [1e-2, 1e3]}
    pipeline = make_pipeline(StandardScaler(), MultiLabelClassifier(random_state=0))
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, Y)
    assert search.best_params_["multilabelclassifier__alpha"] == 1e-2
    assert search.best_score_ > 0.5
    scores = cross_val_score(pipeline, X, SETS, cv=KFold(3), error_score="raise")
    assert (scores > 0.4).all()
    assert search.score(X, Y) == search.best_estimator_.score(X, Y)


def test_metrics_of_scikit_learn_take_the_predictions():
    model = fitted()
    assert hamming_loss(Y, model.predict(X)) < 0.15
    assert f1_score(Y, model.predict(X), average="micro") > 0.8


# --- training control -----------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_files_keep_model_and_dual(tmp_path, surrogate):
    # Without acceleration the dual reported is that of the dual state.
    model = fitted(SETS, surrogate=surrogate, warm_start=True, solver="bcfw")
    save(model, tmp_path / "model", dual=True)
    loaded = load(tmp_path / "model")
    assert loaded.predict(X) == model.predict(X)
    assert_same(loaded.coef_, model.coef_)
    assert loaded.fit(X, SETS).history_[0].dual == pytest.approx(model.dual_, rel=1e-12)


def test_warm_start_goes_on():
    # Without acceleration: its best dual point is a mixture, which a refit does not start from.
    model = fitted(warm_start=True, tol=1e-6, solver="bcfw")
    before = model.dual_
    model.set_params(tol=1e-8).fit(X, Y)
    assert model.history_[0].dual == pytest.approx(before, rel=1e-12)
    other = model.fit(X[:30], Y[:30])  # another problem: nothing to start from
    assert other.history_[0].dual == 0.0


def test_early_stopping_keeps_the_best_score():
    model = fitted(early_stopping=EarlyStopping(validation_fraction=0.3), tol=0.0, max_iter=40)
    assert model.status_ == "early_stopped"
    scores = [check.validation_score for check in model.history_]
    assert max(scores) == scores[-1] and len(set(scores)) > 1


@pytest.mark.more
@pytest.mark.parametrize("solver", ["bcfw", "pairwise", "subgradient"])
def test_solvers_agree(solver):
    expected = fitted(alpha=0.1, tol=1e-6)
    model = fitted(alpha=0.1, tol=1e-2, solver=solver, max_iter=5000)
    assert model.status_ == "converged"
    assert model.dual_ <= expected.primal_ and model.primal_ >= expected.dual_


def test_threads_make_no_difference():
    one, two = fitted(n_jobs=1), fitted(n_jobs=2)
    assert_same(one.coef_, two.coef_)
    assert one.primal_ == two.primal_


def test_no_examples_or_features_that_are_zero():
    x = X.copy()
    x[5] = 0.0
    for surrogate in ("max-margin", "max-min"):
        model = MultiLabelClassifier(
            surrogate, edges="none", fit_intercept=False, random_state=0
        ).fit(x, Y)
        assert model.status_ == "converged"


# --- real data ------------------------------------------------------------------------------


def load_sparse(name):
    data = load_npz(name)
    parts = data["X_data"].astype(np.float64), data["X_indices"], data["X_indptr"]
    inputs = sp.csr_matrix(parts, shape=tuple(data["X_shape"]))
    labels = np.unpackbits(data["Y_packed"], axis=1)[:, : int(data["n_labels"])]
    return inputs, labels, data["is_train"]


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
@pytest.mark.parametrize(("name", "alpha"), [("yeast", "auto"), ("scene", 0.05)])
def test_as_good_as_one_svm_a_label(name, alpha, surrogate):
    data = load_npz(name)
    train = data["is_train"]
    inputs, labels = data["X"].astype(np.float64), data["Y"]
    model = MultiLabelClassifier(surrogate, edges="none", alpha=alpha, random_state=0)
    model.fit(inputs[train], labels[train])
    assert model.status_ == "converged"
    svms = OneVsRestClassifier(LinearSVC()).fit(inputs[train], labels[train])
    expected = hamming_loss(labels[~train], svms.predict(inputs[~train]))
    assert hamming_loss(labels[~train], model.predict(inputs[~train])) < expected + 0.01
    assert model.score(inputs[~train], labels[~train]) > 0.13


def test_tags_of_bibliographic_entries():
    inputs, labels, train = load_sparse("bibtex")
    names = load_npz("bibtex")["label_names"]
    y = [tuple(names[row == 1].tolist()) for row in labels]
    model = MultiLabelClassifier(edges="none", alpha=0.3, tol=0.05, random_state=0)
    model.fit(inputs[train], [names for names, used in zip(y, train) if used])
    assert model.status_ == "converged" and len(model.classes_) == 159
    found = model.decision_function(inputs[~train]) > 0.0
    order = [names.tolist().index(label) for label in model.classes_]
    # No tags at all would be wrong in .0154 of the places; a good SVM a tag is wrong in .0132.
    assert hamming_loss(labels[~train][:, order], found) < 0.0142
    assert f1_score(labels[~train][:, order], found, average="micro") > 0.4
