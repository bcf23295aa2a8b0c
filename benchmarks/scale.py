"""Partitions: what threads and clusters are worth, and that nothing is lost with a worker.

    threads     time to a certified gap of 5 %, two threads against one and against the plain
                solver; of a pass alone, two threads against one; and what two processors can reach:
                plain fits in two processes side by side, against one after another
    rounds      to the same gap, by the number of partitions; a fit ends without the gap after 100
                rounds or 200 s of CPU time, and its line says so
    overhead    of a round on Dask and Ray beyond the compute, with 1 MB of weights
    kills       workers killed at random moments: true certificates of all runs
    memory      generated shards larger than the memory that the process may have

``MAXMARGIN_SCALE`` chooses some of them, separated by commas, and ``MAXMARGIN_SCALE_DATA`` the
data sets for threads and rounds; ``MAXMARGIN_SCALE_PARTITIONS`` chooses numbers of partitions for
rounds, and ``MAXMARGIN_SCALE_SOLVERS`` "accelerated" or "plain". What was measured is kept beside
the picture, which shows the last measurement of each. ``MAXMARGIN_SCALE_KILLS`` and
``MAXMARGIN_SCALE_GB`` make the last two shorter than 20 kills and 3 GB.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import (
    Averaged,
    BlockFrankWolfe,
    MulticlassClassifier,
    MultiLabelClassifier,
    Partitioned,
    SequenceLabeler,
    TreeParser,
    distributed,
)
from maxmargin.solvers.parts import Threads

from .auto import _rcv1, _sentences
from .data import REPOSITORY, chunking_rows, words
from .harness import Line, Sample, Target

_GAP = 0.05
_MOST_ROUNDS = 400
# Rounds and seconds of CPU time after which a fit without the gap is drawn as such.
_MOST_DRAWN, _MOST_SECONDS = 100, 200.0
# Data whose rounds are counted, and how many times those of one partition 8 may need.
_ROUNDS = {"OCR": 4.0, "CoNLL-2000": 2.0}
_WAYS, _PARTITIONS = ("accelerated", "plain"), ("1", "2", "4", "8", "32")
_PICTURE = REPOSITORY / "docs" / "pictures" / "rounds.svg"
_MEASURED = _PICTURE.with_suffix(".json")
_WORKERS = 2
# Passes of two fits that differ in passes alone: both have checks up to pass 16 and at the end.
_FEW_PASSES = 17, 31


def _ocr() -> tuple[list, list]:
    found = words("train")
    return found.X, found.y


CASES: dict[str, tuple[type, Callable[[], tuple[Any, Any]], float]] = {
    "OCR": (SequenceLabeler, _ocr, 1.3),
    "CoNLL-2000": (SequenceLabeler, chunking_rows, 1.5),
    "RCV1 label graphs": (MultiLabelClassifier, _rcv1, 1.5),
    "EWT trees": (TreeParser, _sentences, 1.5),
}


def _fitted(cls: type, data: tuple[Any, Any], **params: Any) -> tuple[Any, float]:
    """A model at the gap, and the seconds that it took."""
    model = cls(**{"tol": _GAP, "max_iter": _MOST_ROUNDS, "random_state": 0, **params})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*data)
    return model, time.perf_counter() - began


def _seconds(cls: type, data: tuple[Any, Any], **params: Any) -> float:
    return _fitted(cls, data, **params)[1]


def _side_by_side(cls: type, data: tuple[Any, Any]) -> float:
    """Half of the seconds of a plain fit while another process makes the same one."""
    other = os.fork()
    if other == 0:
        try:
            _fitted(cls, data)
        finally:
            os._exit(0)
    seconds = _seconds(cls, data)
    os.waitpid(other, 0)
    return 0.5 * seconds


def _pass_alone(cls: type, data: tuple[Any, Any], n_jobs: int) -> float:
    """Seconds of a pass: both fits make the same checks, and the second one more passes."""
    few, many = _FEW_PASSES
    shared = {"n_jobs": n_jobs, "tol": 0.0}
    less = _seconds(cls, data, max_iter=few, **shared)
    return (_seconds(cls, data, max_iter=many, **shared) - less) / (many - few)


def threads(repeats: int) -> Iterator[Line]:
    """Time to the gap with two threads against one and the plain solver, and of a pass alone."""
    chosen = os.environ.get("MAXMARGIN_SCALE_DATA", "")
    for name in chosen.split(",") if chosen else CASES:
        cls, load, reach = CASES[name]
        data = load()
        ways: dict[str, Callable[[], float]] = {
            "plain": partial(_seconds, cls, data),
            "n_jobs=1": partial(_seconds, cls, data, n_jobs=1),
            "n_jobs=2": partial(_seconds, cls, data, n_jobs=2),
            "pass, n_jobs=1": partial(_pass_alone, cls, data, 1),
            "pass, n_jobs=2": partial(_pass_alone, cls, data, 2),
            "two": partial(_side_by_side, cls, data),
        }
        for n_jobs in (None, 1, 2):  # compiled before anything counts
            _fitted(cls, data, n_jobs=n_jobs, max_iter=2)
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(repeats):
            for way, measure in ways.items():
                took[way].append(measure())
        for ours, peer, said, target in (
            ("n_jobs=2", "n_jobs=1", "n_jobs=2, to a gap of 5 %", reach),
            ("n_jobs=2", "plain", "n_jobs=2, to a gap of 5 %", reach),
            ("pass, n_jobs=2", "pass, n_jobs=1", "a pass alone, n_jobs=2", 1.8),
            ("two", "plain", "half a plain fit, two processes side by side", None),
        ):
            yield Line(
                "scale", f"{name}: {said}", "s", Sample(took[ours]), peer=Sample(took[peer]),
                peer_name=peer, target=None if target is None else Target("ratio", target),
            )  # fmt: skip


def _rounds_to_gap(name: str, data: tuple[Any, Any], n_partitions: int, fast: bool) -> Any:
    """A model in partitions at the gap, or after the most rounds or seconds."""
    inner: Any = "auto" if fast else Averaged(BlockFrankWolfe(steps="pairwise"))
    solver = Partitioned(inner, n_partitions)
    end = time.process_time() + _MOST_SECONDS
    return _fitted(
        CASES[name][0], data, solver=solver, max_iter=_MOST_DRAWN,
        callbacks=lambda check: time.process_time() < end,
    )[0]  # fmt: skip


def rounds(repeats: int) -> Iterator[Line]:
    """Rounds to the gap by the number of partitions, accelerated and not; also as a picture."""
    ways = _chosen("MAXMARGIN_SCALE_SOLVERS", _WAYS)
    numbers = [int(k) for k in _chosen("MAXMARGIN_SCALE_PARTITIONS", _PARTITIONS)]
    for way, name, n_partitions in itertools.product(
        ways, _chosen("MAXMARGIN_SCALE_DATA", _ROUNDS), numbers
    ):
        fast = way == _WAYS[0]
        model = _rounds_to_gap(name, CASES[name][1](), n_partitions, fast)
        done, reached = int(model.n_iter_), model.status_ == "converged"
        measured = json.loads(_MEASURED.read_text()) if _MEASURED.exists() else {}
        found = measured.setdefault(f"{name}, {way}", {})
        found[str(n_partitions)] = [done, reached, float(model.gap_ / model.primal_)]
        said = f"{name}: rounds, {n_partitions} partitions{'' if fast else ', plain'}"
        if not reached:
            after = f"{_MOST_SECONDS:.0f} s" if model.status_ == "stopped" else f"{done} rounds"
            said += f" (ended after {after}, relative gap {model.gap_ / model.primal_:.2g})"
        aims = fast and n_partitions == 8 and "1" in found
        target = Target("at most", _ROUNDS[name] * found["1"][0]) if aims else None
        yield Line("scale", said, "", Sample([float(done)]), target=target)
        _MEASURED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
        _draw(measured)


def _chosen(variable: str, names: Iterable[str]) -> list[str]:
    """What an environment variable names, separated by commas; all by default."""
    given = os.environ.get(variable, "")
    return given.split(",") if given else list(names)


def _draw(measured: dict[str, dict[str, list]]) -> None:
    """Rounds by partitions; an empty mark where the gap was not reached."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for way, name in itertools.product(_WAYS, _ROUNDS):
        found = measured.get(f"{name}, {way}", {})
        marks = sorted((int(k), done, reached) for k, (done, reached, _) in found.items())
        color = {"OCR": "tab:blue", "CoNLL-2000": "tab:orange"}[name]
        line = "-" if way == _WAYS[0] else ":"
        if marks:
            ks, rounds_done, _ = zip(*marks, strict=True)
            axes.plot(ks, rounds_done, line, color=color, label=f"{name}, {way}")
        for k, n, reached in marks:
            axes.plot(k, n, "o", color=color, fillstyle="full" if reached else "none")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([int(k) for k in _PARTITIONS], _PARTITIONS)
    axes.set_yticks([10, 20, 50, 100], ["10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set_xlabel("partitions")
    axes.set_ylabel("rounds to a gap of 5 %")
    figure.legend(frameon=False, loc="outside right upper")
    figure.savefig(_PICTURE, metadata={"Date": None})


def _engines() -> Iterator[tuple[str, Any]]:
    for name, given in (("Dask", None), ("Ray", "ray")):
        try:
            from maxmargin.distributed.engines import open_engine

            engine = open_engine(given, _WORKERS)
        except ImportError as error:
            print(f"    {name} was not measured: {error}")
            continue
        yield name, engine
        engine.close()


def overhead(repeats: int) -> Iterator[Line]:
    """Milliseconds of a round beyond those of the same rounds in threads."""
    rng = np.random.RandomState(0)
    X, y = rng.randn(400, 13107), rng.randint(0, 10, 400)  # 131 080 weights with the intercepts

    def seconds(engine: Any, n_rounds: int) -> float:
        model = MulticlassClassifier(tol=0, max_iter=n_rounds, random_state=0)
        model._engine, model._n_partitions = engine, _WORKERS
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        return time.perf_counter() - began

    def per_round(engine: Any) -> float:
        few, many = seconds(engine, 3), seconds(engine, 43)
        return 1e3 * (many - few) / 40

    seconds(Threads(_WORKERS), 2)
    for name, engine in _engines():
        seconds(engine, 2)
        runs = [max(0.0, per_round(engine) - per_round(Threads(_WORKERS))) for _ in range(repeats)]
        yield Line(
            "scale", f"{name}: a round with 1 MB of weights beyond the compute", "ms", Sample(runs),
            target=Target("at most", 50.0),
        )  # fmt: skip


def _pids(engine: Any) -> list[int]:
    if hasattr(engine, "client"):
        return list(engine.client.run(os.getpid).values())
    return engine._ray.get([actor.pid.remote() for actor in engine._actors.values()])


def kills(repeats: int) -> Iterator[Line]:
    """Runs with a worker killed at a random moment that end with a true certificate."""
    number = int(os.environ.get("MAXMARGIN_SCALE_KILLS", "20"))
    rng = np.random.RandomState(0)
    X = rng.randn(2000, 30)
    y = (X[:, :3] + rng.randn(2000, 3)).argmax(axis=1)
    params = {"alpha": 1e-4, "random_state": 0}
    true = MulticlassClassifier(tol=1e-4, **params).fit(X, y)
    for name, given in (("Dask", None), ("Ray", "ray")):
        good, chance = 0, random.Random(0)
        for _ in range(number):
            good += _survives(given, X, y, params, true, chance.uniform(0.0, 1.0))
        yield Line(
            "scale", f"{name}: {number} workers killed, true certificates at the same optimum", "",
            Sample([float(good)]), target=Target("at least", number),
        )  # fmt: skip


def _survives(given: Any, X: Any, y: Any, params: dict, true: Any, share: float) -> bool:
    from maxmargin.distributed.engines import open_engine

    engine = open_engine(given, _WORKERS)
    began = time.perf_counter()

    timers: list[threading.Timer] = []

    def arm(check: Any) -> None:
        if not timers:  # the workers are there
            victim = min(_pids(engine))
            timers.append(threading.Timer(0.3 * share, os.kill, (victim, signal.SIGKILL)))
            timers[0].start()

    try:
        model = MulticlassClassifier(tol=2e-3, callbacks=arm, **params)
        distributed.fit(model, (X, y), engine=engine, n_partitions=4)
        killed = not timers[0].is_alive()
        timers[0].cancel()
    finally:
        engine.close()
    honest = model.dual_ <= true.primal_ + 1e-9 and true.dual_ <= model.primal_ + 1e-9
    left = _left_behind()
    said = "" if killed else ", before the worker was to be killed"
    print(
        f"    {model.status_} in {time.perf_counter() - began:.1f} s{said}, true: {honest}, "
        f"processes left: {len(left)}",
        flush=True,
    )
    return killed and honest and not left and model.status_ == "converged"


def _left_behind() -> list[str]:
    """Processes below this one, ten seconds after the end of a cluster at the latest."""
    deadline = time.monotonic() + 10.0
    while found := _descendants():
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return found


def _descendants() -> list[str]:
    """Names of the processes below this one, but for the tracker that Python itself keeps."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (path / "stat").read_text().rpartition(")")
            command = (path / "cmdline").read_text()
        except OSError:
            continue  # it has ended
        if rest.split()[0] != "Z" and "resource_tracker" not in command:
            parents[int(path.name)] = int(rest.split()[1])
            names[int(path.name)] = head.partition("(")[2]
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return [names[pid] for pid in found]


_IN_LITTLE_MEMORY = """
import resource, sys, time
folder, limit = sys.argv[1], int(float(sys.argv[2]) * 1e9)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from maxmargin import SequenceLabeler
from maxmargin.distributed import Shards, fit
began = time.perf_counter()
model = SequenceLabeler(tol=0.05, max_iter=100, random_state=0)
fit(model, Shards(f"{folder}/*.npz", "sequence"), engine="disk")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(model.status_, model.gap_ / model.primal_, peak, time.perf_counter() - began)
"""


def _write_shards(folder: str, gigabytes: float) -> int:
    """Sequences of ten sparse rows each, 64 MB in a shard."""
    rng = np.random.RandomState(0)
    n_shards = max(2, round(gigabytes * 1e9 / 64e6))
    per_shard, width, length = 53_000, 100, 10  # 12 bytes per stored number
    truth = rng.randn(20_000)
    for k in range(n_shards):
        indices = rng.randint(0, len(truth), (per_shard, width)).astype(np.int32)
        indices.sort(axis=1)
        data = np.ones(per_shard * width)
        y = (truth[indices].sum(axis=1) > 0).astype(np.int64)
        indptr = np.arange(per_shard + 1, dtype=np.int64) * width
        np.savez(
            os.path.join(folder, f"{k:04d}.npz"), X_data=data, X_indices=indices.ravel(),
            X_indptr=indptr, X_shape=np.array([per_shard, len(truth)]), y=y,
            offsets=np.arange(0, per_shard + 1, length),
        )  # fmt: skip
    return n_shards


def memory(repeats: int) -> Iterator[Line]:
    """One process with less memory than data."""
    gigabytes = float(os.environ.get("MAXMARGIN_SCALE_GB", "3"))
    limit = max(1.0, gigabytes / 3)
    with tempfile.TemporaryDirectory() as folder:
        _write_shards(folder, gigabytes)
        done = subprocess.run(
            [sys.executable, "-c", _IN_LITTLE_MEMORY, folder, str(limit)],
            cwd=REPOSITORY, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    status, gap, peak, seconds = done.stdout.split()
    yield Line(
        "scale", f"{gigabytes:g} GB of shards with {limit:g} GB of memory: {status}, {seconds} s, "
        f"peak {peak} GB; relative gap", "", Sample([float(gap)]), target=Target("at most", 0.05),
    )  # fmt: skip


PARTS = {f.__name__: f for f in (threads, rounds, overhead, kills, memory)}


def run(repeats: int) -> Iterator[Line]:
    """All of it, or what ``MAXMARGIN_SCALE`` names."""
    chosen = os.environ.get("MAXMARGIN_SCALE", "")
    for name in chosen.split(",") if chosen else PARTS:
        yield from PARTS[name](repeats)
