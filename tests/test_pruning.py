"""Weights of sequences: one array and its parts, in memory, in files, and pruned."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from maxmargin import SequenceLabeler, load, save

SENTENCES = [
    [["w=the", "s=e"], ["w=cat", "s=t"]],
    [["w=a", "s=a"], ["w=dog", "s=g"], ["w=ran", "s=n"]],
    [["w=ran", "s=n", "rare"]],
]
TAGS = [["DET", "NOUN"], ["DET", "NOUN", "VERB"], ["VERB"]]


@pytest.fixture(scope="module")
def model():
    return SequenceLabeler(tol=0.1, random_state=0).fit(SENTENCES, TAGS)


def test_parts_and_the_whole_share_memory_and_a_file_has_them_once(model, tmp_path):
    assert np.shares_memory(model.coef_, model.weights_)
    save(model, tmp_path / "model.mm")
    with zipfile.ZipFile(tmp_path / "model.mm") as archive:
        sizes = [member.file_size for member in archive.infolist()]
    assert sum(size >= model.coef_.nbytes for size in sizes) <= 2  # coef_, and the JSON
    found = load(tmp_path / "model.mm")
    assert "_weights" not in vars(found)
    assert (found.weights_ == model.weights_).all()
    assert np.shares_memory(found.coef_, found.weights_)
    with pytest.raises(AttributeError, match="no weights_ before fit"):
        _ = SequenceLabeler().weights_


def test_weights_in_older_files_are_not_trusted(model, tmp_path):
    """They follow from the parts, which are checked."""
    import copy

    older = copy.copy(model)
    vars(older)["weights_"] = np.full(3, np.nan)
    save(older, tmp_path / "model.mm")
    assert (load(tmp_path / "model.mm").weights_ == model.weights_).all()


def test_pruned_models(model, tmp_path):
    same = model.prune()
    for one, other in zip(model.decision_function(SENTENCES), same.decision_function(SENTENCES)):
        np.testing.assert_allclose(one, other, atol=1e-12)
    largest = np.abs(model.coef_).max()
    small = model.prune(0.5, single=True)
    kept = np.abs(model.coef_) >= 0.5 * largest
    names = np.array(model.vectorizer_.feature_names_)[kept.any(axis=0)]
    assert small.vectorizer_.feature_names_ == names.tolist() and 0 < len(names) < kept.shape[1]
    expected = np.where(kept, model.coef_, 0.0)[:, kept.any(axis=0)].astype(np.float32)
    assert small.coef_.dtype == np.float32 and (small.coef_ == expected).all()
    assert small.status_ == "pruned" and small.gap_ == small.primal_ == np.inf
    assert model.status_ == "converged" and model.n_features_in_ == kept.shape[1]
    save(small, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert again.coef_.dtype == np.float32 and again.gap_ == np.inf
    for one, other in zip(again.decision_function(SENTENCES), small.decision_function(SENTENCES)):
        assert (one == other).all()


def test_what_cannot_be_pruned(model):
    with pytest.raises(ValueError, match="threshold must be a finite number >= 0"):
        model.prune(-1.0)
    with pytest.raises(ValueError, match="single must be True or False"):
        model.prune(0.1, single="yes")
    X = [np.eye(2), np.eye(2)]
    with pytest.raises(ValueError, match="prune needs kernel='linear'"):
        SequenceLabeler(kernel="rbf", tol=0.5).fit(X, [[0, 1], [0, 1]]).prune(0.1)
