"""CRFsuite on the handwritten words, described to it as to us.

Our model has a weight for every pixel and letter, for every letter (intercept), for the first and
the last letter of a word, and for every transition. CRFsuite makes the same weights from
attributes: one for every pixel that is on, one that is always there, one at each end of a word.
Without the last three its test error is a point or two higher.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .data import Words

Features = list[list[list[str]]]


def features(words: Words) -> Features:
    """Attributes of all letters of all words."""
    names = np.array([f"p{j}" for j in range(128)], dtype=object)
    described = []
    for x in words.X:
        letters = [["bias", *names[row > 0]] for row in x]
        letters[0].append("first")
        letters[-1].append("last")
        described.append(letters)
    return described


class Trained(NamedTuple):
    """A trained tagger with the time of training alone, and with handing over the data."""

    tagger: object
    train_seconds: float
    total_seconds: float


def train(algorithm: str, described: Features, words: Words, **parameters) -> Trained:
    """Train with CRFsuite's defaults, or with parameters."""
    import pycrfsuite

    labels = [[str(k) for k in y] for y in words.y]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        began = time.perf_counter()
        trainer = pycrfsuite.Trainer(algorithm, params=parameters, verbose=False)
        for x, y in zip(described, labels, strict=True):
            trainer.append(x, y)
        handed_over = time.perf_counter()
        trainer.train(path)
        ended = time.perf_counter()
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return Trained(tagger, ended - handed_over, ended - began)
