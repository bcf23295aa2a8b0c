"""Cells kept in a CSV file, so that a run can be interrupted and taken up again."""

from __future__ import annotations

import csv
from pathlib import Path

from .protocol import Cell

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"


def read_cells(path: Path) -> list[Cell]:
    """All cells of a file; none if there is no file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return [_from_text(line) for line in csv.DictReader(lines)]


def append_cell(path: Path, cell: Cell) -> None:
    """Add one cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if new:
            writer.writerow(Cell._fields)
        writer.writerow(_to_text(value) for value in cell)


def write_cells(path: Path, cells: list[Cell]) -> None:
    """Write a file anew, its lines sorted."""
    path.unlink(missing_ok=True)
    for cell in sorted(cells, key=lambda cell: cell[:4]):
        append_cell(path, cell)


def _to_text(value) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{number:.5g}" for number in value)
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _from_text(line: dict[str, str]) -> Cell:
    return Cell(
        row=line["row"],
        features=line["features"],
        method=line["method"],
        split=int(line["split"]),
        exponent=float(line["exponent"]),
        test=float(line["test"]),
        gap=float(line["gap"]),
        seconds=float(line["seconds"]),
        validation=tuple(map(float, line["validation"].split())),
        tests=tuple(map(float, line["tests"].split())),
    )
