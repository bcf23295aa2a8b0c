"""Where max-margin ties and max-min is right: no class has a majority.

All examples look the same, and three classes have the probabilities .3, .3 and .4. The best
prediction is the third class. The minimiser of max-margin gives all classes the same score: a tie,
however much data there is. The minimiser of max-min scores the third class highest by one.

    python examples/multiclass_max_min.py --plot scores.png
"""

import argparse

import numpy as np

from maxmargin import MulticlassClassifier

COUNTS = (300, 300, 400)


def scores(surrogate):
    """Scores of the three classes, trained to a relative gap of 0.1 %."""
    y = np.repeat([0, 1, 2], COUNTS)
    X = np.ones((len(y), 1))
    model = MulticlassClassifier(
        surrogate, alpha=0.01, tol=1e-3, fit_intercept=False, random_state=0
    )
    return model.fit(X, y).decision_function([[1.0]])[0]


def plot(found, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    for shift, (surrogate, values) in zip((-0.2, 0.2), found.items()):
        axes.bar(np.arange(3) + shift, values, width=0.35, label=surrogate)
    axes.set_xticks(range(3), [f"p = {count / sum(COUNTS):g}" for count in COUNTS])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel("score of the class")
    axes.legend()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", help="save a plot (needs matplotlib)")
    arguments = parser.parse_args()
    found = {surrogate: scores(surrogate) for surrogate in ("max-margin", "max-min")}
    for surrogate, values in found.items():
        print(f"{surrogate:10}  scores {np.round(values, 3)}")
    if arguments.plot:
        plot(found, arguments.plot)


if __name__ == "__main__":
    main()
