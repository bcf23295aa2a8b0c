"""Max-min on rankings, matchings and trees: time to certified gaps, beside plain Frank-Wolfe.

One side is the default, the other ``solver="bcfw"`` with the same tolerance, stopped at ``MOST``
CPU seconds: where it is stopped, its time is a lower bound, and the note has its gap. With
``MAX_MIN_BEFORE=FILE``, lines of JSON that ``python -m benchmarks.max_min_fits FILE`` wrote with
another version of the library, the other side is the default of that version instead.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LabelRanker, Matcher, TreeParser
from maxmargin.conllu import read_conllu
from maxmargin.datasets_made import make_matchings, make_sentences

from .data import data_file, load_npz
from .harness import Line, Sample, Target

MOST = 40.0
GAPS = (1e-2, 1e-4, 1e-6)
# alpha is "auto" divided by these.
STRENGTHS = (1, 10)
RATIO = 5.0
# Sentences of EWT, and their longest.
SENTENCES, LONGEST = 300, 12


class Fit(NamedTuple):
    """One fit: CPU seconds, passes and the relative gap that it certified."""

    seconds: float
    passes: int
    gap: float
    converged: bool


class Data(NamedTuple):
    """A problem: an estimator's class, its parameters, and what it is fitted to."""

    estimator: type
    settings: dict[str, Any]
    X: Any
    y: Any


def ranking(name: str) -> Data:
    """Label ranking, features standardised."""
    data = load_npz(f"lr_{name}")
    X = data["X"].astype(np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return Data(LabelRanker, {"y_format": "ranks"}, X, data["rank"].astype(np.int64) + 1)


def made_matchings() -> Data:
    made = make_matchings(100)
    return Data(Matcher, {}, made.X, made.y)


def frames() -> Data:
    """Key points of one frame of Buffy Stickmen, and of another one of the episode."""
    data = load_npz("buffy_stickmen")
    random = np.random.RandomState(0)
    chosen = np.flatnonzero(data["episode"] == 3)[::6][:60]

    def points(frame: int) -> np.ndarray:
        places = data["keypoints"][frame].astype(np.float64)
        colours = data["kp_color"][frame].astype(np.float64) / 100.0
        gradients = data["kp_grad"][frame].astype(np.float64).reshape(10, 16, 8).mean(axis=2)
        return np.hstack([(places - places.mean(axis=0)) / places.std(), colours, gradients])

    X, y = [], []
    for first, second in zip(chosen[:-1], chosen[1:], strict=True):
        order = random.permutation(10)
        X.append((points(first), points(second)[order]))
        y.append(np.argsort(order))
    return Data(Matcher, {}, X, y)


def made_sentences() -> Data:
    made = make_sentences(150)
    return Data(TreeParser, {"hash_bits": 14}, made.X, made.y)


def ewt() -> Data:
    sentences = read_conllu(data_file("ud_english_ewt_train.conllu.gz"))
    short = [s for s in sentences if 2 <= len(s.heads) <= LONGEST][:SENTENCES]
    return Data(TreeParser, {"hash_bits": 16}, short, [s.heads for s in short])


PROBLEMS = {
    "ranking wine (178, 3 items)": lambda: ranking("wine"),
    "ranking glass (214, 6 items)": lambda: ranking("glass"),
    "ranking vehicle (846, 4 items)": lambda: ranking("vehicle"),
    "ranking vowel (528, 11 items)": lambda: ranking("vowel"),
    "matching, made (100, 5 to 8 points)": made_matchings,
    "matching Buffy (59, 10 points)": frames,
    "trees, made (150 sentences)": made_sentences,
    f"trees EWT ({SENTENCES} sentences to {LONGEST} words)": ewt,
}


def fit(data: Data, alpha: float, gap: float, most: float, **settings) -> Fit:
    """Fit until the relative gap is certified, or the time is over."""
    began = time.process_time()
    model = data.estimator(
        "max-min",
        alpha=alpha,
        tol=gap,
        max_iter=10**6,
        random_state=0,
        callbacks=lambda check: time.process_time() - began < most,
        **data.settings,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    spent = time.process_time() - began
    relative = float(model.gap_ / abs(model.primal_))
    return Fit(spent, model.n_iter_, relative, model.status_ == "converged")


def fits(data: Data, most: float, **settings) -> Iterator[tuple[int, float, Fit]]:
    """Strength, gap and fit, for all strengths and, while they are reached, all gaps."""
    # The first fit also compiles, whatever solver the tolerance chooses.
    probes = [
        data.estimator("max-min", tol=tol, max_iter=1, **data.settings, **settings)
        for tol in (GAPS[0], GAPS[-1])
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        alpha = [probe.fit(data.X, data.y).alpha_ for probe in probes][0]
    for strength in STRENGTHS:
        for gap in GAPS:
            found = fit(data, alpha / strength, gap, most, **settings)
            yield strength, gap, found
            if not found.converged:
                break


def one_problem(what: str, data: Data, before: dict[str, Fit] | None) -> list[Line]:
    """A line for each strength and gap that the default reaches."""
    others = {}
    if before is None:
        for strength, gap, found in fits(data, MOST, solver="bcfw"):
            others[key(what, strength, gap)] = found
    else:
        others = before
    lines = []
    for strength, gap, ours in fits(data, MOST):
        # A side that missed a larger gap needs at least the time it spent on that.
        known = [others.get(key(what, strength, g)) for g in GAPS if g >= gap]
        peer = [found for found in known if found is not None][-1]
        missed = "" if peer.converged else f"; the other side stopped at gap {peer.gap:.1e}"
        state = "" if ours.converged else f", NOT reached: {ours.gap:.1e}"
        lines.append(
            Line(
                "max_min_fits",
                f"{what}, alpha/{strength}, to a gap of {gap:g}",
                "s",
                Sample([ours.seconds]),
                Sample([peer.seconds]),
                "plain Frank-Wolfe" if before is None else "before",
                target=Target("ratio", RATIO),
                note=f"CPU time; {ours.passes} passes{state}; the other {peer.passes}{missed}",
            )
        )
    return lines


def key(what: str, strength: int, gap: float) -> str:
    return f"{what}|{strength}|{gap:g}"


def measure(path: Path) -> None:
    """Write what the default of this version needs, to be the other side of another version."""
    with path.open("w") as file:
        for what, make in PROBLEMS.items():
            for strength, gap, found in fits(make(), MOST):
                line = {"key": key(what, strength, gap), **found._asdict()}
                print(json.dumps(line), file=file, flush=True)


def run(repeats: int) -> list[Line]:
    """All problems, once: the slow side takes minutes."""
    before = None
    if "MAX_MIN_BEFORE" in os.environ:
        before = {}
        for text in Path(os.environ["MAX_MIN_BEFORE"]).read_text().splitlines():
            values = json.loads(text)
            name = values.pop("key")
            before[name] = Fit(**values)
    lines = []
    for what, make in PROBLEMS.items():
        lines += one_problem(what, make(), before)
    return lines


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
