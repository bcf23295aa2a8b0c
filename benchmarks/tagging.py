"""Tags of text: CPU time to the score that CRFsuite ends with, from the same lists of attributes.

Chunks of CoNLL-2000 by span F1, parts of speech of UD English EWT by accuracy. CRFsuite trains with
its defaults, to its own end. For us, the number of passes after which the score on the test set is
first as high as its own is found beforehand; the fit of that many passes is then timed from end to
end. Times are CPU seconds of everything from lists of names to a model, one thread.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin import Checked, SequenceLabeler, read_conllu
from maxmargin.metrics import span_f1_score

from .data import chunking, data_file
from .harness import Line, Sample, Target

ALGORITHMS = {"lbfgs": "CRFsuite lbfgs", "ap": "CRFsuite averaged perceptron"}
MOST_PASSES = 40


class Task(NamedTuple):
    """Sequences of lists of names, their tags, and how predictions are scored."""

    name: str
    train: tuple[list, list]
    test: tuple[list, list]
    measure: Callable[[list, list], float]
    targets: dict[str, float]  # by algorithm


class Fitted(NamedTuple):
    seconds: float
    score: float


def _shape(word: str) -> str:
    kinds = [
        "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word
    ]
    return "".join(c for i, c in enumerate(kinds) if i == 0 or c != kinds[i - 1])


def _names(forms: list[str]) -> list[list[str]]:
    """Words, affixes, shapes and neighbours of each token of a sentence."""
    found = []
    padded = ["<s>", "<s>", *forms, "</s>", "</s>"]
    for t, form in enumerate(forms):
        low = form.lower()
        names = ["bias", f"w={form}", f"l={low}", f"shape={_shape(form)}"]
        names += [f"p{k}={low[:k]}" for k in range(1, min(4, len(low)) + 1)]
        names += [f"s{k}={low[-k:]}" for k in range(1, min(4, len(low)) + 1)]
        names += [f"{d}:{padded[t + 2 + d].lower()}" for d in (-2, -1, 1, 2)]
        names += [f"-1,0:{padded[t + 1].lower()}|{low}", f"0,1:{low}|{padded[t + 3].lower()}"]
        names += [f"s{d}:{padded[t + 2 + d].lower()[-3:]}" for d in (-1, 1)]
        found.append(names)
    return found


def speech(split: str) -> tuple[list, list]:
    """Parts of speech of EWT: names of attributes per token, tags per token."""
    sentences = read_conllu(data_file(f"ud_english_ewt_{split}.conllu.gz"))
    return [_names(list(s.form)) for s in sentences], [list(s.upos) for s in sentences]


def _accuracy(truth: list, predicted: list) -> float:
    return float(np.mean(np.concatenate(truth) == np.concatenate(predicted)))


def _peer(algorithm: str, task: Task) -> Fitted:
    import pycrfsuite

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        began = time.process_time()
        trainer = pycrfsuite.Trainer(algorithm, verbose=False)
        for x, y in zip(*task.train, strict=True):
            trainer.append(x, y)
        trainer.train(path)
        spent = time.process_time() - began
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return Fitted(spent, task.measure(task.test[1], [tagger.tag(x) for x in task.test[0]]))


def fit_ours(task: Task, passes: int, surrogate: str = "crf") -> Fitted:
    """Fit with a fixed number of passes; the test is not timed."""
    model = SequenceLabeler(
        surrogate, solver=Checked("auto", every=passes), tol=0, max_iter=passes, random_state=0
    )
    began = time.process_time()
    model.fit(*task.train)
    spent = time.process_time() - began
    return Fitted(spent, task.measure(task.test[1], model.predict(task.test[0])))


def _passes_to(goal: float, task: Task, first: int) -> tuple[int, Fitted]:
    for passes in range(first, MOST_PASSES + 1):
        found = fit_ours(task, passes)
        print(f"    {passes} passes: {found.score:.4f} after {found.seconds:.1f} s", flush=True)
        if found.score >= goal:
            return passes, found
    raise RuntimeError(f"no score of {goal:.4f} within {MOST_PASSES} passes")


def _tasks() -> list[Task]:
    chunks = chunking("train"), chunking("test")
    tags = speech("train"), speech("test")
    return [
        Task("CoNLL-2000 chunks, span F1", *chunks, span_f1_score, {"lbfgs": 10.0, "ap": 5.0}),
        Task("EWT parts of speech, accuracy", *tags, _accuracy, {"lbfgs": 10.0, "ap": 3.0}),
    ]


def compare(task: Task) -> list[Line]:
    """Both trainers of CRFsuite, the one with the lower score first."""
    peers = {algorithm: _peer(algorithm, task) for algorithm in ALGORITHMS}
    print(f"    {task.name}: {peers}", flush=True)
    lines, passes = [], 1
    for algorithm, peer in sorted(peers.items(), key=lambda pair: pair[1].score):
        passes, ours = _passes_to(peer.score, task, passes)
        lines.append(
            Line(
                "tagging", f"{task.name}: to that of {ALGORITHMS[algorithm]}", "s",
                Sample([ours.seconds]), Sample([peer.seconds]), ALGORITHMS[algorithm],
                target=Target("ratio", task.targets[algorithm]),
                note=f"its score {peer.score:.4f}, ours {ours.score:.4f} after {passes} passes of "
                "surrogate='crf' with default parameters; CPU seconds with reading of the names",
            )
        )  # fmt: skip
    return lines


def run(repeats: int) -> list[Line]:
    """One run of each side."""
    lines = []
    for task in _tasks():
        small: Any = tuple(part[:30] for part in task.train)
        fit_ours(task._replace(train=small, test=small), 1)  # compiles
        lines += compare(task)
    return lines
