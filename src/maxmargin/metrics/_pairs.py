"""True and predicted outputs, example by example, checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._validation import check_listed


def take_pairs(y_true: Any, y_pred: Any, parts: str) -> Iterator[tuple[Any, Any]]:
    """Pairs of outputs with the same number of parts, which are called ``parts``."""
    for name, value in (("y_true", y_true), ("y_pred", y_pred)):
        check_listed(name, value, f"a list with the {parts} of each example")
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"y_true has {len(y_true)} examples but y_pred has {len(y_pred)}; expected the same "
            "number."
        )
    for i, (true, predicted) in enumerate(zip(y_true, y_pred)):
        check_listed(f"y_true[{i}]", true, f"a list of {parts}")
        check_listed(f"y_pred[{i}]", predicted, f"a list of {parts}")
        if len(true) != len(predicted):
            raise ValueError(
                f"y_true[{i}] has {len(true)} {parts} but y_pred[{i}] has {len(predicted)}; "
                "expected the same number."
            )
        yield true, predicted
