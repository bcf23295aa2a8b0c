"""Defaults for text: the loss of sequences, class weights, model files, calibration.

``python -m benchmarks text`` prints what ``docs/results/text.md`` shows. Defaults were chosen by
the scores on the last fifth of the training data ("held out").
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin import (
    HammingLoss,
    MultiLabelClassifier,
    SequenceLabeler,
    TimesAuto,
    read_conllu,
    save,
)
from maxmargin.metrics import reliability, span_f1_score

from .alpha import label_sets
from .data import chunking, data_file, words
from .harness import Line, Sample

_FACTORS = (0.25, 0.5, 1.0, 1.5, 2.0)
_THRESHOLDS = (0.0, 0.001)


class Data(NamedTuple):
    """Sequences for training and for the test, and whether their labels are spans."""

    name: str
    train: tuple[list, list]
    test: tuple[list, list]
    spans: bool = False

    def held_out(self) -> Data:
        """The last fifth of the training data in place of the test data."""
        X, y = self.train
        cut = len(X) * 4 // 5
        return self._replace(train=(X[:cut], y[:cut]), test=(X[cut:], y[cut:]))

    def fitted(self, surrogate: str = "max-margin", **params: Any) -> SequenceLabeler:
        """A model of the training data."""
        return SequenceLabeler(surrogate, random_state=0, **params).fit(*self.train)

    def scores(self, model: SequenceLabeler) -> tuple[float, float]:
        """Span F1 or accuracy, and the mean recall of the labels."""
        X, y = self.test
        found = model.predict(X)
        true, labels = np.concatenate([list(each) for each in y]), np.concatenate(found)
        recall = float(np.mean([(labels[true == k] == k).mean() for k in np.unique(true)]))
        return span_f1_score(y, found) if self.spans else float((true == labels).mean()), recall


def _shape(word: str) -> str:
    """Kinds of characters, each run as one."""
    kinds = (
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else "-" for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def _describe(forms: tuple[str, ...]) -> list[list[str]]:
    """Attributes of words: form, affixes, shape, and the neighbours."""
    lower = ["<>", "<>", *(form.lower() for form in forms), "<>", "<>"]
    found = []
    for t, form in enumerate(forms):
        own = lower[t + 2]
        names = ["bias", f"w={own}", f"f={form}", f"s={_shape(form)}"]
        for k in range(1, min(4, len(form)) + 1):
            names += [f"p{k}={own[:k]}", f"x{k}={own[-k:]}"]
        names += [f"w{offset}={lower[t + 2 + offset]}" for offset in (-2, -1, 1, 2)]
        names += [f"x{offset}={lower[t + 2 + offset][-2:]}" for offset in (-1, 1)]
        found.append(names)
    return found


def _tags(split: str) -> tuple[list, list]:
    """EWT: universal tags from the forms."""
    sentences = read_conllu(data_file(f"ud_english_ewt_{split}.conllu.gz"))
    return [_describe(s.form) for s in sentences], [list(s.upos) for s in sentences]


def _chunks() -> Data:
    return Data("CoNLL-2000, span F1", chunking("train"), chunking("test"), True)


def _sequences() -> Iterator[Data]:
    yield _chunks()
    yield Data("EWT tags, accuracy", _tags("train"), _tags("test"))
    many, few = words("train"), words("test")
    order = np.random.RandomState(0).permutation(len(many.X))
    X, y = [many.X[i] for i in order], [many.y[i] for i in order]
    yield Data("OCR letters, accuracy", (X, y), (few.X, few.y))
    yield Data("OCR letters, trained on fold 0", (few.X, few.y), (X, y))


def _losses(data: Data) -> Iterator[Line]:
    """The sum against the mean over the positions of a sequence, at several strengths."""
    part = data.held_out()
    for factor in _FACTORS:
        alpha = TimesAuto(factor)
        mean, total = (
            Sample([part.scores(part.fitted(alpha=alpha, loss=HammingLoss(normalize=each)))[0]])
            for each in (True, False)
        )
        yield Line("text", f"{data.name}, held out, {factor} times auto", "score", total, mean,
                   "mean of positions", more_is_better=True)  # fmt: skip
    began = time.process_time()
    model = data.fitted()
    spent = time.process_time() - began
    yield Line("text", f"{data.name}, test", "score", Sample([data.scores(model)[0]]),
               note=f"CPU {spent:.1f} s")  # fmt: skip


def _balanced_sequences(data: Data, most: int | None = None) -> Iterator[Line]:
    part = data.held_out()
    X, y = part.train
    part = part._replace(train=(X[:most], y[:most]))
    plain, balanced = (
        part.scores(part.fitted(class_weight=weight, tol=0.03)) for weight in (None, "balanced")
    )
    for place, what in enumerate((data.name, f"{data.name}: mean recall of the labels")):
        yield Line("text", f"{what}, balanced, held out", "score", Sample([balanced[place]]),
                   Sample([plain[place]]), "no weights", more_is_better=True)  # fmt: skip


def _balanced_sets() -> Iterator[Line]:
    for name, X, Y, rows, _ in label_sets(("yeast", "rcv1subset1", "reuters_k500")):
        train, test = np.split(rows, [len(rows) * 4 // 5])
        found = []
        for weight in (None, "balanced"):
            model = MultiLabelClassifier(
                edges="tree", class_weight=weight, tol=0.03, max_iter=25, random_state=0
            ).fit(X[train], Y[train])
            labels, true = np.asarray(model.predict(X[test])), Y[test]
            known = true.any(axis=0)
            recall = ((labels & true).sum(axis=0)[known] / true.sum(axis=0)[known]).mean()
            found.append(((labels == true).all(axis=1).mean(), recall))
        for place, what in enumerate(("subset accuracy", "macro recall")):
            plain, balanced = (Sample([float(each[place])]) for each in found)
            yield Line("text", f"{name}, {what}, balanced, held out", "score", balanced, plain,
                       "no weights", more_is_better=True)  # fmt: skip


def _files(data: Data, model: SequenceLabeler) -> Iterator[Line]:
    """Size of the file of a pruned model in single precision, and its score."""
    for threshold in _THRESHOLDS:
        small = model.prune(threshold, single=True) if threshold else model
        with tempfile.TemporaryDirectory() as folder:
            save(small, Path(folder) / "model.mm")
            size = (Path(folder) / "model.mm").stat().st_size / 1e6
        yield Line("text", f"CRF of CoNLL-2000, prune({threshold}), model file", "MB",
                   Sample([size]), note=f"span F1 {data.scores(small)[0]:.4f}")  # fmt: skip


def _calibration(data: Data, model: SequenceLabeler) -> Iterator[Line]:
    """Errors of probabilities on half of the test data, before and after :meth:`calibrate` on the
    other half."""
    X, y = data.test
    half = len(X) // 2
    true = np.concatenate([list(each) for each in y[half:]])
    errors = []
    for _ in range(2):
        chances = np.concatenate(model.predict_marginals(X[half:]))
        right = model.classes_[chances.argmax(axis=1)] == true
        errors.append(reliability(right, chances.max(axis=1)).error)
        if len(errors) == 1:
            model.calibrate(X[:half], y[:half])
    yield Line("text", "CRF of CoNLL-2000, calibration error of labels", "", Sample(errors[1:]),
               Sample(errors[:1]), "before calibrate",
               note=f"temperature {model.temperature_:.3f}")  # fmt: skip


def _lines() -> Iterator[Line]:
    for data in _sequences():
        yield from _losses(data)
    yield from _balanced_sets()
    chunks = _chunks()
    yield from _balanced_sequences(chunks, 4000)
    yield from _balanced_sequences(Data("EWT tags, accuracy", _tags("train"), _tags("test")))
    model = chunks.fitted("crf")
    yield from _files(chunks, model)
    yield from _calibration(chunks, model)


def run(repeats: int) -> list[Line]:
    """All numbers; they do not change with repetitions."""
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in _lines():
            print(f"    {line.what}: {line.ours.median:.4f} {line.note}", flush=True)
            lines.append(line)
    return lines
