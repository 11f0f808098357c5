"""Defines shadows: what the sanitizer knows about each lane of a value, whether it is undefined or wrapped,
and to which array it belongs.

Most values have nothing to know and no shadow. A rule per operation makes the shadow of the results from
those of the operands. Operations without a rule give clean results: what is not known is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Attribute, Operation

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from .. import types as t
from ..analysis.combining import exchanged_axis
from ..analysis.distances import moves_by_distance
from ..dialect.attributes import property_number
from ..dialect.compute import FftOp
from ..dialect.scaled import DotScaledOp
from ..interpret.machine import Value
from ..interpret.numerics import unsigned
from ..limits import MAX_DISTANCE

Function = Callable[..., Value]
Rule = Callable[[Sequence[Value], Sequence["Shadow | None"], Value], "Shadow | None"]


@dataclass(frozen=True, slots=True)
class Shadow:
    """Facts per lane, each None or an array of the value's shape.

    Attributes:
        poison: 0 for a defined lane, else the number of the operation that left it undefined.
        wrap: 0, or the number of the integer operation that wrapped around on the way to this lane.
        exact: where `wrap` is not 0, what the lane would hold if nothing had wrapped (int64, itself modulo 2**64).
        base: for pointers, 0 or one more than the number of the array they were made from; shape () where all lanes agree.
    """

    poison: Array | None = None
    wrap: Array | None = None
    exact: Array | None = None
    base: Array | None = None

    def mapped(self, function: Function) -> Shadow:
        """Returns the shadow of lanes picked and moved by `function`, which works on any array of the value's
        shape."""
        poison, wrap, exact = (
            None if x is None else function(x) for x in (self.poison, self.wrap, self.exact)
        )
        base = self.base if self.base is None or np.ndim(self.base) == 0 else function(self.base)
        return Shadow(poison, wrap, exact, base)


class Frame(list[Value]):
    """The values of one call, and the shadows of those that have one, by slot."""

    def __init__(self, values: Sequence[Value], shadows: dict[int, Shadow]) -> None:
        super().__init__(values)
        self.shadow = shadows


def tidy(shadow: Shadow) -> Shadow | None:
    """Returns the shadow without empty parts; None if nothing is left to know."""
    poison = shadow.poison if shadow.poison is not None and np.any(shadow.poison) else None
    wrapped = shadow.wrap is not None and bool(np.any(shadow.wrap))
    if poison is None and not wrapped and shadow.base is None:
        return None
    return Shadow(poison, shadow.wrap if wrapped else None, shadow.exact if wrapped else None, shadow.base)


def _first(parts: Sequence[Array | None], shape: tuple[int, ...]) -> Array | None:
    """Returns lane by lane the first number that is not 0."""
    found: Array | None = None
    for part in parts:
        if part is not None:
            part = np.broadcast_to(part, shape)
            found = part if found is None else np.where(found != 0, found, part)
    return found


def restructured(
    function: Function, values: Sequence[Value], shadows: Sequence[Shadow | None]
) -> Shadow | None:
    """Returns the shadow of `function(*values)` for a function that only moves, repeats and chooses lanes."""
    if not any(shadow is not None for shadow in shadows):
        return None
    known = [shadow if shadow is not None else Shadow() for shadow in shadows]

    def of(parts: Sequence[Array | None]) -> Array | None:
        if all(part is None for part in parts):
            return None
        filled = [
            np.zeros(np.shape(value), np.int32) if part is None else np.broadcast_to(part, np.shape(value))
            for part, value in zip(parts, values, strict=True)
        ]
        return np.asarray(function(*filled))

    wrap = of([shadow.wrap for shadow in known])
    exact = None
    if wrap is not None:
        exact = np.asarray(function(*[_exact(v, s) for v, s in zip(values, known, strict=True)]))
    bases = [shadow.base for shadow in known]
    first = bases[0]
    if (
        first is not None
        and first.ndim == 0
        and all(base is not None and base.ndim == 0 and base == first for base in bases)
    ):
        base: Array | None = first
    else:
        base = of(bases)
    return tidy(Shadow(of([shadow.poison for shadow in known]), wrap, exact, base))


def _exact(value: Value, shadow: Shadow | None) -> Array:
    plain = np.asarray(value).astype(np.int64)
    return plain if shadow is None or shadow.exact is None else shadow.exact


# Elementwise operations


def _elementwise(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    known = [shadow for shadow in shadows if shadow is not None]
    if not known:
        return None
    poison = _first([shadow.poison for shadow in known], np.shape(result))
    bases = [shadow.base for shadow in known if shadow.base is not None]
    base = bases[0] if len(bases) == 1 and bases[0].shape in ((), np.shape(result)) else None
    return tidy(Shadow(poison, base=base))


def _absorbing(element: Callable[[NumpyDType], Value]) -> Rule:
    """Makes an elementwise rule in which a defined lane that decides the result alone makes it defined: false
    & anything is false."""

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        found = _elementwise(values, shadows, result)
        if found is None or found.poison is None:
            return found
        poison = found.poison
        for value, shadow in zip(values, shadows, strict=True):
            decides = np.asarray(value) == element(np.asarray(value).dtype)
            if shadow is not None and shadow.poison is not None:
                decides = decides & (shadow.poison == 0)
            poison = np.where(decides, 0, poison)
        return tidy(replace(found, poison=poison))

    return rule


def _all_ones(dtype: NumpyDType) -> Value:
    return True if dtype == np.bool_ else dtype.type(-1)


def _wrapping(function: Function, number: int, narrow: bool, plain: Rule) -> Rule:
    """Makes the rule of integer arithmetic, which also computes in 64 bits, to see whether the result is the
    mathematical one.

    Following the exact value instead of a mark lets wraps that cancel out, as in (a + b) - b, pass. Arithmetic on 64 bits
    starts no mark of its own; it hands on those of narrower operands.
    """

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        found = plain(values, shadows, result)
        if not narrow and not any(shadow is not None and shadow.wrap is not None for shadow in shadows):
            return found
        exact = function(*[_exact(value, shadow) for value, shadow in zip(values, shadows, strict=True)])
        wrapped = exact != result
        if not np.any(wrapped):
            return found
        earlier = _first([s.wrap for s in shadows if s is not None], np.shape(result))
        wrap = np.where(
            wrapped, number if earlier is None else np.where(earlier != 0, earlier, number), 0
        ).astype(np.int32)
        return replace(found if found is not None else Shadow(), wrap=wrap, exact=np.asarray(exact, np.int64))

    return rule


def _extended_unsigned(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of arith.extui: a value that wrapped only as a signed number is right again as an
    unsigned one."""
    found = _elementwise(values, shadows, result)
    shadow = shadows[0]
    if shadow is None or shadow.wrap is None or shadow.exact is None:
        return found
    wrong = (shadow.wrap != 0) & (shadow.exact != unsigned(np.asarray(values[0])).astype(np.int64))
    if not np.any(wrong):
        return found
    return replace(
        found if found is not None else Shadow(), wrap=np.where(wrong, shadow.wrap, 0), exact=shadow.exact
    )


