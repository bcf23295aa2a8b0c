"""Moves within four tables of binary pairs at once, as explicit vector instructions.

Tables with separate weights do not depend on each other while their variables are fixed, so four of
them take the same steps in parallel, each in one lane of the vectors. The mass of a table is
``m0 .. m3`` on the states 00, 01, 10, 11; the message of a binary variable is ``(-l, l)``, so one
number is stored.

Entries may share weights, or have none: ``K[e, f]`` is 1 where entries e and f use the same weight,
and a move from entry w to entry b changes the score of e by ``scale * step * (K[e, w] - K[e, b])``.
With four weights in a table K is the identity.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..._kernels.chunks import _DOUBLE, _FAST, _array, _load, _row_types_fit, _splat, _store
from .agreement import NEGLIGIBLE
from .ranges import LANES

_BITS = ir.IntType(LANES)
_INFINITY = float("inf")
_TINY = 1e-300


class _Lanes:
    """A vector in the generated code, with the operators of numbers."""

    def __init__(self, builder: Any, value: Any):
        self.builder, self.value = builder, value

    def _with(self, value: Any) -> _Lanes:
        return _Lanes(self.builder, value)

    def __add__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.fadd(self.value, other.value, flags=_FAST))

    def __sub__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.fsub(self.value, other.value, flags=_FAST))

    def __mul__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.fmul(self.value, other.value, flags=_FAST))

    def __truediv__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.fdiv(self.value, other.value))

    def compare(self, how: str, other: _Lanes) -> _Lanes:
        """Bits, one per lane."""
        return self._with(self.builder.fcmp_ordered(how, self.value, other.value))

    def __and__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.and_(self.value, other.value))

    def __or__(self, other: _Lanes) -> _Lanes:
        return self._with(self.builder.or_(self.value, other.value))

    def __invert__(self) -> _Lanes:
        return self._with(self.builder.not_(self.value))

    def choose(self, yes: _Lanes, no: _Lanes) -> _Lanes:
        """``yes`` where these bits are set, ``no`` elsewhere."""
        return self._with(self.builder.select(self.value, yes.value, no.value))

    def least(self, other: _Lanes) -> _Lanes:
        return self.compare("<", other).choose(self, other)

    def most(self, other: _Lanes) -> _Lanes:
        return self.compare(">", other).choose(self, other)

    def any(self) -> Any:
        """Whether a bit is set."""
        bits = self.builder.bitcast(self.value, _BITS)
        return self.builder.icmp_unsigned("!=", bits, ir.Constant(_BITS, 0))

    def total(self) -> Any:
        """The sum of all lanes."""
        small = ir.IntType(32)
        found = None
        for lane in range(LANES):
            one = self.builder.extract_element(self.value, ir.Constant(small, lane))
            found = one if found is None else self.builder.fadd(found, one, flags=_FAST)
        return found


def _shuffled(first: _Lanes, second: _Lanes, places: list[int]) -> _Lanes:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), places)
    return first._with(first.builder.shuffle_vector(first.value, second.value, mask))


def _transposed(rows: list[_Lanes]) -> list[_Lanes]:
    """Columns of a square of numbers."""
    a, b, c, d = rows
    low, high = _shuffled(a, b, [0, 4, 1, 5]), _shuffled(a, b, [2, 6, 3, 7])
    low_next, high_next = _shuffled(c, d, [0, 4, 1, 5]), _shuffled(c, d, [2, 6, 3, 7])
    return [
        _shuffled(low, low_next, [0, 1, 4, 5]),
        _shuffled(low, low_next, [2, 3, 6, 7]),
        _shuffled(high, high_next, [0, 1, 4, 5]),
        _shuffled(high, high_next, [2, 3, 6, 7]),
    ]


def _one_of(values: list[_Lanes], chosen: _Lanes) -> list[_Lanes]:
    """Bits of the first of some values that equals the chosen one."""
    found = [values[0].compare("==", chosen)]
    taken = found[0]
    for value in values[1:]:
        found.append(value.compare("==", chosen) & ~taken)
        taken = taken | found[-1]
    return found


class _Square:
    """Sixteen numbers in a row of memory: four for each of four tables."""

    def __init__(self, builder: Any, pointer: Any, offset: Any):
        self.builder, self.pointer = builder, pointer
        self.offsets = [
            builder.add(offset, ir.Constant(offset.type, LANES * lane)) for lane in range(LANES)
        ]

    def read(self) -> list[_Lanes]:
        """Vectors over the tables, one for each of the four numbers."""
        rows = [
            _Lanes(self.builder, _load(self.builder, self.pointer, offset, LANES))
            for offset in self.offsets
        ]
        return _transposed(rows)

    def write(self, columns: list[_Lanes]) -> None:
        for offset, row in zip(self.offsets, _transposed(columns), strict=True):
            _store(self.builder, row.value, self.pointer, offset, LANES)


class _State:
    """Values that change from move to move; the compiler keeps them in registers."""

    def __init__(self, builder: Any, values: list[_Lanes]):
        self.builder = builder
        self.places = [cgutils.alloca_once_value(builder, value.value) for value in values]

    def read(self) -> list[_Lanes]:
        return [_Lanes(self.builder, self.builder.load(place)) for place in self.places]

    def write(self, values: list[_Lanes]) -> None:
        for place, value in zip(self.places, values, strict=True):
            self.builder.store(value.value, place)


def _table_values(weights: list[_Lanes], left: _Lanes, right: _Lanes) -> list[_Lanes]:
    w0, w1, w2, w3 = weights
    return [w0 + left + right, w1 + left - right, w2 - left + right, w3 - left - right]


def _extremes(values: list[_Lanes], mass: list[_Lanes], zero: _Lanes, infinity: _Lanes):
    """The highest value, the values of entries with mass, and the lowest of these."""
    high = values[0].most(values[1]).most(values[2].most(values[3]))
    held = [m.compare(">", zero).choose(t, infinity) for t, m in zip(values, mass, strict=True)]
    low = held[0].least(held[1]).least(held[2].least(held[3]))
    return high, held, low


class _OwnWeights:
    """Four consecutive weights per table."""

    def __init__(self, square: _Square):
        self.read, self.write = square.read, square.write

    def curvature(self, signs: list[_Lanes], two: _Lanes) -> _Lanes:
        """``|features of a move|^2``."""
        return two

    def moved(self, scores: list[_Lanes], signs: list[_Lanes], change: _Lanes) -> list[_Lanes]:
        """Scores after a move."""
        return [score - change * sign for score, sign in zip(scores, signs, strict=True)]


class _TiedWeights:
    """Scores of the entries, followed by the matrix K."""

    def __init__(self, builder: Any, pointer: Any, first: int):
        self.builder, self.pointer = builder, pointer
        kind = ir.IntType(64)
        self.offsets = [ir.Constant(kind, first + LANES * e) for e in range(LANES)]
        self.shared = []
        for e in range(LANES):
            places = [ir.Constant(kind, first + 16 + LANES * e + f) for f in range(LANES)]
            found = [builder.load(builder.gep(pointer, [place])) for place in places]
            self.shared.append([_Lanes(builder, _splat(builder, k, LANES)) for k in found])

    def read(self) -> list[_Lanes]:
        return [
            _Lanes(self.builder, _load(self.builder, self.pointer, offset, LANES))
            for offset in self.offsets
        ]

    def write(self, scores: list[_Lanes]) -> None:
        for offset, score in zip(self.offsets, scores, strict=True):
            _store(self.builder, score.value, self.pointer, offset, LANES)

    def _images(self, signs: list[_Lanes]) -> list[_Lanes]:
        images = []
        for row in self.shared:
            image = row[0] * signs[0]
            for k, sign in zip(row[1:], signs[1:], strict=True):
                image = image + k * sign
            images.append(image)
        return images

    def curvature(self, signs: list[_Lanes], two: _Lanes) -> _Lanes:
        images = self._images(signs)
        total = images[0] * signs[0]
        for image, sign in zip(images[1:], signs[1:], strict=True):
            total = total + image * sign
        return total

    def moved(self, scores: list[_Lanes], signs: list[_Lanes], change: _Lanes) -> list[_Lanes]:
        images = self._images(signs)
        return [score - change * image for score, image in zip(scores, images, strict=True)]


def _emit(
    builder: Any, squares: dict[str, _Square], table_weights: Any, pointer: Any,
    numbers: dict[str, Any],
):  # fmt: skip
    """Generate the code; returns the sums of gaps and of squared disagreement."""

    def splat(number: Any) -> _Lanes:
        value = ir.Constant(_DOUBLE, number) if isinstance(number, float) else number
        return _Lanes(builder, _splat(builder, value, LANES))

    zero, one, two, infinity = splat(0.0), splat(1.0), splat(2.0), splat(_INFINITY)
    minus_one, tiny = splat(-1.0), splat(_TINY)
    kappa, scale = splat(numbers["kappa"]), splat(numbers["scale"])
    offset = ir.Constant(ir.IntType(64), 0), ir.Constant(ir.IntType(64), LANES)
    own_left, own_right = (_Lanes(builder, _load(builder, pointer, at, LANES)) for at in offset)
    mass, weights = squares["tables"].read(), table_weights.read()
    _, eta_left, _, eta_right = squares["eta"].read()
    left = eta_left + kappa * (mass[2] + mass[3] - own_left)
    right = eta_right + kappa * (mass[1] + mass[3] - own_right)

    values = _table_values(weights, left, right)
    high, _, low = _extremes(values, mass, zero, infinity)
    gap = high
    for value, part in zip(values, mass, strict=True):
        gap = gap - value * part
    negligible = splat(NEGLIGIBLE)
    enough = (splat(numbers["enough"]) * (high - low)).most(negligible)
    state = _State(builder, [*mass, *weights, left, right])

    end = builder.append_basic_block("four.end")
    with cgutils.for_range(builder, numbers["most"]):
        found = state.read()
        mass, weights, (left, right) = found[:4], found[4:8], found[8:]
        values = _table_values(weights, left, right)
        high, held, low = _extremes(values, mass, zero, infinity)
        diff = high - low
        go_on = builder.append_basic_block("four.move")
        builder.cbranch(diff.compare(">=", enough).any(), go_on, end)
        builder.position_at_end(go_on)
        best, worst = _one_of(values, high), _one_of(held, low)
        up = [(best[2] | best[3]).choose(one, zero), (best[1] | best[3]).choose(one, zero)]
        down = [(worst[2] | worst[3]).choose(one, zero), (worst[1] | worst[3]).choose(one, zero)]
        to_left, to_right = (u - d for u, d in zip(up, down, strict=True))
        signs = [
            b.choose(w.choose(zero, one), w.choose(minus_one, zero))
            for b, w in zip(best, worst, strict=True)
        ]
        curvature = scale * table_weights.curvature(signs, two)
        curvature = curvature + two * kappa * (to_left * to_left + to_right * to_right)
        curvature = curvature.most(tiny)  # it is 0 where no mass is moved
        step = zero
        for bits, part in zip(worst, mass, strict=True):
            step = bits.choose(part, step)
        step = step.least(diff / curvature)
        mass = [m + step * sign for m, sign in zip(mass, signs, strict=True)]
        weights = table_weights.moved(weights, signs, scale * step)
        pull = kappa * step
        state.write([*mass, *weights, left + pull * to_left, right + pull * to_right])
    builder.branch(end)
    builder.position_at_end(end)

    found = state.read()
    mass, weights, (left, right) = found[:4], found[4:8], found[8:]
    squares["tables"].write(mass)
    table_weights.write(weights)
    implied_left, implied_right = mass[2] + mass[3], mass[1] + mass[3]
    squares["implied"].write([mass[0] + mass[1], implied_left, mass[0] + mass[2], implied_right])
    apart = (left - eta_left) * (left - eta_left) + (right - eta_right) * (right - eta_right)
    with builder.if_then(numbers["augmented"]):
        squares["eta"].write([zero - left, left, zero - right, right])
    chosen = builder.select(numbers["augmented"], ir.Constant(_BITS, -1), ir.Constant(_BITS, 0))
    moved = _Lanes(builder, builder.bitcast(chosen, ir.VectorType(ir.IntType(1), LANES)))
    for at, new, old, implied in (
        (offset[0], left, eta_left, implied_left),
        (offset[1], right, eta_right, implied_right),
    ):
        _store(builder, (moved.choose(new, old) + kappa * implied).value, pointer, at, LANES)
    disagreement = builder.fmul(apart.total(), ir.Constant(_DOUBLE, 2.0))
    return gap.total(), disagreement


def _member(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """A member of a NamedTuple."""
    return context.get_getattr(kind, name)(context, builder, kind, value, name)


class _Call:
    """The arguments of a call in the generated code."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any):
        self.context, self.builder, self.signature, self.args = context, builder, signature, args

    def pointer(self, place: int) -> Any:
        """Data of an array."""
        return _array(self.context, self.builder, self.signature, self.args, place).data

    def index(self, place: int) -> Any:
        """An integer."""
        kind = self.signature.args[place]
        return self.context.cast(self.builder, self.args[place], kind, types.int64)

    def square(self, name: str, place: int) -> _Square:
        """Sixteen numbers of the beliefs, which are the first argument."""
        kind = self.signature.args[0]
        found = _member(self.context, self.builder, kind, self.args[0], name)
        array = self.context.make_array(dict(zip(kind.fields, kind.types, strict=True))[name])
        return _Square(self.builder, array(self.context, self.builder, found).data, place)

    def moves(self, table_weights: Any, values: int) -> Any:
        """Generate the moves; the arguments from ``values`` on are those of both functions."""
        kind, penalty = self.signature.args[values + 1], self.args[values + 1]
        squares = {
            "tables": self.square("tables", self.index(1)),
            "eta": self.square("eta", self.index(2)),
            "implied": self.square("implied", self.index(2)),
        }
        numbers = {
            name: _member(self.context, self.builder, kind, penalty, name)
            for name in ("kappa", "augmented")
        } | {"scale": self.args[values + 2], "most": self.index(values + 3),
             "enough": self.args[values + 4]}  # fmt: skip
        found = _emit(self.builder, squares, table_weights, self.pointer(values), numbers)
        return cgutils.pack_array(self.builder, found)


