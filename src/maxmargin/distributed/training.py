"""Training and prediction on partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from .._validation import check_integer, is_text
from ..checkpoint import Recorder, read_checkpoint, write_checkpoint
from ..solvers.crew import Crew, PartitionedProblem
from ..solvers.parts import Maker, Size
from ..strengths import CrossValidated, Strength
from .data import Common, Found, Held, make_part, merge
from .engines import opened
from .recipes import agrees, merged
from .shards import Shards

# Default number of partitions of data in memory.
_PARTITIONS = 4


def _sources(data: Any, target: Any, engine: Any) -> list[Any] | None:
    """Partitions of distributed data; None if the data are in the memory of this process."""
    return list(data.shards) if isinstance(data, Shards) else engine.partitions_of(data, target)


def fit(
    model: Any,
    data: Any,
    *,
    engine: Any = None,
    n_workers: int | None = None,
    n_partitions: int | None = None,
    target: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
) -> Any:
    """Train an estimator on partitions of the data.

    Parameters
    ----------
    model : estimator
        Of this package. It is fitted in place, and is an ordinary fitted estimator afterwards.
    data : (X, y), (X, y, sample_weight) or partitions
        Data in memory as for ``fit``, which are split into ``n_partitions``; or data whose
        partitions are used as they are: a ``dask.bag`` of pairs, two ``dask.array``, a
        ``dask.dataframe``, a list of delayed ``(X, y)``; a ``ray.data.Dataset`` or a list of object
        references to ``(X, y)``; :class:`Shards`.
    engine : distributed.Client, str or None
        A Dask client, the address of a scheduler ("tcp://..."), "ray" or "ray://...", "threads",
        or "disk": one process that handles its partitions in turn, with one of them in memory at a
        time. None starts a Dask cluster on this machine.
    n_workers : int, optional
        Number of processes or threads, if the engine starts them.
    n_partitions : int, optional
        Number of partitions of data in memory; 4 by default. The result depends on it, but not on
        the engine.
    target : str, optional
        Column of the labels of a ``dask.dataframe`` or ``ray.data.Dataset``.
    checkpoint : path, optional
        The whole run is written to this file every ``checkpoint_every`` seconds, and continues from
        it if it exists, with any number of workers. The file is removed at the end.

    Returns
    -------
    model
    """
    parts = vars(model).pop("_known_parts", None)  # of an earlier partial_fit
    try:
        _train(model, data, engine, n_workers, n_partitions, target, checkpoint, checkpoint_every)
    except BaseException:
        if parts is not None:
            model._known_parts = parts
        raise
    _remember(model, data)
    return model


def _remember(model: Any, data: Any) -> None:
    """Keep the shards of a fit for a :func:`partial_fit` to come, and nothing of other data."""
    vars(model).pop("_known_shards", None)
    if isinstance(data, Shards):
        model._known_shards = data


def _train(
    model: Any, data: Any, engine: Any, n_workers: int | None, n_partitions: int | None = None,
    target: Any = None, checkpoint: Any = None, checkpoint_every: float = 60.0,
) -> None:  # fmt: skip
    """Fit, from the dual points of the shards that the model knows."""
    with opened(engine, n_workers) as at:
        sources = _sources(data, target, at)
        recorder = _recorder(checkpoint, checkpoint_every)
        hooks: dict[str, Any] = {"_engine": at, "_recorder": recorder}
        common: Common | None = None
        if sources is None:
            given = _PARTITIONS if n_partitions is None else n_partitions
            hooks["_n_partitions"] = check_integer("n_partitions", given, 1)
            sample = _in_memory(data)
        else:
            if n_partitions not in (None, len(sources)):
                raise ValueError(
                    f"n_partitions={n_partitions}, but the data have {len(sources)} partitions; "
                    "repartition the data."
                )
            _refuse_unsupported(model)
            common, sample, hooks["_hand_over"] = _prepared(model, sources, at)
            hooks["_n_partitions"] = len(sources)
        _fit_with(model, sample, hooks, common)
    if checkpoint is not None and model.status_ != "interrupted" and os.path.exists(checkpoint):
        os.remove(checkpoint)


def _in_memory(data: Any) -> tuple:
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise TypeError(
            "data must be (X, y), (X, y, sample_weight) or partitions that the engine supports; "
            f"received {type(data).__name__}."
        )
    return data


def _fit_with(model: Any, data: tuple, hooks: dict[str, Any], common: Common | None) -> None:
    """Fit with hooks between the estimator and its solver."""
    before = model.get_params(deep=False)
    vars(model).update({name: value for name, value in hooks.items() if value is not None})
    try:
        if common is not None:
            model.set_params(**common.params)
        model.fit(*data)
        if common is not None and common.vectorizer is not None:
            model.vectorizer_ = common.vectorizer
        vars(model).pop("shards_", None)
        if common is not None and common.recipe is not None:  # by which new shards are read
            model.shards_ = {"number": hooks["_n_partitions"], "recipe": common.recipe}
    finally:
        for name in hooks:
            vars(model).pop(name, None)
        if common is not None:
            model.set_params(**{name: before[name] for name in common.params})


def _recorder(path: Any, every: float) -> Recorder | None:
    if path is None:
        return None
    start = read_checkpoint(path)[1] if os.path.exists(path) else None
    return Recorder(
        lambda state: write_checkpoint(path, {"time": time.time()}, state), every, start
    )


def _refuse_unsupported(model: Any) -> None:
    """Refuse parameters that need all data in one place."""
    params = model.get_params(deep=False)
    if params.get("early_stopping"):
        raise ValueError("early_stopping=True is not available for partitions of data.")
    if isinstance(params.get("alpha"), CrossValidated):
        raise ValueError("alpha=CrossValidated(...) is not available for partitions of data.")
    if is_text(params.get("class_weight")):
        raise ValueError(
            "class_weight='balanced' needs the frequencies of all partitions; give a dict."
        )
    for reason in model._needs_all_data():
        raise ValueError(f"{reason}, or fit on data in memory; these are partitions of data.")


def _held(sources: list[Any]) -> list[Maker]:
    return [Maker(partial(Held, k), source) for k, source in enumerate(sources)]


def _asked(engine: Any, makers: list[Maker], name: str, *args: Any) -> list[Any]:
    """Results of a method of :class:`Held` for all partitions."""
    engine.start(makers)
    n = len(makers)
    return engine.call(list(range(n)), name, 0.0, [args] * n)


def _looked(
    model: Any, sources: list[Any], engine: Any
) -> tuple[list[Any], list[Found], dict[str, Any] | None]:
    """Make the first pass; shards that differ are read once more, by the recipe of all."""
    found: list[Found] = _asked(engine, _held(sources), "look", model)
    recipes = [part.recipe for part in found if part.recipe is not None]
    if not recipes:
        return sources, found, None
    recipe = merged(recipes, [shard.path for shard in sources])
    if not all(agrees(own, recipe) for own in recipes):
        sources = [shard._replace(recipe=recipe) for shard in sources]
        found = _asked(engine, _held(sources), "look", model)
    return sources, found, recipe


def _prepared(
    model: Any, sources: list[Any], engine: Any
) -> tuple[Common, tuple, Callable[[Any], Any]]:
    """Make the first pass; returns what is common, a sample, and the problem in parts."""
    n = len(sources)
    blank = clone(model)
    sources, found, recipe = _looked(blank, sources, engine)
    common = merge(model, found, recipe)
    makers = [
        Maker(partial(make_part, k, blank, common, n, 0.0), source)
        for k, source in enumerate(sources)
    ]

    def hand_over(problem: Any) -> PartitionedProblem:
        crew = Crew(engine, makers)
        sizes: list[Size] = crew.all("size")
        total = sum(size.total_weight for size in sizes)
        strength = problem.alpha * total
        # "auto" is a mean over examples: each partition has computed that of its own.
        if Strength.of(model.alpha).depends_on_data:
            each = crew.all("strength")
            strength = sum(s.total_weight * v for s, v in zip(sizes, each, strict=True)) / total
        crew.all("belong", strength)
        crew.makers = [
            Maker(partial(make_part, k, blank, common, n, strength), source)
            for k, source in enumerate(sources)
        ]
        problem.alpha = strength / total
        found = PartitionedProblem(problem, crew, sizes)
        _continue(model, found)
        return found

    return common, _sample(model, found, common), hand_over


def _sample(model: Any, found: list[Found], common: Common) -> tuple:
    """A few examples, from which the estimator reads the form of its input."""
    from .data import _transformed

    X, y = found[0].sample
    return _transformed(X, common), y


def _continue(model: Any, problem: PartitionedProblem) -> None:
    """Start from the dual points of :func:`partial_fit`, where the output spaces are the same."""
    known = vars(model).get("_known_parts")
    if known is None:
        return
    spaces = problem.crew.all("signature")
    same = bool(known) and model._dual is not None and spaces[: len(known)] == known
    model._dual = (problem.signature(), model._dual[1]) if same else None
    model._known_parts = spaces


def partial_fit(
    model: Any, shards: Shards, *, engine: Any = "disk", n_workers: int | None = None
) -> Any:
    """Train on additional shards, starting from the dual point of the earlier ones.

    Shards of the last :func:`fit` and of calls since then are read again, so their files must still
    exist. New features get weights; with new labels the dual starts from the beginning, as the
    output spaces differ, and after :func:`fit`, which keeps no dual point of shards.

    Parameters
    ----------
    model : estimator
    shards : Shards
        The additional shards.
    engine, n_workers
        As in :func:`fit`.
    """
    before = vars(model).get("_known_shards")
    if before is None and (number := _n_shards(model)):
        raise ValueError(
            f"this {type(model).__name__} was trained on {number} shards and read from a file of "
            "maxmargin.save, which does not store where they are; call fit with all shards."
        )
    every = shards if before is None else before + shards
    state = {"warm_start": model.warm_start, "_known_parts": vars(model).get("_known_parts", [])}
    model.warm_start, model._known_parts = True, state["_known_parts"]
    try:
        _train(model, every, engine, n_workers)
    except BaseException:
        model._known_parts = state["_known_parts"]
        raise
    finally:
        model.warm_start = state["warm_start"]
    _remember(model, every)
    return model


def _n_shards(model: Any) -> int:
    """Number of shards that a model was trained on."""
    return vars(model).get("shards_", {"number": 0})["number"]


# --- prediction ------------------------------------------------------------------------------


def _applied(model: Any, method: str, data: Any, engine: Any, n_workers: Any, target: Any) -> list:
    try:
        getattr(model, method)
    except AttributeError as error:
        raise TypeError(f"there is no {method!r} to call on partitions: {error}") from None
    with opened(engine, n_workers) as at:
        sources = _sources(data, target, at)
        if sources is None:
            parts = _cut(data, max(1, at.n_workers))
            makers = [Maker(partial(Held, k, part)) for k, part in enumerate(parts)]
        elif isinstance(data, Shards):
            recipe = vars(model).get("shards_", {"recipe": None})["recipe"]
            makers = _held([shard._replace(recipe=recipe) for shard in sources])
        else:
            makers = _held(sources)
        return _asked(at, makers, "apply", model, method)


def _cut(data: Any, n: int) -> list[tuple]:
    """Split data in memory into parts of about equal size."""
    from ..datasets import take

    arrays = data if isinstance(data, tuple) else (data, data)
    size = _num_samples(arrays[0])
    bounds = np.unique(np.linspace(0, size, min(n, size) + 1).astype(int))
    ranges = [np.arange(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return [tuple(take(array, r) for array in arrays) for r in ranges]


def predict(
    model: Any, data: Any, *, engine: Any = None, n_workers: int | None = None,
    target: Any = None, method: str = "predict",
) -> Any:  # fmt: skip
    """Predictions for data in memory (X) or partitions, in their order; see :func:`fit`."""
    found = _applied(model, method, data, engine, n_workers, target)
    if isinstance(found[0], np.ndarray):
        return np.concatenate(found)
    return [item for part in found for item in part]


def score(
    model: Any, data: Any, *, engine: Any = None, n_workers: int | None = None, target: Any = None
) -> float:
    """The mean score of partitions, weighted by their numbers of examples (of positions, where
    outputs are lists of labels)."""
    found = _applied(model, "score", data, engine, n_workers, target)
    return float(np.average([value for value, _ in found], weights=[n for _, n in found]))


def decode(
    model: Any, data: Any, *, engine: Any = None, n_workers: int | None = None, target: Any = None
) -> list:
    """``model.decode`` of every partition: a list of results, one per partition."""
    return _applied(model, "decode", data, engine, n_workers, target)


__all__ = ["decode", "fit", "partial_fit", "predict", "score"]
