"""Expands integer, logic and bit instructions of PTX to block operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import or_

from xdsl.ir import Attribute

from ..tt import types as t
from ..tt.transforms.expression import Expr, divide, high_product, reverse_bits, shift, where
from .instructions import WIDTHS, Decoded
from .syntax import Integer

Handler = Callable[[Decoded, Sequence[Expr]], Expr]

INTEGERS: dict[int, Attribute] = {1: t.I1, 8: t.I8, 16: t.I16, 32: t.I32, 64: t.I64}


def is_signed(type_: str) -> bool:
    return type_[0] == "s"


def clamped(x: Expr, low: int, high: int, signed: bool = True) -> Expr:
    """Limits x to the range between two numbers that the type holds."""
    if signed:
        return x.named("arith.maxsi", low).named("arith.minsi", high)
    return x.named("arith.minui", high)


def _saturated_32(x: Expr) -> Expr:
    """Saturates an i64 to s32, as i32."""
    return clamped(x, -(1 << 31), (1 << 31) - 1).cast("arith.trunci", t.I32)


def halves(x: Expr) -> tuple[Expr, Expr]:
    """Splits an i32 into its low and high 16 bits, as i16."""
    return x.cast("arith.trunci", t.I16), x.lshr(16).cast("arith.trunci", t.I16)


def from_halves(low: Expr, high: Expr) -> Expr:
    return low.cast("arith.extui", t.I32) | high.cast("arith.extui", t.I32).shl(16)


def _on_halves(handler: Callable[[Decoded, str, Sequence[Expr]], Expr]) -> Handler:
    def apply(d: Decoded, xs: Sequence[Expr]) -> Expr:
        type_ = d.types[0]
        if not type_.endswith("x2"):
            return handler(d, type_, xs)
        parts = [halves(x) for x in xs]
        low = handler(d, type_[:-2], [part[0] for part in parts])
        high = handler(d, type_[:-2], [part[1] for part in parts])
        return from_halves(low, high)

    return apply


def _add(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    a, b = xs
    if "sat" in d.flags:
        return _saturated_32(a.cast("arith.extsi", t.I64) + b.cast("arith.extsi", t.I64))
    return a + b


def _sub(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
    a, b = xs
    if "sat" in d.flags:
        return _saturated_32(a.cast("arith.extsi", t.I64) - b.cast("arith.extsi", t.I64))
    return a - b


def _choose(name: str) -> Callable[[Decoded, str, Sequence[Expr]], Expr]:
    def apply(d: Decoded, type_: str, xs: Sequence[Expr]) -> Expr:
        chosen = xs[0].named(f"arith.{name}{'si' if is_signed(type_) else 'ui'}", xs[1])
        return chosen.named("arith.maxsi", 0) if "relu" in d.flags else chosen

    return apply


def product(d: Decoded, a: Expr, b: Expr) -> Expr:
    """Multiplies; returns the lower half, the upper half, or all of the product."""
    signed = is_signed(d.types[0])
    if "wide" in d.flags or ("hi" in d.flags and a.width == 16):
        double = INTEGERS[2 * a.width]
        whole = a.resized(double, signed) * b.resized(double, signed)
        return whole if "wide" in d.flags else whole.lshr(16).cast("arith.trunci", t.I16)
    return high_product(a, b, signed) if "hi" in d.flags else a * b


def _mul(d: Decoded, xs: Sequence[Expr]) -> Expr:
    return product(d, xs[0], xs[1])


def _mad(d: Decoded, xs: Sequence[Expr]) -> Expr:
    found = product(d, xs[0], xs[1])
    if "sat" in d.flags:
        return _saturated_32(found.cast("arith.extsi", t.I64) + xs[2].cast("arith.extsi", t.I64))
    return found + xs[2]


def _product_24(d: Decoded, a: Expr, b: Expr) -> Expr:
    if is_signed(d.types[0]):
        a, b = a.shl(8).ashr(8), b.shl(8).ashr(8)
    else:
        a, b = a & 0xFFFFFF, b & 0xFFFFFF
    if "lo" in d.flags:
        return a * b
    signed = is_signed(d.types[0])
    return (a.resized(t.I64, signed) * b.resized(t.I64, signed)).lshr(16).cast("arith.trunci", t.I32)


def _mul24(d: Decoded, xs: Sequence[Expr]) -> Expr:
    return _product_24(d, xs[0], xs[1])


def _mad24(d: Decoded, xs: Sequence[Expr]) -> Expr:
    found = _product_24(d, xs[0], xs[1])
    if "sat" in d.flags:
        return _saturated_32(found.cast("arith.extsi", t.I64) + xs[2].cast("arith.extsi", t.I64))
    return found + xs[2]


def _sad(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, c = xs
    above = a.test("sgt" if is_signed(d.types[0]) else "ugt", b)
    return where(above, a - b, b - a) + c


def _division(remainder: bool) -> Handler:
    return lambda d, xs: divide(xs[0], xs[1], is_signed(d.types[0]), remainder)


def _as_u32(x: Expr) -> Expr:
    return x.cast("arith.trunci", t.I32) if x.width == 64 else x


def _find(d: Decoded, xs: Sequence[Expr]) -> Expr:
    (a,) = xs
    x = a ^ a.ashr(a.width - 1) if is_signed(d.types[0]) else a
    zeros = x.named("math.ctlz")
    found = where(x.eq(0), -1, zeros) if "shiftamt" in d.flags else (a.width - 1) - zeros
    return _as_u32(found)


def amount(n: Expr, width: int) -> Expr:
    """Converts a u32 shift amount to another width; only values below the width have to stay exact."""
    if width == 16:
        return n.named("arith.minui", 255).cast("arith.trunci", t.I16)
    return n.cast("arith.extui", t.I64) if width == 64 else n


def _low_mask(x: Expr, length: Expr) -> Expr:
    """Returns a mask of the low `length` bits; all bits from the width on."""
    return shift(x.like(1), length, "shl") - 1


def _field(x: Expr, value: Expr) -> Expr:
    """Returns the low byte of a u32, in the type of x."""
    return amount(value & 0xFF, x.width)


def _extract(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, start, length = xs[0], _field(xs[0], xs[1]), _field(xs[0], xs[2])
    if not is_signed(d.types[0]):
        return shift(a, start, "lshr") & _low_mask(a, length)
    moved = shift(a, start, "ashr")
    rest = where(length.test("ult", a.width), a.width - length, 0)  # 64 or 32 for no bits: everything is shifted out
    found = shift(shift(moved, rest, "shl"), rest, "ashr")
    return where(length.eq(0), 0, found)


def _insert(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, start, length = xs[0], xs[1], _field(xs[0], xs[2]), _field(xs[0], xs[3])
    field = shift(_low_mask(a, length), start, "shl")
    return (b & ~field) | (shift(a, start, "shl") & field)


def _bit_mask(d: Decoded, xs: Sequence[Expr]) -> Expr:
    start, length = (x & 31 if "wrap" in d.flags else x for x in xs)
    return shift(_low_mask(start, length), start, "shl")


def _extend(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, length = xs
    length = length & 31 if "wrap" in d.flags else length.named("arith.minui", 32)
    if not is_signed(d.types[0]):
        return a & _low_mask(a, length)
    rest = 32 - length
    return where(length.eq(0), 0, shift(shift(a, rest, "shl"), rest, "ashr"))


def _lane(x: Expr, index: int, width: int, signed: bool) -> Expr:
    """Returns lane `index` of an i32 as an i32."""
    if signed:
        return x.shl(32 - width * (index + 1)).ashr(32 - width)
    return x.lshr(width * index) & ((1 << width) - 1)


def _dot(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, total = xs
    size, count = (8, 4) if d.opcode == "dp4a" else (16, 2)
    first = 2 if "hi" in d.flags else 0
    for index in range(count):
        left = _lane(a, index, size, is_signed(d.types[0]))
        total = total + left * _lane(b, first + index, 8, is_signed(d.types[1]))
    return total


def _two_inputs(table: int, b: Expr, c: Expr) -> Expr:
    """Returns the function of two bits with a table of four: bit 2b + c."""
    match table:
        case 0b0000:
            return b.like(0)
        case 0b1111:
            return b.like(-1)
        case 0b1100:
            return b
        case 0b0011:
            return ~b
        case 0b1010:
            return c
        case 0b0101:
            return ~c
        case 0b0110:
            return b ^ c
        case 0b1001:
            return ~(b ^ c)
    if table.bit_count() == 3:
        return ~_two_inputs(table ^ 15, b, c)
    entry = table.bit_length() - 1
    return (b if entry & 2 else ~b) & (c if entry & 1 else ~c)


def _lop3(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, c, lut = xs
    literal = d.sources[3]
    if isinstance(literal, Integer):
        table = literal.value & 0xFF
        high, low = table >> 4, table & 15
        if high == low:
            return _two_inputs(low, b, c)
        return (a & _two_inputs(high, b, c)) | (~a & _two_inputs(low, b, c))
    total = a.like(0)
    for index in range(8):
        term = (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        total = total | (term & (0 - (lut.lshr(index) & 1)))
    return total


def _shl(d: Decoded, xs: Sequence[Expr]) -> Expr:
    return shift(xs[0], amount(xs[1], xs[0].width), "shl")


def _shr(d: Decoded, xs: Sequence[Expr]) -> Expr:
    return shift(xs[0], amount(xs[1], xs[0].width), "ashr" if is_signed(d.types[0]) else "lshr")


def pair(low: Expr, high: Expr) -> Expr:
    """Joins two i32 to an i64."""
    return low.cast("arith.extui", t.I64) | high.cast("arith.extui", t.I64).shl(32)


def _funnel(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, c = xs
    n = (c & 31 if "wrap" in d.flags else c.named("arith.minui", 32)).cast("arith.extui", t.I64)
    both = pair(a, b)
    return (both.shl(n).lshr(32) if "l" in d.flags else both.lshr(n)).cast("arith.trunci", t.I32)


def _permute(d: Decoded, xs: Sequence[Expr]) -> Expr:
    source, c = pair(xs[0], xs[1]), xs[2].cast("arith.extui", t.I64)
    mode = d.choice("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    n = c & 3
    def byte_at(i: int) -> Expr:
        match mode:
            case "f4e":
                selector = n + i
            case "b4e":
                selector = (n - i) & 7
            case "rc8":
                selector = n
            case "ecl":
                selector = n.named("arith.maxui", i)
            case "ecr":
                selector = n.named("arith.minui", i)
            case "rc16":
                selector = (n & 1) * 2 + (i & 1)
            case _:
                selector = c.lshr(4 * i)
        byte = source.lshr((selector & 7).shl(3)) & 0xFF
        if not mode:
            byte = where((selector & 8).ne(0), where((byte & 128).ne(0), 255, byte.like(0)), byte)
        return byte.shl(8 * i)

    return functools.reduce(or_, map(byte_at, range(4))).cast("arith.trunci", t.I32)


def _slct(d: Decoded, xs: Sequence[Expr]) -> Expr:
    a, b, c = xs
    return where(c >= (0.0 if c.is_float else 0), a, b)


def relation(d: Decoded, type_: str, a: Expr, b: Expr, name: str) -> Expr:
    """Compares integers."""
    signed = is_signed(type_) and name not in ("lo", "ls", "hi", "hs")
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    return a.test(name if name in ("eq", "ne") else ("s" if signed else "u") + name, b)


def _video(d: Decoded, xs: Sequence[Expr]) -> Expr:
    """Computes on lanes of 8 or 16 bits, in i32."""
    a, b, c = xs
    count = int(d.opcode[-1])
    width = 32 // count
    signed = is_signed(d.types[0])
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    total = c if "add" in d.flags else c.like(0)
    for index in range(count):
        x, y = _lane(a, index, width, is_signed(d.types[1])), _lane(b, index, width, is_signed(d.types[2]))
        match d.opcode[:-1]:
            case "vadd":
                value = x + y
            case "vsub":
                value = x - y
            case "vavrg":
                value = x + y
                value = (value + where(value >= 0, 1, value.like(0))).ashr(1)
            case "vabsdiff":
                value = abs(x - y)
            case "vmin":
                value = x.named("arith.minsi", y)
            case _:
                value = x.named("arith.maxsi", y)
        if "add" in d.flags:
            total = total + value
            continue
        if "sat" in d.flags:
            value = clamped(value, low, high)
        total = total | (value & ((1 << width) - 1)).shl(width * index)
    return total


def pack(d: Decoded, xs: Sequence[Expr]) -> Expr:
    """Expands cvt.pack."""
    type_ = d.types[0]
    width = WIDTHS[type_]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(type_) else (0, (1 << width) - 1)
    a, b = (clamped(x, low, high) & ((1 << width) - 1) for x in xs[:2])
    packed = a.shl(width) | b
    return packed | xs[2].shl(2 * width) if len(xs) == 3 else packed


def chained(d: Decoded, xs: Sequence[Expr], carry: Expr) -> tuple[Expr, Expr]:
    """Adds or subtracts with a carry; returns the result and the new carry."""
    extra = carry.cast("arith.extui", INTEGERS[xs[0].width])
    a, b = (product(d, xs[0], xs[1]), xs[2]) if d.opcode.startswith("mad") else (xs[0], xs[1])
    if d.opcode.startswith("sub"):
        first = a - b
        result = first - extra
        return result, a.test("ult", b) | first.test("ult", extra)
    first = a + b
    result = first + extra
    return result, first.test("ult", a) | result.test("ult", first)


HANDLERS: dict[str, Handler] = {
    "add": _on_halves(_add), "sub": _on_halves(_sub), "min": _on_halves(_choose("min")), "max": _on_halves(_choose("max")),
    "mul": _mul, "mad": _mad, "mul24": _mul24, "mad24": _mad24, "sad": _sad, "div": _division(False), "rem": _division(True),
    "abs": lambda d, xs: where(xs[0] < 0, 0 - xs[0], xs[0]), "neg": lambda d, xs: 0 - xs[0],
    "popc": lambda d, xs: _as_u32(xs[0].named("math.ctpop")), "clz": lambda d, xs: _as_u32(xs[0].named("math.ctlz")),
    "bfind": _find, "brev": lambda d, xs: reverse_bits(xs[0]), "bfe": _extract, "bfi": _insert, "bmsk": _bit_mask,
    "szext": _extend, "dp4a": _dot, "dp2a": _dot, "and": lambda d, xs: xs[0] & xs[1], "or": lambda d, xs: xs[0] | xs[1],
    "xor": lambda d, xs: xs[0] ^ xs[1], "not": lambda d, xs: ~xs[0], "cnot": lambda d, xs: where(xs[0].eq(0), 1, xs[0].like(0)),
    "lop3": _lop3, "shl": _shl, "shr": _shr, "shf": _funnel, "prmt": _permute, "mov": lambda d, xs: xs[0],
    "selp": lambda d, xs: where(xs[2], xs[0], xs[1]), "slct": _slct,
    **{f"{name}{count}": _video for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax") for count in (2, 4)},
}  # fmt: skip
