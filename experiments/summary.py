"""The tables of ``table1.md``: our mean and standard error beside the paper's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from .protocol import LONGER, MIRROR, REDRAWN, Cell
from .rows import METHODS, WITH_QUADRATIC, Row

KERNEL = ("exact", "nystroem")
PUBLISHED = ("scripts",)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error; the error is not a number for a single value."""
    if len(values) < 2:
        return mean(values), math.nan
    return mean(values), stdev(values) / math.sqrt(len(values))


def table(cells: list[Cell], rows: Sequence[Row], kinds: Sequence[str]) -> str:
    """A Markdown table of the rows that have cells with features of these kinds."""
    if kinds == PUBLISHED:
        return published_table(cells, rows)
    heads = ["data", "kernel", "splits", *WITH_QUADRATIC, "M4N − M3N"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row, kind in product(rows, kinds):
        own = [cell for cell in cells if (cell.row, cell.features) == (row.name, kind)]
        if not own:
            continue
        counts = [sum(cell.method == method for cell in own) for method in WITH_QUADRATIC]
        present = sorted({count for count in counts if count})
        found = [_entry(row, method, own) for method in WITH_QUADRATIC]
        head = [row.name, kind, " / ".join(map(str, present))]
        lines.append("| " + " | ".join([*head, *found, _difference(row, own)]) + " |")
    return "\n".join(lines)


def published_table(cells: list[Cell], rows: Sequence[Row]) -> str:
    """The scripts' runs: lambda by validation, and the one of the least mean test loss."""
    heads = ["data", "splits", *METHODS, "M4N − M3N", "one λ: " + ", ".join(METHODS)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        own = [cell for cell in cells if cell.row == row.name and cell.features in PUBLISHED]
        if not own:
            continue
        methods = [method for method in METHODS if any(cell.method == method for cell in own)]
        counts = {sum(cell.method == method for cell in own) for method in methods}
        line = [row.name, " / ".join(map(str, sorted(counts)))]
        line += [_entry(row, method, own) for method in METHODS]
        least = " / ".join(_least(row, method, own) for method in methods)
        lines.append("| " + " | ".join([*line, _difference(row, own), least]) + " |")
    return "\n".join(lines)


def _least(row: Row, method: str, cells: list[Cell]) -> str:
    """The least mean test loss of a lambda for all splits; a star as in :func:`_entry`."""
    every = [cell.tests for cell in cells if cell.method == method]
    columns = min(zip(*every, strict=True), key=mean)
    return _entry(row, method, [cells[0]._replace(method=method, test=t) for t in columns])


def _entry(row: Row, method: str, cells: list[Cell]) -> str:
    """Ours +- standard error (the paper's); a star where they differ by more than two errors."""
    printed = row.paper(method)
    values = [cell.test for cell in cells if cell.method == method]
    if not values:
        return "–" if printed is None else f"not run ({printed:g})"
    factor, digits, unit = (100.0, 2, "%") if row.in_percent else (1.0, 3, "")
    centre, error = (factor * number for number in mean_and_error(values))
    spread = "" if math.isnan(error) else f" ± {error:.{digits}f}"
    if printed is None:
        return f"{centre:.{digits}f}{spread}{unit}"
    differs = not math.isnan(error) and abs(centre - printed) > 2.0 * error
    return f"{centre:.{digits}f}{spread}{unit} ({printed:g}){' *' if differs else ''}"


def _difference(row: Row, cells: list[Cell]) -> str:
    """M4N less M3N on the splits that both have seen, with the error of that difference."""
    losses = {(cell.method, cell.split): cell.test for cell in cells}
    both = [split for method, split in losses if method == "M3N" and ("M4N", split) in losses]
    if len(both) < 2:
        return ""
    factor, digits = (100.0, 2) if row.in_percent else (1.0, 3)
    pairs = [factor * (losses["M4N", split] - losses["M3N", split]) for split in both]
    centre, error = mean_and_error(pairs)
    return f"{centre:+.{digits}f} ± {error:.{digits}f}"


def write_tables(
    cells: list[Cell], path: Path, rows: Sequence[Row], variants: Sequence[Row]
) -> str:
    """Put the tables into the report; returns them."""
    every = tuple(rows) + tuple(variants)
    kinds = {
        "kernel": KERNEL,
        "wide": ("wide",),
        "columns": ("columns",),
        "authors": ("authors",),
        "scripts": PUBLISHED,
        "solved": ("solved",),
        "changed": (REDRAWN, LONGER, MIRROR),
    }
    blocks = {name: table(cells, every, kind) for name, kind in kinds.items()}
    for name, block in blocks.items():
        write_block(path, name, block)
    return "\n\n".join(blocks.values())


def write_block(path: Path, name: str, block: str) -> None:
    """Replace what is between the markers of a name in a Markdown file; without any, append."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, found, rest = text.partition(begin)
    if not found:
        before, rest = text, end + "\n"
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{path} has {begin} but no {end} after it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n{block}\n{end}{after}", encoding="utf-8")
