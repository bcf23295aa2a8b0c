"""Small values that group parameters of estimators; each has a short form, such as ``True``."""

from __future__ import annotations

from typing import Any

from .._validation import (
    check_choice,
    check_integer,
    check_number,
    check_switch,
    is_name,
    is_switch,
    is_text,
)
from .._values import Value
from ..features.kernel_kinds import KernelValue
from ..surrogates.cost import SMOOTH, STRENGTH


class EarlyStopping(Value):
    """Stop when the score on held-out examples does not improve.

    Parameters
    ----------
    validation_fraction : float, default=0.1
        Share of the examples that is held out.
    n_iter_no_change : int, default=5
        Checks without progress after which the fit ends.

    Examples
    --------
    >>> from maxmargin import EarlyStopping, MulticlassClassifier
    >>> MulticlassClassifier(early_stopping=EarlyStopping(validation_fraction=0.2))
    MulticlassClassifier(early_stopping=EarlyStopping(validation_fraction=0.2))
    """

    def __init__(self, validation_fraction: float = 0.1, n_iter_no_change: int = 5):
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change

    @classmethod
    def from_short(cls, given: Any) -> EarlyStopping:
        """True stands for the usual parameters; with False nobody asks for them."""
        if not is_switch(given):
            raise ValueError(
                f"early_stopping must be True or False, or EarlyStopping(...); received {given!r}."
            )
        return cls()

    def validate(self):
        fraction = check_number("validation_fraction", self.validation_fraction, above=0)
        if fraction >= 1:
            raise ValueError(f"validation_fraction must be < 1; received {fraction!r}.")
        check_integer("n_iter_no_change", self.n_iter_no_change, 1)


class Hidden(Value):
    """Labels may be hidden, as with ``hidden=True``; training starts from several completions.

    Parameters
    ----------
    starts : int, default=1
        From how many completions of the hidden labels to start; the lowest objective wins. The
        first is by a model of the known labels alone, the others are that with noise.

    Examples
    --------
    >>> from maxmargin import Hidden, SequenceLabeler
    >>> SequenceLabeler(hidden=Hidden(starts=5))
    SequenceLabeler(hidden=Hidden(starts=5))
    """

    def __init__(self, starts: int = 1):
        self.starts = starts

    @classmethod
    def from_short(cls, given: Any) -> Hidden:
        """ "auto", True and False stand for one start."""
        if not (is_switch(given) or is_name(given, "auto")):
            raise ValueError(
                f"hidden must be 'auto', True or False, or Hidden(...); received {given!r}."
            )
        return cls()

    def validate(self):
        check_integer("starts", self.starts, 1)


class HammingLoss(Value):
    """What the mistakes in a sequence cost: the sum, or the mean, over its positions.

    Parameters
    ----------
    costs : "hamming" or array of shape (n_classes, n_classes), default="hamming"
        1 for each wrong label, or ``costs[j, z]`` for label j when z is true, in the order of
        ``classes_``.
    normalize : bool, default=False
        Divide the loss of a sequence by its length. A mistake in a long sequence then costs less
        than one in a short sequence, and all sequences count the same.

    Examples
    --------
    >>> from maxmargin import HammingLoss, SequenceLabeler
    >>> SequenceLabeler(loss=HammingLoss(normalize=True))
    SequenceLabeler(loss=HammingLoss(normalize=True))
    """

    def __init__(self, costs: Any = "hamming", normalize: bool = False):
        self.costs = costs
        self.normalize = normalize

    def validate(self):
        check_switch("normalize", self.normalize)
        if is_text(self.costs) and self.costs != "hamming":
            raise ValueError(
                f"loss must be 'hamming' or a matrix, or HammingLoss(...); received {self.costs!r}."
            )


class StateFeatures(Value):
    """Which pairs of a feature and a label have a weight.

    Parameters
    ----------
    labels : {"all", "seen"}, default="all"
        Whether a feature has a weight for each label, or only for those that are at a training
        position together with it. Most features of text are seen with one or two labels: models and
        memory are several times smaller. "seen" is for feature dicts, lists of names and CSR
        matrices.
    min_count : int, default=1
        Number of positions that a feature of feature dicts or lists must be at; rarer features are
        left out, as if they had not been seen. 2 halves the size of many models of text.

    Examples
    --------
    >>> from maxmargin import SequenceLabeler, StateFeatures
    >>> SequenceLabeler(state_features=StateFeatures("seen", min_count=2))
    SequenceLabeler(state_features=StateFeatures(labels='seen', min_count=2))
    """

    def __init__(self, labels: str = "all", min_count: int = 1):
        self.labels = labels
        self.min_count = min_count

    def validate(self):
        check_integer("min_count", self.min_count, 1)
        if not (is_name(self.labels, "all") or is_name(self.labels, "seen")):
            raise ValueError(
                "state_features must be 'all' or 'seen', or StateFeatures(...); received "
                f"{self.labels!r}."
            )


class Neighbors(Value):
    """Which cells of a grid are neighbours, and which tables their pairs have.

    Parameters
    ----------
    number : {4, 8}, default=4
        Whether neighbours are those to the right and below, or also those across a corner.
    directions : {"separate", "shared"}, default="separate"
        Whether each direction (right, down, and for 8 neighbours down-right and down-left) has a
        table of its own, or all share one.

    Examples
    --------
    >>> from maxmargin import GridLabeler, Neighbors
    >>> GridLabeler(neighbors=Neighbors(8, directions="shared"))
    GridLabeler(neighbors=Neighbors(directions='shared', number=8))
    """

    def __init__(self, number: int = 4, directions: str = "separate"):
        self.number = number
        self.directions = directions

    def validate(self):
        check_choice("directions", self.directions, ("separate", "shared"))
        if is_switch(self.number) or self.number not in (4, 8):
            raise ValueError(f"neighbors must be 4 or 8; received {self.number!r}.")


class SmoothMaxMin(Value):
    """The surrogate "smooth-max-min" with another factor of the entropy.

    Parameters
    ----------
    strength : float, default=0.1
        Factor of the entropy, in units of the loss between two labels. Towards 0 the surrogate is
        "max-min"; a large one makes it ``strength`` times "crf", of scores ``strength`` times as
        large.

    Examples
    --------
    >>> from maxmargin import MulticlassClassifier, SmoothMaxMin
    >>> MulticlassClassifier(SmoothMaxMin(strength=0.3))
    MulticlassClassifier(surrogate=SmoothMaxMin(strength=0.3))
    """

    def __init__(self, strength: float = STRENGTH):
        self.strength = strength

    @classmethod
    def from_short(cls, given: Any) -> SmoothMaxMin:
        """The name stands for the usual strength."""
        if not is_name(given, SMOOTH):
            raise ValueError(f"expected {SMOOTH!r} or SmoothMaxMin(...); received {given!r}.")
        return cls()

    def validate(self):
        check_number("strength", self.strength, above=0)


# The value of a parameter that may also have a short form.
VALUES: dict[str, type[Value]] = {
    "kernel": KernelValue,
    "early_stopping": EarlyStopping,
    "hidden": Hidden,
    "loss": HammingLoss,
    "neighbors": Neighbors,
    "state_features": StateFeatures,
}
