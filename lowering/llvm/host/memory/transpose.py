"""Transposes tiles: loads squares of a vector's lanes, transposes them in registers, and writes them to scratch.

The loops are a function of their own, which kernels from texts share: it is long, and is compiled only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from .....promotion.dataclass import dataclass
from ....target import CACHE_LINE, MAX_TOGETHER, MIN_SIDE
from ...elementwise import from_memory, memory_element, memory_size, register_element, to_memory
from ...ir import Function
from ...masks.accesses import load_lanes
from ...module import Module
from ...values import V, i64, vector, zero
from ..evaluate import Evaluator
from ..loops.coordinates import ORIGIN, Bound, Coordinate, decompose_mask, memory_size_of, stride_of
from ..nodes import Load, Map, Node, Pointers, Splat, Stored, View, view
from ..scalars import is_constant
from .padded_copy import Padding, fill_around, inside, padding_of
from .transposed_copy import (
    FEW,
    LANE,
    Deinterleaving,
    Interleaving,
    ReversedCopy,
    TransposedCopy,
    TransposedLines,
)

LONG_COLUMN = 4 * CACHE_LINE
"""Bytes of a column from which on tiles have a cache line of it."""
FEW_SHORT = {1: 12, 2: 9}
"""The most columns of short elements that are taken apart where registers have masks."""
FEWEST_LANES = 4
"""The fewest rows and columns of a block that is worth transposing instead of gathering."""


def transposed_load(ev: Evaluator, node: Node) -> Load | None:
    """Returns the row-wise load behind a 2-D block that is contiguous along dimension 0, or None.

    None, too, if its block has been kept in scratch, or if its mask is more than limits of rows and columns.
    """
    load: Node | None = None
    if isinstance(node, View) and len(node.shape) == 2 and node.dims == (1, 0) and min(node.shape) > 1:
        load = ev.source_of(node)
    elif isinstance(node, Load) and _is_columnwise(node.pointers) and min(*node.shape) >= FEWEST_LANES:
        load = _swapped(node)
    if not isinstance(load, Load) or load.pointers.rest is not None or stride_of(load.pointers, 1) != 1:
        return None
    filled = load.other is None or isinstance(load.other, Splat)
    plain = load.elem != "ptr" and load.pointers.unit == memory_element(load.pointers.pointee)
    return load if filled and plain and not decompose_mask(load.mask)[1] else None


def _is_columnwise(pointers: Pointers) -> bool:
    """Whether neighbours along dimension 0 are neighbours in memory, and those along dimension 1 are not."""
    if len(pointers.shape) != 2 or pointers.rest is not None or stride_of(pointers, 0) != 1:
        return False
    return stride_of(pointers, 1) not in (1, -1) and pointers.offset.coefficients[1] is not None


def _swapped(load: Load) -> Load:
    """Returns the load whose transposed block is this load's."""
    shape, pointers = load.shape[::-1], load.pointers
    offset = replace(pointers.offset, shape=shape, coefficients=pointers.offset.coefficients[::-1])
    mask = None if load.mask is None else view(load.mask, shape, (1, 0))
    other = None if load.other is None else view(load.other, shape, (1, 0))
    return Load(shape, load.elem, replace(pointers, shape=shape, offset=offset), mask, other)


def transpose(ev: Evaluator, load: Load, memory: Stored, streaming: bool, limits: Sequence[V] = ()) -> None:
    """Loads `load` (rows × columns) in squares and stores it transposed: memory[c, r] = load[r, c].

    Rows beyond the limits are not written.
    """
    s, f = ev.s, ev.f
    rows, columns = load.shape
    bounds, _ = decompose_mask(load.mask)
    wanted = s.constant(rows)
    for limit in limits:
        wanted = s.min(wanted, limit)
    function = Transposition(load.elem, min(ev.lanes_for(load.elem), rows, columns), streaming)
    register = register_element(load.elem)
    fill = zero(register) if load.other is None else ev.at(load.other, (ORIGIN, ORIGIN))
    stride = load.pointers.offset.coefficients[0] or s.constant(0)
    (row_limit, _), (column_limit, _) = ev.extent(rows, bounds, 0), ev.extent(columns, bounds, 1)
    arguments = [
        ev.row_pointer(load.pointers, (ORIGIN, ORIGIN), 1), stride, memory.pointer, s.constant(memory.strides[0]),
        row_limit, column_limit, wanted, s.constant(columns), fill, s.constant(rows),
    ]  # fmt: skip
    f.call(f.module.provide(function), "void", arguments)


