"""Executes integer and bit instructions over all lanes. Forms without array code run through the evaluator of
inline assembly.

Source: PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions", "Data Movement: prmt".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.instructions import WIDTHS, Decoded
from ....lowering.ptx.syntax import Integer, Name, Pair, Vector
from ....promotion.arrays import Array
from ..core.binding import Binding, Ufunc, binary, computed, copied, unary
from ..core.types import UNSIGNED, Mask, Source, Step

Builder = Callable[[Binding, Decoded], Step | None]
"""Builds the step of an instruction; None leaves the form to the evaluator."""


def _unsigned(k: Binding, d: Decoded) -> tuple[list[Source], Array]:
    """Returns sources and destination as unsigned words."""
    unsigned = UNSIGNED[WIDTHS[d.types[0]]]
    return [np.asarray(x).view(unsigned)[()] for x in k.sources(d)], k.out(d).view(unsigned)


def _wrapping(function: Ufunc) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        if d.flags or d.types[0].endswith("x2"):
            return None
        (x, y), out = _unsigned(k, d)
        return binary(function, x, y, out)

    return build


def _multiply(k: Binding, d: Decoded) -> Step | None:
    type_ = d.types[0]
    if "lo" in d.flags:
        (x, y), out = _unsigned(k, d)
        return binary(np.multiply, x, y, out)
    x, y = k.sources(d)
    out = k.out(d)
    width = WIDTHS[type_]
    wide = np.dtype(f"{x.dtype.kind}{width // 4}") if width < 64 else x.dtype
    if "wide" in d.flags:

        def product(mask: Mask) -> None:
            np.multiply(x, y, out, dtype=wide, where=True if mask is None else mask)

        return product
    if width < 64:
        shift = wide.type(width)
        return computed(lambda: np.multiply(x, y, dtype=wide) >> shift, out)
    return computed(lambda: _high_product(x, y), out)


def _high_product(x: Source, y: Source) -> Array:
    """Returns the upper 64 bits of a product of 64-bit numbers, from four products of halves."""
    a, b = np.asarray(x).view(np.uint64), np.asarray(y).view(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = a & low, a >> half, b & low, b >> half
    middle = ah * bl + (al * bl >> half)
    other = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (other >> half)
    if np.asarray(x).dtype.kind == "i":
        high = (
            high
            - np.where(a >> np.uint64(63), b, np.uint64(0))
            - np.where(b >> np.uint64(63), a, np.uint64(0))
        )
        return np.asarray(high).view(np.int64)
    return np.asarray(high)


def _multiply_add(k: Binding, d: Decoded) -> Step | None:
    if "cc" in d.flags or "sat" in d.flags:
        return None
    if "lo" in d.flags:
        (x, y, z), out = _unsigned(k, d)
        return computed(lambda: x * y + z, out)
    x, y, z = k.sources(d)
    out = k.out(d)
    width = WIDTHS[d.types[0]]
    wide = np.dtype(f"{x.dtype.kind}{width // 4}") if width < 64 else x.dtype
    if "wide" in d.flags:
        return computed(lambda: np.multiply(x, y, dtype=wide) + z, out)
    if width < 64:
        shift = wide.type(width)
        return computed(lambda: (np.multiply(x, y, dtype=wide) >> shift).astype(z.dtype) + z, out)
    return computed(lambda: _high_product(x, y) + z, out)


def _divide(remainder: bool) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        x, y = k.sources(d)
        out = k.out(d)
        signed = d.types[0][0] == "s"
        unsigned = UNSIGNED[WIDTHS[d.types[0]]]
        machine = k.machine

        def value() -> Array:
            if not signed:
                return _quotient(x, y, remainder)
            a, b = np.abs(x).view(unsigned), np.abs(y).view(unsigned)
            found = _quotient(a, b, remainder).view(x.dtype)
            return np.where((x < 0) if remainder else ((x < 0) != (y < 0)), -found, found)

        plain = computed(value, out)

        def step(mask: Mask) -> None:
            zero = np.equal(y, 0) if mask is None else np.equal(y, 0) & mask
            if np.count_nonzero(zero):
                machine.warn(
                    "division by zero",
                    "an unspecified value",
                    np.flatnonzero(np.broadcast_to(zero, (k.lanes,))),
                )
            plain(mask)

        return step

    return build


def _quotient(a: Source, b: Source, remainder: bool) -> Array:
    """Divides integers; by zero the quotient is all ones, and the remainder the dividend."""
    zero = np.equal(b, 0)
    if not np.count_nonzero(zero):
        return np.asarray(a % b if remainder else a // b)
    safe = np.where(zero, np.ones_like(b), b)
    return np.asarray(
        np.where(zero, a if remainder else ~np.zeros_like(a), a % safe if remainder else a // safe)
    )


def _extreme(function: Ufunc) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        if d.types[0].endswith("x2"):
            return None
        x, y = k.sources(d)
        out = k.out(d)
        if "relu" in d.flags:
            zero = x.dtype.type(0)
            return computed(lambda: np.maximum(function(x, y), zero), out)
        return binary(function, x, y, out)

    return build


def _sign(function: Ufunc) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        (x,) = k.sources(d)
        return unary(function, x, k.out(d))

    return build


def bit_length(x: Array) -> Array:
    """Counts the bits up to the highest one that is set, in 32- and 64-bit words."""
    if x.dtype.itemsize == 4:
        return np.asarray(np.frexp(x.astype(np.float64))[1])
    high = (x >> np.uint64(32)).astype(np.float64)
    low = (x & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])


def _count(k: Binding, d: Decoded) -> Step | None:
    (x,) = k.sources(d)
    out = k.out(d)
    if d.opcode == "popc":
        return computed(lambda: np.bitwise_count(x), out)
    width = WIDTHS[d.types[0]]
    return computed(lambda: width - bit_length(np.asarray(x)), out)


def _find(k: Binding, d: Decoded) -> Step | None:
    (x,) = k.sources(d)
    out = k.out(d).view(np.int32)
    width = WIDTHS[d.types[0]]
    unsigned = UNSIGNED[width]

    def value() -> Array:
        seen = np.where(x < 0, ~x, x) if d.types[0][0] == "s" else x
        first = bit_length(np.asarray(seen).view(unsigned)).astype(np.int32) - 1
        return np.where(first < 0, first, width - 1 - first) if "shiftamt" in d.flags else first

    return computed(value, out)


_REVERSED = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], np.uint8)


def _reverse(k: Binding, d: Decoded) -> Step | None:
    (x,) = k.sources(d)
    out = k.out(d)
    size = x.dtype.itemsize

    def value() -> Array:
        octets = np.ascontiguousarray(np.broadcast_to(x, (k.lanes,))).view(np.uint8).reshape(-1, size)
        return np.asarray(np.ascontiguousarray(_REVERSED[octets[:, ::-1]]).view(x.dtype).reshape(-1))

    return computed(value, out)


def _extract(k: Binding, d: Decoded) -> Step | None:
    first, length = d.sources[1], d.sources[2]
    if not (isinstance(first, Integer) and isinstance(length, Integer)):
        return None
    width = WIDTHS[d.types[0]]
    at, count = first.value & 255, length.value & 255
    if count == 0 or at + count > width:
        return None
    x = k.source(d.sources[0], d.types[0])
    out = k.out(d)
    up, down = x.dtype.type(width - at - count), x.dtype.type(width - count)
    if not up:
        return binary(np.right_shift, x, down, out)
    return computed(lambda: (x << up) >> down, out)


def _insert(k: Binding, d: Decoded) -> Step | None:
    first, length = d.sources[2], d.sources[3]
    if not (isinstance(first, Integer) and isinstance(length, Integer)):
        return None
    width = WIDTHS[d.types[0]]
    at, count = first.value & 255, length.value & 255
    if at >= width:
        return None
    x, y = k.source(d.sources[0], d.types[0]), k.source(d.sources[1], d.types[0])
    field = (((1 << count) - 1) << at) & ((1 << width) - 1)
    inside, outside, shift = x.dtype.type(field), x.dtype.type(field ^ ((1 << width) - 1)), x.dtype.type(at)
    return computed(lambda: (y & outside) | ((x << shift) & inside), k.out(d))


def _logic(function: Ufunc, on_predicates: Ufunc) -> Builder:
    def build(k: Binding, d: Decoded) -> Step | None:
        if d.types[0] != "pred":
            x, y = k.sources(d)
            return binary(function, x, y, k.out(d))
        first, second = (k.predicate(o) for o in d.sources)
        out = k.out(d)
        bad = [k.undefined(o) for o in d.sources]

        def shadow(mask: Mask) -> list[Array]:
            """Marks the result defined where a defined operand decides it."""
            x, y, p, q = first(), second(), bad[0]() != 0, bad[1]() != 0
            if d.opcode == "and":
                return [(p | q) & (p | x) & (q | y)]
            if d.opcode == "or":
                return [(p | q) & (p | ~x) & (q | ~y)]
            return [p | q]

        k.shadowed(d.results, shadow)

        def step(mask: Mask) -> None:
            on_predicates(first(), second(), out, where=True if mask is None else mask)

        return step

    return build


def _not(k: Binding, d: Decoded) -> Step | None:
    if d.types[0] == "pred":
        value = k.predicate(d.sources[0])
        return computed(lambda: ~value(), k.out(d))
    (x,) = k.sources(d)
    return unary(np.invert, x, k.out(d))


def _shift(function: Ufunc) -> Builder:
    """Makes a builder of shifts. For amounts of the width and more, NumPy gives 0 or the sign, as PTX requires."""

    def build(k: Binding, d: Decoded) -> Step | None:
        x = k.source(d.sources[0], d.types[0])
        n = k.source(d.sources[1], "u32")
        width = WIDTHS[d.types[0]]
        out = k.out(d)
        if isinstance(d.sources[1], Integer):
            return binary(function, x, x.dtype.type(min(int(n), width)), out)
        if width == 32 and x.dtype.kind == "u":
            return binary(function, x, n, out)
        limit = np.uint32(width)
        return computed(lambda: function(x, np.minimum(n, limit).astype(x.dtype)), out)

    return build


def _funnel(k: Binding, d: Decoded) -> Step | None:
    a, b, c = k.sources(d)
    out = k.out(d)
    low, half, full = np.uint32(31), np.uint64(32), np.uint32(32)
    wrap, left = "wrap" in d.flags, "l" in d.flags

    def value() -> Array:
        n = (c & low if wrap else np.minimum(c, full)).astype(np.uint64)
        pair = (np.asarray(b).astype(np.uint64) << half) | np.asarray(a).astype(np.uint64)
        if left:
            return np.asarray(np.where(n == 32, a, ((pair << (n & np.uint64(31))) >> half).astype(np.uint32)))
        return np.asarray(np.where(n == 32, b, (pair >> (n & np.uint64(31))).astype(np.uint32)))

    return computed(value, out)


def _permute(k: Binding, d: Decoded) -> Step | None:
    """Builds the generic mode of prmt: eight source bytes, four selectors whose top bit replicates the byte's
    sign."""
    if d.flags:
        return None
    a, b, c = k.sources(d)
    out = k.out(d)
    octets = np.empty((k.lanes, 2), np.uint32)
    columns = octets.view(np.uint8)
    shifts = np.arange(0, 16, 4, dtype=np.uint32)
    lanes = np.arange(k.lanes)[:, None]
    fixed = [int(c) >> s & 15 for s in (0, 4, 8, 12)] if isinstance(d.sources[2], Integer) else None

    def value() -> Array:
        octets[:, 0] = a
        octets[:, 1] = b
        if fixed is not None:
            found = columns[:, [s & 7 for s in fixed]]
            signs = [s > 7 for s in fixed]
            if any(signs):
                found[:, signs] = (found[:, signs].view(np.int8) >> 7).view(np.uint8)
        else:
            selectors = (np.broadcast_to(c, (k.lanes,))[:, None] >> shifts) & np.uint32(15)
            found = columns[lanes, selectors & np.uint32(7)]
            found = np.where(selectors > 7, (found.view(np.int8) >> 7).view(np.uint8), found)
        return np.ascontiguousarray(found).view(np.uint32).reshape(-1)

    return computed(value, out)


def _table3(k: Binding, d: Decoded) -> Step | None:
    if not isinstance(d.sources[3], Integer):
        return None
    table = d.sources[3].value & 255
    a, b, c = (k.source(o, "b32") for o in d.sources[:3])
    out = k.out(d)

    def value() -> Array:
        total: Array = np.zeros(k.lanes, np.uint32)
        for pair in range(4):
            column = table >> (2 * pair) & 3
            if column:
                term = (a if pair & 2 else ~a) & (b if pair & 1 else ~b)
                if column != 3:
                    term = term & (c if column == 2 else ~c)
                total |= term
        return total

    return computed(value, out)


def _move(k: Binding, d: Decoded) -> Step | None:
    target, source = d.results[0], d.sources[0]
    width = WIDTHS[d.types[0]]
    if isinstance(target, Vector):
        each = width // len(target.elements)
        x = np.asarray(k.source(source, d.types[0]))
        outs = [k.destination(o, f"b{each}") for o in target.elements]

        def split(mask: Mask) -> None:
            # copied, since an element may be the source register itself
            found = np.array(np.broadcast_to(x, (k.lanes,))).view(UNSIGNED[each]).reshape(k.lanes, -1)
            for i, out in enumerate(outs):
                np.copyto(out, found[:, i], where=True if mask is None else mask)

        return split
    out = k.destination(target, d.types[0])
    if isinstance(source, Vector):
        each = width // len(source.elements)
        sources = [k.source(o, f"b{each}") for o in source.elements]
        packed = np.empty(k.lanes, out.dtype)
        columns = packed.view(UNSIGNED[each]).reshape(k.lanes, -1)

        def join(mask: Mask) -> None:
            for i, x in enumerate(sources):
                columns[:, i] = x
            np.copyto(out, packed, where=True if mask is None else mask)

        return join
    if isinstance(source, Name):
        return copied(k.source(source, f"u{width}"), out.view(UNSIGNED[width]))
    if d.types[0] == "pred":
        value = k.predicate(source)
        return computed(value, out)
    return copied(k.source(source, d.types[0]), out)


def _select(k: Binding, d: Decoded) -> Step | None:
    x, y = (k.source(o, d.types[0]) for o in d.sources[:2])
    p = k.predicate(d.sources[2])
    bad = [k.undefined(o) for o in d.sources]
    k.shadowed(d.results, lambda mask: [np.where(p(), bad[0](), bad[1]()) | bad[2]()])
    return computed(lambda: np.where(p(), x, y), k.out(d))


_TESTS: dict[str, Ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
BOOLEANS: dict[str, Ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def compare(k: Binding, d: Decoded) -> Step | None:
    """Builds setp on integers."""
    name = d.choice(*_TESTS)
    x, y = (k.source(o, d.types[0]) for o in d.sources[:2])
    if d.types[0][0] == "s" and name in ("lo", "ls", "hi", "hs"):
        unsigned = UNSIGNED[WIDTHS[d.types[0]]]
        x, y = np.asarray(x).view(unsigned)[()], np.asarray(y).view(unsigned)[()]
    return predicates(k, d, _TESTS[name], x, y)


def predicates(k: Binding, d: Decoded, test: Ufunc, x: Source, y: Source) -> Step:
    """Builds a comparison that writes one predicate, or it and its complement to two, combined with a third
    source if there is one."""
    target = d.results[0]
    combine = BOOLEANS[d.choice("and", "or", "xor")] if len(d.sources) > 2 else None
    if not isinstance(target, Pair) and combine is None:
        return binary(test, x, y, k.destination(target, "pred"))
    operands = (target.first, target.second) if isinstance(target, Pair) else (target,)
    outs = [k.destination(o, "pred") for o in operands]
    third = k.predicate(d.sources[2]) if combine is not None else None

    def step(mask: Mask) -> None:
        found = test(x, y)
        other = third().copy() if third is not None else None
        for out, value in zip(outs, (found, ~found), strict=False):
            value = value if combine is None else combine(value, other)
            np.copyto(out, value, where=True if mask is None else mask)

    return step


INTEGERS: dict[str, Builder] = {
    "add": _wrapping(np.add), "sub": _wrapping(np.subtract), "mul": _multiply, "mad": _multiply_add,
    "div": _divide(False), "rem": _divide(True), "min": _extreme(np.minimum), "max": _extreme(np.maximum),
    "abs": _sign(np.abs), "neg": _sign(np.negative), "popc": _count, "clz": _count, "bfind": _find, "brev": _reverse,
    "bfe": _extract, "bfi": _insert, "and": _logic(np.bitwise_and, np.logical_and), "or": _logic(np.bitwise_or, np.logical_or),
    "xor": _logic(np.bitwise_xor, np.logical_xor), "not": _not, "shl": _shift(np.left_shift), "shr": _shift(np.right_shift),
    "shf": _funnel, "prmt": _permute, "lop3": _table3, "mov": _move, "selp": _select, "setp": compare,
}  # fmt: skip
