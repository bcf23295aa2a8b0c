"""Figure 1 of the soft-constraints paper: what rho does to the objective, on yeast.

``python -m experiments figure1`` writes ``docs/results/figure1.md``, ``.json`` and ``.svg``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.graph_data import yeast, yeast_paper
from benchmarks.graph_trace import warm_up
from benchmarks.problems import soft_agreement, soft_points

from maxmargin.solvers.climb import Climb
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

RHOS = (0.1, 1.0, 10.0, 100.0)
MANY_RHOS = tuple(float(f"{rho:.3g}") for rho in np.logspace(-1, 3, 9))
MODELS = {"paper": yeast_paper, "full tables": yeast}
UNITS = {"paper": "wrong labels", "full tables": "share of wrong labels"}  # of the loss
BUDGETS = (10, 30, 100)
PASSES = 100
# Algorithm 1 of the paper: Frank-Wolfe steps, every block once a visit, no momentum, no average.
PAPER = {"steps": "frank-wolfe", "inertia": 0.0, "rounds": 1, "average": None}
STEPS = {"Frank-Wolfe steps": PAPER, "exact steps": {**PAPER, "steps": "exact"}}
TITLE = "Figure 1: the objective for different rho (yeast)"
ABOUT = """
Meshi, Srebro and Hazan, AISTATS 2015, figure 1, on yeast (1500 examples, all pairs of 14 labels,
alpha = 0.01), for two models:

- paper: one vector per label and one weight per pair, for both labels being present; no intercept;
  the loss is the number of wrong labels; d = 14 * 103 + 91 = 1533 weights;
- full tables: the default of `MultiLabelClassifier`, two vectors per label with intercepts and four
  weights per pair; the loss is the share of wrong labels; d = 28 * 104 + 4 * 91 = 3276 weights.

rho is in units of one example throughout: the soft primal is g + (1/n) sum_m rho/2 |delta_m|^2. (As
the paper writes its equation 6, rho/2 |delta|^2 with the sum over all examples, its rho would be
that divided by n = 1500. Its figure has its best rho at 1, and so has this one in units of one
example.)

