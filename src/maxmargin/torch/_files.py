"""Networks in files: a ``.npz`` of plain arrays with a description in JSON, without pickle."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._replacing import replacing
from .chain import Chain

_FORMAT = 1
_ABOUT, _WEIGHT, _MASK = "about", "weight:", "mask:"
_MASKS = ("transitions", "first", "last")


def write_network(
    path: str | os.PathLike[str], about: dict[str, Any], state: dict[str, Tensor], structure: Chain
) -> None:
    """Write a description, weights and constraints; the file is complete or not written."""
    text = json.dumps({"format": _FORMAT, "weights": list(state), **about})
    arrays = {_ABOUT: np.frombuffer(text.encode(), np.uint8)}
    for name, value in state.items():
        arrays[_WEIGHT + name] = value.detach().cpu().numpy()
    limits = structure.of_size(len(about["classes"]))
    if limits.forbid_anything:
        for name, mask in zip(_MASKS, limits.masks):
            arrays[_MASK + name] = mask
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_network(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any] | None]:
    """Read a file of :func:`write_network`: description, weights, constraints."""
    name = os.fspath(path)
    try:
        with np.load(name, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(bytes(arrays[_ABOUT]))
        version = about["format"]
        state = {key: torch.from_numpy(arrays[_WEIGHT + key].copy()) for key in about["weights"]}
        masks = [arrays[_MASK + mask] for mask in _MASKS if _MASK + mask in arrays]
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{name} is no file of a NeuralSequenceLabeler, or it is damaged: {error}"
        ) from None
    if version != _FORMAT:
        raise ValueError(f"{name} has format {version}; this version reads format {_FORMAT}.")
    return about, state, _constraints(about["classes"], masks)


def _constraints(classes: list, masks: list[np.ndarray]) -> dict[str, Any] | None:
    """Constraints that list what the masks forbid."""
    if len(masks) != len(_MASKS):
        return None
    transitions, first, last = masks
    return {
        "transitions": [(classes[a], classes[b]) for a, b in np.argwhere(~transitions)],
        "first": [classes[k] for k in np.flatnonzero(~first)],
        "last": [classes[k] for k in np.flatnonzero(~last)],
    }