_PLAIN = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8"}
"""Elements in scratch → those of the block IR that are the same in memory."""


def transposed_source(ev: Evaluator, node: Node) -> Stored | Map | None:
    """Returns what a transposed 2-D block reads across the rows of its scratch, element by element; else None."""
    if not isinstance(node, View) or node.dims != (1, 0) or min(node.shape) < FEWEST_LANES or node.elem == "ptr":
        return None
    source = ev.source_of(node)
    if isinstance(source, Map):
        return source if ev.depends(source) == {0, 1} and _reads_scratch(ev, source) else None
    return source if isinstance(source, Stored) and source.strides[1] == 1 and source.memory in _PLAIN else None


def _reads_scratch(ev: Evaluator, source: Map) -> bool:
    """Whether a block is made from rows in scratch."""
    stack: list[Node] = [source]
    while stack:
        node = stack.pop()
        replaced = ev.replacement.get(id(node))
        found = node if replaced is None or replaced[2] else replaced[1]
        if isinstance(found, Stored) and found.shape == source.shape and found.strides[1] == 1 and found.strides[0]:
            return True
        if isinstance(found, Map):
            stack += found.operands
    return False


def transpose_scratch(ev: Evaluator, memory: Stored) -> Stored:
    """Transposes a block in scratch, whose rows are dense, into scratch."""
    result = ev.scratch(memory.shape[::-1], memory.elem)
    transpose_into(ev, memory, result)
    return result


def transpose_into(ev: Evaluator, memory: Stored, result: Stored) -> None:
    """Transposes a block in scratch into another one; the rows of both are dense."""
    s, elem = ev.s, _PLAIN[memory.memory]
    rows, columns = memory.shape
    function = Transposition(elem, min(ev.lanes_for(elem), rows, columns), False)
    height, width = s.constant(rows), s.constant(columns)
    arguments = [memory.pointer, s.constant(memory.strides[0]), result.pointer, s.constant(result.strides[0]),
                 height, width, height, width, zero(register_element(elem)), height]  # fmt: skip
    ev.f.call(ev.f.module.provide(function), "void", arguments)


