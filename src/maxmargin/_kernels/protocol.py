"""The generic functions of the compiled core: the interface of structures, losses, rows of features
and surrogates.

Each function here is only a name. A structure (or loss, rows of features, surrogate) is a
NamedTuple of flat arrays, and its module registers an implementation for that class with
:func:`maxmargin._kernels.jit.implements`. The kernels of the solvers call the generic names;
numba selects the implementation during compilation, so there is no look-up at run time. A new
structure can thereby be used with every surrogate and solver, and a new solver with every
structure.

Notation: example ``i`` has a *block* of parts; ``scores``, ``mu`` and ``direction`` are flat
vectors over the parts of one block, ``weights`` is the flat weight vector.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

# --- features: rows x_r of the data, weight matrices stored feature by class ---------------


def score_rows(rows, matrix, first, last, out):
    """``out[r - first, :] = x_r @ matrix`` for rows ``first <= r < last``."""


def score_row(rows, matrix, row):
    """``x_row @ matrix`` for a matrix of one column."""


def add_row(rows, matrix, row, values, scale):
    """``matrix += scale * outer(x_row, values)``."""


def clear_rows(rows, matrix, first, last):
    """Set to zero at least those rows of ``matrix`` that x_first ... x_(last-1) use."""


def drain_row(rows, matrix, row):
    """Sum of the squares of those entries of ``matrix``, of one column, that a row uses; they are
    set to zero, so that entries of several rows are counted once."""


def prefetch_rows(rows, first, last):
    """Prefetch rows that will be used next."""


def prefetch_weights(rows, matrix, row):
    """Prefetch the rows of ``matrix`` that a row uses."""


def row_product(rows, row, other):
    """Inner product of two rows."""


def products_with(rows, row, others, out):
    """``out[p]`` = inner product of a row with row ``others[p]``."""


def cross_products(rows, first, unary, moved_at, moved, scratch):
    """``2 sum_{s<t} (x_s @ x_t) (d_s @ d_t)`` over the ``moved`` positions listed in ``moved_at``.

    Position t is row ``first + t``, and ``d_t = unary[t]``; ``scratch`` has one more row of weights
    than there are inputs.
    """


# --- losses of a single label --------------------------------------------------------------


def label_loss(loss, predicted, true):
    """Loss of predicting one label when another is true."""


def add_label_losses(loss, true, scale, out):
    """``out[j] += scale * loss(j, true)`` for all labels j."""


def max_cost(loss):
    """Size of the loss: the largest cost of a true class."""


def expected_label_loss(loss, mu, true):
    """Expected loss of a prediction drawn from the distribution ``mu``."""


def expected_losses(loss, mu, out):
    """``out[j]`` = expected loss of predicting j when the truth is distributed as ``mu``."""


def label_work(loss, n):
    """Length of the scratch vector that the max-min functions of a loss need for n classes."""


def lowest_loss(loss, mu, work):
    """Smallest expected loss of a label when the truth is distributed as ``mu``."""


def descend_losses(loss, mu, step, work, out):
    """``out -= step * L mu``, up to a constant: a step towards predictions with a lower loss."""


def add_mixed_losses(loss, nu, scale, out):
    """``out[z] += scale *`` the expected loss of a prediction drawn from ``nu`` when z is true."""


def max_min_label(loss, scores, work, mu):
    """Write the answer of ``max_mu min_j E_mu loss(j, .) + scores @ mu``; return an upper and a
    lower bound on the value, the lower one that of the answer; equal where a formula is exact."""


def smooth_max_min_label(loss, strength, scores, work, mu):
    """Write the answer of ``max_mu min_j E_mu loss(j, .) + strength entropy(mu) + scores @ mu``
    and return its value; for losses with a formula."""


def restricted_label(loss, true, scores, work, mu):
    """Write the answer of ``max_mu E_mu loss(true, .) + scores @ mu`` over the distributions under
    which ``true`` is a best prediction, and return its value; for losses with a formula."""


def max_min_label_prox(loss, scores, mu, curvature, work, out):
    """Exact maximum of ``min_j E loss + scores @ m - curvature/2 |m - mu|^2``; False if there is
    no formula.

    ``out`` holds the answer of :func:`max_min_label` at these scores, and receives the maximum.
    """


# --- structures ----------------------------------------------------------------------------


def n_blocks(structure):
    """Number of examples."""


def block_size(structure, i):
    """Number of parts of example i."""


def largest_block(structure):
    """Number of parts of the largest example."""


def most_labels(structure):
    """Number of labels of the largest example."""


def label_range(structure, i):
    """First and last (exclusive) index of example i in a flat array of labels."""


def prefetch_block(structure, rows, i):
    """Prefetch the data of example i, which is the next one."""


def score_block(structure, rows, weights, i, scores):
    """Scores of all parts of example i."""


def add_block(structure, rows, weights, i, direction, scale):
    """``weights += scale * Phi(x_i) direction``."""


def squared_norm(structure, rows, i, direction, work):
    """``|Phi(x_i) direction|^2`` for a direction that is a difference of two block vectors."""


def decode(structure, i, scores, work, labels):
    """Write the labels of the best output into ``labels`` and return its score."""


def most_parts(structure):
    """Number of parts of one output of the largest example."""


def output_parts(structure, i, labels, parts):
    """Write the indices of the parts of an output (some maybe twice); returns their number."""


def fix_part(structure, i, part, scores):
    """Change scores such that :func:`decode` finds an output with a part, if there is one."""


def add_gram(structure, rows, i, direction, scale, scores):
    """``scores += scale * Phi(x_i)' Phi(x_i) direction``: the change of the scores of a block when
    the weights move along its own direction. Returns False where this is expensive."""


def revisit_room(structure, rows, most):
    """Shape of the integers, and size of the square matrix, that :func:`prepare_revisit` writes for
    up to ``most`` outputs."""


def prepare_revisit(structure, rows, i, outputs, scratch):
    """What :func:`revisit` needs of stored outputs of example i beside the weights: written to the
    scratch. For structures with the trait ``revisits``."""


def revisit(structure, rows, weights, i, scale, outputs, shares, scratch):
    """Move mass between the stored outputs of example i, one per row, from worse ones to better
    ones; updates ``shares`` and the weights. For structures with the trait ``revisits``."""


def prefetch_revisit(structure, rows, weights, i, places, counts):
    """Prefetch the weights that :func:`revisit` will use, after :func:`prepare_revisit`."""


def can_revisit(structure, i):
    """Whether :func:`revisit` is available for example i."""


def score_along(structure, rows, weights, i, direction):
    """``direction @ scores`` of example i, from the scores of the parts that it moves. For
    structures with the trait ``scores_parts``."""


def embed(structure, i, labels, out):
    """Write the indicator vector of the parts of an output."""


def embed_truth(structure, i, out):
    """Write the indicator vector of the true output of example i."""


def add_loss(structure, i, out):
    """Add to every part its loss against the truth of example i."""


def expected_loss(structure, i, mu):
    """Loss against the truth of example i, averaged over mu."""


def work_size(structure, rows):
    """Length of the scratch vector that the functions of this structure need."""


def max_min(structure, i, scores, work, mu):
    """Write the answer of ``max_mu min_nu nu' A mu + scores @ mu``, a point of the marginal
    polytope, and return an upper and a lower bound on the value.

    The upper bound is used in the primal, so it must be valid for any quality of the answer: it is
    the best output against some nu. The lower bound is the value of the answer. Both are the same
    number where the oracle is exact.
    """


def smooth_max_min(structure, strength, i, scores, work, mu):
    """Write the answer of ``max_mu min_nu nu' A mu + strength entropy(mu) + scores @ mu`` and
    return an upper and a lower bound on the value, as :func:`max_min`."""


def strong_concavity(structure):
    """A c with ``entropy`` at least ``g (1-g)/2 c |mu - nu|_1^2`` above its chord at
    ``(1-g) mu + g nu``."""


def forbid_labels(structure, i, t, values):
    """Set ``values[k]`` to minus infinity for labels not allowed at position t of example i."""


def loss_floor(structure, i, mu, work):
    """``min_nu nu' A mu``: the smallest expected loss of a prediction under mu."""


