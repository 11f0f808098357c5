"""Computes, at level 2, which bytes of an arithmetic result are undefined, given which bytes of its sources are.

Compilers move halves of registers that were never written together with halves that matter, so the shadow of a register has
a bit per byte. Moves, logic, shifts, permutations, conversions and packed arithmetic keep bytes or halves apart; the results
of all other instructions are undefined as a whole if any byte of a source is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....lowering.ptx.instructions import WIDTHS, Decoded
from ....lowering.ptx.syntax import Integer, Operand, Register, Vector
from ....promotion.arrays import Array
from ..core.binding import Binding

Bits = Callable[[], Array]
"""Returns, per lane, the undefined bytes as bits of uint8; all ones for an undefined predicate."""

ALL = np.uint8(0xFF)
_NONE: Array = np.zeros((), np.uint8)
_VIDEO = frozenset(
    f"v{name}{count}" for name in ("add", "sub", "avrg", "absdiff", "min", "max") for count in (2, 4)
)
_BYTEWISE = frozenset(["and", "or", "xor", "not", "lop3", "mov"])


def whole(bits: Array, width: int = 64) -> Array:
    """Returns all bytes of a width where any bit is set."""
    return np.where(np.asarray(bits) != 0, np.uint8(_full(width)), _NONE)


def _full(width: int) -> int:
    return 0xFF if width < 8 else (1 << (width // 8)) - 1


class Sources:
    """The shadows of an instruction's sources."""

    def __init__(self, k: Binding, operands: tuple[Operand, ...], types: tuple[str, ...]) -> None:
        self.bits = [self._of(k, o, t) for o, t in zip(operands, types, strict=True)]

    @staticmethod
    def _of(k: Binding, operand: Operand, type_: str) -> Bits:
        if isinstance(operand, Register):
            row = k.undefined(Register(operand.name))
            limit = np.uint8(_full(WIDTHS[type_]))
            return lambda: row() & limit
        if isinstance(operand, Vector):
            each = WIDTHS[type_] // len(operand.elements)
            parts = [Sources._of(k, element, f"b{each}") for element in operand.elements]

            def joined() -> Array:
                total: Array = _NONE
                for index, part in enumerate(parts):
                    total = total | (part() << np.uint8(index * each // 8))
                return total

            return joined
        return lambda: _NONE

    def any(self) -> Array:
        total: Array = _NONE
        for bits in self.bits:
            total = total | whole(bits())
        return total


def result_bits(k: Binding, d: Decoded) -> Bits:
    """Returns the undefined bytes of the (first) result."""
    sources = Sources(k, d.sources, d.source_types)
    s = sources.bits
    width = WIDTHS[d.result_types[0]]
    if d.opcode in _BYTEWISE and d.types[0] != "pred":
        return _bytewise(d, s)
    if d.opcode == "cvt":
        found = _conversion(d, s)
        if found is not None:
            return found
    amount = d.sources[1] if len(d.sources) > 1 else None
    if d.opcode in ("shl", "shr") and isinstance(amount, Integer) and 0 <= amount.value < width:
        return _shifted(d.opcode == "shl", d.types[0], width, amount.value, s[0])
    if d.opcode == "prmt" and isinstance(d.sources[2], Integer) and not d.flags:
        return _permuted(d.sources[2].value, s[0], s[1])
    if d.opcode == "bfe" and isinstance(amount, Integer) and isinstance(d.sources[2], Integer):
        low, high = amount.value // 8, (amount.value + max(d.sources[2].value, 1) - 1) // 8
        field = np.uint8(sum(1 << b for b in range(low, min(high, 7) + 1)))
        return lambda: whole(s[0]() & field)
    if d.types and d.types[0].endswith("x2") and width == 32 and d.opcode not in ("set", "setp"):
        return lambda: _halves(s)
    if d.opcode in _VIDEO and "add" not in d.flags:
        return lambda: _halves(s) if d.opcode.endswith("2") else s[0]() | s[1]()
    return sources.any


def _halves(s: list[Bits]) -> Array:
    total: Array = _NONE
    for bits in s:
        total = total | bits()
    low, high = whole(total & np.uint8(3), 16), whole(total & np.uint8(12), 16)
    both: Array = low | (high << np.uint8(2))
    return both


def _bytewise(d: Decoded, s: list[Bits]) -> Bits:
    keep = 0xFF
    if d.opcode in ("and", "or"):
        for operand in d.sources:
            if isinstance(operand, Integer):  # bytes that the literal decides are defined
                deciding = 0 if d.opcode == "and" else 0xFF
                keep &= sum(1 << b for b in range(8) if operand.value >> (8 * b) & 0xFF != deciding)
    if d.opcode == "lop3":
        s = s[:3]
    kept = np.uint8(keep)

    def combined() -> Array:
        total: Array = _NONE
        for bits in s:
            total = total | bits()
        return total & kept

    return combined


def _shifted(left: bool, type_: str, width: int, amount: int, bits: Bits) -> Bits:
    k, rest = np.uint8(amount // 8), amount % 8
    limit, top = np.uint8(_full(width)), np.uint8(1 << (width // 8 - 1))
    fill = np.uint8(_full(width) & ~(_full(width) >> int(k)) & 0xFF)

    def value() -> Array:
        own = bits()
        if left:
            found = own << k
            return (found | (found << np.uint8(1)) if rest else found) & limit
        found = own >> k
        found = found | (found >> np.uint8(1)) if rest else found
        if type_[0] == "s":
            found = np.where(np.asarray(own & top) != 0, found | fill, found)
        return found

    return value


def _permuted(selector: int, low: Bits, high: Bits) -> Bits:
    offsets = [selector >> (4 * i) & 7 for i in range(4)]

    def value() -> Array:
        both = low() | (high() << np.uint8(4))
        total: Array = _NONE
        for index, offset in enumerate(offsets):
            total = total | (((both >> np.uint8(offset)) & np.uint8(1)) << np.uint8(index))
        return total

    return value


def _conversion(d: Decoded, s: list[Bits]) -> Bits | None:
    target, source = d.types[0], d.types[1]
    if "pack" in d.flags:
        return None
    if target.endswith("x2"):
        each = WIDTHS[target] // 2
        up = np.uint8(each // 8)
        if len(s) == 2:
            return lambda: whole(s[1](), each) | (whole(s[0](), each) << up)
        half = np.uint8(WIDTHS[source] // 16)
        mask = np.uint8(_full(WIDTHS[source] // 2))
        return lambda: whole(s[0]() & mask, each) | (whole(s[0]() >> half, each) << up)
    if target[0] in "us" and source[0] in "us" and "sat" not in d.flags:
        wide, narrow = _full(WIDTHS[target]), _full(WIDTHS[source])
        extension, top = np.uint8(wide & ~narrow), np.uint8(1 << (WIDTHS[source] // 8 - 1))
        kept = np.uint8(wide & narrow)
        if source[0] == "u":
            return lambda: s[0]() & kept
        return lambda: np.where((s[0]() & top) != 0, (s[0]() & kept) | extension, s[0]() & kept)
    return None


def targets_of(d: Decoded) -> list[tuple[str, int, int]]:
    """Lists the registers of a result: (name, first byte of the result, bytes)."""
    found = []
    for operand, type_ in zip(d.results, d.result_types, strict=True):
        if isinstance(operand, Register):
            found.append((operand.name, 0, max(WIDTHS[type_] // 8, 1)))
        elif isinstance(operand, Vector):
            each = WIDTHS[type_] // len(operand.elements) // 8
            found += [
                (o.name, index * each, each)
                for index, o in enumerate(operand.elements)
                if isinstance(o, Register)
            ]
        else:
            pair = (getattr(operand, "first", None), getattr(operand, "second", None))
            found += [(o.name, 0, 1) for o in pair if isinstance(o, Register)]
    return found


def as_bits(value: Array) -> Array:
    """Converts a shadow given as booleans to bits; returns others as they are."""
    return np.where(value, ALL, _NONE) if value.dtype == np.bool_ else value
