"""``maxmargin datasets``: list, show, fetch, path."""

from __future__ import annotations

import click

from .. import datasets
from ..files._source import format_size
from ._options import json_option
from ._output import check_output, note, print_json, print_table
from ._tasks import TASKS


@click.group("datasets", short_help="Data sets by name.")
def command():
    """Data sets by name, for @NAME in other commands and maxmargin.datasets.load in Python.

    \b
      maxmargin datasets list --task multilabel
      maxmargin datasets show yeast
      maxmargin datasets fetch iris -o iris.csv
      maxmargin datasets path

    Those of scikit-learn are always there. Others are read from the folder MAXMARGIN_DATA, or
    fetched from OpenML into a cache folder; files with a known SHA-256 are checked.
    """


@command.command("list")
@click.option("--task", type=click.Choice(TASKS), help="Only those of a task.")
@json_option
def list_(task, as_json):
    """Names, tasks, whether they are here, sizes and licences."""
    entries = [datasets.entry_of(name) for name in datasets.names(task)]
    if as_json:
        print_json([_about(entry) for entry in entries])
        return
    rows = [
        (e.name, e.task, _where(e), format_size(e.n_bytes), e.licence, e.description)
        for e in entries
    ]
    print_table(("name", "task", "where", "size", "licence", "what"), rows)
    note("maxmargin datasets show NAME: its origin, and how to get it")


@command.command("show")
@click.argument("name")
@json_option
def show(name, as_json):
    """What NAME is: source, licence, size, and how to get it."""
    about = _about(datasets.entry_of(name))
    if as_json:
        print_json(about)
        return
    for key, value in about.items():
        if value is not None:
            click.echo(f"{key:12} {value}")


def _about(entry) -> dict:
    return {
        "name": entry.name,
        "task": entry.task,
        "where": _where(entry),
        "description": entry.description,
        "origin": entry.origin,
        "licence": entry.licence,
        "bytes": entry.n_bytes,
        "how": entry.how,
    }


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
