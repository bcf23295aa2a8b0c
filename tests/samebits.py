"""What tests of model files share: a small problem, and equality in type, value and bits."""

from __future__ import annotations

import numpy as np


def problem():
    random = np.random.default_rng(0)
    y = np.repeat(["ash", "birch", "elm"], 10)
    return random.normal(size=(30, 4)) + np.repeat(np.eye(3, 4) * 3, 10, axis=0), y


def assert_same(first, second):
    """Equal in type, value and bits, at every depth."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype and first.shape == second.shape
        if first.dtype != object:
            assert first.tobytes() == second.tobytes()
        else:
            assert_same(first.ravel().tolist(), second.ravel().tolist())
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second):
            assert_same(one, other)
    elif isinstance(first, dict):
        assert_same(list(first.items()), list(second.items()))
    elif isinstance(first, float | np.inexact):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()
    else:
        assert first == second
