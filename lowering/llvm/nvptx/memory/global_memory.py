"""Emits loads and stores of global memory: wide, and predicated instead of branched around.

Predicated ones are inline assembly that is declared to change memory, loads too: to the instruction selector and the passes
after it, other assembly is arithmetic, which they may move behind a store.

Source of the syntax: NVIDIA, "PTX ISA", "ld", "st" and "Cache operators".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from .....promotion.dataclass import dataclass
from ....linear_layouts.distributed import default_blocked
from ....linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate
from ....linear_layouts.matching import MAX_VECTOR_BITS, global_vector_elements, vector_accesses
from ...values import V, const, is_integer, poison, same
from ..analysis.axis_info import AxisInfo
from ..threads import Threads, base_and_distance, bits_of

LINE = 128
"""The bytes of memory that a warp's access fetches or writes at once."""
_LOAD_CACHES = ("ca", "cg", "cs", "cv")
_STORE_CACHES = ("wb", "cg", "cs", "wt")


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """The axis info of an access's pointers and of its mask."""

    pointers: AxisInfo
    mask: AxisInfo | None = None

    def order(self) -> tuple[int, ...]:
        """Returns the dims by contiguity, the most contiguous first; the last dim first among equals."""
        rank = len(self.pointers.contiguity)
        return tuple(sorted(range(rank), key=lambda d: (-self.pointers.contiguity[d], -d)))

    def width(self, shape: Sequence[int], element_bits: int, layout: LinearLayout) -> tuple[int, int]:
        """Returns (elements per access, along which dim) in a layout."""
        axis = self.order()[0]
        constancy = None if self.mask is None else self.mask.constancy[axis]
        return global_vector_elements(
            layout, element_bits, axis=axis, contiguity=self.pointers.contiguity[axis],
            alignment=self.pointers.divisibility[axis], mask_constancy=constancy,
        ), axis  # fmt: skip


