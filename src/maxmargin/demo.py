"""A short tour: ``python -m maxmargin.demo`` trains a model of each kind on small data.

It prints one table and writes one report. All data ship with scikit-learn or are made by
:mod:`maxmargin.datasets_made`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import maxmargin

from . import (
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    Matcher,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    datasets_made,
)
from ._kernels.jit import cache_folder
from .report import Report, Summary

GENERATOR = "maxmargin demo"
_DEFAULT_REPORT = "report.html"
_MARK_WITHIN = 4096  # characters of a file in which its generator is named
_INTRODUCTION = (
    "A model of each kind on small data, trained by the demo. Scores are on new data; each "
    "is compared with a prediction that ignores the features, and with one that looks at every "
    "part alone."
)


class Lesson(NamedTuple):
    """A model that is not trained yet, and its data."""

    model: Any
    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any
    data_name: str
    image_shape: tuple[int, int] | None = None


def words() -> Lesson:
    """Words of noisy digits with a hidden grammar."""
    train, test = (datasets_made.make_words(part=part, random_state=seed)
                   for seed, part in enumerate(("train", "test")))  # fmt: skip
    model = SequenceLabeler(random_state=0, verbose=1)
    name = "300 words of scikit-learn's digits with noise; three digits may follow each digit"
    return Lesson(model, train.X, train.y, test.X, test.y, name, (8, 8))


def _halves(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    return X_train, y_train, X_test, y_test


def wines() -> Lesson:
    """Three kinds of wine."""
    data = load_wine(as_frame=False)
    y = np.array([f"wine {k + 1}" for k in data.target])
    model = MulticlassClassifier("max-min", random_state=0, verbose=1)
    return Lesson(model, *_halves(StandardScaler().fit_transform(data.data), y),
                  "chemical analyses of 178 wines (scikit-learn)")  # fmt: skip


def diabetes() -> Lesson:
    """Progress of diabetes in five ordered steps."""
    X, target = load_diabetes(return_X_y=True)
    y = np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8])) + 1
    model = OrdinalClassifier(random_state=0, verbose=1)
    return Lesson(model, *_halves(StandardScaler().fit_transform(X), y),
                  "progress of diabetes of 442 patients in five steps (scikit-learn)")  # fmt: skip


def topics() -> Lesson:
    """Articles with several topics."""
    made = [datasets_made.make_label_sets(300, random_state=seed) for seed in (0, 1)]
    model = MultiLabelClassifier(tol=0.05, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "articles with nine topics, some of which exclude each other (made)")  # fmt: skip


def pictures() -> Lesson:
    """Discs in noisy pictures."""
    made = [datasets_made.make_pictures(20, random_state=seed) for seed in (0, 1)]
    model = GridLabeler(pairwise="potts", tol=0.05, max_iter=300, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "20 pictures of 16 x 16 cells with much noise (made)")  # fmt: skip


def networks() -> Lesson:
    """Groups of people in networks."""
    made = [datasets_made.make_networks(40, random_state=seed) for seed in (0, 1)]
    model = GraphLabeler(pairwise="potts", tol=0.05, max_iter=300, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "40 networks of people who mostly know their own group (made)")  # fmt: skip


def drinks() -> Lesson:
    """Rankings of drinks."""
    made = [datasets_made.make_rankings(200, random_state=seed) for seed in (0, 1)]
    model = LabelRanker(items=made[0].names, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "200 people who rank five drinks (made)")  # fmt: skip


def points() -> Lesson:
    """Points of two pictures that belong together."""
    made = [datasets_made.make_matchings(60, random_state=seed) for seed in (0, 1)]
    model = Matcher(random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "60 pairs of pictures of the same points (made)")  # fmt: skip


def sentences() -> Lesson:
    """Dependency trees of sentences."""
    made = [datasets_made.make_sentences(n, random_state=seed) for seed, n in ((0, 150), (1, 100))]
    model = maxmargin.TreeParser(hash_bits=14, tol=0.05, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "150 sentences of a small grammar with their trees (made)")  # fmt: skip


TOUR: tuple[tuple[str, Callable[[], Lesson]], ...] = (
    ("Words: read noisy digits", words),
    ("Classes: tell wines apart", wines),
    ("Ordered classes: progress of diabetes", diabetes),
    ("Sets of labels: topics of articles", topics),
    ("Grids: find discs in noisy pictures", pictures),
    ("Graphs: groups of people", networks),
    ("Rankings: who likes which drink", drinks),
    ("Matchings: the same points in two pictures", points),
    *([("Trees: who depends on whom", sentences)] if "TreeParser" in maxmargin.__all__ else []),
)


# --- compilation ----------------------------------------------------------------------------

# Numbers of lessons; what takes longest comes first, what has most in common stays together.
_COMPILED_TOGETHER = ((3, 4, 5), (8,), (0,), (6, 7), (1, 2))
_MOST_PROCESSES = 4


def rehearse(*numbers: int) -> None:
    """Go through some lessons and keep nothing but the compiled code."""
    for title, make in (TOUR[number] for number in numbers):
        lesson = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lesson.model.set_params(verbose=0).fit(lesson.X_train, lesson.y_train)
            Report(title).add(title=title, **lesson._asdict())


def _compile_together() -> None:
    """On the first run, compile for several lessons at a time, in processes of their own."""
    workers = min(os.cpu_count() or 1, _MOST_PROCESSES)
    folder = cache_folder()
    if workers < 2 or folder is None or any(folder.rglob("*.nbc")):
        return
    print(f"The first run compiles, in {workers} processes:", flush=True)

    def compile_some(numbers: tuple[int, ...]) -> None:
        code = f"from maxmargin import demo; demo.rehearse(*{numbers})"
        # What goes wrong here goes wrong again in the tour, where it is shown.
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    with ThreadPoolExecutor(workers) as pool:
        began = time.perf_counter()
        waiting = {pool.submit(compile_some, numbers): numbers for numbers in _COMPILED_TOGETHER}
        try:
            for future in as_completed(waiting):
                titles = "; ".join(TOUR[k][0].partition(":")[0] for k in waiting[future])
                print(f"  {time.perf_counter() - began:4.0f} s  {titles}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)  # what has not begun does not begin
            raise
    print()


# --- the table ------------------------------------------------------------------------------

_HEADER = ("task", "measure", "score", "baseline", "", "gap", "seconds")
_TEXT_COLUMNS = {0, 1, 4}


def _row(summary: Summary) -> tuple[str, ...]:
    best = (min if summary.lower_is_better else max)(summary.baselines, key=lambda b: b.score)
    gap = "" if summary.relative_gap is None else f"{summary.relative_gap:.2%}"
    seconds = "" if summary.seconds is None else f"{summary.seconds:.1f}"
    return (summary.title, summary.measure, summary.text(summary.score), summary.text(best.score),
            f"({best.name})", gap, seconds)  # fmt: skip


def table(summaries: list[Summary]) -> str:
    """All outcomes in aligned columns."""
    rows = [_HEADER, *map(_row, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in _TEXT_COLUMNS else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _show_table(summaries: list[Summary]) -> None:
    """On a terminal by rich, if it is installed; as plain text otherwise."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        Console = None  # type: ignore[assignment, misc]
    if Console is None or not sys.stdout.isatty():
        print(table(summaries))
        return
    drawn = Table(header_style="bold")
    for place, name in enumerate(_HEADER):
        drawn.add_column(name, justify="left" if place in _TEXT_COLUMNS else "right")
    for summary in summaries:
        drawn.add_row(*_row(summary))
    Console().print(drawn)


