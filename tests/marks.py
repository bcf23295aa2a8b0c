"""Marks of single parameters of a test."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest


def more(*values):
    """Values of parameters that ``make test`` leaves to ``make test-more``."""
    return pytest.param(*values, marks=pytest.mark.more)


def split(names: Iterable, left: Container) -> list:
    """Names, of which ``make test`` leaves some to ``make test-more``."""
    return [more(name) if name in left else name for name in names]
