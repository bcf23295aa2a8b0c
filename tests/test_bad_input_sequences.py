"""What sequence labellers refuse: before any training, with sequence, position and remedy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from maxmargin import SequenceLabeler, UnseenLabelWarning
from maxmargin.estimators._base import StructuredEstimator

RNG = np.random.RandomState(0)
X = [RNG.randn(3, 2), RNG.randn(2, 2), RNG.randn(4, 2)]
Y = [["a", "b", "a"], ["b", "a"], ["a", "b", "b", "a"]]
DICTS = [[{"word": "x", "size": 1.0} for _ in sequence] for sequence in X]


@pytest.fixture(autouse=True)
def no_training(request, monkeypatch):
    """A refusal must come before any training."""
    if not {"on_arrays", "on_dicts"} & set(request.fixturenames):
        monkeypatch.setattr(
            StructuredEstimator, "_solve", lambda *rest: pytest.fail("training has started")
        )


@pytest.fixture(scope="module")
def on_arrays():
    return SequenceLabeler(tol=0.1, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def on_dicts():
    return SequenceLabeler(tol=0.1, random_state=0).fit(DICTS, Y)


def put(items, i, value):
    """A copy of a list with another item at place i."""
    return [value if k == i else item for k, item in enumerate(items)]


def changed(place, value):
    array = X[1].copy()
    array[place] = value
    return put(X, 1, array)


def csr(sequences):
    return [sp.csr_matrix(sequence) for sequence in sequences]


def refused(*data, match, **params):
    with pytest.raises(ValueError, match=match):
        SequenceLabeler(**params).fit(*data)


# --- sequences ----------------------------------------------------------------------------------

NAN, INF = changed((1, 0), np.nan), changed((0, 1), -np.inf)
EMPTY = r"X\[1\] is an empty sequence; every sequence needs at least one position\. Leave it out"
WRAP = r"X must be a list of sequences.*if this is one sequence.*wrap it in a list"
ONE = {"word": "x"}

BAD_X = {
    "NaN": (NAN, r"X\[1\] contains NaN at position 1, feature 0; expected finite numbers"),
    "infinity": (INF, r"X\[1\] contains inf.* at position 0, feature 1; expected finite"),
    "NaN in CSR": (csr(NAN), r"X\[1\] contains NaN at position 1, feature 0"),
    "infinity in CSR": (csr(INF), r"X\[1\] contains inf.* at position 0, feature 1"),
    "NaN in a dict": (
        put(DICTS, 1, [ONE, {"size": np.nan}]),
        r"X\[1\] contains NaN at position 1, feature 'size'; expected finite",
    ),
    "infinity in a nested dict": (
        put(DICTS, 1, [ONE, {"size": {"log": np.inf}}]),
        r"X\[1\] contains inf.* at position 1, feature 'size:log'",
    ),
    "no sequences": ([], r"X is empty; expected at least one sequence"),
    "empty sequence": (put(X, 1, np.empty((0, 2))), EMPTY),
    "empty list": (put(X, 1, []), EMPTY),
    "empty CSR": (csr(put(X, 1, np.empty((0, 2)))), EMPTY),
    "empty list of dicts": (put(DICTS, 1, []), EMPTY),
    "features change": (put(X, 2, RNG.randn(4, 3)), r"X\[2\] has 3 features but X\[0\] has 2; all"),
    "features change in CSR": (
        csr(put(X, 2, RNG.randn(4, 3))),
        r"X\[2\] has 3 features but X\[0\] has 2; all sequences must have the same",
    ),
    "features change in a sequence": (
        put(X, 1, [[1, 2], [3]]),
        r"X\[1\] has 1 features at position 1 but 2 at position 0",
    ),
    "no features": ([x[:, :0] for x in X], r"X\[0\] has 0 features; expected at least one column"),
    "one dimension": (
        put(X, 1, X[1][:, 0]),
        r"X\[1\] must have shape \(length, n_features\).*\(2,",
    ),
    "three dimensions": (put(X, 1, X[1][None]), r"X\[1\] must have shape .*\(1, 2, 2\)"),
    "text": (
        put(X, 1, [[1, 2], [3, "u"]]),
        r"X\[1\] holds 'u' at position 1, column 1; expected n",
    ),
    "text in the first": (put(X, 0, [[1, 2], [3, "u"], [1, 2]]), r"X\[0\] holds 'u' at position 1"),
    "digits as text": (put(X, 1, np.array([["1"], ["2"]])), r"X\[1\] must hold real numbers.*<U1"),
    "complex": (put(X, 1, X[1] + 1j), r"X\[1\] must hold real numbers; received complex128"),
    "complex CSR": (
        csr(put(X, 1, X[1] + 1j)),
        r"X\[1\] must hold real numbers; received complex128",
    ),
    "None": (put(X, 1, None), r"X\[1\] must be a sequence; received NoneType; pass a list with"),
    "number": (put(X, 1, 3), r"X\[1\] must be a sequence; received int"),
    "strings": (
        ["see", "is", "four"],
        r"X\[0\] is a string; split it into words first",
    ),
    "one array": (X[0], WRAP),
    "one list of dicts": (DICTS[0], WRAP),
    "one CSR matrix": (sp.csr_matrix(X[0]), r"X must be a list of sequences; received csr_matrix"),
    "one dict": (ONE, r"X must be a list of sequences; received dict; pass a list with one"),
    "no list": (None, r"X must be a list of sequences; received NoneType"),
    "arrays, then dicts": (
        put(X, 1, DICTS[1]),
        r"X\[1\] holds feature dicts, but X\[0\] is an arr",
    ),
    "dicts, then arrays": (put(DICTS, 1, X[1]), r"X\[1\]\[0\] must be a dict of features.*ndarray"),
}


@pytest.mark.parametrize("case", BAD_X)
def test_sequences(case):
    bad, match = BAD_X[case]
    refused(bad, Y, match=match)


BAD_FEATURES = {
    "None": ({"size": None}, r"X\[1\]\[1\]\['size'\] must be a number, a string,.*received None"),
    "object": ({"size": object}, r"X\[1\]\[1\]\['size'\] must be a number.*received <class"),
    "complex": ({"size": 1j}, r"X\[1\]\[1\]\['size'\] must be a number.*received 1j"),
    "numbers": ({"sizes": [1, 2]}, r"X\[1\]\[1\]\['sizes'\] must be a .*list of strings.*\[1, 2\]"),
    "array": ({"sizes": np.ones(1)}, r"X\[1\]\[1\]\['sizes'\] must be.*received array\(\[1\.\]\)"),
    "deep inside": ({"a": {"b": {"c": None}}}, r"X\[1\]\[1\]\['a:b:c'\] must be.*received None"),
    "name": ({3: 1.0}, r"X\[1\]\[1\] has the feature name 3; names must be strings"),
    "list of names": (["a", 3], r"X\[1\]\[1\] must be a list of feature names; found 3"),
    "string": ("abc", r"X\[1\]\[1\] must be a dict of features or a list of feature names.*str"),
}


@pytest.mark.parametrize("case", BAD_FEATURES)
def test_feature_dicts(case):
    bad, match = BAD_FEATURES[case]
    refused(put(DICTS, 1, [ONE, bad]), Y, match=match)


@pytest.mark.parametrize("case", BAD_FEATURES)
def test_feature_dicts_at_prediction(on_dicts, case):
    bad, match = BAD_FEATURES[case]
    with pytest.raises(ValueError, match=match):
        on_dicts.predict(put(DICTS, 1, [ONE, bad]))


# --- labels -------------------------------------------------------------------------------------

BAD_Y = {
    "None": (None, r"y is None; expected a list with the labels of each sequence"),
    "too few": (Y[:2], r"X has 3 sequences but y has 2; expected one sequence of labels for each"),
    "too few in one": (
        put(Y, 1, ["b"]),
        r"X\[1\] has 2 positions but y\[1\] has 1 labels; expected",
    ),
    "flat numbers": ([0, 1, 0], r"y\[0\] must be a sequence of labels, one for each position of X"),
    "flat strings": (["a", "b", "a"], r"X\[0\] has 3 positions but y\[0\] has 1 labels; expected"),
    "number": (3, r"y must be a list .*labels.*received"),
    "string": ("aba", r"y must be a list .*labels.*received"),
    "dict": ({0: Y[0], 1: Y[1], 2: Y[2]}, r"y must be a list .*labels.*received"),
    "set": (put(Y, 1, {"a", "b"}), r"y\[1\] must be a sequence of labels, one for each position"),
    "unhashable": (put(Y, 1, ["b", ["a"]]), r"y\[1\]\[1\] is a list, which cannot be a label"),
    "one-hot rows": (
        [np.eye(3), np.eye(2), np.eye(4)],
        r"y\[0\]\[0\] is a ndarray, which cannot be",
    ),
    "NaN": (
        [[0.0, 1.0, np.nan], [0.0, 1.0], [0.0] * 4],
        r"y\[0\]\[2\] is nan, which cannot be a la",
    ),
    "one class": ([["a"] * len(x) for x in X], r"y has 1 class: 'a'; at least 2 classes.*classes="),
}


@pytest.mark.parametrize("case", BAD_Y)
def test_labels(case):
    bad, match = BAD_Y[case]
    refused(X, bad, match=match)


def test_label_that_was_not_declared():
    match = r"y\[1\]\[1\] is 'c', which is not among the declared classes; add it to classes= or"
    refused(X, put(Y, 1, ["a", "c"]), match=match, classes=["a", "b"])


# --- weights, losses, surrogates ----------------------------------------------------------------

BAD_WEIGHTS = {
    "too few": ([1, 2], r"sample_weight.shape == \(2,\), expected \(3,\): one weight for each seq"),
    "negative": ([1, -1, 1], r"sample_weight must be finite and >= 0; received -1.0 at index 1"),
    "NaN": ([1, 1, np.nan], r"sample_weight must be finite and >= 0; received nan at index 2"),
    "all zero": ([0, 0, 0], r"sample_weight is zero for all 3 sequences; at least one must count"),
    "text": (["a", "b", "c"], r"sample_weight must be an array of 3 numbers"),
}
BAD_POSITION_WEIGHTS = {
    "too few": ([np.ones(3)], r"position_weight has 1 entries but X has 3 sequences; expected one"),
    "too short": (
        [np.ones(3), np.ones(1), np.ones(4)],
        r"position_weight\[1\] must have shape \(2,\), one number for each position.*\(1,\)",
    ),
    "negative": (
        [np.ones(3), [1, -1], np.ones(4)],
        r"position_weight\[1\]\[1\] must be finite and >= 0; received -1",
    ),
    "text": ([[1] * 3, ["a", "b"], [1] * 4], r"position_weight\[1\] must hold numbers; received"),
    "number": (3, r"position_weight must be a list with one array for each sequence; received int"),
}
BAD_PARAMETERS = {
    "loss shape": ({"loss": np.ones((3, 3))}, r"loss must have shape \(2, 2\).*\(3, 3\)"),
    "loss diagonal": (
        {"loss": np.ones((2, 2))},
        r"loss must be 0 on the diagonal.*row 0, column 0",
    ),
    "negative loss": (
        {"loss": np.eye(2) - 1},
        r"loss must be finite, >= 0 .*; received -1.0 at row",
    ),
    "loss name": (
        {"loss": "0-1"},
        r"loss must be 'hamming' or a matrix, .*received '0-1'",
    ),
    "class_weight label": (
        {"class_weight": {"q": 1}},
        r"class_weight names 'q', which is not among",
    ),
    "class_weight sign": (
        {"class_weight": {"a": -1}},
        r"class_weight\['a'\] must be .* received -1",
    ),
    "class_weight zero": ({"class_weight": {"a": 0, "b": 0}}, r"class_weight is 0 for all labels"),
    "class_weight type": ({"class_weight": [1]}, r"class_weight must be None.*received list"),
    "surrogate": (
        {"surrogate": "least squares"},
        r"surrogate must be one of .*; received 'least squ",
    ),
    "oracle": (
        {"surrogate": "max-min", "solver": "subgradient"},
        r"solver='subgradient' .* needs an exact max-min oracle",
    ),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_sample_weights(case):
    bad, match = BAD_WEIGHTS[case]
    refused(X, Y, bad, match=match)


@pytest.mark.parametrize("case", BAD_POSITION_WEIGHTS)
def test_position_weights(case):
    bad, match = BAD_POSITION_WEIGHTS[case]
    with pytest.raises(ValueError, match=match):
        SequenceLabeler().fit(X, Y, position_weight=bad)


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_parameters(case):
    bad, match = BAD_PARAMETERS[case]
    refused(X, Y, match=match, **bad)


# --- predicting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "decision_function", "score"])
@pytest.mark.parametrize("after_a_failed_fit", [False, True])
def test_not_fitted(method, after_a_failed_fit):
    model = SequenceLabeler()
    if after_a_failed_fit:
        with pytest.raises(ValueError, match="1 class"):
            model.fit(X, BAD_Y["one class"][0])
    with pytest.raises(NotFittedError, match="not fitted yet. Call 'fit'"):
        getattr(model, method)(*((X, Y) if method == "score" else (X,)))


BAD_NEW_X = {
    "more features": (
        [RNG.randn(2, 3)],
        r"X has 3 features, but SequenceLabeler was fitted with 2",
    ),
    "dicts": (
        DICTS,
        r"X\[0\] holds feature dicts, but the model was fitted on arrays; pass arrays",
    ),
    "one array": (X[0], WRAP),
    "no sequences": ([], r"X is empty; expected at least one sequence"),
    "empty sequence": (put(X, 1, np.empty((0, 2))), EMPTY),
    "NaN": (NAN, r"X\[1\] contains NaN at position 1, feature 0"),
}


@pytest.mark.parametrize("case", BAD_NEW_X)
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_new_sequences(on_arrays, case, method):
    bad, match = BAD_NEW_X[case]
    with pytest.raises(ValueError, match=match):
        getattr(on_arrays, method)(bad)


@pytest.mark.parametrize("sequences", [X, csr(X)], ids=["arrays", "CSR"])
def test_arrays_for_a_model_of_dicts(on_dicts, sequences):
    match = r"X\[0\] is no list of feature dicts, but the model was fitted on them; pass lists"
    with pytest.raises(ValueError, match=match):
        on_dicts.predict(sequences)


def test_score_arguments(on_arrays):
    with pytest.raises(ValueError, match="X has 3 sequences but y has 2"):
        on_arrays.score(X, Y[:2])
    with pytest.raises(ValueError, match=r"X\[1\] has 2 positions but y\[1\] has 1 labels"):
        on_arrays.score(X, put(Y, 1, ["b"]))
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(1,\), expected \(3,\)"):
        on_arrays.score(X, Y, [1])


def test_labels_unseen_in_training_are_errors_with_a_warning(on_arrays):
    right = [labels.tolist() for labels in on_arrays.predict(X)]
    assert on_arrays.score(X, right) == 1.0
    with pytest.warns(UnseenLabelWarning, match=r"never seen \('zz'\); they count as err") as found:
        score = on_arrays.score(X, put(right, 1, ["zz", right[1][1]]))
    assert found[0].filename == __file__
    assert score == pytest.approx(8 / 9, rel=1e-15)
