"""What commands print: tables, JSON, and files that are whole or not there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from .._validation import is_float
from ..persistence import replacing


def plain(value: Any) -> Any:
    """A value as JSON can hold it; what is not finite becomes None."""
    match value:
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case float():
            return value if np.isfinite(value) else None
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case None | bool() | int() | str():
            return value
    return str(value)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def note(message: str, quiet: bool = False) -> None:
    """A line for people, on standard error: results have standard output for themselves."""
    if not quiet:
        click.echo(message, err=True)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Aligned columns; with lines around them on a terminal."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[k], (int, float, np.number)) for row in rows)
        for k in range(len(titles))
    ]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for name, right in zip(titles, numeric, strict=True):
            table.add_column(name, justify="right" if right else "left")
        for row in cells:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    if title:
        click.echo(title)
    lines = [list(titles), *cells]
    widths = [max(len(line[k]) for line in lines) for k in range(len(titles))]
    for line in lines:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())
    click.echo()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if is_float(value):
        return f"{value:.4g}"
    return str(value)


def check_output(path: str | None, force: bool) -> None:
    """Refuse an output that exists, or a folder that cannot be written to, before any work."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        what = "is no folder" if os.path.exists(folder) else "does not exist"
        raise click.UsageError(f"cannot write {path}: {folder} {what}")
    if not os.access(folder, os.W_OK):
        raise click.UsageError(f"cannot write {path}: no permission to write to {folder}")
    if os.path.isdir(path):
        raise click.UsageError(f"cannot write {path}: it is a folder")
    if os.path.exists(path) and not force:
        raise click.UsageError(f"{path} exists already; --force replaces it")


def check_apart(output: str | None, *others: str | None) -> None:
    """Refuse to write over what the same command reads or writes, also with ``--force``."""
    for other in others:
        if output and other and os.path.realpath(output) == os.path.realpath(other):
            raise click.UsageError(f"cannot write {output}: the same command needs {other}")


def write_text(path: str | None, text: str) -> None:
    """Text to a file, whole or not at all, or to standard output."""
    if path is None:
        click.echo(text, nl=False)
        return
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
