"""Kinds of outputs: how they are read, which measures and which baselines they have.

Estimators (``score``), reports and the command line ask the same task, so that they agree.
"""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from .base import Data, Task
from .flat import MulticlassTask, OrdinalTask
from .label_sets import MultiLabelTask
from .matchings import MatchingTask
from .measures import VOID, Measure, Outputs, all_right
from .own import LatentTask, OtherTask, StructuredTask
from .parts import GraphTask, GridTask, SequenceTask
from .rankings import RankingTask
from .subsets import SubsetTask
from .trees import TreeTask

__all__ = ["TASKS", "VOID", "Data", "Measure", "Outputs", "Task", "all_right", "task_of", "unwrap"]

TASKS: dict[str, type[Task]] = {
    task.key: task
    for task in (
        MulticlassTask, OrdinalTask, MultiLabelTask, SequenceTask, RankingTask, MatchingTask,
        GraphTask, GridTask, TreeTask, SubsetTask, LatentTask, StructuredTask, OtherTask,
    )
}  # fmt: skip
_BY_ESTIMATOR = {task.estimator: task for task in TASKS.values() if task.estimator}


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
    if key not in (None, own.key, OtherTask.key):
        raise ValueError(f"a {names[0]} is of task {own.key!r}; received task={key!r}.")
    return TASKS[key or own.key](model)


def unwrap(model: Any) -> tuple[Any, Any]:
    """The estimator in a search or a pipeline, and the transformers before it (or None)."""
    model = vars(model).get("best_estimator_", model)
    if not isinstance(model, Pipeline):
        return model, None
    before = model[:-1] if len(model.steps) > 1 else None
    return unwrap(model.steps[-1][1])[0], before
