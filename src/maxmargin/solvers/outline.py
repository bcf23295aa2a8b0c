"""What is known of a training problem before any work on its data."""

from __future__ import annotations

from typing import Any

from ..structures.traits import Traits
from ..surrogates.cost import Cost


class Outline:
    """Properties of a problem that solvers need first, shared by training problems.

    Parameters
    ----------
    surrogate : a surrogate
    traits : Traits
        Of the structure.
    in_kernel_space : bool
        Whether weights are coefficients of rows.
    """

    clamped: Any = None  # structure of the outputs that agree with what is known, if some is hidden
    in_python = False  # whether the structure is written in plain Python
    hashes_features = False  # whether most weights belong to no feature of the data
    n_weights = 0  # not known before the data are packed
    tolerance = 1e-2  # of the relative gap: inexact oracles need not be much more accurate
    from_scratch = True  # whether no earlier dual point is continued, nor weights chosen otherwise
    in_parts = False  # whether the examples are in parts: see parts.py
    passes_per_round = 0  # of several parts; 0 if there are none
    engine: Any = None  # that runs the parts; threads by default
    n_threads = 1  # of evaluations, batches and vector operations
    batch = 1  # examples that are visited together, by several threads: see _kernels/team.py
    penalised = True  # whether values have the penalty
    keeps_dual = True  # whether the dual point is wanted at the end, also from workers

    def __init__(self, surrogate: Any, traits: Traits, in_kernel_space: bool = False):
        self.surrogate = surrogate
        self.traits = traits
        self.in_kernel_space = in_kernel_space

    @property
    def cost(self) -> Cost:
        """Properties of the surrogate."""
        return self.surrogate.cost

    @property
    def no_oracle(self) -> str:
        """What is missing for block-coordinate ascent: an oracle, or the value of marginals; "" if
        nothing."""
        return self.cost.no_blocks or self.traits.no_oracle.get(self.cost.name, "")

    @property
    def has_outputs(self) -> bool:
        """Whether oracles return single outputs that can be stored."""
        return self.cost.linear and self.traits.stores_outputs

    @property
    def order(self) -> str:
        """The order in which examples are visited best."""
        return self.traits.order

    @property
    def tied_pairs(self) -> bool:
        """Whether outputs are graphs of binary pairs whose entries share weights or have none."""
        return False

    @property
    def both_on_pairs(self) -> bool | None:
        """Whether outputs are label sets with one weight per pair, for both labels present, and all
        pairs; None if that is not known before the data are read."""
        return None

    @property
    def suits_gradients(self) -> bool:
        """Whether L-BFGS is the faster solver for a CRF, or the only one."""
        return not self.in_kernel_space
