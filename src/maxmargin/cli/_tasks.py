"""What the commands know about each task: its estimator, scores, and trivial baseline."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import click
import numpy as np

TASKS = ("multiclass", "ordinal", "sequence", "multilabel", "ranking", "graph", "tree")
_ESTIMATORS = {
    "multiclass": "MulticlassClassifier",
    "ordinal": "OrdinalClassifier",
    "sequence": "SequenceLabeler",
    "multilabel": "MultiLabelClassifier",
    "ranking": "LabelRanker",
    "graph": "GraphLabeler",
    "tree": "TreeParser",
}


class Score(NamedTuple):
    """A measure of predictions, and the same of the trivial baseline."""

    measure: str
    value: float
    baseline: float | None
    larger_is_better: bool


def estimator_class(task: str) -> type:
    """The front door of a task."""
    import maxmargin

    found = getattr(maxmargin, _ESTIMATORS[task], None)
    if found is None:
        raise click.UsageError(f"task {task} is not part of this version of maxmargin")
    return found


def _flat(y: Any) -> list:
    return [label for part in y for label in np.asarray(part, object).tolist()]


def _is_known(model: Any, labels: list) -> np.ndarray:
    """Which labels of sequences or graphs count: neither void nor hidden."""
    from ..estimators._hidden import find_hidden

    void = getattr(model, "void", None)
    known = ~find_hidden(labels, model.classes_, bool(model.hidden))
    if void is not None:
        known &= np.array([label != void for label in labels], bool)
    return known


def _positions(model: Any, y: Any) -> np.ndarray:
    """Positions (0 is the best) of the items in rankings as they are written."""
    from ..estimators._rankings import read_rankings

    known = model._written()
    return read_rankings(np.asarray(y).tolist(), len(y), known.kind, known=known)[0]


# --- trivial baselines -------------------------------------------------------------------------


def baseline_of(task: str, model: Any, y: Any) -> dict[str, Any]:
    """The best answer that looks at no features, as a JSON document."""
    if task == "multiclass":
        label, _ = Counter(np.asarray(y, object).tolist()).most_common(1)[0]
        return {"says": "always the most frequent class", "label": label}
    if task == "ordinal":
        place = {label: code for code, label in enumerate(model.classes_.tolist())}
        codes = sorted(place[label] for label in np.asarray(y, object).tolist())
        middle = model.classes_.tolist()[codes[len(codes) // 2]]
        return {"says": "always the median class", "label": middle}
    if task in ("sequence", "graph"):
        labels = _flat(y)
        counts = Counter(labels[k] for k in np.flatnonzero(_is_known(model, labels)))
        return {"says": "always the most frequent label", "label": counts.most_common(1)[0][0]}
    if task == "multilabel":
        usual = (np.asarray(y).mean(axis=0) > 0.5).astype(int)
        return {"says": "labels that more than half of the examples have", "labels": usual.tolist()}
    if task == "ranking":
        mean = _positions(model, y).mean(axis=0)
        order = np.argsort(np.argsort(mean, kind="stable"), kind="stable")
        return {"says": "always the mean ranking", "positions": order.tolist()}
    return {"says": "every word depends on the one before it"}


# --- scores ------------------------------------------------------------------------------------


def scores_of(
    task: str, model: Any, X: Any, y: Any, baseline: dict[str, Any] | None
) -> list[Score]:
    """Scores of a model on labelled data, beside those of the baseline."""
    measure = _MEASURES[task]
    own = measure(model, y, model.predict(X))
    if baseline is None:
        return [Score(name, value, None, larger) for name, (value, larger) in own.items()]
    other = measure(model, y, _constant(task, model, y, baseline))
    return [Score(name, value, other[name][0], larger) for name, (value, larger) in own.items()]


def _constant(task: str, model: Any, y: Any, baseline: dict[str, Any]) -> Any:
    """The answers of the baseline."""
    if task in ("multiclass", "ordinal"):
        return np.full(len(y), baseline["label"], object)
    if task in ("sequence", "graph"):
        return [np.full(len(part), baseline["label"], object) for part in y]
    if task == "multilabel":
        return np.tile(np.array(baseline["labels"]), (len(y), 1))
    if task == "ranking":
        return model._written().write(np.tile(np.array(baseline["positions"]), (len(y), 1)))
    return [np.arange(len(heads)) for heads in y]


Measures = dict[str, tuple[float, bool]]


def _multiclass(model: Any, truth: Any, found: Any) -> Measures:
    truth, found = np.asarray(truth, object), np.asarray(found, object)
    recalls = [np.mean(found[truth == label] == label) for label in set(truth.tolist())]
    return {
        "accuracy": (float(np.mean(truth == found)), True),
        "mean recall of the classes": (float(np.mean(recalls)), True),
    }


def _ordinal(model: Any, truth: Any, found: Any) -> Measures:
    place = {label: code for code, label in enumerate(model.classes_.tolist())}
    worst = len(place) - 1
    distances = [
        abs(place[a] - place[b]) if a in place else worst
        for a, b in zip(np.asarray(truth).tolist(), np.asarray(found).tolist(), strict=True)
    ]
    return {
        "mean distance": (float(np.mean(distances)), False),
        "accuracy": (float(np.mean(np.array(distances) == 0)), True),
    }


def _labels(model: Any, truth: Any, found: Any) -> Measures:
    labels = _flat(truth)
    known = _need_some(_is_known(model, labels))
    right = np.array([a == b for a, b in zip(labels, _flat(found), strict=True)], bool)
    ends = np.cumsum([len(part) for part in truth])
    whole = [part.all() for part in np.split(right | ~known, ends[:-1])]
    measures = {
        "accuracy": (float(right[known].mean()), True),
        "all labels right": (float(np.mean(whole)), True),
    }
    names = {str(labels[k]) for k in np.flatnonzero(known)}
    marks = ("B-", "I-", "E-", "S-")
    if known.all() and "O" in names and all(n == "O" or n[:2] in marks for n in names):
        measures["F1 of chunks"] = (chunk_f1(truth, found), True)
    return measures


def _need_some(known: np.ndarray) -> np.ndarray:
    if not known.any():
        raise ValueError("all labels are hidden: there is nothing to score")
    return known


def chunks_of(labels: Any) -> set[tuple[int, int, str]]:
    """Chunks (first, last, type) of a labelling in the manner of B-X, I-X, O (also E-, S-)."""
    found, start, kind = set(), 0, ""
    for t, label in enumerate([*map(str, labels), "O"]):
        mark, _, name = label.partition("-")
        if kind and (mark in ("O", "B", "S") or name != kind):
            found.add((start, t - 1, kind))
            kind = ""
        if mark != "O" and not kind:
            start, kind = t, name
    return found


def chunk_f1(truth: Any, found: Any) -> float:
    """Harmonic mean of precision and recall of whole chunks."""
    right = n_true = n_found = 0
    for a, b in zip(truth, found, strict=True):
        true_chunks, found_chunks = chunks_of(a), chunks_of(b)
        right += len(true_chunks & found_chunks)
        n_true += len(true_chunks)
        n_found += len(found_chunks)
    return 2.0 * right / max(1, n_true + n_found)


def _multilabel(model: Any, truth: Any, found: Any) -> Measures:
    truth, found = np.asarray(truth) > 0, np.asarray(found) > 0
    both = float((truth & found).sum())
    f1 = 2.0 * both / max(1.0, float(truth.sum() + found.sum()))
    return {
        "whole sets right": (float((truth == found).all(axis=1).mean()), True),
        "Hamming loss": (float((truth != found).mean()), False),
        "F1 (micro)": (f1, True),
    }


def _ranking(model: Any, truth: Any, found: Any) -> Measures:
    from ..metrics import kendall_tau

    a, b = _positions(model, truth), _positions(model, found)
    return {
        "items at their place": (float(np.mean(a == b)), True),
        "Kendall's tau": (float(np.mean(kendall_tau(a, b))), True),
    }


def _tree(model: Any, truth: Any, found: Any) -> Measures:
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(truth, found, strict=True)]
    known = _need_some(np.concatenate([a >= 0 for a, _ in pairs]))  # -1: not known
    right = np.concatenate([a == b for a, b in pairs])
    whole = [((a == b) | (a < 0)).all() for a, b in pairs]
    return {
        "heads right": (float(right[known].mean()), True),
        "whole trees right": (float(np.mean(whole)), True),
    }


_MEASURES: dict[str, Any] = {
    "multiclass": _multiclass,
    "ordinal": _ordinal,
    "sequence": _labels,
    "graph": _labels,
    "multilabel": _multilabel,
    "ranking": _ranking,
    "tree": _tree,
}


def certificate_of(model: Any) -> dict[str, Any]:
    """What is proven about the training objective of a model.

    With hidden labels, "global" is False: primal, dual and gap are those of the last convex
    problem.
    """
    primal = float(model.primal_)
    return {
        "global": not (hasattr(model, "rounds_") or hasattr(model, "certificate_")),
        "status": model.status_,
        "alpha": float(model.alpha_),
        "primal": primal,
        "dual": float(model.dual_),
        "gap": float(model.gap_),
        "relative_gap": float(model.gap_) / abs(primal) if primal else 0.0,
        "oracle_error": float(model.oracle_error_),
        "passes": int(model.n_iter_),
        "tol": float(model.tol),
    }


def certified(certificate: dict[str, Any]) -> str:
    """A certificate in words."""
    share, status = f"{certificate['relative_gap']:.2%}", certificate["status"]
    if certificate["global"]:
        return (
            f"{status}: objective {certificate['primal']:.6g}, proven to be within {share} of the "
            "optimum"
        )
    return (
        f"{status}: a local optimum, as some labels are hidden; objective of the last convex "
        f"problem {certificate['primal']:.6g}, within {share} of its optimum"
    )