def loss_floor_step(structure, i, mu, direction, slope, curvature, work):
    """Maximise ``loss_floor(mu + g d) + g slope - g^2/2 curvature`` over g in [0, 1]."""


def linear_prox(structure, rows, i, scores, mu, scale, work, out):
    """Exact block maximum for a linear H; returns the gap at mu, minus infinity if none exists."""


def max_min_prox(structure, rows, i, scores, mu, scale, work, out):
    """Exact block maximum for the max-min H; returns False where the structure has none.

    ``out`` holds the answer of :func:`max_min` at these scores, and receives the maximum.
    """


def improve_pair(structure, method, i, scores, mu, nu, work):
    """Improve a pair of marginals towards the saddle point of ``nu' A mu + scores @ mu``, in place.

    Returns an upper and a lower bound on its value: the best output against nu, and the value of
    mu. For structures whose max-min oracle is iterative, by the methods that they implement.
    """


def proximal_response(structure, rows, i, scores, mu, scale, stiffness, nu, work, out):
    """Max-min answer of a block with a proximal term at mu, from the curvature of the dual.

    Where the curvature differs between directions, ``stiffness`` is the share of the largest one to
    use. ``nu`` is that of the last call, and is improved in place. Returns the gap at mu, and
    whether ``out`` is the exact maximum of the block: otherwise it is a direction.
    """


