"""What a user waits for before anything happens: import, first fit, first fit ever.

Everything runs in processes of its own. "Warm" is the usual case: the compiled code is in the cache
of the user. "Cold" is an empty cache: the first fit ever, which compiles. "Prebuilt" is a wheel
with prebuilt kernels in a clean environment with an empty cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import environment
from .harness import Line, Sample, Target, alternate

_IMPORT = """
import time
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""

_DATA = """
import time, warnings
import numpy as np
from maxmargin import MulticlassClassifier, SequenceLabeler
warnings.simplefilter("ignore")
rng = np.random.RandomState(0)
X = [rng.randn(length, 5) for length in rng.randint(2, 9, 40)]
y = [x[:, :3].argmax(axis=1) for x in X]
rows, labels = np.vstack(X), np.concatenate(y)
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""

_FITS = {
    "sequence": "SequenceLabeler(max_iter=20, random_state=0).fit(X, y).predict(X)",
    "multiclass": "MulticlassClassifier(max_iter=20, random_state=0).fit(rows, labels)",
}

# The modules of scikit-learn that fits use are imported first, and not counted.
_PREBUILT = """
import importlib, json, sys, time
for name in {modules}:
    importlib.import_module(name)
began, cpu = time.perf_counter(), time.process_time()
from maxmargin._first_fits import FIRST_FITS
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
fit = FIRST_FITS[{fit!r}]
X, y = fit.data()
fit.model().fit(X, y).predict(X)
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, len(compiled.buffer)]))
"""
_MODULES = """
import json, sys
from maxmargin._first_fits import FIRST_FITS
for fit in FIRST_FITS.values():
    fit.run()
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "sklearn")))
"""


def _python(code: str, **environment: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _import_line(repeats: int) -> Line:
    statements = {
        "ours": "from maxmargin import MulticlassClassifier, SequenceLabeler",
        "peer": "from sklearn.svm import LinearSVC",
        "base": "from sklearn.base import BaseEstimator",
    }
    found = alternate(
        repeats,
        {
            name: lambda _, statement=statement: _python(_IMPORT.format(statement=statement))
            for name, statement in statements.items()
        },
    )
    return Line(
        "startup",
        "import of the estimators, scikit-learn included",
        "s",
        found["ours"],
        found["peer"],
        "import of LinearSVC",
        target=Target("at most", 1.0),
        note=f"scikit-learn's BaseEstimator alone takes {found['base'].median:.2f} s of it",
    )


def _package_line(repeats: int) -> Line:
    runs = [_python(_IMPORT.format(statement="import maxmargin")) for _ in range(repeats)]
    what = "import maxmargin (estimators load when first used)"
    return Line("startup", what, "s", Sample(runs), target=Target("at most", 1.0))


def _fit_line(task: str, state: str, runs: list[float], most: float) -> Line:
    what = f"first {task} fit of a process, {state} cache"
    return Line("startup", what, "s", Sample(runs), target=Target("at most", most))


def _prebuilt_line() -> Line:
    """Every first fit + predict of a wheel, each in a process of its own; all are printed."""
    from maxmargin._first_fits import FIRST_FITS

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, _ = environment.install(environment.build_wheel(folder), folder / "environment")
        variables = {**environment.clean_variables(), "NUMBA_CACHE_DIR": str(folder / "cache")}

        def answer(code: str) -> list:
            command = [str(python), "-W", "ignore", "-c", code]
            done = subprocess.run(
                command, env=variables, cwd=folder, capture_output=True, text=True, check=True
            )
            return json.loads(done.stdout)

        modules = answer(_MODULES)
        found = {fit: answer(_PREBUILT.format(modules=modules, fit=fit)) for fit in FIRST_FITS}
    for fit, (seconds, cpu, events) in found.items():
        print(f"    {fit:32} {seconds:6.2f} s  {cpu:6.2f} s of CPU  {events} compile events")
    slowest = max(found, key=lambda fit: found[fit][0])
    return Line(
        "startup",
        f"first fit + predict, prebuilt kernels, the slowest of {len(found)} ({slowest})",
        "s",
        Sample([found[slowest][0]]),
        target=Target("at most", 1.0),
        note=f"{sum(events for *_, events in found.values())} compile events; without the import "
        "of scikit-learn",
    )


def run(repeats: int) -> list[Line]:
    """Import, prebuilt, warm and cold first fits."""
    lines = [_package_line(repeats), _import_line(repeats), _prebuilt_line()]
    for task, statement in _FITS.items():
        code = _DATA.format(statement=statement)
        _python(code)  # fills the cache of the user
        lines.append(_fit_line(task, "warm", [_python(code) for _ in range(repeats)], 1.0))
    for task, statement in _FITS.items():
        code = _DATA.format(statement=statement)
        runs = []
        for _ in range(min(repeats, 3)):  # they take long, and hardly differ
            with tempfile.TemporaryDirectory() as folder:
                runs.append(_python(code, NUMBA_CACHE_DIR=folder))
        lines.append(_fit_line(task, "cold", runs, 30.0))
    return lines
