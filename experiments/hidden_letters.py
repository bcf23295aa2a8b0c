"""OCR with 10 to 90 % of the letters hidden: latent labels against leaving them out.

``python -m experiments hidden_letters`` writes ``docs/results/hidden_letters.md``, ``.json`` and
``.svg``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from benchmarks.data import load_npz, words

from maxmargin import SequenceLabeler

from .graphs import arguments, make_figure, markdown_table, save, write_json, write_report
from .summary import mean_and_error

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SURROGATES = ("max-margin", "max-min", "crf")
FOLDS = (0,)
# Of the loss summed over letters: alpha = 1 / (C n). The better of these on held-out words.
STRENGTHS = (0.1, 0.3)
CRF_STRENGTHS = (1.0, 3.0)
KNOWN = "everything known"
_known: dict = {}
TITLE = "Hidden letters (OCR)"
ABOUT = """
Handwritten words, one fold of ten for training (about 690 words), the next but one for testing, the
one between to choose alpha. Each letter of the training words is hidden with the probability given;
test words are whole. Fold 0 trains, letters are hidden with seed 0.

- *latent*: `SequenceLabeler`: hidden letters (None) are variables of the model;
- *runs*: the known letters alone, each run of neighbours a sequence of its own;
- *completed once*: hidden letters filled in by the model of *runs* and then believed, with no loss;
- *whole words*: only words without a hidden letter;
- *letters*: each known letter on its own, no sequences;
- *everything known*: nothing is hidden.
"""


def runs(x: list, y: list) -> tuple[list, list]:
    """Runs of neighbouring known letters."""
    parts, labels = [], []
    for features, codes in zip(x, y, strict=True):
        known = np.flatnonzero(codes >= 0)
        for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
            if len(run):
                parts.append(features[run])
                labels.append(codes[run])
    return parts, labels


def letters(x: list, y: list) -> tuple[list, list]:
    """Every known letter by itself."""
    places = [(i, t) for i, codes in enumerate(y) for t in np.flatnonzero(codes >= 0)]
    return [x[i][t : t + 1] for i, t in places], [y[i][t : t + 1] for i, t in places]


def whole(x: list, y: list) -> tuple[list, list]:
    """Words without a hidden letter."""
    kept = [i for i, codes in enumerate(y) if (codes >= 0).all()]
    return [x[i] for i in kept], [y[i] for i in kept]


def model(surrogate: str, strength: float, n: int, **settings: Any) -> SequenceLabeler:
    solver = {"solver": "lbfgs"} if surrogate == "crf" else {}
    return SequenceLabeler(
        surrogate, alpha=1.0 / (strength * n), classes=range(26),
        random_state=0, **solver, **settings,
    )  # fmt: skip


def completed_once(surrogate: str, strength: float, x: list, y: list) -> SequenceLabeler:
    """Train on what the model of the runs makes of hidden letters, which have no loss."""
    parts, labels = runs(x, y)
    first = model(surrogate, strength, len(parts), boundary_weights=False).fit(parts, labels)
    partial = [[None if code < 0 else int(code) for code in codes] for codes in y]
    found = first.predict(x, partial_y=partial)
    weight = None if surrogate == "crf" else [(codes >= 0).astype(float) for codes in y]
    return model(surrogate, strength, len(x)).fit(x, found, position_weight=weight)


def methods(surrogate: str, x: list, y: list, truth: list) -> dict[str, Callable[[float], Any]]:
    """All ways to train, by name, each with the same meaning of C."""
    n_known = sum((part >= 0).any() for part in y)

    def plain(take: Callable, **settings: Any) -> Callable[[float], Any]:
        parts, labels = take(x, y)
        return lambda c: model(surrogate, c, max(1, len(parts)), **settings).fit(parts, labels)

    return {
        "latent": lambda c: model(surrogate, c, n_known, hidden=True).fit(x, y),
        "runs": plain(runs, boundary_weights=False),
        "completed once": lambda c: completed_once(surrogate, c, x, y),
        "whole words": plain(whole),
        "letters": plain(letters, boundary_weights=False),
        KNOWN: lambda c: model(surrogate, c, len(x)).fit(x, truth),
    }


def one_fold(surrogate: str, share: float, fold: int, n_words: int | None) -> dict[str, dict]:
    """Test errors of all methods, alpha chosen on other words."""
    every, folds = words(), load_npz("ocr_letters")["fold"]
    pick = [np.flatnonzero(folds == (fold + k) % 10)[:n_words] for k in range(3)]
    sets = [([every.X[i] for i in part], [every.y[i] for i in part]) for part in pick]
    (x, truth), validation, test = sets
    random = np.random.RandomState(fold)
    y = [np.where(random.rand(len(part)) < share, -1, part) for part in truth]
    found = {}
    strengths = CRF_STRENGTHS if surrogate == "crf" else STRENGTHS
    for name, train in methods(surrogate, x, y, truth).items():
        if name == KNOWN and (surrogate, fold, n_words) in _known:  # the same for all shares
            found[name] = _known[surrogate, fold, n_words]
            continue
        began = time.process_time()
        try:
            fitted = [train(c) for c in strengths]
        except ValueError:  # no whole word is left
            continue
        best = max(fitted, key=lambda candidate: candidate.score(*validation))
        found[name] = {
            "error": 1.0 - best.score(*test),
            "seconds": (time.process_time() - began) / len(strengths),
            "alpha": best.alpha_,
            "rounds": len(getattr(best, "rounds_", [])),
            "status": best.status_,
        }
    _known[surrogate, fold, n_words] = found[KNOWN]
    return found


def main(arguments_given: list[str] | None = None) -> None:
    """Run, write and plot."""
    chosen = arguments("hidden_letters", __doc__, "80 words, one share", arguments_given)
    warnings.filterwarnings("ignore", message=".*hidden labels only")
    shares = (0.5,) if chosen.quick else SHARES
    folds, n_words = ((0,), 80) if chosen.quick else (FOLDS, None)
    surrogates = SURROGATES[:1] if chosen.quick else SURROGATES
    path = chosen.folder / "hidden_letters.json"
    content: dict[str, Any] = {}
    for surrogate in surrogates:
        content[surrogate] = {}
        for share in shares:
            each = [one_fold(surrogate, share, fold, n_words) for fold in folds]
            content[surrogate][f"{share:g}"] = each
            errors = {name: round(entry["error"], 4) for name, entry in each[0].items()}
            print(surrogate, share, errors, flush=True)
            write_json(path, content)
        plot(content, chosen.folder / "hidden_letters.svg")
        write_report(chosen.folder, "hidden_letters", TITLE, ABOUT, table(content))
    print(table(content))


def table(content: dict) -> str:
    """Test errors in per cent, mean and standard error over folds."""
    parts = []
    for surrogate, found in content.items():
        names = list(next(iter(found.values()))[0])
        rows = []
        for share, folds in found.items():
            row = [f"{float(share):.0%}"]
            for name in names:
                errors = [100.0 * fold[name]["error"] for fold in folds if name in fold]
                if len(errors) < len(folds):
                    row.append("–")
                    continue
                centre, spread = mean_and_error(errors)
                row.append(f"{centre:.1f}" + ("" if np.isnan(spread) else f" ± {spread:.1f}"))
            rows.append(row)
        header = ["hidden", *names]
        title = f"Error in per cent of the letters, {surrogate}:\n\n"
        parts.append(title + markdown_table(header, rows))
    return "\n\n".join(parts)


def plot(content: dict, path: Path) -> None:
    """Error over the share of hidden letters, a panel for each surrogate."""
    figure, panels = make_figure(1, len(content), sharey=True)
    for panel, (surrogate, found) in zip(panels[0], content.items(), strict=True):
        for name in next(iter(found.values()))[0]:
            points = [
                (float(share), mean(fold[name]["error"] for fold in folds))
                for share, folds in found.items()
                if all(name in fold for fold in folds)
            ]
            panel.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        panel.set(title=surrogate, xlabel="share of hidden letters")
    panels[0][0].set_ylabel("test error")
    panels[0][0].legend(fontsize=7)
    save(figure, path)
