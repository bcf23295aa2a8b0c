"""Sequences of numbers and labels, as estimators of networks read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..features.column_names import common_names


def read_sequences(
    X: Any, y: Any = None, names: list[str] | None = None
) -> tuple[list[Tensor], list[np.ndarray]]:
    """Sequences as tensors, floats in single precision, and labels as arrays.

    Data frames must have the same columns, those of ``names`` if given.
    """
    if isinstance(X, (str, np.ndarray, Tensor)) and getattr(X, "ndim", 0) < 2:
        raise ValueError("X must be a list of sequences.")
    X = list(X)
    common_names(X, names)
    inputs: list[Tensor] = []
    for i, each in enumerate(X):
        values = _tensor(each, i)
        if values.ndim == 0 or len(values) == 0:
            raise ValueError(f"X[{i}] has no positions.")
        if inputs and values.shape[1:] != inputs[0].shape[1:]:
            raise ValueError(
                f"X[{i}] has shape {tuple(values.shape)}, but X[0] has {tuple(inputs[0].shape)}; "
                "sequences may differ in length only."
            )
        if values.is_floating_point():
            values = values.float()
            if not bool(torch.isfinite(values).all()):
                raise ValueError(f"X[{i}] contains NaN or infinity.")
        inputs.append(values)
    if not inputs:
        raise ValueError("X is empty: there are no sequences.")
    if y is None:
        return inputs, []
    if len(y) != len(inputs):
        raise ValueError(f"X has {len(inputs)} sequences, but y has {len(y)}.")
    labels = [np.asarray(each) for each in y]
    for i, each in enumerate(labels):
        if each.shape != (len(inputs[i]),):
            raise ValueError(
                f"y[{i}] must have one label for each of {len(inputs[i])} positions; received "
                f"shape {each.shape}."
            )
        if each.dtype == object and any(label is None for label in each):
            raise ValueError(
                f"y[{i}][{each.tolist().index(None)}] is None; every position must have a label."
            )
    return inputs, labels


def _tensor(x: Any, i: int) -> Tensor:
    """A sequence as a tensor of numbers."""
    if isinstance(x, Tensor):
        return x
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"X[{i}] must hold numbers, such as features or indices of words; received "
            f"{array.dtype}."
        )
    return torch.as_tensor(np.require(array, requirements="W"))  # of frames: read only
