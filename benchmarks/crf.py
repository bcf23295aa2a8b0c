"""Handwritten words: a CRF of the same objective, to the test error that CRFsuite ends with.

CRFsuite's L-BFGS runs with its defaults, to its own end: ``sum_i -log p(y_i | x_i) + |w|^2``, which
is our ``alpha = 2/n``. For us, the number of passes at which the test error is first at most 0.2
points above its last one is found beforehand, in steps of ``STEP``; the fit of that many passes is
then timed from end to end, with one thread.
"""

from __future__ import annotations

import time

from maxmargin import Checked, SequenceLabeler

from . import crfsuite
from .data import Words, words
from .harness import Line, Sample, alternate
from .ocr_error import ALLOWANCE, Fitted

STEP, MOST_PASSES = 5, 200
ALGORITHM, NAME = "lbfgs", "CRFsuite lbfgs"


def fit_ours(train: Words, test: Words, passes: int) -> Fitted:
    """Fit with a fixed number of passes; the test is not timed."""
    model = SequenceLabeler(
        "crf", alpha=2.0 / len(train.X), tol=0, max_iter=passes, random_state=0,
        solver=Checked("auto", every=passes),
    )  # fmt: skip
    began = time.perf_counter()
    model.fit(train.X, train.y)
    return Fitted(time.perf_counter() - began, test.error(model.predict(test.X)))


def passes_to(goal: float, train: Words, test: Words) -> int:
    """First number of passes, in steps, at which the test error is at most ``goal``."""
    for passes in range(STEP, MOST_PASSES + 1, STEP):
        if fit_ours(train, test, passes).error <= goal:
            return passes
    raise RuntimeError(f"no test error of {goal:.4f} or less within {MOST_PASSES} passes")


def run(repeats: int) -> list[Line]:
    """Our default solver against theirs."""
    train, test = words("train"), words("test")
    fit_ours(Words(train.X[:200], train.y[:200]), test, 1)  # compiles
    train_features = crfsuite.features(train)
    first = crfsuite.train(ALGORITHM, train_features, train)
    error = test.error([first.tagger.tag(x) for x in crfsuite.features(test)])
    passes = passes_to(error + ALLOWANCE, train, test)
    fits: list[Fitted] = []
    totals: list[float] = []

    def ours(number: int) -> float:
        fits.append(fit_ours(train, test, passes))
        return fits[-1].seconds

    def peer(number: int) -> float:
        found = first if number == 0 else crfsuite.train(ALGORITHM, train_features, train)
        totals.append(found.total_seconds)
        return found.train_seconds

    found = alternate(repeats, {"ours": ours, "peer": peer})
    return [
        Line(
            "crf",
            f"OCR letters (6251 words): CRF to the test error of {NAME} + 0.2 points",
            "s",
            found["ours"],
            found["peer"],
            NAME,
            note=f"its error {error:.4f}, ours {fits[0].error:.4f} after {passes} passes; alpha = "
            "2/n is its objective; its time is train() alone, with append() "
            f"{Sample(totals).median:.3g} s",
        )
    ]