# --- the report -----------------------------------------------------------------------------


def free_path(wanted: Path) -> Path:
    """The wanted path, or one beside it if a file of somebody else is there."""
    path, number = wanted, 1
    while path.exists() and not _is_ours(path):
        number += 1
        path = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
    return path


def _is_ours(path: Path) -> bool:
    """Whether a file was written by the demo."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return f'content="{GENERATOR}"' in file.read(_MARK_WITHIN)
    except OSError:
        return False


def _parse(arguments: list[str]) -> Path | None:
    parser = argparse.ArgumentParser(prog="maxmargin demo", description=__doc__)
    parser.add_argument(
        "--report", metavar="PATH", type=Path, default=Path(_DEFAULT_REPORT),
        help="where to write the report (default: %(default)s); a file that the demo did not "
        "write is not replaced, another name is taken",
    )  # fmt: skip
    parser.add_argument("--no-report", action="store_true", help="print the table only")
    options = parser.parse_args(arguments)
    if options.no_report:
        return None
    folder = options.report.resolve().parent
    if not folder.is_dir():
        parser.error(f"--report: there is no folder {folder}; make it, or name another path")
    if options.report.is_dir():
        parser.error(f"--report: {options.report} is a folder; name a file in it")
    return options.report


def main(
    arguments: list[str] | None = None, *, report: str | os.PathLike[str] | None = None
) -> None:
    """Run the tour, print the table, write the report.

    Parameters
    ----------
    arguments : list of str, optional
        As on a command line: ``["--report", "tour.html"]``; by default none.
    report : path, optional
        Short for ``["--report", path]``.
    """
    given = [] if arguments is None else list(arguments)
    wanted = _parse(given if report is None else [*given, "--report", os.fspath(report)])
    began = time.perf_counter()
    print("A tour of maxmargin.\n", flush=True)
    _compile_together()
    document = Report("A tour of maxmargin", introduction=_INTRODUCTION, generator=GENERATOR)
    for number, (title, make) in enumerate(TOUR, start=1):
        print(f"{number}/{len(TOUR)} {title}", flush=True)
        lesson = make()
        with warnings.catch_warnings(action="default"):
            lesson.model.fit(lesson.X_train, lesson.y_train)
        document.add(title=title, **lesson._asdict())
    print()
    _show_table(document.summaries)
    print("\nScores are on new data; a distance should be small, everything else large. The")
    print("baseline is the better one of two: a constant, and a linear SVM on every part alone.")
    print("Gap: the certificate. No weights at all have a training objective smaller than ours by")
    print("more than this share of it; computed from a feasible dual point, not estimated.")
    if wanted is not None:
        path = document.save(free_path(wanted))
        print(f"\nThe report with curves, tables and examples: {path}")
    print(f"Done in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main(sys.argv[1:])
