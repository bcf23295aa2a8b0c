"""What a user waits for before anything happens: import, first fit, first fit ever.

Everything runs in processes of its own. "Warm" is the usual case: the compiled code is in the cache
of the user. "Cold" is an empty cache: the first fit ever, which compiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from .harness import Line, Sample, Target

_IMPORT = """
import time
began = time.perf_counter()
from maxmargin import MulticlassClassifier, SequenceLabeler
print(time.perf_counter() - began)
"""

_FIRST_FIT = """
import json, time, warnings
import numpy as np
from maxmargin import MulticlassClassifier, SequenceLabeler
warnings.simplefilter("ignore")
rng = np.random.RandomState(0)
X = [rng.randn(length, 5) for length in rng.randint(2, 9, 40)]
y = [x[:, :3].argmax(axis=1) for x in X]
spent = {}
began = time.perf_counter()
SequenceLabeler(max_iter=20, random_state=0).fit(X, y).predict(X)
spent["sequence"] = time.perf_counter() - began
began = time.perf_counter()
MulticlassClassifier(max_iter=20, random_state=0).fit(np.vstack(X), np.concatenate(y))
spent["multiclass"] = time.perf_counter() - began
print(json.dumps(spent))
"""


def _python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _first_fits(cache: str | None = None) -> dict[str, float]:
    return json.loads(_python(_FIRST_FIT, **({"NUMBA_CACHE_DIR": cache} if cache else {})))


def run(repeats: int) -> list[Line]:
    """Import, warm and cold first fits."""
    _first_fits()  # fills the cache of the user
    imports = [float(_python(_IMPORT)) for _ in range(repeats)]
    warm = [_first_fits() for _ in range(repeats)]
    cold = []
    for _ in range(min(repeats, 3)):  # half a minute each
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_first_fits(folder))
    most = Target("at most", 1.0)
    lines = [Line("startup", "import of the estimators", "s", Sample(imports), target=most)]
    for state, runs, most in (("warm", warm, 1.0), ("cold", cold, 30.0)):
        for task in ("sequence", "multiclass"):
            sample = Sample([run[task] for run in runs])
            what = f"first {task} fit of a process, {state} cache"
            lines.append(Line("startup", what, "s", sample, target=Target("at most", most)))
    return lines
