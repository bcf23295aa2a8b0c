"""Model files of the command line: ``maxmargin.save``, and beside it what a file needs.

``task.json`` in the same archive holds the task, the recipe that makes features of a file, the
baseline and the scores. ``maxmargin.load`` reads such a file as any other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..files import FileError
from ..persistence import load, read_note, write_model
from ._output import plain

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


def read_model_file(path: str) -> ModelFile:
    """Read a model that ``maxmargin train`` wrote."""
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
    if note["version"] > _VERSION:
        raise FileError(f"{path}: the model is from a newer maxmargin; upgrade to use it")
    return ModelFile(load(path), *(note[key] for key in ModelFile._fields[1:]))
