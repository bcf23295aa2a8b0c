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
    single = LinearSVC(random_state=0).fit(np.vstack(train.X), np.concatenate(train.y))
    chosen = [i for i, y in enumerate(test.y) if len(y) == LENGTH][:WORDS]
    figure, axes = plt.subplots(
        WORDS, LENGTH, figsize=(7.2, 3.9), gridspec_kw={"hspace": 0.75, "wspace": 0.1}
    )
    for row, i in zip(axes, chosen, strict=True):
        found = structured.predict([test.X[i]])[0]
        alone = single.predict(test.X[i])
        for t, cell in enumerate(row):
            cell.imshow(test.X[i][t].reshape(8, 8), cmap="gray_r")
            cell.set_xticks([])
            cell.set_yticks([])
            truth = test.y[i][t]
            for height, guess in ((-0.17, alone[t]), (-0.40, found[t])):
                cell.text(
                    0.5, height, str(guess), transform=cell.transAxes, ha="center", va="center",
                    color=RIGHT if guess == truth else WRONG, fontweight="bold",
                )  # fmt: skip
        for height, name in ((-0.17, "linear SVM, each image alone"), (-0.40, "SequenceLabeler")):
            row[0].text(
                -0.15, height, name, transform=row[0].transAxes, ha="right", va="center", fontsize=9
            )
    figure.subplots_adjust(left=0.29, right=0.99, top=0.98, bottom=0.1)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


if __name__ == "__main__":
    main()
