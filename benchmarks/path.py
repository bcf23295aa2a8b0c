"""What ``alpha="cv"`` costs, and how good its choice is.

The cost is the CPU time of its path (20 strengths, five folds, one thread, without the fit on all
data that follows) beside that of one fit at the alpha it chooses. The choice is judged by the score
on test data that were not used: of models trained with ``alpha="cv"`` (means over three ways to cut
the folds), of the best of nine strengths by these test scores, and of ``alpha="auto"``.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from maxmargin import CrossValidated, path
from maxmargin.metrics import get_scorer

from .harness import Line, Sample, Target
from .path_tasks import Task, all_sentences, classes, label_sets, tasks

_TARGET = 8.0  # fits
_CUTS = 3
_NINE, _GAP, _PASSES = 9, 0.03, 40  # strengths to compare with, and how far their fits go


def costs() -> list[Task]:
    """What the cost is measured on."""
    return [classes("letter"), label_sets("yeast"), label_sets("scene"), all_sentences()]


def cost(task: Task, repeats: int) -> Line:
    """The path and one fit, in turn."""
    path(task.model, task.X[:60], task.y[:60], grid=2, cv=2, scoring=task.scoring)  # compiles
    ratios = []
    for _ in range(repeats):
        began = time.process_time()
        found = path(task.model, task.X, task.y, scoring=task.scoring, patience=3)
        walked = time.process_time()
        clone(task.model).set_params(alpha=found.best_strength).fit(task.X, task.y)
        ended = time.process_time()
        ratios.append((walked - began) / (ended - walked))
    points, gap = len(found.strengths), np.nanmax(found.relative_gaps)
    print(f"    {task.name}: {ratios}, {points} strengths", flush=True)
    return Line(
        "path", f"{task.name}: a path of 20 strengths and 5 folds", "fits", Sample(ratios),
        target=Target("at most", _TARGET),
        note=f"{points} strengths computed, {int(found.n_folds.sum())} fits of folds, largest "
        f"relative gap {gap:.2g}; path {walked - began:.3g} s, one fit {ended - walked:.3g} s of "
        "CPU time",
    )  # fmt: skip


def choice(task: Task) -> Line:
    """Test scores of the alpha chosen, of the best of nine, and of the default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [_chosen(task, seed) for seed in range(_CUTS)]
        nine, auto = _path_on_test(task, _NINE), _path_on_test(task, 1)
    best = max(float(nine.max()), float(auto[0]), *(score for score, _ in chosen))
    scores = [score for score, _ in chosen]
    lost = best - float(np.mean(scores))
    alphas = ", ".join(f"{alpha:.2g}" for _, alpha in chosen)
    print(f"    {task.name}: {np.mean(scores):.4f} / {best:.4f} / {auto[0]:.4f}", flush=True)
    return Line(
        "path", f"{task.name}: score on test data", "", Sample(scores), Sample([best]),
        "best of nine strengths", more_is_better=True,
        note=f"default {auto[0]:.4f}; {lost:.4f} below the best; alpha chosen: {alphas}",
    )  # fmt: skip


def _chosen(task: Task, seed: int) -> tuple[float, float]:
    """The test score of a model that chooses alpha, and that alpha."""
    alpha = CrossValidated(scoring=task.scoring)
    model = clone(task.model).set_params(alpha=alpha, random_state=seed).fit(task.X, task.y)
    if task.scoring is None:
        return float(model.score(task.X_test, task.y_test)), float(model.alpha_)
    return float(get_scorer(task.scoring)(model, task.X_test, task.y_test)), float(model.alpha_)


def _path_on_test(task: Task, grid: int) -> np.ndarray:
    """Test scores of models trained with strengths of a grid."""
    n, m = len(task.y), len(task.y_test)
    split = [(np.arange(n), np.arange(n, n + m))]
    X, y = _joined(task.X, task.X_test), _joined(task.y, task.y_test)
    model = clone(task.model).set_params(max_iter=_PASSES)
    return path(model, X, y, grid=grid, cv=split, tol=_GAP, scoring=task.scoring).scores[:, 0]


def _joined(first: Any, second: Any) -> Any:
    return first + second if isinstance(first, list) else np.concatenate([first, second])


def run(repeats: int) -> list[Line]:
    """The costs, then the choices; one run of the larger data."""
    lines = [cost(task, 1 if task.scoring else repeats) for task in costs()]
    return lines + [choice(task) for task in tasks()]
