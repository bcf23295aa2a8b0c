"""With the rest of scikit-learn and SciPy: routed weights, sparse arrays, old and new."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import MulticlassClassifier, MultiLabelClassifier, SequenceLabeler

REPOSITORY = Path(__file__).resolve().parent.parent
X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]


@pytest.mark.filterwarnings("ignore::maxmargin.UnseenLabelWarning")
def test_weights_are_routed_to_fit_and_score():
    weights = np.where(Y == 2, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MulticlassClassifier(random_state=0)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        found = cross_validate(
            make_pipeline(scaler, model), X, Y, cv=3, params={"sample_weight": weights},
            return_estimator=True, error_score="raise",
        )  # fmt: skip
    # Class 2 has no weight: no model knows it, and no score counts it.
    for pipeline in found["estimator"]:
        assert pipeline[-1].classes_.tolist() == [0, 1]
    assert (found["test_score"] > 0.9).all()


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_array])
def test_sparse_arrays_are_as_good_as_matrices(make):
    flat = MulticlassClassifier(random_state=0)
    dense = flat.fit(X, Y).coef_
    np.testing.assert_allclose(flat.fit(make(X), Y).coef_, dense, atol=1e-8)
    assert (flat.predict(make(X)) == flat.predict(X)).all()


@pytest.mark.more
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sparse_arrays_of_sequences_and_label_sets(make):
    sequences, labels = np.split(X, 10), np.split(Y, 10)
    model = SequenceLabeler(random_state=0, max_iter=500).fit([make(x) for x in sequences], labels)
    found = model.predict([make(x) for x in sequences])
    for one, other in zip(found, model.predict(sequences), strict=True):
        assert (one == other).all()
    sets = np.stack([Y > 0, Y > 1], axis=1).astype(int)
    some = MultiLabelClassifier(edges="none", random_state=0).fit(make(X), sets)
    assert (some.predict(make(X)) == some.predict(X)).all()


def test_declared_versions_of_python_agree():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    assert declared == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == ">=3.11"
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {project['version']}\n" in citation


def test_readme_of_a_wheel_has_no_links_into_the_repository():
    pytest.importorskip("hatchling")
    import importlib.util

    spec = importlib.util.spec_from_file_location("hatch_build", REPOSITORY / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    plain = hook.readme_for_index(text, None)
    assert all(target.startswith("#") for target in re.findall(r"\]\(([^)]*)\)", plain))
    assert "docs/choosing.md" not in plain and "choosing a model" in plain
    linked = hook.readme_for_index(text, "https://example.org/files/")
    assert "](https://example.org/files/docs/choosing.md)" in linked
    assert "![Three words" in linked and "](docs/" not in linked


# --- callbacks of scikit-learn --------------------------------------------------------------------


class Recorder:
    """A callback that writes down what it hears, and stops after some checks."""

    def __init__(self, most=10**6):
        self.heard, self.most = [], most

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, **other):
        assert X is not None and y is not None
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, **other):
        self.heard.append(f"end {context.task_name}")
        return self.heard.count("end check") >= self.most


def new_model(**parameters):
    model = MulticlassClassifier(random_state=0, **parameters)
    if not hasattr(model, "set_callbacks"):
        pytest.skip("scikit-learn before 1.9 has no callbacks")
    return model


def test_callbacks_of_scikit_learn_hear_every_check():
    recorder, own = Recorder(), []
    model = new_model(callbacks=own.append).set_callbacks(recorder).fit(X, Y)
    checks = ["begin check", "end check"] * (len(model.history_) + 1)
    assert recorder.heard == ["setup", "begin fit", *checks, "end fit", "teardown"]
    assert len(own) == len(model.history_)
    plain = new_model().fit(X, Y)
    assert (plain.coef_ == model.coef_).all()
    assert not {"_callback_fit_ctx", "_skl_callbacks_to_teardown"} & set(vars(model))


def test_callbacks_of_scikit_learn_can_stop_a_fit():
    recorder = Recorder(most=2)
    model = new_model(tol=1e-9).set_callbacks(recorder).fit(X, Y)
    assert model.status_ == "stopped" and len(model.history_) == 2
    assert recorder.heard[-1] == "teardown"


def test_callbacks_are_taken_down_when_a_fit_is_refused():
    recorder = Recorder()
    model = new_model().set_callbacks(recorder)
    with pytest.raises(ValueError, match="X has 50 rows but y has 2"):
        model.fit(X, Y[:2])
    assert recorder.heard[-1] == "teardown"
    recorder.heard.clear()
    assert model.fit(X, Y).status_ == "converged" and recorder.heard[0] == "setup"


def test_models_with_callbacks_are_saved(tmp_path):
    import maxmargin

    model = new_model().set_callbacks(Recorder()).fit(X, Y)
    maxmargin.save(model, tmp_path / "model.mm")
    assert (maxmargin.load(tmp_path / "model.mm").predict(X) == model.predict(X)).all()
