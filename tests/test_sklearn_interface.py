"""The estimators among scikit-learn's own: its checks, searches, pipelines and tables."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from maxmargin import (
    MulticlassClassifier,
    OrdinalClassifier,
    Polynomial,
    SequenceLabeler,
    StructuredPredictor,
)

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
ESTIMATORS = [MulticlassClassifier, OrdinalClassifier, SequenceLabeler, StructuredPredictor]

WEIGHT_CHECKS = {
    check.__name__: "compares scores to 1e-7, where tol=0.01 asks for less; see the next test"
    for check in (
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    )
}


def expected_failures(estimator):
    """Checks that do not hold, and why."""
    if type(estimator) is not OrdinalClassifier:
        return WEIGHT_CHECKS
    order = "trains on three strings, whose order an ordinal classifier wants to be told"
    return {**WEIGHT_CHECKS, "check_classifiers_classes": order}


@parametrize_with_checks(
    [
        MulticlassClassifier(),
        OrdinalClassifier(),
        MulticlassClassifier("crf"),
        MulticlassClassifier(kernel="rbf"),
        OrdinalClassifier(kernel=Polynomial(coef0=1.0)),
    ],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
@pytest.mark.parametrize(
    "check",
    [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data],
)
def test_weights_are_repetitions(estimator, check):
    check(estimator.__name__, estimator(tol=1e-13, max_iter=100_000))


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_go_in_and_out(estimator):
    model = estimator(alpha=0.5, tol=1e-3)
    assert model.get_params()["alpha"] == 0.5
    for name, value in model.get_params().items():
        assert getattr(model, name) is value
        other = object()
        assert model.set_params(**{name: other}) is model
        assert model.get_params()[name] is other
        model.set_params(**{name: value})
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        model.set_params(C=1.0)


@pytest.mark.parametrize("estimator", ESTIMATORS[:3])
def test_clone_is_unfitted_and_equal(estimator):
    classes = np.array([2, 1, 0])
    model = estimator(alpha=0.25, classes=classes, class_weight={0: 2.0}, callbacks=[print])
    copy = clone(model)
    assert copy is not model and not hasattr(copy, "classes_")
    assert {k: v for k, v in copy.get_params().items() if k != "classes"} == {
        k: v for k, v in model.get_params().items() if k != "classes"
    }
    assert (copy.classes == classes).all()


def test_only_classifiers_are_classifiers():
    assert is_classifier(MulticlassClassifier()) and is_classifier(OrdinalClassifier())
    assert not is_classifier(SequenceLabeler()) and not is_classifier(StructuredPredictor())


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_pickle(estimator):
    # Without acceleration the dual reported is that of the dual state.
    model = estimator(random_state=0, warm_start=True, solver="bcfw").fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.decision_function(X) == model.decision_function(X)).all()
    assert again.history_ == model.history_
    assert again.fit(X, Y).history_[0].dual == pytest.approx(model.dual_, rel=1e-12)


# --- searches and pipelines ---------------------------------------------------------------------


def test_grid_search():
    grid = {"alpha": [1e-3, 1.0, 1e3], "surrogate": ["max-margin", "max-min"]}
    search = GridSearchCV(MulticlassClassifier(random_state=0), grid, cv=3, error_score="raise")
    search.fit(StandardScaler().fit_transform(X), Y)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 6 and search.best_score_ > 0.85
    assert search.best_params_["alpha"] == 1e-3
    # A penalty of 1e3 leaves almost no weights: worse than the best.
    large = [p["alpha"] == 1e3 for p in search.cv_results_["params"]]
    assert scores[large].max() < search.best_score_


def test_pipeline_with_a_scaler():
    shifted = X * [1.0, 100.0, 1.0, 0.01] + 1000.0
    pipeline = make_pipeline(StandardScaler(), MulticlassClassifier(random_state=0))
    scores = cross_val_score(pipeline, shifted, Y, cv=5)
    assert scores.mean() > 0.9
    pipeline.set_params(multiclassclassifier__surrogate="max-min").fit(shifted, Y)
    assert pipeline.score(shifted, Y) > 0.9
    assert (pipeline.classes_ == [0, 1, 2]).all()


@pytest.mark.parametrize(
    "model",
    [MulticlassClassifier(), MulticlassClassifier("max-min"), OrdinalClassifier()],
    ids=["max-margin", "max-min", "ordinal"],
)
def test_rare_class_counts_with_balanced_weights(model):
    rng = np.random.RandomState(0)
    y = (np.arange(200) % 10 == 0).astype(int)
    x = rng.randn(200, 1) + 2.0 * y[:, None]
    model = clone(model).set_params(class_weight="balanced", tol=1e-3, random_state=0).fit(x, y)
    # A line between the two means finds about five of six.
    assert np.mean(model.predict(x[y == 1]) == 1) > 0.6
    assert np.mean(model.predict(x[y == 0]) == 0) > 0.6


def test_balanced_margins_of_sequences_are_fourth_roots():
    rng = np.random.RandomState(0)
    y = [rng.choice(3, n, p=[0.8, 0.15, 0.05]) for n in (4, 2, 7, 3, 9, 5)]
    x = [rng.randn(len(labels), 3) + np.eye(3)[labels] for labels in y]
    counts = np.bincount(np.concatenate(y))
    roots = (counts.sum() / (3 * counts)) ** 0.25
    one, other = (
        SequenceLabeler(class_weight=weight, tol=0.1, random_state=0).fit(x, y)
        for weight in ("balanced", dict(enumerate(roots)))
    )
    assert one.primal_ == other.primal_ and (one.weights_ == other.weights_).all()


# --- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_data_frame(estimator):
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pd.DataFrame(X, columns=names)
    species = pd.Series(np.array(["a", "b", "c"])[Y], index=np.arange(len(Y))[::-1])
    model = estimator(classes=["a", "b", "c"], random_state=0).fit(frame, species)
    assert model.feature_names_in_.tolist() == names and model.n_features_in_ == 4
    assert (model.coef_ == estimator(random_state=0).fit(X, Y).coef_).all()
    assert set(model.predict(frame)) == {"a", "b", "c"}
    assert model.score(frame, species) == model.score(frame, species.to_numpy())
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(frame[names[::-1]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


# --- sequences ----------------------------------------------------------------------------------


def sequences():
    """Lists as users have them: arrays of several lengths."""
    rng = np.random.RandomState(0)
    x = [rng.randn(length, 3) for length in (3, 1, 5, 2, 4, 6, 2, 3, 1)]
    return x, [(part[:, 0] > 0).astype(int) for part in x]


def test_cross_validation_of_sequences():
    x, y = sequences()
    model = SequenceLabeler(tol=0.1, random_state=0)
    scores = cross_val_score(model, x, y, cv=KFold(3), error_score="raise")
    expected = []
    for train, test in KFold(3).split(x):
        fitted = clone(model).fit([x[i] for i in train], [y[i] for i in train])
        expected.append(fitted.score([x[i] for i in test], [y[i] for i in test]))
    assert scores.tolist() == expected
    assert scores.mean() > 0.6  # the optimum has 2/3


def test_search_over_sequences():
    x, y = sequences()
    names = [["no", "yes"][int(k)] for part in y for k in part]
    cuts = np.cumsum([len(part) for part in y])[:-1]
    y = [part.tolist() for part in np.split(np.array(names), cuts)]
    grid = {"alpha": [0.01, 100.0], "boundary_weights": [True, False]}
    search = GridSearchCV(SequenceLabeler(tol=0.1, random_state=0), grid, cv=3, error_score="raise")
    search.fit(x, y)
    assert search.best_params_["alpha"] == 0.01
    assert [len(labels) for labels in search.predict(x)] == [len(part) for part in x]
    assert 0.7 < search.best_score_ <= 1.0


def test_predictions_across_folds():
    found = cross_val_predict(MulticlassClassifier(random_state=0), X, Y, cv=3)
    assert np.mean(found == Y) > 0.8


def test_pickle_of_sequences():
    x, y = sequences()
    model = SequenceLabeler(constraints={"last": [1]}, tol=0.1, random_state=0)
    y = [np.r_[part[:-1], 0] for part in y]
    model.fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(again.decision_function(x), model.decision_function(x)):
        assert (one == other).all()
