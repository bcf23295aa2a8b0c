"""``maxmargin evaluate MODEL DATA``."""

from __future__ import annotations

import sys

import click

from ..files import FileError
from ..files.prepare import follow, texts_wanted
from ._fit import fingerprint_of
from ._model_file import read_model_file
from ._options import json_option, read_data, reading_options
from ._output import note, print_json
from ._tasks import certificate_of, certified, scores_of
from ._train import print_scores

_HELP = """Scores of MODEL on the labelled examples of DATA, beside a trivial baseline.

\b
  maxmargin evaluate flowers.mm test.csv
  maxmargin evaluate flowers.mm test.csv --json

The baseline looks at no features: the most frequent class of the training data, and the like. The
file of the training is recognised, with a warning: its scores are too good. The last line is the
certificate of the training objective, which says nothing about new data.
"""


@click.command("evaluate", help=_HELP, short_help="Scores on a file with labels.")
@click.argument("model_path", metavar="MODEL")
@click.argument("data")
@json_option
@reading_options
def command(model_path, data, as_json, **reading):
    """Read, predict, compare."""
    opened = read_model_file(model_path, data)
    same = opened.data.get("sha256") == fingerprint_of([], [data])
    if same:
        note("warning: the model was trained on this file; scores on new data will be lower")
    verbose = int(sys.stderr.isatty() and not as_json)
    texts = texts_wanted(opened.recipe)
    examples = read_data(data, opened.task, texts=texts, verbose=verbose, **reading)
    X, y = follow(examples, opened.recipe)
    del examples
    if y is None:
        raise FileError(f"{data}: holds no labels, which scores need; use 'maxmargin predict'")
    scores = scores_of(opened.model, X, y, opened.baseline)
    certificate = certificate_of(opened.model)
    if as_json:
        print_json({
            "model": model_path,
            "task": opened.task,
            "data": data,
            "n_examples": len(y),
            "is_training_data": same,
            **scores.as_json(),
            "baseline": opened.baseline["says"],
            "certificate": certificate,
        })  # fmt: skip
        return
    print_scores(scores, opened.baseline)
    click.echo(
        f"{len(y)} examples. Training at alpha {certificate['alpha']:.3g}: {certified(certificate)}"
    )
