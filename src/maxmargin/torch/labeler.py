"""A scikit-learn style estimator that trains a network with a structured loss."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from .._labels import find_classes
from .._progress import EpochReporter
from .._validation import (
    check_choice,
    check_integer,
    check_number,
    check_sample_weight,
    check_switch,
    has_length,
    is_text,
)
from ..estimators.values import SmoothMaxMin
from ..features.column_names import common_names, keep_names, names_known
from ..surrogates.cost import SMOOTH
from ._files import read_network, write_network
from ._inputs import read_sequences
from .chain import Chain
from .chain_crf import ChainCRF
from .fenchel_young import FenchelYoungLoss
from .layers import decode, marginals
from .losses import CRFLoss, MaxMarginLoss, MaxMinLoss, StructuredLoss

LOSSES: dict[str, type[StructuredLoss]] = {
    "crf": CRFLoss,
    "max-margin": MaxMarginLoss,
    "max-min": MaxMinLoss,
}
SURROGATES = (*LOSSES, SMOOTH)


class Epoch(NamedTuple):
    """Results of a pass over the training sequences."""

    number: int
    loss: float  # mean over the training sequences, while the network changed
    accuracy: float | None  # share of right labels of the held-out sequences


class NeuralSequenceLabeler(BaseEstimator):
    """Labels sequences with a network and a chain on top, trained by stochastic gradients.

    Parameters
    ----------
    module : torch.nn.Module, or callable
        Maps a padded batch of sequences to emissions of shape (n, longest, n_classes). A callable
        is called with the number of classes and returns the module.
    surrogate : {"crf", "max-margin", "max-min", "smooth-max-min"}, default="crf"
        The loss. :class:`maxmargin.SmoothMaxMin` sets the factor of the entropy of the last one,
        for a loss of 1 per wrong label.
    constraints : optional
        Which labels may follow each other, as in :class:`Chain`.
    pass_mask : bool, default=False
        Whether the module is called with the mask of the positions, too.
    lr : float, default=1e-3
        Step length of Adam.
    weight_decay : float, default=0.0
        Decoupled weight decay (AdamW).
    batch_size : int, default=32
    max_epochs : int, default=20
    validation_fraction : float, default=0.1
        Share of the training sequences that is held out for early stopping, unless ``fit`` is given
        held-out data; 0 trains all epochs on everything.
    patience : int, default=3
        Epochs without a better accuracy on held-out sequences before training stops. The weights
        of the best epoch are kept.
    random_state : int, RandomState or None, default=None
        Seed of the initial weights (if ``module`` is a callable), the split and the order.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array of labels
    feature_names_in_ : array of str
        Names of the columns, if sequences are data frames.
    position_shape_ : tuple of int
        Shape of the numbers of a position.
    module_ : torch.nn.Module
    head_ : ChainCRF
        Transitions, and scores of the first and the last label.
    history_ : list of Epoch
    best_epoch_ : int
    status_ : {"all epochs", "stopped early", "interrupted"}
    """

    def __init__(
        self,
        module: Any,
        surrogate: Any = "crf",
        *,
        constraints: Any = None,
        pass_mask: bool = False,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 32,
        max_epochs: int = 20,
        validation_fraction: float = 0.1,
        patience: int = 3,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.module = module
        self.surrogate = surrogate
        self.constraints = constraints
        self.pass_mask = pass_mask
        self.lr = lr
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    # --- training -----------------------------------------------------------------------------

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        sample_weight: Any = None,
        *,
        validation: tuple[Sequence[Any], Sequence[Any]] | None = None,
    ) -> NeuralSequenceLabeler:
        """Train; Ctrl-C ends training with the weights of the best epoch.

        Parameters
        ----------
        X : list of arrays of shape (T_i, ...)
            Sequences: rows of numbers, or integers such as indices of words.
        y : list of label sequences
        sample_weight : array of shape (n,), optional
            Weights of the sequences.
        validation : (X, y), optional
            Held-out sequences.
        """
        self._check()
        X = X if has_length(X) else list(X)
        inputs, labels = read_sequences(X, y)
        keep_names(self, common_names(X))
        self.position_shape_: tuple[int, ...] | None = tuple(inputs[0].shape[1:])
        weights = check_sample_weight(sample_weight, len(inputs))
        rng = check_random_state(self.random_state)
        self.classes_ = find_classes(np.concatenate(labels))
        codes = self._encode(labels, "y")
        train = np.arange(len(inputs))
        held: tuple[list, list] | None = None
        if validation is not None:
            other, other_labels = self._read(*validation)
            held = other, self._encode(other_labels, "validation labels")
        elif self.validation_fraction > 0:
            n_held = max(1, round(self.validation_fraction * len(inputs)))
            if n_held >= len(inputs):
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} leaves none of "
                    f"{len(inputs)} sequences to train on."
                )
            order = rng.permutation(len(inputs))
            train = np.sort(order[n_held:])
            held = [inputs[i] for i in order[:n_held]], [codes[i] for i in order[:n_held]]
        self._build(rng)
        self._train(inputs, codes, weights, train, held, rng)
        return self

    def _check(self) -> None:
        if isinstance(self.surrogate, SmoothMaxMin):
            self.surrogate.validate()
        else:
            check_choice("surrogate", self.surrogate, SURROGATES)
        check_switch("pass_mask", self.pass_mask)
        check_number("lr", self.lr, above=0)
        check_number("weight_decay", self.weight_decay, at_least=0)
        check_integer("batch_size", self.batch_size, 1)
        check_integer("max_epochs", self.max_epochs, 1)
        check_integer("patience", self.patience, 1)
        check_number("validation_fraction", self.validation_fraction, at_least=0)
        if not callable(self.module):
            raise TypeError(
                "module must be a torch.nn.Module, or a callable that makes one for a number of "
                f"classes; received {type(self.module).__name__}."
            )

    def _encode(self, labels: list[np.ndarray], name: str) -> list[Tensor]:
        number = {label: code for code, label in enumerate(self.classes_.tolist())}
        found = []
        for i, each in enumerate(labels):
            unknown = set(each.tolist()) - set(number)
            if unknown:
                raise ValueError(f"{name}[{i}] holds {unknown.pop()!r}, which is not in classes_.")
            found.append(torch.tensor([number[label] for label in each.tolist()]))
        return found

    def _build(self, rng: np.random.RandomState) -> None:
        """The network and its head, before any step."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.randint(2**31)))
            if isinstance(self.module, nn.Module):
                self.module_ = copy.deepcopy(self.module)
            else:
                self.module_ = self.module(len(self.classes_))
            if not isinstance(self.module_, nn.Module):
                raise TypeError(
                    f"module must make a torch.nn.Module; it made {type(self.module_).__name__}."
                )
            self.head_ = ChainCRF(
                len(self.classes_),
                batch_first=True,
                constraints=self.constraints,
                classes=self.classes_.tolist(),
            )

    @property
    def _smooth(self) -> dict[str, Any] | None:
        """The regularizer of smooth max-min; None for other surrogates."""
        if is_text(self.surrogate) and self.surrogate != SMOOTH:
            return None
        return {"regularizer": "max-min", "strength": SmoothMaxMin.of(self.surrogate).strength}

    def _structure(self) -> Chain:
        """The chain of the head; with smooth max-min, every wrong label costs 1."""
        known = self.head_.structure
        if self._smooth is None:
            return known
        return Chain(scale="sum", constraints=known.constraints, classes=known.classes)

    def _loss(self) -> StructuredLoss:
        if self._smooth is None:
            return LOSSES[self.surrogate](self._structure())
        return FenchelYoungLoss(self._structure(), **self._smooth)

    def _network(self) -> nn.ModuleDict:
        return nn.ModuleDict({"module": self.module_, "head": self.head_})

    def _emissions(self, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Emissions of some sequences, and the mask of their positions."""
        lengths = torch.tensor([len(each) for each in inputs])
        padded = nn.utils.rnn.pad_sequence(inputs, batch_first=True)
        mask = torch.arange(padded.shape[1])[None] < lengths[:, None]
        parameter = next(self.module_.parameters(), None)
        device = torch.device("cpu") if parameter is None else parameter.device
        padded, mask = padded.to(device), mask.to(device)
        found = self.module_(padded, mask) if self.pass_mask else self.module_(padded)
        wanted = (*mask.shape, len(self.classes_))
        if tuple(found.shape) != wanted:
            raise ValueError(
                f"module must return emissions of shape {wanted}: sequences, positions, classes; "
                f"it returned {tuple(found.shape)}."
            )
        return found, mask

    def _train(
        self, inputs: list, codes: list, weights: np.ndarray, train: np.ndarray, held: Any, rng: Any
    ) -> None:
        network = self._network()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=self.lr, weight_decay=self.weight_decay
        )
        loss = self._loss()
        self.history_: list[Epoch] = []
        self.best_epoch_, self.status_ = 0, "all epochs"
        best_accuracy, best_state = -1.0, None
        with EpochReporter(self.verbose, self.max_epochs, type(self).__name__) as report:
            try:
                for epoch in range(1, self.max_epochs + 1):
                    mean = self._pass(loss, optimizer, inputs, codes, weights, train, rng)
                    accuracy = None if held is None else self._accuracy(*held)
                    self.history_.append(Epoch(epoch, mean, accuracy))
                    report.update(self.history_[-1])
                    if accuracy is None or accuracy > best_accuracy:
                        best_accuracy = -1.0 if accuracy is None else accuracy
                        self.best_epoch_ = epoch
                        best_state = copy.deepcopy(network.state_dict())
                    elif epoch - self.best_epoch_ >= self.patience:
                        self.status_ = "stopped early"
                        break
            except KeyboardInterrupt:
                self.status_ = "interrupted"
        if best_state is not None:
            network.load_state_dict(best_state)
        network.eval()

    def _pass(
        self, loss: StructuredLoss, optimizer: Any, inputs: list, codes: list, weights: np.ndarray,
        train: np.ndarray, rng: Any,
    ) -> float:  # fmt: skip
        """One pass over the training sequences; their mean loss."""
        self._network().train()
        total = 0.0
        order = rng.permutation(train)
        for begin in range(0, len(order), self.batch_size):
            chosen = order[begin : begin + self.batch_size]
            own = torch.as_tensor(weights[chosen], dtype=torch.float32)
            if not float(own.sum()) > 0:
                continue
            emissions, mask = self._emissions([inputs[i] for i in chosen])
            tags = nn.utils.rnn.pad_sequence([codes[i] for i in chosen], batch_first=True)
            value = loss(
                self.head_.scores(emissions), tags.to(mask.device), mask=mask,
                sample_weight=own.to(mask.device),
            )  # fmt: skip
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item() * float(own.sum())
        return total / float(weights[train].sum())

    def _accuracy(self, inputs: list, codes: list) -> float:
        found = self._labels(inputs)
        right = sum(int((a == b).sum()) for a, b in zip(found, codes))
        return right / sum(len(each) for each in codes)

    # --- prediction ---------------------------------------------------------------------------

    def _for_batches(self, inputs: list[Tensor], answer: Any) -> list[Tensor]:
        """Apply ``answer`` to batches of sequences of similar length; results in the order of X."""
        self._network().eval()
        structure = self._structure()
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        found: list[Any] = [None] * len(inputs)
        with torch.no_grad():
            for begin in range(0, len(order), self.batch_size):
                chosen = order[begin : begin + self.batch_size]
                emissions, mask = self._emissions([inputs[i] for i in chosen])
                answers = answer(self.head_.scores(emissions), structure, mask=mask)
                for i, each in zip(chosen, answers.cpu()):
                    found[i] = each[: len(inputs[i])]
        return found

    def _labels(self, inputs: list[Tensor]) -> list[Tensor]:
        return self._for_batches(inputs, decode)

    def _read(self, X: Any, y: Any = None) -> tuple[list[Tensor], list[np.ndarray]]:
        """Sequences like those of ``fit``, and labels."""
        inputs, labels = read_sequences(X, y, names_known(self))
        shape = tuple(inputs[0].shape[1:])
        if self.position_shape_ not in (None, shape):
            raise ValueError(
                f"Positions of X have the shape {shape}, but those of fit had "
                f"{self.position_shape_}."
            )
        return inputs, labels

    def predict(self, X: Sequence[Any]) -> list[np.ndarray]:
        """The best labels of each sequence."""
        check_is_fitted(self, "module_")
        return [self.classes_[each.numpy()] for each in self._labels(self._read(X)[0])]

    def predict_marginals(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Probabilities of the labels at all positions: those of a CRF or of smooth max-min.

        After max-margin and max-min, scores are no logarithms of probabilities.
        """
        check_is_fitted(self, "module_")
        answer = marginals if self._smooth is None else partial(marginals, **self._smooth)
        return [each.numpy() for each in self._for_batches(self._read(X)[0], answer)]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Share of the positions with the right label."""
        check_is_fitted(self, "module_")
        inputs, labels = self._read(X, y)
        found = self.predict(inputs)
        right = sum(int(np.sum(a == b)) for a, b in zip(found, labels))
        return right / sum(len(each) for each in labels)

    # --- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights and labels to a file of arrays; nothing is pickled."""
        check_is_fitted(self, "module_")
        about = {
            "classes": self.classes_.tolist(),
            "surrogate": self.surrogate if self._smooth is None else SMOOTH,
            "strength": None if self._smooth is None else float(self._smooth["strength"]),
            "pass_mask": bool(self.pass_mask),
            "batch_size": int(self.batch_size),
            "names": names_known(self),
            "position_shape": self.position_shape_,
        }
        write_network(path, about, self._network().state_dict(), self.head_.structure)

    @classmethod
    def load(cls, path: str | os.PathLike[str], module: Any) -> NeuralSequenceLabeler:
        """Read a file that :meth:`save` wrote.

        Parameters
        ----------
        path : path
        module : torch.nn.Module, or callable
            The network; its weights are replaced by those of the file.
        """
        about, state, constraints = read_network(path)
        strength = about.get("strength")
        surrogate = about["surrogate"] if strength is None else SmoothMaxMin(strength)
        found = cls(
            module, surrogate, pass_mask=about["pass_mask"],
            batch_size=about["batch_size"], constraints=constraints,
        )  # fmt: skip
        found.classes_ = np.array(about["classes"])
        keep_names(found, about.get("names"))
        shape = about.get("position_shape")  # not in older files
        found.position_shape_ = None if shape is None else tuple(shape)
        found._check()
        found._build(check_random_state(0))
        try:
            found._network().load_state_dict(state)
        except RuntimeError as error:
            raise ValueError(f"{os.fspath(path)} does not fit the module: {error}") from None
        found._network().eval()
        return found
