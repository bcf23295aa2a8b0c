"""One weight per pair of labels, or four: which predicts better.

``python -m experiments interactions`` writes ``docs/results/interactions.md`` and ``.json``, anew
after each data set.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from benchmarks.data import load_npz
from benchmarks.graph_data import rcv1_arrays, yeast_arrays
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import hamming_loss

from maxmargin import MultiLabelClassifier, TimesAuto

from .graphs import arguments, markdown_table, read_json, write_json, write_report

MODELS = {
    "no edges": {"edges": "none"},
    "both-on": {"interactions": "both-on"},
    "full": {"interactions": "full"},
}
# Strengths tried, in units of what alpha="auto" means.
STRENGTHS = (0.1, 1.0, 10.0)
HELD_OUT = 0.25
PASSES = 2000
TITLE = "One weight per pair of labels, or four"
ABOUT = """
`MultiLabelClassifier` with `interactions="both-on"` (one weight for both labels being present, the
model of Meshi, Srebro and Hazan, AISTATS 2015) and with `interactions="full"` (a table of four
weights per pair), and without edges. All pairs of labels on yeast (14 labels), scene (6) and RCV1
(the 30 most frequent of 101), a tree on bibtex (159). The training set is a part of the published
one (the size is in the table), the test set the published one; on RCV1 documents 5000 to 5999. The
strength of the regularisation is the one of 0.1, 1 and 10 times "auto" with the best subset
accuracy on a quarter of the training set; then the model is trained on all of it (tol = 0.05, at
most 2000 passes). ± is the standard error over the test examples. All seeds are 0, that of the
held-out quarter too.
"""


def data_of(name: str, n: int | None) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training and test part."""
    if name == "yeast":
        X, Y, X_test, Y_test = yeast_arrays()
    elif name == "rcv1":
        inputs, labels = rcv1_arrays()
        X, Y, X_test, Y_test = inputs[:5000], labels[:5000], inputs[5000:], labels[5000:]
    else:
        data = load_npz(name)
        train = data["is_train"]
        if name == "scene":
            inputs, labels = data["X"].astype(np.float64), data["Y"].astype(np.int64)
        else:
            parts = data["X_data"].astype(np.float64), data["X_indices"], data["X_indptr"]
            inputs = sparse.csr_matrix(parts, shape=tuple(data["X_shape"]))
            labels = np.unpackbits(data["Y_packed"], axis=1)[:, : int(data["n_labels"])]
            labels = labels.astype(np.int64)
        X, Y, X_test, Y_test = inputs[train], labels[train], inputs[~train], labels[~train]
    return X[:n], Y[:n], X_test, Y_test


def fit(X: Any, Y: np.ndarray, strength: float, options: dict) -> MultiLabelClassifier:
    """A model; fits may end at their last pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MultiLabelClassifier(
            alpha=TimesAuto(strength), tol=0.05, max_iter=PASSES, random_state=0, **options
        ).fit(X, Y)


def measure(X: Any, Y: np.ndarray, X_test: Any, Y_test: np.ndarray, options: dict) -> dict:
    """Scores on the test set of the strength that is best on held-out examples."""
    order = np.random.RandomState(0).permutation(len(Y))
    held, rest = np.split(order, [int(HELD_OUT * len(Y))])
    began = time.process_time()
    scores = [fit(X[rest], Y[rest], s, options).score(X[held], Y[held]) for s in STRENGTHS]
    strength = STRENGTHS[int(np.argmax(scores))]
    model = fit(X, Y, strength, options)
    found = model.predict(X_test)
    right, wrong = (found == Y_test).all(axis=1), (found != Y_test).mean(axis=1)
    root = np.sqrt(len(right))
    return {
        "strength": strength, "subset": float(right.mean()), "subset_error": right.std() / root,
        "hamming": float(hamming_loss(Y_test, found)), "hamming_error": wrong.std() / root,
        "gap": model.gap_ / model.primal_, "seconds": time.process_time() - began,
    }  # fmt: skip


SIZES = {"yeast": None, "scene": None, "rcv1": 2000, "bibtex": 2000}


def main(words: list[str] | None = None) -> None:
    """Run and write."""
    chosen = arguments("interactions", __doc__, "150 examples of yeast", words)
    sizes: dict[str, int | None] = {"yeast": 150} if chosen.quick else SIZES
    path = chosen.folder / "interactions.json"
    content = {} if chosen.quick else read_json(path)
    content.pop("machine", None)
    for name, size in sizes.items():
        X, Y, X_test, Y_test = data_of(name, size)
        own = content.setdefault(name, {"examples": len(Y), "models": {}})
        for what, options in MODELS.items():
            if what not in own["models"]:
                own["models"][what] = measure(X, Y, X_test, Y_test, options)
                print(name, what, own["models"][what], flush=True)
            write_json(path, content)
            write_report(chosen.folder, "interactions", TITLE, ABOUT, table(content), figure=False)


def table(content: dict) -> str:
    """A row per data set and model."""
    header = ["data (examples)", "interactions", "strength", "subset accuracy", "Hamming loss",
              "relative gap", "CPU seconds"]  # fmt: skip
    rows = [
        [f"{name} ({found['examples']})", what, f"{m['strength']:g}",
         f"{100 * m['subset']:.1f} ± {100 * m['subset_error']:.1f} %",
         f"{100 * m['hamming']:.2f} ± {100 * m['hamming_error']:.2f} %",
         f"{100 * m['gap']:.1f} %", f"{m['seconds']:.0f}"]
        for name, found in content.items()
        for what, m in found["models"].items()
    ]  # fmt: skip
    return markdown_table(header, rows)
