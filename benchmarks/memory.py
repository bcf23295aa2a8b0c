"""Memory of a fit on the handwritten words: peaks of whole processes.

All processes load the same words. One fits them all; one fits 20 of them, and so pays for the
imports and the compiled code too. The difference is what grows with the data:

    features as CSR       12 bytes a non-zero, 16 a row, and the array they were packed from
    Gram matrices          8 bytes per pair of positions of a word, each pair once
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
FEW = 20

_CODE = """
import sys
from benchmarks.data import words
from benchmarks.memory import peak_of_this_process
from maxmargin import HammingLoss, SequenceLabeler
train = words("train")
n = int(sys.argv[2])
options = {"alpha": 1 / n, "loss": HammingLoss(normalize=True), "tol": 0, "max_iter": 10}
model = SequenceLabeler(solver=sys.argv[1], random_state=0, **options)
model.fit(train.X[:n], train.y[:n])
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


def peak_mb(solver: str, n_words: int) -> float:
    """Peak memory of a new process that loads all words and fits some of them."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, solver, str(n_words)],
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


def measure(solver: str, n_words: int, repeats: int, formula: str) -> Line:
    """One solver."""
    peak_mb(solver, FEW)  # compiles
    few = Sample([peak_mb(solver, FEW) for _ in range(repeats)]).median
    peaks = Sample([peak_mb(solver, n_words) for _ in range(repeats)])
    return Line(
        "memory",
        f"OCR letters ({n_words} words), a fit with solver={solver!r}: peak of the process",
        "MB",
        peaks,
        Sample([PYSTRUCT_MB]),
        "PyStruct",
        peer_is_constant=True,
        note=f"{peaks.median - few:.0f} MB more than a process that fits {FEW} words; {formula}",
    )


def run(repeats: int) -> list[Line]:
    """Both solvers of sequences."""
    features, products = packed_mb()
    formula = (
        f"by the formula, features {features:.0f} MB and Gram matrices {products:.1f} MB of it"
    )
    n_words = len(words("train").X)
    return [measure(solver, n_words, min(repeats, 3), formula) for solver in ("bcfw", "pairwise")]
