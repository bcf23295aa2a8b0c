"""Checks of the attributes of estimators, put together to schemas in :mod:`._fitted`.

A check takes a value and the sizes known so far, and raises ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._indices import check_array, check_finite_array, check_within
from ._validation import is_array, is_integer, is_number, is_switch, is_text

Sizes = dict[str, int]
Check = Callable[[Any, Sizes], None]


class Optional:
    """A check of an attribute that not every fit has."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def __call__(self, value: Any, sizes: Sizes) -> None:
        self._check(value, sizes)


def agree(names: tuple[Any, ...], shape: tuple[int, ...], sizes: Sizes) -> None:
    """The shape has the sizes of these names (or numbers), which are fixed where they are new."""
    wanted = [sizes.get(name) if is_text(name) else name for name in names]
    if len(shape) != len(names) or any(
        k not in (None, n) for k, n in zip(wanted, shape, strict=True)
    ):
        listed = ", ".join(
            f"{name}={k}" if is_text(name) else str(name)
            for name, k in zip(names, wanted, strict=True)
        )
        raise ValueError(f"expected shape ({listed}), received {shape}")
    sizes.update((name, n) for name, n in zip(names, shape, strict=True) if is_text(name))


def real(*names: Any, dtype: Any = np.float64) -> Check:
    """Finite numbers of double precision, or another."""

    def check(value: Any, sizes: Sizes) -> None:
        array = check_array("it", value, dtype, (None,) * len(names))
        agree(names, array.shape, sizes)
        check_finite_array("it", array)

    return check


def flags(*names: Any) -> Check:
    """Truth values."""

    def check(value: Any, sizes: Sizes) -> None:
        agree(names, check_array("it", value, bool, (None,) * len(names)).shape, sizes)

    return check


def indices(*names: Any, below: str | None = None) -> Check:
    """Integers of at least 0, and less than a size."""

    def check(value: Any, sizes: Sizes) -> None:
        array = check_array("it", value, np.int64, (None,) * len(names))
        agree(names, array.shape, sizes)
        check_within("it", array, 0, np.iinfo(np.int64).max if below is None else sizes[below])

    return check


def labels(name: str) -> Check:
    """Hashable labels that differ."""

    def check(value: Any, sizes: Sizes) -> None:
        if not is_array(value) or value.ndim != 1 or not len(value):
            raise ValueError(f"expected an array of labels, received {short(value)}")
        if len(set(value.tolist())) != len(value):
            raise ValueError("the labels must differ")
        agree((name,), value.shape, sizes)

    return check


def size(name: str, at_least: int = 0) -> Check:
    """An integer that is the size of something."""

    def check(value: Any, sizes: Sizes) -> None:
        integer(at_least)(value, sizes)
        agree((name,), (int(value),), sizes)

    return check


def integer(at_least: int = 0, at_most: float = math.inf) -> Check:
    """An integer in a range."""

    def check(value: Any, sizes: Sizes) -> None:
        if not is_integer(value) or not at_least <= value <= at_most:
            raise ValueError(f"expected an integer of at least {at_least}, received {short(value)}")

    return check


def number(above: float = -math.inf, at_least: float = -math.inf, finite: bool = False) -> Check:
    """A number; NaN is none."""

    def check(value: Any, sizes: Sizes) -> None:
        above_limit = is_number(value) and (value > above or above == -math.inf)
        if not above_limit or not value >= at_least:
            raise ValueError(f"expected a number, received {short(value)}")
        if finite and not math.isfinite(value):
            raise ValueError(f"expected a finite number, received {value}")

    return check


def one_of(*values: Any) -> Check:
    """One of some values."""

    def check(value: Any, sizes: Sizes) -> None:
        if not any(type(value) is type(known) and value == known for known in values):
            raise ValueError(f"expected one of {values}, received {short(value)}")

    return check


def list_of(check_item: Check) -> Check:
    """A list."""

    def check(value: Any, sizes: Sizes) -> None:
        if type(value) is not list:
            raise ValueError(f"expected a list, received {short(value)}")
        for item in value:
            check_item(item, sizes)

    return check


def text(value: Any, sizes: Sizes) -> None:
    """A string."""
    if not is_text(value):
        raise ValueError(f"expected a string, received {short(value)}")


def record(kind: str) -> Check:
    """A Check or a Round: numbers by name."""

    def check(value: Any, sizes: Sizes) -> None:
        if type(value).__name__ != kind or not isinstance(value, tuple):
            raise ValueError(f"expected a {kind}, received {short(value)}")
        for item in value:  # NaN: what a solver cannot know
            if not (item is None or is_number(item) or is_switch(item)):
                raise ValueError(f"expected numbers in a {kind}, received {short(item)}")

    return check


def short(value: Any) -> str:
    if is_array(value):
        return f"{value.dtype} of shape {value.shape}"
    return f"{type(value).__name__} {str(value)[:40]!r}"
