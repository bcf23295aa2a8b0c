"""CoNLL-2000 from CSR, lists of names, feature dicts and an iterator: CPU time and memory of a fit,
with weights for all labels and for those seen with an attribute, beside CRFsuite.

Everything runs in processes of its own, whose peak memory contains imports and data. CRFsuite's
trainer gets the same lists, which stay in memory, or one sentence at a time as a fit from an
iterator. pandas is hidden: scikit-learn imports it (65 MB) where it is installed, which it need not
be.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.modules["pandas"] = None  # type: ignore[assignment]

from .data import REPOSITORY, chunking, chunking_rows, sentences
from .harness import Line, Sample, Target
from .memory import peak_of_this_process

_KINDS = ("CSR", "lists", "dicts", "iterator")
_STATES = ("all", "seen")
_MOST_TIMES_CSR = 1.3
_CRFSUITE_MB = 652.0  # with all sentences as lists, measured elsewhere
_CRFSUITE = {"lbfgs": 3, "ap": 5}  # few iterations: the memory does not depend on their number


def _dicts(names: list[list[str]]) -> list[dict[str, str]]:
    return [dict(name.partition("=")[::2] for name in token) for token in names]


def _fit(kind: str, surrogate: str, states: str) -> list[float]:
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
    model = SequenceLabeler(surrogate, state_features=states, random_state=0)
    model.fit(few, y[:50])  # compiles
    began = time.process_time()
    model.fit(X, y)
    spent, peak = time.process_time() - began, peak_of_this_process()
    if kind == "CSR":  # columns have no names
        return [spent, peak, float("nan")]
    X, y = chunking("test")
    X = [_dicts(names) for names in X] if kind == "dicts" else X
    return [spent, peak, span_f1_score(y, model.predict(X))]


def _crfsuite(algorithm: str, source: str) -> float:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.set_params({"max_iterations": _CRFSUITE[algorithm]})
    given = list(sentences()) if source == "lists" else sentences()
    for names, tags in given:
        trainer.append(names, tags)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    return peak_of_this_process()


def _alone(*question: str) -> list[float] | float:
    """The answer of a new process."""
    command = [sys.executable, "-m", "benchmarks.inputs", *question]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _of_kinds(surrogate: str, states: str, peers: dict[str, float], repeats: int) -> list[Line]:
    lines, spent = [], {}
    for kind in _KINDS:
        runs = [_alone(kind, surrogate, states) for _ in range(repeats)]
        spent[kind] = Sample([seconds for seconds, _, _ in runs])
        what = f"CoNLL-2000 from {kind}, {surrogate}, weights for {states} labels"
        note = f"{spent[kind].median / spent['CSR'].median:.2f} times CSR, F1 {runs[0][2]:.4f}"
        most = _MOST_TIMES_CSR * spent["CSR"].median
        goal = None if kind == "CSR" else Target("at most", most)
        lines.append(Line("inputs", what, "s", spent[kind], target=goal, note=note))
        peak = Sample([peak for _, peak, _ in runs])
        peer = peers["iterator" if kind == "iterator" else "lists"]
        goal, note = Target("at most", _CRFSUITE_MB), f"CRFsuite lbfgs {peer:.0f} MB"
        lines.append(Line("inputs", f"{what}, peak memory", "MB", peak, target=goal, note=note))
    return lines


def run(repeats: int) -> list[Line]:
    """Times of all kinds of input, and memory beside CRFsuite."""
    lines, peers = [], {}
    for algorithm, source in itertools.product(reversed(_CRFSUITE), ("lists", "iterator")):
        peers[source] = _alone("crfsuite", algorithm, source)
        what = f"CRFsuite {algorithm} from {source}, peak memory"
        lines.append(Line("inputs", what, "MB", Sample([peers[source]])))
    for surrogate, states in itertools.product(("max-margin", "crf"), _STATES):
        lines += _of_kinds(surrogate, states, peers, repeats)
    return lines


if __name__ == "__main__":
    about, *which = sys.argv[1:]
    print(json.dumps(_crfsuite(*which) if about == "crfsuite" else _fit(about, *which)))