def copy_transposed(
    ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound], streaming: bool
) -> bool:
    """Stores a block that is only loaded, and contiguous along another dimension than it is stored along, if it is one.

    Elements that are neighbours along further dimensions in both, as the colors of a pixel are, are moved together. The load
    must lie inside the bounds of the store, which are its whole mask, or be of a part of them along the two dimensions, and of
    a constant elsewhere. What another store might change before is kept in scratch by then (`ordering.py`), and not taken for
    a load.
    """
    found = _copied(ev, pointers, value, bounds)
    if found is None:
        return False
    load, source, r, c, together, padding = found
    f, s, element = ev.f, ev.s, memory_element(pointers.pointee)
    size, align = memory_size(pointers.pointee) * together.elements, memory_size(pointers.pointee)
    (rows, _), (columns, _) = ev.extent(value.shape[r], bounds, r), ev.extent(value.shape[c], bounds, c)
    stride, ld = source.offset.coefficients[r] or s.constant(0), pointers.offset.coefficients[c] or s.constant(0)
    with ExitStack() as stack:
        at: list[Coordinate | None] = [ORIGIN] * len(value.shape)
        for d, extent in enumerate(value.shape):
            if d not in (r, c, *together.dims) and extent > 1:
                count, implied = ev.extent(extent, bounds, d)
                at[d] = stack.enter_context(ev.dimension(extent, count, implied))
        read, written = ev.row_pointer(source, tuple(at), c), ev.row_pointer(pointers, tuple(at), r)
        if r == c:
            f.call(f.module.provide(ReversedCopy(size, align)), "void", [read, written, rows])
            return True
        if stride_of(source, c) < 0:  # the last column comes first in memory
            last = s.sub(columns, s.constant(1))
            read = f.gep(read, s.mul(last, s.constant(-together.elements)), element)
            written, ld = f.gep(written, s.mul(last, ld), element), s.mul(ld, s.constant(-1))
        masked = ev.target.has("avx512vl", "avx512bw") or (size >= 4 and ev.target.has("avx"))
        if padding is not None:
            down, across = inside(ev, padding, r, rows, ()), inside(ev, padding, c, columns, padding.conditions)
            fill_around(ev, load, written, ld, (rows, down), (columns, across))
            read = f.gep(f.gep(read, s.mul(down.first, stride), element), across.first, element)
            written = f.gep(f.gep(written, s.mul(across.first, ld), element), down.first, element)
            rows, columns = s.sub(down.end, down.first), s.sub(across.end, across.first)
            streaming = False
        is_full = size in (1, 2, 4, 8)  # in an element of a register, without gaps
        width = ev.target.vector_bytes
        line = max(width, CACHE_LINE)
        past = streaming and is_full and s.multiple(written) % line == 0
        apart = past and s.multiple(ld) * align % line == 0
        function: TransposedCopy | TransposedLines | Deinterleaving | Interleaving
        in_vectors = apart or not streaming or size < 4  # shuffles of small elements save more than whole lines do
        most = FEW if size > 2 else FEW_SHORT[size] if masked else LANE - 1  # what fills no piece is copied one by one
        if is_full and in_vectors and (few := _few_without_gaps(columns, stride, together.elements, most)) is not None:
            function = Deinterleaving(size, align, width, few, apart)
        elif is_full and (few := _few_without_gaps(rows, ld, together.elements)) is not None:
            function = Interleaving(size, align, width, few, past)
        elif streaming and is_full and not apart and value.shape[r] * size >= 4 * CACHE_LINE:
            half = min(width, CACHE_LINE // 2)  # vectors of a line wait for two that were stored in scratch just before
            function = TransposedLines(size, align, half, masked)
        else:
            width = max(LANE, min(width, value.shape[r] * (1 << (size - 1).bit_length())))
            if width == CACHE_LINE and s.multiple(ld) * align % CACHE_LINE:
                width = CACHE_LINE // 2  # stores that lie across lines take longer than two that are a half each
            in_lines = width * 2 == CACHE_LINE and (apart or value.shape[r] * size >= LONG_COLUMN)
            function = TransposedCopy(size, align, width, masked, apart and width == ev.target.vector_bytes, in_lines)
        bytes_ = s.constant(align)
        f.call(f.module.provide(function), "void", [read, s.mul(stride, bytes_), written, s.mul(ld, bytes_), rows, columns])
    return True


def _few_without_gaps(extent: V, stride: V, together: int, most: int = FEW) -> int | None:
    """Returns the extent, if it is a few times `together` elements that lie side by side without gaps."""
    if not is_constant(extent) or not is_constant(stride):
        return None
    return extent.number if extent.number * together == stride.number and 1 < extent.number <= most else None


class _Together(NamedTuple):
    """How many elements are neighbours in the source and in the result, and along which dimensions."""

    elements: int
    dims: tuple[int, ...]


def _together(ev: Evaluator, source: Pointers, target: Pointers, bounds: Sequence[Bound]) -> _Together:
    """Returns what stays side by side when a block is copied: all elements along some dimensions, whose numbers are known."""
    elements, dims = 1, list[int]()
    wide = [d for d, extent in enumerate(source.shape) if extent > 1]
    while True:
        found = next((d for d in wide if stride_of(source, d) == stride_of(target, d) == elements), None)
        if found is None:
            return _Together(elements, tuple(dims))
        count, _ = ev.extent(source.shape[found], bounds, found)
        if not is_constant(count) or count.number < 1:
            return _Together(elements, tuple(dims))
        wide.remove(found)
        dims.append(found)
        elements *= count.number


def _copied(
    ev: Evaluator, pointers: Pointers, value: Node, bounds: Sequence[Bound]
) -> tuple[Load, Pointers, int, int, _Together, Padding | None] | None:
    """Returns the load of a stored block, what it is from, in the block's coordinates, the dimensions in which the result and
    the source are contiguous, what stays together, and the mask of a load of a part."""
    shape = value.shape
    load: Node = value
    dims: Sequence[int | None] = range(len(shape))
    if isinstance(value, View):
        load, dims = ev.source_of(value), value.dims
    if not isinstance(load, Load) or id(value) in ev.replacement or id(load) in ev.replacement:
        return None
    if len(shape) < 2 or sorted(-1 if d is None else d for d in dims) != list(range(len(shape))):
        return None
    if load.elem != pointers.pointee or load.elem in ("ptr", "i1") or load.pointers.pointee != pointers.pointee:
        return None
    source = view(load.pointers, shape, dims)
    assert isinstance(source, Pointers)
    for each in (source, pointers):
        if each.rest is not None or each.unit != memory_element(each.pointee):
            return None
    stored = {(bound.dim, bound.limit.operand()) for bound in bounds}
    loaded, rest = ([], []) if load.mask is None else decompose_mask(view(load.mask, shape, dims))
    padding = None
    if rest or not {(bound.dim, bound.limit.operand()) for bound in loaded} <= stored:
        padding = padding_of(load.mask, dims) if load.mask is not None and isinstance(load.other, Splat) else None
        if padding is None:
            return None
    together = _Together(1, ()) if padding is not None else _together(ev, source, pointers, bounds)
    wide = [d for d, extent in enumerate(shape) if extent > 1 and d not in together.dims]
    r = next((d for d in wide if stride_of(pointers, d) == together.elements), None)
    c = next((d for d in wide if stride_of(source, d) == together.elements), None)
    if c is None and padding is None:
        c = next((d for d in wide if stride_of(source, d) == -together.elements), None)
    if r is not None and r == c and _is_reversed(ev, source, together, c):
        return load, source, r, c, together, padding
    if r is None or c is None or r == c or source.offset.coefficients[r] is None or pointers.offset.coefficients[c] is None:
        return None
    if together.elements > 1 and together.elements * memory_size(pointers.pointee) > MAX_TOGETHER:
        return None
    sides = [count.number for d in (r, c) if is_constant(count := ev.extent(shape[d], bounds, d)[0])]
    if (together.elements > 1 or stride_of(source, c) < 0) and min(sides, default=MIN_SIDE) < MIN_SIDE:
        return None
    if padding is not None:
        parts = {(bound.dim, bound.limit.operand()) for bound in (*padding.begins, *padding.limits)}
        if min(shape[r], shape[c]) < FEWEST_LANES or any(part[0] not in (r, c) for part in parts - stored):
            return None
    return load, source, r, c, together, padding


def _is_reversed(ev: Evaluator, source: Pointers, together: _Together, dim: int) -> bool:
    """Whether neighbours that stay together come in the opposite order, and are no more than one instruction moves."""
    bytes_ = together.elements * memory_size(source.pointee)
    reverses = together.elements > 1 and stride_of(source, dim) == -together.elements
    return reverses and bytes_ <= ReversedCopy.MAX_BYTES and ev.target.has("ssse3")


@dataclass(frozen=True, slots=True)
class Transposition:
    """The function that loads rows and stores them as columns.

    n: rows and columns of a square.  streaming: prefetches the block below, which is the next one along the rows of the output.
    """

    elem: str
    n: int
    streaming: bool

    @property
    def name(self) -> str:
        return f"jn_transpose_{self.elem}_{self.n}{'_streaming' * self.streaming}"

    @property
    def parameters(self) -> list[tuple[str, str]]:
        return [("ptr", "from"), ("i64", "stride"), ("ptr", "to"), ("i64", "ld"), ("i64", "rows"), ("i64", "columns"),
                ("i64", "wanted"), ("i64", "across"), (register_element(self.elem), "fill"), ("i64", "height")]  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds to[c, r] = from[r, c] for r < wanted, c < across to a module; `fill` from `rows` and `columns` on.

        height: rows of a block. It writes whole squares.
        """
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        source, stride, target, ld, rows, columns, wanted, across, fill, height = f.params
        n, elem = self.n, memory_element(self.elem)
        size = memory_size(self.elem)
        type_ = vector(elem, n)
        side = i64(n)
        with f.loop(0, wanted, n) as r, f.loop(0, across, n) as c:
            first = f.gep(f.gep(source, f.mul(stride, r.index), elem), c.index, elem)
            left, above = f.sub(rows, r.index), f.sub(columns, c.index)
            if self.streaming:
                below = f.gep(first, f.mul(stride, height), elem)
                for _ in range(n):
                    f.prefetch(below, locality=2)
                    below = f.gep(below, stride, elem)
            inside, edge, joined = f.label("inside"), f.label("edge"), f.label("turn")
            f.cond_branch(f.binary("and", f.icmp("sge", left, side), f.icmp("sge", above, side)), inside, edge)
            f.start(inside)
            whole = [from_memory(f, f.load(type_, row, size), self.elem) for row in _rows(f, first, stride, elem, n)]
            f.branch(joined)
            f.start(edge)
            lanes = f.icmp("sgt", f.splat(f.cast("trunc", f.smin(f.smax(above, i64(0)), side), "i32"), n), f.iota(n, "i32"))
            cut = []
            for i, row_pointer in enumerate(_rows(f, first, stride, elem, n)):
                on = f.binary("and", lanes, f.splat(f.icmp("sgt", left, i64(i)), n))
                value = from_memory(f, load_lanes(f, type_, row_pointer, on, size), self.elem)
                cut.append(f.select(on, value, f.splat(fill, n)))
            f.branch(joined)
            f.start(joined)
            tile = [f.phi(a.type, [(a, inside), (b, edge)]) for a, b in zip(whole, cut, strict=True)]
            scratch = "i8" if self.elem == "i1" else register_element(self.elem)
            row_pointers = _rows(f, f.gep(f.gep(target, f.mul(ld, c.index), scratch), r.index, scratch), ld, scratch, n)
            for row_pointer, column in zip(row_pointers, transpose_registers(f, tile), strict=True):
                value = to_memory(f, column, "i1") if self.elem == "i1" else column
                f.store(value, row_pointer, memory_size_of(scratch))
        f.ret()
        module.add(f)


def _rows(f: Function, first: V, stride: V, elem: str, n: int) -> list[V]:
    """Returns the addresses at which n rows start."""
    pointers = [first]
    while len(pointers) < n:
        pointers.append(f.gep(pointers[-1], stride, elem))
    return pointers


def transpose_registers(f: Function, rows: Sequence[V]) -> list[V]:
    """Transposes an n × n tile of registers in log2(n) stages of two-input shuffles (n a power of two)."""
    n = len(rows)
    current, distance = list(rows), n // 2
    while distance:
        low = [lane if (lane // distance) % 2 == 0 else n + lane - distance for lane in range(n)]
        high = [lane + distance if (lane // distance) % 2 == 0 else n + lane for lane in range(n)]
        following = list(current)
        for i in range(n):
            if (i // distance) % 2 == 0:
                a, b = current[i], current[i + distance]
                following[i] = f.shuffle(a, b, low)
                following[i + distance] = f.shuffle(a, b, high)
        current, distance = following, distance // 2
    return current
