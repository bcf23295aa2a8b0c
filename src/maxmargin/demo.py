"""A short tour: ``python -m maxmargin.demo`` trains a model of each kind on small data.

It prints one table and writes one report. All data ship with scikit-learn or are made by
:mod:`maxmargin.datasets_made`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from . import (
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    Matcher,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    TreeParser,
    datasets_made,
)
from .report import Report, Summary

GENERATOR = "maxmargin demo"
_DEFAULT_REPORT = "report.html"
_MARK_WITHIN = 4096  # characters of a file in which its generator is named
_INTRODUCTION = (
    "A model of each kind on small data, trained by the demo. Scores are on new data; each "
    "is compared with a prediction that ignores the features, and with a linear model of every "
    "part alone, its regularisation chosen by cross-validation."
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
    model = TreeParser(hash_bits=14, tol=0.05, random_state=0, verbose=1)
    return Lesson(model, made[0].X, made[0].y, made[1].X, made[1].y,
                  "150 sentences of a small grammar with their trees (made)")  # fmt: skip


# Title, lesson, and the first fit whose compiled code it needs.
TOUR: tuple[tuple[str, Callable[[], Lesson], str], ...] = (
    ("Words: read noisy digits", words, "sequence/max-margin/dense"),
    ("Ordered classes: progress of diabetes", diabetes, "ordinal/max-min/dense"),
    ("Sets of labels: topics of articles", topics, "multilabel/max-margin/dense"),
    ("Grids: find discs in noisy pictures", pictures, "grid/max-margin/dense"),
    ("Graphs: groups of people", networks, "graph/max-margin/dense"),
    ("Rankings: who likes which drink", drinks, "ranking/max-margin/dense"),
    ("Matchings: the same points in two pictures", points, "matching/max-margin/dense"),
    ("Trees: who depends on whom", sentences, "tree/max-margin/words"),
)


def _prepare() -> None:
    """Have all code compiled, in several processes, where the package may keep it."""
    from . import _build

    wanted = _build.missing(fit for *_, fit in TOUR)
    if wanted and _build.is_writable():
        print(f"The first run compiles: {', '.join(wanted)}", flush=True)
        try:
            _build.build(wanted, verbose=1)
        except _build.BuildError as error:  # what is wrong shows again in the tour
            print(error)
        print()


# --- the table ------------------------------------------------------------------------------

_HEADER = ("task", "measure", "score", "baseline", "gap", "seconds")
_TEXT_COLUMNS = {0, 1}
_WIDTH = 80  # columns of most terminals


def _row(summary: Summary) -> tuple[str, ...]:
    best = (min if summary.lower_is_better else max)(summary.baselines, key=lambda b: b.score)
    gap = "" if summary.relative_gap is None else f"{summary.relative_gap:.2%}"
    seconds = "" if summary.seconds is None else f"{summary.seconds:.1f}"
    task = summary.title.partition(":")[0]
    return (task, summary.measure, summary.text(summary.score), summary.text(best.score), gap,
            seconds)  # fmt: skip


def table(summaries: list[Summary]) -> str:
    """All outcomes in aligned columns, in at most 80 characters per line."""
    rows = [_HEADER, *map(_row, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    too_wide = sum(widths) + 2 * (len(widths) - 1) - _WIDTH
    widths[1] -= max(0, too_wide)  # of the measure, whose name may be cut
    rows = [(row[0], _cut(row[1], widths[1]), *row[2:]) for row in rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in _TEXT_COLUMNS else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _show_table(summaries: list[Summary]) -> None:
    """On a terminal by rich, if it is installed; as plain text otherwise."""
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        Console = None  # type: ignore[assignment, misc]
    if Console is None or not sys.stdout.isatty():
        print(table(summaries))
        return
    drawn = Table(header_style="bold", box=SIMPLE_HEAD)
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
    _prepare()
    document = Report("A tour of maxmargin", introduction=_INTRODUCTION, generator=GENERATOR)
    for number, (title, make, _) in enumerate(TOUR, start=1):
        print(f"{number}/{len(TOUR)} {title}", flush=True)
        lesson = make()
        with warnings.catch_warnings(action="default"):
            lesson.model.fit(lesson.X_train, lesson.y_train)
        document.add(title=title, **lesson._asdict())
    print()
    _show_table(document.summaries)
    print("\nScores are on new data; a mean absolute error should be small, everything else")
    print("large. The baseline is the better one of two: a constant prediction, and a linear")
    print("model of every part alone, its regularisation chosen by cross-validation. The gap")
    print("is the certificate: no weights have a training objective that is smaller by more")
    print("than this share of it. It is computed from a feasible dual point, not estimated.")
    if wanted is not None:
        path = document.save(free_path(wanted))
        print(f"\nThe report with curves, tables and examples: {path}")
    print(f"Done in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main(sys.argv[1:])
