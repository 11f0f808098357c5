"""Copies blocks from memory to memory with their rows as columns, without scratch in between.

The loops are functions of their own: they are long, and are compiled once for all blocks of a model. What they move are
integers, so that every bit of a float stays what it is: an element, or several that stay side by side, as the colors of a
pixel do. Strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .....promotion.dataclass import dataclass
from ....target import CACHE_LINE
from ...ir import Function
from ...masks.accesses import load_lanes, store_lanes
from ...module import Module
from ...values import V, i64, int_vector, vector, zero
from .short_strides import picked

LANE = 16
"""Bytes of the parts of a vector register within which shuffles are cheap, and of a piece of a row that is loaded at once."""
FEW = 8
"""The most columns, or rows, without gaps between them that are taken apart, or put together, as whole vectors."""
MOVED = 4
"""Rows and columns of a tile whose pieces are more than a lane, and are moved one by one."""
COLUMN, TOGETHER = 512, 256
"""Bytes of a column that are put together in scratch, and how many columns are."""

_PARAMETERS = [("ptr", "from"), ("i64", "stride"), ("ptr", "to"), ("i64", "ld"), ("i64", "rows"), ("i64", "columns")]


@dataclass(frozen=True, slots=True)
class TransposedCopy:
    """The function that makes to[c · ld + r · size] = from[r · stride + c · size] for r < rows, c < columns.

    size: bytes that stay together.  align: bytes that their addresses are multiples of.  width: bytes of a vector
    register.  masked: whether registers have masks for integers of this size.  streaming: columns start at multiples of a
    line, and are written past the caches.  in_lines: a tile has a cache line of each column, of several registers.
    """

    size: int
    align: int
    width: int
    masked: bool
    streaming: bool
    in_lines: bool = False

    @property
    def name(self) -> str:
        kind = f"{'_masked' * self.masked}{'_streaming' * self.streaming}{'_in_lines' * self.in_lines}"
        return f"jn_transposed_copy_{self.size}_{self.align}_{self.width}{kind}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return _PARAMETERS

    @property
    def _padded(self) -> int:
        """Bytes of a register that `size` bytes take."""
        return 1 << (self.size - 1).bit_length()

    @property
    def _tile(self) -> tuple[int, int]:
        """Columns and rows of a tile."""
        return (LANE // self._padded, max(self.width, self._line) // self._padded) if self.size <= LANE else (MOVED, MOVED)

    @property
    def _line(self) -> int:
        """Bytes of a column that are written at once where elements fill registers: those of a cache line."""
        return CACHE_LINE if self.in_lines and self.size == self._padded and self.size < LANE else self.width

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module. Pieces of a lane of as many rows as fill a register become whole vectors."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, stride, target, ld, rows, columns = f.params
        self.emit(f, source, stride, target, ld, rows, columns)
        f.ret()
        module.add(f)

    def emit(self, f: Function, source: V, stride: V, target: V, ld: V, rows: V, columns: V) -> None:
        """Emits the loops."""
        size = i64(self.size)
        across, down = self._tile
        with f.loop(0, rows, down) as r:
            left = f.sub(rows, r.index)
            line, column = f.gep(source, f.mul(stride, r.index)), f.gep(target, f.mul(size, r.index))
            with f.loop(0, columns, across) as c:
                above = f.sub(columns, c.index)
                first = f.gep(line, f.mul(size, c.index))
                to = f.gep(column, f.mul(ld, c.index))
                inside, edge, done = f.label("inside"), f.label("edge"), f.label("copied")
                is_whole = f.binary("and", f.icmp("sge", left, i64(down)), f.icmp("sge", above, i64(across)))
                f.cond_branch(is_whole, inside, edge)
                f.start(inside)
                with f.scope():
                    self._whole(f, first, stride, to, ld)
                f.branch(done)
                f.start(edge)
                with f.scope():
                    if self.masked and self.size == self._padded < LANE:
                        self._masked(f, first, stride, to, ld, left, above)
                    else:
                        self._single(f, first, stride, to, ld, left, above)
                f.branch(done)
                f.start(done)

    def _whole(self, f: Function, first: V, stride: V, to: V, ld: V) -> None:
        """Emits the copy of a tile: in registers, or piece by piece where one is more than a lane."""
        across, down = self._tile
        lines, columns = _each(f, first, stride, down), _each(f, to, ld, across)
        if self.size <= LANE:
            each, rows = self.width // self._padded, [self._piece(f, line) for line in lines]
            parts = [transposed(f, rows[i : i + each], across) for i in range(0, down, each)]
            for pointer, values in zip(columns, zip(*parts, strict=True), strict=True):
                for number, value in enumerate(values):
                    self._store(f, value, f.gep(pointer, number * self.width))
            return
        for r, line in enumerate(lines):
            for c, column in enumerate(columns):
                value = f.load(vector("i8", self.size), f.gep(line, c * self.size), self.align)
                f.store(value, f.gep(column, r * self.size), self.align)

    def _piece(self, f: Function, pointer: V) -> V:
        """Returns a lane of one row."""
        padded, across = self._padded, LANE // self._padded
        if padded == LANE:
            value = f.load(vector("i8", self.size), pointer, self.align)
            return value if self.size == LANE else f.shuffle(value, value, [*range(self.size), *[-1] * (LANE - self.size)])
        if padded == self.size:
            return f.load(vector(f"i{8 * padded}", across), pointer, self.align)
        value = f.load(vector("i8", across * self.size), pointer, self.align)
        apart = [e * self.size + b if b < self.size else -1 for e in range(across) for b in range(padded)]
        return f.cast("bitcast", f.shuffle(value, value, apart), vector(f"i{8 * padded}", across))

    def _store(self, f: Function, value: V, pointer: V) -> None:
        """Stores a register of one column. Lanes that are not full overlap the next one, which is stored after them."""
        if self.size == self._padded:
            align = self.width if self.streaming else self.align
            f.store(value, pointer, align, nontemporal=self.streaming)
            return
        across, taken = LANE // self._padded, LANE // self._padded * self.size
        bytes_ = f.cast("bitcast", value, vector("i8", self.width))
        for lane in range(0, self.width, LANE):
            together = [lane + e * self._padded + b for e in range(across) for b in range(self.size)]
            if lane + LANE < self.width:
                together += [-1] * (LANE - taken)
            f.store(f.shuffle(bytes_, bytes_, together), f.gep(pointer, lane // LANE * taken), self.align)

    def _masked(self, f: Function, first: V, stride: V, to: V, ld: V, left: V, above: V) -> None:
        """Emits the copy of a piece with fewer rows or columns than whole ones have."""
        elem, (across, down), each = f"i{8 * self.size}", self._tile, self.width // self.size
        piece = vector(elem, across)
        lanes = f.icmp("sgt", f.splat(above, across), int_vector(range(across), "i64"))
        pieces = []
        for number, pointer in enumerate(_each(f, first, stride, down)):
            on = f.select(f.icmp("sgt", left, i64(number)), lanes, zero(lanes.type))
            pieces.append(load_lanes(f, piece, pointer, on, self.align))
        for start in range(0, down, each):
            height = f.icmp("sgt", f.splat(f.sub(left, i64(start)), each), int_vector(range(each), "i64"))
            columns = transposed(f, pieces[start : start + each], across)
            for number, (pointer, value) in enumerate(zip(_each(f, to, ld, across), columns, strict=True)):
                with f.when(f.icmp("sgt", above, i64(number))):
                    store_lanes(f, value, f.gep(pointer, start * self.size), height, self.align)

    def _single(self, f: Function, first: V, stride: V, to: V, ld: V, left: V, above: V) -> None:
        elem, size = vector("i8", self.size), i64(self.size)
        across, down = self._tile
        with f.loop(0, f.smin(above, i64(across))) as c, f.loop(0, f.smin(left, i64(down))) as r:
            value = f.load(elem, f.gep(first, f.add(f.mul(stride, r.index), f.mul(size, c.index))), self.align)
            f.store(value, f.gep(to, f.add(f.mul(ld, c.index), f.mul(size, r.index))), self.align)


def transposed(f: Function, pieces: Sequence[V], across: int) -> list[V]:
    """Returns the columns of a tile, given the pieces of its rows, each of `across` elements that fill a lane.

    A register holds one row in each of its lanes; every stage interleaves two registers within lanes, which rotates the bits of
    (row, column) by one.
    """
    groups = len(pieces) // across
    current = [f.concatenated(pieces[i::across]) for i in range(across)]
    half, total = across // 2, groups * across
    low = [lane for start in range(0, total, across) for i in range(half) for lane in (start + i, total + start + i)]
    high = [lane + half for lane in low]
    for _ in range(across.bit_length() - 1):
        pairs = [(current[i], current[i + half]) for i in range(half)]
        current = [f.shuffle(a, b, mask) for a, b in pairs for mask in (low, high)]
    return current


@dataclass(frozen=True, slots=True)
class TransposedLines:
    """The function of a `TransposedCopy` that writes past the caches wherever columns start.

    Columns are put together in scratch, and leave it in whole cache lines; what remains at both ends is stored as usual. `size`
    is a power of two.
    """

    size: int
    align: int
    width: int
    masked: bool

    @property
    def name(self) -> str:
        return f"jn_transposed_lines_{self.size}_{self.align}_{self.width}{'_masked' * self.masked}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return _PARAMETERS

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, stride, target, ld, rows, columns = f.params
        elem, most, lanes = f"i{8 * self.size}", COLUMN // self.size, self.width // self.size
        scratch, size = f.alloca("i8", TOGETHER * COLUMN, CACHE_LINE), i64(self.size)
        inside = TransposedCopy(self.size, self.align, self.width, self.masked, False)
        with f.loop(0, rows, most) as r, f.loop(0, columns, TOGETHER) as c:
            height, count = f.smin(f.sub(rows, r.index), i64(most)), f.smin(f.sub(columns, c.index), i64(TOGETHER))
            first = f.gep(f.gep(source, f.mul(stride, r.index)), f.mul(size, c.index))
            inside.emit(f, first, stride, scratch, i64(COLUMN), height, count)
            to = f.gep(f.gep(target, f.mul(ld, c.index)), f.mul(size, r.index))
            with f.loop(0, count) as column:
                read = f.gep(scratch, f.mul(column.index, i64(COLUMN)))
                written = f.gep(to, f.mul(column.index, ld))
                bytes_ = f.binary("and", f.sub(i64(0), f.cast("ptrtoint", written, "i64")), i64(CACHE_LINE - 1))
                before = f.smin(f.binary("lshr", bytes_, i64(self.size.bit_length() - 1)), height)
                self._part(f, read, written, i64(0), before)
                # an array that does not start at a multiple of what is moved has no whole lines
                odd = f.icmp("ne", f.binary("and", bytes_, i64(self.size - 1)), i64(0))
                lines = f.binary("and", f.sub(height, before), i64(-(CACHE_LINE // self.size)))
                end = f.add(before, f.select(odd, i64(0), lines))
                with f.loop(before, end, lanes) as line:
                    value = f.load(vector(elem, lanes), f.gep(read, line.index, elem), self.size)
                    f.store(value, f.gep(written, line.index, elem), self.width, nontemporal=True)
                self._part(f, read, written, end, height)
        f.ret()
        module.add(f)

    def _part(self, f: Function, read: V, written: V, start: V, end: V) -> None:
        """Emits a copy of some elements."""
        elem, lanes = f"i{8 * self.size}", self.width // self.size if self.masked else 1
        with f.loop(start, end, lanes) as at:
            source, target = f.gep(read, at.index, elem), f.gep(written, at.index, elem)
            if lanes == 1:
                f.store(f.load(elem, source, self.size), target, self.align)
            else:
                on = f.icmp("sgt", f.splat(f.sub(end, at.index), lanes), int_vector(range(lanes), "i64"))
                type_ = vector(elem, lanes)
                store_lanes(f, load_lanes(f, type_, source, on, self.size), target, on, self.align)


@dataclass(frozen=True, slots=True)
class Deinterleaving:
    """The function that makes to[c · ld + r · size] = from[(r · count + c) · size] for r < rows, c < count.

    `stride` and `columns` say nothing more. `size` is a power of two up to 8.
    """

    size: int
    align: int
    width: int
    count: int
    streaming: bool

    @property
    def name(self) -> str:
        return f"jn_deinterleaving_{self.size}_{self.align}_{self.width}_{self.count}{'_streaming' * self.streaming}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return _PARAMETERS

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module. `count` vectors side by side are taken apart at once."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, _, target, ld, rows, _ = f.params
        elem, lanes, count = f"i{8 * self.size}", self.width // self.size, self.count
        align, each = self.width if self.streaming else self.align, _group(self.width) // self.size
        whole = f.binary("and", rows, i64(-lanes))
        with f.loop(0, whole, lanes) as r:
            first = f.gep(source, f.mul(r.index, i64(count)), elem)
            vectors = [
                f.concatenated([
                    f.load(vector(elem, each), f.gep(first, group * count + i * each, elem), self.align)
                    for group in range(0, lanes, each)
                ])
                for i in range(count)
            ]  # fmt: skip
            for number, pointer in enumerate(_each(f, f.gep(target, r.index, elem), ld, count)):
                positions = [(lane - lane % each, divmod(lane % each * count + number, each)) for lane in range(lanes)]
                wanted = [(i, group + lane) for group, (i, lane) in positions]
                f.store(picked(f, vectors, wanted), pointer, align, nontemporal=self.streaming)
        with f.loop(whole, rows) as r, f.loop(0, count) as c:
            value = f.load(elem, f.gep(source, f.add(f.mul(r.index, i64(count)), c.index), elem), self.align)
            f.store(value, f.gep(f.gep(target, f.mul(ld, c.index)), r.index, elem), self.align)
        f.ret()
        module.add(f)


@dataclass(frozen=True, slots=True)
class Interleaving:
    """The function that makes to[(c · count + r) · size] = from[r · stride + c · size] for r < count, c < columns.

    `ld` and `rows` say nothing more. `size` is a power of two up to 8.
    """

    size: int
    align: int
    width: int
    count: int
    streaming: bool

    @property
    def name(self) -> str:
        return f"jn_interleaving_{self.size}_{self.align}_{self.width}_{self.count}{'_streaming' * self.streaming}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return _PARAMETERS

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module. A vector of each row is put together with the others at once."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, stride, target, _, _, columns = f.params
        elem, lanes, count = f"i{8 * self.size}", self.width // self.size, self.count
        each = _group(self.width) // self.size
        align = _group(self.width) if self.streaming else self.align
        whole = f.binary("and", columns, i64(-lanes))
        with f.loop(0, whole, lanes) as c:
            starts = _each(f, f.gep(source, c.index, elem), stride, count)
            vectors = [f.load(vector(elem, lanes), start, self.align) for start in starts]
            first = f.gep(target, f.mul(c.index, i64(count)), elem)
            found = []
            for number in range(count):
                positions = [(i - i % each, divmod(number * each + i % each, count)) for i in range(lanes)]
                found.append(picked(f, vectors, [(line, group + lane) for group, (lane, line) in positions]))
            for group in range(0, lanes, each):
                for number, value in enumerate(found):
                    part = value if each == lanes else f.shuffle(value, value, range(group, group + each))
                    f.store(part, f.gep(first, group * count + number * each, elem), align, nontemporal=self.streaming)
        with f.loop(whole, columns) as c, f.loop(0, count) as r:
            value = f.load(elem, f.gep(f.gep(source, f.mul(stride, r.index)), c.index, elem), self.align)
            f.store(value, f.gep(target, f.add(f.mul(c.index, i64(count)), r.index), elem), self.align)
        f.ret()
        module.add(f)


@dataclass(frozen=True, slots=True)
class ReversedCopy:
    """The function that makes to[r · size] = from[-r · size] for r < rows: as many as 16 bytes have by a shuffle.

    The bytes of a store that are no elements are those of the next one, which is stored after it.
    """

    size: int
    align: int
    MAX_BYTES: ClassVar = LANE

    @property
    def name(self) -> str:
        return f"jn_reversed_copy_{self.size}_{self.align}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "from"), ("ptr", "to"), ("i64", "rows")]

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds the function to a module."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, target, rows = f.params
        size, each = self.size, LANE // self.size
        room = -(-LANE // size)  # elements of which 16 bytes are no more than all
        whole = f.smax(f.sub(rows, i64(room - 1)), i64(0))
        count = f.mul(f.binary("udiv", f.add(whole, i64(each - 1)), i64(each)), i64(each))
        with f.loop(0, count, each) as r:
            at = f.mul(r.index, i64(size))
            first = f.gep(source, f.sub(i64(size - LANE), at))
            value = f.load(vector("i8", LANE), first, self.align if LANE % self.align == 0 and size % self.align == 0 else 1)
            picks = [LANE - size - q * size + b if q < each else 0 for q in range(each + 1) for b in range(size)][:LANE]
            f.store(f.shuffle(value, value, picks), f.gep(target, at), 1)
        with f.loop(count, rows) as r:
            at = f.mul(r.index, i64(size))
            f.store(f.load(vector("i8", size), f.gep(source, f.sub(i64(0), at)), self.align), f.gep(target, at), self.align)
        f.ret()
        module.add(f)


def _group(width: int) -> int:
    """Returns the bytes of a register within which elements are shuffled: all where one instruction takes any of two
    registers, else 16."""
    return LANE if width == 2 * LANE else width


def _each(f: Function, first: V, stride: V, count: int) -> list[V]:
    """Returns the addresses at which `count` lines start."""
    pointers = [first]
    while len(pointers) < count:
        pointers.append(f.gep(pointers[-1], stride))
    return pointers
