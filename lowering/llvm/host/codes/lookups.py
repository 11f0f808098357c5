"""Picks elements of a short block that registers hold: one instruction picks from two of them, then selections do.

    table    64 bytes   64 bytes   64 bytes   64 bytes
                └────┬─────┘          └────┬─────┘
     low bits:   vpermt2b               vpermt2b            for 64 bytes at a time
                     └──────────┬──────────┘
     bit 7:                 selection

A gather accesses memory once for each element, about one in a cycle, and there is none for bytes. With AVX2 an instruction
picks from 16 bytes (`vpshufb`) or 8 elements of 4 (`vpermd`), and more selections do.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...elementwise import register_element
from ...ir import Function
from ...values import V, bits, const, element, lanes, vector, zero
from ..nodes import Map

LOOK_UP = "joinery.look_up"
"""Operand: positions, unsigned integers. table: registers of integers as wide as the elements; count: how many elements;
positions beyond are that of the last one. register: bytes of a register."""
LANE = 16
_SUFFIXES = {1: "qi", 2: "hi", 4: "", 8: ""}
_ONE, _TWO = {4: "si", 8: "di"}, {4: "d", 8: "q"}


def picked_bytes(register: int, size: int) -> int:
    """Returns the bytes of a part of a table from which one instruction picks elements of `size` bytes, of a register."""
    return LANE if register < 64 and size == 1 else register


def looked_up(f: Function, node: Map, positions: V) -> V:
    """Emits the elements at positions: a vector, or a number."""
    table: Sequence[V] = node.attrs["table"]
    count: int = node.attrs["count"]
    item = element(table[0].type)
    width, n = bits(item), lanes(positions.type)
    register: int = node.attrs["register"]
    room = register * 8 // width
    if 1 << bits(element(positions.type)) > count:
        positions = f.intrinsic("umin", [positions, const(count - 1, positions.type)])
    own = bits(element(positions.type))
    if own != width:
        positions = f.cast("zext" if own < width else "trunc", positions, item if n == 1 else vector(item, n))
    target = register_element(node.elem)
    if n == 1:
        return f.bitcast(f.extract(_picked(f, table, f.splat(positions, room)), 0), target)
    parts = []
    for first in range(0, n, room):
        here = min(room, n - first)
        part = positions if here == n == room else f.shuffle(
            positions, positions, [first + lane if lane < here else -1 for lane in range(room)]
        )
        parts.append(_picked(f, table, part))
    result = f.concatenated(parts)
    if lanes(result.type) > n:
        result = f.shuffle(result, result, range(n))
    return f.bitcast(result, vector(target, n))


def _picked(f: Function, table: Sequence[V], positions: V) -> V:
    """Returns a register of the elements at a register of positions."""
    item, room = element(positions.type), lanes(positions.type)
    size = bits(item) // 8
    if room * size < 64:
        return _picked_from_parts(f, table, positions)
    if len(table) == 1:
        only = table[0]
        if lanes(only.type) < room:
            only = f.shuffle(only, only, [lane if lane < lanes(only.type) else -1 for lane in range(room)])
        suffix = _SUFFIXES[size] or _ONE[size]
        return f.target_intrinsic(f"llvm.x86.avx512.permvar.{suffix}.512", [only, positions], positions.type)
    suffix = _SUFFIXES[size] or _TWO[size]
    name = f"llvm.x86.avx512.vpermi2var.{suffix}.512"
    found = [
        f.target_intrinsic(name, [one, positions, other], positions.type)
        for one, other in zip(table[::2], table[1::2], strict=True)
    ]
    bit = 2 * room
    while len(found) > 1:
        high = f.icmp("ne", f.binary("and", positions, const(bit, positions.type)), zero(positions.type))
        found = [f.select(high, above, below) for below, above in zip(found[::2], found[1::2], strict=True)]
        bit *= 2
    return found[0]


def _picked_from_parts(f: Function, table: Sequence[V], positions: V) -> V:
    """Returns a register of the elements at a register of positions, picked from each part of a table by itself."""
    item, room = element(positions.type), lanes(positions.type)
    width = bits(item)
    each, name = (LANE, "pshuf.b") if width == 8 else (room, "permd")
    low = f.binary("and", positions, const(each - 1, positions.type)) if width == 8 else positions
    found = []
    for part in table:
        whole = f.shuffle(part, part, [lane % each if lane % each < lanes(part.type) else -1 for lane in range(room)])
        operands = [whole, low]
        found.append(f.target_intrinsic(f"llvm.x86.avx2.{name}", operands, positions.type))
    bit = each.bit_length() - 1
    while len(found) > 1:
        sign = f.binary("shl", positions, const(width - 1 - bit, positions.type))
        is_high = f.icmp("slt", sign, zero(positions.type))
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [f.select(is_high, above, below) for below, above in pairs] + ([found[-1]] if len(found) % 2 else [])
        bit += 1
    return found[0]
