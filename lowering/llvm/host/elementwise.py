"""Lowers elementwise operations, to scalar instructions or, for blocks, to lazy nodes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from ....promotion.errors import UnsupportedError
from ..conversions import CLAMPED
from ..elementwise import emit_map, is_elementwise
from ..quotients import division
from ..syntax import attributes, element_name, is_tensor, shape_of
from ..values import V, integer, is_integer
from .codes.fours import sum_of_four
from .codes.halves import halves, joined_load
from .codes.integer_quotients import integer_quotient
from .codes.nearest import (
    clamped,
    inverse_of,
    moved_code,
    narrowed_code,
    nearest_code,
    positive_code,
    to_be_rounded,
)
from .codes.short_integers import shortened
from .context import KernelContext
from .memory.affine import OPPOSITE, WIDENING, bound_of, fold
from .memory.offsets import LOWEST, is_static, may_bound, may_widen
from .nodes import Affine, Map, Node, Splat
from .scalars import is_constant

_HALVES = frozenset({("arith.trunci", "i32", "i64"), ("arith.ori", "i64", "i64")})
"""Operations, with their elements and those of their first operands, that halves of 64-bit integers are written with."""


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
        short = integer_quotient(operands[0], operands[1], facts)
        if short is not None:
            return k.shallow(short)
        inverse = inverse_of(operands[1])
        if inverse is not None:
            return k.shallow(Map(shape, elem, division.DIVIDE, (*operands, inverse), facts))
    if op.name in ("arith.extsi", "arith.extui") and elem == "i32":
        code = narrowed_code(operands[0], op.name == "arith.extsi")
        if code is not None:
            return code
    if op.name in ("arith.addi", "arith.subi") and elem == "i32" and (code := moved_code(op.name, *operands)) is not None:
        return k.shallow(code)
    if elem == "i32" and len(operands) == 2 and (four := sum_of_four(op.name, operands, k.ev.target)) is not None:
        return k.shallow(four)
    if (op.name, elem, operands[0].elem) in _HALVES:
        found = halves(op.name, operands, k.is_free)
        whole = None if found is None else joined_load(k.ev.s, found, k.is_free)
        if whole is not None:
            return whole
        if found is not None:
            return k.shallow(found)
    if op.name == "arith.trunci" and elem in ("i8", "i16") and operands[0].elem == "i32":
        lower = shortened(operands[0], lambda node: id(node) in k.ev.replacement)
        if lower is not None and lower.elem == elem:
            return k.shallow(lower) if isinstance(lower, Map) else lower
        operands = operands if lower is None else [lower]
    if op.name == "math.roundeven" and isinstance(operands[0], Map) and id(operands[0]) not in k.ev.replacement:
        operands = [to_be_rounded(operands[0])]
    is_to_i32 = op.name == "arith.fptosi" and elem == "i32" and operands[0].elem in ("f32", "f64")
    if is_to_i32 and clamped(operands[0]) is not None:
        codes = nearest_code(operands[0], k.ev.target) if operands[0].elem == "f32" else None
        if codes is not None:
            return k.shallow(codes)
        short = positive_code(operands[0], k.ev.target)
        if short is not None:
            return k.shallow(short)
        facts[CLAMPED] = True
    return k.shallow(Map(shape, elem, op.name, tuple(operands), facts))


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
