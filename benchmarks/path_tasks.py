"""Data and estimators on which the choice of alpha is measured, with a part for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split

from maxmargin import LabelRanker, MulticlassClassifier, MultiLabelClassifier, SequenceLabeler

from .data import chunking, chunking_rows, load_npz, words

_RIGHT = 0.4  # share of right labels where there is noise


class Task(NamedTuple):
    """Training data, test data, and the estimator."""

    name: str
    model: Any
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    scoring: str | None = None


def _cut(X: Any, y: Any, train: np.ndarray) -> tuple:
    if isinstance(X, list):
        parts = [([X[i] for i in chosen], [y[i] for i in chosen])
                 for chosen in (np.flatnonzero(train), np.flatnonzero(~train))]  # fmt: skip
        return (*parts[0], *parts[1])
    return X[train], y[train], X[~train], y[~train]


def _scaled(data: dict[str, np.ndarray], train: np.ndarray) -> np.ndarray:
    X = data["X"].astype(np.float64)
    deviation = X[train].std(axis=0)
    return (X - X[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _share(n: int, share: float) -> np.ndarray:
    return np.random.RandomState(0).permutation(n) < share * n


def label_sets(name: str) -> Task:
    """Label sets, split as they come."""
    data = load_npz(name)
    train = data["is_train"]
    parts = _cut(_scaled(data, train), data["Y"].astype(int), train)
    return Task(name, MultiLabelClassifier(random_state=0), *parts)


def classes(name: str) -> Task:
    """Classes, split as they come."""
    data = load_npz(f"uci_{name}")
    train = data["is_train"]
    parts = _cut(_scaled(data, train), data["y"].astype(np.int64), train)
    return Task(name, MulticlassClassifier(random_state=0), *parts)


def letters() -> Task:
    """Handwritten words; three tenths for training."""
    found = words()
    parts = _cut(found.X, found.y, _share(len(found.X), 0.3))
    return Task("OCR letters", SequenceLabeler(random_state=0), *parts)


def rankings() -> Task:
    """Rankings of vowels; seven tenths for training."""
    data = load_npz("lr_vowel")
    train = _share(len(data["X"]), 0.7)
    parts = _cut(_scaled(data, train), data["rank"].astype(int) + 1, train)
    return Task("vowel rankings", LabelRanker(y_format="ranks", random_state=0), *parts)


def sentences() -> Task:
    """The first 2000 training sentences of CoNLL-2000; the next 1000 are the test part."""
    X, y = chunking()
    model = SequenceLabeler(random_state=0)
    return Task("CoNLL-2000, 2000 sentences", model, X[:2000], y[:2000], X[2000:3000],
                y[2000:3000], "span_f1")  # fmt: skip


def all_sentences() -> Task:
    """All training sentences of CoNLL-2000, from CSR."""
    X, y = chunking_rows()
    return Task("CoNLL-2000", SequenceLabeler(random_state=0), X, y, None, None, "span_f1")


def noise(name: str, surrogate: str) -> Task:
    """Classes, 60 % of whose training labels are wrong: features of a Gaussian kernel, clean test
    labels."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = load_npz(f"uci_{name}")
        X, y = _scaled(data, np.ones(len(data["y"]), bool)), data["y"].astype(np.int64)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    gamma = 0.001 if name == "digits" else 1.0 / X.shape[1]
    features = Nystroem(gamma=gamma, n_components=200, random_state=0).fit(X)
    random = np.random.RandomState(0)
    others = (y + random.randint(1, 10, len(y))) % 10
    noisy = np.where(random.rand(len(y)) < _RIGHT, y, others)
    model = MulticlassClassifier(surrogate, random_state=0)
    return Task(f"{name}, 60 % wrong labels, {surrogate}", model, features.transform(X), noisy,
                features.transform(X_test), y_test)  # fmt: skip


def tasks() -> Iterator[Task]:
    """All of them with a test part."""
    yield from map(label_sets, ("yeast", "scene"))
    yield from map(classes, ("satimage", "letter"))
    yield letters()
    yield rankings()
    yield sentences()
    for name in ("digits", "mfeat_fac"):
        for surrogate in ("smooth-max-min", "max-min", "crf"):
            yield noise(name, surrogate)
