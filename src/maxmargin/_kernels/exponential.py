"""Exponentials and logarithms of rows, as vector instructions.

Sums over the labellings of a chain need an exponential for every pair of labels at every position,
its entropy a logarithm. Compilers call the C library for one number at a time; here eight
are computed at once, to within two units in the last place.

Rows are one-dimensional contiguous arrays of float64, as in :mod:`maxmargin._kernels.vector`.
"""

from __future__ import annotations

import math

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
    _for_disjoint_chunks,
    _length,
    _load,
    _row_types_fit,
    _splat,
    _store,
    _sum_of_chunks,
    _vector_type,
)
from .maxima import _fold

# Numba adds its fast-math flags to every operation of a kernel, these included: where the order
# of operations matters, intrinsic functions are called, which are not reordered.
_INTEGER = ir.IntType(64)
# Below this, exp is set to 0: the result would be a subnormal number.
_LOWEST = -708.0
_SMALLEST = 2.2250738585072014e-308  # the smallest normal number
_FLOOR = 1e-300
# log 2 in two parts, the first short enough that its product with any exponent is exact.
_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
# Of the polynomial that interpolates exp at the Chebyshev nodes of 0.3466 times [-1, 1]; its error
# is at most 1.7e-17, relative to exp.
_EXP_TERMS = [
    1.0, 1.0, 0.5000000000000019, 0.1666666666666668, 0.04166666666648799, 0.008333333333319592,
    0.0013888888952343797, 0.00019841269890069431, 2.4801485451264055e-05, 2.7557240894691074e-06,
    2.76326511328741e-07, 2.5110046444457486e-08,
]  # fmt: skip
# Added to a number below 2^51, this leaves its nearest integer in the last bits.
_TO_INTEGER = 1.5 * 2.0**52
_LOG_TERMS = [1.0 / (2 * power + 1) for power in range(1, 11)]  # of atanh(s)/s - 1, in s^2


def _number(value: float, width: int):
    return ir.Constant(_vector_type(width), [value] * width)


def _integers(value: int, width: int):
    return ir.Constant(ir.VectorType(_INTEGER, width), [value] * width)


def _call(builder, name: str, width: int, *args):
    """A function of LLVM for vectors of doubles, such as "fma"."""
    kind = _vector_type(width)
    full_name = f"llvm.{name}.v{width}f64"
    function = builder.module.globals.get(full_name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(args)), full_name)
    return builder.call(function, args)


def _polynomial(builder, x, terms, width: int):
    """``sum_p terms[p] x^p`` by Horner's rule."""
    total = _number(terms[-1], width)
    for term in reversed(terms[:-1]):
        total = _call(builder, "fma", width, total, x, _number(term, width))
    return total


def _exp(builder, x, width: int):
    """``exp(x)`` for x below 709: ``2^n exp(r)`` with n the nearest integer to x / log 2."""
    zero = builder.fcmp_ordered("<", x, _number(_LOWEST, width))
    x = builder.select(zero, _number(_LOWEST, width), x)
    shifted = _call(
        builder, "fma", width, x, _number(1.0 / math.log(2.0), width), _number(_TO_INTEGER, width)
    )
    n = builder.fsub(shifted, _number(_TO_INTEGER, width))
    r = _call(builder, "fma", width, n, _number(-_LOG2_HIGH, width), x)
    r = _call(builder, "fma", width, n, _number(-_LOG2_LOW, width), r)
    power = builder.bitcast(shifted, ir.VectorType(_INTEGER, width))
    power = builder.shl(builder.add(power, _integers(1023, width)), _integers(52, width))
    power = builder.bitcast(power, _vector_type(width))
    value = builder.fmul(_polynomial(builder, r, _EXP_TERMS, width), power)
    return builder.select(zero, _number(0.0, width), value)


def _log(builder, x, width: int):
    """``log(x)`` for positive normal numbers: ``n log 2 + 2 atanh((m - 1) / (m + 1))``."""
    integers = ir.VectorType(_INTEGER, width)
    bits = builder.bitcast(x, integers)
    # m in [sqrt(1/2), sqrt(2)): count exponents from that of sqrt(1/2).
    offset = _integers(0x3FE6A09E667F3BCD, width)
    steps = builder.ashr(builder.sub(bits, offset), _integers(52, width))
    mantissa = builder.sub(bits, builder.shl(steps, _integers(52, width)))
    m = builder.bitcast(mantissa, _vector_type(width))
    n = builder.sitofp(steps, _vector_type(width))
    f = builder.fsub(m, _number(1.0, width))
    s = builder.fdiv(f, builder.fadd(m, _number(1.0, width)))
    square = builder.fmul(s, s)
    series = builder.fmul(square, _polynomial(builder, square, _LOG_TERMS, width))
    # 2 s = f - s f, so that the leading term keeps the digits of f
    small = builder.fsub(builder.fmul(s, builder.fadd(series, series)), builder.fmul(s, f))
    small = builder.fadd(f, _call(builder, "fma", width, n, _number(_LOG2_LOW, width), small))
    return _call(builder, "fma", width, n, _number(_LOG2_HIGH, width), small)


