"""Duality gap over passes: the paper's step 2n/(t+2n) against exact steps.

``python -m experiments line_search`` writes ``docs/results/line_search.json`` and ``.svg``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.data import words as ocr_words
from benchmarks.report import machine
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

from . import saddle
from .store import RESULTS
from .table2 import ALPHAS, distances, features_of

PASSES = 100
ORACLE_ITERATIONS = 20
PAPER, EXACT = "the paper's step 2n/(t+2n)", "exact line search"
LIBRARY = "the library's solver"
OCR, OCR_ITERATIONS = "ocr", 10


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments line_search", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one set, ten passes")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Train with both steps and plot the certified gaps."""
    chosen = arguments(words)
    names, passes = (["machine"], 10) if chosen.quick else (["machine", "auto"], PASSES)
    if chosen.quick and chosen.folder == RESULTS:
        chosen.folder = RESULTS / "quick"
    curves = {name: curves_of(name, passes) for name in names}
    if not chosen.quick:
        curves[OCR] = curves_of_words(passes)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    iterations = {**dict.fromkeys(names, ORACLE_ITERATIONS), OCR: OCR_ITERATIONS}
    alphas = {**ALPHAS, OCR: "1/n"}
    content = {"machine": machine(), "alpha": alphas, "K": iterations, "curves": curves}
    path = chosen.folder / "line_search.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    plot(curves, path.with_suffix(".svg"))
    for name, lines in curves.items():
        for what, line in lines.items():
            print(f"{name} | {what} | after {line['passes'][-1]:g} passes: {line['gap'][-1]:.3g}")


def curves_of(name: str, passes: int) -> dict[str, dict[str, list[float]]]:
    """Relative gaps after each pass, by method."""
    train, _ = features_of(name, 0)
    found = {}
    for what, search in ((PAPER, False), (EXACT, True)):
        settings = saddle.Settings(ALPHAS[name], passes, ORACLE_ITERATIONS, True, search)
        trace = saddle.train(train.X, train.y, distances(train.n_labels), settings, 0)
        gaps = _relative_gaps(trace.primal, trace.dual)
        found[what] = {"passes": [float(p) for p in range(1, passes + 1)], "gap": gaps}
    model = mm.OrdinalClassifier(
        alpha=ALPHAS[name],
        classes=range(train.n_labels),
        fit_intercept=False,  # the features hold a constant
    )
    found[LIBRARY] = _trace(model, train.X, train.y, passes)
    return found


def curves_of_words(passes: int) -> dict[str, dict[str, list[float]]]:
    """The same for handwritten words (fold 0), where every method is the library's."""
    X, y = ocr_words("test")
    loss = mm.HammingLoss(normalize=True)
    base = {"surrogate": "max-min", "alpha": 1.0 / len(X), "loss": loss}
    paper = mm.BlockFrankWolfe(oracle=mm.MirrorProx(OCR_ITERATIONS), step_average=3.0)
    models = {
        PAPER: mm.SequenceLabeler(**base, solver=clone(paper).set_params(line_search=False)),
        EXACT: mm.SequenceLabeler(**base, solver=paper),
        LIBRARY: mm.SequenceLabeler(**base),
    }
    return {what: _trace(model, X, y, passes) for what, model in models.items()}


def _relative_gaps(primal: np.ndarray, dual: np.ndarray) -> list[float]:
    """Best primal value so far less best dual value so far, over the former."""
    lowest, highest = np.minimum.accumulate(primal), np.maximum.accumulate(dual)
    return [float(f"{gap:.4g}") for gap in (lowest - highest) / lowest]


def _trace(model: Any, X: Any, y: Any, passes: int) -> dict[str, list[float]]:
    """Relative gap after each pass of an estimator."""
    each_pass = mm.Checked(model.solver, every=1)
    model.set_params(solver=each_pass, max_iter=passes, tol=1e-9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    checks = [check for check in model.history_ if check.passes > 0]
    return {
        "passes": [float(check.passes) for check in checks],
        "gap": [float(f"{check.gap / check.primal:.4g}") for check in checks],
    }


def plot(curves: dict[str, Any], path: Path) -> None:
    """One panel a data set, logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "maxmargin", "svg.fonttype": "none"})
    figure, panels = pyplot.subplots(1, len(curves), figsize=(4.5 * len(curves), 3.4), sharey=True)
    for panel, (name, lines) in zip(np.atleast_1d(panels), curves.items()):
        for what, line in lines.items():
            panel.loglog(line["passes"], np.maximum(line["gap"], 1e-6), label=what)
        panel.set(title=name, xlabel="passes over the data")
    first = np.atleast_1d(panels)[0]
    first.set_ylabel("relative duality gap")
    first.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
