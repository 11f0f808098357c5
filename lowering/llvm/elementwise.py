"""Emits one block operation on registers: scalars or vectors of any lane count.

16-bit floats are held in registers as float32 that is rounded to the narrow type after every operation, which is the numeric
contract ("each op rounds to its dtype") and needs no conversion between operations. Booleans are i1, fp8 is its bits (i8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import NumpyDType
from ...promotion.dataclass import dataclass
from ...promotion.dtype import BY_MLIR_NAME
from ...promotion.errors import UnsupportedError
from ..tt.facts import APPROXIMATE, CONTRACT, IN_RANGE, NOT_POSITIVE, PORTABLE, REDUCED, SHORT, WEIGHT, allows
from ..tt.types import numpy_dtype, scalar_type
from . import conversions, halves
from .calls import emit_call
from .ir import Function, mangle
from .masks.signs import compared, lowest_bit
from .math import approximate
from .math.library import MATH, emit_math
from .math.recipes import Form
from .quotients import division, integers
from .values import (
    FALSE,
    ConstantInt,
    Deferred,
    V,
    bits,
    const,
    element,
    i32,
    is_constant,
    lanes,
    number_of,
    vector,
    with_element,
)

REGISTER = {"f64": "double", "f32": "float", "f16": "float", "bf16": "float", "index": "i64"}
MEMORY = {
    "f64": "double",
    "f32": "float",
    "f16": "half",
    "bf16": "i16",
    "i1": "i8",
    "index": "i64",
    "ptr": "i64",
}


def register_element(elem: str) -> str:
    """Returns the LLVM element type of a block element in registers."""
    return "i8" if elem.startswith("f8") else REGISTER.get(elem, elem)


def memory_element(elem: str) -> str:
    """Returns the LLVM element type of a block element in memory."""
    return "i8" if elem.startswith("f8") else MEMORY.get(elem, elem)


def memory_size(elem: str) -> int:
    """Returns the bytes of a block element in memory."""
    if elem in ("index", "ptr"):
        return 8
    dtype = BY_MLIR_NAME.get(elem)
    return max(1, int(elem[1:]) // 8) if dtype is None else dtype.itemsize


def stored_dtype(elem: str) -> NumpyDType:
    """Returns the NumPy dtype of a block element in scratch: 16-bit floats as float32, fp8 as bits, pointers as integers."""
    names = {"double": "float64", "float": "float32", "ptr": "int64", "i1": "bool"}
    register = register_element(elem)
    return np.dtype(names.get(register) or f"int{register[1:]}")


NARROW = {"f16": "half", "bf16": "bfloat"}
"""The floats that registers hold as float32, with their own LLVM types; GPUs convert between both in one instruction."""


def is_ptx(f: Function) -> bool:
    return "ptx" in f.module.features


def narrowed(f: Function, value: V, elem: str) -> V:
    """Rounds a float32 register to its 16-bit type (PTX); costs nothing where it was widened from that type."""
    narrow = NARROW[elem]
    if isinstance(value, Deferred) and isinstance(value.origin, V) and value.origin.type == narrow:
        return value.origin
    return f.deferred(narrow, lambda: f.cast("fptrunc", value, narrow), Rounded(value), [value])


def widened(f: Function, value: V) -> V:
    """Widens a 16-bit float to its float32 register (PTX)."""
    return f.deferred("float", lambda: f.cast("fpext", value, "float"), value, [value])


def reinterpreted(f: Function, value: V, type_: str) -> V:
    """Returns the same bits as another type, of scalars (PTX)."""
    if value.type == type_:
        return value
    if isinstance(value, Deferred) and isinstance(value.origin, Bits) and value.origin.value.type == type_:
        return value.origin.value
    return f.deferred(type_, lambda: f.bitcast(value, type_), Bits(value), [value])


class Extended(V):
    """A float32 register that was widened from a 16-bit float, which is stored as it was."""

    __slots__ = ("half",)

    def __init__(self, value: V, half: V) -> None:
        super().__init__(value.operand(), value.type)
        self.half = half


def _extended(f: Function, half: V) -> V:
    return Extended(f.cast("fpext", half, with_element(half.type, "float")), half)


@dataclass(frozen=True, slots=True)
class Rounded:
    """The origin of a 16-bit float: the float32 that it was rounded from."""

    value: V


@dataclass(frozen=True, slots=True)
class Bits:
    """The origin of a value that has the bits of another."""

    value: V


def from_memory(f: Function, value: V, elem: str) -> V:
    """Converts what a load of `memory_element` gives to the register form."""
    if is_ptx(f) and elem in NARROW:
        return widened(f, reinterpreted(f, value, NARROW[elem]))
    if elem == "bf16":
        return conversions.bfloat_bits_to_float(f, value)
    if elem == "f16":
        return _extended(f, value)
    if elem == "i1":
        return f.icmp("ne", value, const(0, value.type))
    return value


def to_memory(f: Function, value: V, elem: str) -> V:
    """Converts the register form to what is stored. The value is already rounded, so narrowing 16-bit floats is exact."""
    if is_ptx(f) and elem in NARROW:
        return reinterpreted(f, narrowed(f, value, elem), memory_element(elem))
    if elem == "bf16":
        high = f.binary(
            "lshr",
            f.bitcast(value, with_element(value.type, "i32")),
            const(16, with_element(value.type, "i32")),
        )
        return f.cast("trunc", high, with_element(value.type, "i16"))
    if elem == "f16":
        return value.half if isinstance(value, Extended) else f.cast("fptrunc", value, with_element(value.type, "half"))
    if elem == "i1":
        return f.cast("zext", value, with_element(value.type, "i8"))
    return value


def round_register(f: Function, value: V, elem: str) -> V:
    """Rounds a float32 register to the 16-bit type it stands for."""
    if is_ptx(f) and elem in NARROW:
        return widened(f, narrowed(f, value, elem))
    if elem == "bf16":
        return conversions.round_to_bfloat(f, value)
    if elem == "f16":
        if isinstance(value, Extended):
            return value
        return _extended(f, f.cast("fptrunc", value, with_element(value.type, "half")))
    return value


def constant(value: float | int | bool, elem: str, n: int = 1) -> V:
    """Returns a constant in register form; the value is rounded to the block element type."""
    el = register_element(elem)
    if elem == "bf16":
        value = conversions.bfloat_value(float(value))
    elif elem == "f16":
        value = conversions.half_value(float(value))
    elif elem.startswith("f8"):  # registers hold their bits
        value = int(np.asarray(value).astype(numpy_dtype(scalar_type(elem))).view(np.uint8))
    return const(value, vector(el, n))


INSTRUCTION = {
    "arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul", "arith.divf": "fdiv", "tt.precise_divf": "fdiv",
    "tt.approx_divf": "fdiv",
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "ashr", "arith.shrui": "lshr",
    "arith.divsi": "sdiv", "arith.divui": "udiv", "arith.remsi": "srem", "arith.remui": "urem",
}  # fmt: skip

_INTEGER_DIVISIONS = frozenset({"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"})
_CONTRACTED = frozenset({"arith.addf", "arith.subf", "arith.mulf"})


def instruction(op: str, attrs: Mapping[str, Any]) -> str:
    """Returns LLVM's opcode of an operation in `INSTRUCTION`, with the flag that allows fusing products with sums."""
    return INSTRUCTION[op] + (" contract" if op in _CONTRACTED and allows(attrs, CONTRACT) else "")