def widest(info: AccessInfo, shape: Sequence[int], element_bits: int, threads: int) -> int:
    """Returns how many consecutive elements per thread make the widest access."""
    axis = info.order()[0]
    known = min(info.pointers.contiguity[axis], max(1, info.pointers.divisibility[axis] * 8 // element_bits))
    if info.mask is not None:
        known = min(known, info.mask.constancy[axis])
    return max(1, min(known, MAX_VECTOR_BITS // element_bits, shape[axis], prod(shape) // threads or 1))


def coalesced(shape: Sequence[int], order: Sequence[int], elements: int, warps: int) -> LinearLayout:
    """Returns the coalesced layout: adjacent lanes along order[0], each with this many consecutive elements."""
    return default_blocked(shape, warps, 8, order=order, contiguity=elements)


def row_bytes(layout: LinearLayout, element_bits: int, vector: int, axis: int) -> int:
    """Returns the contiguous bytes that the lanes of a warp access together, `vector` elements along an axis each."""
    length = vector
    steps = [layout.coordinates(basis) for basis in layout[LANE]]
    while tuple([length if dim == axis else 0 for dim in range(len(layout.shape))]) in steps:
        length *= 2
    return length * element_bits // 8


def access_groups(layout: LinearLayout, vector: int, axis: int) -> list[tuple[int, ...]]:
    """Returns the registers of each access, when `vector` elements along an axis are accessed together."""
    if vector == 1:
        return [(register,) for register in range(layout.size(REGISTER))]
    rank = len(layout.shape)
    last = layout.transpose([*(i for i in range(rank) if i != axis), axis])
    flat = last.reshape((prod(last.shape),))
    return [access.registers for access in vector_accesses(flat, 8, vector)]


def written_groups(layout: LinearLayout, vector: int, axis: int) -> list[tuple[int, ...]]:
    """Returns the register groups that write: those of duplicated elements do not."""
    copies = layout.free_masks()[REGISTER]
    return [registers for registers in access_groups(layout, vector, axis) if not registers[0] & copies]


class GlobalMemory:
    """Emits accesses; addresses are i64."""

    def __init__(self, threads: Threads) -> None:
        self.t = threads
        self.f = threads.f

    def load(
        self, elem: str, layout: LinearLayout, groups: Sequence[tuple[int, ...]], addresses: Mapping[int, V],
        mask: Mapping[int, V] | None, other: Sequence[V] | None, cache: str = "", volatile: bool = False,
    ) -> tuple[V, ...]:  # fmt: skip
        """Loads the elements of every register. Addresses and mask are those of the first register of each group."""
        t, width = self.t, bits_of(elem)
        found: dict[int, V] = {}
        for registers in groups:
            guard = None if mask is None else mask[registers[0]]
            fill = None if guard is None or other is None else t.pack([t.to_bits(other[r], elem) for r in registers])
            packed = self.load_bits(addresses[registers[0]], width * len(registers), guard, fill, cache, volatile)
            pieces = t.unpack(packed, len(registers), width)
            found.update({r: t.from_bits(piece, elem) for r, piece in zip(registers, pieces, strict=True)})
        return tuple(found[register] for register in range(layout.size(REGISTER)))

    def store(
        self, elem: str, layout: LinearLayout, groups: Sequence[tuple[int, ...]], addresses: Mapping[int, V],
        values: Sequence[V], mask: Mapping[int, V] | None, cache: str = "",
    ) -> None:  # fmt: skip
        """Stores every element once: of threads with duplicates one writes."""
        t = self.t
        free = layout.free_masks()
        predicate = t.predicate(ThreadPredicate(free[LANE], free[WARP]))
        for registers in groups:
            guard = predicate
            if mask is not None:
                own = mask[registers[0]]
                guard = own if guard is None else own if same(own, guard) else self.f.binary("and", guard, own)
            packed = t.pack([t.to_bits(values[r], elem) for r in registers])
            self.store_bits(addresses[registers[0]], packed, guard, cache)

    # -- single accesses -------------------------------------------------------------

    def load_bits(
        self, address: V, width: int, guard: V | None, fill: V | None, cache: str = "", volatile: bool = False
    ) -> V:
        """Loads `width` bits as an integer or a vector of 32-bit words."""
        type_ = f"i{width}" if width <= 32 else f"<{width // 32} x i32>"
        if guard is not None and is_integer(guard, 1):
            guard = None
        if guard is None and not cache and not volatile:
            pointer = self.pointer(address)
            return self.f.op(f"load {type_}, ptr addrspace(1) {pointer.operand()}, align {width // 8}", type_)
        modifier = ".volatile" if volatile else ""
        modifier += ".global" + (f".{cache}" if cache in _LOAD_CACHES and not volatile else "")
        count, each = _registers(width)
        kind = {8: "b8", 16: "b16", 32: "b32", 64: "b64"}[each]
        letter = {8: "h", 16: "h", 32: "r", 64: "l"}[each]
        container = {8: "i16", 16: "i16", 32: "i32", 64: "i64"}[each]
        outs = [f"${i}" for i in range(count)]
        list_ = outs[0] if count == 1 else "{" + ", ".join(outs) + "}"
        vector = "" if count == 1 else f".v{count}"
        fills = self._pieces(fill, count, container)
        address, distance = base_and_distance(address)
        operands = [address]
        text = ""
        operand = f"${count}{distance:+d}" if distance else f"${count}"
        if guard is not None:
            operands += [guard, *fills]
            move = "mov.b16" if each <= 16 else f"mov.{kind}"
            moves = [f"{move} ${i}, ${count + 2 + i};" for i in range(count)]
            text = " ".join(moves) + f" @${count + 1} "
        text += f"ld{modifier}{vector}.{kind} {list_}, [{operand}];"
        outputs = ",".join([f"=&{letter}"] * count)
        inputs = ",".join(["l", *([] if guard is None else ["b", *[letter] * count])])
        result = container if count == 1 else "{" + ", ".join([container] * count) + "}"
        side = "sideeffect " if volatile else ""
        given = ", ".join(f"{v.type} {v.operand()}" for v in operands)
        got = self.f.op(f'call {result} asm {side}"{text}", "{outputs},{inputs},~{{memory}}"({given})', result)
        if count == 1:
            return self.f.cast("trunc", got, f"i{width}") if each == 8 else got
        pieces = [self.f.op(f"extractvalue {result} {got.operand()}, {i}", container) for i in range(count)]
        whole = poison(f"<{count} x {container}>")
        for i, piece in enumerate(pieces):
            whole = self.f.insert(whole, piece, i)
        return whole

    def _pieces(self, fill: V | None, count: int, container: str) -> list[V]:
        if fill is None:
            return [const(0, container)] * count
        if count == 1:
            return [self.f.cast("zext", self.f.bitcast(fill, f"i{_width(fill.type)}"), container)]
        whole = self.f.bitcast(fill, f"<{count} x {container}>")
        return [self.f.extract(whole, i) for i in range(count)]

    def store_bits(self, address: V, packed: V, guard: V | None, cache: str = "") -> None:
        if guard is not None and is_integer(guard, 1):
            guard = None
        width = _width(packed.type)
        if guard is None and not cache:
            pointer = self.pointer(address)
            self.f.emit(f"store {packed.type} {packed.operand()}, ptr addrspace(1) {pointer.operand()}, align {width // 8}")
            return
        count, each = _registers(width)
        kind, letter, container = {
            8: ("b8", "h", "i16"), 16: ("b16", "h", "i16"), 32: ("b32", "r", "i32"), 64: ("b64", "l", "i64"),
        }[each]  # fmt: skip
        pieces = self._pieces(packed, count, container)
        names = [f"${1 + i}" for i in range(count)]
        list_ = names[0] if count == 1 else "{" + ", ".join(names) + "}"
        vector = "" if count == 1 else f".v{count}"
        predicate = "" if guard is None else f"@${1 + count} "
        modifier = f".{cache}" if cache in _STORE_CACHES else ""
        constraints = ",".join(["l", *[letter] * count, *([] if guard is None else ["b"])])
        address, distance = base_and_distance(address)
        operand = f"$0{distance:+d}" if distance else "$0"
        operands = [address, *pieces, *([] if guard is None else [guard])]
        given = ", ".join(f"{v.type} {v.operand()}" for v in operands)
        text = f"{predicate}st.global{modifier}{vector}.{kind} [{operand}], {list_};"
        self.f.emit(f'call void asm sideeffect "{text}", "{constraints},~{{memory}}"({given})')

    def pointer(self, address: V) -> V:
        """Returns the address as a pointer to global memory."""
        address, distance = base_and_distance(address)
        pointer = self.f.pure(f"inttoptr i64 {address.operand()} to ptr addrspace(1)", "ptr addrspace(1)")
        if not distance:
            return pointer
        return self.f.pure(f"getelementptr i8, ptr addrspace(1) {pointer.operand()}, i64 {distance}", "ptr addrspace(1)")


def _width(type_: str) -> int:
    if type_[0] == "<":
        count, _, element = type_[1:-1].split(" ")
        return int(count) * int(element[1:])
    return int(type_[1:])


def _registers(width: int) -> tuple[int, int]:
    """Returns (number, bits) of the words of an access."""
    if width <= 32:
        return 1, width
    return width // 32, 32
