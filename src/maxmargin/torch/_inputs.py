"""Sequences of numbers and labels, as estimators of networks read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def read_sequences(X: Any, y: Any = None) -> tuple[list[Tensor], list[np.ndarray]]:
    """Sequences as tensors, floats in single precision, and labels as arrays."""
    if isinstance(X, (str, np.ndarray, Tensor)) and getattr(X, "ndim", 0) < 2:
        raise ValueError("X must be a list of sequences.")
    inputs = []
    for i, each in enumerate(X):
        values = torch.as_tensor(np.asarray(each) if not isinstance(each, Tensor) else each)
        if values.ndim == 0 or len(values) == 0:
            raise ValueError(f"X[{i}] has no positions.")
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
    return inputs, labels