_SHIFTS = {"arith.shli": "shl.b64", "arith.shrui": "shr.u64"}
INTEGER_CHOICE = {"arith.maxsi": "smax", "arith.minsi": "smin", "arith.maxui": "umax", "arith.minui": "umin"}



def larger(f: Function, a: V, b: V, greater: bool) -> V:
    """Emits max (min) as one comparison and select, which is one instruction: `b` when either is NaN or both are equal."""
    return f.select(f.fcmp("ogt" if greater else "olt", a, b), a, b)


def _maximum(f: Function, a: V, b: V, greater: bool, propagate_nan: bool) -> V:
    """Emits max or min. For NaN the propagating form returns NaN, the other the number; +0 is above -0, as in IEEE 754-2019."""
    if "ptx" in f.module.features and a.type == "float":  # one instruction
        return f.intrinsic(("max" if greater else "min") + ("imum" if propagate_nan else "num"), [a, b])
    if _is_ordered_constant(b):  # the comparison is false for a NaN in `a` and chooses between two zeros
        wins = _is_zero(b, negative=not greater)
        if propagate_nan:
            return f.select(f.fcmp(("o" + "gl"[not greater]) + "te"[wins], b, a), b, a)
        loses = _is_zero(b, negative=greater)
        return f.select(f.fcmp(("o" + "gl"[not greater]) + "te"[loses], a, b), a, b)
    if propagate_nan and (found := _by_range(f, a, b, greater)) is not None:
        return found
    bits = with_element(a.type, "i64" if element(a.type) == "double" else "i32")
    both = f.binary("and" if greater else "or", f.bitcast(a, bits), f.bitcast(b, bits))  # the same bits for equal numbers
    chosen = f.select(f.fcmp("oeq", a, b), f.bitcast(both, a.type), larger(f, a, b, greater))
    if propagate_nan and lanes(a.type) > 1 and "avx512f" not in f.module.features:
        # All bits of a NaN are set: where `a` is in memory and the result goes there, LLVM would make a choice a store under a
        # mask, which takes AMD's processors 20 cycles.
        unordered = f.cast("sext", f.fcmp("uno", a, a), bits)
        return f.bitcast(f.binary("or", f.bitcast(chosen, bits), unordered), a.type)
    if propagate_nan:
        return f.select(f.fcmp("uno", a, a), a, chosen)
    return f.select(f.fcmp("uno", b, b), a, chosen)


