"""
Where max-margin ties and max-min is right
==========================================

All examples look the same, and three classes have the probabilities .3, .3 and .4: no class has a
majority. The best prediction is the third class. The minimiser of max-margin gives all classes the
same score: a tie, however much data there is. The minimiser of max-min scores the third class
highest, by one.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin import MulticlassClassifier

# Max-margin warns that its weights are all zero, which is what this example shows.
warnings.filterwarnings("ignore", "(?s).*all zero", ConvergenceWarning)

COUNTS = (300, 300, 400)
y = np.repeat([0, 1, 2], COUNTS)
X = np.ones((len(y), 1))

# %%
# Both are trained to a certified relative gap of 0.1 %.

scores = {}
for surrogate in ("max-margin", "max-min"):
    model = MulticlassClassifier(
        surrogate, alpha=0.01, tol=1e-3, fit_intercept=False, random_state=0
    ).fit(X, y)
    scores[surrogate] = model.decision_function([[1.0]])[0]
    print(f"{surrogate:10}  scores {np.round(scores[surrogate], 3)}")

# %%
# The scores that decide.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for shift, (surrogate, values) in zip((-0.2, 0.2), scores.items()):
    axes.bar(np.arange(3) + shift, values, width=0.35, label=surrogate)
axes.set_xticks(range(3), [f"p = {count / sum(COUNTS):g}" for count in COUNTS])
axes.axhline(0, color="black", linewidth=0.8)
axes.set_ylabel("score of the class")
axes.legend()
plt.show()
