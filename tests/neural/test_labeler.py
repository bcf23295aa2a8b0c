"""The estimator: training, early stopping, files, bad input."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from maxmargin import SmoothMaxMin
from maxmargin.torch import Chain, ChainScores, NeuralSequenceLabeler, marginals


def _data(n=60, seed=0):
    """Labels are the larger of two inputs, or "same" after an equal label."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 7), 2)) for _ in range(n)]
    y = [np.where(x[:, 0] > x[:, 1], "left", "right") for x in X]
    return X, y


def _linear(n_classes):
    return nn.Linear(2, n_classes)


@pytest.mark.parametrize("surrogate", ("crf", "max-margin", "max-min", "smooth-max-min"))
def test_learns_and_repeats(surrogate):
    X, y = _data()
    model = NeuralSequenceLabeler(
        _linear, surrogate, lr=0.1, batch_size=8, max_epochs=12, patience=12, random_state=0
    )
    model.fit(X, y)
    assert model.score(*_data(seed=1)) > 0.9
    again = clone(model).fit(X, y)
    for one, other in zip(model.predict(X), again.predict(X), strict=True):
        assert np.array_equal(one, other)
    assert torch.equal(model.module_.weight, again.module_.weight)
    assert model.history_[-1].loss < model.history_[0].loss


def test_stops_early_with_the_best_weights():
    X, y = _data(30)
    held = _data(10, seed=2)
    model = NeuralSequenceLabeler(_linear, lr=0.5, max_epochs=60, patience=2, random_state=1)
    model.fit(X, y, validation=held)
    assert model.status_ == "stopped early"
    assert len(model.history_) == model.best_epoch_ + 2
    best = model.history_[model.best_epoch_ - 1].accuracy
    assert best == max(epoch.accuracy for epoch in model.history_)
    assert model.score(*held) == pytest.approx(best)


def test_integers_masks_and_a_module_of_its_own():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = nn.Embedding(5, 3), nn.Linear(3, 2)

        def forward(self, words, mask):
            assert mask.dtype == torch.bool
            return self.out(self.words(words))

    X = [[1, 2], [3, 4, 1], [2], [4, 4]]
    y = [[0, 1], [0, 0, 1], [1], [0, 0]]
    tagger = Tagger()
    before = tagger.out.weight.clone()
    model = NeuralSequenceLabeler(
        tagger, pass_mask=True, validation_fraction=0, max_epochs=3, random_state=0
    ).fit(X, y)
    assert model.status_ == "all epochs"
    assert model.history_[0].accuracy is None
    assert torch.equal(tagger.out.weight, before)  # trained is a copy
    assert [each.shape for each in model.predict_marginals(X)] == [(2, 2), (3, 2), (1, 2), (2, 2)]


def test_weights_of_sequences():
    X, y = _data(20)
    weights = np.ones(20)
    weights[10:] = 0.0
    options = {"validation_fraction": 0, "max_epochs": 2, "batch_size": 64, "random_state": 0}
    module = _linear(2)
    model = NeuralSequenceLabeler(module, **options).fit(X, y, sample_weight=weights)
    fewer = NeuralSequenceLabeler(module, **options).fit(X[:10], y[:10])
    torch.testing.assert_close(model.module_.weight, fewer.module_.weight)


def test_smooth_max_min(tmp_path):
    """Probabilities are those of the loss, also from a file."""
    X, y = _data()
    options = {"lr": 0.1, "batch_size": 8, "max_epochs": 12, "random_state": 0}
    model = NeuralSequenceLabeler(_linear, SmoothMaxMin(0.5), **options).fit(X, y)
    found = model.predict_marginals(X)
    scores = [model.module_(torch.as_tensor(x, dtype=torch.float32)) for x in X]
    expected = marginals(
        ChainScores(
            scores, model.head_.transitions, model.head_.start_transitions,
            model.head_.end_transitions,
        ),
        Chain(scale="sum"), regularizer="max-min", strength=0.5,
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=0, atol=1e-5)
    model.save(tmp_path / "model.npz")
    again = NeuralSequenceLabeler.load(tmp_path / "model.npz", _linear)
    assert again.surrogate.strength == 0.5
    for one, other in zip(found, again.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="surrogate must be one of .*smooth-max-min"):
        NeuralSequenceLabeler(_linear, "smooth").fit(X, y)
    with pytest.raises(ValueError, match="strength must be"):
        NeuralSequenceLabeler(_linear, SmoothMaxMin(-1.0)).fit(X, y)


def test_files_without_pickle(tmp_path):
    X = [np.ones((3, 2)), np.zeros((2, 2))]
    y = [["B-x", "I-x", "O"], ["O", "O"]]
    model = NeuralSequenceLabeler(
        _linear, "max-margin", constraints="bio", validation_fraction=0, max_epochs=2
    ).fit(X, y)
    path = tmp_path / "model.npz"
    model.save(path)
    with np.load(path, allow_pickle=False) as file:
        assert "weight:module.weight" in file.files
    again = NeuralSequenceLabeler.load(path, _linear)
    assert again.surrogate == "max-margin"
    for one, other in zip(model.predict_marginals(X), again.predict_marginals(X), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(model.predict(X), again.predict(X), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(ValueError, match="does not fit the module"):
        NeuralSequenceLabeler.load(path, lambda n: nn.Linear(5, n))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is no file of a NeuralSequenceLabeler"):
        NeuralSequenceLabeler.load(path, _linear)


def test_interrupted_training_keeps_the_best_weights():
    X, y = _data(30)

    class Stops(nn.Linear):
        calls = 0

        def forward(self, x):
            Stops.calls += 1
            if Stops.calls == 12:
                raise KeyboardInterrupt
            return super().forward(x)

    model = NeuralSequenceLabeler(lambda n: Stops(2, n), batch_size=8, random_state=0).fit(X, y)
    assert model.status_ == "interrupted"
    assert 1 <= model.best_epoch_ <= len(model.history_)
    assert len(model.predict(X)) == 30


def test_progress_is_logged(caplog):
    X, y = _data(10)
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        NeuralSequenceLabeler(_linear, max_epochs=2, verbose=1, random_state=0).fit(X, y)
    assert "NeuralSequenceLabeler: epoch 2/2" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"surrogate": "svm"}, "surrogate must be one of"),
        ({"module": nn.Linear(2, 3)}, r"module must return emissions of shape \(\d+, \d+, 2\)"),
        ({"lr": 0.0}, "lr must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"validation_fraction": 0.999}, "leaves none of 10 sequences"),
    ),
)
def test_parameters_are_checked(change, message):
    X, y = _data(10)
    with pytest.raises(ValueError, match=message):
        NeuralSequenceLabeler(**{"module": _linear, **change}).fit(X, y)


def test_data_are_checked():
    X, y = _data(4)
    model = NeuralSequenceLabeler(_linear)
    with pytest.raises(ValueError, match="X has 4 sequences, but y has 3"):
        model.fit(X, y[:3])
    with pytest.raises(ValueError, match=r"y\[2\] must have one label for each of \d position"):
        model.fit(X, [*y[:2], np.append(y[2], "left"), y[3]])
    bad = [*X[:3], np.full((2, 2), np.nan)]
    with pytest.raises(ValueError, match=r"X\[3\] contains NaN or infinity"):
        model.fit(bad, y)
    with pytest.raises(TypeError, match="module must be a torch.nn.Module"):
        NeuralSequenceLabeler("lstm").fit(X, y)
    with pytest.raises(ValueError, match=r"validation labels\[0\] holds 'up'"):
        model.fit(X, y, validation=([X[0]], [["up"] * len(X[0])]))
