"""``maxmargin inspect MODEL``."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

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
        "classes": _classes(opened),
        "certificate": certificate_of(opened.model),
        "features": strongest_features(opened, top),
        "pairs": strongest_pairs(opened, top),
    }
    if as_json:
        print_json(content)
        return
    _print(content)


def _print(content: dict[str, Any]) -> None:
    classes = content["classes"]
    shown = ", ".join(map(str, classes[:20])) + (" ..." if len(classes) > 20 else "")
    data = content["trained_on"]
    rows = [
        ("task", f"{content['task']} ({content['estimator']}, {content['surrogate']})"),
        ("trained on", f"{data['n_examples']} examples of {data['file']}"),
        *([("classes", f"{len(classes)}: {shown}")] if classes else []),
        *((name, value) for name, value in content["certificate"].items()),
    ]
    print_table(("", content["model"]), [(name, _short(value)) for name, value in rows])
    if content["features"]:
        rows = [
            (label, ", ".join(f"{f['feature']} {f['weight']:+.3g}" for f in features))
            for label, features in content["features"].items()
        ]
        print_table(("class", "strongest features"), rows)
    if content["pairs"]:
        pairs = [(p["kind"], p["pair"], f"{p['weight']:+.3g}") for p in content["pairs"]]
        print_table(("", "labels", "weight"), pairs)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _classes(opened: ModelFile) -> list:
    found = getattr(opened.model, "classes_", getattr(opened.model, "items_", None))
    return [] if found is None else np.asarray(found).tolist()


def _feature_names(opened: ModelFile) -> list[str] | None:
    vectorizer = getattr(opened.model, "vectorizer_", None)
    if vectorizer is not None:
        return list(vectorizer.feature_names_)
    return opened.recipe.get("feature_names")


def strongest_features(opened: ModelFile, top: int) -> dict[str, list[dict[str, Any]]]:
    """The features with the largest weights of each class; none for a kernel."""
    coef = getattr(opened.model, "coef_", None)
    if coef is None or np.ndim(coef) != 2:
        return {}
    names = _feature_names(opened) or [f"feature {k}" for k in range(coef.shape[1])]
    labels = [str(label) for label in _classes(opened)]
    if opened.task == "ranking":
        labels = [f"{item} at {place + 1}" for item in labels for place in range(len(labels))]
    if len(labels) != len(coef) or len(names) != coef.shape[1]:
        return {}
    found = {}
    for label, row in zip(labels, coef, strict=True):
        best = np.argsort(-np.abs(row), kind="stable")[:top]
        found[label] = [{"feature": names[k], "weight": float(row[k])} for k in best if row[k]]
    return found


def strongest_pairs(opened: ModelFile, top: int) -> list[dict[str, Any]]:
    """Pairs of labels with the largest weights: transitions, interactions, edges."""
    model, names = opened.model, [str(label) for label in _classes(opened)]
    pairs: list[tuple[str, str, float]] = []
    if hasattr(model, "transitions_"):
        pairs = [
            ("transition", f"{names[a]} -> {names[b]}", float(weight))
            for (a, b), weight in np.ndenumerate(model.transitions_)
        ]
    elif hasattr(model, "interactions_"):
        # What the presence of both adds to the sum of what each adds alone.
        tables = model.interactions_
        both = tables[:, 1, 1] - tables[:, 1, 0] - tables[:, 0, 1] + tables[:, 0, 0]
        pairs = [
            ("interaction", f"{names[a]} + {names[b]}", float(weight))
            for (a, b), weight in zip(model.edges_, both, strict=True)
        ]
    elif hasattr(model, "pairwise_coef_"):
        pairs = [
            ("edge", f"{names[a]} - {names[b]}", float(weight))
            for (a, b), weight in np.ndenumerate(model.pairwise_coef_[0])
        ]
    pairs.sort(key=lambda pair: -abs(pair[2]))
    return [{"kind": kind, "pair": pair, "weight": weight} for kind, pair, weight in pairs[:top]]
