"""``maxmargin demo``."""

from __future__ import annotations

import inspect

import click


@click.command("demo", short_help="A tour: every kind of model, one table.")
@click.option("--report", default=None, metavar="FILE.html",
              help="Where the tour writes its report.")  # fmt: skip
def command(report):
    """Train every kind of model on small data, and print one table.

    \b
      maxmargin demo
      maxmargin demo --report tour.html
    """
    from .. import demo

    known = inspect.signature(demo.main).parameters
    if report is not None and "report" not in known:
        raise click.UsageError("this version of the tour writes no report")
    demo.main(**({} if report is None else {"report": report}))