def add_curvature(structure, rows, i, response, scale, work, hessian):
    """``hessian += scale Phi(x_i) response Phi(x_i)'``, on and above the diagonal.

    ``response`` is a symmetric matrix over the parts of the example.
    """


def gibbs(structure, i, scores, work, mu):
    """Marginals of the distribution over outputs proportional to ``exp(scores @ phi(y))``, and the
    log of the sum of these exponentials: ``max_mu entropy(mu) + scores @ mu``."""


def gibbs_change(structure, i, scores, direction, work, out):
    """Derivative of the marginals of :func:`gibbs` when the scores move along ``direction``.

    This is the covariance of the parts times the direction, the product with the second derivative
    of the log partition function. Returns False where rounding makes it too inaccurate.
    """


def change_work(structure):
    """Length of the scratch vector of :func:`gibbs_change` and :func:`draw`."""


def draw(structure, i, scores, uniforms, work, labels):
    """Write an output drawn with probability proportional to ``exp(scores @ phi(y))``; False if
    there is none.

    ``uniforms`` holds numbers in [0, 1): one per label, or per element of a subset.
    """


def entropy(structure, i, mu, work):
    """Largest entropy of a distribution over outputs that has the marginals mu."""


def entropy_slope(structure, i, mu, direction, gamma, work):
    """First and second derivative of ``entropy(mu + gamma * direction)`` with respect to gamma."""


def entropy_bound(structure, i, mu):
    """The lower bound on :func:`entropy` that the block ``mu`` stores as one of its parts.

    :func:`gibbs` writes the entropy itself there, and an output has 0. The part has no weights.
    """


def raise_bound(structure, i, direction, amount):
    """Add ``amount`` to that part of a direction."""


def distance_bound(structure, i, direction):
    """Lower bound on ``sum_y |p(y) - q(y)|`` for all distributions over outputs whose marginals
    differ by ``direction``."""


# --- storage of the dual ---------------------------------------------------------------------


def load_dual(structure, dual, i, parts, out):
    """Write the marginals of example i; ``parts`` is scratch for the parts of an output."""


# --- surrogates ----------------------------------------------------------------------------


def best_response(surrogate, structure, i, scores, work, labels, mu):
    """Maximise ``H_i(mu) + scores @ mu``: write mu, return an upper and a lower bound on it."""


def concave_part(surrogate, structure, i, mu, work):
    """``H_i(mu)``."""


def line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work):
    """Maximise ``H_i(mu + g d) + g slope - g^2/2 curvature`` over g in [0, 1].

    ``mu + d`` is the best response, ``gap`` its gain over mu at the current scores, and ``slope``
    the part of that gain that is due to the scores. Parts of d without weights may be changed.
    """


def block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out):
    """Write the exact maximum over the whole block and return the gap at mu.

    If the gap is 0 or less, mu is optimal, and nothing is written. Minus infinity: there is no
    exact maximum.
    """


# --- oracles: how the maximum of H_i(mu) + scores @ mu over a block is found ------------------


def answer(oracle, surrogate, structure, i, scores, work, labels, mu):
    """The answer for an evaluation: write mu, return an upper and a lower bound on the maximum.

    The stored values of the oracle are not changed.
    """


def respond(oracle, surrogate, structure, rows, i, scores, mu, scale, room, out):
    """The answer for a step from mu; the stored values of the oracle for block i may change.

    Writes ``out``; returns the gap at mu, and whether ``out`` is the exact maximum over the whole
    block: otherwise it is the end of the line to search. With a gap of 0 or less mu is optimal, and
    ``out`` is not used. The scratch holds numbers, and the labels of an output.
    """


def learn_step(oracle, i, gamma):
    """Adapt the oracle to the step length ``gamma`` towards its answer for block i."""


def pair_response(method, structure, rows, i, scores, mu, scale, pair, work, out):
    """Answer of an iterative max-min oracle from the ``pair`` (mu, nu, stiffness) saved for a
    block, which it improves.

    Returns the gap at mu, and whether ``out`` is the exact maximum of the block.
    """


# --- surrogates on single positions of sequences ----------------------------------------------


def position_response(surrogate, structure, i, t, centre, mu, step, work, out):
    """At position t of a sequence, the predictions nu for which ``H`` is linear in mu.

    Max-min: the minimiser of ``nu' L mu + |nu - centre|^2 / (2 step)``. Max-margin needs none: H is
    linear.
    """


def add_position_loss(surrogate, structure, i, t, nu, out):
    """Add to every label at position t its contribution to H when the predictions are ``nu``."""


def _only_in_kernels(name: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(name)
    def refuse(*args, **kwargs):
        raise TypeError(
            f"{name.__name__} is a generic function of the compiled core; call it from a kernel"
        )

    return refuse


for _name, _value in list(globals().items()):
    if inspect.isfunction(_value) and not _name.startswith("_"):
        globals()[_name] = _only_in_kernels(_value)
