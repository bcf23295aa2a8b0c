"""Time to a certified gap with default parameters, beside plain block-coordinate Frank-Wolfe.

OCR letters, max-margin, alpha = 1/n: the whole of ``fit`` counts, packing and checks included, in
CPU seconds. In the same run plain Frank-Wolfe takes 150 passes: that tells how fast the machine is.
"""

from __future__ import annotations

import time

from maxmargin import Checked, HammingLoss, SequenceLabeler

from .data import Words, words
from .harness import Line, Target, alternate

PLAIN_PASSES = 150


def fit(data: Words, seed: int, **settings) -> tuple[float, SequenceLabeler]:
    """CPU seconds of a fit, and the model."""
    loss = HammingLoss(normalize=True)
    model = SequenceLabeler(alpha=1.0 / len(data.X), loss=loss, random_state=seed, **settings)
    began = time.process_time()
    model.fit(data.X, data.y)
    return time.process_time() - began, model


def to_gap(data: Words, what: str, gap: float, most: float, repeats: int) -> Line:
    """Seconds until the relative gap is certified, and the gap of plain Frank-Wolfe by its end."""
    ours, plain = [], []

    def default(number: int) -> float:
        spent, model = fit(data, number, tol=gap)
        ours.append(model)
        return spent

    def frank_wolfe(number: int) -> float:
        spent, model = fit(
            data, number, solver=Checked("bcfw", PLAIN_PASSES), tol=0.0, max_iter=PLAIN_PASSES
        )
        plain.append(model)
        return spent

    found = alternate(repeats, {"ours": default, "peer": frank_wolfe})
    last, other = ours[-1], plain[-1]
    return Line(
        "engine",
        f"{what}: to a certified gap of {gap:.1%}",
        "s",
        found["ours"],
        found["peer"],
        f"{PLAIN_PASSES} passes of plain Frank-Wolfe",
        target=Target("at most", most),
        note=f"CPU time; ours {last.n_iter_} passes, gap {last.gap_ / last.primal_:.2%}; plain "
        f"gap {other.gap_ / other.primal_:.0%}",
    )


def run(repeats: int) -> list[Line]:
    """Large and small training set."""
    large, small = words("train"), words("test")
    fit(small, 0, tol=0.5)  # compiles
    fit(small, 0, solver="bcfw", tol=0.5)
    return [
        to_gap(large, "OCR letters (6251 words)", 0.05, 2.5, repeats),
        to_gap(large, "OCR letters (6251 words)", 0.01, 6.0, repeats),
        to_gap(small, "OCR letters, fold 0 (626 words)", 0.001, 1.0, repeats),
    ]
