"""Theoretical bounds on soft agreement (Meshi, Srebro and Hazan 2015), and the default penalty.

With M examples, q variables and factors in the largest graph, strength alpha and penalty rho of
one example (n times that of the paper):

- Theorem 4.1: ``g*_rho - agreement_bound <= g* <= g*_rho``, with ``agreement_bound =
  rho / (2 M) h`` and ``h = M (8 Y_max q (B R + L))^2``, Y_max the most states of a variable;
- Theorem 4.2: a point with a gap of the soft problem is within ``hard_suboptimality = gap +
  agreement_bound`` of the optimum g* of the hard one;
- Theorem 5.1: after t steps of Algorithm 1, each of a block drawn uniformly, the expected distance
  of the dual to its optimum is at most ``expected_error = 2 M q / (t + 2 M q) (C + f* - f(0))``,
  and one of the first t points has an expected gap of at most
  ``expected_gap = 6 M q / (t + 1) (C + f* - f(0))``; f* is at most g_rho(0), and f(0) is 0;
- Corollary 5.2: ``steps_to_gap`` is the t at which that gap is the one that was reached;
- Corollary 5.3: with ``rho_to_hard_gap = eps M / h`` and a soft gap of eps / 2, which
  ``steps_to_hard_gap`` steps are expected to have, weights are eps-optimal for the hard problem;
  eps is the gap of the hard problem that was reached.

C is the curvature of Appendix E, ``4 M q (4 R^2 / (alpha M^2) + D / (rho M))``. The appendix has
``D = 1 + max |Y_c| / |Y_i|``, which is too small where a variable is in many factors: a variable
in N factors has N messages that change with it. Here D is the largest N, or the largest number of
variables in a factor.
"""

from __future__ import annotations

import numpy as np

from .graph import COUNT, TREE, Graphs
from .problem import GraphProblem

# Penalty in units of the curvature of a variable. For tied pairs it is in units of the loss, and
# does not change: on the label sets of Meshi et al. (one weight per pair) this, little inertia and
# several rounds in a visit come within 1 % of the optimum in half of the time of others.
_STIFFNESS, _TIED_STIFFNESS = 4.5, 4.0


def default_kappa(problem: GraphProblem, scales: np.ndarray, exact: bool = True) -> float:
    """A penalty proportional to the loss and curvature that messages have to balance."""
    graphs = problem.graphs
    slots = np.diff(graphs.held_at)
    held = float(slots[slots > 0].mean()) if np.any(slots > 0) else 1.0
    cost = float(problem.costs.sum()) / int(graphs.n_scored[graphs.shape].sum())
    if exact and problem.tied_pairs:
        return _TIED_STIFFNESS * cost / held
    curvature = float(scales.mean()) * float(problem.rows.squares.mean())
    kappa = (cost + _STIFFNESS * curvature) / held
    # Frank-Wolfe steps go towards single labellings: a smaller kappa allows longer steps. A table
    # with many entries needs many steps.
    if (graphs.kind == TREE).any():
        kappa *= 0.1
    elif not exact:
        kappa /= max(1.0, float(graphs.n_entries.mean()))
    return kappa


def most_blocks(graphs: Graphs) -> int:
    """Variables and factors of the largest graph: the q of Theorem 4.1."""
    return int((np.diff(graphs.variables) + np.diff(graphs.factors)).max())


def theorem_h(problem: GraphProblem) -> float:
    """The h of Theorem 4.1: ``n (8 Y_max q (B R + L))^2``.

    Y_max is the largest number of states of a variable, as the paper defines it ("the maximum over
    all variables") and as its proof uses it (``tau = 2 max_i |Y_i|``); q counts singletons ("the
    maximal number of factors (including singletons)"): the variables and factors of a graph. The
    proof needs R and L for one variable or factor at a time: R is the largest norm of the features
    of one, where a tree has the sum of those of its edges, and L the largest loss of one. B bounds
    the norm of the optimal weights: ``sqrt(2 g(0) / alpha)``.

    A count forbids labellings, which is a score of minus infinity: the theorem's bound is then
    infinite.
    """
    graphs = problem.graphs
    if (graphs.kind == COUNT).any():
        return np.inf
    states, blocks = int(graphs.n_states.max()), most_blocks(graphs)
    loss = float(problem.costs.max())
    norm = np.sqrt(2.0 * value_at_zero(problem) / problem.alpha)
    largest = norm * np.sqrt(squared_radius(problem)) + loss
    return float(problem.total_weight * (8.0 * states * blocks * largest) ** 2)


def squared_radius(problem: GraphProblem) -> float:
    """``R^2``: the largest squared norm of the features of one variable or factor."""
    graphs = problem.graphs
    squares = (problem.features**2).sum(axis=1)
    edges = np.add.reduceat(np.append(graphs.parent >= 0, 0), graphs.scope_at[:-1])
    of_factors = float(squares.max()) * int(edges.max(initial=1)) ** 2 if len(edges) else 0.0
    return max(float(problem.rows.squares.max()), of_factors)


def value_at_zero(problem: GraphProblem) -> float:
    """The primal, soft or hard, where all weights and messages are zero."""
    messages = np.zeros(int(problem.graphs.first_message[-1]))
    return problem.primal(np.zeros(problem.n_weights), messages)


def blocks_per_visit(problem: GraphProblem) -> float:
    """Mean number of variables and factors of an example."""
    graphs = problem.graphs
    sizes = np.diff(graphs.variables) + np.diff(graphs.factors)
    return float(sizes[graphs.shape].mean())


def curvature(problem: GraphProblem, rho: float) -> float:
    """The C of Appendix E; with weights ``s_m / W`` of the examples in the place of ``1 / M``."""
    graphs = problem.graphs
    moved = max(np.diff(graphs.held_at).max(initial=0), np.diff(graphs.scope_at).max(initial=0))
    shares = problem.sample_weight / problem.total_weight
    of_weights = 4.0 * squared_radius(problem) * float(shares @ shares) / problem.alpha
    return 4.0 * most_blocks(graphs) * (of_weights + float(moved) / rho)


def known_in_advance(
    problem: GraphProblem, rho: float, gap: float, hard_gap: float, steps: float, smoothing: float
) -> dict[str, float]:
    """The theoretical bounds, by name: see the module."""
    h, blocks = theorem_h(problem) / problem.total_weight, most_blocks(problem.graphs)
    slack = 0.5 * rho * h
    # The theorems are about plain maxima; a smoothed one is at most sigma/2 below.
    found = {
        "agreement_bound": slack, "hard_suboptimality": gap + slack + 0.5 * smoothing * blocks
    }  # fmt: skip
    visited = int(np.count_nonzero(problem.sample_weight)) * blocks
    at_zero = value_at_zero(problem)
    total = curvature(problem, rho) + at_zero
    harder = hard_gap / h
    far = curvature(problem, harder) + at_zero if harder > 0.0 else np.inf

    def after(bound: float, wanted: float) -> float:
        """Steps until 6 M q / (t + 1) times the bound is ``wanted``."""
        return max(0.0, 6.0 * visited * bound / wanted - 1.0) if wanted > 0.0 else np.inf

    return found | {
        "curvature": total - at_zero,
        "expected_error": 2.0 * visited / (steps + 2.0 * visited) * total,
        "expected_gap": 6.0 * visited / (steps + 1.0) * total,
        "steps_to_gap": after(total, gap),
        "rho_to_hard_gap": harder,
        "steps_to_hard_gap": after(far, 0.5 * hard_gap),
    }
