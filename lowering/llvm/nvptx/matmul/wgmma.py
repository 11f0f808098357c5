"""Emits products by warpgroups (wgmma): four warps multiply blocks that are in shared memory; A may come from registers.

Operands have the layout there that TMA writes, rows of 128, 64 or 32 bytes whose chunks are swizzled, and matrix descriptors
give it. Elements of 16 bits may be contiguous along either dim, others along k only. All instructions of one product are one
statement of inline assembly: it starts with the fence, so that the registers that it takes have been written before, and it
ends with the commit and, unless others wait, with the wait: LLVM never sees an accumulator that is still being written.

Source: NVIDIA, "PTX ISA", "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", "Matrix-descriptor format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from .....promotion.dtype import (
    BY_MLIR_NAME,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    int8,
    tensor_float32,
)
from ....linear_layouts.distributed import (
    fragment_tiles,
    wgmma_a_fragment,
    wgmma_accumulator,
    wgmma_accumulator_fragment,
    wgmma_operand_a,
)
from ....linear_layouts.f2 import log2
from ....linear_layouts.layout import REGISTER, LinearLayout
from ....linear_layouts.shared import MatrixDescriptor, match_descriptor, matrix_swizzled
from ...syntax import attributes, element_name, shape_of
from ...values import V, const, i32, undef
from ..targets import GpuTarget
from ..threads import ALL_LANES, Threads
from .operand_kinds import SPLIT, may_be_imprecise

Registers = Sequence[V]
Fragments = Mapping[tuple[int, int], Registers]
"""The words of A in registers, four for each tile of an instruction, by its coordinate."""
GROUP = 4
"""The warps of a warpgroup."""
ROWS = 64
"""The rows of an instruction."""
MAX_COLUMNS = 256
_TYPES = {
    dtype.names.mlir: dtype.names.ptx for dtype in (float16, bfloat16, tensor_float32, int8, float8_e4m3fn, float8_e5m2)
}
_SWIZZLES = (128, 64, 32)


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand in shared memory.  axis: the dim that is contiguous there."""

    shape: tuple[int, ...]
    elem: str
    shared: LinearLayout
    descriptor: MatrixDescriptor
    axis: int

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * BY_MLIR_NAME[self.elem].bits // 8


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """A product that wgmma computes.

    elem: of both operands.  shape: rows and columns of the result.  groups: of warps, along rows and columns.
    columns: of one instruction.
    """

    elem: str
    shape: tuple[int, int]
    depth: int
    groups: tuple[int, int]
    columns: int

    @property
    def bits(self) -> int:
        return BY_MLIR_NAME[self.elem].bits

    @property
    def name(self) -> str:
        """The shape and types of the instruction."""
        type_ = _TYPES[self.elem]
        return f"m64n{self.columns}k{self.step}.{'s32' if self.elem == 'i8' else 'f32'}.{type_}.{type_}"

    @property
    def step(self) -> int:
        """The depth of one instruction: 32 bytes."""
        return 256 // self.bits

    @property
    def _warps(self) -> tuple[int, int]:
        return GROUP * self.groups[0], self.groups[1]

    @property
    def accumulator(self) -> LinearLayout:
        return wgmma_accumulator(self.shape, self.columns, self._warps)

    @property
    def a_registers(self) -> LinearLayout:
        return wgmma_operand_a((self.shape[0], self.depth), self.bits, self._warps)

    def matrix(self, side: str, axis: int) -> Matrix | None:
        """Returns operand "a" or "b" as laid out in shared memory, contiguous along `axis` if possible; None if it cannot be.
        """
        along_k = 1 if side == "a" else 0
        shape = (self.shape[0], self.depth) if side == "a" else (self.depth, self.shape[1])
        rows = ROWS if side == "a" else self.columns
        ways = [(fast, swizzle) for fast in (axis, along_k) for swizzle in _SWIZZLES]
        for fast, swizzle in ways:
            if (fast != along_k and self.bits != 16) or shape[fast] * self.bits // 8 % swizzle or shape[1 - fast] < 8:
                continue
            shared = matrix_swizzled(shape, self.bits, swizzle, (fast, 1 - fast))
            found = match_descriptor(shared, self.bits, rows, k_axis=along_k)
            if found is not None:
                return Matrix(shape, self.elem, shared, found, fast)
        return None


