"""Options that several commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from typing import Any

import click

from .._progress import ReadingReporter
from ..files import FORMATS, MAX_SIZE, Examples, read

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class Size(click.ParamType):
    """A number of bytes: ``500MB``, ``2GB``, ``1000000``."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", str(value).strip().lower())
        if not found:
            self.fail(f"{value!r} is no size such as 500MB or 2GB", param, ctx)
        return int(float(found.group(1)) * _SIZES[found.group(2)])


class Names(click.ParamType):
    """Names separated by commas."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


class TaskName(click.Choice):
    """The name of a task; data in its place are recognised."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value not in self.choices and (os.path.exists(value) or value.startswith("@")):
            self.fail(
                f"{value!r} is data; the task comes first: maxmargin train TASK {value} -o MODEL, "
                f"with TASK one of {', '.join(self.choices)}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def reading_options(command: Callable) -> Callable:
    """How data files are read."""
    for option in (
        click.option("--max-size", type=Size(), default=MAX_SIZE, show_default="1GB",
                     help="Refuse larger files: data must fit in memory."),
        click.option("--encoding", default="utf-8", show_default=True, help="Of text files."),
        click.option("--header", type=click.Choice(["auto", "yes", "no"]), default="auto",
                     help="Whether the first line of a CSV file names the columns."),
        click.option("--part", type=click.Choice(["all", "train", "test"]), default="all",
                     help="Part of an npz file by its key is_train, or of a data set."),
        click.option("--format", "format_", type=click.Choice(FORMATS),
                     help="Format of DATA; by default by the suffix of its name."),
    ):  # fmt: skip
        command = option(command)
    return command


def json_option(command: Callable) -> Callable:
    """Output for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def read_data(
    data: str, task: str, *, format_: str | None, header: str, encoding: str, part: str,
    max_size: int, texts: Collection[str] = (), verbose: int = 0,
) -> Examples:  # fmt: skip
    """Examples of a file, or of a data set if the name starts with ``@``.

    ``texts`` are columns of a table that are no numbers even if they look so; with ``verbose``, the
    reading of a large file is shown.
    """
    if data.startswith("@"):
        from ..datasets import load

        return load(data[1:]).examples(task, part)
    with ReadingReporter(verbose, f"reading {os.path.basename(data)}") as reporter:
        return read(
            data, task, format=format_, header=header, encoding=encoding, part=part,
            max_size=max_size, texts=texts, progress=reporter.update,
        )  # fmt: skip
