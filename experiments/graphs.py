"""What the experiments on factor graphs share: hard values of any solver, reports, plots.

The paper is Meshi, Srebro, Hazan, "Efficient training of structured SVMs via soft constraints",
AISTATS 2015. rho is in units of one example: the penalty is ``(1/n) sum_m rho/2 |delta_m|^2``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.graph_trace import Point, trace, warm_up
from benchmarks.problems import soft_agreement, soft_points
from benchmarks.report import described, machine

from maxmargin.graphs.soft import SoftAgreement
from maxmargin.solvers.climb import Climb

from .store import RESULTS


def rng() -> np.random.RandomState:
    """The seed of all runs."""
    return np.random.RandomState(0)


def arguments(name: str, text: str | None, quick: str, words: list[str] | None):
    """Options that all experiments have."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments {name}", description=text)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    if name in ("figure2", "figure3", "extensions", "noise"):
        parser.add_argument("--data", nargs="+", help="only these data sets; the others are kept")
    if name == "extensions":
        parser.add_argument("--curves", nargs="+", help="only these; the others are kept")
    if name == "figure2":
        parser.add_argument("--again", action="store_true", help="forget the curves there are")
    chosen = parser.parse_args(words)
    if chosen.quick and chosen.folder == RESULTS:
        chosen.folder = RESULTS / "quick"
    chosen.folder.mkdir(parents=True, exist_ok=True)
    return chosen


def soft(problem: Any, rho: float, **options: Any) -> Climb:
    """The soft problem; rho in units of one example."""
    return soft_agreement(problem, agreement="soft", rho=rho, certify=False, **options)


def hard_point(stepper: Any) -> tuple[np.ndarray, float, float]:
    """Best weights, the hard primal there, and a lower bound if the stepper has one."""
    inner = getattr(getattr(stepper, "solver", None), "solver", None)
    if isinstance(inner, SoftAgreement) and inner.agreement == "soft":
        problem = stepper.problem
        points = [(w, problem.primal(w, messages)) for w, messages in soft_points(stepper)]
        return *min(points, key=lambda point: point[1]), -np.inf
    weights, found = min(stepper.check(), key=lambda candidate: candidate[1].primal)
    return weights, found.primal, found.dual


def hard_trace(make: Callable[[], Any], seconds: float, **options: Any) -> list[Point]:
    """Values of the hard problem over CPU time, compilation left out."""
    warm_up(make)
    return trace(make(), seconds=seconds, values=hard_point, **options)


def rounded(values: Any, digits: int = 6) -> list[float | None]:
    """Numbers for JSON; none for what is not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values]


def columns(points: list[Point]) -> dict[str, list[float | None]]:
    """A trace as lists."""
    return {
        name: rounded([getattr(point, name) for point in points])
        for name in ("seconds", "passes", "primal", "dual", "score")
    }


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read_json(path: Path) -> dict[str, Any]:
    """Content of a file; empty if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Data of a figure, and the machine that made it."""
    text = json.dumps({"machine": machine(), **content}, indent=None, separators=(",", ":"))
    path.write_text(text.replace("},", "},\n") + "\n", encoding="utf-8")


def write_report(
    folder: Path, name: str, title: str, about: str, table: str, figure: bool = True,
    package: str = "-m experiments ",
) -> None:  # fmt: skip
    """Put the table into ``<name>.md`` between its marks; other text there is kept."""
    path = folder / f"{name}.md"
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    picture = f"![{title}]({name}.svg)\n\n" if figure else ""
    block = (
        f"{begin}\n    OMP_NUM_THREADS=1 python {package}{name}\n\n"
        f"{described()}; one thread, CPU seconds.\n\n{picture}{table}\n\n"
        f"Raw numbers: [{name}.json]({name}.json).\n{end}"
    )
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if begin in text and end in text:
        before, after = text.partition(begin)[0], text.partition(end)[2]
        path.write_text(before + block + after, encoding="utf-8")
    else:
        path.write_text(f"# {title}\n\n{about.strip()}\n\n{block}\n", encoding="utf-8")


def make_figure(rows: int, columns: int, **options: Any):
    """Panels, as a two-dimensional array."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "maxmargin", "svg.fonttype": "none"})
    size = (4.3 * columns, 3.3 * rows + 0.3)
    return pyplot.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", **options
    )


def save(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same data."""
    from matplotlib import pyplot

    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