def plan_product(target: GpuTarget, warps: int, op: Operation, kind: str | None) -> WarpgroupProduct | None:
    """Plans how wgmma computes a tt.dot whose operands are taken as numbers of this kind; None where it does not fit."""
    elem = element_name(op.operands[0].type) if _keeps_fp8(op) else "f32" if kind == "tf32" else kind
    shape, depth = shape_of(op.results[0].type), shape_of(op.operands[0].type)[-1]
    if not target.has_wgmma or warps % GROUP or len(shape) != 2 or elem not in _TYPES or shape[0] % ROWS:
        return None
    groups = warps // GROUP
    along = min(groups, shape[0] // ROWS)
    columns = min(MAX_COLUMNS, shape[1] * along // groups)
    found = WarpgroupProduct(elem, (shape[0], shape[1]), depth, (along, groups // along), columns)
    if columns < 8 or depth % found.step:
        return None
    sides = [found.matrix("a", 1), found.matrix("b", 0)]
    parts = 2 if elem == "f32" and str(attributes(op).get("inputPrecision")) in SPLIT else 1
    stored = sum(parts * side.bytes for side in sides if side is not None)
    return found if all(sides) and stored <= target.shared_bytes else None


def _keeps_fp8(op: Operation) -> bool:
    """Whether fp8 operands may be multiplied as such: wgmma sums their products with fewer bits than a float32 has."""
    elems = {element_name(operand.type) for operand in op.operands[:2]}
    return len(elems) == 1 and elems <= set(_TYPES) and may_be_imprecise(op)


# -- code ------------------------------------------------------------------------------------


def group_number(t: Threads) -> V:
    """Emits the number of the thread's warpgroup, as a value that the assembler can prove to be uniform in the warp."""
    found = t.remembered("warpgroup")
    if found is not None:
        return found
    if t.warps == GROUP:
        return t.remember("warpgroup", i32(0))
    first = t.call("shfl.sync.idx.i32", [ALL_LANES, t.warp, i32(0), i32(31)], "i32")
    return t.remember("warpgroup", t.f.binary("lshr", first, i32(log2(GROUP))))


def address(t: Threads, pointer: V) -> V:
    """Emits the address of shared memory in units of 16 bytes (i32), as descriptors count; it is aligned at least to them."""
    whole = t.f.op(f"ptrtoint ptr addrspace(3) {pointer.operand()} to i32", "i32")
    return t.f.binary("lshr", whole, i32(4))


def pointer(t: Threads, address: V) -> V:
    """Emits the pointer for an `address`."""
    whole = t.f.binary("shl", address, i32(4))
    return t.f.op(f"inttoptr i32 {whole.operand()} to ptr addrspace(3)", "ptr addrspace(3)")


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """A matrix in shared memory, and where it starts: an `address`."""

    matrix: Matrix
    start: V

    def descriptor(self, t: Threads, bits: Sequence[int]) -> V:
        """Emits the descriptor (i64) of a warpgroup's first tile.

        bits: the bits of the warpgroup's number that give its position along the rows of A or the columns of B.
        """
        f, descriptor, start = t.f, self.matrix.descriptor, self.start
        for bit, step in zip(bits, descriptor.row_steps, strict=False):
            own = f.binary("and", f.binary("lshr", group_number(t), i32(bit)), i32(1))
            start = f.add(start, f.mul(own, i32(step >> 4)))
        return f.binary("or", f.cast("zext", start, "i64"), const(descriptor.encode(0), "i64"))

    def offset(self, row: int, depth: int) -> int:
        """Returns what is added to a descriptor for the tile of an instruction."""
        descriptor = self.matrix.descriptor
        steps = sum(step for bit, step in enumerate(descriptor.row_steps) if row >> bit & 1)
        return steps + sum(step for bit, step in enumerate(descriptor.k_steps) if depth >> bit & 1) >> 4


def multiply(
    t: Threads, product: WarpgroupProduct, pairs: Sequence[tuple[SharedMatrix | Registers | Fragments, SharedMatrix]],
    start: Registers | None, wait: bool = True,
) -> list[V]:  # fmt: skip
    """Emits start + the sum of the products of these pairs, in the accumulator's layout. None: start from zero.

    A may be in the registers of `product.a_registers`, or in `fragments` of these. Without `wait` the result is valid only
    after `wait_for`.
    """
    layout = product.accumulator
    type_ = "i32" if product.elem == "i8" else "float"
    own = list(start) if start is not None else [undef(type_)] * layout.size(REGISTER)
    text = _Statement(own)
    many = log2(product.groups[0])
    for number, (left, right) in enumerate(pairs):
        b = text.operand(right.descriptor(t, range(many, log2(product.groups[1]) + many)))
        operands: dict[tuple[int, int], str] = {}
        a = ""
        if isinstance(left, SharedMatrix):
            a = text.operand(left.descriptor(t, range(many)))
        else:
            packed = left if isinstance(left, Mapping) else fragments(t, product, left)
            operands = {tile: text.operands(each) for tile, each in packed.items()}
        transposed = "" if product.bits != 16 else f", {int(not right.matrix.descriptor.k_major)}"
        if isinstance(left, SharedMatrix) and product.bits == 16:
            transposed = f", {int(not left.matrix.descriptor.k_major)}{transposed}"
        signs = "" if product.elem == "i8" else f", 1, 1{transposed}"
        for registers, (row, column) in fragment_tiles(layout, wgmma_accumulator_fragment(product.columns)):
            d = "{" + ", ".join(f"${register}" for register in registers) + "}"
            for depth in range(0, product.depth, product.step):
                if isinstance(left, SharedMatrix):
                    text.lines.append(f"add.s64 da, {a}, {left.offset(row // ROWS, depth // product.step)};")
                text.lines.append(f"add.s64 db, {b}, {right.offset(column // product.columns, depth // product.step)};")
                adds = "on" if start is not None or number or depth else "off"
                source = "da" if isinstance(left, SharedMatrix) else operands[row, depth]
                text.lines.append(f"wgmma.mma_async.sync.aligned.{product.name} {d}, {source}, db, {adds}{signs};")
    ends = ["wgmma.commit_group.sync.aligned;", *(["wgmma.wait_group.sync.aligned 0;"] if wait else []), "}"]
    return text.emit(t, [*_HEAD, *text.lines, *ends])


_HEAD = (
    "{", ".reg .pred on, off;", ".reg .b64 da, db;", "setp.eq.b32 on, 0, 0;", "setp.ne.b32 off, 0, 0;",
    "wgmma.fence.sync.aligned;",
)  # fmt: skip


def wait_for(t: Threads, values: Sequence[V], later: int = 0) -> list[V]:
    """Waits for all products in flight but the last ones, and returns what the others have put into these registers.

    later: how many products may go on.
    """
    return _Statement(list(values)).emit(t, [f"wgmma.wait_group.sync.aligned {later};"]) if values else []


class _Statement:
    """Inline assembly that changes registers, and reads others."""

    def __init__(self, own: list[V]) -> None:
        self.own = own
        self.given: list[V] = []
        self.lines: list[str] = []

    def operand(self, value: V) -> str:
        self.given.append(value)
        return f"${2 * len(self.own) + len(self.given) - 1}"

    def operands(self, values: Sequence[V]) -> str:
        return "{" + ", ".join(self.operand(value) for value in values) + "}"

    def emit(self, t: Threads, lines: Sequence[str]) -> list[V]:
        """Emits the statement; returns the registers afterwards."""
        count, type_ = len(self.own), self.own[0].type
        letter = "r" if type_ == "i32" else "f"
        constraints = [
            *[f"={letter}"] * count, *map(str, range(count)), *("l" if each.type == "i64" else "r" for each in self.given)
        ]  # fmt: skip
        result = "{" + ", ".join([type_] * count) + "}"
        values = ", ".join(f"{each.type} {each.operand()}" for each in (*self.own, *self.given))
        text = "\\0A".join(lines)
        call = f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"({values}) convergent'
        got = t.f.op(call, result)
        return [t.f.op(f"extractvalue {result} {got.operand()}, {i}", type_) for i in range(count)]


def fragments(t: Threads, product: WarpgroupProduct, values: Registers) -> dict[tuple[int, int], Registers]:
    """Packs A, in the registers of `product.a_registers`, into the words that instructions take."""
    found: dict[tuple[int, int], Registers] = {}
    each = 32 // product.bits
    for registers, tile in fragment_tiles(product.a_registers, wgmma_a_fragment(product.bits)):
        raw = [t.to_bits(values[register], product.elem) for register in registers]
        packed = [t.pack(raw[start : start + each]) for start in range(0, len(raw), each)]
        found[tile] = [t.f.bitcast(value, "i32") for value in packed]
    return found
