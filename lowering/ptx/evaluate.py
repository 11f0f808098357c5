"""Runs straight-line PTX with NumPy: the definition of what inline assembly computes.

A register is an array of uint64 that holds its bits, one element per run of the text, or of bool for predicates. Registers that
were never written hold a conspicuous pattern. This module has the driver and the integers, `evaluate_floats` the floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UnsupportedError
from .effects import Access, GridControl
from .evaluate_floats import FLOAT_HANDLERS, compare_floats, convert
from .instructions import FLOATS, WIDTHS, Decoded
from .syntax import Float, Integer, Operand, Pair, Register, Sink, Special, Vector

State = dict[str, Array]

_POISON = 0x5A5A5A5A5A5A5A5A
_CARRY = "CC.CF"


class Surroundings(Protocol):
    """What inline assembly reaches beyond its registers."""

    def special(self, name: str) -> int:
        """Returns what a special register holds now."""

    def access(self, d: Access, addresses: Array, values: Sequence[Array], where: Array | None) -> Sequence[Array]:
        """Carries out an access, for the runs in `where`; returns the bits that each result gets.

        addresses: int64. values: bits of the sources.
        """


def mask(width: int) -> np.uint64:
    return np.uint64((1 << width) - 1)


def signed(x: Array, width: int) -> Array:
    """Returns the bits as signed numbers of `width` bits, int64."""
    shift = np.uint64(64 - width)
    return np.asarray(x << shift).view(np.int64) >> np.int64(64 - width)


def number(x: Array, type_: str) -> Array:
    """Returns the bits as Python integers, exact at any width: dtype object."""
    width = WIDTHS[type_]
    return np.asarray(signed(x, width) if type_[0] == "s" else x & mask(width)).astype(object)


def bits(x: Array, width: int) -> Array:
    """Returns the low `width` bits of integers (also of dtype object) as uint64."""
    return np.asarray(x & ((1 << width) - 1)).astype(np.uint64) if x.dtype == object else x.astype(np.uint64) & mask(width)


def run(
    instructions: Sequence[Decoded | Access | GridControl], registers: Mapping[str, str], inputs: Mapping[str, Array],
    count: int, surroundings: Surroundings,
) -> State:  # fmt: skip
    """Runs the instructions for `count` elements and returns every register that was written or given.

    Args:
        instructions: decoded, in order.
        registers: the type of every register.
        inputs: bits of the registers that hold something at the start.
    """
    state: State = dict(inputs)
    machine = _Machine(state, registers, count, surroundings)
    with np.errstate(all="ignore"):
        for instruction in instructions:
            machine.step(instruction)
    return state


class _Machine:
    def __init__(self, state: State, registers: Mapping[str, str], count: int, surroundings: Surroundings) -> None:
        self.state = state
        self.registers = registers
        self.count = count
        self.surroundings = surroundings

    def read(self, name: str) -> Array:
        found = self.state.get(name)
        if found is None:
            type_ = self.registers[name]
            bits_ = np.full(self.count, _POISON, np.uint64) & mask(min(64, WIDTHS[type_]))
            found = np.ones(self.count, np.bool_) if type_ == "pred" else bits_
            self.state[name] = found
        return found

    def source(self, operand: Operand, type_: str) -> Array:
        match operand:
            case Register(name, negated):
                value = self.read(name)
                if type_ == "pred":
                    return ~value if negated else value
                return value & mask(min(64, WIDTHS[type_]))
            case Integer(value):
                if type_ == "pred":
                    return np.full(self.count, value != 0)
                return np.full(self.count, value & ((1 << WIDTHS[type_]) - 1), np.uint64)
            case Float(encoded, width):
                if width == 64 and type_ == "f32":
                    double = np.frombuffer(encoded.to_bytes(8, "little"), np.float64)
                    encoded = int(double.astype(np.float32).view(np.uint32)[0])
                return np.full(self.count, encoded, np.uint64)
            case Vector(elements):
                width = WIDTHS[type_] // len(elements)
                total = np.zeros(self.count, np.uint64)
                for index, element in enumerate(elements):
                    total |= self.source(element, f"b{width}") << np.uint64(width * index)
                return total
            case Special(name):
                return np.full(self.count, self.surroundings.special(name) & ((1 << WIDTHS[type_]) - 1), np.uint64)
        raise UnsupportedError(f"PTX operand {operand}")

    def write(self, operand: Operand, value: Array, type_: str, where: Array | None) -> None:
        match operand:
            case Register(name):
                declared = self.registers[name]
                if declared != "pred":
                    value = value & mask(WIDTHS[type_])
                    if WIDTHS[declared] > WIDTHS[type_] and type_[0] == "s":  # cvt extends by the destination's sign
                        value = signed(value, WIDTHS[type_]).astype(np.uint64) & mask(WIDTHS[declared])
                self.state[name] = value if where is None else np.where(where, value, self.read(name))
            case Vector(elements):
                width = WIDTHS[type_] // len(elements)
                for index, element in enumerate(elements):
                    self.write(element, value >> np.uint64(width * index), f"b{width}", where)
            case Sink():
                pass

    def step(self, d: Decoded | Access | GridControl) -> None:
        if isinstance(d, GridControl):  # launches run one after the other
            return
        where = None
        if d.guard is not None:
            where = self.read(d.guard.name)
            where = ~where if d.guard.negated else where
        if isinstance(d, Access):
            self.access(d, where)
            return
        sources = [self.source(o, type_) for o, type_ in zip(d.sources, d.source_types, strict=True)]
        results = self.compute(d, sources)
        for operand, value, type_ in zip(d.results, results, d.result_types, strict=False):
            if isinstance(operand, Pair):
                self.write(operand.first, value, type_, where)
                self.write(operand.second, results[1], type_, where)
            else:
                self.write(operand, value, type_, where)
        if len(results) == 3:
            carry = results[2]
            self.state[_CARRY] = carry if where is None else np.where(where, carry, self.carry())

    def access(self, d: Access, where: Array | None) -> None:
        addresses = (self.source(d.address, "b64") + np.uint64(d.offset & ((1 << 64) - 1))).view(np.int64)
        values = [self.source(operand, d.type) for operand in d.sources]
        results = self.surroundings.access(d, addresses, values, where)
        for operand, value in zip(d.results, results, strict=False):
            self.write(operand, value, d.type, where)

    def carry(self) -> Array:
        return self.state.setdefault(_CARRY, np.zeros(self.count, np.bool_))

    def compute(self, d: Decoded, sources: list[Array]) -> list[Array]:
        chained = "cc" in d.flags or d.opcode in ("addc", "subc", "madc")
        return compute(d, sources, self.carry() if chained else None)


def compute(d: Decoded, sources: list[Array], carry: Array | None = None) -> list[Array]:
    """Computes the results of any kind of instruction in the table.

    A carry chain takes the carry flag and, with `.cc`, gives the result twice and the new flag; setp gives both predicates.
    """
    if "cc" in d.flags or d.opcode in ("addc", "subc", "madc"):
        return _chained(d, sources, np.zeros(sources[0].shape, np.bool_) if carry is None else carry)
    if d.opcode in ("setp", "set"):
        return _compare(d, sources)
    if d.opcode == "cvt":
        return [_pack(d, sources) if "pack" in d.flags else convert(d, sources)]
    if d.types and d.types[0] in FLOATS and d.opcode in FLOAT_HANDLERS:
        return [FLOAT_HANDLERS[d.opcode](d, sources)]
    if d.opcode == "testp":
        return [FLOAT_HANDLERS["testp"](d, sources)]
    return [HANDLERS[d.opcode](d, *sources)]


def _chained(d: Decoded, sources: list[Array], carry_in: Array) -> list[Array]:
    type_ = d.types[0]
    width = WIDTHS[type_]
    carry = carry_in.astype(object) if d.opcode.endswith("c") else 0
    a = sources[0].astype(object)
    if d.opcode.startswith("mad"):
        product = number(sources[0], type_) * number(sources[1], type_)
        a = (product >> width if "hi" in d.flags else product) & ((1 << width) - 1)
        total = a + sources[2].astype(object) + carry
    elif d.opcode.startswith("add"):
        total = a + sources[1].astype(object) + carry
    else:
        total = a - sources[1].astype(object) - carry
    result = bits(np.asarray(total), width)
    if "cc" not in d.flags:
        return [result]
    return [result, result, np.asarray((total < 0) | (total >> width > 0), np.bool_)]


# -- comparisons


def _compare(d: Decoded, sources: list[Array]) -> list[Array]:
    type_ = d.types[-1]
    if type_.endswith("x2"):
        half = np.uint64(16)
        parts = [[s & mask(16) for s in sources[:2]], [s >> half for s in sources[:2]]]
        low, high = (_relation(d, type_[:-2], *part) for part in parts)
        if d.opcode == "setp":
            return [_combined(d, low, sources), _combined(d, high, sources)]
        ones = np.uint64({"f16x2": 0x3C00, "bf16x2": 0x3F80}[d.types[0]])
        chosen = [np.where(_combined(d, part, sources), ones, np.uint64(0)) for part in (low, high)]
        return [chosen[0] | (chosen[1] << half)]
    found = _relation(d, type_, sources[0], sources[1])
    if d.opcode == "setp":
        return [_combined(d, found, sources), _combined(d, ~found, sources)]
    true = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(d.types[0], (1 << WIDTHS[d.types[0]]) - 1)
    return [np.where(_combined(d, found, sources), np.uint64(true), np.uint64(0))]


def _combined(d: Decoded, found: Array, sources: list[Array]) -> Array:
    if len(sources) < 3:
        return found
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[d.choice("and", "or", "xor")]
    return np.asarray(function(found, sources[2]))


def _relation(d: Decoded, type_: str, a: Array, b: Array) -> Array:
    if type_ in FLOATS:
        return compare_floats(d, type_, a, b)
    name = d.choice("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
    width = WIDTHS[type_]
    if type_[0] == "s" and name not in ("lo", "ls", "hi", "hs"):
        a, b = signed(a, width), signed(b, width)
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    return np.asarray(functions[name](a, b))


# -- integers; every handler takes (decoded, *bits) and gives bits


def _clamped(x: Array, low: int, high: int) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _range(type_: str) -> tuple[int, int]:
    width = WIDTHS[type_]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if type_[0] == "s" else (0, (1 << width) - 1)


def _halves(function: Callable[..., Array]) -> Callable[..., Array]:
    """Applies the function to both 16-bit halves of `u16x2` and `s16x2`."""

    def apply(d: Decoded, *xs: Array) -> Array:
        if not d.types[0].endswith("x2"):
            return function(d, d.types[0], *xs)
        type_ = d.types[0][:-2]
        low = function(d, type_, *[x & mask(16) for x in xs]) & mask(16)
        high = function(d, type_, *[x >> np.uint64(16) for x in xs]) & mask(16)
        return np.asarray(low | (high << np.uint64(16)))

    return apply


def _add(d: Decoded, type_: str, a: Array, b: Array) -> Array:
    if "sat" in d.flags:
        return bits(_clamped(number(a, type_) + number(b, type_), *_range(type_)), WIDTHS[type_])
    return a + b


def _sub(d: Decoded, type_: str, a: Array, b: Array) -> Array:
    if "sat" in d.flags:
        return bits(_clamped(number(a, type_) - number(b, type_), *_range(type_)), WIDTHS[type_])
    return a - b


def _choose(pick: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(d: Decoded, type_: str, a: Array, b: Array) -> Array:
        chosen = pick(number(a, type_), number(b, type_))
        return bits(np.maximum(chosen, 0) if "relu" in d.flags else chosen, WIDTHS[type_])

    return apply


def _product(d: Decoded, a: Array, b: Array) -> Array:
    type_ = d.types[0]
    product = number(a, type_) * number(b, type_)
    return product >> WIDTHS[type_] if "hi" in d.flags else product


def _mul(d: Decoded, a: Array, b: Array) -> Array:
    return bits(np.asarray(_product(d, a, b)), WIDTHS[d.result_types[0]])


def _mad(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    total = _product(d, a, b) + number(c, d.source_types[2])
    if "sat" in d.flags:
        total = _clamped(total, *_range("s32"))
    return bits(np.asarray(total), WIDTHS[d.result_types[0]])


def _product24(d: Decoded, a: Array, b: Array) -> Array:
    a, b = a & mask(24), b & mask(24)
    x, y = (signed(a, 24), signed(b, 24)) if d.types[0] == "s32" else (a, b)
    product = x.astype(object) * y.astype(object)
    product = product >> 16 if "hi" in d.flags else product
    found: Array = product & 0xFFFFFFFF
    return found


def _mad24(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    product = bits(np.asarray(_product24(d, a, b)), 32)
    if "sat" in d.flags:
        return bits(_clamped(number(product, "s32") + number(c, "s32"), *_range("s32")), 32)
    return product + c


def _sad(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    type_ = d.types[0]
    return bits(np.asarray(abs(number(a, type_) - number(b, type_)) + c.astype(object)), WIDTHS[type_])


def _divide(remainder: bool) -> Callable[..., Array]:
    """Makes the handler of truncating division.

    By zero the quotient is all ones and the remainder the dividend; PTX defines neither.
    """

    def one(x: int, y: int) -> int:
        if y == 0:
            return x if remainder else -1
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return x - quotient * y if remainder else quotient

    function = np.frompyfunc(one, 2, 1)

    def apply(d: Decoded, a: Array, b: Array) -> Array:
        type_ = d.types[0]
        return bits(np.asarray(function(number(a, type_), number(b, type_)), object), WIDTHS[type_])

    return apply


def _bitwise(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda d, a, b: np.asarray(function(a, b))


def _not(d: Decoded, a: Array) -> Array:
    return np.asarray(~a)


def _leading(d: Decoded, a: Array) -> Array:
    width = WIDTHS[d.types[0]]
    return np.array([width - int(x).bit_length() for x in a], np.uint64)


def _find(d: Decoded, a: Array) -> Array:
    width = WIDTHS[d.types[0]]
    x = np.where(signed(a, width) < 0, ~a & mask(width), a) if d.types[0][0] == "s" else a
    position = np.array([int(v).bit_length() - 1 for v in x], np.int64)
    if "shiftamt" in d.flags:
        position = np.where(position < 0, position, width - 1 - position)
    return position.astype(np.uint64) & mask(32)


def _reverse(d: Decoded, a: Array) -> Array:
    width = WIDTHS[d.types[0]]
    return np.array([int(f"{int(x):0{width}b}"[::-1], 2) for x in a], np.uint64)


def _extract(d: Decoded, a: Array, position: Array, length: Array) -> Array:
    width = WIDTHS[d.types[0]]

    def one(x: int, at: int, size: int) -> int:
        at, size = at & 255, size & 255
        if size == 0:
            return 0
        field = (x >> at) & ((1 << min(size, 256)) - 1)
        if d.types[0][0] == "s" and x >> min(at + size - 1, width - 1) & 1:
            kept = max(0, min(size, width - at))
            field |= ~((1 << kept) - 1)
        return field & ((1 << width) - 1)

    return np.array([one(int(x), int(p), int(n)) for x, p, n in zip(a, position, length, strict=True)], np.uint64)


def _insert(d: Decoded, a: Array, b: Array, position: Array, length: Array) -> Array:
    width = WIDTHS[d.types[0]]

    def one(x: int, y: int, at: int, size: int) -> int:
        field = (((1 << (size & 255)) - 1) << (at & 255)) & ((1 << width) - 1)
        return (y & ~field) | (x << (at & 255) & field)

    lanes = zip(a, b, position, length, strict=True)
    return np.array([one(int(x), int(y), int(p), int(n)) for x, y, p, n in lanes], np.uint64)


def _bit_mask(d: Decoded, a: Array, b: Array) -> Array:
    def one(at: int, size: int) -> int:
        at, size = (at & 31, size & 31) if "wrap" in d.flags else (min(at, 32), min(size, 32))
        return (((1 << size) - 1) << at) & 0xFFFFFFFF

    return np.array([one(int(x), int(y)) for x, y in zip(a, b, strict=True)], np.uint64)


def _sign_zero_extend(d: Decoded, a: Array, b: Array) -> Array:
    def one(x: int, size: int) -> int:
        size = size & 31 if "wrap" in d.flags else min(size, 32)
        low = x & ((1 << size) - 1)
        if d.types[0] == "s32" and size and low >> (size - 1) & 1:
            low |= ~((1 << size) - 1)
        return low & 0xFFFFFFFF

    return np.array([one(int(x), int(y)) for x, y in zip(a, b, strict=True)], np.uint64)


def _dot(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    """Computes dp4a and dp2a: the products of bytes, or of two halves with two bytes, added to c."""
    total = c.astype(object)
    size, count = (8, 4) if d.opcode == "dp4a" else (16, 2)
    offset = 16 if "hi" in d.flags else 0
    for index in range(count):
        x = a >> np.uint64(size * index) & mask(size)
        y = b >> np.uint64(8 * index + offset) & mask(8)
        left = signed(x, size) if d.types[0][0] == "s" else x
        right = signed(y, 8) if d.types[1][0] == "s" else y
        total = total + left.astype(object) * right.astype(object)
    return bits(np.asarray(total), 32)


def _lop3(d: Decoded, a: Array, b: Array, c: Array, table: Array) -> Array:
    total = np.zeros_like(a)
    for index in range(8):
        term = (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        total |= np.where(table >> np.uint64(index) & np.uint64(1), term, np.uint64(0))
    return total & mask(32)


def _shift_left(d: Decoded, a: Array, n: Array) -> Array:
    width = WIDTHS[d.types[0]]
    return np.where(n >= width, np.uint64(0), a << np.minimum(n, np.uint64(width - 1)))


def _shift_right(d: Decoded, a: Array, n: Array) -> Array:
    width = WIDTHS[d.types[0]]
    if d.types[0][0] == "s":
        return np.asarray((signed(a, width) >> np.minimum(n, np.uint64(width - 1)).astype(np.int64)).astype(np.uint64))
    return np.where(n >= width, np.uint64(0), a >> np.minimum(n, np.uint64(width - 1)))


def _funnel(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    amount = c & np.uint64(31) if "wrap" in d.flags else np.minimum(c, np.uint64(32))
    pair = (b << np.uint64(32)) | a
    if "l" in d.flags:
        return np.where(amount == 32, a, (pair << (amount & np.uint64(31))) >> np.uint64(32))
    return np.where(amount == 32, b, pair >> (amount & np.uint64(31))) & mask(32)


def _permute(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    mode = d.choice("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")

    def one(low: int, high: int, selector: int) -> int:
        source = low | high << 32
        n = selector & 3
        selectors = {
            "f4e": [n + i for i in range(4)], "b4e": [(n - i) % 8 for i in range(4)], "rc8": [n] * 4,
            "ecl": [max(i, n) for i in range(4)], "ecr": [min(i, n) for i in range(4)],
            "rc16": [(n & 1) * 2 + (i & 1) for i in range(4)],
        }.get(mode) or [selector >> (4 * i) & 15 for i in range(4)]  # fmt: skip
        total = 0
        for i, position in enumerate(selectors):
            byte = source >> (8 * (position & 7)) & 255
            if not mode and position & 8:
                byte = 255 if byte & 128 else 0
            total |= byte << (8 * i)
        return total

    return np.array([one(int(x), int(y), int(z)) for x, y, z in zip(a, b, c, strict=True)], np.uint64)


def _select(d: Decoded, a: Array, b: Array, p: Array) -> Array:
    return np.where(p, a, b)


def _slct(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    if d.types[1] == "s32":
        return np.where(signed(c, 32) >= 0, a, b)
    return np.where(c.astype(np.uint32).view(np.float32) >= 0, a, b)


def _absolute(d: Decoded, a: Array) -> Array:
    x = signed(a, WIDTHS[d.types[0]])
    return np.where(x < 0, -x, x).astype(np.uint64)


def _pack(d: Decoded, sources: list[Array]) -> Array:
    """Computes cvt.pack: a above b, saturated; the third source above both."""
    width = WIDTHS[d.types[0]]
    low, high = _range(d.types[0])
    a, b = (bits(_clamped(number(x, "s32"), low, high), width) for x in sources[:2])
    packed = a << np.uint64(width) | b
    return packed | sources[2] << np.uint64(2 * width) if len(sources) == 3 else packed


def _video(d: Decoded, a: Array, b: Array, c: Array) -> Array:
    """Computes on lanes of 8 or 16 bits, each operand with its own sign.

    `.add` sums the lanes onto c; otherwise every lane is written.
    """
    count = int(d.opcode[-1])
    width = 32 // count
    result_type, a_type, b_type = d.types
    letter = result_type[0]
    low, high = _range(f"{letter}{width}")
    total = c.astype(object) if "add" in d.flags else np.zeros(a.shape, object)
    for lane in range(count):
        parts = [(v >> np.uint64(width * lane) & mask(width), type_) for v, type_ in ((a, a_type), (b, b_type))]
        x, y = ((signed(v, width) if type_[0] == "s" else v).astype(object) for v, type_ in parts)
        match d.opcode[:-1]:
            case "vadd":
                value = x + y
            case "vsub":
                value = x - y
            case "vavrg":
                value = x + y
                value = (value + np.where(value >= 0, 1, 0)) >> 1
            case "vabsdiff":
                value = abs(x - y)
            case "vmin":
                value = np.minimum(x, y)
            case _:
                value = np.maximum(x, y)
        if "add" in d.flags:
            total = total + value
            continue
        if "sat" in d.flags:
            value = _clamped(value, low, high)
        total = total | (value & ((1 << width) - 1)) << (width * lane)
    return bits(np.asarray(total), 32)


HANDLERS: dict[str, Callable[..., Array]] = {
    "add": _halves(_add), "sub": _halves(_sub), "min": _halves(_choose(np.minimum)), "max": _halves(_choose(np.maximum)),
    "mul": _mul, "mad": _mad, "mul24": lambda d, a, b: bits(np.asarray(_product24(d, a, b)), 32), "mad24": _mad24, "sad": _sad,
    "div": _divide(False), "rem": _divide(True), "abs": _absolute, "neg": lambda d, a: np.uint64(0) - a,
    "popc": lambda d, a: np.bitwise_count(a).astype(np.uint64), "clz": _leading, "bfind": _find, "brev": _reverse,
    "bfe": _extract, "bfi": _insert, "bmsk": _bit_mask, "szext": _sign_zero_extend, "dp4a": _dot, "dp2a": _dot,
    "and": _bitwise(np.bitwise_and), "or": _bitwise(np.bitwise_or), "xor": _bitwise(np.bitwise_xor), "not": _not,
    "cnot": lambda d, a: (a == 0).astype(np.uint64), "lop3": _lop3, "shl": _shift_left, "shr": _shift_right, "shf": _funnel,
    "prmt": _permute, "mov": lambda d, a: a, "selp": _select, "slct": _slct,
    **{f"{name}{count}": _video for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax") for count in (2, 4)},
}  # fmt: skip
