"""Emits the loop nests that evaluate lazy block values.

A nest visits the outer dimensions position by position and the last one in vectors. Bounds that all its effects share become
loop limits, so padded blocks cost nothing. Expensive values that later nests read again are spilled to scratch on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from .....promotion.errors import UnsupportedError
from ....target import CACHE_LINE
from ...elementwise import memory_size, to_memory
from ...halves import HIGH, JOINED, LOW, within_registers
from ...ir import mangle
from ...masks.accesses import store_lanes
from ...values import TRUE, V, const, i32, lanes, vector
from ..codes.halves import are_alone
from ..evaluate import Evaluator
from ..masks.interiors import Piece, known_in, pieces_of_rows, visit_pieces
from ..masks.lane_masks import only_first_lane
from ..memory.gathers import are_few_apart, store_apart
from ..memory.transpose import (
    copy_transposed,
    transpose,
    transpose_scratch,
    transposed_load,
    transposed_source,
)
from ..nodes import Affine, Flattened, Load, Map, Node, Pointers, Splat, Stored, View, cost, dense
from ..scalars import ZERO, is_constant
from ..scratch.reads import written_apart
from ..scratch.unwritten_lanes import clear_unwritten
from .coordinates import (
    Bound,
    Coordinate,
    Coordinates,
    alignment_of,
    along,
    decompose_mask,
    memory_size_of,
    reads_memory,
    stride_of,
)
from .dividers import divides, has_room
from .flat import Flattener, flat_memory, is_deep
from .interleaved import interleaved
from .invariants import spread
from .moved_rows import move_rows
from .nontemporal_stores import lies_along, reads_scratch, to_line
from .short_rows import row_dims, short_rows
from .unroll_and_jam import jammed
from .vector_loop import vector_loop
from .widths import are_chains, compares_positions, constants, is_spread, may_be_cut, packed, work

_FREE = frozenset({"tt.bitcast", "arith.bitcast"})
_LONG_ROW = 16 * CACHE_LINE
_STORED_ROW = 128 * CACHE_LINE
"""Bytes of a row in scratch that processors have written when its beginning is read again: vectors that start anywhere wait for
stores that they lie across, and those for lines of the results before them."""
_LONG = 40
"""The most instructions of a loop's body that is unrolled over several vectors."""
_REGISTERS = 24
"""The most constants for which two vectors at a time leave registers for values."""
_SHORTEST = 16  # bytes of the shortest store that bypasses the caches


