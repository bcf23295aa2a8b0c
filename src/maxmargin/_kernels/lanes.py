"""Inverses of four matrices of the same size at once, one in each lane of a vector of 4 numbers.

Entry (r, c) of matrix k is number ``4 (r n + c) + k``: there are no short rows, no padding and no
sums across a vector. The elimination is that of Gauss and Jordan in place without pivoting, four
rows at a time, then one at a time.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .chunks import (
    _FAST,
    _accumulate,
    _array,
    _load,
    _row_types_fit,
    _store,
    _vector_type,
)
from .elimination import SINGULAR
from .maxima import _larger

LANES = 4
_INDEX = ir.IntType(64)
_FLAGS = ir.VectorType(ir.IntType(1), LANES)


def _count(value: int):
    return ir.Constant(_INDEX, value)


def _all_lanes(value: float):
    return ir.Constant(_vector_type(LANES), [value] * LANES)


def _transposed(builder, rows):
    """Columns of four vectors."""

    def shuffle(one, other, places):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), places)
        return builder.shuffle_vector(one, other, mask)

    a, b, c, d = rows
    low, high = [0, 4, 2, 6], [1, 5, 3, 7]
    halves = [shuffle(a, b, low), shuffle(a, b, high), shuffle(c, d, low), shuffle(c, d, high)]
    first, second = [0, 1, 4, 5], [2, 3, 6, 7]
    return [
        shuffle(halves[k % 2], halves[2 + k % 2], first if k < 2 else second) for k in range(LANES)
    ]


class _Tables:
    """Four tables of n rows of words and n + 1 columns of heads, the first one the root."""

    def __init__(self, builder, array, word):
        self.builder, self.data = builder, array.data
        _, self.n, width = cgutils.unpack_tuple(builder, array.shape)
        first = builder.add(builder.mul(word, width), _count(1))
        size = builder.mul(self.n, width)
        self.starts = [builder.add(first, builder.mul(_count(k), size)) for k in range(LANES)]

    def places(self, column):
        return [self.builder.add(start, column) for start in self.starts]

    def one(self, column):
        """The entries of a column, a lane each."""
        vector = ir.Constant(_vector_type(LANES), ir.Undefined)
        for k, place in enumerate(self.places(column)):
            number = self.builder.load(self.builder.gep(self.data, [place]))
            vector = self.builder.insert_element(vector, number, ir.Constant(ir.IntType(32), k))
        return vector

    def put_one(self, column, vector):
        for k, place in enumerate(self.places(column)):
            number = self.builder.extract_element(vector, ir.Constant(ir.IntType(32), k))
            self.builder.store(number, self.builder.gep(self.data, [place]))

    def four(self, column):
        """Four columns of each table."""
        return [_load(self.builder, self.data, place, LANES) for place in self.places(column)]

    def for_columns(self, emit_four, emit_one) -> None:
        """Emit code for groups of four columns, then for single ones."""
        whole = self.builder.and_(self.n, _count(-LANES))
        for first, last, emit in ((_count(0), whole, emit_four), (whole, self.n, emit_one)):
            step = _count(LANES if emit is emit_four else 1)
            with cgutils.for_range_slice(self.builder, first, last, step, _INDEX) as (column, _):
                emit(column)


def _tables_fit(*tables) -> bool:
    return _row_types_fit(*tables, ndim=3)


@intrinsic
def laplacian_column(typingctx, arcs, word, shifts, matrices, sums):
    """Write ``shifts[k] - arcs[k, word, h + 1]`` to entry (h, word) of matrix k for all h below n;
    ``sums[k]`` is the sum of the arcs."""
    if not _row_types_fit(shifts, matrices, sums) or not _tables_fit(arcs):
        return None

    def codegen(context, builder, signature, args):
        source, shift, matrix, sums = (
            _array(context, builder, signature, args, k) for k in (0, 2, 3, 4)
        )
        tables = _Tables(builder, source, args[1])
        four = _Four(builder, matrix.data, tables.n)
        added = _load(builder, shift.data, _count(0), LANES)
        total = cgutils.alloca_once_value(builder, _all_lanes(0.0))

        def write(column, vector):
            _accumulate(builder, vector, total)
            four.put(column, args[1], builder.fsub(added, vector, flags=_FAST))

        def emit(column):
            for j, vector in enumerate(_transposed(builder, tables.four(column))):
                write(builder.add(column, _count(j)), vector)

        tables.for_columns(emit, lambda column: write(column, tables.one(column)))
        _store(builder, builder.load(total), sums.data, _count(0), LANES)
        return context.get_dummy_value()

    return types.none(arcs, types.int64, shifts, matrices, sums), codegen


@intrinsic
def weigh_lanes(typingctx, arcs, word, matrices, found):
    """Multiply ``arcs[k, word, h + 1]`` by ``m[word] - m[h]``, m being row ``word`` of matrix k;
    ``found`` becomes the sums of the products, the smallest ones or 0, and the sums of m."""
    if not _row_types_fit(matrices, found) or not _tables_fit(arcs):
        return None

    def codegen(context, builder, signature, args):
        source, matrix, answers = (_array(context, builder, signature, args, k) for k in (0, 2, 3))
        tables = _Tables(builder, source, args[1])
        four = _Four(builder, matrix.data, tables.n)
        corners = four.get(args[1], args[1])
        columns, *partial = (
            cgutils.alloca_once_value(builder, _all_lanes(0.0)) for _ in range(1 + 2 * LANES + 2)
        )
        sums, lows = partial[: LANES + 1], partial[LANES + 1 :]

        def weigh(arc, change, k):
            value = builder.fmul(arc, change, flags=_FAST)
            _accumulate(builder, value, sums[k])
            builder.store(_larger(builder, value, builder.load(lows[k]), "<"), lows[k])
            return value

        def change_at(column):
            known = four.get(args[1], column)
            _accumulate(builder, known, columns)
            return builder.fsub(corners, known, flags=_FAST)

        def emit(column):
            changes = [change_at(builder.add(column, _count(j))) for j in range(LANES)]
            rows = zip(tables.four(column), _transposed(builder, changes), tables.places(column))
            for k, (arc, change, place) in enumerate(rows):
                _store(builder, weigh(arc, change, k), tables.data, place, LANES)

        def emit_one(column):
            tables.put_one(column, weigh(tables.one(column), change_at(column), LANES))

        tables.for_columns(emit, emit_one)
        total, low = builder.load(sums[LANES]), builder.load(lows[LANES])
        for vector in _transposed(builder, [builder.load(part) for part in sums[:LANES]]):
            total = builder.fadd(total, vector, flags=_FAST)
        for vector in _transposed(builder, [builder.load(part) for part in lows[:LANES]]):
            low = _larger(builder, vector, low, "<")
        for k, vector in enumerate((total, low, builder.load(columns))):
            _store(builder, vector, answers.data, _count(LANES * k), LANES)
        return context.get_dummy_value()

    return types.none(arcs, types.int64, matrices, found), codegen


class _Four:
    """Four interleaved matrices, and which of them have been regular so far."""

    def __init__(self, builder, data, n):
        self.builder, self.data, self.n = builder, data, n
        yes = ir.Constant(_FLAGS, [1] * LANES)
        self.regular = cgutils.alloca_once_value(builder, yes)

    def place(self, row, column):
        cell = self.builder.add(self.builder.mul(row, self.n), column)
        return self.builder.mul(cell, _count(LANES))

    def get(self, row, column):
        return _load(self.builder, self.data, self.place(row, column), LANES)

    def put(self, row, column, value):
        _store(self.builder, value, self.data, self.place(row, column), LANES)

    def loop(self, first, last, step=1):
        return cgutils.for_range_slice(self.builder, first, last, _count(step), _INDEX)

    def multiply(self, one, other):
        return self.builder.fmul(one, other, flags=_FAST)

    def subtract(self, total, one, other):
        """``total - one * other``."""
        return self.builder.fsub(total, self.multiply(one, other), flags=_FAST)

    def require(self, holds):
        self.builder.store(self.builder.and_(self.builder.load(self.regular), holds), self.regular)

    def require_bounded(self, k):
        """The inverse of the first k rows must not be too large."""
        bound = _all_lanes(1.0 / SINGULAR**2)
        with self.loop(_count(0), k) as (row, _):
            corner = self.get(row, row)
            size = self.builder.select(
                self.builder.fcmp_ordered("<", corner, _all_lanes(0.0)),
                self.builder.fneg(corner),
                corner,
            )
            self.require(self.builder.fcmp_ordered("<=", size, bound))

    def inverse_of_block(self, pivots):
        """Inverse of the rows and columns ``pivots``, and its determinant."""
        builder = self.builder
        block = [[self.get(row, column) for column in pivots] for row in pivots]
        product = None
        for k, row in enumerate(block):
            fits = builder.fcmp_ordered(">", row[k], _all_lanes(SINGULAR))
            self.require(fits)
            pivot = builder.select(fits, row[k], _all_lanes(1.0))
            product = pivot if product is None else self.multiply(product, pivot)
            row[k] = _all_lanes(1.0)
            inverse = builder.fdiv(_all_lanes(1.0), pivot, flags=_FAST)
            row[:] = [self.multiply(value, inverse) for value in row]
            for other in block:
                if other is not row:
                    factor, other[k] = other[k], _all_lanes(0.0)
                    other[:] = [
                        self.subtract(total, factor, value) for total, value in zip(other, row)
                    ]
        return block, product

    def solve(self, pivots, block):
        """Multiply the rows ``pivots`` by the inverse of their block, which takes its place."""
        with self.loop(_count(0), self.n) as (column, _):
            known = [self.get(row, column) for row in pivots]
            for row, factors in zip(pivots, block):
                total = self.multiply(factors[0], known[0])
                for factor, value in zip(factors[1:], known[1:]):
                    change = self.multiply(factor, value)
                    total = self.builder.fadd(total, change, flags=_FAST)
                self.put(row, column, total)
        for row, factors in zip(pivots, block):
            for column, value in zip(pivots, factors):
                self.put(row, column, value)

    def spread(self, pivots, rows):
        """Subtract the products of their columns ``pivots`` and the rows ``pivots`` from rows."""
        factors = [[self.get(row, column) for column in pivots] for row in rows]
        for row in rows:
            for column in pivots:
                self.put(row, column, _all_lanes(0.0))
        with self.loop(_count(0), self.n) as (column, _):
            done = [self.get(pivot, column) for pivot in pivots]
            for row, shares in zip(rows, factors):
                total = self.get(row, column)
                for share, value in zip(shares, done):
                    total = self.subtract(total, share, value)
                self.put(row, column, total)

    def eliminate(self, k, size: int):
        """Eliminate ``size`` rows from row k on; returns the determinants of their block."""
        builder = self.builder
        pivots = [builder.add(k, _count(j)) for j in range(size)]
        with builder.if_then(builder.icmp_signed("==", builder.and_(k, _count(7)), _count(0))):
            self.require_bounded(k)
        block, product = self.inverse_of_block(pivots)
        self.solve(pivots, block)
        after = builder.add(k, _count(size))
        for first, last in ((_count(0), k), (after, self.n)):
            twos = builder.add(first, builder.and_(builder.sub(last, first), _count(-2)))
            with self.loop(first, twos, 2) as (row, _):
                self.spread(pivots, [row, builder.add(row, _count(1))])
            with builder.if_then(builder.icmp_signed("<", twos, last)):
                self.spread(pivots, [twos])
        return product


@intrinsic
def invert_lanes(typingctx, matrices, n, products):
    """Replace four interleaved matrices by their inverses; returns a bit for each accurate one.

    The conditions are those of :func:`maxmargin._kernels.elimination.invert`. Determinants are
    products of rows of 4 numbers in ``products``, ``n // 4 + n % 4`` of them.
    """
    if not _row_types_fit(matrices, products):
        return None

    def codegen(context, builder, signature, args):
        n = args[1]
        data, factors = (_array(context, builder, signature, args, k).data for k in (0, 2))
        four = _Four(builder, data, n)
        written = cgutils.alloca_once_value(builder, _count(0))
        whole = builder.and_(n, _count(-LANES))
        for first, last, size in ((_count(0), whole, LANES), (whole, n, 1)):
            with four.loop(first, last, size) as (k, _):
                at = builder.load(written)
                _store(builder, four.eliminate(k, size), factors, at, LANES)
                builder.store(builder.add(at, _count(LANES)), written)
        bits = builder.bitcast(builder.load(four.regular), ir.IntType(LANES))
        return builder.zext(bits, _INDEX)

    return types.int64(matrices, types.int64, products), codegen
