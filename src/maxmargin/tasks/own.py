"""Outputs that only their users know: equal ones are right, others cost what users say."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Data, Task, Trivial
from .measures import Measure, Outputs, exact_match


class OtherTask(Task):
    """Outputs that are equal or not."""

    key = "other"
    title = "structured prediction"
    part = "output"
    classes = ()

    def __init__(self, model: Any):
        super().__init__(model)
        self.names: dict[str, int] = {}  # outputs as texts, and their codes
        self.outputs: list[Any] = []

    def encode(self, X: Any, y: Any) -> Outputs:
        listed = list(y)
        return Outputs.of_list(([self._code(value)] for value in listed), (X, listed))

    def _code(self, value: Any) -> int:
        code = self.names.setdefault(repr(_listed(value)), len(self.names))
        if code == len(self.outputs):
            self.outputs.append(value)
        return code

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return self.encode(X, self.model.predict(X))

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        return exact_match(truth, found)

    def trivial(self, truth: Outputs) -> Trivial | None:
        return {"says": "always the most frequent output",
                "code": int(np.bincount(truth.codes).argmax())}  # fmt: skip

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        best, n = trivial["code"], len(truth)
        given = (truth.given[0], [self.outputs[best]] * n)
        return Outputs(np.full(n, best), truth.indptr, given)

    def alone(self, train: Data, test: Data) -> None:
        return None


class StructuredTask(OtherTask):
    """Outputs of a structure of the user, which says what a mistake costs."""

    key = "structured"

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        loss = self.model.structure.loss
        losses = [loss(t, p) for t, p in zip(truth.given[1], found.given[1], strict=True)]
        return Measure("mean loss", np.array(losses, float), np.ones(len(losses)), False, True)

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [exact_match(truth, found)]


class LatentTask(OtherTask):
    """Outputs that depend on variables nobody observed; the model tells how far off it is."""

    key = "latent"
    title = "prediction with latent variables"

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        right = 1.0 - np.asarray(self.model.distortions(*truth.given), float)
        return Measure("1 - distortion", right, np.ones(len(right)))

    def trivial(self, truth: Outputs) -> None:
        return None  # a distortion is that of the predictions of the model


def _listed(value: Any) -> Any:
    """Arrays and tuples as lists, so that equal outputs read alike; sets in order."""
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case set() | frozenset():
            return sorted(map(repr, value))
        case list() | tuple():
            return [_listed(entry) for entry in value]
    return value
