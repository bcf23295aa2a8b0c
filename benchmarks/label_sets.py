"""Label sets with the strength chosen by cross-validation on both sides.

``MultiLabelClassifier(alpha="cv")`` against one-vs-rest ``LinearSVC`` whose C is chosen by five
folds for subset accuracy, on the data sets' own splits: subset accuracy and Hamming loss.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from maxmargin import MultiLabelClassifier

from .data import load_npz
from .harness import Line, Sample, Target

_C = np.geomspace(0.01, 100, 7)


def _sets() -> Iterator[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Name, features, labels, and which examples are for training."""
    for name in ("yeast", "scene", "rcv1subset1", "bibtex"):
        data = load_npz(name)
        if "X" in data:
            X, Y = data["X"].astype(np.float64), data["Y"].astype(int)
        else:
            indices, indptr = data["X_indices"].astype(np.int32), data["X_indptr"]
            parts = data["X_data"].astype(np.float64), indices, indptr
            X = sparse.csr_matrix(parts, shape=data["X_shape"])
            Y = np.unpackbits(data["Y_packed"], axis=1)[:, : int(data["n_labels"])].astype(int)
        yield name, X, Y, data["is_train"]


def _measure(model: Any, X: Any, Y: np.ndarray, train: np.ndarray) -> tuple[float, float, float]:
    """CPU seconds, subset accuracy and Hamming loss on the test set."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], Y[train])
    spent = time.process_time() - began
    found = np.asarray(model.predict(X[~train]))
    wrong = found != Y[~train]
    return spent, float(1.0 - wrong.any(axis=1).mean()), float(wrong.mean())


def _compare(name: str, X: Any, Y: np.ndarray, train: np.ndarray) -> list[Line]:
    folds = KFold(5, shuffle=True, random_state=0)
    one_vs_rest = OneVsRestClassifier(LinearSVC(random_state=0))
    peer = GridSearchCV(one_vs_rest, {"estimator__C": _C}, scoring="accuracy", cv=folds)
    theirs = _measure(peer, X, Y, train)
    print(f"    {name}: LinearSVC {theirs}, C = {peer.best_params_}", flush=True)
    model = MultiLabelClassifier(alpha="cv", random_state=0)
    ours = _measure(model, X, Y, train)
    print(f"    {name}: {ours}, alpha = {model.alpha_:.3g}", flush=True)
    note = f"{ours[0]:.3g} s and {theirs[0]:.3g} s of CPU time with the cross-validation"
    rival, atleast = "one-vs-rest LinearSVC", Target("ratio", 1.0)
    return [
        Line("label_sets", f"{name}: subset accuracy", "", Sample([ours[1]]), Sample([theirs[1]]),
             rival, more_is_better=True, target=atleast, note=note),
        Line("label_sets", f"{name}: Hamming loss", "", Sample([ours[2]]), Sample([theirs[2]]),
             rival, target=atleast),
    ]  # fmt: skip


def run(repeats: int) -> list[Line]:
    """One run of each side."""
    return [line for given in _sets() for line in _compare(*given)]
