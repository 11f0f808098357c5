"""Lowers elementwise operations, to scalar instructions or, for blocks, to lazy nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import BlockArgument, Operation, SSAValue

from ....promotion.errors import UnsupportedError
from ...tt.facts import IN_RANGE
from .. import division
from ..conversions import CLAMPED, NEAREST
from ..elementwise import constant, emit_map, is_elementwise
from ..syntax import attributes, element_name, is_tensor, shape_of
from ..values import ConstantFloat, V, integer, is_integer
from .context import KernelContext
from .memory.affine import OPPOSITE, WIDENING, bound_of, fold
from .memory.offsets import LOWEST, is_static, may_bound, may_widen
from .nodes import Affine, Map, Node, Splat, View
from .scalars import is_constant


def lower_elementwise(k: KernelContext, op: Operation) -> None:
    """Lowers an elementwise operation; `UnsupportedError` for all others."""
    if not is_elementwise(op.name) or len(op.results) != 1 or op.regions:
        raise UnsupportedError(f"host lowering: operation {op.name}")
    result = op.results[0]
    if is_tensor(result.type):
        k.define(result, _map(k, op, result))
    else:
        k.scalars[result] = _scalar(k, op, result)


def _scalar(k: KernelContext, op: Operation, value: SSAValue) -> V:
    s = k.ev.s
    elem = element_name(value.type)
    signed = op.name == "arith.extsi"
    if (signed or op.name == "arith.extui") and op.operands[0] in k.wide and elem == "i64" and (
        signed or not isinstance(op.operands[0], BlockArgument)  # a counter, which may be negative
    ):
        return k.wide[op.operands[0]]
    if not op.operands or any(is_tensor(o.type) for o in op.operands):
        raise UnsupportedError(f"host lowering: operation {op.name} with a scalar result")
    operands = [k.scalar(o) for o in op.operands]
    match op.name:
        case "tt.bitcast" if elem == "ptr":
            return operands[0]
        case "tt.ptr_to_int":
            return k.f.op(f"ptrtoint ptr {operands[0].operand()} to i64", "i64")
        case "tt.int_to_ptr":
            return k.f.op(f"inttoptr i64 {operands[0].operand()} to ptr", "ptr")
    if operands[0].type == "i64" and elem == "i64":
        match op.name:
            case "arith.addi":
                return s.add(*operands)
            case "arith.subi":
                return s.sub(*operands)
            case "arith.muli":
                return s.mul(*operands)
            case "arith.minsi":
                return s.min(*operands)
            case "arith.maxsi":
                return s.max(*operands)
            case "arith.divsi" | "arith.divui" | "arith.remsi" | "arith.remui":
                if all(is_constant(o) for o in operands) and not is_integer(operands[1], 0):
                    a, b = map(integer, operands)
                    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                    return s.constant(quotient if "div" in op.name else a - quotient * b)
                if is_integer(operands[1], 1):
                    return operands[0] if "div" in op.name else s.constant(0)
    result = emit_map(
        k.f, op.name, elem, operands, [element_name(o.type) for o in op.operands], attributes(op)
    )
    s.follow_multiple(op.name, result, operands)
    return result


def _map(k: KernelContext, op: Operation, result: SSAValue) -> Node:
    shape, elem = shape_of(result.type), element_name(result.type)
    operands = [k.node(o) for o in op.operands]
    if not operands or any(o.shape != shape for o in operands if o.shape):
        raise UnsupportedError(f"host lowering: operation {op.name}")
    narrow = k.index_bits < 64 and elem not in ("i64", "index")
    if not (narrow and all(isinstance(o, Splat) for o in operands)):
        affine = folded(k, op, op.name, shape, elem, operands)
        if affine is not None:
            return affine
    facts = attributes(op)
    if all(isinstance(o, Splat) for o in operands):
        s = k.ev.s
        values = [s.address(o.value) if o.elem == "ptr" else o.value for o in operands if isinstance(o, Splat)]
        value = emit_map(k.f, op.name, elem, values, [o.elem for o in operands], facts)
        return Splat(shape, elem, s.pointer(value) if elem == "ptr" else value)
    if op.name == "arith.cmpi":
        bound = bound_of(k.ev.s, facts["predicate"], *operands)
        if bound is not None and may_bound(k, op, operands):
            facts["bound"] = bound
            k.remember_limit(result, shape, bound)
        elif bound is None:
            begin = bound_of(k.ev.s, OPPOSITE.get(facts["predicate"], ""), *operands)
            if begin is not None and may_bound(k, op, operands):
                facts["begin"] = begin
    if op.name in ("arith.divf", "tt.precise_divf", "tt.approx_divf") and elem == "f32":
        inverse = _inverse(operands[1])
        if inverse is not None:
            return k.shallow(Map(shape, elem, division.DIVIDE, (*operands, inverse), facts))
    if op.name == "arith.extsi" and elem == "i32" and (code := _narrowed_code(operands[0])) is not None:
        return code
    if op.name == "math.roundeven":
        operands = [_to_be_rounded(k, operands[0])]
    if op.name == "arith.fptosi" and elem == "i32" and operands[0].elem == "f32" and _clamped(operands[0]) is not None:
        codes = _nearest_code(operands[0])
        if codes is not None:
            return k.shallow(codes)
        facts[CLAMPED] = True
    return k.shallow(Map(shape, elem, op.name, tuple(operands), facts))


def _to_be_rounded(k: KernelContext, node: Node) -> Node:
    """Returns a quotient in the form for what is rounded to whole numbers; any other block as it is."""
    if not isinstance(node, Map) or node.op != division.DIVIDE or IN_RANGE in node.attrs or id(node) in k.ev.replacement:
        return node
    inverse = _inverse(node.operands[1], {division.ROUNDED: True})
    assert inverse is not None
    return Map(node.shape, node.elem, node.op, (*node.operands[:2], inverse), {**node.attrs, division.ROUNDED: True})


def _clamped(node: Node) -> tuple[Node, float, float] | None:
    """Returns what is clamped between two constants that int32 holds, and these; None for any other block."""
    inner, high = _with_constant(node, "arith.minimumf")
    source, low = (None, None) if inner is None else _with_constant(inner, "arith.maximumf")
    if source is None or low is None or high is None or not -(2.0**31) <= low <= high < 2.0**31:
        return None
    return source, low, high


def _with_constant(node: Node, op: str) -> tuple[Node | None, float | None]:
    """Returns the operands of an operation whose second one is a constant."""
    if isinstance(node, Map) and node.op == op and isinstance(node.operands[1], Splat):
        value = node.operands[1].value.printed()
        return node.operands[0], value.number if isinstance(value, ConstantFloat) else None
    return None, None


LARGEST_CODE = 1 << 16


def _nearest_code(node: Node) -> Map | None:
    """Returns clamp(round(x / s) + z, low, high) as an integer, for constants: a usable divisor s, and small integers.

    x is clamped first, to what rounds to the ends less z: a quarter beyond them. Then no quotient overflows, and one
    instruction rounds it and makes it an integer. None for any other block.
    """
    found = _clamped(node)
    assert found is not None
    whole, low, high = found
    moved, zero = _with_constant(whole, "arith.addf")
    rounded, zero = (whole, 0.0) if moved is None else (moved, zero)
    if zero is None or not all(abs(number) <= LARGEST_CODE and number == int(number) for number in (low, high, zero)):
        return None
    if not isinstance(rounded, Map) or rounded.op != "math.roundeven":
        return None
    quotient = rounded.operands[0]
    if not isinstance(quotient, Map) or division.ROUNDED not in quotient.attrs:
        return None
    dividend, scale = _with_constant(quotient, division.DIVIDE)
    if dividend is None or scale is None or not division.is_usable(scale):
        return None
    shape, ends = node.shape, [(low - zero - 0.25) * scale, (high - zero + 0.25) * scale]
    bounds = [Splat(shape, "f32", constant(end, "f32")) for end in ends]
    inside = Map(shape, "f32", "arith.minimumf", (Map(shape, "f32", "arith.maximumf", (dividend, bounds[0])), bounds[1]))
    facts = {**quotient.attrs, division.BOUNDED: True}
    code = Map(shape, "f32", division.DIVIDE, (inside, *quotient.operands[1:]), facts)
    return Map(shape, "i32", NEAREST, (code,), {"offset": int(zero), "low": low, "high": high})


def _narrowed_code(node: Node) -> Node | None:
    """Returns the integers that a block of i8 was made of, where they are codes in its range; None for any other block."""
    if isinstance(node, Map) and node.op == "arith.trunci" and node.elem == "i8":
        code = node.operands[0]
        if isinstance(code, Map) and code.op == NEAREST and -128 <= code.attrs["low"] <= code.attrs["high"] <= 127:
            return code
    return None


def folded(
    k: KernelContext, op: Operation, name: str, shape: tuple[int, ...], elem: str, operands: Sequence[Node]
) -> Node | None:
    """Returns the operation's result as an affine block, if it is one. Blocks of i32 that hold data are none."""
    if k.index_bits > 32 and elem == "i32":
        return None
    form = fold(k.ev.s, name, shape, elem, operands)
    if form is None or name not in WIDENING:
        return form
    source = operands[0]
    lowest = 0 if name == "arith.extui" else LOWEST
    if lowest == 0 and not (isinstance(source, Affine) and is_static(source)):
        return None
    return form if not isinstance(source, Affine) or may_widen(k, source, op, lowest) else None


def _inverse(divisor: Node, facts: dict[str, Any] | None = None) -> Node | None:
    """Returns the reciprocal of a block that has fewer values than elements, as a node of its own: computed once per value."""
    match divisor:
        case Splat():
            one = Splat((), divisor.elem, divisor.value)
            return View(divisor.shape, divisor.elem, Map((), "f32", division.RECIPROCAL, (one,), facts or {}), ())
        case View() if any(n > 1 and d not in divisor.dims for d, n in enumerate(divisor.shape)):
            source = divisor.source
            inverse = Map(source.shape, "f32", division.RECIPROCAL, (source,), facts or {})
            return View(divisor.shape, divisor.elem, inverse, divisor.dims)
    return None
