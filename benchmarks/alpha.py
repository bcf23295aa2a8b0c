"""What ``alpha="auto"`` costs: its score on held-out data beside the best of a path of strengths.

``python -m benchmarks alpha`` also writes the table to ``docs/results/alpha.md``. Every data set is
split once (its own split, or 70 % for training), and the path has nine strengths, from 100 to 0.01
times "auto". The score is that of the estimator: accuracy, subset accuracy, minus the mean absolute
error for ordered classes; span F1 for CoNLL-2000. Seeds are 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    path,
)

from .data import REPOSITORY, chunking, load_npz, words
from .harness import Line, Sample
from .report import described

_PAGE = REPOSITORY / "docs" / "results" / "alpha.md"
_STRENGTHS = np.geomspace(100.0, 0.01, 9)
_TOL = 0.03


class Task(NamedTuple):
    """A data set, its split, and the estimator without a surrogate."""

    name: str
    make: Callable[[str], Any]
    X: Any
    y: Any
    train: np.ndarray
    test: np.ndarray
    usual: float  # the alpha of C = 1 for a loss summed over positions, times W
    scoring: str | None = None


def _halves(n: int, share: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.RandomState(0).permutation(n)
    cut = int(share * n)
    return np.sort(order[:cut]), np.sort(order[cut:])


def _split(data: dict[str, np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray]:
    if "is_train" in data:
        return np.flatnonzero(data["is_train"]), np.flatnonzero(~data["is_train"])
    return _halves(n)


def _scaled(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    return StandardScaler().fit(X[train]).transform(X)


def _classes(name: str, X: Any, y: Any, split: tuple, kind: Any = MulticlassClassifier) -> Task:
    return Task(name, lambda s: kind(s, random_state=0, max_iter=300), X, y, *split, 1.0)


def _multiclass() -> Iterator[Task]:
    for name in ("uci_vehicle", "uci_segment", "uci_mfeat_fac", "uci_satimage"):
        data = load_npz(name)
        X, y = data["X"].astype(np.float64), data["y"].astype(np.int64)
        split = _split(data, len(y))
        yield _classes(name.removeprefix("uci_"), _scaled(X, split[0]), y, split)
    for name in ("wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        split = _halves(len(y))
        yield _classes(name, _scaled(X, split[0]), y, split)
        yield _classes(f"{name}, not scaled", X, y, split)


def _ordinal() -> Iterator[Task]:
    data = load_npz("ord_stocks")
    split = _halves(len(data["y"]))
    X = _scaled(data["X"].astype(np.float64), split[0])
    yield _classes("stocks (ordered)", X, data["y"].astype(np.int64), split, OrdinalClassifier)


def label_sets(names: tuple[str, ...]) -> Iterator[tuple[str, Any, np.ndarray, Any, Any]]:
    """Names, features, indicators of the labels, and rows for training and test."""
    for name in names:
        data = load_npz(name)
        if "X" in data:
            X, Y = data["X"].astype(np.float64), data["Y"]
        else:
            indices = data["X_indices"].astype(np.int32)
            parts = data["X_data"].astype(np.float64), indices, data["X_indptr"]
            X = sparse.csr_matrix(parts, shape=data["X_shape"])
            Y = np.unpackbits(data["Y_packed"], axis=1)[:, : int(data["n_labels"])]
        yield name, X, Y.astype(int), *_split(data, X.shape[0])


def _label_sets() -> Iterator[Task]:
    def make(surrogate: str) -> Any:
        return MultiLabelClassifier(surrogate, random_state=0, max_iter=30)

    for name, X, Y, *split in label_sets(("yeast", "scene", "reuters_k500")):
        yield Task(name, make, X, Y, *split, float(Y.shape[1]))


def _sequences() -> Iterator[Task]:
    def make(surrogate: str) -> Any:
        return SequenceLabeler(surrogate, random_state=0)

    letters = words()
    split = _halves(len(letters.X), 0.3)
    yield Task("OCR letters", make, letters.X, letters.y, *split, 1.0)
    X, y = chunking()
    split = np.arange(2000), np.arange(2000, 3000)
    name = "CoNLL-2000, 2000 sentences"
    yield Task(name, make, X[:3000], y[:3000], *split, 1.0, "span_f1")


def _measure(task: Task, surrogate: str) -> Line:
    model = task.make(surrogate)
    known = {"cv": [(task.train, task.test)], "tol": _TOL, "scoring": task.scoring}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = path(model, task.X, task.y, grid=9, **known)
        plain = (task.usual if surrogate != "crf" else 1.0) / len(task.train)
        before = path(model, task.X, task.y, grid=[plain], **known).scores[0, 0]
    scores = found.scores[:, 0]
    auto = len(scores) // 2
    best = int(np.argmax(scores))
    alphas = found.alphas / found.alphas[auto]
    note = f"best at {alphas[best]:.3g} times; C = 1 is {plain / found.alphas[auto]:.2g} times"
    return Line(
        "alpha", f"{task.name}, {surrogate}", "score", Sample([float(scores[auto])]),
        Sample([float(scores[best])]), "best of nine strengths", more_is_better=True,
        note=f"{note}, {before:.4f}",
    )  # fmt: skip


def run(repeats: int) -> list[Line]:
    """Scores of "auto", of the best strength and of C = 1; they do not change with repetitions."""
    lines = []
    for tasks in (_multiclass, _ordinal, _label_sets, _sequences):
        for task in tasks():
            surrogates = ("max-margin",) if "ordered" in task.name else ("max-margin", "crf")
            lines += [_measure(task, surrogate) for surrogate in surrogates]
            print(f"    {lines[-1].what}: {lines[-1].ours.median:.4f}", flush=True)
    _write(lines)
    return lines


def _write(lines: list[Line]) -> None:
    rows = ["| data, surrogate | C = 1 | auto | best of nine | |", "|---|---|---|---|---|"]
    lost: dict[str, list[tuple[float, float]]] = {"all": [], "but reuters_k500": []}
    for line in lines:
        before = float(line.note.rpartition(", ")[2])
        assert line.peer is not None
        auto, best = line.ours.median, max(line.peer.median, before)
        for name, known in lost.items():
            if name.removeprefix("but ") not in line.what:
                known.append((best - auto, best - before))
        where = line.note.partition(";")[0]
        rows.append(f"| {line.what} | {before:.4f} | {auto:.4f} | {best:.4f} | {where} |")
    means = {name: np.mean(known, axis=0) for name, known in lost.items()}
    text = f"""# What alpha="auto" is worth

{__doc__.split(chr(10) + chr(10))[1].strip()}

Mean loss against the best strength: {means["all"][0]:.4f} for "auto", {means["all"][1]:.4f} for
C = 1 (``alpha = positions / n``). The difference is due to reuters_k500, whose features are small:
without it the losses are {means["but reuters_k500"][0]:.4f} and {means["but reuters_k500"][1]:.4f}.
The constants were chosen by scores on most of these data. Where much is lost, ``alpha="cv"`` finds
the strength.

{described()}; one thread.

"""
    _PAGE.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")
