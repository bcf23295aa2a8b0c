"""Factor graphs: variables with states, and factors that score several of them together.

A set of graphs is packed into flat arrays. Graphs of the same *shape* (variables, factors and
which weights they use) share one description, so that a thousand label sets over the same graph
store it once. Inside a shape all numbers are local; an example adds its own offsets.

Parts of an example are the states of each variable and the entries of the table of each factor. A
*global* factor has no table: only its best labelling can be computed (see ``kind``).

For every place of a variable in a factor (a *slot*) there is a message, one number per state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Kinds of factors.
TABLE = 0  # any scores over the joint states of its variables
COUNT = 1  # between `low` and `high` of its binary variables are in state 1; no weights
TREE = 2  # pairwise tables along the edges of a tree over its variables, decoded jointly


class Graphs(NamedTuple):
    """Packed factor graphs; example m has shape ``s = shape[m]``.

    Of an example: number ``first_variable[m] + v`` is its variable v, and so on for states, table
    entries, messages, rows of features and rows of factor features.

    Of a shape s, all numbers counted from the start of the example:

    - variables ``variables[s] <= a < variables[s+1]``: ``n_states[a]``, ``state_at[a]`` (first
      state), ``row_step[a]`` (row of features); state j has column ``column[a] + j`` of the
      weights, from state ``scored_from[a]`` on: 0, or 1 for a binary variable whose state 0
      always scores 0, or ``n_states[a]`` for a variable without scores (the joint state of a pair
      in a cluster, see :mod:`.clusters`); slots that hold it are ``held[held_at[a] :
      held_at[a+1]]``;
    - ``binary_pairs[s]`` says whether all variables are binary and all factors tables of pairs
      with constant features (1), and whether, in addition, each has weights of its own, in order:
      four (2), or the same tie in all (3);
    - factors ``factors[s] <= f < factors[s+1]``: ``kind[f]``, slots
      ``scope_at[f] <= z < scope_at[f+1]``, ``entry_at[f]`` and ``n_entries[f]``,
      ``factor_step[f]`` (row of factor features; 0 is the constant one that all share),
      ``factor_column[f]`` (first column of the weights) and ``n_tied[f]`` (number of columns),
      ``tie_at[f]``: entry e uses column ``factor_column[f] + ties[tie_at[f] + e]``, none where
      the tie is -1; if ``tie_at[f]`` is -1, column ``factor_column[f] + e``;
      ``low[f]``, ``high[f]`` of a COUNT; ``potts[f]`` says whether it is a table of a pair with
      one weight for equal states and none for others. Beliefs of the factor are stored from
      ``mass_at[f]`` on: of all entries, or of a Potts table only the mass on equal states
      (``n_mass[f]`` is 1);
    - slots: ``scope[z]`` (number of the variable within the shape), ``message_at[z]``,
      ``slot_factor[z]`` (number of the factor within all shapes); in a TABLE, entry e is for state
      ``maps[map_at[z] + e]`` of the variable; in a TREE, ``parent[z]`` (slot
      of the factor, counted from its first; -1 for a root; parents come before children) and
      ``edge_entry[z]`` (first entry, within the factor, of the table over child and parent).

    Tables are in C order: the last variable of the scope changes fastest.
    """

    shape: np.ndarray
    first_variable: np.ndarray
    first_state: np.ndarray
    first_entry: np.ndarray
    first_mass: np.ndarray
    first_message: np.ndarray
    first_row: np.ndarray
    first_factor_row: np.ndarray

    variables: np.ndarray
    n_states: np.ndarray
    state_at: np.ndarray
    row_step: np.ndarray
    column: np.ndarray
    scored_from: np.ndarray
    held_at: np.ndarray
    held: np.ndarray

    factors: np.ndarray
    binary_pairs: np.ndarray
    kind: np.ndarray
    scope_at: np.ndarray
    entry_at: np.ndarray
    n_entries: np.ndarray
    potts: np.ndarray
    mass_at: np.ndarray
    n_mass: np.ndarray
    factor_step: np.ndarray
    factor_column: np.ndarray
    n_tied: np.ndarray
    tie_at: np.ndarray
    low: np.ndarray
    high: np.ndarray

    scope: np.ndarray
    message_at: np.ndarray
    slot_factor: np.ndarray
    parent: np.ndarray
    edge_entry: np.ndarray
    ties: np.ndarray
    map_at: np.ndarray
    maps: np.ndarray

    n_columns: int  # of the weights of the variables
    n_factor_columns: int  # of the weights of the factors

    @property
    def n_examples(self) -> int:
        """Number of graphs."""
        return len(self.shape)

    @property
    def n_scored(self) -> np.ndarray:
        """Number of variables with scores of each shape: all but the joint states of pairs."""
        scored = np.concatenate([[0], np.cumsum(self.scored_from < self.n_states)])
        return np.diff(scored[self.variables])

    @property
    def n_variables(self) -> int:
        """Variables of all examples."""
        return int(self.first_variable[-1])


class PairGraphs(Graphs):
    """Graphs whose factors are tables over two variables, for exact steps.

    Kernels are compiled per class of graphs: code for other kinds of factors, and for other steps,
    is compiled only where these may occur.
    """


class BinaryGraphs(Graphs):
    """The same, where also ``binary_pairs`` holds for all shapes and features are constant."""


class GraphData(NamedTuple):
    """Packed graphs, their features and the truth; for each example its weight, and the curvature
    ``s_i / (alpha W)`` of a unit feature."""

    graphs: Graphs
    rows: Any  # features of the variables
    features: np.ndarray  # of the factors
    truth: np.ndarray
    costs: np.ndarray
    sample_weight: np.ndarray
    scales: np.ndarray


class GraphWeights(NamedTuple):
    """Weights, one row per input: of the states of variables, and of the entries of tables."""

    unary: np.ndarray
    factor: np.ndarray
