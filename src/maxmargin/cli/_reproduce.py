"""``maxmargin reproduce NAME``: the experiments of a source checkout."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click


def _experiments():
    """The package of experiments: of the sources that this package runs from, or of the folder."""
    for folder in (Path(__file__).resolve().parents[3], Path.cwd()):
        main = folder / "experiments" / "__main__.py"
        if main.is_file() and "NAMES" in main.read_text(encoding="utf-8"):
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return importlib.import_module("experiments.__main__")
    raise click.UsageError(
        "experiments are part of the source checkout, not of the installed package; run this "
        "command in a folder with the sources of maxmargin"
    )


@click.command("reproduce", short_help="Run an experiment of a paper by its name.",
               context_settings={"ignore_unknown_options": True})  # fmt: skip
@click.argument("name", required=False)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--quick", is_flag=True, help="A small part of it, to see that it runs.")
def command(name, rest, quick):
    """Run the experiment NAME; without a name, list them. Further options go to the experiment.

    \b
      maxmargin reproduce
      maxmargin reproduce table1 --quick
    """
    found = _experiments()
    if name is None:
        for each in found.NAMES:
            click.echo(each)
        return
    if name not in found.NAMES:
        raise click.UsageError(
            f"there is no experiment {name!r}; there are {', '.join(found.NAMES)}"
        )
    # Libraries read this when they are imported, as the experiments' own command line expects.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found.main([name, *rest, *(["--quick"] if quick else [])])
