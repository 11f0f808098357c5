"""Follows undefined lanes through a function: an i1 beside each value that may have some, true in these lanes.

The rules are those of the sanitizer (`sanitize/shadow.py`), or stricter: a reduction or scan of an undefined lane is undefined
whatever its region does with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, SSAValue

from ....promotion.errors import InternalError
from .. import types as t
from ..analysis.control_flow import terminator
from ..builder.block_builder import BlockBuilder
from ..dialect.compute import FftOp
from ..dialect.scaled import DotScaledOp
from ..sanitize.partial import SHIFTS, is_partial, repeated
from ..sanitize.shadow import ABSORBING, ELEMENTWISE, MOVES

_WHOLE_BLOCKS = frozenset({
    "tt.dot", "tt.dot_scaled", "tt.map_elementwise", "tt.gather", "tt.split", "tt.reduce", "tt.scan", "arith.select",
})  # fmt: skip
_POINTERS = frozenset({"tt.addptr", "tt.ptr_to_int", "tt.int_to_ptr"})
_MASKED_ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load"})


def follows(op: Operation) -> bool:
    """Returns whether the results are undefined where operands are. Results of other operations count as defined."""
    name = op.name
    if name in MOVES or name in _WHOLE_BLOCKS or name in _POINTERS or name in ELEMENTWISE:
        return True
    return name.startswith(("arith.", "math."))


def lanes_before(b: BlockBuilder, op: FftOp, count: int) -> SSAValue:
    """Emits the mask of the first elements of each line of an operation."""
    shape, axis = t.shape_of(op.src.type), op.axis.value.data
    here = b.arange(shape[axis])
    for position in range(len(shape)):
        if position != axis:
            here = b.expand_dims(here, position)
    here = b.broadcast(here, shape)
    return b.cmpi("slt", here, b.const(count, t.I32, shape))


def possibly_undefined(function: Operation, undefined_arithmetic: bool = False) -> set[SSAValue]:
    """Returns the values of a function without calls that may have undefined lanes. undefined_arithmetic: as for `sanitize`."""
    operations = list(function.walk())
    found: set[SSAValue] = {op.results[0] for op in operations if undefined_arithmetic and divisor_lanes(op) is not None}
    changed = True
    while changed:
        before = len(found)
        for op in operations:
            found.update(_derived(op, found))
        changed = len(found) > before
    return found


def _derived(op: Operation, found: set[SSAValue]) -> Iterator[SSAValue]:
    match op.name:
        case "tt.load":
            other = getattr(op, "other", None)
            if getattr(op, "mask", None) is not None and (other is None or other in found):
                yield op.results[0]
        case "ub.poison" | "tt.fft":
            yield op.results[0]
        case "scf.for":
            body = op.regions[0].block
            carried = zip(op.operands[3:], terminator(body).operands, body.args[1:], op.results, strict=True)
            for init, following, argument, result in carried:
                if init in found or following in found:
                    yield from (argument, result)
        case "scf.while":
            before, after = (region.block for region in op.regions)
            passed = terminator(before).operands[1:]
            yield from [role for value, role in zip(op.operands, before.args, strict=True) if value in found]
            yield from [role for value, role in zip(terminator(after).operands, before.args, strict=True) if value in found]
            for roles in (after.args, op.results):
                yield from [role for value, role in zip(passed, roles, strict=True) if value in found]
        case "scf.if":
            for region in op.regions:
                if region.blocks:
                    yield from [r for v, r in zip(terminator(region.block).operands, op.results, strict=True) if v in found]
        case name if name in _MASKED_ATOMICS:
            if getattr(op, "mask", None) is not None:
                yield op.results[0]
        case _:
            if follows(op) and any(operand in found for operand in op.operands):
                yield from op.results


def divisor_lanes(op: Operation) -> SSAValue | None:
    """Returns the block by which a partial operation divides or shifts; None for one number, which is checked at once."""
    return op.operands[1] if is_partial(op) and t.shape_of(repeated(op.operands[1]).type) else None


def without_result(b: BlockBuilder, op: Operation, value: SSAValue) -> SSAValue:
    """Emits whether a partial operation has no result for this divisor or number of bits (or in which lanes of them)."""
    type_, shape = t.elem(value.type), t.shape_of(value.type)
    if op.name in SHIFTS:
        return b.cmpi("uge", value, b.const(t.bit_width(type_), type_, shape))
    return b.cmpi("eq", value, b.const(0, type_, shape))


def undefined_lanes(
    b: BlockBuilder, op: Operation, known: Mapping[SSAValue, SSAValue]
) -> list[SSAValue]:
    """Emits, for each result of an operation that `follows`, which of its lanes are undefined. known: those of operands."""
    name = op.name
    given = [known.get(operand) for operand in op.operands]
    if name == "tt.split":
        assert given[0] is not None
        return list(b.split(given[0]))
    if name in MOVES:
        type_ = t.mask_type(op.results[0].type)
        filled = [lanes if lanes is not None else _none(b, v) for lanes, v in zip(given, op.operands, strict=True)]
        return list(b.op(type(op), filled, [type_], dict(op.properties)))
    if name in ("tt.reduce", "tt.scan"):
        return _combined(b, op, known)
    if name == "tt.dot":
        return [_product(b, op, given)]
    if isinstance(op, DotScaledOp):
        return [_scaled_product(b, op, known)]
    if name == "tt.map_elementwise":
        return _mapped(b, op, known)
    if name == "arith.select":
        return [_selected(b, op, given)]
    if name == "tt.gather":
        source, indices = given
        found = indices
        if source is not None:
            moved = b.op(type(op), [source, op.operands[1]], [t.mask_type(op.results[0].type)], dict(op.properties))[0]
            found = moved if found is None else b.binary("arith.ori", moved, found)
        assert found is not None
        return [found]
    parts = [lanes for lanes in given if lanes is not None]
    found = any_of(b, parts)
    if name in ABSORBING and t.is_integer(op.results[0].type):
        for operand, lanes in zip(op.operands, given, strict=True):
            decides = b.cmpi("eq", operand, _deciding(b, name, operand))
            if lanes is not None:
                decides = b.binary("arith.andi", decides, negated(b, lanes))
            found = b.binary("arith.andi", found, negated(b, decides))
    return [found] * len(op.results)


def any_of(b: BlockBuilder, parts: list[SSAValue]) -> SSAValue:
    """Emits the disjunction of at least one i1 (or block of them)."""
    found = parts[0]
    for part in parts[1:]:
        found = b.binary("arith.ori", found, part)
    return found


def negated(b: BlockBuilder, condition: SSAValue) -> SSAValue:
    """Emits the negation of an i1 or of a block of them."""
    return b.binary("arith.xori", condition, b.const(1, t.I1, t.shape_of(condition.type)))


def _none(b: BlockBuilder, value: SSAValue) -> SSAValue:
    return b.const(0, t.I1, t.shape_of(value.type))


def _deciding(b: BlockBuilder, name: str, operand: SSAValue) -> SSAValue:
    type_ = t.elem(operand.type)
    ones = -1 if t.bit_width(type_) > 1 else 1
    return b.const(ones if name == "arith.ori" else 0, type_, t.shape_of(operand.type))


def _selected(b: BlockBuilder, op: Operation, given: list[SSAValue | None]) -> SSAValue:
    condition, yes, no = op.operands
    found: SSAValue | None = None
    if given[1] is not None or given[2] is not None:
        either = [lanes if lanes is not None else _none(b, v) for lanes, v in zip(given[1:], (yes, no), strict=True)]
        found = b.select(condition, *either)
    if given[0] is not None:
        shape = t.shape_of(op.results[0].type)
        doubtful = given[0] if t.shape_of(given[0].type) == shape else b.splat(given[0], shape)
        found = doubtful if found is None else b.binary("arith.ori", found, doubtful)
    if found is None:
        raise InternalError("arith.select without undefined operands")
    return found


def _any_along(b: BlockBuilder, lanes: SSAValue, axis: int) -> SSAValue:
    return b.reduce([lanes], axis, lambda w, x, y: [w.binary("arith.ori", x[0], y[0])])[0]


def _combined(b: BlockBuilder, op: Operation, known: Mapping[SSAValue, SSAValue]) -> list[SSAValue]:
    lanes = any_of(b, [known[operand] for operand in op.operands if operand in known])
    axis = int(op.properties["axis"].value.data)  # type: ignore[attr-defined]
    if op.name == "tt.reduce":
        found = _any_along(b, lanes, axis)
    else:
        reverse = bool(op.properties["reverse"].value.data)  # type: ignore[attr-defined]
        found = b.scan([lanes], axis, lambda w, x, y: [w.binary("arith.ori", x[0], y[0])], reverse)[0]
    return [found] * len(op.results)


def _product(b: BlockBuilder, op: Operation, given: list[SSAValue | None]) -> SSAValue:
    """Emits the rule of tt.dot: an undefined lane makes its whole row or column of the result undefined."""
    shape = t.shape_of(op.results[0].type)
    last = len(shape) - 1
    parts = []
    for lanes, axis in ((given[0], last), (given[1], last - 1)):
        if lanes is not None:
            parts.append(b.broadcast(b.expand_dims(_any_along(b, lanes, axis), axis), shape))
    if given[2] is not None:
        parts.append(given[2])
    return any_of(b, parts)


def _scaled_product(b: BlockBuilder, op: DotScaledOp, known: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """Emits the rule of tt.dot_scaled, which is that of tt.dot: scales belong to rows and columns too."""
    shape = t.shape_of(op.d.type)
    last = len(shape) - 1
    parts = [known[op.c]] if op.c in known else []
    for name, axis in (("a", last), ("b", last - 1)):
        side = op.side(name)
        lines = []
        if side.value in known:
            found = _any_along(b, known[side.value], axis)
            if side.packed_axis == 2 * last - 1 - axis:  # bytes hold two rows, or columns
                wide = t.shape_of(found.type)
                found = b.reshape(b.broadcast(b.expand_dims(found, len(wide)), (*wide, 2)), (*wide[:-1], 2 * wide[-1]))
            lines.append(found)
        if side.scale is not None and side.scale in known:
            lines.append(_any_along(b, known[side.scale], last))
        parts += [b.broadcast(b.expand_dims(each, axis), shape) for each in lines]
    return any_of(b, parts)


def _mapped(b: BlockBuilder, op: Operation, known: Mapping[SSAValue, SSAValue]) -> list[SSAValue]:
    """Emits the rule of tt.map_elementwise: an undefined element makes all that is made with it undefined."""
    lanes = any_of(b, [known[operand] for operand in op.operands if operand in known])
    pack, shape = int(op.properties["pack"].value.data), t.shape_of(lanes.type)  # type: ignore[attr-defined]
    if pack > 1:
        groups = (t.element_count(lanes.type) // pack, pack)
        of_group = _any_along(b, b.reshape(lanes, groups), 1)
        lanes = b.reshape(b.broadcast(b.expand_dims(of_group, 1), groups), shape)
    return [lanes] * len(op.results)


__all__ = ["any_of", "divisor_lanes", "follows", "negated", "possibly_undefined", "undefined_lanes", "without_result"]
