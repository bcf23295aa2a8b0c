"""Vowels against consonants in handwritten words: do hidden sub-states of a label pay?

``python -m experiments sub_states`` writes ``docs/results/sub_states.md`` and ``.json``. Cells that
are in the file already are not computed again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

from .graphs import arguments, markdown_table, read_json, write_json, write_report
from .protocol import map_positions
from .rows import BY_NAME, Examples
from .summary import mean_and_error

SPLITS = 4
TRAIN, VALIDATION, TEST = 300, 300, 1000
VOWELS = [ord(letter) - ord("a") for letter in "aeiou"]
TITLE = "Sub-states of labels: vowels against consonants"
ABOUT = f"""
Handwritten words; the label of a position is whether its letter is a vowel, so that each of the two
labels stands for several shapes. {TRAIN} words for training, {VALIDATION} to choose alpha,
{TEST} for the test; split s is a random permutation with seed s. Errors are shares of wrong
positions, means over the splits with standard errors. alpha = 1/(C n), the loss of a word is the
share of its wrong positions; "C" are the values chosen, of the grid in brackets; "fit s" is the
median of the CPU seconds of one fit at the C chosen.

- *pixels*: `SequenceLabeler` on the pixels as they are.
- *sub-states*: `LatentPredictor(..., "lssvm")` with `HiddenStates(k)` on the same pixels and a
  constant; one start, the tolerance of 1 % of the default.
- *Nyström*: `SequenceLabeler` on features of the Gaussian kernel with some letters of the training
  words: the nonlinear alternative without latent variables.
- *letters known*: a `SequenceLabeler` of the 26 letters, whose predictions are then vowels or
  consonants. It sees what the others do not, the letters of the training words.
