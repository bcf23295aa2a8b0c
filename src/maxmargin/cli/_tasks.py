"""What the commands tell about a model: its scores, its baseline, its certificate."""

from __future__ import annotations

from typing import Any, NamedTuple

import maxmargin

from ..certificates import summary
from ..tasks import ESTIMATORS, task_of

TASKS = ("multiclass", "ordinal", "sequence", "multilabel", "ranking", "graph", "tree")


class Score(NamedTuple):
    """A measure of predictions, and the same of the trivial baseline."""

    measure: str
    value: float
    baseline: float | None
    larger_is_better: bool


def estimator_class(task: str) -> type:
    """The estimator of a task."""
    return getattr(maxmargin, ESTIMATORS[task])


def baseline_of(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """The best answer that looks at no features, as a JSON document."""
    task = task_of(model)
    found = task.trivial(task.encode(X, y))
    assert found is not None  # all tasks of the command line have one
    return found


class Scores(NamedTuple):
    """Scores of a model, those of each type of span, how many features it does not know, and how
    many labels break the scheme of the spans."""

    measures: list[Score] = []
    types: dict[str, dict[str, float]] = {}
    n_unknown: int = 0
    n_features: int = 0
    malformed: dict[str, Any] = {}

    def as_json(self) -> dict[str, Any]:
        """The same for a JSON document."""
        found: dict[str, Any] = {"scores": [score._asdict() for score in self.measures]}
        if self.types:
            found["types"] = self.types
        if self.malformed:
            found["malformed_labels"] = self.malformed
        if self.n_features:
            found |= {"n_unknown_features": self.n_unknown, "n_features": self.n_features}
        return found


def scores_of(model: Any, X: Any, y: Any, baseline: dict[str, Any]) -> Scores:
    """Scores of a model on labelled data, beside those of the baseline."""
    task = task_of(model)
    truth, found = task.compare(X, y)
    others = task.measures(truth, task.constant(baseline, truth))
    measures = [
        Score(own.name, own.value, other.value, not own.lower_is_better)
        for own, other in zip(task.measures(truth, found), others, strict=True)
    ]
    return Scores(
        measures, task.by_type(truth, found), *unknown_features(model, X),
        task.malformed(truth, found),
    )  # fmt: skip


def unknown_features(model: Any, X: Any) -> tuple[int, int]:
    """How many features of positions of sequences a model does not know, and of how many."""
    return model.count_unknown_features(X) if task_of(model).key == "sequence" else (0, 0)


def say_unknown(n_unknown: int, n_features: int) -> str:
    """The same in words."""
    return (
        f"{n_unknown} of {n_features} features ({n_unknown / n_features:.1%}) were not seen in "
        "training and are ignored"
    )


def certificate_of(model: Any) -> dict[str, Any]:
    """What is proven about the training objective of a model.

    With hidden labels, "global" is False: primal, dual and gap are those of the last convex
    problem.
    """
    proven = summary(model)
    labels = vars(model).get("label_model_")  # of arcs: a problem of its own
    return {
        "global": not proven.local,
        "status": proven.status,
        "alpha": float(model.alpha_),
        "primal": proven.primal,
        "dual": proven.dual,
        "gap": proven.gap,
        "relative_gap": proven.relative_gap,
        "oracle_error": proven.oracle_error,
        "passes": proven.passes,
        "tol": float(model.tol),
        **({} if labels is None else {"labels": certificate_of(labels)}),
    }


def certified(certificate: dict[str, Any]) -> str:
    """A certificate in words."""
    share, status = f"{certificate['relative_gap']:.2%}", certificate["status"]
    if certificate["global"]:
        labels = certificate.get("labels")
        return (
            f"{status}: objective {certificate['primal']:.6g}, proven to be within {share} of the "
            f"optimum{'' if labels is None else f'; labels of arcs {certified(labels)}'}"
        )
    return (
        f"{status}: a local optimum, as some labels are hidden; objective of the last convex "
        f"problem {certificate['primal']:.6g}, within {share} of its optimum"
    )