Left: the soft primal g_rho (solid, upper), the soft dual f_rho (solid, lower) and the hard primal g
at the same weights and messages (dashed) over passes of the paper's Algorithm 1
(`SoftAgreement.algorithm1`, examples in random permutations). Right: g_rho (solid) and g (dashed)
after a fixed number of passes, as a function of rho. The black line is the optimum g* of the hard
problem, from a run with multipliers. All seeds are 0.
"""


def soft_values(stepper: Climb) -> dict[str, float]:
    """Soft primal, soft dual and hard primal at the last iterate."""
    found = stepper.check()[0][1]
    weights, messages = soft_points(stepper)[0]
    hard = stepper.problem.primal(weights, messages)
    return {"soft": found.primal, "dual": found.dual, "hard": hard}


def curve(problem: Any, rho: float, checks: list[int], options: dict) -> dict[str, list]:
    """Values after some numbers of passes."""
    stepper = soft(problem, rho, **options)
    n = problem.n_examples
    found: dict[str, list] = {"passes": [], "soft": [], "dual": [], "hard": []}
    for passes in checks:
        while stepper.oracle_calls < passes * n:
            stepper.advance(1.0, passes * n - stepper.oracle_calls)
        found["passes"].append(passes)
        for name, value in soft_values(stepper).items():
            found[name].append(value)
    return {name: rounded(values) for name, values in found.items()}


def main(words: list[str] | None = None) -> None:
    """Run, write and plot."""
    chosen = arguments("figure1", __doc__, "300 examples, few passes", words)
    passes, budgets = (10, (3, 10)) if chosen.quick else (PASSES, BUDGETS)
    content: dict[str, dict] = {}
    for model, make in MODELS.items():
        content[model] = measure(make(300 if chosen.quick else None).problem, passes, budgets)
        write_json(chosen.folder / "figure1.json", content)
    plot(content, chosen.folder / "figure1.svg")
    report = "\n\n".join(table(model, found, budgets) for model, found in content.items())
    write_report(chosen.folder, "figure1", TITLE, ABOUT, report)
    print(report)


def measure(problem: Any, passes: int, budgets: tuple[int, ...]) -> dict:
    """Both panels of one model; with few passes for fewer rho."""
    quick = passes < PASSES
    rhos, many = (RHOS[1:3], MANY_RHOS[::5]) if quick else (RHOS, MANY_RHOS)
    best = run(soft_agreement(problem), tol=0.1 if quick else 1e-3, max_iter=1000)
    warm_up(lambda: soft(problem, 1.0, **PAPER))
    checks = sorted({int(p) for p in np.geomspace(1, passes, 20)})
    left = {f"{rho:g}": curve(problem, rho, checks, PAPER) for rho in rhos}
    right = {
        what: {f"{rho:g}": curve(problem, rho, list(budgets), options) for rho in many}
        for what, options in STEPS.items()
    }
    return {"optimum": rounded([best.dual, best.primal]), "passes": left, "budgets": right}


def table(model: str, content: dict, budgets: tuple[int, ...]) -> str:
    """The right panel in numbers."""
    low, high = content["optimum"]
    header = ["rho", *(f"{p} passes: g_rho / g" for p in budgets)]
    parts = [f"**{model}**: the optimum of the hard problem is between {low:.4f} and {high:.4f}."]
    for what, found in content["budgets"].items():
        rows = [
            [rho, *(f"{a:.4f} / {b:.4f}" for a, b in zip(line["soft"], line["hard"], strict=True))]
            for rho, line in found.items()
        ]
        parts.append(f"{what[0].upper() + what[1:]}:\n\n" + markdown_table(header, rows))
    return "\n\n".join(parts)


def plot(content: dict, path: Path) -> None:
    """A row per model: over passes, and over rho."""
    figure, panels = make_figure(len(content), 1 + len(STEPS), sharey="row")
    for row, (model, found) in zip(panels, content.items(), strict=True):
        plot_model(row, model, found)
    solid, dashed, level = (
        panels[0, 0].plot([], [], color="black", linestyle=style, linewidth=width)[0]
        for style, width in (("-", 1.5), ("--", 1.5), ("-", 0.8))
    )
    names = ["soft objectives g_rho and, rising, f_rho", "hard objective g", "hard optimum g*"]
    figure.legend([solid, dashed, level], names, loc="outside lower center", ncols=3, fontsize=8)
    save(figure, path)


def plot_model(panels: Any, model: str, content: dict) -> None:
    """The panels of one model."""
    best, name = content["optimum"][1], f"yeast, {model}"
    for number, (rho, line) in enumerate(content["passes"].items()):
        colour = f"C{number}"
        panels[0].plot(line["passes"], line["soft"], colour, label=f"rho = {rho}")
        panels[0].plot(line["passes"], line["dual"], colour)
        panels[0].plot(line["passes"], line["hard"], colour, linestyle="--")
    panels[0].set(title=f"{name}: Algorithm 1", xlabel="passes over the data", xscale="log")
    panels[0].set_ylabel(f"objective ({UNITS[model]})")
    for panel, (what, found) in zip(panels[1:], content["budgets"].items(), strict=True):
        rhos = [float(rho) for rho in found]
        for number, passes in enumerate(next(iter(found.values()))["passes"]):
            soft_line = [line["soft"][number] for line in found.values()]
            hard_line = [line["hard"][number] for line in found.values()]
            panel.semilogx(rhos, soft_line, f"C{number}", label=f"{passes:g} passes")
            panel.semilogx(rhos, hard_line, f"C{number}", linestyle="--")
        panel.set(title=f"{name}: {what}", xlabel="rho, in units of one example")
    for panel in panels:
        panel.axhline(best, color="black", linewidth=0.8)
        panel.set_ylim(0.5 * best, 2.0 * best)
        panel.legend(fontsize=7, loc="lower right")
