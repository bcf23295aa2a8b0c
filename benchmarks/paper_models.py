"""The label-set models of the soft-constraints paper: CPU seconds to within 1 % of the optimum.

``python -m benchmarks.paper_models`` writes ``docs/results/paper_models.md`` (one thread; only the
steps count, checks and compilation do not). For each data set and strength a long run of the
default solver brackets the optimum; the goal is 1.01 times the lower bound.

- ours: the default solver, accelerated steps towards half-integral vertices (`VertexFrankWolfe`);
- soft agreement with multipliers (`solver="soft"`), the default where pairs have full tables;
- roof duality: block-coordinate Frank-Wolfe with an exact oracle, one maximum flow per visit;
- cold LP: the same with one linear program from scratch per visit. Its time is computed: the passes
  with roof duality (both oracles are exact) times the mean time of some calls, measured.

The objective is g(w) at the best messages for all, by the exact oracle. Seed 0 everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.baselines.lp_bcfw import LPBlockFrankWolfe
from experiments.baselines.lp_oracles import make_oracle
from experiments.graphs import markdown_table, read_json, write_json, write_report
from experiments.store import RESULTS

from maxmargin.solvers.auto import make_solver
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.loop import run

from .graph_data import rcv1_paper, yeast_paper
from .graph_trace import hard_values, trace, warm_up
from .graphs import call_seconds
from .problems import soft_points

STRENGTHS = (0.01, 0.001)
TITLE = "The paper's label-set models: time to 1 % of the optimum"


def started(problem: Any, solver: str = "auto") -> Climb:
    """A solver by its name, at its start."""
    return Climb(make_solver(solver, problem), problem, rng=np.random.RandomState(0))


def exact_values(stepper: Any, oracle: Any) -> tuple[np.ndarray, float, float]:
    """The best weights of soft agreement by their exact objective."""
    points = [weights for weights, _ in soft_points(stepper)]
    values = [oracle.primal(weights) for weights in points]
    best = int(np.argmin(values))
    return points[best], values[best], -np.inf


def compare(make: Callable[..., Any], alpha: float, cap: float, passes: int, calls: int) -> dict:
    """One data set and strength."""
    problem = make(alpha=alpha).problem
    oracle = make_oracle(problem)
    for solver in ("auto", "soft"):
        warm_up(lambda solver=solver: started(problem, solver))
    best = run(started(problem), tol=2e-3, max_iter=passes)
    goal = 1.01 * best.dual

    def ours(solver: str, values: Any) -> dict:
        stepper = started(problem, solver)
        last = trace(stepper, seconds=cap, goal=goal, growth=1.05, values=values)[-1]
        return {"seconds": last.seconds, "passes": last.passes, "primal": last.primal}

    found = {
        "optimum": [best.dual, best.primal], "weights": problem.n_weights,
        "ours": ours("auto", hard_values),
        "soft": ours("soft", lambda stepper: exact_values(stepper, oracle)),
    }  # fmt: skip

    def roof() -> Any:
        return LPBlockFrankWolfe(problem, oracle="roof-duality", rng=np.random.RandomState(0))

    if problem.n_examples <= 2000:
        warm_up(roof)
    peer = roof()
    peer.advance(0.0, 1)
    first = peer.weights.copy()
    last = trace(peer, seconds=cap, goal=goal, growth=1.05)[-1]
    found["roof"] = {"seconds": last.seconds, "passes": last.passes, "primal": last.primal}
    cold = call_seconds(problem, [first, peer.weights], "highs-cold", calls)
    found["cold"] = {"seconds": cold * last.passes * problem.n_examples, "call": cold}
    return found


def main(words: list[str] | None = None) -> None:
    """Run and write, anew after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="300 examples of yeast")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--data", nargs="+", choices=("yeast", "rcv1"), default=("yeast", "rcv1"))
    chosen = parser.parse_args(words)
    folder = RESULTS / "quick" if chosen.quick and chosen.folder == RESULTS else chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "paper_models.json"
    content = read_json(path)
    content.pop("machine", None)
    for name in chosen.data:
        for alpha in STRENGTHS:
            if name == "yeast":
                size = 300 if chosen.quick else None

                def make(alpha: float, size: int | None = size) -> Any:
                    return yeast_paper(size, alpha)

                settings = (5.0, 100, 10) if chosen.quick else (60.0, 400, 40)
            else:
                make, settings = rcv1_paper, (60.0, 80, 10)
            content[f"{name}, alpha = {alpha:g}"] = found = compare(make, alpha, *settings)
            print(name, alpha, found, flush=True)
            write_json(path, content)
            write_report(
                folder, "paper_models", TITLE, __doc__ or "", table(content), figure=False,
                package="-m benchmarks.",
            )  # fmt: skip


def _time(side: dict, goal: float) -> str:
    reached = side["primal"] <= goal
    return f"{'' if reached else '> '}{side['seconds']:.2f} s ({side['passes']:.3g} passes)"


def table(content: dict) -> str:
    """A row per data set and strength."""
    header = ["model (weights)", "g*", "ours", "soft agreement", "roof duality", "cold LP",
              "roof / ours", "cold / ours"]  # fmt: skip
    rows = []
    for name, found in content.items():
        goal = 1.01 * found["optimum"][0]
        mine, roof, cold = (found[side]["seconds"] for side in ("ours", "roof", "cold"))
        rows.append([
            f"{name} ({found['weights']})",
            f"{found['optimum'][0]:.4f} to {found['optimum'][1]:.4f}",
            _time(found["ours"], goal), _time(found["soft"], goal), _time(found["roof"], goal),
            f"{cold:.0f} s", f"{roof / mine:.2g}", f"{cold / mine:.3g}",
        ])  # fmt: skip
    return markdown_table(header, rows)


if __name__ == "__main__":
    main()
