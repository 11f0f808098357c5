"""Moves operands of matrix instructions through shared memory with ldmatrix.

The block is stored in rows of 16-byte chunks that are swizzled as TMA and wgmma do it, by wide stores; ldmatrix then fetches
four 8x8 matrices at a time in the registers that mma.sync takes. Both are free of bank conflicts.

Source: NVIDIA, "PTX ISA", "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Sequence

from .....promotion.dataclass import dataclass
from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate, to_unique
from ....linear_layouts.matching import MatrixAccess, match_matrix, offsets, vector_accesses, vector_elements
from ....linear_layouts.shared import matrix_swizzled
from ...values import V
from ..context import KernelContext
from ..threads import bits_of

SWIZZLES = (128, 64, 32)
"""The bytes of a row within which chunks are swizzled."""


def _shared_layout(shape: Sequence[int], axis: int, bits: int) -> LinearLayout | None:
    """Returns the layout of a block in shared memory, contiguous along `axis`; None where no swizzle fits."""
    row = shape[axis] * bits // 8
    swizzle = next((each for each in SWIZZLES if row % each == 0 and shape[1 - axis] >= 8), None)
    return None if swizzle is None else matrix_swizzled(shape, bits, swizzle, (axis, 1 - axis))


@dataclass(frozen=True, slots=True)
class OperandLoad:
    """An operand on its way from the layout `src` to the registers of its fragment layout `dst`."""

    values: tuple[V, ...]
    elem: str
    src: LinearLayout
    dst: LinearLayout
    shared: LinearLayout
    access: MatrixAccess

    @property
    def bytes(self) -> int:
        return self.src.shape[0] * self.src.shape[1] * bits_of(self.elem) // 8

    def store(self, k: KernelContext, base: V) -> None:
        store_block(k, self.values, self.elem, self.src, self.shared, base)

    def fetch(self, k: KernelContext, base: V) -> list[V]:
        found = _fetch(k, self.access, self.elem, base)
        return [found[each] for each in to_unique(self.dst)]


def plan_operand(values: Sequence[V], elem: str, src: LinearLayout, dst: LinearLayout) -> OperandLoad | None:
    """Plans how values get to `dst`, a fragment layout; None where ldmatrix does not fit.

    The dim along which threads hold neighbours is the contiguous one.
    """
    first = next((basis for basis in src[REGISTER] if basis), None)
    if first is None or len(src.shape) != 2:
        return None
    shared = _shared_layout(src.shape, 1 if src.coordinates(first)[1] else 0, bits_of(elem))
    access = None if shared is None else _matrix_access(elem, dst, shared)
    return None if shared is None or access is None else OperandLoad(tuple(values), elem, src, dst, shared, access)


def _matrix_access(elem: str, dst: LinearLayout, shared: LinearLayout) -> MatrixAccess | None:
    bits = bits_of(elem)
    where = offsets(dst.unique_registers(), shared)
    access = match_matrix(where, bits) or match_matrix(where, bits, transposed=True)
    return None if access is None or access.count < 4 else access


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """An operand that is in shared memory already.

    axis: the dim that is contiguous there.  access: None where ldmatrix does not fit, and each element is loaded.
    """

    shape: tuple[int, ...]
    elem: str
    dst: LinearLayout
    shared: LinearLayout
    access: MatrixAccess | None
    axis: int

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * bits_of(self.elem) // 8

    def fetch(self, k: KernelContext, base: V) -> list[V]:
        if self.access is None:
            return list(read_block(k, self.elem, self.dst, self.shared, base))
        found = _fetch(k, self.access, self.elem, base)
        return [found[each] for each in to_unique(self.dst)]


def staged_operand(elem: str, axis: int, dst: LinearLayout) -> StagedOperand | None:
    """Plans an operand that is copied to shared memory asynchronously, contiguous along `axis`.

    None where ldmatrix does not fit, and elements have fewer than 32 bits, of which the fragment has several in a word.
    """
    shape = tuple(dst.shape)
    shared = _shared_layout(shape, axis, bits_of(elem))
    if shared is None:
        return None
    access = _matrix_access(elem, dst, shared)
    return None if access is None and bits_of(elem) < 32 else StagedOperand(shape, elem, dst, shared, access, axis)


def store_block(
    k: KernelContext, values: Sequence[V], elem: str, src: LinearLayout, shared: LinearLayout, base: V
) -> None:
    """Stores every element of a block once, by stores as wide as both layouts allow."""
    t, f, bits = k.t, k.f, bits_of(elem)
    where, free = offsets(src, shared), src.free_masks()
    thread = t.linear([each * bits // 8 for each in where[LANE]], [each * bits // 8 for each in where[WARP]])
    moving = 0
    for each in (*where[LANE], *where[WARP]):
        moving |= each * bits // 8
    packed = []
    for access in vector_accesses(where, bits, vector_elements(where, bits)):
        if access.registers[0] & free[REGISTER]:
            continue
        data = t.pack([t.to_bits(values[register], elem) for register in access.registers])
        packed.append((k.shared.address(base, thread, access.offset, moving), data, len(access.registers)))

    def store() -> None:
        for pointer, data, count in packed:
            f.emit(f"store {data.type} {data.operand()}, ptr addrspace(3) {pointer.operand()}, align {count * bits // 8}")

    predicate = t.predicate(ThreadPredicate(free[LANE], free[WARP]))
    if predicate is None:
        store()
    else:
        with f.when(predicate):
            store()


def read_block(k: KernelContext, elem: str, layout: LinearLayout, shared: LinearLayout, base: V) -> tuple[V, ...]:
    """Loads a block from shared memory, by loads as wide as both layouts allow."""
    t, f, bits = k.t, k.f, bits_of(elem)
    where = offsets(layout, shared)
    thread = t.linear([each * bits // 8 for each in where[LANE]], [each * bits // 8 for each in where[WARP]])
    moving = 0
    for each in (*where[LANE], *where[WARP]):
        moving |= each * bits // 8
    found: dict[int, V] = {}
    many = vector_elements(where, bits)
    width = many * bits
    type_ = f"i{width}" if width <= 32 or many == 1 else f"<{width // 32} x i32>"
    for access in vector_accesses(where, bits, many):
        pointer = k.shared.address(base, thread, access.offset, moving)
        packed = f.op(f"load {type_}, ptr addrspace(3) {pointer.operand()}, align {width // 8}", type_)
        pieces = t.unpack(packed, many, bits)
        found.update({r: t.from_bits(piece, elem) for r, piece in zip(access.registers, pieces, strict=True)})
    return tuple(found[register] for register in range(layout.size(REGISTER)))


def _fetch(k: KernelContext, access: MatrixAccess, elem: str, base: V) -> dict[int, V]:
    """Emits ldmatrix; returns the value of each register of the fragment layout."""
    t, f, bits = k.t, k.f, bits_of(elem)
    row = t.map(access.row_address)
    name = f"ldmatrix.sync.aligned.m8n8.x{access.count}{'.trans' if access.transposed else ''}.b16.p3"
    type_ = "{" + ", ".join(["i32"] * access.count) + "}"
    each = 32 // bits
    found: dict[int, V] = {}
    for part in access.accesses:
        pointer = k.shared.address(base, row, part.offset, access.row_address.thread_bits)
        got = t.call(name, [pointer], type_)
        for number in range(access.count):
            packed = f.op(f"extractvalue {type_} {got.operand()}, {number}", "i32")
            registers = part.registers[number * each : (number + 1) * each]
            pieces = t.unpack(packed, each, bits)
            found.update({r: t.from_bits(piece, elem) for r, piece in zip(registers, pieces, strict=True)})
    return found
