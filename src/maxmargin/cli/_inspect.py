"""``maxmargin inspect MODEL``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from scipy import sparse

from ..report._markup import text_of
from ..tasks import task_of
from ._model_file import ModelFile, read_model_file
from ._options import json_option
from ._output import print_json, print_table
from ._tasks import certificate_of

_HELP = """What is in MODEL: its classes, strongest features, transitions or interactions, and the
certificate of its training.

\b
  maxmargin inspect flowers.mm --top 5
  maxmargin inspect tagger.mm --json
"""


@click.command("inspect", help=_HELP, short_help="What a model has learnt.")
@click.argument("model_path", metavar="MODEL")
@click.option("--top", type=click.IntRange(1), default=8, show_default=True,
              help="Features and transitions shown for each class.")  # fmt: skip
@json_option
def command(model_path, top, as_json):
    """Read and tell."""
    opened = read_model_file(model_path)
    content = {
        "model": model_path,
        "task": opened.task,
        "estimator": type(opened.model).__name__,
        "surrogate": opened.model.surrogate,
        "trained_on": opened.data,
        "classes": np.asarray(task_of(opened.model).classes).tolist(),
        "certificate": certificate_of(opened.model),
        "features": strongest_features(opened, top),
        "pairs": strongest_pairs(opened, top),
    }
    if as_json:
        print_json(content)
        return
    _print(content)


_TITLES = {"global": "global optimum"}


def _print(content: dict[str, Any]) -> None:
    classes = content["classes"]
    shown = ", ".join(map(str, classes[:20])) + (" ..." if len(classes) > 20 else "")
    data = content["trained_on"]
    rows = [
        ("task", f"{content['task']} ({content['estimator']}, {content['surrogate']})"),
        ("trained on", f"{data['n_examples']} examples of {data['file']}"),
        *([("classes", f"{len(classes)}: {shown}")] if classes else []),
        *((_TITLES.get(name, name.replace("_", " ")), value)
          for name, value in content["certificate"].items()),
    ]  # fmt: skip
    print_table(("", content["model"]), [(name, text_of(value)) for name, value in rows])
    if content["features"]:
        rows = [
            (label, ", ".join(f"{f['feature']} {f['weight']:+.3g}" for f in features))
            for label, features in content["features"].items()
        ]
        print_table(("class", "strongest features"), rows)
    if content["pairs"]:
        pairs = [(p["kind"], p["pair"], f"{p['weight']:+.3g}") for p in content["pairs"]]
        print_table(("", "labels", "weight"), pairs)


def _feature_names(opened: ModelFile) -> list[str] | None:
    vectorizer = vars(opened.model).get("vectorizer_")
    if vectorizer is not None:
        return list(vectorizer.feature_names_)
    return opened.recipe.get("feature_names")


def strongest_features(opened: ModelFile, top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest weights of each class; none for a kernel."""
    coef = vars(opened.model).get("coef_")
    if coef is None or np.ndim(coef) != 2:
        return {}
    names = _feature_names(opened) or [f"feature {k}" for k in range(coef.shape[1])]
    labels = task_of(opened.model).labels
    if opened.task == "ranking":
        labels = [f"{item} at {place + 1}" for item in labels for place in range(len(labels))]
    if coef.shape != (len(labels), len(names)):
        return {}
    found = {}
    for k, label in enumerate(labels):
        row = coef[[k]].toarray().ravel() if sparse.issparse(coef) else coef[k]
        best = np.argsort(-np.abs(row), kind="stable")[:top]
        found[label] = [{"feature": names[j], "weight": float(row[j])} for j in best if row[j]]
    return found


def strongest_pairs(opened: ModelFile, top: int) -> list[dict[str, Any]]:
    """Pairs of labels with the largest weights: transitions, interactions, edges."""
    task = task_of(opened.model)
    found: list[dict[str, Any]] = []
    for kind, between, values in task.pairs()[:1]:
        once = kind == "interaction"  # of two labels, whichever comes first
        for (a, b), weight in np.ndenumerate(values):
            if not np.isnan(weight) and (a < b or not once):
                pair = between.format(task.labels[a], task.labels[b])
                found.append({"kind": kind, "pair": pair, "weight": float(weight)})
    return sorted(found, key=lambda pair: -abs(pair["weight"]))[:top]
