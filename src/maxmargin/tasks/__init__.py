"""Kinds of outputs: how they are read, which measures and which baselines they have.

Estimators (``score``), reports and the command line ask the same task, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from .base import Data, Task
from .measures import VOID, Measure, Outputs, all_right

__all__ = ["TASKS", "VOID", "Data", "Measure", "Outputs", "Task", "all_right", "task_of", "unwrap"]

# Module, class and estimator of each task. They are imported when needed: no estimator waits for
# the packages of the others.
_HOMES = {
    "multiclass": ("flat", "MulticlassTask", "MulticlassClassifier"),
    "ordinal": ("flat", "OrdinalTask", "OrdinalClassifier"),
    "multilabel": ("label_sets", "MultiLabelTask", "MultiLabelClassifier"),
    "sequence": ("parts", "SequenceTask", "SequenceLabeler"),
    "ranking": ("rankings", "RankingTask", "LabelRanker"),
    "matching": ("matchings", "MatchingTask", "Matcher"),
    "graph": ("parts", "GraphTask", "GraphLabeler"),
    "grid": ("parts", "GridTask", "GridLabeler"),
    "tree": ("trees", "TreeTask", "TreeParser"),
    "subset": ("subsets", "SubsetTask", "SubsetSelector"),
    "latent": ("own", "LatentTask", "LatentPredictor"),
    "structured": ("own", "StructuredTask", "StructuredPredictor"),
    "other": ("own", "OtherTask", ""),
}
ESTIMATORS = {key: estimator for key, (_, _, estimator) in _HOMES.items() if estimator}
_BY_ESTIMATOR = {estimator: key for key, estimator in ESTIMATORS.items()}


class _Tasks(Mapping):
    """Tasks by the names that users and the command line have for them."""

    def __getitem__(self, key: str) -> type[Task]:
        module, name, _ = _HOMES[key]
        return vars(import_module(f".{module}", __name__))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


TASKS = _Tasks()


def estimator_names(model: Any) -> list[str]:
    """Which estimators of this package a model is, by the names of its class and their bases."""
    return [cls.__name__ for cls in type(model).__mro__ if cls.__name__ in _BY_ESTIMATOR]


def task_of(model: Any, key: str | None = None) -> Task:
    """The task of an estimator; ``key`` names it for certainty, or is "other"."""
    names = estimator_names(model)
    if not names:
        raise TypeError(
            f"model must be a fitted estimator of maxmargin, one of {', '.join(_BY_ESTIMATOR)}, or "
            f"a pipeline or search around one; received {type(model).__name__}."
        )
    own = _BY_ESTIMATOR[names[0]]
    if key is not None and key not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}; received {key!r}.")
    if key not in (None, own, "other"):
        raise ValueError(f"a {names[0]} is of task {own!r}; received task={key!r}.")
    return TASKS[key or own](model)


def unwrap(model: Any) -> tuple[Any, Any]:
    """The estimator in a search or a pipeline, and the transformers before it (or None)."""
    model = vars(model).get("best_estimator_", model)
    steps = vars(model).get("steps")
    if type(steps) is not list:  # estimators of ours may have a parameter of this name
        return model, None
    return unwrap(steps[-1][1])[0], model[:-1] if len(steps) > 1 else None
