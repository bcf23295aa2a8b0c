"""``maxmargin datasets``: list, fetch, path."""

from __future__ import annotations

import click

from .. import datasets
from ._options import json_option
from ._output import check_output, print_json, print_table
from ._tasks import TASKS


@click.group("datasets", short_help="Data sets by name.")
def command():
    """Data sets by name, for @NAME in other commands and maxmargin.datasets.load in Python.

    \b
      maxmargin datasets list --task multilabel
      maxmargin datasets fetch iris -o iris.csv
      maxmargin datasets path

    Those of scikit-learn are always there. Others are read from the folder MAXMARGIN_DATA, or
    fetched from OpenML into a cache folder; files with a known SHA-256 are checked.
    """


@command.command("list")
@click.option("--task", type=click.Choice(TASKS), help="Only those of a task.")
@json_option
def list_(task, as_json):
    """Names, tasks, and whether they are here."""
    rows = [
        (entry.name, entry.task, _where(entry), entry.description)
        for entry in map(datasets.entry_of, datasets.names(task))
    ]
    if as_json:
        keys = ("name", "task", "where", "description")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(("name", "task", "where", "what"), rows)


def _where(entry) -> str:
    if entry.source == "scikit-learn":
        return "scikit-learn"
    if datasets.is_available(entry):
        return "here"
    return "OpenML" if entry.openml else "MAXMARGIN_DATA"


@command.command("fetch")
@click.argument("name")
@click.option("-o", "--output", help="Also write it as a file: .csv, .npz or .conll.")
@click.option("--force", is_flag=True, help="Replace what exists.")
@json_option
def fetch(name, output, force, as_json):
    """Make sure that NAME is here, and say where."""
    check_output(output, force)
    where = datasets.fetch(name)
    if output is not None:
        from ..datasets._convert import export

        export(datasets.load(name), output)
        where = output
    if as_json:
        print_json({"name": name, "path": where})
    else:
        click.echo(where)


@command.command("path")
@json_option
def path(as_json):
    """The folders that are searched: MAXMARGIN_DATA, and the cache of what was fetched."""
    folder = datasets.data_folder()
    found = {"local": None if folder is None else str(folder), "cache": datasets.cache_folder()}
    if as_json:
        print_json(found)
    else:
        click.echo(f"local: {found['local'] or '(set MAXMARGIN_DATA)'}")
        click.echo(f"cache: {found['cache']}")