def _fits(beliefs: Any, *arrays: Any) -> bool:
    kinds = dict(zip(beliefs.fields, beliefs.types, strict=True))
    held = (kinds[name] for name in ("tables", "eta", "implied"))
    return all(_row_types_fit(array, array) for array in (*held, *arrays))


_PAIR = types.UniTuple(types.float64, 2)


@intrinsic
def move_four(
    typingctx, beliefs, table_at, message_at, weights, column, values, penalty, scale, most, enough
):
    """Moves within four tables; returns their gaps, and ``|new - old multipliers|^2``.

    Mass, messages and weights of the four are stored consecutively, 16 numbers each, from
    ``table_at``, ``message_at`` and ``column``. ``values[:8]`` holds the beliefs of state 1 of the
    variables, of the four left ones and of the four right ones, and receives
    ``eta + kappa * implied`` of that state.
    """
    if not _fits(beliefs, weights, values):
        return None

    def codegen(context, builder, signature, args):
        call = _Call(context, builder, signature, args)
        own = _OwnWeights(_Square(builder, call.pointer(3), call.index(4)))
        return call.moves(own, 5)

    numbers = (types.float64, most, types.float64)
    return _PAIR(
        beliefs, table_at, message_at, weights, column, values, penalty, *numbers
    ), codegen  # fmt: skip


@intrinsic
def move_four_tied(typingctx, beliefs, table_at, message_at, values, penalty, scale, most, enough):
    """As :func:`move_four`, for entries that share weights or have none.

    ``values[8:24]`` holds the scores of the four entries, of all four tables each, and receives the
    new ones; ``values[24:40]`` is K, row by row.
    """
    if not _fits(beliefs, values):
        return None

    def codegen(context, builder, signature, args):
        call = _Call(context, builder, signature, args)
        return call.moves(_TiedWeights(builder, call.pointer(3), 2 * LANES), 3)

    numbers = (types.float64, most, types.float64)
    return _PAIR(beliefs, table_at, message_at, values, penalty, *numbers), codegen
