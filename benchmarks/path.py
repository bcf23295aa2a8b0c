"""What ``alpha="cv"`` costs: CPU time of its path beside that of one fit at the alpha it chooses.

Twenty strengths, five folds, one thread. The path is that of ``alpha="cv"`` (:func:`maxmargin.path`
with ``patience=3``), without the fit on all data that follows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from maxmargin import MulticlassClassifier, MultiLabelClassifier, SequenceLabeler, path

from .data import chunking_rows, letter, load_npz
from .harness import Line, Sample, Target

_TARGET = 8.0  # fits


class Task(NamedTuple):
    name: str
    model: Any
    X: Any
    y: Any
    scoring: str | None = None


def _tasks() -> Iterator[Task]:
    X, y = letter()
    yield Task("letter", MulticlassClassifier(random_state=0), X[:, :-1], y)
    for name in ("yeast", "scene"):
        data = load_npz(name)
        train = data["is_train"]
        X = data["X"][train].astype(np.float64)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        yield Task(name, MultiLabelClassifier(random_state=0), X, data["Y"][train].astype(int))
    yield Task("CoNLL-2000", SequenceLabeler(random_state=0), *chunking_rows(), "span_f1")


def _measure(task: Task, repeats: int) -> Line:
    path(task.model, task.X[:60], task.y[:60], grid=2, cv=2, scoring=task.scoring)  # compiles
    ratios = []
    for _ in range(repeats):
        began = time.process_time()
        found = path(task.model, task.X, task.y, scoring=task.scoring, patience=3)
        walked = time.process_time()
        clone(task.model).set_params(alpha=found.best_strength).fit(task.X, task.y)
        ended = time.process_time()
        ratios.append((walked - began) / (ended - walked))
    points, gap = len(found.strengths), found.relative_gaps.max()
    print(f"    {task.name}: {ratios}, {points} strengths", flush=True)
    return Line(
        "path", f"{task.name}: a path of 20 strengths and 5 folds", "fits", Sample(ratios),
        target=Target("at most", _TARGET),
        note=f"{points} strengths computed, largest relative gap {gap:.2g}; path "
        f"{walked - began:.3g} s, one fit {ended - walked:.3g} s of CPU time",
    )  # fmt: skip


def run(repeats: int) -> list[Line]:
    """The path and one fit, in turn."""
    return [_measure(task, 1 if task.scoring else repeats) for task in _tasks()]
