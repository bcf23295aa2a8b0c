"""A short tour: ``python -m maxmargin.demo`` trains models on small data and prints one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from . import GridLabeler, MulticlassClassifier, OrdinalClassifier, SequenceLabeler

_N_WORDS = 300
_PIXEL_NOISE = 0.4  # of the range of a pixel: many images cannot be read alone


class Outcome(NamedTuple):
    """One line of the table."""

    task: str
    measure: str
    score: float
    baseline: float
    baseline_name: str
    relative_gap: float
    passes: int
    seconds: float


class Words(NamedTuple):
    """Sequences of images and their digits."""

    X: list[np.ndarray]
    y: list[np.ndarray]


def make_words(images: np.ndarray, digits: np.ndarray, rng: np.random.RandomState) -> Words:
    """Words of a hidden grammar, in which only three digits may follow each digit."""
    grammar = np.random.RandomState(7)
    followers = [grammar.choice(10, 3, replace=False) for _ in range(10)]
    places = [np.flatnonzero(digits == digit) for digit in range(10)]
    words = Words([], [])
    for _ in range(_N_WORDS):
        word = [rng.randint(10)]
        for _ in range(rng.randint(3, 9)):
            word.append(rng.choice(followers[word[-1]]))
        pixels = images[[rng.choice(places[digit]) for digit in word]]
        words.X.append(pixels + _PIXEL_NOISE * rng.randn(*pixels.shape))
        words.y.append(np.array(word))
    return words


def fit(model: Any, X: Any, y: Any) -> float:
    """Fit and return the seconds that it took."""
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def certificate(model: Any, seconds: float) -> tuple[float, int, float]:
    """What the last columns of the table say."""
    return model.gap_ / model.primal_, model.n_iter_, seconds


def show_sequence() -> Outcome:
    """Words of digits; the baseline reads every image alone."""
    rng = np.random.RandomState(0)
    images, digits = load_digits(return_X_y=True)
    images /= 16.0
    split = len(digits) // 2
    train = make_words(images[:split], digits[:split], rng)
    test = make_words(images[split:], digits[split:], rng)
    model = SequenceLabeler(random_state=0, verbose=1)
    seconds = fit(model, train.X, train.y)
    alone = LinearSVC(random_state=0).fit(np.vstack(train.X), np.concatenate(train.y))
    return Outcome(
        "words of noisy digits",
        "accuracy",
        model.score(test.X, test.y),
        alone.score(np.vstack(test.X), np.concatenate(test.y)),
        "image by image",
        *certificate(model, seconds),
    )


def show_multiclass(surrogate: str) -> Outcome:
    """Wines; the baseline is scikit-learn's linear SVM."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = MulticlassClassifier(surrogate, random_state=0, verbose=1)
    seconds = fit(model, X_train, y_train)
    return Outcome(
        f"wines, {surrogate}",
        "accuracy",
        model.score(X_test, y_test),
        LinearSVC(random_state=0).fit(X_train, y_train).score(X_test, y_test),
        "LinearSVC",
        *certificate(model, seconds),
    )


def show_ordinal() -> Outcome:
    """Progress of diabetes in five steps; the baseline always says the middle one."""
    X, target = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8]))
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = OrdinalClassifier(random_state=0, verbose=1)
    seconds = fit(model, X_train, y_train)
    return Outcome(
        "diabetes in five steps",
        "distance",
        -model.score(X_test, y_test),
        float(np.abs(y_test - np.median(y_train)).mean()),
        "always the median",
        *certificate(model, seconds),
    )


def make_picture(rng: np.random.RandomState, size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """A disc on a background: grey values with much noise, and the labels of the cells."""
    centre, radius = rng.uniform(5, size - 5, 2), rng.uniform(3, 5)
    row, column = np.indices((size, size))
    inside = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 < radius**2
    return inside + 0.8 * rng.randn(size, size), np.where(inside, "disc", "ground")


def show_grid() -> Outcome:
    """Noisy pictures; the baseline looks at every cell alone."""
    rng = np.random.RandomState(0)
    X, y = zip(*(make_picture(rng) for _ in range(20)), strict=True)
    X_test, y_test = zip(*(make_picture(rng) for _ in range(20)), strict=True)
    model = GridLabeler(pairwise="potts", tol=0.05, max_iter=300, random_state=0, verbose=1)
    seconds = fit(model, list(X), list(y))
    alone = LinearSVC(random_state=0).fit(np.reshape(X, (-1, 1)), np.ravel(y))
    return Outcome(
        "discs in noisy pictures",
        "accuracy",
        model.score(list(X_test), list(y_test)),
        alone.score(np.reshape(X_test, (-1, 1)), np.ravel(y_test)),
        "cell by cell",
        *certificate(model, seconds),
    )


TOUR: tuple[tuple[str, Callable[[], Outcome]], ...] = (
    ("sequence labelling: read words of noisy digits", show_sequence),
    ("multiclass, max-margin: tell wines apart", lambda: show_multiclass("max-margin")),
    ("multiclass, max-min: the same, consistent", lambda: show_multiclass("max-min")),
    ("ordinal regression: progress of diabetes", show_ordinal),
    ("labels of grids: find discs in noisy pictures", show_grid),
)


def table(outcomes: list[Outcome]) -> str:
    """All outcomes in aligned columns."""
    rows = [("task", "measure", "score", "baseline", "", "gap", "passes", "seconds")]
    for line in outcomes:
        numbers = (f"{line.score:.3f}", f"{line.baseline:.3f}", f"({line.baseline_name})")
        rest = (f"{line.relative_gap:.2%}", str(line.passes), f"{line.seconds:.1f}")
        rows.append((line.task, line.measure, *numbers, *rest))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = {0, 1, 4}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main() -> None:
    """Run the tour and print the table."""
    began = time.perf_counter()
    print(
        "A tour of maxmargin. The first run compiles, which takes most of its time.\n", flush=True
    )
    outcomes = []
    for number, (title, show) in enumerate(TOUR, start=1):
        print(f"{number}/{len(TOUR)} {title}", flush=True)
        outcomes.append(show())
    print(f"\n{table(outcomes)}\n")
    print("Scores are on new data; a distance (in steps) should be small, an accuracy large.")
    print("Gap: the certificate. No weights at all have a training objective smaller than ours by")
    print("more than this share of it; computed from a feasible dual point, not estimated.")
    print(f"Done in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
