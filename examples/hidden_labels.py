"""
Words of which most letters were never labelled
===============================================

Handwritten digits in sequences with a hidden grammar: which digit follows which. Somebody labelled
only a part of them. Labels that are None are hidden variables: training completes them again and
again by what it has learnt about images and grammar so far.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SequenceLabeler
from maxmargin.datasets_made import make_words

train = make_words(100, random_state=0)
test = make_words(100, part="test", random_state=1)
shares = (0.0, 0.3, 0.6, 0.8)
rng = np.random.RandomState(0)
chance = [rng.rand(len(word)) for word in train.y]

# %%
# Train once with the hidden labels as such, and once on the digits that are known, one by one.

found = {"hidden variables": [], "known digits alone": []}
for share in shares:
    partial = [
        [None if p < share else int(digit) for p, digit in zip(row, word)]
        for row, word in zip(chance, train.y)
    ]
    some = [i for i, word in enumerate(partial) if any(digit is not None for digit in word)]
    model = SequenceLabeler(tol=0.02, random_state=0)
    model.fit([train.X[i] for i in some], [partial[i] for i in some])  # the others teach nothing
    found["hidden variables"].append(model.score(test.X, test.y))
    known = [row >= share for row in chance]
    X = [pixels[i : i + 1] for pixels, keep in zip(train.X, known) for i in np.flatnonzero(keep)]
    y = [[int(digit)] for word, keep in zip(train.y, known) for digit in word[keep]]
    alone = SequenceLabeler(tol=0.02, random_state=0).fit(X, y)
    found["known digits alone"].append(alone.score(test.X, test.y))
    print(f"{share:.0%} hidden:", *(f"{name} {scores[-1]:.3f}  " for name, scores in found.items()))

# %%
# What the grammar is worth.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for name, scores in found.items():
    axes.plot(shares, scores, marker="o", label=name)
axes.set_xlabel("share of the labels that are hidden")
axes.set_ylabel("digits right on new words")
axes.legend()
plt.show()
