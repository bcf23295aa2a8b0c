"""Model files of the command line: ``maxmargin.save``, and beside it what a file needs.

``task.json`` in the same archive holds the task, the recipe that makes features of a file, the
baseline and the scores. ``maxmargin.load`` reads such a file as any other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..files import FileError
from ..persistence import ModelFileError, load, read_note, write_model
from ._output import plain
from ._tasks import TASKS, estimator_class

_NOTE = "task.json"
_VERSION = 1


class ModelFile(NamedTuple):
    """A model, and how to feed it."""

    model: Any
    task: str
    recipe: dict[str, Any]
    baseline: dict[str, Any]
    data: dict[str, Any]


def write_model_file(path: str, content: ModelFile) -> None:
    """Write a model whole, or not at all."""
    note = {"version": _VERSION, **plain(content._asdict() | {"model": None})}
    note.pop("model")
    write_model(content.model, path, notes={_NOTE: note})


def _is_model(path: str) -> bool:
    try:
        return read_note(path, _NOTE) is not None
    except (OSError, ModelFileError):
        return False


def read_model_file(path: str, data: str = "") -> ModelFile:
    """Read a model that ``maxmargin train`` wrote; ``data`` is the other file of the command."""
    if data and not _is_model(path) and _is_model(data):
        raise FileError(f"{data} is the model, and comes first: write {data} {path}")
    try:
        note = read_note(path, _NOTE)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except NotADirectoryError:
        raise FileError(f"{path}: there is no such file (a part of the path is a file)") from None
    except IsADirectoryError:
        raise FileError(f"{path}: is a folder; expected a model file") from None
    if note is None:
        raise FileError(
            f"{path}: the model was not made by 'maxmargin train', so that nothing tells how to "
            "make features of a file; use it from Python with maxmargin.load"
        )
    _check_note(path, note)
    model = load(path)
    if type(model) is not estimator_class(note["task"]):
        raise ModelFileError(
            f"cannot load {path}: it holds a {type(model).__name__}, which is no model of task "
            f"{note['task']}"
        )
    return ModelFile(model, *(note[key] for key in ModelFile._fields[1:]))


def _check_note(path: str, note: Any) -> None:
    """What stands beside the model must have the parts that the commands use."""
    kinds = {"version": int, "task": str, "recipe": dict, "baseline": dict, "data": dict}
    for key, kind in kinds.items():
        found = note.get(key) if type(note) is dict else None
        if type(found) is not kind:
            raise ModelFileError(
                f"cannot load {path}: {key} in its {_NOTE} must be a {kind.__name__}; received "
                f"{type(found).__name__}"
            )
        if key == "version" and note[key] > _VERSION:
            raise FileError(f"{path}: the model is from a newer maxmargin; upgrade to use it")
    if note["version"] < 1 or note["task"] not in TASKS:
        raise ModelFileError(f"cannot load {path}: its {_NOTE} names no task that there is")
