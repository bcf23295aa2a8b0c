"""``maxmargin predict MODEL DATA``."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from typing import Any

import click
import numpy as np

from ..files import FileError
from ..files.prepare import follow, texts_wanted
from ..tasks.base import n_rows
from ._model_file import ModelFile, read_model_file
from ._options import json_option, read_data, reading_options
from ._output import check_apart, check_output, note, print_json, write_text
from ._tasks import say_unknown, unknown_features

_HELP = """Labels of the examples in DATA, by MODEL.

\b
  maxmargin predict flowers.mm new.csv                 a CSV on standard output
  maxmargin predict chunks.mm test.conll -o out.conll  the same lines, with a column more
  maxmargin predict flowers.mm new.csv --json

Labels that DATA may hold are not looked at.
"""


@click.command("predict", help=_HELP, short_help="Labels for the examples of a file.")
@click.argument("model_path", metavar="MODEL")
@click.argument("data")
@click.option("-o", "--output", help="Where to write; standard output by default.")
@click.option("--force", is_flag=True, help="Replace what exists.")
@json_option
@reading_options
def command(model_path, data, output, force, as_json, **reading):
    """Read, predict, write."""
    check_output(output, force)
    check_apart(output, data, model_path)
    opened = read_model_file(model_path, data)
    verbose = int(sys.stderr.isatty() and not as_json)
    texts = texts_wanted(opened.recipe)
    examples = read_data(data, opened.task, texts=texts, verbose=verbose, **reading)
    X, _ = follow(examples, opened.recipe)
    if n_rows(X) != len(examples) and opened.recipe.get("missing") == "drop":
        raise FileError(
            f"{data}: rows with missing values have no prediction; fill them, or train with "
            "--missing mean"
        )
    found = opened.model.predict(X)
    n_unknown, n_features = unknown_features(opened.model, X)
    if n_unknown:
        note(say_unknown(n_unknown, n_features))
    if as_json:
        content = {"task": opened.task, "predictions": names_of(opened, found)}
        if output is None:
            print_json(content)
            return
        import json

        from ._output import plain

        write_text(output, json.dumps(plain(content)) + "\n")
    else:
        write_text(output, text_of(opened, examples, found))
    if output is not None:
        note(f"wrote {len(found)} predictions to {output}")


def names_of(opened: ModelFile, found: Any) -> list:
    """Predictions as lists of names."""
    if opened.task == "multilabel":
        names = opened.recipe["label_names"]
        return [[names[k] for k in np.flatnonzero(row)] for row in np.asarray(found)]
    return [np.asarray(part).tolist() for part in found]


def text_of(opened: ModelFile, examples: Any, found: Any) -> str:
    """Predictions in the format family of the data."""
    if examples.form == "sentences":
        sentences = []
        for rows, labels in zip(examples.rows, found, strict=True):
            mark = "\t" if any(" " in field for row in rows for field in row) else " "
            lines = [mark.join([*row, str(tag)]) for row, tag in zip(rows, labels, strict=True)]
            sentences.append("\n".join(lines) + "\n")
        return "\n".join(sentences)
    if opened.task == "tree":
        return _trees(examples, found)
    return _as_csv(*_rows(opened, found))


def _trees(examples: Any, found: Any) -> str:
    from ..files.trees import write_trees

    return write_trees(examples, found)


def _rows(opened: ModelFile, found: Any) -> tuple[list[str], Iterable[Iterable]]:
    task, recipe = opened.task, opened.recipe
    if task in ("sequence", "graph"):
        unit, place = ("sequence", "position") if task == "sequence" else ("graph", "node")
        rows = [(i, t, label) for i, labels in enumerate(found) for t, label in enumerate(labels)]
        return [unit, place, "prediction"], rows
    if task == "multilabel":
        return ["labels"], [[";".join(map(str, names))] for names in names_of(opened, found)]
    if task == "ranking":
        if recipe["y_format"] == "orderings":
            return ["ordering"], [[">".join(map(str, row))] for row in found]
        return [f"rank:{item}" for item in opened.model.items_.tolist()], found.tolist()
    return ["prediction"], [[label] for label in np.asarray(found).tolist()]


def _as_csv(titles: list[str], rows: Iterable[Iterable]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(rows)
    return out.getvalue()
