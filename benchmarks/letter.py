"""Linear Crammer-Singer on uci_letter against liblinear (``LinearSVC``).

liblinear runs with its defaults (C = 1). We run until our primal value is within 0.1 % of the value
that liblinear's weights have in the same formula; the whole ``fit`` counts, validation included.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.svm import LinearSVC

from maxmargin import Checked, MulticlassClassifier

from .data import letter
from .harness import Line, Target, alternate

CLOSE_ENOUGH = 1.001
CHECK_EVERY = 8  # passes; a check costs about half of one


def crammer_singer(coef: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """``1/(2n) |W|^2 + mean_i max_j [ 1[j != y_i] + v_ij ] - v_iy``: C = 1, divided by n."""
    scores = X @ coef.T
    rows = np.arange(len(y))
    true = scores[rows, y]
    margins = scores + 1.0
    margins[rows, y] = true
    return float(0.5 * np.sum(coef**2) / len(y) + np.mean(margins.max(axis=1) - true))


def fit_liblinear(X, y) -> tuple[float, float]:
    """Seconds and primal value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge at its defaults, and says so
        began = time.perf_counter()
        model = LinearSVC(multi_class="crammer_singer", fit_intercept=False, random_state=0)
        model.fit(X, y)
        return time.perf_counter() - began, crammer_singer(model.coef_, X, y)


def fit_ours(X, y, goal: float, seed: int) -> tuple[float, MulticlassClassifier]:
    """Seconds until a check finds a primal value of at most ``goal``."""
    model = MulticlassClassifier(
        fit_intercept=False,
        alpha=1.0 / len(y),
        tol=0,
        max_iter=10_000,
        solver=Checked("auto", every=CHECK_EVERY),
        random_state=seed,
        callbacks=lambda check: bool(check.primal > goal),
    )
    began = time.perf_counter()
    model.fit(X, y)
    spent = time.perf_counter() - began
    reached = crammer_singer(model.coef_, X, y)
    if reached > goal * (1 + 1e-9):
        raise RuntimeError(f"primal {reached} is above the goal {goal}")
    return spent, model


def run(repeats: int) -> list[Line]:
    """Time to 0.1 % of liblinear's objective."""
    X, y = letter()
    goal = CLOSE_ENOUGH * fit_liblinear(X, y)[1]
    fit_ours(X, y, goal, 0)  # compiles
    fits = []

    def ours(number: int) -> float:
        spent, model = fit_ours(X, y, goal, number)
        fits.append(model)
        return spent

    found = alternate(repeats, {"ours": ours, "peer": lambda _: fit_liblinear(X, y)[0]})
    last = fits[-1]
    return [
        Line(
            "letter",
            "uci_letter, Crammer-Singer, C = 1: to 0.1 % of liblinear's objective",
            "s",
            found["ours"],
            found["peer"],
            "liblinear",
            target=Target("ratio", 10),
            note=f"liblinear's primal {goal / CLOSE_ENOUGH:.5f}; ours, last run: "
            f"{last.primal_:.5f}, certified gap {last.gap_:.1e}, {last.n_iter_} passes",
        )
    ]
