"""
Handwritten words with a convolutional network
==============================================

A small convolutional network scores the letters of a word, and a chain on top of it scores pairs of
neighbours. Three losses train the same network: that of a CRF, max-margin and max-min margin. They
are compared with the same network trained letter by letter, and with a linear chain on the pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from maxmargin import SequenceLabeler
from maxmargin.datasets import load
from maxmargin.torch import CRFLoss, NeuralSequenceLabeler

words = load("ocr")
folds = [words.splits[f"fold {k}"] for k in range(3)]
X, y = [words.X[i] for i in folds[0]], [words.y[i] for i in folds[0]]
test = np.concatenate(folds[1:])
X_test, y_test = [words.X[i] for i in test], [words.y[i] for i in test]
print(f"{len(X)} words to learn from, {len(X_test)} to test")


class Letters(nn.Module):
    """Scores of the letters of padded words, of 16 x 8 pixels each."""

    def __init__(self, n_classes):
        super().__init__()
        self.network = nn.Sequential(
            nn.Unflatten(1, (1, 16, 8)),
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 2, n_classes),
        )  # fmt: skip

    def forward(self, pixels):
        """From (words, letters, 128) to (words, letters, classes)."""
        return self.network(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2])


# %%
# The three losses.

errors = {}
for surrogate in ("crf", "max-margin", "max-min"):
    model = NeuralSequenceLabeler(
        Letters, surrogate, lr=5e-3, max_epochs=12, validation_fraction=0, random_state=0
    ).fit(X, y)
    errors[f"network, {surrogate}"] = 1 - model.score(X_test, y_test)
    print(f"{surrogate}: {errors[f'network, {surrogate}']:.3f} of the letters wrong")

# %%
# The same network without neighbours: a softmax for each letter.

torch.manual_seed(0)
classes = model.classes_
letters = torch.tensor(np.concatenate(X), dtype=torch.float32)
codes = torch.tensor(np.searchsorted(classes, np.concatenate(y)))
network, loss = Letters(len(classes)), CRFLoss("multiclass")
optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
for _ in range(12):
    for chosen in torch.randperm(len(letters)).split(256):
        optimizer.zero_grad()
        loss(network(letters[chosen][None])[0], codes[chosen]).backward()
        optimizer.step()
network.eval()
with torch.no_grad():
    found = network(torch.tensor(np.concatenate(X_test), dtype=torch.float32)[None])[0].argmax(1)
errors["network, letter by letter"] = float(
    np.mean(classes[found.numpy()] != np.concatenate(y_test))
)

# %%
# And a linear chain on the pixels, which comes with a certificate.

linear = SequenceLabeler(random_state=0).fit(X, y)
errors["linear chain, max-margin"] = 1 - linear.score(X_test, y_test)
for name, error in errors.items():
    print(f"{name:28s} {error:.3f}")

plt.figure(figsize=(7, 3))
plt.barh(list(errors), list(errors.values()), color=["C0"] * 3 + ["C1", "C2"])
plt.gca().invert_yaxis()
plt.xlabel("share of wrong letters, test words")
plt.tight_layout()
plt.show()
