"""PositionWise: transformers of rows on sequences."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_selection import SelectKBest
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from maxmargin import RBF, PositionWise, SequenceLabeler, load, save
from samebits import assert_same

RANDOM = np.random.RandomState(0)
X = [RANDOM.randn(length, 3) + [0.0, 5.0, 0.0] for length in (4, 1, 6, 5, 7, 3)]
Y = [(np.abs(x[:, 0]) > 0.7).astype(int) for x in X]
STACKED = np.concatenate(X)


def test_positions_are_rows():
    scaled = PositionWise(StandardScaler()).fit_transform(X)
    assert [x.shape for x in scaled] == [x.shape for x in X]
    assert_same(np.concatenate(scaled), StandardScaler().fit_transform(STACKED))


def test_sparse_in_and_out():
    sparse = [sp.csr_array(x) for x in X]
    scaler = PositionWise(StandardScaler(with_mean=False)).fit(sparse)
    found = scaler.transform(sparse)
    assert all(sp.issparse(x) and x.format == "csr" for x in found)
    dense = PositionWise(StandardScaler(with_mean=False)).fit_transform(X)
    assert np.allclose(sp.vstack(found).toarray(), np.concatenate(dense))
    names = [[["a"], ["b"]], [["b"]]]
    coded = PositionWise(OneHotEncoder()).fit([np.array([[0], [1]]), np.array([[1]])])
    assert [x.shape for x in coded.transform([np.array([[1], [1]])])] == [(2, 2)]
    hashed = PositionWise(FeatureHasher(8, input_type="string")).fit_transform(names)
    assert [x.shape for x in hashed] == [(2, 8), (1, 8)]


def test_feature_dicts():
    dicts = [[{"a": 1.0}, {"b": 2.0}], [{"a": 3.0, "b": 1.0}]]
    model = PositionWise(DictVectorizer(sparse=False)).fit(dicts)
    assert_same(model.transform(dicts)[1], np.array([[3.0, 1.0]]))
    assert model.get_feature_names_out().tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"X\[1\] is an empty sequence"):
        model.transform([dicts[0], []])
    with pytest.raises(ValueError, match=r"X\[0\] is no list of feature dicts"):
        model.transform(X)
    with pytest.raises(ValueError, match=r"X\[0\] holds feature dicts"):
        PositionWise(StandardScaler()).fit(X).transform(dicts)
    assert not hasattr(clone(model).fit(dicts), "n_features_in_")


def test_transformers_that_need_labels_or_frames():
    best = PositionWise(SelectKBest(lambda X, y: np.abs(X.T) @ (y - np.mean(y)), k=1)).fit(X, Y)
    assert_same(np.concatenate(best.transform(X)), STACKED[:, [0]])
    frames = PositionWise(StandardScaler().set_output(transform="pandas")).fit(X)
    assert not isinstance(frames.transform(X)[0], pd.DataFrame)


def test_in_a_pipeline_with_a_search():
    features = PositionWise(Nystroem(n_components=5, random_state=0))
    steps = make_pipeline(PositionWise(StandardScaler()), features, SequenceLabeler(random_state=0))
    grid = {"positionwise-2__transformer__gamma": [0.1, 1.0]}
    search = GridSearchCV(steps, grid, cv=2).fit(X, Y)
    assert search.best_params_["positionwise-2__transformer__gamma"] in (0.1, 1.0)
    assert [len(labels) for labels in search.predict(X)] == [len(x) for x in X]


def test_nystroem_on_all_positions_is_the_kernel():
    features = PositionWise(Nystroem(gamma=0.3, n_components=len(STACKED), random_state=0))
    approximate = make_pipeline(features, SequenceLabeler(alpha=0.1, tol=1e-3, random_state=0))
    exact = SequenceLabeler(kernel=RBF(0.3), alpha=0.1, tol=1e-3, random_state=0)
    difference = approximate.fit(X, Y)[-1].primal_ - exact.fit(X, Y).primal_
    assert abs(difference) <= 2e-3 * exact.primal_


def test_interface(tmp_path):
    scaler = StandardScaler()
    model = PositionWise(scaler)
    assert model.get_params()["transformer__with_mean"] is True
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.fit(X)
    assert not hasattr(scaler, "mean_")
    assert model.n_features_in_ == 3
    assert not hasattr(clone(model), "transformer_")
    assert_same(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    pipeline = make_pipeline(PositionWise(StandardScaler()), SequenceLabeler(random_state=0))
    save(pipeline.fit(X, Y), tmp_path / "model")
    assert_same(load(tmp_path / "model").predict(X), pipeline.predict(X))


class Halves(StandardScaler):
    """A transformer that loses rows."""

    def transform(self, X, copy=None):
        return X[::2]


@pytest.mark.parametrize(
    ("transformer", "X", "y", "error", "message"),
    [
        (StandardScaler, X, None, TypeError, "transformer must be a transformer with fit"),
        (None, X, None, TypeError, "received None"),
        (StandardScaler(), STACKED, None, ValueError, "must be a list of sequences"),
        (StandardScaler(), [*X, np.empty((0, 3))], None, ValueError, r"X\[6\] is an empty"),
        (StandardScaler(), [*X, np.ones((2, 4))], None, ValueError, r"X\[6\] has 4 features"),
        (StandardScaler(), [X[0], X[1] * np.nan], None, ValueError, r"X\[1\] contains NaN at pos"),
        (StandardScaler(), X, [*Y[:-1], [1]], ValueError, r"X\[5\] has 3 positions but y\[5\]"),
        (Halves(), X, None, ValueError, "Halves must give one row for each of the 26 positions"),
    ],
)
def test_bad_input(transformer, X, y, error, message):
    with pytest.raises(error, match=message):
        PositionWise(transformer).fit(X, y).transform(X)


def test_width_in_prediction():
    with pytest.raises(ValueError, match=r"X\[0\] has 2 features, .* fitted with 3"):
        PositionWise(StandardScaler()).fit(X).transform([np.ones((2, 2))])
