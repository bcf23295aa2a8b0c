"""Run the tests in several short-lived processes, two at a time: ``python tests/run.py [options]``.

Nearly all the time of a first run is compilation, and the compiler becomes slower the more a
process has compiled already. So files are run in groups that share kernels, each group in a process
of its own; what one compiles the others find on disk. Files that are named among the options are
the only ones run; other options are handed to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
N_PROCESSES = 2
# Groups that compile most come first. All other files are dealt out to the rest.
GROUPS = (
    "rankings matchings",
    "chain_max_min mirror_prox hidden_labels equivalences oracles",
    "hidden_graphs graph_labeler grid_labeler multilabel_edges soft_agreement node_kinds",
    "unusual_input kernels duality",
    "crf_chain sum_product kernels_sequences",
    "tree_parser arborescence subsets",
    "decoding graph_baselines bad_graphs",
    "multilabel_manners multilabel sklearn_manners crf",
    "cli_commands cli_resume cli_terminal cli_docs cli_bad_input",
    "latent latent_predictor spaces best_labellings unusual_sequences",
    "cache pipeline four_pairs optional",
    "hostile_cache",
    "readme demo experiments report plot",
)
N_REST = 3
NOTHING_COLLECTED = 5
SECONDS_BETWEEN_LINES = 12.0  # in a log; a terminal has one line that is drawn again
SECONDS_BETWEEN_DRAWINGS = 0.5
# Minutes on two cores of the tests that are not slow: from an empty cache, and from a full one.
MINUTES_COMPILING, MINUTES_COMPILED = 8, 3
OUTCOME = re.compile(r"^(\S.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*\[ *\d+%\]$")


def cache_of_tests(environment: Mapping[str, str]) -> Path:
    """The cache of compiled code for a level of optimisation and a processor."""
    name = f"tests-{environment.get('NUMBA_OPT', '1')}"
    processor = environment.get("NUMBA_CPU_NAME")
    return FOLDER.parent / ".cache" / (f"{name}-{processor}" if processor else name)


def groups(wanted: set[str]) -> list[list[str]]:
    """Test files, group by group; every file is in one. Only those that are wanted, if any."""
    named = [[f"test_{name}.py" for name in group.split()] for group in GROUPS]
    taken = {name for group in named for name in group}
    rest = sorted(path.name for path in FOLDER.glob("test_*.py") if path.name not in taken)
    missing = [name for name in taken if not (FOLDER / name).exists()]
    if missing:
        raise SystemExit(f"{__file__} names files that are not there: {', '.join(missing)}")
    found = named + [rest[k::N_REST] for k in range(N_REST)]
    chosen = [[name for name in group if not wanted or name in wanted] for group in found]
    return [group for group in chosen if group]


class Board:
    """What is said while the tests run; lines come whole, from any thread."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.n_done = self.n_failed = 0
        self.n_total: int | None = None
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

    def count(self, line: str) -> bool:
        """Whether a line of pytest is the outcome of a test. A failure is said at once."""
        found = OUTCOME.match(line)
        if not found:
            return False
        with self._lock:
            self.n_done += 1
            if bad := found[2] in ("FAILED", "ERROR", "XPASS"):
                self.n_failed += 1
        if bad:
            self.say(f"{self.seconds():5.0f} s  {found[2]} {found[1]}")
        return True

    def tick(self) -> None:
        """Say how far the tests are, unless something was said a moment ago."""
        pause = SECONDS_BETWEEN_DRAWINGS if self._on_terminal else SECONDS_BETWEEN_LINES
        with self._lock:
            if time.monotonic() - self._said < pause:
                return
            total = "" if self.n_total is None else f" of {self.n_total}"
            line = (
                f"{self.seconds():5.0f} s  {self.n_done}{total} tests done, {self.n_failed} failed"
            )
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


def pytest_on(files: list[str], options: list[str]) -> subprocess.Popen[str]:
    """Pytest on some files, its output line by line."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *(str(FOLDER / name) for name in files)],
        cwd=FOLDER.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def run(files: list[str], options: list[str], board: Board) -> tuple[int, str]:
    """Exit code and report of pytest on some files."""
    process = pytest_on(files, ["-v", "--no-header", *options])
    assert process.stdout is not None
    report = [line for line in process.stdout if not board.count(line.rstrip())]
    return process.wait(), "".join(report)


def count_all(files: list[str], options: list[str], board: Board) -> None:
    """Tell the board how many tests there are."""
    said = pytest_on(files, ["--collect-only", "-q", "--no-header", *options]).communicate()[0]
    found = re.search(r"^(\d+)(?:/\d+)? tests? collected", said, re.M)
    if found:
        board.n_total = int(found[1])


def counts(output: str) -> Counter[str]:
    """Numbers of tests by outcome, from the last line of pytest."""
    last = output.rstrip().rsplit("\n", 1)[-1]
    found: Counter[str] = Counter()
    for number, outcome in re.findall(r"(\d+) (passed|failed|skipped|xfailed|xpassed|error)", last):
        found[outcome] += int(number)
    return found


def duration() -> str:
    """How long the tests that are not slow take, by what is compiled already."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_of_tests(os.environ)))
    from maxmargin._kernels.jit import cache_folder

    folder = cache_folder()
    if folder is not None and folder.exists():
        return (
            f"about {MINUTES_COMPILED} minutes on two cores, or up to {MINUTES_COMPILING} if not "
            f"all is compiled yet (in {folder})"
        )
    return f"about {MINUTES_COMPILING} minutes on two cores, most of them to compile: no {folder}"


def finish(files: list[str], code: int, output: str, board: Board) -> tuple[Counter[str], str]:
    """Outcomes of a group, and its name if it failed."""
    found = counts(output)
    good = code in (0, NOTHING_COLLECTED) and not found["failed"] and not found["error"]
    names = " ".join(name.removeprefix("test_").removesuffix(".py") for name in files)
    said = ", ".join(f"{number} {outcome}" for outcome, number in found.items() if number)
    line = f"{board.seconds():5.0f} s  {names}: {said or 'no tests'}"
    board.say(line if good else f"{line}\n{output}")
    return found, "" if good else names


def main(words: list[str]) -> int:
    chosen = {Path(word).name for word in words if re.search(r"(^|[\\/])test_\w+\.py$", word)}
    options = [word for word in words if Path(word).name not in chosen]
    work = groups(chosen)
    files = [name for group in work for name in group]
    board = Board()
    board.say(f"running {len(files)} test files in {len(work)} groups, two processes at a time")
    total: Counter[str] = Counter()
    failed = []
    with ThreadPoolExecutor(N_PROCESSES) as pool, ThreadPoolExecutor(1) as counting:
        waiting: dict[Future, list[str]] = {
            pool.submit(run, group, options, board): group for group in work
        }
        counting.submit(count_all, files, options, board)
        if not chosen:
            more = "" if "not slow" in options else "; those marked slow come on top"
            board.say(f"  {duration()}{more}")
        try:
            while waiting:
                for future in wait(waiting, 0.2, FIRST_COMPLETED).done:
                    found, bad = finish(waiting.pop(future), *future.result(), board)
                    total += found
                    failed += [bad] if bad else []
                board.tick()
        except KeyboardInterrupt:  # those under way have met it, too
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    said = ", ".join(f"{number} {outcome}" for outcome, number in total.items())
    board.say(f"{said} in {board.seconds():.0f} s")
    if failed:
        board.say(f"failed: {'; '.join(failed)}")
    return 1 if failed or not total["passed"] else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