def _selected(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    condition, yes, no = values
    found = restructured(lambda x, y: np.where(condition, x, y), [yes, no], shadows[1:])
    if shadows[0] is None or shadows[0].poison is None:
        return found
    found = found if found is not None else Shadow()
    poison = _first([shadows[0].poison, found.poison], np.shape(result))
    return tidy(replace(found, poison=poison))


def _moved_pointer(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of tt.addptr: the array is the pointer's, undefined and wrapped lanes come from
    both."""
    known = [shadow if shadow is not None else Shadow() for shadow in shadows]
    shape = np.shape(result)
    poison = _first([shadow.poison for shadow in known], shape)
    wrap = _first([shadow.wrap for shadow in known], shape)
    exact = None if wrap is None else np.zeros(shape, np.int64)  # an address is as wrong as its offset
    return tidy(Shadow(poison, wrap, exact, known[0].base))


def _moving(number: int, size: int) -> Rule:
    """Makes the rule of tt.addptr with offsets of 64 bits: the address is marked if one leads beyond `MAX_DISTANCE`."""
    last = MAX_DISTANCE // size

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        found = _moved_pointer(values, shadows, result)
        offset = np.broadcast_to(np.asarray(values[1]).astype(np.int64), np.shape(result))
        wrapped = (offset > last) | (offset < -last)
        if not np.any(wrapped):
            return found
        found = found if found is not None else Shadow()
        earlier = np.int32(0) if found.wrap is None else found.wrap
        wrap = np.where(earlier != 0, earlier, np.where(wrapped, number, 0)).astype(np.int32)
        return replace(found, wrap=wrap, exact=np.zeros(np.shape(result), np.int64))

    return rule


def _moved_by_distance(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of tt.addptr to a distance between addresses: the array is the one that lies there."""
    found = _moved_pointer(values, shadows, result)
    return None if found is None else tidy(replace(found, base=None))


def _wider_address(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    return shadows[0]


def _address_of_number(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of tt.int_to_ptr: a distance may lead into another array, so the array is the one that lies there."""
    return None if shadows[0] is None else tidy(replace(shadows[0], base=None))


# Operations on whole blocks


def _product(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of tt.dot: an undefined lane makes its whole row or column of the result undefined."""
    shape = np.shape(result)
    a, b, c = (None if shadow is None else shadow.poison for shadow in shadows)
    rows = None if a is None else np.max(a, axis=-1, keepdims=True)
    columns = None if b is None else np.max(b, axis=-2, keepdims=True)
    poison = _first([rows, columns, c], shape)
    return None if poison is None else tidy(Shadow(poison))


def _scaled_product(op: DotScaledOp) -> Rule:
    """Makes the rule of tt.dot_scaled, which is that of tt.dot: scales belong to rows and columns too."""
    given = [op.a, op.b, op.c, *[each for each in (op.a_scale, op.b_scale) if each is not None]]
    sides = [op.side(name) for name in "ab"]

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        known = {value: None if each is None else each.poison for value, each in zip(given, shadows, strict=True)}
        parts = [known[op.c]]
        for axis, side in zip((-1, -2), sides, strict=True):
            found = known[side.value]
            if found is not None:
                lines = np.max(found, axis=axis, keepdims=True)
                other = -3 - axis
                spread = side.packed_axis == lines.ndim + other  # bytes hold two rows, or columns
                parts.append(np.repeat(lines, 2, other) if spread else lines)
            scale = None if side.scale is None else known[side.scale]
            if scale is not None:  # of shape (rows, groups) or (columns, groups)
                parts.append(np.expand_dims(np.max(scale, axis=-1), axis))
        poison = _first(parts, np.shape(result))
        return None if poison is None else tidy(Shadow(poison))

    return rule


def _counted(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
    """Applies the rule of tt.histogram: an undefined lane that is counted may have gone to any bin."""
    active = np.ones(np.shape(values[0]), np.bool_) if len(values) < 2 else values[1]
    parts = [None if shadow is None else shadow.poison for shadow in shadows]
    guilty = [
        np.where(active, part, 0) if index == 0 else part
        for index, part in enumerate(parts)
        if part is not None
    ]
    worst = max((int(np.max(part)) for part in guilty), default=0)
    return Shadow(np.full(np.shape(result), worst, np.int32)) if worst else None


def _sorted(axis: int) -> Rule:
    """Makes the rule of tt.sort: an undefined lane may come to stand anywhere along the axis, and moves all others."""

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        poison = None if shadows[0] is None else shadows[0].poison
        if poison is None:
            return None
        return tidy(Shadow(np.broadcast_to(np.max(poison, axis, keepdims=True), np.shape(result)).copy()))

    return rule


def _transformed(op: FftOp, number: int) -> Rule:
    """Makes the rule of tt.fft: an undefined number makes all results of its line undefined; there are none beyond these."""
    axis, (read, written) = op.axis.value.data, op.counts

    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        shape = np.shape(result)
        found = np.zeros(shape, np.int32)
        poison = None if shadows[0] is None else shadows[0].poison
        if poison is not None:
            lines = np.take(np.broadcast_to(poison, shape), np.arange(read), axis)
            found[...] = np.max(lines, axis, keepdims=True)
        position = np.arange(shape[axis]).reshape([-1 if each == axis else 1 for each in range(len(shape))])
        return tidy(Shadow(np.where(position < written, found, np.int32(number))))

    return rule


ABSORBING: dict[str, Rule] = {
    **dict.fromkeys(
        ("arith.andi", "arith.muli", "arith.mului_extended", "arith.mulsi_extended"), _absorbing(lambda dtype: dtype.type(0))
    ),
    "arith.ori": _absorbing(_all_ones),
}


def _shifted(x: Array, y: Array) -> Array:
    return np.asarray(np.left_shift(x, np.clip(y, 0, 63)))


EXACT: dict[str, Function] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.shli": _shifted,
    "arith.maxsi": np.maximum, "arith.minsi": np.minimum, "arith.trunci": lambda x: x, "arith.extsi": lambda x: x,
}  # fmt: skip
MOVES = frozenset(
    {
        "tt.splat",
        "tt.broadcast",
        "tt.unsplat",
        "tt.expand_dims",
        "tt.reshape",
        "tt.trans",
        "tt.join",
        "tt.cat",
    }
)
_BLOCKS: dict[str, Rule] = {
    "arith.select": _selected, "arith.extui": _extended_unsigned, "tt.addptr": _moved_pointer, "tt.dot": _product,
    "tt.histogram": _counted, "tt.ptr_to_int": _wider_address, "tt.int_to_ptr": _address_of_number,
}  # fmt: skip
ELEMENTWISE = frozenset(
    {
        "tt.bitcast", "tt.fp_to_fp", "tt.clampf", "tt.mulhiui", "tt.precise_divf", "tt.precise_sqrt", "tt.approx_divf",
        "tt.extern_elementwise",
    }
)  # fmt: skip


def rule_of(op: Operation, number: int, evaluate: Function) -> Rule | None:
    """Returns the rule of an operation's results, one after the other; None when they are clean whatever the operands.

    Args:
        number: stands for the operation in shadows.
        evaluate: the operation's evaluator.
    """
    name = op.name
    if name in MOVES:
        return lambda values, shadows, result: restructured(evaluate, values, shadows)
    if name == "tt.gather":
        return _gathered(evaluate)
    if name == "tt.sort":
        return _sorted(property_number(op, "axis"))
    if isinstance(op, FftOp):
        return _transformed(op, number)
    exchange = exchanged_axis(op)
    if exchange is not None:
        return _exchanged(*exchange)
    if name == "tt.addptr" and moves_by_distance(op):
        return _moved_by_distance
    if moves_far(op):
        return _moving(number, t.pointee_size(op.results[0].type))
    if name in _BLOCKS:
        return _BLOCKS[name]
    if isinstance(op, DotScaledOp):
        return _scaled_product(op)
    plain = ABSORBING.get(name, _elementwise)
    if name in EXACT and _is_number(op.results[0].type) and _is_number(op.operands[0].type):
        return _wrapping(EXACT[name], number, t.bit_width(op.results[0].type) < 64, plain)
    if name.startswith(("arith.", "math.")) or name in ELEMENTWISE:
        return plain
    return None


def moves_far(op: Operation) -> bool:
    """Returns whether a pointer is moved by an offset that may lead beyond `MAX_DISTANCE`."""
    return op.name == "tt.addptr" and t.bit_width(op.operands[1].type) == 64


def starts_marks(name: str, type_: Attribute) -> bool:
    """Returns whether the rule of such an operation has something to find on clean operands."""
    return (
        name in EXACT
        and name not in ("arith.extsi", "arith.maxsi", "arith.minsi")
        and t.is_integer(type_)  # an `index` has 64 bits
        and t.bit_width(type_) < 64
    )


def _is_number(type_: Attribute) -> bool:
    return t.is_integer(type_) and t.bit_width(type_) > 1


def _exchanged(position: int, axis: int) -> Rule:
    """Makes the rule of an operand whose two positions along an axis change places."""
    return lambda values, shadows, result: restructured(
        lambda lanes: np.flip(lanes, axis), [values[position]], [shadows[position]]
    )


def _gathered(evaluate: Function) -> Rule:
    def rule(values: Sequence[Value], shadows: Sequence[Shadow | None], result: Value) -> Shadow | None:
        source, indices = shadows
        found = None if source is None else source.mapped(lambda x: evaluate(x, values[1]))
        poison = None if indices is None else indices.poison
        if poison is None:
            return found if found is None else tidy(found)
        found = found if found is not None else Shadow()
        return tidy(replace(found, poison=_first([poison, found.poison], np.shape(result))))

    return rule


__all__ = [
    "ABSORBING", "ELEMENTWISE", "EXACT", "MOVES", "Frame", "Rule", "Shadow", "moves_far", "restructured", "rule_of",
    "starts_marks", "tidy",
]  # fmt: skip
