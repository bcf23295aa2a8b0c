"""What classifiers refuse: before any training, with argument, place, finding and remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from maxmargin import MulticlassClassifier, OrdinalClassifier, UnseenLabelWarning
from maxmargin._validation import LARGEST
from maxmargin.estimators._base import StructuredEstimator

X = np.random.RandomState(0).randn(12, 3)
Y = np.arange(12) % 3
ESTIMATORS = [MulticlassClassifier, OrdinalClassifier]


@pytest.fixture(autouse=True)
def no_training(request, monkeypatch):
    """A refusal must come before any training."""
    if "fitted" not in request.fixturenames:
        monkeypatch.setattr(
            StructuredEstimator, "_solve", lambda *rest: pytest.fail("training has started")
        )


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    return request.param(random_state=0).fit(X, Y)


def changed(place, value):
    new = X.copy()
    new[place] = value
    return new


def refused(estimator, *data, match, error=ValueError, **params):
    with pytest.raises(error, match=match) as caught:
        estimator(**params).fit(*data)
    return caught


# --- examples -----------------------------------------------------------------------------------

BAD_X = {
    "NaN": (changed((4, 1), np.nan), r"X contains NaN at row 4, column 1; expected finite.*Impute"),
    "infinity": (changed((5, 2), -np.inf), r"X contains inf\w* .*at row 5, column 2; expected fin"),
    "both infinities": (
        changed(((3, 5), (0, 2)), [np.inf, -np.inf]),
        r"X contains inf\w* .*at row 3, column 0",
    ),
    "NaN in CSR": (sp.csr_matrix(changed((4, 1), np.nan)), r"X contains NaN at row 4, column 1"),
    "infinity in CSR": (sp.csr_array(changed((5, 2), np.inf)), r"X contains inf.*row 5, column 2"),
    "None": ([[1.0, 2.0]] * 11 + [[1.0, None]], r"X contains NaN at row 11, column 1"),
    "no rows": (X[:0], r"0 sample\(s\) \(shape=\(0, 3\)\).*minimum of 1 is required"),
    "no columns": (X[:, :0], r"0 feature\(s\) \(shape=\(12, 0\)\).*minimum of 1 is required"),
    "one dimension": (X[:, 0], r"Expected 2D array, got 1D array[\s\S]*Reshape your data"),
    "three dimensions": (X[None], r"dim 3"),
    "text": ([[1, 2]] * 11 + [[3, "red"]], r"X holds 'red' at row 11, column 1; expected numbers"),
    "text in objects": (
        np.array([[1, 2]] * 11 + [[3, "red"]], dtype=object),
        r"X holds 'red' at row 11, column 1; expected numbers.*OneHotEncoder",
    ),
    "text array": (np.array([["a", "b"]] * 12), r"X holds 'a' at row 0, column 0; expected numb"),
    "ragged": ([[1, 2]] * 11 + [[3]], r"X has 1 features at row 11 but 2 at row 0"),
    "complex": (X + 1j, r"Complex data not supported"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_X)
def test_examples(estimator, case):
    bad, match = BAD_X[case]
    refused(estimator, bad, Y, match=match)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sum_that_overflows_is_no_infinity(estimator):
    model = estimator()
    big = np.full((12, 3), 0.9 * LARGEST)
    with pytest.raises(pytest.fail.Exception, match="training has started"):
        model.fit(big, Y)


# --- labels -------------------------------------------------------------------------------------

BAD_Y = {
    "None": (None, r"requires y to be passed, but the target y is None"),
    "too few": (Y[:-1], r"X has 12 rows but y has 11 labels; expected one label for each row"),
    "too many": (np.r_[Y, 0], r"X has 12 rows but y has 13 labels"),
    "one class": (["a"] * 12, r"y has 1 class: 'a'; at least 2 .*declare all labels with classes="),
    "one class of an array": (np.zeros(12, int), r"y has 1 class: 0; at least 2 classes"),
    "NaN": ([0.0] * 5 + [np.nan] + [1.0] * 6, r"y\[5\] is nan, which cannot be a label; drop"),
    "NaN in an array": (np.r_[np.nan, np.ones(11)], r"Input y contains NaN|y\[0\] is NaN"),
    "two columns": (np.c_[Y, Y], r"y should be a 1d array, got an array of shape \(12, 2\)"),
    "sparse": (sp.csr_matrix(Y), r"y must be a dense sequence of labels; received a sparse"),
    "unhashable": ([0] * 7 + [[1]] * 5, r"y\[7\] is a list, which cannot be a label.*\[1\]"),
    "continuous": (X[:, 0], r"Unknown label type: continuous"),
    "a set": ({0, 1}, r"y should be a 1d array"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_Y)
def test_labels(estimator, case):
    bad, match = BAD_Y[case]
    refused(estimator, X, bad, match=match)


BAD_CLASSES = {
    "label left out": ([0, 1], r"y holds the label 2 at position 2.*not among the 2 classes; decl"),
    "label twice": ([0, 1, 1, 2], r"classes names 1 twice; name every label once"),
    "one label": ([0], r"classes must name at least 2 labels; received 1: \[0\]"),
    "none": ([], r"classes must name at least 2 labels; received 0"),
    "a number": (3, r"classes must be a list of all labels; received 3"),
    "unhashable": ([[0], [1]], r"classes\[0\] is a list, which cannot be a label"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_CLASSES)
def test_declared_classes(estimator, case):
    bad, match = BAD_CLASSES[case]
    refused(estimator, X, Y, match=match, classes=bad)


# --- weights of examples and classes ------------------------------------------------------------

BAD_WEIGHTS = {
    "too few": (np.ones(11), r"sample_weight.shape == \(11,\), expected \(12,\): one weight for"),
    "two dimensions": (np.ones((12, 1)), r"sample_weight.shape == \(12, 1\), expected \(12,\)"),
    "negative": (
        np.r_[1, -1, np.ones(10)],
        r"sample_weight must be .*>= 0; received -1.0 at index 1",
    ),
    "NaN": (
        np.r_[1, np.nan, np.ones(10)],
        r"sample_weight must be finite.*received nan at index 1",
    ),
    "infinite": (np.r_[np.inf, np.ones(11)], r"sample_weight must be finite.*inf at index 0"),
    "all zero": (np.zeros(12), r"sample_weight is zero for all 12 examples; at least one must"),
    "text": (["heavy"] * 12, r"sample_weight must be an array of 12 numbers.*'heavy'"),
    "one class left": ((Y == 1).astype(float), r"y has 1 class: 1; at least 2 classes"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_sample_weights(estimator, case):
    bad, match = BAD_WEIGHTS[case]
    refused(estimator, X, Y, bad, match=match)


BAD_CLASS_WEIGHTS = {
    "unknown label": ({7: 1.0}, r"class_weight names 7, which is not among the classes; leave"),
    "negative": ({0: -1.0}, r"class_weight\[0\] must be a finite number >= 0; received -1.0"),
    "NaN": ({0: np.nan}, r"class_weight\[0\] must be a finite number >= 0; received nan"),
    "text": ({0: "2"}, r"class_weight\[0\] must be a finite number >= 0; received '2'"),
    "all zero": ({0: 0, 1: 0, 2: 0}, r"class_weight is 0 for all labels of y; at least one must"),
    "None": ({0: None}, r"class_weight\[0\] must be a finite number >= 0; received None"),
    "name": ("equal", r"class_weight must be None, 'balanced' or a dict; received 'equal'"),
    "list": ([1, 2, 3], r"class_weight must be None, 'balanced' or a dict .*received list"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_CLASS_WEIGHTS)
def test_class_weights(estimator, case):
    bad, match = BAD_CLASS_WEIGHTS[case]
    refused(estimator, X, Y, match=match, class_weight=bad)


# --- losses and surrogates ----------------------------------------------------------------------

BAD_LOSSES = {
    "shape": (np.ones((2, 2)), r"loss must have shape \(3, 3\).*received shape \(2, 2\)"),
    "diagonal": (
        np.ones((3, 3)),
        r"loss must be 0 on the diagonal.*received 1.0 at row 0",
    ),
    "negative": (
        np.eye(3) - 1,
        r"loss must be finite, >= 0 .*; received -1.0 at row 0, column 1",
    ),
    "NaN": (
        np.full((3, 3), np.nan),
        r"loss must be finite, >= 0 .*; received nan at row 0",
    ),
    "infinite": (
        np.where(np.eye(3, dtype=bool), 0.0, np.inf),
        r"loss must be finite, >= 0 .*; received inf at row 0, column 1",
    ),
    "zero": (np.zeros((3, 3)), r"loss is 0 everywhere"),
    "vector": (np.ones(3), r"loss must have shape \(3, 3\).*received shape \(3,\)"),
    "name": ("squared", r"loss must be '[\w-]+' or a matrix; received 'squared'"),
    "ragged": ([[0, 1], [1]], r"loss must be a name or a \(3, 3\) matrix of numbers; received"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_LOSSES)
@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_losses(estimator, case, surrogate):
    bad, match = BAD_LOSSES[case]
    refused(estimator, X, Y, match=match, surrogate=surrogate, loss=bad)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_solver_that_a_surrogate_does_not_have(estimator):
    match = r"solver='pairwise' .* needs .*received surrogate='max-min'"
    refused(estimator, X, Y, match=match, surrogate="max-min", solver="pairwise")


# --- predicting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("method", ["predict", "decision_function", "score"])
@pytest.mark.parametrize("after_a_failed_fit", [False, True])
def test_not_fitted(estimator, method, after_a_failed_fit):
    model = estimator()
    if after_a_failed_fit:
        with pytest.raises(ValueError, match="1 class"):
            model.fit(X, np.zeros(12))
    data = (X, Y) if method == "score" else (X,)
    with pytest.raises(NotFittedError, match="not fitted yet. Call 'fit'"):
        getattr(model, method)(*data)


BAD_NEW_X = {
    "fewer columns": (X[:, :2], r"X has 2 features, but \w+ is expecting 3 features"),
    "NaN": (changed((4, 1), np.nan), r"X contains NaN at row 4, column 1"),
    "no rows": (X[:0], r"0 sample\(s\)"),
    "one row without its brackets": (X[0], r"Expected 2D array, got 1D"),
}


@pytest.mark.parametrize("case", BAD_NEW_X)
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_new_examples(fitted, case, method):
    bad, match = BAD_NEW_X[case]
    with pytest.raises(ValueError, match=match):
        getattr(fitted, method)(bad)


def test_score_arguments(fitted):
    with pytest.raises(ValueError, match="X has 12 rows but y has 3 labels"):
        fitted.score(X, Y[:3])
    with pytest.raises(ValueError, match="target y is None"):
        fitted.score(X, None)
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(12,\)"):
        fitted.score(X, Y, np.ones(3))


@pytest.mark.parametrize("unknown", [9, "nine", (9,)])
def test_labels_unseen_in_training_are_errors_with_a_warning(fitted, unknown):
    right = fitted.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.score(X, right) == (0.0 if isinstance(fitted, OrdinalClassifier) else 1.0)
    labels = [unknown, *right[1:].tolist()]
    with pytest.warns(UnseenLabelWarning, match=r"never seen \(.*9|nine.*\).*count as errors") as w:
        score = fitted.score(X, labels)
    assert w[0].filename == __file__
    # A wrong class costs 1, or at most K - 1 = 2 steps of an ordered scale.
    expected = -2 / 12 if isinstance(fitted, OrdinalClassifier) else 11 / 12
    assert score == pytest.approx(expected, rel=1e-15)
