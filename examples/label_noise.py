"""
Wrong labels in the training data
=================================

Handwritten digits, of whose labels a part is replaced by others at random, also in the folds that
choose ``alpha``. As long as most labels are right, all surrogates are close. Where the right label
is the most frequent one but has no majority any more, max-margin breaks down, and max-min, which is
consistent for the 0-1 loss, stays. So does the CRF. ``"smooth-max-min"`` is in between: consistent,
and with probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split

from maxmargin import CrossValidated, MulticlassClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
features = Nystroem(gamma=0.001, n_components=200, random_state=0).fit(X_train)
Z_train, Z_test = features.transform(X_train), features.transform(X_test)


def with_noise(labels, right, seed=0):
    """Labels that are right with the probability given, and any other one otherwise."""
    random = np.random.RandomState(seed)
    others = (labels + random.randint(1, 10, len(labels))) % 10
    return np.where(random.rand(len(labels)) < right, labels, others)


# %%
# The test labels are clean: the error is that of the digits, not that of the noise.

SHARES = (1.0, 0.6, 0.4)
alpha = CrossValidated(grid=np.geomspace(0.1, 3e-4, 6), cv=3)
errors = {}
for surrogate in ("max-margin", "max-min", "crf", "smooth-max-min"):
    model = MulticlassClassifier(surrogate, alpha=alpha, random_state=0)
    errors[surrogate] = [
        1.0 - model.fit(Z_train, with_noise(y_train, share)).score(Z_test, y_test)
        for share in SHARES
    ]
print("right labels  ", *(f"{share:6.0%}" for share in SHARES))
for surrogate, found in errors.items():
    print(f"{surrogate:14}", *(f"{error:6.1%}" for error in found))

# %%
# What to remember: choose by the noise that is expected, and give max-min features with which the
# best predictions can be expressed: on a linear model of raw pixels a CRF is often the better one.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for surrogate, found in errors.items():
    axes.plot(SHARES, found, marker="o", label=surrogate)
axes.invert_xaxis()
axes.set_xlabel("share of right labels in training")
axes.set_ylabel("error on clean digits")
axes.legend()
plt.show()
