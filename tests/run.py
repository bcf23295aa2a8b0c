"""Run the tests: ``python tests/run.py [options]``.

First the prebuilt kernels, which most tests use, are built in several processes. Then as many
processes as there are processors run the tests, file by file: each takes the next file that nobody
has taken. What one compiles beyond the kernels the others find on disk. Files that are named among
the options are the only ones run; a folder is run in place of this one; other options are handed to
pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# What takes longest comes first; the rest follows by name.
LONG = (
    "prebuilt distributed tree_parser rankings soft_agreement second_order chain_max_min crf_chain "
    "hidden_graphs hidden_labels decoding tasks resume multilabel sklearn_interface duality "
    "kernels graph_labeler matchings multilabel_edges cli_commands cli_resume whole_fits"
)
NOTHING_COLLECTED = 5
SECONDS_BETWEEN_LINES = 12.0  # in a log; a terminal has one line that is drawn again
SECONDS_BETWEEN_DRAWINGS = 0.5
OUTCOME = re.compile(r"^(\S.*?)::(.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*\[ *\d+%\]$")
# The last one: a file that cannot be imported must not hide the others.
OPTIONS = ("-v", "--no-header", "-p", "claims", "--continue-on-collection-errors")
BAD = ("FAILED", "ERROR", "XPASS")


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What the tests change in the environment, unless it says otherwise.

    The tests have a cache of their own, and one thread of BLAS per process: more threads than
    processors, which wait for each other, take several times as long. They compile for the
    processor that prebuilt kernels are for, so that what they compile beyond these fits together
    with them; ``MAXMARGIN_PREBUILT=0`` has them use neither.
    """
    from maxmargin._kernels.target import baseline, is_supported

    name, found = "tests", dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    processor = environment.get("NUMBA_CPU_NAME")
    target = baseline()
    if environment.get("MAXMARGIN_PREBUILT") == "0":
        name += "-compiled"
    elif processor is None and target is not None and is_supported(target):
        found |= {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features}
    if processor is not None:
        name += f"-{processor}"
    if "NUMBA_OPT" in environment:
        name += f"-{environment['NUMBA_OPT']}"
    found["NUMBA_CACHE_DIR"] = str(FOLDER.parent / ".cache" / name)
    return {key: value for key, value in found.items() if key not in environment}


def in_order(wanted: set[str], folder: Path = FOLDER) -> list[str]:
    """All test files of a folder, or those that are wanted, the longest first."""
    first = [f"test_{name}.py" for name in LONG.split() if folder == FOLDER]
    missing = [name for name in first if not (FOLDER / name).exists()]
    if missing:
        raise SystemExit(f"{__file__} names files that are not there: {', '.join(missing)}")
    rest = sorted(path.name for path in folder.glob("test_*.py") if path.name not in first)
    return [name for name in first + rest if not wanted or name in wanted]


class Board:
    """What is said while the tests run; lines come whole, from any thread."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.counts: dict[str, Counter[str]] = {}
        self._said = self.began
        self._drawn = ""
        self._on_terminal = sys.stdout.isatty()
        self._lock = threading.Lock()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def say(self, text: str) -> None:
        """A line, or several, that stay."""
        with self._lock:
            self._wipe()
            self._write(text if text.endswith("\n") else f"{text}\n")

    def file_of(self, line: str) -> str:
        """The file whose test had the outcome in a line of pytest, if any; failures are said."""
        found = OUTCOME.match(line)
        if not found:
            return ""
        file, test, outcome = Path(found[1]).name, found[2], found[3]
        self.counts.setdefault(file, Counter())[outcome.lower()] += 1
        if outcome in BAD:
            self.say(f"{self.seconds():5.0f} s  {outcome} {file}::{test}")
        return file

    def finish(self, file: str) -> None:
        """Say how the tests of a file went."""
        said = ", ".join(f"{n} {outcome}" for outcome, n in self.counts[file].items())
        self.say(
            f"{self.seconds():5.0f} s  {file.removeprefix('test_').removesuffix('.py')}: {said}"
        )

    def total(self) -> Counter[str]:
        return sum(list(self.counts.values()), Counter())

    def tick(self) -> None:
        """Say how far the tests are, unless something was said a moment ago."""
        pause = SECONDS_BETWEEN_DRAWINGS if self._on_terminal else SECONDS_BETWEEN_LINES
        total = self.total()
        bad = sum(total[outcome.lower()] for outcome in BAD)
        line = f"{self.seconds():5.0f} s  {total.total()} tests done, {bad} failed"
        with self._lock:
            if time.monotonic() - self._said < pause:
                return
            if self._on_terminal:
                self._wipe()
                line = line[: shutil.get_terminal_size().columns - 1]
                self._write(line)
                self._drawn = line
            else:
                self._write(f"{line}\n")

    def _wipe(self) -> None:
        if self._drawn:
            sys.stdout.write("\r" + " " * len(self._drawn) + "\r")
            self._drawn = ""

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._said = time.monotonic()


class Runner(threading.Thread):
    """A process of pytest that runs the files it takes."""

    def __init__(self, files: list[Path], options: list[str], claims: str, board: Board):
        super().__init__()
        command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
        self.process = subprocess.Popen(
            [*command, *map(str, files)],
            cwd=FOLDER.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=os.environ | {"MAXMARGIN_TEST_CLAIMS": claims},
        )  # fmt: skip
        self._board = board
        self.report = ""
        self.code: int | None = None

    def run(self) -> None:
        assert self.process.stdout is not None
        before, lines = "", []
        for line in self.process.stdout:
            file = self._board.file_of(line.rstrip())
            if not file:
                lines.append(line)
            elif before and file != before:
                self._board.finish(before)
            before = file or before
        if before:
            self._board.finish(before)
        self.report = "".join(lines)
        self.code = self.process.wait()


def build_kernels(board: Board) -> None:
    """Build the prebuilt kernels, unless they are there."""
    from maxmargin import _build

    if os.environ.get("MAXMARGIN_PREBUILT") != "0":
        built = _build.build(verbose=1)
        board.say(f"{board.seconds():5.0f} s  {_build.summary(built)}")


def main(words: list[str]) -> int:
    os.environ.update(variables(os.environ))
    chosen = {Path(word).name for word in words if re.search(r"(^|[\\/])test_\w+\.py$", word)}
    options = [word for word in words if Path(word).name not in chosen]
    folder = next((Path(word).resolve() for word in options if Path(word).is_dir()), FOLDER)
    options = [word for word in options if not Path(word).is_dir()]
    files = [folder / name for name in in_order(chosen, folder)]
    board = Board()
    build_kernels(board)
    n_processes = min(os.cpu_count() or 1, len(files))
    board.say(f"running {len(files)} test files in {n_processes} processes")
    with tempfile.TemporaryDirectory() as claims:
        runners = [Runner(files, options, claims, board) for _ in range(n_processes)]
        for runner in runners:
            runner.start()
        while any(runner.is_alive() for runner in runners):
            time.sleep(0.2)
            board.tick()
    failed = [runner for runner in runners if runner.code not in (0, NOTHING_COLLECTED)]
    for runner in failed:
        board.say(runner.report)
    total = board.total()
    said = ", ".join(f"{number} {outcome}" for outcome, number in total.items())
    board.say(f"{said or 'no tests'} in {board.seconds():.0f} s")
    return 1 if failed or not total["passed"] else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