_RANGE_OF_COMPARED_SIGN = 4
"""The immediate operand of `vrangeps` for minima, whose sign is that of what is chosen; maxima have one more."""


def _by_range(f: Function, a: V, b: V, greater: bool) -> V | None:
    """Emits max or min of whole registers by `vrangeps`, which puts +0 above -0 and chooses the number beside a NaN, and NaN by
    a sum; None where the processor or the vector has no such instruction."""
    n, item = lanes(a.type), element(a.type)
    width = {"float": 32, "double": 64}.get(item, 0)
    register = min(n * width, 512)
    needed = {512: "avx512dq", 256: "avx512vl", 128: "avx512vl"}.get(register, "")
    if (n * width % 512 and n * width != register) or not {needed, "avx512dq"} <= f.module.features:
        return None
    room = register // width
    mask = const(-1, "i16" if room == 16 else "i8")
    immediate = i32(_RANGE_OF_COMPARED_SIGN + greater)
    parts = []
    for first in range(0, n, room):
        one, other = (v if n == room else f.shuffle(v, v, range(first, first + room)) for v in (a, b))
        current = [i32(4)] if register == 512 else []  # the current rounding mode
        name = f"llvm.x86.avx512.mask.range.p{item[0].replace('f', 's')}.{register}"
        parts.append(f.target_intrinsic(name, [one, other, immediate, one, mask, *current], one.type))
    return f.select(f.fcmp("uno", a, b), f.binary("fadd", a, b), f.concatenated(parts))


def _is_zero(v: V, negative: bool) -> bool:
    """Whether a constant is the zero of that sign."""
    number = number_of(v)
    return number == 0 and (math.copysign(1.0, number) < 0) == negative


def _is_ordered_constant(v: V) -> bool:
    """Whether a value is a float constant other than NaN."""
    number = number_of(v)
    return number is not None and number == number


