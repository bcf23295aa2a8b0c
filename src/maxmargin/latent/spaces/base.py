"""What all output spaces share: parameters as in scikit-learn, and checks of what users write."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from ..._validation import has_items, is_mapping

# Outputs that may be listed.
MOST_OUTPUTS = 5_000_000


class Space(BaseEstimator):
    """What all spaces share; parameters as in scikit-learn, so that a space can be cloned."""

    def for_input(self, x: Any) -> Any:
        """The space of one input."""
        return self


def check_count(count: int, space: Any) -> None:
    if count > MOST_OUTPUTS:
        raise ValueError(
            f"{space!r} has too many outputs to list them (more than {MOST_OUTPUTS:,}); use "
            "random structures."
        )


def as_list(y: Any, where: str) -> list:
    if is_mapping(y) or not has_items(y):
        raise ValueError(f"{where} must be a list; received {y!r}.")
    return list(y)


def as_integers(y: Any, where: str, what: str) -> list[int]:
    items = as_list(y, where)
    out = []
    for item in items:
        try:
            number = int(item)
            right = number == item
        except (TypeError, ValueError, OverflowError):
            right = False
        if not right:
            raise ValueError(f"{where} holds {item!r}; expected {what} as integers.")
        out.append(number)
    return out
