"""Saved estimators answer bit for bit like the ones in memory, alone and inside scikit-learn."""

from __future__ import annotations

import copy
import os
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from maxmargin import (
    RBF,
    EarlyStopping,
    GridLabeler,
    HammingLoss,
    Hidden,
    MulticlassClassifier,
    Neighbors,
    OrdinalClassifier,
    SequenceLabeler,
    StructuredPredictor,
    _codec,
    persistence,
)
from maxmargin.persistence import ModelFileError, load, register, save
from samebits import assert_same, problem

LABELS = {
    "ints": [3, -1, 2**40],
    "strings": ["ash", "birch", "søster"],
    "tuples": [("a", 1), ("a", 2), ("b",)],
    "None among strings": ["x", None, "y"],
    "mixed": [1, "one", (1, "one")],
    "numpy scalars": [np.int8(1), np.int8(2), np.int8(5)],
    "floats": [-1.0, 0.0, 7.0],
}


def again(model, folder, **options):
    save(model, folder / "model", **options)
    return load(folder / "model")


def assert_same_state(loaded, model):
    """Same class, parameters and fitted attributes."""
    assert type(loaded) is type(model)
    assert_same(loaded.get_params(), model.get_params())
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    found = {name: value for name, value in vars(loaded).items() if name.endswith("_")}
    vectorizers = fitted.pop("vectorizer_", None), found.pop("vectorizer_", None)
    assert_same(found, fitted)
    if vectorizers[0] is not None:
        assert_same(vectorizers[0].vocabulary_, vectorizers[1].vocabulary_)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_classifiers_with_all_kinds_of_labels(tmp_path, estimator, kind):
    X, names = problem()
    labels = LABELS[kind]
    y = [labels["abe".index(name[0])] for name in names]
    model = estimator(classes=labels, random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    assert_same_state(loaded, model)
    assert_same(loaded.decision_function(X), model.decision_function(X))
    assert_same(loaded.predict(X), model.predict(X))
    assert loaded.score(X, y) == model.score(X, y)


def test_history_comes_back_as_checks(tmp_path):
    model = MulticlassClassifier(random_state=np.random.RandomState(3)).fit(*problem())
    loaded = again(model, tmp_path)
    assert [check._asdict() for check in loaded.history_] == [
        check._asdict() for check in model.history_
    ]
    assert_same(
        loaded.random_state.get_state(legacy=True), model.random_state.get_state(legacy=True)
    )


SENTENCES = [
    [{"word": "the", "cap": True}, {"word": "cat"}, {"word": "sat", "more": {"end": "at"}}],
    [["it"], ["ran", "verb"]],
    [{"word": "dogs", "length": 0.5}, {"word": "ran"}],
]
CHUNKS = [["B-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "O"]]


@pytest.fixture(scope="module")
def chunker():
    model = SequenceLabeler(constraints="bio", class_weight={"O": 2.0}, random_state=0, tol=0.1)
    return model.fit(SENTENCES, CHUNKS)


def test_sequence_labeler_with_dicts_and_constraints(tmp_path, chunker):
    loaded = again(chunker, tmp_path)
    assert_same_state(loaded, chunker)
    unknown = [*SENTENCES, [{"word": "new"}, {"word": "cat"}]]
    assert_same(loaded.predict(unknown), chunker.predict(unknown))
    assert_same(loaded.decision_function(unknown), chunker.decision_function(unknown))
    clamped = [None, [None, "I-NP"], None]
    assert_same(
        loaded.predict(SENTENCES, partial_y=clamped), chunker.predict(SENTENCES, partial_y=clamped)
    )


@pytest.mark.parametrize("kind", LABELS)
def test_sequence_labeler_with_all_kinds_of_labels(tmp_path, kind):
    codes = {"B-NP": 0, "I-NP": 1, "O": 2}
    y = [[LABELS[kind][codes[tag]] for tag in tags] for tags in CHUNKS]
    model = SequenceLabeler(random_state=0, tol=0.1).fit(SENTENCES, y)
    loaded = again(model, tmp_path)
    assert_same_state(loaded, model)
    assert_same(loaded.predict(SENTENCES), model.predict(SENTENCES))


# --- training goes on ---------------------------------------------------------------------------


def stop_early(model, X, y):
    """Fit for a few passes, so that there is something left to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(max_iter=3, tol=1e-9, warm_start=True).fit(X, y)


@pytest.mark.parametrize(
    "model, data",
    [
        (MulticlassClassifier(random_state=0, solver="bcfw"), problem()),
        (
            OrdinalClassifier(classes=["ash", "birch", "elm"], random_state=0, solver="bcfw"),
            problem(),
        ),
        (SequenceLabeler(random_state=0, solver="pairwise"), (SENTENCES, CHUNKS)),
    ],
    ids=["multiclass", "ordinal", "sequence"],
)
def test_training_goes_on_from_a_saved_dual(tmp_path, model, data):
    model = stop_early(model, *data)
    loaded = again(model, tmp_path, dual=True)
    assert_same(loaded._dual, model._dual)
    forgetful = again(model, tmp_path)
    for each in (loaded, forgetful):
        each.set_params(tol=0.01, max_iter=1000).fit(*data)
        assert each.status_ == "converged"
    assert model.dual_ > 0.0
    # The dual value is summed anew from the blocks: equal up to rounding.
    assert loaded.history_[0].dual == pytest.approx(model.dual_, rel=1e-12)
    assert forgetful.history_[0].dual == 0.0
    unsaved = copy.deepcopy(model).set_params(tol=0.01, max_iter=1000).fit(*data)
    assert unsaved.history_[0].dual == loaded.history_[0].dual


# --- structures in plain Python -----------------------------------------------------------------


class Sign:
    """The sign of a linear function."""

    def joint_feature(self, x, y):
        return y * np.asarray(x, float)

    def loss(self, truth, y):
        return float(truth != y)

    def argmax(self, x, weights, truth=None):
        extra = (lambda y: 0.0) if truth is None else (lambda y: self.loss(truth, y))
        return max((-1, 1), key=lambda y: weights @ self.joint_feature(x, y) + extra(y))


def test_structure_of_the_user_must_be_registered(tmp_path, monkeypatch):
    monkeypatch.setattr(_codec, "_REGISTRY", dict(_codec._REGISTRY))
    X, y = [[1.0, 2.0], [-2.0, 1.0], [2.0, 2.0]], [1, -1, 1]
    model = StructuredPredictor(Sign(), random_state=0).fit(X, y)
    with pytest.raises(TypeError, match=r"StructuredPredictor\.structure.*Sign.*register"):
        save(model, tmp_path / "model")
    register(Sign, lambda structure: {}, lambda fields: Sign())
    loaded = again(model, tmp_path)
    assert type(loaded.structure) is Sign
    assert_same(loaded.coef_, model.coef_)
    assert_same(loaded.history_, model.history_)
    assert loaded.predict(X) == model.predict(X)


# --- scikit-learn objects around an estimator ---------------------------------------------------


def fitted_search():
    pipeline = make_pipeline(StandardScaler(), MulticlassClassifier(random_state=0))
    grid = {"multiclassclassifier__alpha": [0.1, 1.0]}
    return GridSearchCV(pipeline, grid, cv=3).fit(*problem())


@pytest.mark.parametrize("warm_start", [False, True])
def test_pipeline_comes_back(tmp_path, warm_start):
    X, y = problem()
    pipeline = fitted_search().best_estimator_
    pipeline.set_params(multiclassclassifier__warm_start=warm_start).fit(X, y)
    loaded = again(pipeline, tmp_path)
    assert type(loaded) is type(pipeline)
    assert_same(loaded.decision_function(X), pipeline.decision_function(X))
    assert_same(loaded.predict(X), pipeline.predict(X))
    assert_same(loaded[-1].history_, pipeline[-1].history_)
    started_from = loaded.fit(X, y)[-1].history_[0].dual
    assert bool(started_from > 0.0) is warm_start


def test_search_points_to_its_best_estimator(tmp_path):
    # The scorers and splitters that a search holds are not among the types known to be safe.
    with pytest.raises(TypeError, match="cannot save this GridSearchCV.*best_estimator_"):
        save(fitted_search(), tmp_path / "model")


def test_pipeline_with_foreign_types_is_refused_when_saving(tmp_path):
    model = make_pipeline(FunctionTransformer(problem)).fit(problem()[0])
    with pytest.raises(TypeError, match="problem"):
        save(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_pipeline_with_foreign_types_is_refused_when_loading(tmp_path, monkeypatch):
    model = make_pipeline(FunctionTransformer(problem)).fit(problem()[0])
    with monkeypatch.context() as patch:
        patch.setattr(persistence, "_is_ours", lambda name: True)
        save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="not safe to load: .*problem"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    "name, ours",
    [
        ("maxmargin.estimators.multiclass.MulticlassClassifier", True),
        ("maxmargin.persistence.register", True),
        ("maxmargin.persistence.zipfile", False),
        ("maxmargin.estimators._base.BaseEstimator", False),
        ("maxmargin.no_such_module.Class", False),
        ("maxmargin.persistence.NoSuchClass", False),
        ("maxmargin_other.Class", False),
        ("os.system", False),
        ("maxmargin", False),
    ],
)
def test_only_what_the_library_defines_is_trusted(name, ours):
    assert persistence._is_ours(name) is ours


def test_missing_skops_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    model = make_pipeline(StandardScaler()).fit(problem()[0])
    with pytest.raises(ImportError, match=r"Saving a Pipeline needs skops.*maxmargin\[io\]"):
        save(model, tmp_path / "model")


@pytest.mark.more
def test_values_of_parameters_are_saved(tmp_path):
    costs = 1.0 - np.eye(3)
    given = {
        "loss": HammingLoss(costs, normalize=False), "hidden": Hidden(2), "kernel": RBF(0.5),
        "early_stopping": EarlyStopping(0.5, 2),
    }  # fmt: skip
    model = SequenceLabeler(tol=0.1, random_state=0, classes=["B-NP", "I-NP", "O"], **given)
    X = [np.eye(3)[: len(labels)] for labels in CHUNKS]
    save(model.fit(X, CHUNKS), tmp_path / "model")
    again = load(tmp_path / "model")
    for name, value in given.items():
        assert repr(getattr(again, name)) == repr(value)
    np.testing.assert_array_equal(again.loss.costs, costs)
    assert clone(again).get_params()["early_stopping__n_iter_no_change"] == 2
    grid = GridLabeler(neighbors=Neighbors(8, directions="shared"), random_state=0)
    save(grid.fit([np.eye(3)], [np.eye(3, dtype=int)]), tmp_path / "grid")
    assert repr(load(tmp_path / "grid").neighbors) == repr(grid.neighbors)