def _cast(f: Function, op: str, x: V, source: str, target: str, attrs: Mapping[str, Any]) -> V:
    out = with_element(x.type, register_element(target))
    wide = ("f32", "f64")
    match op:
        case "arith.extf" | "arith.truncf" | "tt.fp_to_fp":
            if source.startswith("f8") or target.startswith("f8"):
                return conversions.convert_fp8(f, x, source, target, str(attrs.get("rounding") or "rtne"))
            if attrs.get("rounding") == "rtz" and (target in ("f16", "bf16") or (source, target) == ("f64", "f32")):
                return conversions.truncate_float(f, x, source, target)
            if target == "f64":
                return f.cast("fpext", x, out)
            if source == "f64":
                if target in wide:
                    return f.cast("fptrunc", x, out)
                return conversions.round_double(f, x, target)
            return round_register(f, x, target)
        case "arith.sitofp" | "arith.uitofp" if isinstance(x, ConstantInt) and x.type in ("i8", "i16") and target == "f32":
            return const(x.number if op == "arith.sitofp" else x.number % (1 << bits(x.type)), out)
        case "arith.sitofp" | "arith.uitofp":
            if source == "i1" and is_ptx(f):  # LLVM 22 takes -1 for 1 where float16 becomes bfloat16 (sm_90 and later)
                return f.select(x, const(-1.0 if op == "arith.sitofp" else 1.0, out), const(0.0, out))
            if target == "f16" and is_ptx(f):  # one instruction that rounds once
                return widened(f, f.cast(op[6:], x, "half"))
            return conversions.int_to_float(f, x, target, op == "arith.sitofp")
        case "arith.fptosi" if conversions.CLAMPED in attrs:
            return conversions.clamped_float_to_int(f, x, out)
        case "arith.fptosi" | "arith.fptoui":
            return conversions.float_to_int_saturating(f, x, target, op == "arith.fptosi")
        case "arith.extsi" if isinstance(x, ConstantInt) and x.type in ("i8", "i16", "i32") and not is_ptx(f):
            return const(x.number, out)
        case "arith.extsi":
            return f.cast("sext", x, out)
        case "arith.extui" if isinstance(x, ConstantInt) and x.type in ("i8", "i16", "i32") and not is_ptx(f):
            return const(x.number & ((1 << int(x.type[1:])) - 1), out)
        case "arith.extui":
            return f.cast("zext", x, out)
        case "arith.trunci":
            return lowest_bit(f, x) if target == "i1" else f.cast("trunc", x, out)
        case "arith.bitcast" | "tt.bitcast" if source == "ptr" and target == "ptr":
            return x
        case "arith.bitcast" | "tt.bitcast":
            return from_memory(
                f, f.bitcast(to_memory(f, x, source), with_element(x.type, memory_element(target))), target
            )
    raise UnsupportedError(f"lowering: cast {op} from {source} to {target}")


CASTS = frozenset(
    [
        "arith.extf",
        "arith.truncf",
        "tt.fp_to_fp",
        "arith.sitofp",
        "arith.uitofp",
        "arith.fptosi",
        "arith.fptoui",
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
        "arith.bitcast",
        "tt.bitcast",
    ]
)


_ELEMENTWISE = frozenset(
    f"tt.{name}"
    for name in ("addptr", "approx_divf", "bitcast", "clampf", "extern_elementwise", "fp_to_fp", "int_to_ptr", "mulhiui",
                 "precise_divf", "precise_sqrt", "ptr_to_int")
)  # fmt: skip


def is_elementwise(name: str) -> bool:
    """Whether an operation computes each element of its result from those of its operands alone."""
    return name.startswith(("arith.", "math.")) or name in _ELEMENTWISE


def math_form(attrs: Mapping[str, Any]) -> Form:
    """Returns the form of a math function that the attributes of an operation ask for."""
    if REDUCED in attrs:
        return "reduced"
    if allows(attrs, APPROXIMATE):
        return "approximate"
    if PORTABLE in attrs:
        return "portable"
    return "weight" if WEIGHT in attrs else "short" if SHORT in attrs else "accurate"


