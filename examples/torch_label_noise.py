"""
Label noise: what max-min is for
================================

Five classes lie around a circle, and annotators often choose one of the two neighbours instead of
the right class. Where the right class has less than half of the labels, although more than any
other, max-margin is not consistent: the classes tie. Max-min margin and the CRF are, with a network
as with a linear model. With less than half of the labels right, the CRF is ahead here, then smooth
max-min, max-min, and max-margin last; with more, all are equal within a point.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from maxmargin.torch import CRFLoss, FenchelYoungLoss, MaxMarginLoss, MaxMinLoss

N_CLASSES = 5
LOSSES = {
    "max-margin": MaxMarginLoss("multiclass"),
    "max-min": MaxMinLoss("multiclass"),
    "smooth max-min": FenchelYoungLoss("multiclass", "max-min", strength=1.0),
    "crf": CRFLoss("multiclass"),
}


def draw(n, right, seed):
    """Points, noisy labels, and the right ones; ``right`` is the share of right labels."""
    rng = np.random.RandomState(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    X = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.randn(n, 2)
    best = (angle / (2 * np.pi) * N_CLASSES).astype(int)
    step = np.where(rng.rand(n) < right, 0, rng.choice([-1, 1], n))
    noisy = (best + step) % N_CLASSES
    return torch.tensor(X, dtype=torch.float32), torch.tensor(noisy), torch.tensor(best)


def accuracy(loss, right):
    """Train a network on noisy labels; the share of right classes on new points."""
    X, y, _ = draw(3000, right, seed=0)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, N_CLASSES))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    for _ in range(12):
        for chosen in torch.randperm(len(X)).split(128):
            optimizer.zero_grad()
            loss(network(X[chosen]), y[chosen]).backward()
            optimizer.step()
        schedule.step()
    X_new, _, best = draw(3000, right, seed=1)
    with torch.no_grad():
        return float((network(X_new).argmax(1) == best).float().mean())


# %%
# From few wrong labels to most: at 0.4, each neighbour has 0.3.

shares = [0.9, 0.6, 0.45, 0.4]
found = {name: [accuracy(loss, right) for right in shares] for name, loss in LOSSES.items()}
for name, values in found.items():
    print(f"{name:14s}", " ".join(f"{value:.3f}" for value in values))

for name, values in found.items():
    plt.plot(shares, values, "o-", label=name)
plt.axvline(0.5, color="grey", linestyle=":")
plt.gca().invert_xaxis()
plt.xlabel("share of right labels in training")
plt.ylabel("share of right classes on new points")
plt.legend()
plt.show()
