"""Has the rules of operations that make blocks, move their elements, compute with integers, and read memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...tt import types as t
from ...tt.analysis.distances import moves_by_distance
from ...tt.constants import block_values, is_splat, splat_value
from ...tt.dialect.arith import INTEGER_PREDICATES
from ...tt.dialect.attributes import property_number
from ..terms.atoms import Terms
from ..terms.formulas import (
    FALSE,
    TRUE,
    Formula,
    Truth,
    both,
    either,
    equal,
    implies,
    negated,
    within,
)
from ..terms.orders import Element, Meaning
from ..terms.polynomials import ZERO, Polynomial, constant
from . import arithmetic
from .contexts import NotModelled, context
from .evaluator import Evaluator, Lanes, Rule
from .paths import chosen
from .values import Condition, Integer, Pointer, Unknown, Value, integer

MOVES = ("tt.splat", "tt.unsplat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape", "tt.split")
"""Operations whose elements are those of their operand, at other positions."""
_MAX_TABLE = 256
_WIDTHS = (1, 8, 16, 32, 64)


def _op(ssa: SSAValue) -> Operation:
    assert isinstance(ssa, OpResult)
    return ssa.op


def _shape(ssa: SSAValue) -> tuple[int, ...]:
    return t.shape_of(ssa.type)


def has_size(type_: Attribute) -> bool:
    """Returns whether elements behind a pointer have one size in all memory: 24 bits are 3 bytes here, and 4 there."""
    return t.bit_width(t.pointee(type_)) in _WIDTHS


# Sources


def _constant(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    if not t.is_integer(ssa.type):
        return None
    attr, width = _op(ssa).properties["value"], t.bit_width(ssa.type)
    if isinstance(attr, IntegerAttr):
        return _number(attr.value.data, width)
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return None
    if is_splat(attr):
        return _number(int(splat_value(attr) or 0), width)
    numbers = [int(each) for each in block_values(attr)]
    index = _flat(lanes, _shape(ssa))
    if width == 1:
        if len(numbers) > _MAX_TABLE:
            return None
        return Condition(either(*[equal(index, at) for at, number in enumerate(numbers) if number]))
    where = index.number
    if where is not None:  # an index that is none is one that nobody comes to
        return _number(numbers[where], width) if 0 <= where < len(numbers) else None

    def facts(made: Polynomial) -> Sequence[Formula]:
        if len(numbers) > _MAX_TABLE:
            return ()
        return [implies(equal(index, at), equal(made, number)) for at, number in enumerate(numbers)]

    key = ("table", _op(ssa), index)
    return Integer(ev.terms.atom(key, "table()", min(numbers), max(numbers), ev.terms.depends(index), facts), width)


def _number(value: int, width: int) -> Value:
    return Condition(Truth(bool(value & 1))) if width == 1 else integer(constant(value), width)


def _program_id(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value:
    return Integer(ev.run.program[property_number(_op(ssa), "axis")], 32)


def _programs(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value:
    return Integer(ev.run.grid[property_number(_op(ssa), "axis")], 32)


def _range(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value:
    return Integer(lanes[0] + property_number(_op(ssa), "start"), 32)


# Shapes


def _flat(lanes: Lanes, shape: Sequence[int]) -> Polynomial:
    """Returns the row-major position of an element."""
    found = ZERO
    for lane, extent in zip(lanes, shape, strict=True):
        found = found * extent + lane
    return found


def element_of(terms: Terms, ssa: SSAValue, lanes: Lanes) -> tuple[SSAValue, Lanes] | None:
    """Returns the operand and the lane that an operation of `MOVES` takes the element of a lane from; None if it may be any."""
    op = _op(ssa)
    source = op.operands[0]
    match op.name:
        case "tt.splat":
            return source, ()
        case "tt.unsplat":
            return source, (ZERO,) * len(_shape(source))
        case "tt.broadcast":
            return source, tuple([ZERO if n == 1 else lane for lane, n in zip(lanes, _shape(source), strict=True)])
        case "tt.expand_dims":
            axis = property_number(op, "axis")
            return source, lanes[:axis] + lanes[axis + 1 :]
        case "tt.trans":
            found = list(lanes)
            for axis, position in enumerate(op.properties["order"].get_values()):  # type: ignore[attr-defined]
                found[position] = lanes[axis]
            return source, tuple(found)
        case "tt.split":
            assert isinstance(ssa, OpResult)
            return source, (*lanes, constant(ssa.index))
    return _reshaped(terms, ssa, lanes)


def _reshaped(terms: Terms, ssa: SSAValue, lanes: Lanes) -> tuple[SSAValue, Lanes] | None:
    op = _op(ssa)
    if "allow_reorder" in op.properties or "allow_reorder" in op.attributes:
        return None
    source = op.operands[0]
    shape = _shape(source)
    index = _flat(lanes, _shape(ssa))
    found = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            found.append(ZERO)
            continue
        quotient, _ = terms.floor_parts(index, constant(prod(shape[axis + 1 :])))
        found.append(terms.floor_parts(quotient, constant(extent))[1] if prod(shape[:axis]) > 1 else quotient)
    return source, tuple(found)


def _moved_lane(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    found = element_of(ev.terms, ssa, lanes)
    return None if found is None else ev.value(*found)


def _joined(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    one, two = [ev.value(operand, lanes[:-1]) for operand in _op(ssa).operands]
    return chosen(ev, equal(lanes[-1], 0), one, two)


def _gathered(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    op = _op(ssa)
    axis = property_number(op, "axis")
    index = ev.value(op.operands[1], lanes)
    if not isinstance(index, Integer):
        return None
    number = ev.signed(index)
    extent = _shape(op.operands[0])[axis]
    if not ev.terms.fits(number, 0, extent - 1) and not ev.is_shown(within(number, 0, extent - 1)):
        return None
    return ev.value(op.operands[0], (*lanes[:axis], number, *lanes[axis + 1 :]))


# Integers


def _binary(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    op = _op(ssa)
    x, y = [ev.value(operand, lanes) for operand in op.operands]
    if isinstance(x, Condition) and isinstance(y, Condition):
        combine = arithmetic.BOOLEANS.get(op.name)
        return None if combine is None else Condition(combine(x.formula, y.formula))
    if not isinstance(x, Integer) or not isinstance(y, Integer):
        return None
    return arithmetic.RULES[op.name](ev, op, x, y)


def _compared(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    op = _op(ssa)
    x, y = [ev.value(operand, lanes) for operand in op.operands]
    predicate = str(INTEGER_PREDICATES[property_number(op, "predicate")])
    if isinstance(x, Condition) and isinstance(y, Condition):
        return arithmetic.boolean_comparison(predicate, x, y)
    if not isinstance(x, Integer) or not isinstance(y, Integer):
        return None
    return arithmetic.comparison(ev, predicate, x, y)


def _selected(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    condition, yes, no = _op(ssa).operands
    found = ev.condition(condition, lanes if t.is_tensor(condition.type) else ())
    return chosen(ev, found.formula, ev.value(yes, lanes), ev.value(no, lanes))


def _extended(is_signed: bool) -> Rule:
    def rule(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
        found = ev.value(_op(ssa).operands[0], lanes)
        return arithmetic.extended(ev, _op(ssa), found, is_signed) if isinstance(found, Integer | Condition) else None

    return rule


def _truncated(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    found = ev.value(_op(ssa).operands[0], lanes)
    return arithmetic.truncated(ev, _op(ssa), found) if isinstance(found, Integer) else None


def _absolute(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    found = ev.value(_op(ssa).operands[0], lanes)
    return arithmetic.absolute(ev, found) if isinstance(found, Integer) else None


# Memory


def _moved(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    op = _op(ssa)
    pointer, offset = ev.value(op.operands[0], lanes), ev.value(op.operands[1], lanes)
    if not isinstance(pointer, Pointer):
        return pointer
    if moves_by_distance(op):
        return Unknown("a pointer that is moved by the distance of two addresses")
    if not isinstance(offset, Integer):
        return Unknown("an offset that is no integer")
    if not has_size(ssa.type):
        return Unknown("an offset in elements whose size in memory is not modelled")
    # An address counts modulo 2 ** 64, so an offset of so many bits may wrap.
    number = offset.value if offset.width == 64 else ev.signed(offset)
    return Pointer(pointer.base, pointer.offset + number * t.pointee_size(ssa.type))


def _bitcast(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    source = _op(ssa).operands[0]
    is_pointer = t.is_pointer(ssa.type) and t.is_pointer(source.type)
    is_integer = t.is_integer(ssa.type) and t.is_integer(source.type)
    same = is_integer and t.bit_width(ssa.type) == t.bit_width(source.type)
    return ev.value(source, lanes) if is_pointer or same else None


def _loaded(ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Value | None:
    """Returns a free integer; one in the range that the user gives of the array's contents, if it is a whole element.

    Everything is made where the load stands, so that it is one number for whoever asks.
    """
    op = _op(ssa)
    if not t.is_integer(ssa.type) or t.bit_width(ssa.type) == 1 or op.parent is None:
        return None
    try:
        own = context(ev.run, op.parent)
    except NotModelled:
        return None
    pointer = own.value(op.operands[0], lanes)
    if not isinstance(pointer, Pointer):
        return None
    contents = ev.run.contents.get(pointer.base)
    if contents is None or not contents.is_element(pointer.offset, t.bit_width(ssa.type)):
        return ev.free(ssa, lanes, pointer.base if pointer.base >= 0 else None)
    low, high = contents.low, contents.high
    mask = own.condition(op.operands[1], lanes).formula if len(op.operands) > 1 else TRUE
    other = own.value(op.operands[2], lanes) if len(op.operands) > 2 else None
    given = own.formula
    live = both(given, mask)
    width = t.bit_width(ssa.type)
    half = 1 << (width - 1)
    depends = ev.run.loops(ssa) | ev.terms.depends(*lanes, pointer.offset) | ev.terms.formula_depends(live)

    def facts(made: Polynomial) -> list[Formula]:
        found = [contents.facts(made, live)]
        number = other.value.number if isinstance(other, Integer) else None
        if number is not None and mask not in (TRUE, FALSE):
            found.append(implies(both(given, negated(mask)), equal(made, number)))
        return found

    ev.run.loads[op] = None
    # Under other conditions the offset may be another term, congruent to this one in these runs alone: then it is another atom.
    key = (ssa, lanes, "contents", given, mask, low, high, other, pointer)
    order, points = contents.order, contents.points
    meaning = Meaning(
        pointer.base,
        None if order is None else Element(pointer.base, pointer.offset, live, order),
        None if points is None else ev.terms.target(pointer.base, points(pointer.offset, live)),
    )
    name = f"loaded {ssa.name_hint or ''}".strip()
    return Integer(ev.terms.atom(key, name, -half, half - 1, depends, facts, meaning), width)


RULES: dict[str, Rule] = {
    "arith.constant": _constant, "tt.get_program_id": _program_id, "tt.get_num_programs": _programs, "tt.make_range": _range,
    **dict.fromkeys(MOVES, _moved_lane), "tt.join": _joined, "tt.gather": _gathered,
    "arith.cmpi": _compared, "arith.select": _selected, "arith.extsi": _extended(True), "arith.extui": _extended(False),
    "arith.trunci": _truncated, "math.absi": _absolute, "tt.addptr": _moved, "tt.bitcast": _bitcast, "arith.bitcast": _bitcast,
    "tt.load": _loaded, **dict.fromkeys(arithmetic.RULES, _binary),
}  # fmt: skip
"""Rules by operation."""


__all__ = ["MOVES", "RULES", "element_of", "has_size"]
