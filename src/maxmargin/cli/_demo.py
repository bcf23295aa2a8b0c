"""``maxmargin demo``."""

from __future__ import annotations

import click


@click.command(
    "demo",
    short_help="A tour: every kind of model, one table.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def command(rest):
    """Train every kind of model on small data, print one table and write a report.

    \b
      maxmargin demo
      maxmargin demo --report tour.html
    """
    from .. import demo

    demo.main(list(rest))
