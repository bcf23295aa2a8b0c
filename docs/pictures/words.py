"""Draw ``words.png``, the picture of the README: ``python docs/pictures/words.py``."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from sklearn.svm import LinearSVC

from maxmargin import SequenceLabeler, datasets_made

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WORDS = 3
LENGTH = 8
RIGHT, WRONG = "#1a7f37", "#cf222e"


def main() -> None:
    """Train the model of the README and a linear SVM on single images, and draw some words."""
    train = datasets_made.make_words(part="train", random_state=0)
    test = datasets_made.make_words(part="test", random_state=1)
    structured = SequenceLabeler(random_state=0).fit(train.X, train.y)
    # C is the best of 0.01, 0.1, 1 and 10 in cross-validation.
    single = LinearSVC(C=0.01, random_state=0)
    single.fit(np.vstack(train.X), np.concatenate(train.y))
    answers = {"linear SVM": list(map(single.predict, test.X)),
               "SequenceLabeler": structured.predict(test.X)}  # fmt: skip
    chosen = typical(answers.values(), test.y)
    digits = np.concatenate(test.y)
    right = {name: (np.concatenate(found) == digits).mean() for name, found in answers.items()}
    draw(test, chosen, {f"{name} ({right[name]:.0%})": found for name, found in answers.items()})


def typical(answers, y) -> list[int]:
    """Words of one length, one after another, in which as many digits are right as in all words."""
    words = [i for i, digits in enumerate(y) if len(digits) == LENGTH]
    digits = np.concatenate(y)
    wanted = [WORDS * LENGTH * (np.concatenate(found) == digits).mean() for found in answers]

    def distance(first):
        chosen = words[first : first + WORDS]
        counts = [sum((found[i] == y[i]).sum() for i in chosen) for found in answers]
        return sum(abs(count - share) for count, share in zip(counts, wanted, strict=True))

    best = min(range(len(words) - WORDS + 1), key=distance)
    return words[best : best + WORDS]


def draw(test, chosen, answers) -> None:
    """Images, and below them the answers."""
    figure, axes = plt.subplots(
        WORDS, LENGTH, figsize=(7.2, 3.9), gridspec_kw={"hspace": 0.75, "wspace": 0.1}
    )
    for row, i in zip(axes, chosen, strict=True):
        for t, cell in enumerate(row):
            cell.imshow(test.X[i][t].reshape(8, 8), cmap="gray_r")
            cell.set_xticks([])
            cell.set_yticks([])
        for height, (name, found) in zip((-0.17, -0.40), answers.items(), strict=True):
            row[0].text(
                -0.15, height, name, transform=row[0].transAxes, ha="right", va="center", fontsize=9
            )
            for t, cell in enumerate(row):
                colour = RIGHT if found[i][t] == test.y[i][t] else WRONG
                cell.text(
                    0.5, height, str(found[i][t]), transform=cell.transAxes, ha="center",
                    va="center", color=colour, fontweight="bold",
                )  # fmt: skip
    figure.subplots_adjust(left=0.24, right=0.99, top=0.98, bottom=0.1)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


if __name__ == "__main__":
    main()
