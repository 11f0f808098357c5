"""Picks elements of a short block that registers hold: one instruction picks from two of them, then selections do.

    table    64 bytes   64 bytes   64 bytes   64 bytes
                └────┬─────┘          └────┬─────┘
     low bits:   vpermt2b               vpermt2b            for 64 bytes at a time
                     └──────────┬──────────┘
     bit 7:                 selection

A gather accesses memory once for each element, about one in a cycle, and there is none for bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...elementwise import register_element
from ...ir import Function
from ...values import V, bits, const, element, lanes, vector, zero
from ..nodes import Map

LOOK_UP = "joinery.look_up"
"""Operand: positions, unsigned integers. table: registers of integers as wide as the elements; count: how many elements;
positions beyond are that of the last one."""
REGISTER = 64
"""Bytes of a register."""
_SUFFIXES = {1: "qi", 2: "hi", 4: "", 8: ""}
_ONE, _TWO = {4: "si", 8: "di"}, {4: "d", 8: "q"}


def looked_up(f: Function, node: Map, positions: V) -> V:
    """Emits the elements at positions: a vector, or a number."""
    table: Sequence[V] = node.attrs["table"]
    count: int = node.attrs["count"]
    item = element(table[0].type)
    width, n = bits(item), lanes(positions.type)
    room = REGISTER * 8 // width
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
