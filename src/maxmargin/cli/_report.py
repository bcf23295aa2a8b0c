"""``maxmargin report MODEL DATA``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ..files import FileError
from ..files.prepare import follow, texts_wanted
from ._fit import fingerprint_of
from ._model_file import ModelFile, read_model_file
from ._options import read_data, reading_options
from ._output import check_apart, check_output, note

_HELP = """Write an HTML report on MODEL and its predictions of the labelled examples of DATA.

\b
  maxmargin report flowers.mm test.csv
  maxmargin report flowers.mm test.csv -o flowers.html

The report is one file that needs no network: scores with confidence intervals, the certificate,
convergence, tables, and predictions drawn. With --train, scores are compared with those of simpler
models.
"""


@click.command("report", help=_HELP, short_help="An HTML report on a model and a file.")
@click.argument("model_path", metavar="MODEL")
@click.argument("data")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE.html",
              help="Where to write.")  # fmt: skip
@click.option(
    "--train",
    "train_path",
    metavar="FILE",
    help="The training data, to compare with simpler models trained on them.",
)
@click.option("--force", is_flag=True, help="Replace what exists.")
@reading_options
def command(model_path, data, output, train_path, force, **reading):
    """Read, predict, draw."""
    check_output(output, force)
    check_apart(output, data, model_path, train_path)
    opened = read_model_file(model_path, data)
    X, y = _labelled(opened, data, reading)
    X_train, y_train = (
        (None, None) if train_path is None else _labelled(opened, train_path, reading)
    )
    if opened.data.get("sha256") == fingerprint_of([], [data]):
        note("warning: the model was trained on this file; scores on new data will be lower")
    from ..report import write_report

    name = os.path.basename(data)
    write_report(
        output, opened.model, task=opened.task, X_train=X_train, y_train=y_train, X_test=X,
        y_test=y, data_name=name,
    )  # fmt: skip
    note(f"wrote {output}")


def _labelled(opened: ModelFile, path: str, reading: dict[str, Any]) -> tuple[Any, Any]:
    """Features and labels of a file."""
    texts = texts_wanted(opened.recipe)
    verbose = int(sys.stderr.isatty())
    examples = read_data(path, opened.task, texts=texts, verbose=verbose, **reading)
    X, y = follow(examples, opened.recipe)
    if y is None:
        raise FileError(f"{path}: holds no labels, which a report needs; use 'maxmargin predict'")
    return X, y