"""


class Data(NamedTuple):
    """Training, validation and test words, with the letters and with two labels."""

    letters: tuple[Examples, Examples, Examples]

    def parts(self, features: str) -> list[Examples]:
        """The three parts with pixels, with pixels and a constant, or with kernel features."""
        if features == "pixels":
            return list(self.letters)
        if features == "with constant":
            return [
                part._replace(X=[np.column_stack([x, np.ones(len(x))]) for x in part.X])
                for part in self.letters
            ]
        return map_positions(list(self.letters), "nystroem", 0, int(features))


class Method(NamedTuple):
    """A way to train, with the strengths it is tried with."""

    make: Callable[[float, int], Any]
    features: str
    strengths: tuple[float, ...]
    of_letters: bool = False


def labeler(surrogate: str, n_labels: int = 2) -> Callable[[float, int], Any]:
    """Sequences without latent variables."""

    def make(alpha: float, seed: int) -> Any:
        return mm.SequenceLabeler(
            surrogate, alpha=alpha, loss=mm.HammingLoss(normalize=True), classes=range(n_labels),
            random_state=seed, max_iter=300,
        )  # fmt: skip

    return make


def hidden(n_states: int) -> Callable[[float, int], Any]:
    """Sub-states."""
    latent = mm.Latent(mm.LabelSequence(2), mm.HiddenStates(n_states))
    return lambda alpha, seed: mm.LatentPredictor(latent, "lssvm", alpha=alpha, random_state=seed)


LINEAR, KERNEL = (0.001, 0.003, 0.01, 0.03, 0.1), (1.0, 3.0, 10.0, 30.0, 100.0)
METHODS = {
    "pixels, max-margin": Method(labeler("max-margin"), "pixels", LINEAR),
    "pixels, CRF": Method(labeler("crf"), "pixels", (0.1, 0.3, 1.0, 3.0, 10.0)),
    "1 sub-state": Method(hidden(1), "with constant", LINEAR),
    "Nyström 100, max-margin": Method(labeler("max-margin"), "100", KERNEL),
    "Nyström 400, max-margin": Method(labeler("max-margin"), "400", KERNEL),
    "letters known, max-margin": Method(
        labeler("max-margin", 26), "pixels", (0.01, 0.03, 0.1, 0.3), True
    ),
    "2 sub-states": Method(hidden(2), "with constant", LINEAR),
}


def load(split: int, sizes: tuple[int, int, int]) -> Data:
    """The words of a split."""
    examples = BY_NAME["ocr"].load()
    order = np.random.RandomState(split).permutation(len(examples.y))
    ends = np.cumsum((0, *sizes))
    return Data(tuple(examples.take(order[a:b]) for a, b in zip(ends, ends[1:], strict=False)))


def vowels(y: list) -> list[np.ndarray]:
    """Whether letters are vowels."""
    return [np.isin(codes, VOWELS).astype(int) for codes in y]


def error(model: Any, part: Examples, of_letters: bool) -> float:
    """Share of wrong positions."""
    found = [np.asarray(labels) for labels in model.predict(part.X)]
    found = vowels(found) if of_letters else found
    return float(np.mean(np.concatenate(found) != np.concatenate(vowels(part.y))))


def walk(method: Method, data: Data, split: int) -> dict[str, Any]:
    """Errors for all strengths; the test error at the one that validates best."""
    train, validation, test = data.parts(method.features)
    y, n = train.y if method.of_letters else vowels(train.y), len(train.y)
    held_out, clean, seconds = [], [], []
    for strength in method.strengths:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = method.make(1.0 / (strength * n), split).fit(train.X, y)
        seconds.append(round(time.process_time() - began, 2))
        held_out.append(round(error(model, validation, method.of_letters), 5))
        clean.append(round(error(model, test, method.of_letters), 5))
    best = int(np.argmin(held_out))
    return {
        "error": clean[best], "C": method.strengths[best], "fit": seconds[best],
        "validation": held_out, "test": clean, "seconds": seconds,
    }  # fmt: skip


def main(words: list[str] | None = None) -> None:
    """Compute what is missing, and write the table."""
    chosen = arguments("sub_states", __doc__, "40 words, one split, two strengths", words)
    path = chosen.folder / "sub_states.json"
    content = read_json(path)
    content.pop("machine", None)
    sizes, splits, methods = (TRAIN, VALIDATION, TEST), SPLITS, METHODS
    if chosen.quick:
        sizes, splits = (40, 40, 40), 1
        names = ("pixels, max-margin", "2 sub-states", "Nyström 100, max-margin")
        methods = {name: METHODS[name] for name in names}
        methods = {name: m._replace(strengths=m.strengths[1:3]) for name, m in methods.items()}
    for split in range(splits):
        data = load(split, sizes)
        for name, method in methods.items():
            cells = content.setdefault(name, [])
            if len(cells) > split:
                continue
            cells.append(walk(method, data, split))
            print(split, name, cells[-1]["error"], cells[-1]["C"], cells[-1]["fit"], flush=True)
            write_json(path, content)
    write_report(chosen.folder, "sub_states", TITLE, ABOUT, table(content), figure=False)
    print(table(content))


def table(content: dict) -> str:
    """Test errors, the differences from the pixels on the same splits, and seconds."""
    first = content["pixels, max-margin"]
    rows = []
    for name, cells in content.items():
        errors = [100.0 * cell["error"] for cell in cells]
        fewer = [e - 100.0 * cell["error"] for e, cell in zip(errors, first, strict=False)]
        grid = METHODS[name].strengths
        rows.append([
            name, str(len(cells)), entry(errors), "" if cells is first else entry(fewer, "+"),
            ", ".join(f"{c:g}" for c in sorted({cell["C"] for cell in cells}))
            + f" ({grid[0]:g} to {grid[-1]:g})",
            f"{np.median([cell['fit'] for cell in cells]):.1f}",
        ])  # fmt: skip
    head = ["model", "splits", "error %", "less pixels, max-margin", "C", "fit s"]
    return markdown_table(head, rows)


def entry(values: list[float], sign: str = "") -> str:
    """Mean and standard error."""
    centre, spread = mean_and_error(values)
    return f"{centre:{sign}.1f}" + ("" if np.isnan(spread) else f" ± {spread:.1f}")
