"""Latent variables: training over random structures against training over all of them.

Both sides train on the synthetic problems of Bello and Honorio (2018), 100 examples, alpha = 2/n.
"All" is slack re-scaling by CCCP to 1 %, compiled, each search through all outputs times all latent
variables; "best h only" the same without going through latent variables. "Rand(S)" draws random
structures, with the superset in the margin. The note tells the mean test distortions with exact
inference, All's standard error, and whether Rand/All(S) is within one of it, or within the error
at 95 % that the paper prints.
"""

from __future__ import annotations

import time

import numpy as np
from experiments.latent_data import latent_of, make
from experiments.latent_table1 import ROUNDS

from maxmargin import LatentPredictor

from .harness import Line, Sample, Target

TARGETS = {"trees": 22.0, "acyclic graphs": 16.0, "subsets": 13.0}
REPETITIONS = 30  # as in the table


def _fit_seconds(model: LatentPredictor, train) -> float:
    began = time.process_time()
    model.fit(*train)
    return time.process_time() - began


def compare(name: str, repetitions: int) -> list[Line]:
    """Training times and distortions of one problem."""
    exact = latent_of(name, False)
    sides = {
        "all": LatentPredictor(exact, "all", search="listed", random_state=0),
        "smart": LatentPredictor(exact, "all", random_state=0),
        "rand": LatentPredictor(latent_of(name, True), random_state=0, **ROUNDS[name]),
    }
    warm, _ = make(name, 3, 999)
    for model in sides.values():  # compiles
        model.fit(*warm).score(*warm)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    errors: dict[str, list[float]] = {side: [] for side in sides}
    for seed in range(repetitions):
        train, test = make(name, 100, seed)
        for side, model in sides.items():
            seconds[side].append(_fit_seconds(model, train))
            errors[side].append(1.0 - model.score(*test))
    means = {side: float(np.mean(values)) for side, values in errors.items()}
    error = float(np.std(errors["all"], ddof=1) / np.sqrt(repetitions))
    worse = means["rand"] - means["all"]
    note = (
        f"test distortion {means['rand']:.2%} against {means['all']:.2%}, standard error "
        f"{error:.2%}: "
        f"{'within' if worse <= error else 'NOT within'} one standard error, "
        f"{'within' if worse <= 1.96 * error else 'NOT within'} the error at 95 %; "
        f"{repetitions} data sets, CPU time"
    )
    ours = Sample(seconds["rand"]).scaled(1000.0)
    return [
        Line("latent", f"latent {name}: training over random structures", "ms", ours,
             Sample(seconds["all"]).scaled(1000.0), "over all outputs and latent variables",
             target=Target("ratio", TARGETS[name]), note=note),
        Line("latent", f"latent {name}: the same", "ms", ours,
             Sample(seconds["smart"]).scaled(1000.0), "over all outputs, best latent variable"),
    ]  # fmt: skip


def large() -> Line:
    """4 of 100 elements; outputs of the training set are the exact ones."""
    train, _ = make("4 of 100", 100, 0)
    model = LatentPredictor(latent_of("4 of 100", True), n_iter=100, n_samples=5, random_state=0)
    model.fit(train[0][:3], train[1][:3])
    return Line(
        "latent", "latent 4 of 100: training over random structures", "s",
        Sample([_fit_seconds(model, train)]), target=Target("at most", 30.0),
        note="100 rounds, |T| = 5; the paper reports 11 minutes",
    )  # fmt: skip


def run(repeats: int) -> list[Line]:
    """All problems; each repetition has data of its own."""
    lines = []
    for name in TARGETS:
        lines += compare(name, max(REPETITIONS, repeats))
    return [*lines, large()]