@intrinsic
def extremes(typingctx, row):
    """Smallest and largest entry of a row that is not empty."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        found = [
            (sign, cgutils.alloca_once_value(builder, _number(worst, 8)))
            for sign, worst in (("<", math.inf), (">", -math.inf))
        ]

        def emit(offset, width):
            values = _load(builder, source.data, offset, width)
            if width < 8:  # repeat the same numbers in the remaining lanes
                repeat = [place % width for place in range(8)]
                places = ir.Constant(ir.VectorType(ir.IntType(32), 8), repeat)
                values = builder.shuffle_vector(values, values, places)
            for sign, best in found:
                known = builder.load(best)
                better = builder.fcmp_ordered(sign, values, known)
                builder.store(builder.select(better, values, known), best)

        _for_disjoint_chunks(builder, _length(builder, source), emit)
        answers = []
        for sign, best in found:
            answers.append(_fold(builder, builder.load(best), 8, sign))
        return context.make_tuple(builder, signature.return_type, answers)

    return types.UniTuple(types.float64, 2)(row), codegen


@intrinsic
def exp_row(typingctx, row, shift, out):
    """``out = exp(row - shift)``, and its sum; the differences must be below 709."""
    if not _row_types_fit(row, out):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        target = _array(context, builder, signature, args, 2)

        def emit(offset, width):
            x = builder.fsub(
                _load(builder, source.data, offset, width), _splat(builder, args[1], width)
            )
            value = _exp(builder, x, width)
            _store(builder, value, target.data, offset, width)
            return value

        return _sum_of_chunks(builder, _length(builder, target), emit)

    return types.float64(row, types.float64, out), codegen


@intrinsic
def exp_difference(typingctx, row, constant, shifts, out, sums):
    """``out = exp(row + constant - shifts)`` and ``sums += out``; exponents must be below 709."""
    if not _row_types_fit(row, shifts, out, sums):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        lower = _array(context, builder, signature, args, 2)
        target = _array(context, builder, signature, args, 3)
        total = _array(context, builder, signature, args, 4)

        def emit(offset, width):
            x = builder.fadd(
                _load(builder, source.data, offset, width), _splat(builder, args[1], width)
            )
            x = builder.fsub(x, _load(builder, lower.data, offset, width))
            value = _exp(builder, x, width)
            _store(builder, value, target.data, offset, width)
            new = builder.fadd(_load(builder, total.data, offset, width), value, flags=_FAST)
            _store(builder, new, total.data, offset, width)

        _for_disjoint_chunks(builder, _length(builder, target), emit)
        return context.get_dummy_value()

    return types.none(row, types.float64, shifts, out, sums), codegen


@intrinsic
def log_row(typingctx, row, out):
    """``out = log(row)`` for positive numbers; minus infinity for those below 2.3e-308."""
    if not _row_types_fit(row, out):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)
        target = _array(context, builder, signature, args, 1)

        def emit(offset, width):
            x = _load(builder, source.data, offset, width)
            none = builder.fcmp_ordered("<", x, _number(_SMALLEST, width))
            value = _log(builder, builder.select(none, _number(1.0, width), x), width)
            value = builder.select(none, _number(-math.inf, width), value)
            _store(builder, value, target.data, offset, width)

        _for_disjoint_chunks(builder, _length(builder, target), emit)
        return context.get_dummy_value()

    return types.none(row, out), codegen


@intrinsic
def entropy_of_row(typingctx, row):
    """``- sum row * log(row)``, where ``0 log 0 = 0``."""
    if not _row_types_fit(row):
        return None

    def codegen(context, builder, signature, args):
        source = _array(context, builder, signature, args, 0)

        def emit(offset, width):
            x = _load(builder, source.data, offset, width)
            none = builder.fcmp_ordered("<", x, _number(_SMALLEST, width))
            # the logarithm of 1 is 0: nothing is added
            value = _log(builder, builder.select(none, _number(1.0, width), x), width)
            return builder.fmul(x, builder.fneg(value), flags=_FAST)

        return _sum_of_chunks(builder, _length(builder, source), emit)

    return types.float64(row), codegen


@intrinsic
def entropy_line(typingctx, row, direction, gamma):
    """``sum_k d_k log(p_k)`` and ``sum_k d_k^2 / p_k`` at ``p = row + gamma * d``.

    Up to their signs, and for a direction that sums to zero, the derivatives of the entropy along
    d. Entries of p below 1e-300 count as 1e-300; they add nothing where d is zero.
    """
    if not _row_types_fit(row, direction):
        return None

    def codegen(context, builder, signature, args):
        base = _array(context, builder, signature, args, 0)
        move = _array(context, builder, signature, args, 1)
        second = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLE, 0.0))
        seconds = cgutils.alloca_once_value(builder, _number(0.0, 8))

        def emit(offset, width):
            d = _load(builder, move.data, offset, width)
            step = builder.fmul(d, _splat(builder, args[2], width), flags=_FAST)
            p = builder.fadd(_load(builder, base.data, offset, width), step, flags=_FAST)
            low = builder.fcmp_ordered("<", p, _number(_FLOOR, width))
            p = builder.select(low, _number(_FLOOR, width), p)
            ratio = builder.fdiv(builder.fmul(d, d, flags=_FAST), p, flags=_FAST)
            if width == 8:
                _accumulate(builder, ratio, seconds)
            else:
                _add_elements(builder, ratio, width, second)
            return builder.fmul(d, _log(builder, p, width), flags=_FAST)

        first = _sum_of_chunks(builder, _length(builder, base), emit)
        _add_elements(builder, builder.load(seconds), 8, second)
        return context.make_tuple(builder, signature.return_type, (first, builder.load(second)))

    signature = types.UniTuple(types.float64, 2)(row, direction, types.float64)
    return signature, codegen
