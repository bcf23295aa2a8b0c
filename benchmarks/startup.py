"""What a user waits for before anything happens: import, first fit, first fit ever.

Everything runs in processes of its own. "Warm" is the usual case: the compiled code is in the cache
of the user. "Cold" is an empty cache: the first fit ever, which compiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

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


def run(repeats: int) -> list[Line]:
    """Import, warm and cold first fits."""
    lines = [_package_line(repeats), _import_line(repeats)]
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
