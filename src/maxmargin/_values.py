"""Values: parameters that belong together, in one parameter of an estimator."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator


class Value(BaseEstimator):
    """Base of values; subclasses list their parameters in the constructor.

    A value is printed, cloned and saved like an estimator, and its parameters can be searched over
    (``kernel__gamma``). Most have short forms, such as a name or True, for their usual parameters.
    """

    @classmethod
    def of(cls, given: Any) -> Self:
        """The value itself, or the one that a short form stands for."""
        return given if isinstance(given, cls) else cls.from_short(given)

    @classmethod
    def from_short(cls, given: Any) -> Self:
        """The value that a short form stands for: by default with it as the first parameter."""
        return cls(given)

    def validate(self) -> None:
        """Refuse parameters that no data could use."""
