"""Data frames as sequences: columns are those of training, by name and in the same order."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import PositionWise, SequenceLabeler, SubsetSelector

RNG = np.random.RandomState(0)
ARRAYS = [RNG.randn(length, 2) * [1.0, 5.0] for length in (4, 6, 5)]
Y = [(x[:, 0] > 0).astype(int) for x in ARRAYS]
X = [pd.DataFrame(x, columns=["a", "b"]) for x in ARRAYS]
SUBSETS = [[0, 1], [2, 3], [1, 4]]
MODELS = {
    "sequences": lambda: SequenceLabeler(random_state=0, tol=0.1).fit(X, Y),
    "subsets": lambda: SubsetSelector(random_state=0, tol=0.1).fit(X, SUBSETS),
    "positions": lambda: PositionWise(StandardScaler()).fit(X),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def apply(model, X):
    return model.transform(X) if isinstance(model, PositionWise) else model.predict(X)


def swapped(i):
    """X with the columns of one sequence in another order."""
    return [*X[:i], X[i][["b", "a"]], *X[i + 1 :]]


def test_names_are_kept(model):
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.feature_names_in_.dtype == object  # as scikit-learn has it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(model, X)


@pytest.mark.parametrize("kind", ["sequences", "subsets"])
def test_names_are_saved(kind, tmp_path):
    model = MODELS[kind]()
    maxmargin.save(model, tmp_path / "model.mm")
    loaded = maxmargin.load(tmp_path / "model.mm")
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    for found, expected in zip(loaded.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"X\[0\] has the columns \['b', 'a'\]"):
        loaded.predict(swapped(0))
    model.feature_names_in_ = np.array(["a"], dtype=object)
    maxmargin.save(model, tmp_path / "wrong.mm")
    with pytest.raises(ValueError, match="feature_names_in_"):
        maxmargin.load(tmp_path / "wrong.mm")


@pytest.mark.parametrize("i", [0, 2])
def test_another_order_is_refused_by_a_fitted_model(model, i):
    expected = (
        rf"X\[{i}\] has the columns \['b', 'a'\], but the model was fitted with \['a', 'b'\]. "
        rf"Reorder them"
    )
    with pytest.raises(ValueError, match=expected):
        apply(model, swapped(i))


def test_other_names_are_refused(model):
    with pytest.raises(ValueError, match=r"X\[1\] has the columns \['a', 'c'\].*Pass the same"):
        apply(model, [X[0], X[1].rename(columns={"b": "c"})])
    with pytest.raises(ValueError, match=r"X\[0\] has the columns \['a'\], but the model"):
        apply(model, [X[0][["a"]]])


@pytest.mark.parametrize("i", [1, 2])
def test_another_order_is_refused_in_a_fit(i):
    expected = rf"X\[{i}\] has the columns \['b', 'a'\], but X\[0\] has \['a', 'b'\]. Reorder"
    with pytest.raises(ValueError, match=expected):
        SequenceLabeler().fit(swapped(i), Y)
    with pytest.raises(ValueError, match=expected):
        SequenceLabeler().fit(iter(swapped(i)), Y)
    with pytest.raises(ValueError, match=expected):
        PositionWise(StandardScaler()).fit(swapped(i))


def test_reordering_as_the_error_says_repairs_it(model):
    names = list(model.feature_names_in_)
    for found, expected in zip(
        apply(model, [x[names] for x in swapped(1)]), apply(model, X), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_of_many_columns_the_first_that_differs_is_named():
    wide = pd.DataFrame(RNG.randn(3, 30), columns=[f"x{j}" for j in range(30)])
    model = SequenceLabeler(random_state=0, tol=0.5).fit([wide], [[0, 1, 0]])
    names = list(wide.columns)
    names[20], names[7] = names[7], names[20]
    with pytest.raises(ValueError, match=r"column 7 is 'x20', but .*column 7 is 'x7'\. Reorder"):
        model.predict([wide[names]])
    with pytest.raises(ValueError, match=r"29 columns, column 29 is missing.*column 29 is 'x29'"):
        model.predict([wide.iloc[:, :29]])


def test_sequences_without_names(model):
    with pytest.warns(UserWarning, match="does not have valid feature names, but .* with feature"):
        apply(model, ARRAYS)
    with pytest.warns(UserWarning, match=r"X\[1\] has no names of columns"):
        apply(model, [X[0], ARRAYS[1]])
    with pytest.warns(UserWarning, match="X has feature names, but .* without feature names"):
        SequenceLabeler(random_state=0, tol=0.1).fit(ARRAYS, Y).predict(X)


def test_a_fit_without_names_forgets_those_of_before():
    model = SequenceLabeler(random_state=0, tol=0.1).fit(X, Y)
    assert not hasattr(model.fit(ARRAYS, Y), "feature_names_in_")


def test_only_strings_are_names():
    numbered = [x.set_axis([10, 20], axis=1) for x in X]
    pairs = [x.set_axis(pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]), axis=1) for x in X]
    for frames in (numbered, pairs):
        model = SequenceLabeler(random_state=0, tol=0.1).fit(frames, Y)
        assert not hasattr(model, "feature_names_in_") and model.n_features_in_ == 2
    with pytest.raises(TypeError, match=r"X\[2\] has strings and others, such as 20"):
        SequenceLabeler().fit([*X[:2], X[2].set_axis(["a", 20], axis=1)], Y)


def test_a_word_in_a_frame_is_named():
    words = X[1].astype(object)
    words.iloc[2, 1] = "tall"
    with pytest.raises(ValueError, match=r"X\[1\] holds 'tall' at position 2, column 1"):
        SequenceLabeler().fit([X[0], words, X[2]], Y)