class LoopNests:
    """Emits the loop nests of one function."""

    def __init__(
        self, evaluator: Evaluator, is_read_later: Callable[[Node], bool], unread: Callable[[Node, Bound], bool]
    ) -> None:
        """Begins the nests of a function.

        `is_read_later`: whether a later nest reads the node; `unread`: whether it is never read beyond the bound.
        """
        self.ev = evaluator
        self.is_read_later = is_read_later
        self.unread = unread
        self.streaming = False  # the kernel moves more than the caches hold
        self.rows_apart = False  # other work lies between the rows that a thread writes
        self._origins: dict[int, tuple[Node, Node]] = {}

    # -- helpers ------------------------------------------------------------

    def elements(self, nodes: Sequence[Node], dim: int | None = None) -> set[str]:
        """Returns the element types that decide the vector width: those of memory accesses and arithmetic, not of addresses.

        dim: along which vectors lie; what does not vary along it are numbers.
        """
        found: set[str] = set()
        stack = [(node, dim) for node in nodes]
        seen: set[int] = set()
        while stack:
            node, along = stack.pop()
            if id(node) in seen or (along is not None and along not in self.ev.depends(node)):
                continue
            seen.add(id(node))
            kept = self.ev.replacement.get(id(node))
            here = node if kept is None or kept[2] else kept[1]
            match here:
                case Load():
                    found.add(here.elem)
                    if here.pointers.rest is not None and reads_memory(here.pointers.rest):
                        stack.append((here.pointers.rest, along))
                case Map():
                    if here.elem not in ("i1", "ptr") and here.op != JOINED:
                        found.add(here.elem)
                    halved = here.op in (LOW, HIGH) and isinstance(here.operands[0], Load)  # two registers of 64-bit integers
                    stack.extend([] if halved else [(operand, along) for operand in here.operands])
                case View():
                    below = None if along is None else next((s for s, d in enumerate(here.dims) if d == along), None)
                    stack.append((here.source, below))
                case Splat() | Affine() | Stored() | Flattened():
                    if here.elem not in ("i1", "i64", "ptr"):
                        found.add(here.elem)
        return found or {"f32"}

    def mark_prefetches(self, nodes: Sequence[Node], spilled: Sequence[Node]) -> None:
        """Marks the loads that prefetch the next row, in the last nest that reads a row.

        The hardware alone does not overlap the arithmetic of a row with its memory traffic, but for some processors in one pass
        over rows. What is below a spilled value is not read again.
        """
        self.ev.prefetching, self.ev.f.divides_beside = set(), has_room(self.ev, nodes)
        stack = [(node, False, False) for node in nodes]
        below = {id(node) for node in spilled}
        seen: set[tuple[int, bool, bool]] = set()
        one_pass = not spilled
        while stack:
            node, last, shared = stack.pop()  # shared: by all rows
            last = last or id(node) in below
            one_pass = one_pass and (shared or (not isinstance(node, Stored) and id(node) not in self.ev.replacement))
            if (id(node), last, shared) in seen:
                continue
            seen.add((id(node), last, shared))
            match node:
                case Load():
                    offset = node.pointers.offset
                    starts_anywhere = node.pointers.base.operand() not in self.ev.arguments
                    # not the same row in every program
                    moving = node.pointers.rest is None and (starts_anywhere or not is_constant(offset.base))
                    far = self.streaming or node.shape[-1] * memory_size(node.elem) >= _LONG_ROW
                    if moving and far and (last or not self._is_read_later(node)):
                        self.ev.prefetching.add(id(node))
                case Map():
                    stack.extend((operand, last, shared) for operand in node.operands)
                case View():
                    stack.append((node.source, last, shared or is_spread(node)))
        if one_pass and self.ev.target.follows_streams:
            self.ev.prefetching = set()

    def reused_values(self, nodes: Sequence[Node], shape: tuple[int, ...]) -> list[Map]:
        """Returns the expensive values inside the nest that a later nest reads again, outermost first."""
        found: list[Map] = []
        seen: set[int] = set()

        def walk(node: Node) -> None:
            if id(node) in seen or id(node) in self.ev.replacement:
                return
            seen.add(id(node))
            if isinstance(node, Map):
                free = node.op in _FREE and isinstance(node.operands[0], Map) and self._is_read_later(node.operands[0])
                if node.shape == shape and not free and self._is_read_later(node) and cost(node) > 6:
                    found.append(node)
                    return
                for operand in node.operands:
                    walk(operand)
            elif isinstance(node, View):
                walk(node.source)

        for node in nodes:
            walk(node)
        return found

    def _is_read_later(self, node: Node) -> bool:
        return self.is_read_later(self._origins.get(id(node), (node, node))[1])

    def spill(self, node: Node, memory: Stored, bounds: Sequence[Bound]) -> None:
        """Makes later nests read the node from the scratch it was written to, within the bounds."""
        origin = self._origins.get(id(node), (node, node))[1]
        if origin is not node:  # the nest was flattened
            memory = Stored(origin.shape, origin.elem, memory.pointer, dense(origin.shape), memory.memory)
        self.ev.replacement[id(origin)] = (origin, memory, tuple(bounds))

    def flattened(self, shape: tuple[int, ...], nodes: Sequence[Node]) -> Flattener | None:
        """Returns a rewriter of a deep nest over the shape as one loop; None where a nest of loops is as good."""
        if not is_deep(shape, lambda: self.ev.lanes_for(*self.elements(nodes))):
            return None
        self.materialize_operands(nodes, flat=True)
        return Flattener(self.ev.replacement, shape, self._origins, self.materialize, self.ev.lines)

    def materialize_operands(self, nodes: Sequence[Node], flat: bool = False) -> None:
        """Evaluates in nests of their own the operands that would be slow inside.

        Those are transposed tiles (element by element), and values on fewer dimensions than the nest that are
        expensive or work on wider elements (once per visit instead of once per element). flat: the nest is one loop
        over positions. Patterns of positions cost next to nothing there, whatever their elements.
        """
        stack = list(nodes)
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self.ev.replacement:
                continue
            seen.add(id(node))
            if isinstance(node, Map):
                stack.extend(node.operands)
            elif transposed_load(self.ev, node) is not None:
                self.ev.replacement[id(node)] = (node, self.materialize(node), ())
            elif (across := transposed_source(self.ev, node)) is not None:
                rows = self.materialize(across) if isinstance(across, Map) else across
                self.ev.replacement[id(node)] = (node, transpose_scratch(self.ev, rows), ())
            elif isinstance(node, View):
                source = node.source
                wider = is_spread(node)
                alone = isinstance(source, Map) and wider and math.prod(source.shape) > 1
                free = compares_positions(source) or (flat and not reads_memory(source))
                narrows = alone and self._narrows(source) and not free
                if alone and (cost(source) > 10 or narrows):
                    if id(source) not in self.ev.replacement:
                        self.ev.replacement[id(source)] = (source, self.materialize(source), ())
                else:
                    stack.append(source)

    def _narrows(self, node: Node) -> bool:
        """Whether the node works on wider elements than its result, and would make a nest take fewer lanes at a time."""
        return self.ev.lanes_for(*self.elements([node])) < self.ev.lanes_for(node.elem)

    def unroll(self, nodes: Sequence[Node], vectors: int, limit: int = 4) -> int:
        """Returns the unroll factor of a loop over `vectors` vectors; 1 where the loop is too short for it to pay."""
        found = limit if work(nodes) <= 12 else 1 if self._is_long(nodes) else 2
        return found if vectors > limit or found >= vectors else 1

    def lanes(self, nodes: Sequence[Node], dim: int | None = None, size: int = 0) -> int:
        """Returns the elements that an iteration takes at once: a vector register, or two where the body is long.

        The instructions of two alternate, which hides latencies that reach beyond a core's out-of-order window. Where registers
        are few, shorter bodies do, too, along dimensions of a `size` that is long enough."""
        lanes = self._vector(nodes, dim)
        if self._may_alternate(nodes):
            return 2 * lanes if self._is_long(nodes) else lanes
        return 2 * lanes if self.alternates(nodes, size // lanes) else lanes

    def alternates(self, nodes: Sequence[Node], vectors: int) -> bool:
        """Whether two vectors at a time are better although registers are few: constants lie in memory then."""
        return self.ev.target.registers < 32 and are_chains(nodes, vectors, self.elements(nodes))

    def _vector(self, nodes: Sequence[Node], dim: int | None = None) -> int:
        """Returns the elements that fill a vector register."""
        return self.ev.lanes_for(*self.elements(nodes, dim))

    def _may_alternate(self, nodes: Sequence[Node]) -> bool:
        return self.ev.target.registers >= 32 and constants(nodes) <= _REGISTERS

    def _pieces(
        self, nodes: Sequence[Node], shape: tuple[int, ...], inner: int, n: int, bounds: Sequence[Bound], past: bool
    ) -> list[Piece]:
        """Returns the pieces in which rows are visited one after the other; none where they are not cut."""
        if past or not may_be_cut(self.ev, nodes):
            return []
        found = pieces_of_rows(self.ev, nodes, inner, shape[inner], n, bounds)
        return found if found and self._may_start_anywhere(nodes, shape, inner) else []

    def _is_long(self, nodes: Sequence[Node]) -> bool:
        return work(nodes) > _LONG

    def outer(self, stack: ExitStack, shape: tuple[int, ...], inner: int | Sequence[int],
              bounds: Sequence[Bound], nodes: Sequence[Node]) -> list[Coordinate | None]:  # fmt: skip
        """Opens loops over all dimensions but `inner`, one or several; hoists before each."""
        inside = [inner] if isinstance(inner, int) else inner
        coordinates: list[Coordinate | None] = [None] * len(shape)
        for d, size in enumerate(shape):
            if d in inside:
                continue
            count, implied = self.ev.extent(size, bounds, d)
            self.ev.hoist(nodes, tuple(coordinates))
            coordinates[d] = stack.enter_context(self.ev.dimension(size, count, implied))
        self.ev.hoist(nodes, tuple(coordinates))
        return coordinates

    @staticmethod
    def inner_dim(shape: tuple[int, ...]) -> int:
        """Returns the vector dimension: the last one whose extent is not 1."""
        for d in range(len(shape) - 1, -1, -1):
            if shape[d] > 1:
                return d
        return len(shape) - 1

    # -- elementwise nests ----------------------------------------------------

    def nest(self, shape: tuple[int, ...], bounds: Sequence[Bound], nodes: Sequence[Node],
             effect: Callable[[Coordinates, V | None], None],
             start: Callable[[Coordinates], V] | None = None, beyond: bool = False,
             whole: bool = False, into: Sequence[Stored] = (), stored: int = 0) -> None:  # fmt: skip
        """Runs `effect` at every coordinate within the bounds; spills values that later nests read.

        `start`: returns where along the vector dimension, which is missing in the coordinates, whole vectors begin.
        beyond: the last vector may reach beyond the bounds.
        whole: vectors without masks are worth code of their own, however long it is.
        into: the scratch that the effect writes. stored: the bytes of an element that it stores, if it does.
        """
        ev = self.ev
        self.materialize_operands(nodes)
        spilled = [(node, ev.scratch(node.shape, node.elem)) for node in self.reused_values(nodes, shape)]
        self.mark_prefetches(nodes, [node for node, _ in spilled])
        inner = self.inner_dim(shape)
        if not spilled and start is None and not into:
            n = min(self.lanes(nodes, inner), shape[inner])
            jam = jammed(ev, shape, inner, nodes, n, -(-n // self._vector(nodes, inner)))
            if jam is not None:
                ev.prefetching = set()
                with ExitStack() as stack:
                    around = self.outer(stack, shape, (jam.row, inner), bounds, nodes)
                    jam.visit(around, bounds, effect, not whole and self._is_long(nodes) and ev.target.has("avx512f"))
                return
        with ExitStack() as stack:
            coordinates = self.outer(stack, shape, inner, bounds, nodes)
            n = min(self.lanes(nodes, inner, shape[inner]), shape[inner])
            alternate = self.alternates(nodes, shape[inner] // self._vector(nodes, inner))
            rest = n // 2 if alternate else n
            if 2 * n <= shape[inner] and divides(self.ev, nodes) and not self._is_long(nodes) and self._may_alternate(nodes):
                n = 2 * n  # divisions of two vectors share a test; what fills up the last vector might fail it
            together = packed(self.ev, nodes, n, stored) if not spilled and n * 4 <= shape[inner] else 1
            n *= together
            spread(ev, nodes, tuple(coordinates), n)

            def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
                here = tuple(coordinate if d == inner else c for d, c in enumerate(coordinates))
                for node, memory in spilled:
                    ev.write_scratch(memory, here, ev.at(node, here, mask))
                effect(here, mask)
                return []

            if n == 1:
                count, implied = ev.extent(shape[inner], bounds, inner)
                with ev.dimension(shape[inner], count, implied) as coordinate:
                    body(coordinate, None, [])
            else:
                first = ZERO if start is None else start(tuple(coordinates))
                unroll = 1 if alternate else max(1, self.unroll(nodes, shape[inner] // n) // together)
                if stored and start is None and not spilled and (pieces := self._pieces(nodes, shape, inner, n, bounds, whole)):

                    def within(coordinate: Coordinate, mask: V | None, piece: Piece) -> None:
                        here = tuple(coordinate if d == inner else c for d, c in enumerate(coordinates))
                        with known_in(ev, piece, here, coordinate.loop):
                            effect(here, mask)

                    visit_pieces(ev, pieces, ev.extent(shape[inner], bounds, inner)[1], n, unroll, rest, within)
                    return
                once = unroll == 1 and not whole and self._is_long(nodes) and ev.target.has("avx512f")  # masks are free
                vector_loop(ev, shape[inner], bounds, inner, n, unroll, body, (), first, beyond, once, rest)
            written = [*[memory for _, memory in spilled], *into]
            clear_unwritten(ev, written, coordinates, inner, bounds, rest)
        for node, memory in spilled:
            self.spill(node, memory, bounds)

    def store(self, pointers: Pointers, value: Node, mask: Node | None, streaming: bool) -> None:
        ev, f = self.ev, self.ev.f
        if not pointers.shape:
            self._store_scalar(pointers, value, mask)
            return
        bounds, rest = decompose_mask(mask)
        if not rest and copy_transposed(ev, pointers, value, bounds, streaming):
            return
        if not rest and move_rows(ev, self.outer, pointers, value, bounds):
            return
        rows = None if rest else short_rows(ev, pointers, value, bounds, self._vector([value]))
        if rows is not None and not rows.chooses and self._store_short_rows(pointers, value, bounds, streaming):
            return
        planes = None if rest else interleaved(ev, pointers, value, bounds)
        if planes is not None and not self.reused_values([value], pointers.shape) and (n := self._vector([value])) > 1:
            ev.prefetching = set()
            if ev.target.has_short_vectors and memory_size(pointers.pointee) == 1:
                n = ev.target.vector_bytes
            with ExitStack() as stack:
                planes.store(self.outer(stack, pointers.shape, planes.dims, bounds, planes.nodes), n)
            return
        if not bounds and pointers.rest is None and self._store_flat(pointers, value, mask, streaming):
            return
        if not rest and self._store_short_rows(pointers, value, bounds, streaming):
            return
        nodes = [value, *rest, *([] if pointers.rest is None else [pointers.rest])]
        is_of_halves = isinstance(value, Map) and value.op == JOINED and ev.target.has_short_vectors
        is_alone = is_of_halves and len(nodes) == 1 and are_alone(value, ev.replacement, ev.target)
        elem = "i32" if is_of_halves else pointers.pointee  # whose lanes fill a register
        anchor = Load(pointers.shape, elem, pointers, None, None)  # hoists the row pointer
        size, align, inner = memory_size(pointers.pointee), alignment_of(pointers), self.inner_dim(pointers.shape)
        contiguous = ev.is_affine(pointers, inner) and stride_of(pointers, inner) == 1
        past = streaming and contiguous and not rest and self._fills_lines(pointers, inner)
        # The end of a row that begins anywhere is written to the caches, in a line of which the rest would go past them.
        is_cut = len(pointers.shape) > 1 and any(bound.dim == inner for bound in bounds)
        in_lines = not self.rows_apart and not is_cut
        to_lines = past and self.rows_apart and size * pointers.shape[inner] >= _LONG_ROW
        to_lines = to_lines and self._may_start_anywhere(nodes, pointers.shape, inner)
        if to_lines and size * pointers.shape[inner] < _STORED_ROW and reads_scratch(ev, nodes):
            to_lines = False

        def effect(here: Coordinates, tail: V | None) -> None:
            guard = tail
            for part in rest:
                condition = ev.at(part, here, tail)
                n = max(lanes(condition.type), 1 if guard is None else lanes(guard.type))
                condition = f.splat(condition, n)
                guard = condition if guard is None else f.binary("and", f.splat(guard, n), condition)
            dim = next((d for d, c in enumerate(here) if c is not None and c.lanes > 1), None)
            n = 1 if dim is None else here[dim].lanes  # type: ignore[union-attr]
            with within_registers(f, is_alone and not self.reused_values([value], pointers.shape)):
                data = to_memory(f, f.splat(ev.at(value, here, tail), n), pointers.pointee)
            if dim is None or (ev.is_affine(pointers, dim) and stride_of(pointers, dim) == 1):
                pointer = ev.pointer_at(pointers, here, dim)
                if dim is None:
                    self._guarded(guard, lambda: f.store(data, pointer, align))
                elif guard is None:
                    known = CACHE_LINE if to_lines else ev.s.multiple(ev.row_pointer(pointers, here, dim))
                    is_line = n * size >= CACHE_LINE or ev.target.has_short_vectors  # two of those, one after the other, are
                    in_whole_lines = to_lines or (is_line and known % CACHE_LINE == 0)
                    known = math.gcd(CACHE_LINE, n * size, known)
                    goes_past = past and known >= _SHORTEST and (in_whole_lines or in_lines)
                    f.store(data, pointer, known if goes_past else align, nontemporal=goes_past)
                elif only_first_lane(tail):
                    # LLVM 22 writes four bytes for a truncated 16-bit vector under a constant mask of one lane
                    only = None if guard is tail else f.extract(f.splat(guard, n), 0)
                    self._guarded(only, lambda: f.store(f.extract(data, 0), pointer, align))
                else:
                    store_lanes(f, data, pointer, f.splat(guard, n), align)
                return
            stride = stride_of(pointers, dim) if ev.is_affine(pointers, dim) else 0
            if are_few_apart(f.module, size, stride, [guard, tail], along(here, dim).at):
                store_apart(f, data, ev.pointer_at(pointers, here, dim), guard, stride, align)
                return
            addresses = ev.addresses(pointers, here, n, tail)
            on = const(True, vector("i1", n)) if guard is None else f.splat(guard, n)
            name = f"llvm.masked.scatter.{mangle(data.type)}.v{n}p0"
            f.module.declare(name, "void", [data.type, addresses.type, "i32", on.type])
            f.call(name, "void", [data, addresses, i32(align), on])

        first = partial(to_line, ev, pointers, bounds, inner) if to_lines else None
        self.nest(pointers.shape, bounds, [*nodes, anchor], effect, first, whole=past, stored=size)

    def _fills_lines(self, pointers: Pointers, inner: int) -> bool:
        """Whether a store's rows are a cache line at least, or lie side by side: a line whose rest another program writes would
        go to memory in parts."""
        extent = pointers.shape[inner]
        if memory_size(pointers.pointee) * extent >= CACHE_LINE:
            return True
        above = [dim for dim in range(inner) if pointers.shape[dim] > 1]
        if not above:
            return True  # a row by itself, which the next program goes on with
        return self.ev.is_affine(pointers, above[-1]) and 0 < stride_of(pointers, above[-1]) <= extent  # masks end rows earlier

    def _store_short_rows(self, pointers: Pointers, value: Node, bounds: Sequence[Bound], streaming: bool) -> bool:
        """Stores several rows at a time, if they are short; what is evaluated first decides how many lanes there are."""
        if not row_dims(self.ev, pointers, bounds) or self.reused_values([value], pointers.shape):
            return False
        self.materialize_operands([value])
        rows = short_rows(self.ev, pointers, value, bounds, self._vector([value]))
        if rows is None:
            return False
        self.ev.prefetching, rows.past = set(), streaming
        with ExitStack() as stack:
            rows.store(self.outer(stack, pointers.shape, (rows.dims.along, *rows.dims.inner), bounds, rows.nodes))
        return True

    def _store_flat(self, pointers: Pointers, value: Node, mask: Node | None, streaming: bool) -> bool:
        flat = self.flattened(pointers.shape, [value] if mask is None else [value, mask])
        if flat is None:
            return False
        addresses, data = flat.pointers(pointers), flat.node(value)
        on = None if mask is None else flat.node(mask)
        if addresses is None or data is None or (mask is not None and on is None):
            return False
        self.store(addresses, data, on, streaming)
        return True

    def _may_start_anywhere(self, nodes: Sequence[Node], shape: tuple[int, ...], inner: int) -> bool:
        """Whether vectors need not start at multiples of their length, so that the last one may reach beyond the row.

        That holds if nothing is spilled to scratch on the way, and what is read from scratch lies along the row,
        after which there is room.
        """
        self.materialize_operands(nodes)
        return not self.reused_values(nodes, shape) and all(lies_along(self.ev, node, inner) for node in nodes)

    def _guarded(self, guard: V | None, action: Callable[[], None]) -> None:
        if guard is None:
            action()
        else:
            with self.ev.f.when(guard):
                action()

    def _store_scalar(self, pointers: Pointers, value: Node, mask: Node | None) -> None:
        ev, f = self.ev, self.ev.f
        align = alignment_of(pointers)
        pointer = ev.pointer_at(pointers, (), None)
        data = to_memory(f, ev.at(value, ()), pointers.pointee)
        self._guarded(ev.at(mask, ()) if mask is not None else None, lambda: f.store(data, pointer, align))

    def materialize(self, node: Node, into: Stored | None = None, bounds: Sequence[Bound] = ()) -> Stored:
        """Evaluates a block into scratch, `into` or a new one, and returns it."""
        ev = self.ev
        memory = ev.scratch(node.shape, node.elem) if into is None else into
        if not node.shape:
            ev.write_scratch(memory, (), ev.at(node, ()))
            return memory
        transposed = transposed_load(self.ev, node)
        if transposed is not None and memory.strides[-1] == 1:
            transpose(ev, transposed, memory, self.streaming, [b.limit for b in bounds if b.dim == 1])
            return memory
        if not bounds and self._copy_flat(node, memory):
            return memory
        if isinstance(node, Load) and id(node) not in ev.replacement and self._is_shuffled(node):
            self._in_runs(node, memory, bounds)
            return memory
        self.copy([node], [memory], bounds)
        return memory

    def _copy_flat(self, node: Node, memory: Stored) -> bool:
        flat = self.flattened(node.shape, [node])
        line = None if flat is None else flat_memory(memory)
        data = None if flat is None or line is None else flat.node(node)
        if data is None or line is None:
            return False
        self.copy([data], [line], ())
        return True

    def copy(self, nodes: Sequence[Node], memories: Sequence[Stored], bounds: Sequence[Bound]) -> None:
        """Evaluates blocks of one shape into scratch, all of them at a position before one is written there."""
        ev, targets = self.ev, [written_apart(self.ev, *each) for each in zip(nodes, memories, strict=True)]

        def write(here: Coordinates, tail: V | None) -> None:
            for target, value in zip(targets, [ev.at(node, here, tail) for node in nodes], strict=True):
                ev.write_scratch(target, here, value)

        # Values that were spilled only within bounds may be loaded again.
        spilled = [found for found, (_, _, within) in ev.replacement.items() if not within]
        beyond = bool(bounds) and not any(reads_memory(node, scratch=False, kept=spilled) for node in nodes)
        self.nest(nodes[0].shape, bounds, nodes, write, beyond=beyond, into=memories)

    def _is_shuffled(self, load: Load) -> bool:
        """Whether rows are read through computed offsets, such as `column % n`, which are the same in every row."""
        pointers, inner = load.pointers, self.inner_dim(load.shape)
        rest = pointers.rest
        if rest is None or len(load.shape) < 2 or pointers.offset.coefficients[inner] is not None:
            return False
        whole = memory_size_of(pointers.unit) == memory_size(pointers.pointee)
        return whole and self.ev.depends(rest) == {inner} and not reads_memory(rest)

    def _in_runs(self, load: Load, memory: Stored, bounds: Sequence[Bound]) -> None:
        """Copies rows whose computed offsets are mostly neighbours, which is tested once, for all rows."""
        ev, f = self.ev, self.ev.f
        straight, holds = self.straightened(load, self.inner_dim(load.shape))
        run, apart, done = f.label("run"), f.label("apart"), f.label("copied")
        f.cond_branch(holds, run, apart)
        for label, node in ((run, straight), (apart, load)):
            f.start(label)
            with ev.scope():
                self.copy([node], [memory], bounds)
            f.branch(done)
        f.start(done)

    def straightened(self, load: Load, dim: int) -> tuple[Load, V]:
        """Returns the load with computed offsets along `dim` in affine form, and whether they are: neighbours in memory.

        The offsets must depend on nothing else.
        """
        ev, f = self.ev, self.ev.f
        pointers, extent = load.pointers, load.shape[dim]
        rest = pointers.rest
        assert rest is not None
        self.materialize_operands([rest])
        n = min(ev.lanes_for("i64"), extent)

        def at(coordinate: Coordinate) -> Coordinates:
            return tuple(coordinate if d == dim else None for d in range(len(load.shape)))

        first = ev.s.to_i64(ev.at(rest, at(Coordinate(ZERO))))
        step = ev.s.constant(1)
        with f.loop(0, extent, n, [TRUE]) as state, ev.scope():
            offsets = f.splat(ev.at(rest, at(Coordinate(state.index, 0, n))), n)
            offsets = f.cast("sext", offsets, vector("i64", n))
            indices = f.binary("add", f.splat(state.index, n), f.iota(n, "i64"))
            expected = f.binary("add", f.splat(first, n), f.binary("mul", indices, f.splat(step, n)))
            same = f.icmp("eq", offsets, expected)
            together = same if n == 1 else f.intrinsic("vector.reduce.and", [same], "i1")
            state.next = [f.binary("and", state.values[0], together)]
        coefficients = tuple(step if d == dim else c for d, c in enumerate(pointers.offset.coefficients))
        offset = Affine(load.shape, "i64", ev.s.add(pointers.offset.base, first), coefficients)
        return replace(load, pointers=replace(pointers, offset=offset, rest=None)), state.results[0]

    def argument_of(self, node: Node) -> V:
        """Returns the scalar of a rank-0 node; UnsupportedError for a block."""
        if node.shape:
            raise UnsupportedError(f"host lowering: a scalar was expected, not a block of shape {node.shape}")
        return self.ev.at(node, ())
