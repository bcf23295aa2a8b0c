"""What the soft-constraints paper only proposes: annealing, multipliers, smoothing; and max-min.

``python -m experiments extensions`` writes ``docs/results/extensions.md``, ``.json`` and ``.svg``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.graph_data import Task, msrc, yeast
from benchmarks.problems import soft_agreement

from .graphs import (
    arguments,
    columns,
    hard_trace,
    make_figure,
    markdown_table,
    read_json,
    save,
    soft,
    write_json,
    write_report,
)

PASSES = {"yeast": 100, "msrc21": 100}
SIGMAS = (0.001, 0.01)
MAX_MIN = "max-min, multipliers"
TITLE = "Annealing, multipliers, smoothing, max-min"
ABOUT = """
What the extensions that Meshi, Srebro and Hazan (AISTATS 2015) only propose do to the hard
objective, the test score and the time, after the same number of passes. "soft" has a fixed rho,
printed in units of all n examples (times n in units of one); "annealed" starts at the default rho
and shrinks it; "multipliers" is the augmented Lagrangian, the default; "smoothed" replaces every
maximum by that of θ·μ − σ/2 |μ|². The objective of max-min is another one (its loss is that of the
max-min margin), so it compares only with itself. The lower bound is the certified one of the hard
problem; where there is none, the soft problem was solved. All seeds are 0.
"""


def variants(problem: Any, fair: Any) -> dict[str, Callable[[], Any]]:
    """Solvers by name."""
    found: dict[str, Callable[[], Any]] = {}
    for rho in (0.1, 1.0):
        found[f"soft, rho = {rho:g}"] = lambda rho=rho: soft(problem, rho * problem.n_examples)
    found["annealed"] = lambda: soft_agreement(problem, agreement="annealed")
    found["multipliers (default)"] = lambda: soft_agreement(problem)
    for sigma in SIGMAS:
        found[f"multipliers, smoothed, sigma = {sigma:g}"] = lambda sigma=sigma: soft_agreement(
            problem, smoothing=sigma
        )
    found[MAX_MIN] = lambda: soft_agreement(fair)
    return found


def main(words: list[str] | None = None) -> None:
    """Run, write and plot."""
    chosen = arguments("extensions", __doc__, "300 examples of yeast, ten passes", words)
    path = chosen.folder / "extensions.json"
    content = read_json(path)
    content.pop("machine", None)
    loaders: dict[str, Callable[..., Task]] = {"yeast": yeast, "msrc21": msrc}
    for name in ("yeast",) if chosen.quick else chosen.data or tuple(loaders):
        n = 300 if chosen.quick else None
        task, fair = loaders[name](n), loaders[name](n, max_min=True)
        curves = content.get(name, {}).get("curves", {}) if chosen.curves else {}
        for what, make in variants(task.problem, fair.problem).items():
            if chosen.curves and what not in chosen.curves:
                continue
            passes = 10 if chosen.quick else PASSES[name]
            points = hard_trace(make, np.inf, passes=passes, score=task.score, growth=1.3)
            curves[what] = columns(points)
            last = points[-1]
            print(f"{name} | {what} | {last.seconds:.2f} s: {last.primal:.5f}, {last.score:.4f}")
        content[name] = {"measure": task.measure, "curves": curves}
        write_json(path, content)
    plot(content, path.with_suffix(".svg"))
    write_report(chosen.folder, "extensions", TITLE, ABOUT, table(content))


def table(content: dict) -> str:
    """Where every curve ends."""
    parts = []
    for name, found in content.items():
        rows = []
        for what, curve in found["curves"].items():
            dual = curve["dual"][-1]
            rows.append([
                what,
                f"{curve['primal'][-1]:.4f}",
                "" if dual is None else f"{dual:.4f}",
                f"{curve['score'][-1]:.4f}",
                f"{max(curve['score']):.4f}",
                f"{curve['seconds'][-1]:.2f}",
            ])  # fmt: skip
        passes = next(iter(found["curves"].values()))["passes"][-1]
        header = [
            f"{name}, {passes:g} passes", "objective", "lower bound", f"{found['measure']}, last",
            "best on the way", "seconds",
        ]  # fmt: skip
        parts.append(markdown_table(header, rows))
    return "\n\n".join(parts)


def plot(content: dict, path: Path) -> None:
    """Objective over time, max-min left out, and test score."""
    figure, panels = make_figure(2, len(content))
    for (name, found), (above, below) in zip(content.items(), panels.T, strict=True):
        best = min(min(c["primal"]) for what, c in found["curves"].items() if what != MAX_MIN)
        for number, (what, curve) in enumerate(found["curves"].items()):
            times = np.maximum(curve["seconds"], 0.01)
            if what != MAX_MIN:
                above.plot(times, curve["primal"], f"C{number}", label=what)
            below.plot(times, curve["score"], f"C{number}", label=what)
        above.set(title=name, xscale="log", ylim=(0.98 * best, 2.0 * best))
        top = max(max(curve["score"]) for curve in found["curves"].values())
        below.set(xscale="log", xlabel="CPU seconds", ylabel=found["measure"])
        below.set_ylim(top - 0.1, top + 0.005)
    panels[0, 0].set_ylabel("hard objective g")
    panels[1, 0].legend(fontsize=6)
    save(figure, path)
