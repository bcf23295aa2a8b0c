"""
More data helps max-min, and max-margin not
===========================================

There are 30 kinds of input. In each, three classes have the probabilities .3, .3 and .4, in an
order of its own; nothing but the class of .4 is worth predicting. With few examples nobody can
tell which it is. With many, max-min and CRF find it everywhere, and max-margin still ties.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin import MulticlassClassifier
from maxmargin.certificates import calibration_constant

# Max-margin warns that its weights are all zero, which is what this example shows.
warnings.filterwarnings("ignore", "(?s).*all zero", ConvergenceWarning)

N_KINDS = 30
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)


def excess_risk(surrogate, n, seed):
    """By how much predictions are wrong more often than the best ones, after n examples."""
    random = np.random.RandomState(seed)
    chances = np.array([random.permutation([0.3, 0.3, 0.4]) for _ in range(N_KINDS)])
    counts = np.array([random.multinomial(n // N_KINDS, chance) for chance in chances])
    # Equal examples are one example with a weight.
    X = np.repeat(np.eye(N_KINDS), 3, axis=0)
    y = np.tile([0, 1, 2], N_KINDS)
    model = MulticlassClassifier(
        surrogate, alpha=1 / (N_KINDS * n**0.5), tol=1e-4, fit_intercept=False, random_state=0
    )
    model.fit(X, y, sample_weight=counts.ravel())
    predicted = model.predict(np.eye(N_KINDS))
    return np.mean(0.4 - chances[np.arange(N_KINDS), predicted])


# %%
# Mean of three random draws for each size of the training set.

found = {
    surrogate: [np.mean([excess_risk(surrogate, n, seed) for seed in range(3)]) for n in SIZES]
    for surrogate in ("max-margin", "max-min", "crf")
}
print("excess error after", *(f"{n:>8,}" for n in SIZES), "examples")
for surrogate, risks in found.items():
    print(f"{surrogate:>18}", *(f"{risk:8.3f}" for risk in risks))

# %%
# That max-min gets there is a theorem, and its constant is known:

constant = calibration_constant("0-1", 3)
print(f"max-min: excess error <= {constant:g} x excess of the surrogate, for any distribution")

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for surrogate, risks in found.items():
    axes.plot(SIZES, risks, marker="o", label=surrogate)
axes.set_xscale("log")
axes.set_xlabel("examples")
axes.set_ylabel("error above the smallest possible")
axes.legend()
plt.show()
