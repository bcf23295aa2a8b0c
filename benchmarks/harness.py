"""What every benchmark needs: repeated runs, all sides in turn, and one line for the table."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """Numbers measured in the runs of one side."""

    runs: list[float]

    @property
    def median(self) -> float:
        return median(self.runs)

    def scaled(self, factor: float) -> Sample:
        """The same in another unit."""
        return Sample([factor * run for run in self.runs])

    def rate(self, amount: float) -> Sample:
        """Amount of work per second, if the runs are seconds."""
        return Sample([amount / run for run in self.runs])


@dataclass(frozen=True)
class Target:
    """What a line is meant to reach: a ratio to the peer, or a value of our own."""

    kind: str  # "ratio" (at least), "at most" or "at least"
    value: float

    def reached(self, line: Line) -> bool:
        if self.kind == "ratio":
            return line.ratio is not None and line.ratio >= self.value
        if self.kind == "at most":
            return line.ours.median <= self.value
        return line.ours.median >= self.value


@dataclass(frozen=True)
class Line:
    """One line of the table.

    ``ratio`` is how many times better we are than the peer, whatever the unit; below 1 we lose.
    ``peer`` is a sample measured in the same run, or a constant that was measured elsewhere (then
    ``peer_is_constant``), or missing.
    """

    benchmark: str
    what: str
    unit: str
    ours: Sample
    peer: Sample | None = None
    peer_name: str = ""
    peer_is_constant: bool = False
    more_is_better: bool = False
    target: Target | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if self.peer is None:
            return None
        ours, peer = self.ours.median, self.peer.median
        return ours / peer if self.more_is_better else peer / ours

    @property
    def reached(self) -> bool | None:
        return self.target.reached(self) if self.target else None

    def as_dict(self) -> dict[str, Any]:
        """Everything, for the JSON file."""
        derived = {"ratio": self.ratio, "reached": self.reached, "median": self.ours.median}
        derived["peer_median"] = self.peer.median if self.peer else None
        return {**asdict(self), **derived}


def seconds(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def alternate(repeats: int, sides: Mapping[str, Callable[[int], float]]) -> dict[str, Sample]:
    """Run all sides in turn, ``repeats`` times; each gets the number of the run, returns a number.

    Taking turns lets a disturbance of the machine meet everyone. Objects that exist before, such as
    a million prebuilt features of one side, are kept out of the other sides' garbage collections.
    """
    runs: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    gc.freeze()
    try:
        for run in range(repeats):
            for name, side in sides.items():
                runs[name].append(side(run))
    finally:
        gc.unfreeze()
    return {name: Sample(values) for name, values in runs.items()}
