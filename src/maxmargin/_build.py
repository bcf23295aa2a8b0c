"""Build the prebuilt kernels of the package: ``python -m maxmargin._build [--jobs N] [NAME ...]``.

First fits (:mod:`._first_fits`) run in several processes, for the baseline of this kind of machine;
what they compile for Python to call becomes the store that :mod:`._kernels.store` reads. What a
store has already is kept and not built again. Names may end with ``*``.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from llvmlite import binding

from . import _first_fits
from ._first_fits import FIRST_FITS, in_groups
from ._kernels import store
from ._kernels.cache import VerifiedCache
from ._kernels.sources import PACKAGE, content_hash
from ._kernels.target import baseline
from ._progress import WorkReporter

_HEADING = "kernels"
_MOST_PROCESSES = 4  # by default: each takes up to 1 GB
_LAST_WORDS = 2000  # characters of the message of an error


class BuildError(RuntimeError):
    """Kernels could not be built."""


class Built(NamedTuple):
    """What a build did: the fits it ran, all compiled versions in the store, bytes, seconds."""

    fits: list[str]
    n_entries: int
    size: int
    seconds: float


def magic() -> tuple[str, str, str]:
    """What numba calls the baseline of this kind of machine."""
    target = baseline()
    if target is None:
        raise BuildError("prebuilt kernels have no baseline for this kind of processor")
    return binding.get_process_triple(), target.cpu, target.features


def chosen(patterns: Iterable[str] = ()) -> list[str]:
    """The names of first fits that match any of the patterns; all without one."""
    found: dict[str, None] = {}
    for pattern in patterns or ("*",):
        names = fnmatch.filter(FIRST_FITS, pattern)
        if not names:
            raise ValueError(
                f"no first fit is called {pattern!r}; there are {', '.join(FIRST_FITS)}"
            )
        found.update(dict.fromkeys(names))
    return list(found)


def _hash_of_list() -> str:
    """Changes with what first fits do."""
    return hashlib.sha256(Path(_first_fits.__file__).read_bytes()).hexdigest()


def _kept(folder: Path) -> dict[str, Any]:
    """The record of a store that can be added to; an empty one otherwise."""
    there = store.Store(folder)
    with contextlib.suppress(store.Damaged):
        if there.record is not None and not there.unfit(magic()):
            for digest in there.record["entries"]:
                there.read(digest)
            same = there.record.get("list") == _hash_of_list()
            return there.record if same else {**there.record, "fits": []}
    return {"fits": [], "entries": {}}


def missing(names: Iterable[str], folder: Path = store.FOLDER) -> list[str]:
    """Which of these fits a store does not have code for."""
    done = set(_kept(folder)["fits"])
    return [name for name in names if name not in done]


def build(
    names: Iterable[str] | None = None,
    jobs: int | None = None,
    folder: Path = store.FOLDER,
    verbose: int = 0,
) -> Built:
    """Add what some first fits need, all by default, to a store; nothing if it is there.

    Parameters
    ----------
    names : iterable of str, optional
    jobs : int, optional
        Number of processes; that of the processors by default, at most 4.
    folder : Path
    verbose : int
        1 shows a progress bar on a terminal, log lines elsewhere.
    """
    began = time.perf_counter()
    old = _kept(folder)
    wanted = [name for name in names or FIRST_FITS if name not in old["fits"]]
    if wanted:
        _check_writable(folder)
        with tempfile.TemporaryDirectory() as parts:
            entries = _run(wanted, jobs or default_jobs(), Path(parts), verbose)
            _write(folder, old, wanted, entries, Path(parts))
    record = store.Store(folder).record or old
    size = sum(path.stat().st_size for path in folder.glob("*")) if folder.exists() else 0
    return Built(wanted, len(record["entries"]), size, time.perf_counter() - began)


def default_jobs() -> int:
    """Number of processes unless told."""
    return min(os.cpu_count() or 1, _MOST_PROCESSES)


def is_writable(folder: Path = store.FOLDER) -> bool:
    """Whether a store can be written there."""
    return os.access(folder if folder.exists() else folder.parent, os.W_OK)


def _check_writable(folder: Path) -> None:
    if not is_writable(folder):
        raise BuildError(
            f"{folder} cannot be written: install the package where you may write, or run this as "
            "the user who installed it"
        )


def clear(folder: Path = store.FOLDER) -> int:
    """Remove a store; the number of bytes that were freed."""
    freed = 0
    for path in [folder / store.RECORD, *folder.glob("kernels-*.bin")]:
        with contextlib.suppress(FileNotFoundError):
            freed += path.stat().st_size
            path.unlink()
    with contextlib.suppress(OSError):  # not there, or something else is in it
        folder.rmdir()
    return freed


# --- the processes -------------------------------------------------------------------------------


class _Queue:
    """Fits that wait. A process stays with its group, whose fits share code."""

    def __init__(self, names: Iterable[str]):
        self._waiting = list(in_groups(names).values())
        self._started: list[list[str]] = []
        self._lock = threading.Lock()

    def fits(self) -> Iterator[str]:
        """Those of one process after the other."""
        own: list[str] = []  # the fit that runs, and those that follow it
        while True:
            with self._lock:
                del own[:1]
                if not own:
                    own = self._waiting.pop(0) if self._waiting else self._end_of_a_group()
                    self._started.append(own)
                if not own:
                    return
                name = own[0]
            yield name

    def _end_of_a_group(self) -> list[str]:
        """Fits of an estimator and surrogate, which share most code, behind the one that runs."""
        for group in sorted(self._started, key=len, reverse=True):
            kinds = [name.rpartition("/")[0] for name in group]
            first = kinds.index(kinds[-1]) if kinds else 0
            if first:
                found, group[first:] = group[first:], []
                return found
        return []


def _run(names: list[str], jobs: int, parts: Path, verbose: int) -> dict[str, str]:
    """Run fits in processes; the names of what was compiled, by the digests of their keys."""
    queue = _Queue(names)
    waiting = set(names)
    found: dict[str, str] = {}
    problems: list[str] = []
    lock = threading.Lock()
    workers: list[subprocess.Popen[str]] = []

    def serve(worker: subprocess.Popen[str], report: Callable[[str], None]) -> None:
        for name in queue.fits():
            answer = _ask(worker, name)
            with lock:
                waiting.discard(name)
                found.update(answer["entries"])
                problems.extend(answer["problems"])
                report(f"{name} {answer['seconds']:.1f} s")
            if answer["died"]:
                return

    with WorkReporter(verbose, _HEADING, len(names)) as reporter:
        try:
            for _ in range(min(jobs, len(names))):
                workers.append(_start(parts))
            threads = [
                threading.Thread(target=serve, args=(worker, reporter.done)) for worker in workers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
                    reporter.tick()
        finally:
            for worker in workers:
                _stop(worker)
    if problems or waiting:
        raise BuildError("; ".join([*problems, *(f"{name}: not run" for name in waiting)]))
    return found


def _start(parts: Path) -> subprocess.Popen[str]:
    _, cpu, features = magic()
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_DISABLE_INTEL_SVML": "1",  # other machines may not have it
        "PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("NUMBA_OPT", None)
    return subprocess.Popen(
        [sys.executable, "-m", "maxmargin._build", "--worker", str(parts)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _ask(worker: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """Have a process run a fit."""
    assert worker.stdin is not None and worker.stdout is not None
    died = {"entries": {}, "seconds": 0.0, "died": True, "problems": [f"{name}: the process died"]}
    try:
        worker.stdin.write(f"{name}\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        return died
    return json.loads(line) if line else died


def _stop(worker: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        assert worker.stdin is not None
        worker.stdin.close()
    try:
        worker.wait(5 if worker.poll() is None else None)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        worker.kill()
        worker.wait()


def _work(parts: Path, questions: IO[str], answers: IO[str]) -> None:
    """Run the fits whose names come in, and write what they compile into a folder."""
    entries: dict[str, str] = {}

    def collect(key: Any, payload: tuple) -> None:
        digest, content = store.pack(key, payload)
        entries[digest] = key[0][-2]
        (parts / digest).write_bytes(content)

    VerifiedCache.collect = collect
    for line in questions:
        name, began, problems = line.strip(), time.perf_counter(), []
        try:
            FIRST_FITS[name].run()
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {str(error)[-_LAST_WORDS:]}")
        answer = {"entries": dict(entries), "problems": problems, "died": False}
        entries.clear()
        answers.write(json.dumps({**answer, "seconds": time.perf_counter() - began}) + "\n")
        answers.flush()


# --- the files -----------------------------------------------------------------------------------


def _write(
    folder: Path, old: dict[str, Any], fits: list[str], entries: dict[str, str], parts: Path
) -> None:
    """Put a store in place: the code first, then the record that names it."""
    system, cpu, features = magic()
    before = (folder / old["file"]).read_bytes() if old["entries"] else b""
    contents = {
        digest: before[entry["offset"] : entry["offset"] + entry["size"]]
        for digest, entry in old["entries"].items()
    }
    names = {digest: entry["name"] for digest, entry in old["entries"].items()} | entries
    contents |= {digest: (parts / digest).read_bytes() for digest in entries}
    placed, offset = {}, 0
    for digest in sorted(names, key=lambda digest: (names[digest], digest)):
        content = contents[digest]
        placed[digest] = {
            "name": names[digest], "offset": offset, "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip
        offset += len(content)
    code = b"".join(contents[digest] for digest in placed)
    file = f"kernels-{hashlib.sha256(code).hexdigest()[:16]}.bin"
    record = {
        "format": store.FORMAT, **store.versions(), "sources": content_hash(), "system": system,
        "cpu": cpu, "features": features, "file": file,
        "list": _hash_of_list(), "fits": sorted({*old["fits"], *fits}), "entries": placed,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    _replace(folder / file, code)
    _replace(folder / store.RECORD, json.dumps(record, indent=0).encode())
    for path in folder.glob("kernels-*.bin"):
        if path.name != file:
            path.unlink()


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


def main(arguments: list[str]) -> int:
    """The command line, for those who have no ``maxmargin kernels``."""
    parser = argparse.ArgumentParser(prog="python -m maxmargin._build", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="first fits, such as 'sequence/*'")
    parser.add_argument("--jobs", type=int, help=f"number of processes (default: {default_jobs()})")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        answers, sys.stdout = sys.stdout, sys.stderr
        _work(Path(options.worker), sys.stdin, answers)
        os._exit(0)  # at once: to free all that was compiled takes seconds
    try:
        built = build(chosen(options.names), options.jobs, verbose=1)
    except (BuildError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stderr.write(f"{summary(built)}\n")
    return 0


def summary(built: Built) -> str:
    """A build in one line."""
    return (
        f"{built.n_entries} kernels in {store.FOLDER} ({built.size / 1e6:.1f} MB); "
        f"{len(built.fits)} of {len(FIRST_FITS)} first fits built in {built.seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
