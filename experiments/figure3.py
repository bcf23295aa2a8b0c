"""Figure 3 of the soft-constraints paper: what softness costs, against the number of examples.

``python -m experiments figure3`` writes ``docs/results/figure3.md``, ``.json`` and ``.svg``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmarks.graph_data import label_sets, yeast_arrays
from benchmarks.problems import soft_agreement, soft_points

from maxmargin.solvers.loop import run

from .graphs import (
    arguments,
    make_figure,
    markdown_table,
    rounded,
    save,
    soft,
    write_json,
    write_report,
)

SIZES = (50, 100, 200, 400, 800)
SAMPLES = 10
RHO, ALPHA = 1.0, 0.01
INERTIA, VISITS = 2.0, 100_000
TITLE = "Figure 3: what softness costs, against the number of examples (yeast)"
ABOUT = """
Meshi, Srebro and Hazan, AISTATS 2015, figure 3: g(w_rho, delta_rho) − g\\*, the hard objective at
the optimum of the soft problem less the hard optimum, on random parts of yeast; rho = 1 in the
paper's units, alpha = 0.01. Both problems are solved to a certified relative gap of 0.5 % (or for
100,000 visits to examples); g\\* is the lower bound, so the differences are never too small.
"""


def difference(X: np.ndarray, Y: np.ndarray) -> tuple[float, float, float]:
    """The hard value at the soft optimum, and bounds of the hard optimum."""
    problem, _ = label_sets(X, Y, ALPHA)
    # The default inertia grows with 1 / n, and takes very long on the smallest sets.
    inertia = INERTIA if len(X) <= 200 else "auto"
    passes = max(200, VISITS // len(X))
    stepper = soft(problem, RHO, inertia=inertia)
    run(stepper, tol=5e-3, max_iter=passes)
    softened = min(problem.primal(w, messages) for w, messages in soft_points(stepper))
    stepper = soft_agreement(problem, inertia=inertia)
    hard = run(stepper, tol=5e-3, max_iter=passes)
    return softened, hard.dual, hard.primal


def main(words: list[str] | None = None) -> None:
    """Run, write and plot."""
    chosen = arguments("figure3", __doc__, "two sizes, two samples", words)
    sizes, samples = ((50, 100), 2) if chosen.quick else (SIZES, SAMPLES)
    X, Y, _, _ = yeast_arrays()
    content: dict[str, dict] = {}
    for size in sizes:
        found = []
        for sample in range(samples):
            part = np.random.RandomState(sample).permutation(len(X))[:size]
            found.append(difference(X[part], Y[part]))
        softened, lower, upper = np.array(found).T
        content[str(size)] = {
            "soft": rounded(softened), "lower": rounded(lower), "upper": rounded(upper)
        }  # fmt: skip
        print(f"{size}: {np.mean(softened - lower):.5f}", flush=True)
    write_json(chosen.folder / "figure3.json", {"sizes": content})
    plot(content, chosen.folder / "figure3.svg")
    write_report(chosen.folder, "figure3", TITLE, ABOUT, table(content))


def _differences(found: dict) -> tuple[float, float, float]:
    """Mean, half of its 95 % interval, and mean optimum."""
    values = np.array(found["soft"]) - np.array(found["lower"])
    error = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(error), float(np.mean(found["lower"]))


def table(content: dict) -> str:
    """Mean differences with their 95 % intervals."""
    rows = []
    for size, found in content.items():
        mean, error, best = _differences(found)
        gap = np.mean(np.array(found["upper"]) - np.array(found["lower"]))
        share = f"{100 * mean / best:.2f} %"
        rows.append([size, f"{best:.4f}", f"{mean:.5f} ± {error:.5f}", share, f"{gap:.5f}"])
    header = ["examples", "g*", "g(w_rho, delta_rho) − g*", "of g*", "certified gap of g*"]
    return markdown_table(header, rows)


def plot(content: dict, path: Path) -> None:
    """Differences over sizes."""
    figure, panels = make_figure(1, 1)
    means, errors, _ = np.array([_differences(found) for found in content.values()]).T
    panels[0, 0].errorbar([int(size) for size in content], means, errors, marker="o", capsize=3)
    panels[0, 0].set(xscale="log", xlabel="training examples", ylabel="g(w_rho, delta_rho) - g*")
    panels[0, 0].set_ylim(0.0)
    save(figure, path)
