"""Real data through the public interface: what a user would do, to the accuracy expected."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import MulticlassClassifier, OrdinalClassifier, SequenceLabeler, UnseenLabelWarning
from realdata import load_conll2000, load_npz


def split(X, y, n_train, seed=0):
    """A random part for training, and the rest for testing."""
    order = np.random.RandomState(seed).permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    return X[train], y[train], X[test], y[test]


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_land_use_from_satellite_images(surrogate):
    data = load_npz("uci_satimage")
    names = data["class_names"][data["y"]]
    X, y, X_test, y_test = split(data["X"].astype(np.float64), names, 800)
    model = make_pipeline(StandardScaler(), MulticlassClassifier(surrogate, random_state=0))
    model.fit(X, y)
    assert model[-1].status_ == "converged"
    assert set(model.predict(X_test)) <= set(data["class_names"])
    assert model.score(X_test, y_test) > 0.8


def test_age_of_abalones():
    data = load_npz("ord_abalone")
    assert data["n_bins"] == 10
    X, y, X_test, y_test = split(data["X"].astype(np.float64), data["y"].astype(int), 1000)
    model = make_pipeline(StandardScaler(), OrdinalClassifier(random_state=0)).fit(X, y)
    assert model[-1].status_ == "converged"
    error = np.abs(model.predict(X_test) - y_test).mean()
    # The best constant answer is wrong by 2.5 bins, ridge regression by 1.51 with all the data.
    assert error < 1.7
    assert -model.score(X_test, y_test) == pytest.approx(error, rel=1e-12)


def features(sentence, t):
    """A word, its tag and those of its neighbours."""
    word, pos, _ = sentence[t]
    return {
        "word": word.lower(),
        "pos": pos,
        "before": sentence[t - 1][1] if t > 0 else "start",
        "after": sentence[t + 1][1] if t + 1 < len(sentence) else "end",
        "capital": word[0].isupper(),
    }


def as_data(sentences):
    X = [[features(sentence, t) for t in range(len(sentence))] for sentence in sentences]
    return X, [[tag for _, _, tag in sentence] for sentence in sentences]


def breaks_bio(tags):
    """Whether an inside tag follows neither the begin nor the inside of its chunk."""
    return any(
        tag[0] == "I" and before[1:] != tag[1:] for before, tag in zip(["O", *tags[:-1]], tags)
    )


@pytest.fixture(scope="module")
def chunker():
    X, y = as_data(load_conll2000("train")[:300])
    return SequenceLabeler(constraints="bio", random_state=0).fit(X, y)


def test_chunks_of_sentences(chunker):
    assert chunker.status_ == "converged"
    X, y = as_data(load_conll2000("test")[:100])
    known = set(chunker.classes_.tolist())
    assert not any(breaks_bio(tags) for tags in y)
    found = [tags.tolist() for tags in chunker.predict(X)]
    assert not any(breaks_bio(tags) for tags in found)
    pairs = [(a, b) for one, other in zip(found, y) for a, b in zip(one, other)]
    accuracy = np.mean([a == b for a, b in pairs])
    assert accuracy > 0.85  # the most frequent tag of a part of speech is right for 0.773
    kept = [i for i, tags in enumerate(y) if set(tags) <= known]
    kept_X, kept_y = [X[i] for i in kept], [y[i] for i in kept]
    assert chunker.score(kept_X, kept_y) > 0.85


def test_tags_that_training_has_not_seen(chunker):
    known = set(chunker.classes_.tolist())
    rare = [s for s in load_conll2000("test") if not {tag for _, _, tag in s} <= known]
    assert rare  # such as I-LST, which no training sentence has
    X, y = as_data(rare)
    with pytest.warns(UnseenLabelWarning, match="never seen.*count as errors"):
        score = chunker.score(X, y)
    found = [tags.tolist() for tags in chunker.predict(X)]
    pairs = [(a, b) for one, other in zip(found, y) for a, b in zip(one, other)]
    assert score == pytest.approx(np.mean([a == b for a, b in pairs]), rel=1e-12)
    assert not {a for a, _ in pairs} - known
