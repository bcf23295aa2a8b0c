"""``maxmargin reproduce NAME``: the experiments of a source checkout."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from pathlib import Path

import click

from .._optional import require


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


def _title(found, name: str) -> str:
    """First line of the docstring of an experiment, which is not imported for it."""
    path = Path(found.__file__).with_name(f"{name}.py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


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
        width = max(map(len, found.NAMES))
        for each in found.NAMES:
            click.echo(f"{each:{width}}  {_title(found, each)}")
        return
    if name not in found.NAMES:
        raise click.UsageError(
            f"there is no experiment {name!r}; there are {', '.join(found.NAMES)}"
        )
    for module, extra in found.NEEDS.get(name, ()):
        require(module, extra, f"The experiment {name}")
    # Libraries read this when they are imported, as the experiments' own command line expects.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found.main([name, *rest, *(["--quick"] if quick else [])])
