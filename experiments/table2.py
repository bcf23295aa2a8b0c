"""Table 2 of the paper: warm against cold starts of the mirror-prox oracle.

``python -m experiments table2`` trains M4N by generalised BCFW with K iterations of mirror-prox a
call, 100 passes, and writes test loss / mean oracle error in the last pass.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import mean

import numpy as np
from benchmarks.report import machine

from . import protocol, saddle
from .rows import BY_NAME, Examples
from .store import RESULTS
from .summary import mean_and_error, write_block

# The lambda that the authors' scripts give for each set.
ALPHAS = {"machine": 4.42e-2, "auto": 5e-3}
ITERATIONS = (10, 30, 50, 100)
PASSES = 100


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments table2", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one set, one split, few passes")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Run everything; write ``table2.json`` and the table of ``table2.md``."""
    chosen = arguments(words)
    names, counts, passes = list(ALPHAS), ITERATIONS, PASSES
    if chosen.quick:
        names, counts, passes, chosen.splits = ["machine"], (10, 30), 5, 1
        if chosen.folder == RESULTS:
            chosen.folder = RESULTS / "quick"
    found = []
    for name in names:
        for split in range(chosen.splits):
            for warm in (True, False):
                for iterations in counts:
                    found.append(one_run(name, split, iterations, warm, passes))
                    print(found[-1], flush=True)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "passes": passes, "alpha": ALPHAS, "runs": found}
    path = chosen.folder / "table2.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    block = table(found, names, counts)
    write_block(chosen.folder / "table2.md", "table2", block)
    print(block)


def with_bias(X: np.ndarray) -> np.ndarray:
    """A constant column for the intercept."""
    return np.hstack([X, np.ones((len(X), 1))])


def distances(n_labels: int) -> np.ndarray:
    """The loss of ordered classes."""
    levels = np.arange(n_labels)
    return np.abs(levels[:, None] - levels).astype(np.float64)


def features_of(name: str, split: int) -> tuple[Examples, Examples]:
    """Training and test part with the authors' features and a constant."""
    row = BY_NAME[name]
    data = protocol.make_split(row, row.load(), split, "columns")
    return tuple(part._replace(X=with_bias(part.X)) for part in (data.train, data.test))  # type: ignore[return-value]


def one_run(name: str, split: int, iterations: int, warm: bool, passes: int) -> dict:
    """Train once and look at the last pass."""
    train, test = features_of(name, split)
    settings = saddle.Settings(ALPHAS[name], passes, iterations, warm, line_search=False)
    began = time.perf_counter()
    trace = saddle.train(train.X, train.y, distances(train.n_labels), settings, split)
    predicted = (test.X @ trace.averaged).argmax(axis=1)
    return {
        "data": name,
        "split": split,
        "warm": warm,
        "K": iterations,
        "test": round(float(np.abs(predicted - test.y).mean()), 5),
        "oracle_error": float(f"{trace.oracle_error[-1]:.5g}"),
        "primal": float(f"{trace.primal[-1]:.6g}"),
        "dual": float(f"{trace.dual.max():.6g}"),
        "seconds": round(time.perf_counter() - began, 2),
    }


def table(runs: list[dict], names: list[str], counts: tuple[int, ...]) -> str:
    """Mean test loss ± standard error / mean oracle error / relative gap of the fit."""
    lines = ["| data | warm start | " + " | ".join(f"K = {k}" for k in counts) + " |"]
    lines.append("|---" * (2 + len(counts)) + "|")
    for name in names:
        for warm in (True, False):
            cells = [name, "yes" if warm else "no"]
            for k in counts:
                own = [r for r in runs if (r["data"], r["warm"], r["K"]) == (name, warm, k)]
                loss, error = mean_and_error([r["test"] for r in own])
                oracle = mean(r["oracle_error"] for r in own)
                gap = mean((r["primal"] - r["dual"]) / r["primal"] for r in own)
                spread = f" ± {error:.3f}" if len(own) > 1 else ""
                cells.append(f"{loss:.3f}{spread} / {oracle:.2g} / {100 * gap:.1f} %")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
