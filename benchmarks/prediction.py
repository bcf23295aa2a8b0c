"""Prediction from features to labels, 26 states: letters a second on the handwritten words.

Features are built beforehand on both sides. CRFsuite's tagger takes lists of attributes; its time
with its own prebuilt ``ItemSequence`` objects is reported too.
"""

from __future__ import annotations

import scipy.sparse as sp

from maxmargin import SequenceLabeler

from . import crfsuite
from .data import Words, words
from .harness import Line, Sample, Target, alternate, seconds


def our_sides(train: Words, everything: Words) -> dict:
    """Fitted models with the same words as arrays, CSR matrices, and features by name."""
    as_csr = [sp.csr_array(x) for x in everything.X]
    as_lists = crfsuite.features(everything)
    as_dicts = [[dict.fromkeys(letter, 1.0) for letter in x] for x in as_lists]
    settings = {"tol": 0, "max_iter": 3, "random_state": 0}
    on_arrays = SequenceLabeler(**settings).fit(train.X, train.y)
    on_dicts = SequenceLabeler(**settings).fit(as_dicts, everything.y)
    return {
        "arrays": (on_arrays, everything.X),
        "CSR matrices": (on_arrays, as_csr),
        "dicts": (on_dicts, as_dicts),
        "lists of names": (on_dicts, as_lists),
    }


def run(repeats: int) -> list[Line]:
    """All kinds of input against the tagger."""
    import pycrfsuite

    train, everything = words("train"), words()
    lists = crfsuite.features(everything)
    items = [pycrfsuite.ItemSequence(x) for x in lists]
    # Few iterations: the speed of the tagger depends on the number of weights, not on their values.
    tagger = crfsuite.train("lbfgs", crfsuite.features(train), train, max_iterations=20).tagger
    sides = {
        kind: lambda _, model=model, X=X: seconds(lambda: model.predict(X))
        for kind, (model, X) in our_sides(train, everything).items()
    }
    sides["lists"] = lambda _: seconds(lambda: [tagger.tag(x) for x in lists])
    sides["items"] = lambda _: seconds(lambda: [tagger.tag(x) for x in items])
    alternate(1, sides)  # compiles, and warms every cache
    spent = alternate(repeats, sides)
    found = {kind: sample.rate(everything.n_letters) for kind, sample in spent.items()}
    return [_line(*pair, found) for pair in _PAIRS]


_PAIRS = (
    ("arrays", "lists", Target("ratio", 10)),
    ("CSR matrices", "lists", None),
    ("dicts", "lists", Target("ratio", 1)),
    ("lists of names", "lists", Target("ratio", 1)),
    ("arrays", "items", None),
)


def _line(kind: str, peer: str, target: Target | None, found: dict[str, Sample]) -> Line:
    told = "its prebuilt items" if peer == "items" else "lists of attributes"
    return Line(
        "prediction",
        f"predict on {kind}, 26 states, features to labels",
        "letters/s",
        found[kind],
        found[peer],
        f"CRFsuite tagger on {told}",
        more_is_better=True,
        target=target,
    )
