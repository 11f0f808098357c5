"""Multiplies 8-bit floats by mma.sync: operands are bytes in memory and in fragments, and float16 where they are multiplied.

float16 holds all their numbers, so that products and sums are as exact as those of float16. A word of a fragment has four
bytes that follow each other along k. As float16 they are two words, which go to two instructions: both operands do it in the
same way, and a sum depends on no order. sm_89 and sm_120 have instructions that take the bytes, but they keep fewer
bits of the sum than a float32 has (14 bits of its fraction): texts say whether they may be used (`maxNumImpreciseAcc`).

Sources: NVIDIA, "PTX ISA", "Matrix fragments for mma.m16n8k32", "cvt", "prmt"; Open Compute Project, "OCP 8-bit Floating Point
Specification".
"""

from __future__ import annotations

from collections.abc import Sequence

from ....linear_layouts.layout import REGISTER, LinearLayout
from ....linear_layouts.linear import table
from ...values import V, i32, zero
from ..context import KernelContext
from ..nodes import Distributed, Node, Staged
from .operand_kinds import NAMES

_BYTES = 4
_UPPER_BYTES = (0x1404, 0x3424)
"""Selectors of prmt: bytes 0 and 1, or 2 and 3, of a word as the upper bytes of two halves; the lower ones are 0."""
_SIGNS, _REST = 0x8000_8000, 0x3FFF_3FFF


def has_instruction(k: KernelContext) -> bool:
    """Whether the target has the instruction on bytes (PTX ISA 8.4).

    sm_90 has it too, but its PTX is of an older version, which serves more drivers, and wgmma takes bytes. For
    sm_100 the assembler makes products of float16 and separate additions of it.
    """
    return k.target.ptx >= 84 and (k.target.capability == 89 or k.target.capability >= 120)


def lies_along(k: KernelContext, node: Node, axis: int) -> bool:
    """Whether a block can go to its fragments as bytes, `axis` being k.

    It can if it is in shared memory for that already, or threads hold neighbours along k, or it is in no layout yet. Else bytes
    would have to change places with those of other rows, which ldmatrix does only in units of 16 bits.
    """
    if isinstance(node, Staged):
        return True
    own = k.ev.choose_layout([node])
    first = None if own is None else next((basis for basis in own[REGISTER] if basis), None)
    return own is None or (first is not None and own.coordinates(first)[axis] != 0)


def as_halves(k: KernelContext, node: Node) -> Node:
    """Converts a block to f16, in its layout."""
    own = k.ev.choose_layout([node])
    if own is None or own.size(REGISTER) % _BYTES:
        return k.ev.compute("tt.fp_to_fp", node.shape, "f16", [node], {})
    return Distributed(node.shape, "f16", own, tuple(halves(k, k.ev.at(node, own), node.elem)))


def by_instruction(layout: LinearLayout, side: str) -> tuple[LinearLayout, tuple[int, ...]]:
    """Returns the fragments of side "a" or "b" with the registers of one instruction next to each other, for ldmatrix.

    Also returns, for each of these registers, its number in `layout`.
    """
    bits = 4 if side == "a" else 3
    order = [0, *range(2, bits), 1, *range(bits, len(layout[REGISTER]))]
    bases = [layout[REGISTER][bit] for bit in order]
    return layout.with_bases(**{REGISTER: bases}), tuple(table([1 << bit for bit in order]))


def halves(k: KernelContext, values: Sequence[V], elem: str) -> list[V]:
    """Converts elements of an 8-bit type, a multiple of four, to f16."""
    t = k.t
    raw = [t.to_bits(value, elem) for value in values]
    found = []
    for start in range(0, len(raw), _BYTES):
        packed = t.pack(raw[start : start + _BYTES])
        pairs = _of_e5m2(k, packed) if elem == "f8E5M2" else _of_e4m3(k, packed)
        found += [t.from_bits(piece, "f16") for pair in pairs for piece in t.unpack(pair, 2, 16)]
    return found


def _of_e5m2(k: KernelContext, packed: V) -> list[V]:
    """Converts f8E5M2, which is the upper byte of a float16."""
    return [k.t.call("prmt", [packed, i32(0), i32(selector)], "i32") for selector in _UPPER_BYTES]


def _of_e4m3(k: KernelContext, packed: V) -> list[V]:
    """Converts f8E4M3: its bits at the positions of a float16's are the number divided by 2^8.

    0x7f would become 480, and is NaN: times 140 it is the only one that leaves the range of float16, and infinity by 0 is NaN.
    """
    f = k.f
    if k.target.capability >= 89:
        parts = [f.cast("trunc", each, "i16") for each in (packed, f.binary("lshr", packed, i32(16)))]
        return [f.bitcast(k.t.call("e4m3x2.to.f16x2.rn", [part], "<2 x half>"), "i32") for part in parts]
    found = []
    for upper in _of_e5m2(k, packed):
        signs = f.binary("and", upper, i32(_SIGNS))
        rest = f.binary("and", f.binary("lshr", upper, i32(1)), i32(_REST))
        small = f.bitcast(f.binary("or", signs, rest), "<2 x half>")
        number, huge = (f.binary("fmul", small, V(_twice(factor), "<2 x half>")) for factor in (256.0, 256.0 * 140.0))
        number = f.intrinsic("fma", [huge, zero("<2 x half>"), number])
        found.append(f.bitcast(number, "i32"))
    return found


def _twice(factor: float) -> str:
    return f"<half {factor:e}, half {factor:e}>"


def multiply_bytes(k: KernelContext, elems: Sequence[str], a: Sequence[V], b: Sequence[V], c: Sequence[V]) -> list[V]:
    """Emits mma.m16n8k32 of words of bytes, added to c."""
    number = [f"${index}" for index in range(len(c) + len(a) + len(b) + len(c))]
    ends = [len(c), len(c) + len(a), len(c) + len(a) + len(b), len(number)]
    groups = [number[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    text = f"mma.sync.aligned.m16n8k32.row.col.f32.{NAMES[elems[0]]}.{NAMES[elems[1]]}.f32 "
    text += ", ".join(f"{{{', '.join(group)}}}" for group in groups)
    constraints = ",".join([*["=f"] * len(c), *["r"] * (len(a) + len(b)), *["f"] * len(c)])
    values = ", ".join(f"{value.type} {value.operand()}" for value in (*a, *b, *c))
    type_ = "{" + ", ".join(["float"] * len(c)) + "}"
    got = k.f.op(f'call {type_} asm "{text};", "{constraints}"({values}) convergent', type_)
    return [k.f.op(f"extractvalue {type_} {got.operand()}, {index}", "float") for index in range(len(c))]
