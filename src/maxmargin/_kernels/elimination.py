"""Inverses by Gauss-Jordan elimination without pivoting, two rows at a time.

Rows are padded to whole vectors of 8 numbers. A step reads and writes the rows before it once: it
ends the elimination of two pivots there, and begins that of the next two.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .chunks import (
    _DOUBLE,
    _FAST,
    _accumulate,
    _add_elements,
    _array,
    _length,
    _load,
    _number,
    _row_types_fit,
    _splat,
    _store,
    _sum_of_chunks,
    _vector_type,
)
from .jit import leaf
from .maxima import _fold, _larger
from .vector import copy

# A matrix with a pivot below this, relative to its entries, has an inverse that is not accurate.
SINGULAR = 1e-8
# Products of pivots stay between this and its inverse.
SMALL = 1e-200


@leaf
def padded(n):
    """Length of the rows of a matrix of n rows: whole vectors of 8 numbers."""
    return (n + 7) // 8 * 8


@leaf
def even(n):
    """Number of rows of a matrix of n rows, including one of padding if n is odd."""
    return n + n % 2


def _for_groups(builder, length, emit) -> None:
    """Emit ``emit(places)`` for groups of four chunks, then for single ones."""
    fours = builder.and_(length, _number(-32, length))
    for first, last, count in ((_number(0, length), fours, 4), (fours, length, 1)):
        step = _number(8 * count, length)
        with cgutils.for_range_slice(builder, first, last, step, length.type) as (offset, _):
            emit([builder.add(offset, _number(8 * c, length)) for c in range(count)])


class _Pair:
    """Arrays of an operation on a matrix, two vectors of factors and its rows i and i + 1."""

    def __init__(self, context, builder, signature, args):
        arrays = [_array(context, builder, signature, args, at) for at in (0, 1, 2, 4, 5)]
        self.builder = builder
        self.matrix, self.factors, self.rows = arrays[0], arrays[1:3], arrays[3:]
        self.i, self.length = args[3], _length(builder, arrays[3])

    def rows_before(self):
        """A loop over the rows of the matrix before i."""
        zero, one = _number(0, self.length), _number(1, self.length)
        return cgutils.for_range_slice(self.builder, zero, self.i, one, one.type)

    def at(self, entry, place):
        """Where a chunk of a row of the matrix starts."""
        return self.builder.add(self.builder.mul(entry, self.length), place)

    def columns(self, sign, place, after=0):
        """Which columns of a chunk compare with i + after as the sign says."""
        kind = ir.VectorType(self.length.type, 8)
        column = self.builder.sub(self.builder.add(self.i, _number(after, self.length)), place)
        splat = self.builder.insert_element(
            ir.Constant(kind, ir.Undefined), column, ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        splat = self.builder.shuffle_vector(splat, splat, zeros)
        return self.builder.icmp_signed(sign, ir.Constant(kind, list(range(8))), splat)

    def subtract(self, total, chunk, factor):
        """``total - factor * chunk``."""
        change = self.builder.fmul(chunk, factor, flags=_FAST)
        return self.builder.fsub(total, change, flags=_FAST)


def _constant(value):
    return ir.Constant(_vector_type(8), [value] * 8)


def _types_fit(matrix, left, right, one, other) -> bool:
    return _row_types_fit(matrix, ndim=2) and _row_types_fit(left, right, one, other)


@intrinsic
def _solve(typingctx, matrix, left, right, i, one, other, numbers):
    """``other = q right - b left`` and ``one = p left - u other`` for the numbers p, q, u, b, where
    the columns i and i + 1 of ``left`` and ``right`` are taken to be those of the identity."""
    if not _types_fit(matrix, left, right, one, other):
        return None

    def codegen(context, builder, signature, args):
        pair = _Pair(context, builder, signature, args)
        p, q, u, below = (_splat(builder, builder.extract_value(args[6], k), 8) for k in range(4))

        def emit(places):
            for place in places:
                chunks = []
                for which, row in enumerate(pair.factors):
                    chunk = _load(builder, row.data, place, 8)
                    for after in (0, 1):
                        unit = _constant(1.0 if after == which else 0.0)
                        chunk = builder.select(pair.columns("==", place, after), unit, chunk)
                    chunks.append(chunk)
                second = builder.fmul(chunks[1], q, flags=_FAST)
                second = pair.subtract(second, chunks[0], below)
                first = builder.fmul(chunks[0], p, flags=_FAST)
                first = pair.subtract(first, second, u)
                _store(builder, first, pair.rows[0].data, place, 8)
                _store(builder, second, pair.rows[1].data, place, 8)

        _for_groups(builder, pair.length, emit)
        return context.get_dummy_value()

    numbers = types.UniTuple(types.float64, 4)
    return types.none(matrix, left, right, types.int64, one, other, numbers), codegen


def _advance(context, builder, signature, args, start_next: bool) -> None:
    """Subtract from the rows before i the products of their columns i and i + 1 with the rows i and
    i + 1, which are done; with ``start_next`` also begin the rows i + 2 and i + 3: those less their
    products with all rows before, in one pass over the matrix."""
    pair = _Pair(context, builder, signature, args)
    source = _array(context, builder, signature, args, 6)
    stride = args[7]
    two, one = _number(2, pair.length), _number(1, pair.length)
    ends = [pair.i, builder.add(pair.i, one)]
    later = [builder.mul(builder.add(end, two), pair.length) for end in ends]

    def column(entry, which):
        """The factor of a row of the matrix: its entry in column i or i + 1."""
        start = args[8] if which == 0 else builder.add(args[8], args[9])
        place = builder.add(start, builder.mul(entry, stride))
        return _splat(builder, builder.load(builder.gep(source.data, [place])), 8)

    def coming(entry, which):
        """An entry of row i + 2 or i + 3."""
        place = builder.gep(pair.matrix.data, [builder.add(later[which], entry)])
        return _splat(builder, builder.load(place), 8)

    def emit(places):
        kept = [[_load(builder, row.data, place, 8) for place in places] for row in pair.rows]
        here = [
            builder.or_(pair.columns("==", place), pair.columns("==", place, 1)) for place in places
        ]
        sums = []
        if start_next:
            for which in range(2):
                factors = [coming(end, which) for end in ends]
                for c, place in enumerate(places):
                    known = _load(builder, pair.matrix.data, builder.add(later[which], place), 8)
                    is_later = pair.columns(">=", place, 2)
                    total = builder.select(is_later, known, _constant(0.0))
                    for factor, chunks in zip(factors, kept):
                        total = pair.subtract(total, chunks[c], factor)
                    sums.append(cgutils.alloca_once_value(builder, total))
        with pair.rows_before() as (entry, _):
            factors = [column(entry, which) for which in range(2)]
            following = [coming(entry, which) for which in range(2)] if start_next else []
            for c, place in enumerate(places):
                at = pair.at(entry, place)
                known = _load(builder, pair.matrix.data, at, 8)
                total = builder.select(here[c], _constant(0.0), known)
                for factor, chunks in zip(factors, kept):
                    total = pair.subtract(total, chunks[c], factor)
                _store(builder, total, pair.matrix.data, at, 8)
                for which, factor in enumerate(following):
                    partial = sums[which * len(places) + c]
                    changed = pair.subtract(builder.load(partial), total, factor)
                    builder.store(changed, partial)
        for place, partial in enumerate(sums):
            which, c = divmod(place, len(places))
            _store(builder, builder.load(partial), pair.factors[which].data, places[c], 8)

    _for_groups(builder, pair.length, emit)


def _advance_signature(matrix, left, right, one, other, source):
    if not _types_fit(matrix, left, right, one, other) or not _row_types_fit(source):
        return None
    integer = types.int64
    return types.none(matrix, left, right, integer, one, other, source, integer, integer, integer)


@intrinsic
def _spread_and_combine(typingctx, matrix, left, right, i, one, other, source, stride, start, step):
    """Subtract ``u[r] * one + v[r] * other`` from the rows r before i, u and v being columns i and
    i + 1, which are then taken to be 0; ``left`` and ``right`` become the rows i + 2 and i + 3
    less their products with all rows before. ``u[r]`` is ``source[start + r * stride]``, and
    ``v[r]`` is ``step`` places later."""
    signature = _advance_signature(matrix, left, right, one, other, source)
    if signature is None:
        return None

    def codegen(context, builder, signature, args):
        _advance(context, builder, signature, args, True)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _spread(typingctx, matrix, left, right, i, one, other, source, stride, start, step):
    """The same for the last two rows, which no other follows."""
    signature = _advance_signature(matrix, left, right, one, other, source)
    if signature is None:
        return None

    def codegen(context, builder, signature, args):
        _advance(context, builder, signature, args, False)
        return context.get_dummy_value()

    return signature, codegen


@leaf
def _is_bounded(matrix, i):
    """Whether the inverse of the first i rows is not too large."""
    corner = 0.0
    for r in range(i):
        corner = max(corner, abs(matrix[r, r]))
    return corner <= 1.0 / SINGULAR**2


@leaf
def invert(matrix, factors):
    """Replace a matrix by its inverse; returns the log of its determinant.

    Returns minus infinity if it is nearly singular; the matrix is then meaningless. There is no
    pivoting: leading minors must be positive, and triangular factors bounded.

    Parameters
    ----------
    matrix : array of shape (even(n), padded(n))
        An odd n has a last row and column of the identity.
    factors : array of length 4 * padded(n)
        Scratch.
    """
    n, width = matrix.shape
    left, right = factors[:width], factors[width : 2 * width]
    columns, flat = factors[2 * width : 4 * width], matrix.reshape(n * width)
    copy(left, matrix[0])
    copy(right, matrix[1])
    log_det, product = 0.0, 1.0
    for i in range(0, n, 2):
        # Rows before i hold the inverse of their block, and this times the columns after it; left
        # and right are the rows i and i + 1 less their products with those.
        one, other = matrix[i], matrix[i + 1]
        first, above, below = left[i], left[i + 1], right[i]
        block = first * right[i + 1] - above * below
        if not (first > SINGULAR and block > SINGULAR * first):
            return -np.inf
        inverse, share = 1.0 / first, first / block
        numbers = (inverse, share, above * inverse, below / block)
        product *= block
        if product < SMALL or product > 1.0 / SMALL:
            log_det += np.log(product)
            product = 1.0
        _solve(matrix, left, right, i, one, other, numbers)
        if i % 8 == 0 and not _is_bounded(matrix, i):
            return -np.inf
        source, stride, start, step = flat, width, i, 1
        if width != 8 and width != 32:  # columns are changed in several passes: keep these
            for r in range(i):
                columns[r], columns[width + r] = matrix[r, i], matrix[r, i + 1]
            source, stride, start, step = columns, 1, 0, width
        if i + 2 < n:
            _spread_and_combine(matrix, left, right, i, one, other, source, stride, start, step)
        else:
            _spread(matrix, left, right, i, one, other, source, stride, start, step)
    return log_det + np.log(product)


@intrinsic
def weigh_differences(typingctx, arcs, column, corner, out):
    """``out = arcs * (corner - column)``; its sum and its smallest entry, and the sum of the
    column."""
    if not _row_types_fit(arcs, column, out):
        return None

    def codegen(context, builder, signature, args):
        source, other, target = (_array(context, builder, signature, args, k) for k in (0, 1, 3))
        zero = ir.Constant(_DOUBLE, 0.0)
        lowest, total = (cgutils.alloca_once_value(builder, zero) for _ in range(2))
        low, sums = (cgutils.alloca_once_value(builder, _constant(0.0)) for _ in range(2))

        def emit(offset, width):
            known = _load(builder, other.data, offset, width)
            change = builder.fsub(_splat(builder, args[2], width), known, flags=_FAST)
            value = builder.fmul(_load(builder, source.data, offset, width), change, flags=_FAST)
            _store(builder, value, target.data, offset, width)
            if width == 8:
                _accumulate(builder, known, sums)
                builder.store(_larger(builder, value, builder.load(low), "<"), low)
            else:
                _add_elements(builder, known, width, total)
                least = _fold(builder, value, width, "<")
                builder.store(_larger(builder, least, builder.load(lowest), "<"), lowest)
            return value

        found = _sum_of_chunks(builder, _length(builder, target), emit)
        _add_elements(builder, builder.load(sums), 8, total)
        least = _larger(
            builder, _fold(builder, builder.load(low), 8, "<"), builder.load(lowest), "<"
        )
        answers = (found, least, builder.load(total))
        return context.make_tuple(builder, signature.return_type, answers)

    return types.UniTuple(types.float64, 3)(arcs, column, types.float64, out), codegen
