"""CoNLL-2000 from CSR, lists of names, feature dicts and an iterator: CPU time and memory of a fit.

Everything runs in processes of its own, whose peak memory contains imports and data. CRFsuite's
trainer gets one sentence at a time, as does a fit from an iterator.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .data import REPOSITORY, chunking, chunking_rows, sentences
from .harness import Line, Sample, Target
from .memory import peak_of_this_process

_KINDS = ("CSR", "lists", "dicts", "iterator")
_MOST_TIMES_CSR = 1.3
_CRFSUITE_MB = 652.0  # with all sentences as lists
_CRFSUITE = {"lbfgs": 3, "ap": 5}  # few iterations: the memory does not depend on their number


def _dicts(names: list[list[str]]) -> list[dict[str, str]]:
    return [dict(name.partition("=")[::2] for name in token) for token in names]


def _fit(kind: str, surrogate: str) -> list[float]:
    """Seconds of a fit, its peak memory in MB, and the span F1 on the test set."""
    from maxmargin import SequenceLabeler
    from maxmargin.metrics import span_f1_score

    if kind == "iterator":
        y = [tags for _, tags in sentences()]
        few = [names for names, _ in itertools.islice(sentences(), 50)]
        X = (names for names, _ in sentences())
    else:
        X, y = (chunking_rows if kind == "CSR" else chunking)()
        X = [_dicts(names) for names in X] if kind == "dicts" else X
        few = X[:50]
    model = SequenceLabeler(surrogate, random_state=0)
    model.fit(few, y[:50])  # compiles
    began = time.process_time()
    model.fit(X, y)
    spent, peak = time.process_time() - began, peak_of_this_process()
    if kind == "CSR":  # columns have no names
        return [spent, peak, float("nan")]
    X, y = chunking("test")
    X = [_dicts(names) for names in X] if kind == "dicts" else X
    return [spent, peak, span_f1_score(y, model.predict(X))]


def _crfsuite(algorithm: str) -> float:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.set_params({"max_iterations": _CRFSUITE[algorithm]})
    for names, tags in sentences():
        trainer.append(names, tags)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    return peak_of_this_process()


def _alone(*question: str) -> list[float] | float:
    """The answer of a new process."""
    command = [sys.executable, "-m", "benchmarks.inputs", *question]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run(repeats: int) -> list[Line]:
    """Times of all kinds of input, and memory beside CRFsuite."""
    lines = []
    for surrogate in ("max-margin", "crf"):
        spent = {}
        for kind in _KINDS:
            runs = [_alone(kind, surrogate) for _ in range(repeats)]
            spent[kind] = Sample([seconds for seconds, _, _ in runs])
            what = f"CoNLL-2000 from {kind}, {surrogate}"
            note = f"{spent[kind].median / spent['CSR'].median:.2f} times CSR, F1 {runs[0][2]:.4f}"
            most = _MOST_TIMES_CSR * spent["CSR"].median
            goal = None if kind == "CSR" else Target("at most", most)
            lines.append(Line("inputs", what, "s", spent[kind], target=goal, note=note))
            peak = Sample([peak for _, peak, _ in runs])
            goal = Target("at most", _CRFSUITE_MB)
            lines.append(Line("inputs", f"{what}, peak memory", "MB", peak, target=goal))
    for algorithm in _CRFSUITE:
        peak = Sample([_alone("crfsuite", algorithm)])
        lines.append(Line("inputs", f"CRFsuite {algorithm} by append, peak memory", "MB", peak))
    return lines


if __name__ == "__main__":
    about, which = sys.argv[1:]
    print(json.dumps(_crfsuite(which) if about == "crfsuite" else _fit(about, which)))
