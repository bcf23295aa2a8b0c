"""Mistakes that people make on their first day get an answer that says what to write."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import (
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    TreeParser,
)

LEVELS = ["low", "medium", "high"]
X = np.arange(12.0)[:, None]
Y = np.repeat(LEVELS, 4)


# --- ordered labels -------------------------------------------------------------------------------


def test_strings_without_an_order_are_refused_with_the_fix():
    with pytest.raises(ValueError, match="'high', 'low', 'medium'") as caught:
        OrdinalClassifier().fit(X, Y)
    assert "OrdinalClassifier(classes=[" in str(caught.value)
    assert "ordered pandas Categorical" in str(caught.value)
    with pytest.raises(ValueError, match="strings, which do not say their order"):
        OrdinalClassifier().fit(X, Y.tolist())


@pytest.mark.parametrize("as_series", [False, True])
def test_ordered_categories_are_the_classes(as_series):
    pandas = pytest.importorskip("pandas")
    y = pandas.Categorical(Y, categories=[*LEVELS, "very high"], ordered=True)
    model = OrdinalClassifier(random_state=0).fit(X, pandas.Series(y) if as_series else y)
    assert model.classes_.tolist() == [*LEVELS, "very high"]
    declared = OrdinalClassifier(classes=[*LEVELS, "very high"], random_state=0).fit(X, Y)
    assert (model.coef_ == declared.coef_).all()
    with pytest.raises(ValueError, match="do not say their order"):
        OrdinalClassifier().fit(X, pandas.Categorical(Y))


def test_order_of_numbers_and_of_two_strings_is_known():
    numbers = np.repeat([10, 2, 33], 4)
    assert OrdinalClassifier(random_state=0).fit(X, numbers).classes_.tolist() == [2, 10, 33]
    two = np.repeat(["yes", "no"], 6)
    assert OrdinalClassifier(random_state=0).fit(X, two).classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_quantities_are_refused(estimator):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        estimator().fit(X, X[:, 0] + 0.5)


# --- names of other libraries ---------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MulticlassClassifier, SequenceLabeler, GridLabeler])
def test_parameter_c_is_answered_with_alpha(estimator):
    with pytest.raises(TypeError, match=r"write alpha = 1 / \(n \* C\)"):
        estimator(C=1.0)
    with pytest.raises(ValueError, match=r"Invalid parameter 'C' .* alpha = 1 / \(n \* C\)"):
        estimator().set_params(C=1.0)


@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
@pytest.mark.parametrize("model", [MulticlassClassifier(), MultiLabelClassifier()])
def test_probabilities_without_a_likelihood_name_the_surrogate(model, name):
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="surrogate='crf'"):
        getattr(model, name)
    assert callable(getattr(clone(model).set_params(surrogate="crf"), name))


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (SequenceLabeler("crf"), "write predict_marginals"),
        (TreeParser(), "write predict_marginals"),
        (GraphLabeler(), "no likelihood"),
        (LabelRanker(), "write predict_marginals"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_probabilities_of_other_outputs_name_the_method(model, remedy):
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=f"{type(model).__name__} has no .*{remedy}"):
        model.predict_proba([])


# --- words instead of features --------------------------------------------------------------------


def test_words_suggest_features():
    labels = [["DET", "NOUN"], ["DET", "NOUN"]]
    with pytest.raises(ValueError, match=r"X\[0\] is a list of words.*'suffix': w\[-3:\]"):
        SequenceLabeler().fit([["the", "cat"], ["a", "dog"]], labels)
    with pytest.raises(ValueError, match=r"X\[0\] is a string; split it .*'word'"):
        SequenceLabeler().fit(["the cat", "a dog"], labels)


# --- images ---------------------------------------------------------------------------------------


def test_grids_speak_of_cells():
    image = np.eye(3)
    with pytest.raises(ValueError, match=r"y\[0\]\[1, 2\] is nan"):
        GridLabeler().fit([image], [[["a", "b", "a"], ["b", "a", np.nan], ["a", "b", "a"]]])
    with pytest.raises(ValueError, match="all cells of the grids"):
        GridLabeler(void=0).fit([image], [np.zeros((3, 3), int)])
    with pytest.raises(ValueError, match=r"y\[0\]\[2\] is nan"):
        GraphLabeler().fit([(image, [(0, 1)])], [["a", "b", np.nan]])