def emit_map(
    f: Function, op: str, elem: str, operands: Sequence[V], elems: Sequence[str], attrs: Mapping[str, Any]
) -> V:
    """Emits `op` on register values with equal lane counts; `elem`/`elems` are block element types of result and operands.

    `UnsupportedError` for operations that are not elementwise.
    """
    n = max(lanes(v.type) for v in operands)
    xs = [f.splat(v, n) for v in operands]
    if op == "arith.divf" and IN_RANGE in attrs and elem == "f32" and is_ptx(f):
        return division.divide_in_range(f, xs[0], xs[1])
    if op in approximate.DIVISIONS and approximate.may_divide(f, elem, attrs):
        return round_register(f, approximate.quotient(f, xs[0], xs[1]), elem)
    if op in _SHIFTS and elem == "i64" and is_ptx(f) and not is_constant(xs[1]):
        # LLVM 22 drops a select around such a shift because PTX's shifts clamp, but they read 32 bits of the amount
        amount = f.cast("trunc", xs[1], "i32")
        return f.pure(
            f'call i64 asm "{_SHIFTS[op]} $0, $1, $2;", "=l,l,r"(i64 {xs[0].operand()}, i32 {amount.operand()})', "i64"
        )
    if op in _INTEGER_DIVISIONS and integers.may_divide(f, xs[0]):
        return integers.divided(f, INSTRUCTION[op], xs[0], xs[1])
    if op in INSTRUCTION:
        return round_register(f, f.binary(instruction(op, attrs), xs[0], xs[1]), elem)
    if op in INTEGER_CHOICE:
        return f.intrinsic(INTEGER_CHOICE[op], xs)
    if op in MATH:
        return round_register(f, emit_math(f, MATH[op], *xs, form=math_form(attrs), not_positive=NOT_POSITIVE in attrs), elem)
    if op in CASTS:
        return _cast(f, op, xs[0], elems[0], elem, attrs)
    match op:
        case "arith.select":
            c, a, b = xs
            return f.select(operands[0] if lanes(operands[0].type) == 1 else c, a, b)
        case "arith.cmpi":
            return compared(f, str(attrs["predicate"]), xs[0], xs[1])
        case "arith.cmpf":
            return f.fcmp(str(attrs["predicate"]), xs[0], xs[1])
        case "joinery.round_tf32":
            return conversions.round_to_tf32(f, xs[0])
        case "tt.int_to_ptr" | "tt.ptr_to_int":  # pointers in blocks are addresses
            return xs[0]
        case "arith.negf":
            return f.fneg(xs[0])
        case "arith.remf":
            return round_register(f, emit_math(f, "fmod", *xs), elem)
        case "arith.maximumf" | "arith.minimumf":
            return _maximum(f, xs[0], xs[1], op == "arith.maximumf", True)
        case "arith.maxnumf" | "arith.minnumf":
            return _maximum(f, xs[0], xs[1], op == "arith.maxnumf", False)
        case "math.ctpop":
            return f.intrinsic("ctpop", xs)
        case "math.ctlz" | "math.cttz":
            name = f"llvm.{op[5:]}.{mangle(xs[0].type)}"
            f.module.declare(name, xs[0].type, [xs[0].type, "i1"])
            return f.call(name, xs[0].type, [xs[0], FALSE])
        case "math.absi":
            return f.intrinsic("smax", [xs[0], f.binary("sub", const(0, xs[0].type), xs[0])])
        case division.RECIPROCAL:
            return division.reciprocal(f, xs[0], division.ROUNDED in attrs or division.COARSE in attrs, xs[1:])
        case division.DIVIDE if division.FACTORS in attrs:
            return division.by_factors(f, xs[0], attrs[division.FACTORS])
        case division.DIVIDE:
            facts = (fact in attrs for fact in (IN_RANGE, division.ROUNDED, division.BOUNDED, division.COARSE))
            return division.divide(f, xs[0], operands[1], operands[2], *facts)
        case halves.LOW | halves.HIGH:
            return halves.half(f, xs[0], op == halves.HIGH)
        case halves.JOINED:
            return halves.joined(f, *xs)
        case conversions.POSITIVE:
            return conversions.positive_integer(f, xs[0], attrs["high"])
        case conversions.NEAREST:
            return conversions.nearest_integer(f, xs[0], attrs)
        case "tt.extern_elementwise":
            return emit_call(f, str(attrs["symbol"]), xs, register_element(elem))
        case "tt.mulhiui":
            wide = with_element(xs[0].type, "i" + str(2 * int(register_element(elem)[1:])))
            product = f.binary("mul", f.cast("zext", xs[0], wide), f.cast("zext", xs[1], wide))
            half = const(int(register_element(elem)[1:]), wide)
            return f.cast("trunc", f.binary("lshr", product, half), xs[0].type)
        case "tt.clampf":
            low = _maximum(f, xs[0], xs[1], True, bool(attrs.get("propagateNan", 0)))
            return _maximum(f, low, xs[2], False, bool(attrs.get("propagateNan", 0)))
    raise UnsupportedError(f"lowering: operation {op} on {', '.join(elems)}")


def identity(op: str, elem: str) -> float | int | None:
    """Returns the neutral element of a combining operation, or None."""
    el = register_element(elem)
    if op == "arith.addf":
        return -0.0
    if op in ("arith.addi", "arith.ori", "arith.xori"):
        return 0
    if op in ("arith.mulf", "arith.muli"):
        return 1
    if op == "arith.maximumf":
        return float("-inf")
    if op == "arith.minimumf":
        return float("inf")
    if op in ("arith.maxnumf", "arith.minnumf"):  # a reduction of nothing but NaN is NaN
        return float("nan")
    if el[0] != "i":
        return None
    width = int(el[1:])
    table = {
        "arith.andi": -1,
        "arith.maxsi": -(1 << (width - 1)),
        "arith.minsi": (1 << (width - 1)) - 1,
        "arith.maxui": 0,
        "arith.minui": (1 << width) - 1,
    }
    return table.get(op)
