"""Table 1 of the paper: average test losses of M3N, CRF and M4N with a Gaussian kernel.

``python -m experiments table1`` fills ``docs/results/table1.csv`` cell by cell (what is there
already is not computed again) and writes the tables of ``docs/results/table1.md``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import protocol
from .rows import BY_NAME, OTHER_BINS, ROWS, WITH_QUADRATIC, Row
from .store import RESULTS, append_cell, read_cells
from .summary import write_tables

QUICK = ("iris", "machine")
MANY_SPLITS, FEW_SPLITS = 14, 3


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments table1", description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=list(BY_NAME), help="default: all 18")
    parser.add_argument(
        "--methods", nargs="+", choices=list(WITH_QUADRATIC), default=list(WITH_QUADRATIC)
    )
    parser.add_argument(
        "--features",
        choices=protocol.FEATURES,
        default="gaussian",
        help="the Gaussian kernel (exact up to 2500 examples); the same with lambda down to 2^-16; "
        "the authors' 200 columns of it; or these with the strengths, passes and steps of the "
        "authors' scripts; or with features of the training part and the last iterate, or with the "
        "library's own solver; or the scripts with one thing changed (redrawn: columns drawn anew "
        "for each split; longer: nine strengths for rankings; mirror-prox: the paper's oracle)",
    )
    parser.add_argument("--splits", type=int, help="default: 14, or 3 for large sets")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no cell after that")
    parser.add_argument("--quick", action="store_true", help="two small sets, two splits")
    parser.add_argument("--report", action="store_true", help="only write the tables")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Compute the cells that are missing and write the report."""
    chosen = arguments(words)
    if chosen.quick:
        chosen.rows, chosen.splits = chosen.rows or list(QUICK), chosen.splits or 2
        if chosen.folder == RESULTS:
            chosen.folder = RESULTS / "quick"
    path = chosen.folder / "table1.csv"
    if not chosen.report:
        deadline = time.monotonic() + 60.0 * chosen.minutes
        names = chosen.rows or [row.name for row in ROWS]
        for name in names:
            fill_row(BY_NAME[name], chosen, path, deadline)
    print(write_tables(read_cells(path), chosen.folder / "table1.md", ROWS, OTHER_BINS))


def fill_row(row: Row, chosen: argparse.Namespace, path: Path, deadline: float) -> None:
    """Compute the missing cells of a row, all methods of a split after another."""
    examples = row.load()
    n = len(examples.y)
    features = chosen.features
    if features == "gaussian":
        features = protocol.default_features(row, n)
    splits = chosen.splits or (MANY_SPLITS if n <= protocol.EXACT_UP_TO else FEW_SPLITS)
    known = {cell[:4] for cell in read_cells(path)}
    for split in range(splits):
        data = None
        for method in chosen.methods:
            key = (row.name, features, method, split)
            if not row.has(method) or key in known or time.monotonic() > deadline:
                continue
            if method == "QS" and features == "exact":  # it needs explicit features
                continue
            if data is None:
                data = protocol.make_split(row, examples, split, features)
            cell = protocol.run_cell(row, features, method, split, data)
            append_cell(path, cell)
            print(
                f"{row.name} | {features} | {method} | split {split} | lambda 2^-{cell.exponent:g} "
                f"| test {cell.test:.4f} | gap {cell.gap:.1e} | {cell.seconds:.1f} s",
                flush=True,
            )
