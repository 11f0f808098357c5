"""Evaluates lazy block nodes at coordinates, and opens the loops that supply the coordinates.

A coordinate is a loop index (plus a constant from unrolling), either one position or the first of `lanes` consecutive ones.
Values are cached by what they depend on, so work that does not vary in the inner loop is hoisted by evaluating it before
that loop opens: nothing later in the compiler would do it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ....promotion.errors import InternalError
from ...target import CACHE_LINE, HostTarget
from ..elementwise import (
    from_memory,
    memory_element,
    memory_size,
    register_element,
)
from ..ir import Function
from ..masks.accesses import load_lanes
from ..op_lines import NodeLines
from ..values import FALSE, NULL, TRUE, V, i64, int_vector, integer, is_integer, is_zero, lanes, vector, zero
from .codes.fours import emitted
from .loops.coordinates import (
    ORIGIN,
    Bound,
    Coordinate,
    Coordinates,
    alignment_of,
    along,
    decompose_mask,
    dependencies,
    memory_size_of,
    reads_memory,
    stride_of,
)
from .loops.flat import is_deep, read_flattened
from .masks.known_conditions import always, never
from .masks.lane_masks import compared_lanes, lane_mask, only_first_lane
from .memory.filled_rows import filled_row, masked_row
from .memory.gathers import are_few_apart, gather, load_apart, load_first
from .memory.short_strides import MAX_IN_PIECES, are_in_pieces, load_in_pieces
from .nodes import Affine, Flattened, Load, Map, Node, Pointers, Shape, Splat, Stored, View
from .scalars import ZERO, Scalars, is_constant, wrapped
from .scratch.memory import Scratch, read_elements, write_elements


class Evaluator:
    """Emits block values into one LLVM function."""

    def __init__(self, function: Function, target: HostTarget) -> None:
        self.f = function
        self.s = Scalars(function)
        self.target = target
        self.replacement: dict[int, tuple[Node, Stored, tuple[Bound, ...]]] = {}
        self.kept: dict[int, Stored] = {}  # of these replacements, blocks that are zero beyond the bounds
        self._values: list[dict[tuple[object, ...], V]] = [{}]
        self.implied: dict[int, set[str]] = {}
        self._dependencies: dict[int, frozenset[int]] = {}
        self._alive: list[Node] = []  # keeps ids of cached nodes unique
        self.lines = NodeLines()
        self.prefetching: set[int] = set()  # loads that fetch the next row
        self.arguments: set[str] = set()  # pointers that are unmodified arguments
        self.memory = Scratch(function)
        self._reserved: dict[str, tuple[str, int]] = {}  # address of scratch -> its elements
        self._loops = 0
        self.assumed: set[tuple[object, ...]] = set()  # conditions that hold where code is being emitted, by `key_of`
        self.denied: set[tuple[object, ...]] = set()  # and those that do not

    # -- scopes -----------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        self._values.append({})
        with self.s.scope():
            yield
        self._values.pop()

    def depends(self, node: Node) -> frozenset[int]:
        found = self._dependencies.get(id(node))
        if found is None:
            found = dependencies(node, self.depends)  # every node once: blocks share operands in long chains
            self._dependencies[id(node)] = found
            self._alive.append(node)
        return found

    def lanes_for(self, *elems: str) -> int:
        """Returns the lanes that fill a vector register with the widest element in use."""
        widest = max((memory_size(e) if e not in ("bf16", "f16") else 4) for e in elems)
        return max(1, self.target.vector_bytes // widest)

    @contextmanager
    def assuming(
        self, conditions: set[tuple[object, ...]], loop: int, limits: set[str], denied: Iterable[tuple[object, ...]] = ()
    ) -> Iterator[None]:
        """Opens a scope in which conditions hold and others do not, by `key_of`, and a loop goes no further than limits."""
        before = self.assumed, self.denied, self.implied[loop]
        self.assumed, self.denied = self.assumed | conditions, self.denied.union(denied)
        self.implied[loop] = self.implied[loop] | limits
        with self.scope():
            yield
        self.assumed, self.denied, self.implied[loop] = before

    # -- nodes at coordinates ----------------------------------------------

    def key_of(self, node: Node, coordinates: Coordinates) -> tuple[object, ...]:
        """Returns what decides the node's value at the coordinates."""
        return (id(node), *((d, coordinates[d]) for d in sorted(self.depends(node))))

    def at(self, node: Node, coordinates: Coordinates, mask: V | None = None) -> V:
        """Returns the node's value at the coordinates: a vector if it varies along the vector coordinate, else a scalar."""
        key = self.key_of(node, coordinates)
        for table in reversed(self._values):
            if key in table:
                return table[key]
        here = self.f.location
        self.f.location = self.lines.of(node, here)
        value = self._at(node, coordinates, mask)
        self.f.location = here
        self._alive.append(node)
        if len(key) > 1 or not isinstance(node, Stored):  # a block of one element may be written before it is read again
            self._values[-1][key] = value
        return value

    def _at(self, node: Node, coordinates: Coordinates, mask: V | None) -> V:
        stored = self._usable_replacement(node, coordinates)
        if stored is not None:
            return read_elements(self.s, stored, coordinates)
        match node:
            case Splat():
                return self.s.address(node.value) if node.elem == "ptr" else node.value
            case Pointers():
                return self._addresses_of(node, coordinates, mask)
            case Affine():
                return self._affine(node, coordinates)
            case Map() if always(self, node, coordinates):
                return TRUE
            case Map(op="arith.cmpi") if never(self, node, coordinates):
                return FALSE
            case Map(op="arith.select") if always(self, node.operands[0], coordinates):
                return self.at(node.operands[1], coordinates, mask)
            case Map(op="arith.select") if never(self, node.operands[0], coordinates):
                return self.at(node.operands[2], coordinates, mask)
            case Map(op="arith.cmpi") if (compared := compared_lanes(self.s, self.target, node, coordinates)) is not None:
                return compared
            case Map():
                return emitted(self.f, node, [self.at(operand, coordinates, mask) for operand in node.operands])
            case View():
                return self.at(node.source, self.through(node, coordinates), mask)
            case Load():
                return self._load(node, coordinates, mask)
            case Stored():
                return read_elements(self.s, node, coordinates)
            case Flattened():
                return read_flattened(self.s, node, along(coordinates, 0))
        raise InternalError(f"host lowering: cannot evaluate {type(node).__name__} of {node.elem}")

    @staticmethod
    def through(node: View, coordinates: Coordinates) -> Coordinates:
        return tuple(ORIGIN if d is None else coordinates[d] for d in node.dims)

    def source_of(self, view: View) -> Node:
        """Returns what a view reads: the copy in scratch where its source was kept, as its memory may have changed."""
        found = self.replacement.get(id(view.source))
        return view.source if found is None or found[2] else found[1]

    def _usable_replacement(self, node: Node, coordinates: Coordinates) -> Stored | None:
        found = self.replacement.get(id(node))
        if found is None:
            return None
        for bound in found[2]:
            coordinate = coordinates[bound.dim]
            if coordinate is None or bound.limit.operand() not in self.implied.get(coordinate.loop, ()):
                return None
        return found[1]

    def _affine(self, node: Affine, coordinates: Coordinates) -> V:
        total = node.base
        stretch: tuple[V, int] | None = None
        for coefficient, coordinate in zip(node.coefficients, coordinates, strict=True):
            if coefficient is None or coordinate is None:
                continue
            position = self.s.add(coordinate.at, self.s.constant(coordinate.offset))
            total = self.s.add(total, self.s.mul(coefficient, position))
            if coordinate.lanes > 1:
                stretch = (coefficient, coordinate.lanes)
        narrow = register_element(node.elem)
        if stretch is None:
            return total if narrow == "i64" else self.s.truncated(total, narrow)
        coefficient, n = stretch
        if is_constant(coefficient):
            steps = int_vector([wrapped(coefficient.number * i, narrow) for i in range(n)], narrow)
        else:
            step = self.f.splat(self.s.truncated(coefficient, narrow), n)
            steps = self.f.binary("mul", step, self.f.iota(n, narrow))
        return self.f.binary("add", self.f.splat(self.s.truncated(total, narrow), n), steps)

    # -- memory -------------------------------------------------------------

    def row_pointer(self, pointers: Pointers, coordinates: Coordinates, skip: int | None) -> V:
        """Returns the address of the element at the coordinates with dimension `skip` at 0. Offsets must be affine along it."""
        offset = pointers.offset
        varying = self.depends(pointers)
        key = ("row", str(id(pointers)), *(
            f"{c.at.operand()}+{c.offset}" if d != skip and c is not None and d in varying else "-"
            for d, c in enumerate(coordinates)
        ))  # fmt: skip
        found = self.s.known(key)
        if found is not None:
            return found
        total = offset.base
        for d, (coefficient, coordinate) in enumerate(zip(offset.coefficients, coordinates, strict=True)):
            if d == skip or coefficient is None or coordinate is None:
                continue
            position = self.s.add(coordinate.at, self.s.constant(coordinate.offset))
            total = self.s.add(total, self.s.mul(coefficient, position))
        if pointers.rest is not None:
            total = self.s.add(total, self.s.to_i64(self.at(pointers.rest, coordinates)))
        variable, fixed = self.s.parts(total)
        pointer = self.f.gep(self._displaced(pointers.base, variable, pointers.unit), fixed, pointers.unit)
        distance = memory_size_of(pointers.unit) * self.s.multiple(total)
        known = math.gcd(pointers.alignment, distance or pointers.alignment)
        self.s.assume_multiple(pointer, known)
        self._alive.append(pointers)
        return self.s.remember(key, pointer)

    def _displaced(self, base: V, offset: V, unit: str) -> V:
        """Returns an address, the same one for the same offset: constants that are added to it fold into addressing modes."""
        key = ("displaced", base.operand(), offset.operand(), unit)
        return self.s.known(key) or self.s.remember(key, self.f.gep(base, offset, unit))

    def _vector_dim(self, coordinates: Coordinates) -> int | None:
        for d, coordinate in enumerate(coordinates):
            if coordinate is not None and coordinate.lanes > 1:
                return d
        return None

    def _row_or_other(self, node: Load, coordinates: Coordinates, dim: int, conditions: Sequence[V],
                      step: int = 1) -> tuple[V | None, list[V]]:  # fmt: skip
        """Returns the address of a row, or where conditions on all of it do not hold, of another one, and what is left of the
        conditions: those on lanes, if the other row holds the load's `other`. None if there is no such condition or row.

        Where nothing of it is read, that other row keeps away from addresses without memory, which processors take hundreds of
        cycles for although no lane is read.
        """
        whole = [condition for condition in conditions if lanes(condition.type) == 1]
        filled = filled_row(self.f, node, dim, step) if whole else None
        left = list(conditions) if filled is None else [each for each in conditions if lanes(each.type) > 1]
        if whole and filled is None:
            filled = masked_row(self.f, node, dim, step)
        if filled is None:
            return None, left
        row = self.row_pointer(node.pointers, coordinates, dim)
        key = ("row or other", row.operand(), filled.operand(), *[condition.operand() for condition in whole])
        found = self.s.known(key)
        if found is None:
            condition = self.all_of(whole)
            assert condition is not None
            found = self.s.remember(key, self.f.select(condition, row, filled))
        return found, left

    def pointer_at(self, pointers: Pointers, coordinates: Coordinates, dim: int | None, row: V | None = None) -> V:
        """Returns the scalar address at the coordinates; the index along `dim` is added last, to fold into addressing modes.

        row: the address with that index at 0, if it is another than that of the row at the coordinates.
        """
        row = self.row_pointer(pointers, coordinates, dim) if row is None else row
        if dim is None:
            return row
        coefficient, coordinate = pointers.offset.coefficients[dim], coordinates[dim]
        if coefficient is None or coordinate is None:
            return row
        el = pointers.unit
        key = ("element", row.operand(), coordinate.at.operand(), coefficient.operand())
        moving = self.s.known(key)
        if moving is None:
            moving = self.f.gep(row, self.s.mul(coefficient, coordinate.at), el)
            self.s.remember(key, moving)
        if coordinate.offset == 0:
            return moving
        return self.f.gep(moving, self.s.mul(coefficient, self.s.constant(coordinate.offset)), el)

    def _conditions(
        self, mask: Node | None, coordinates: Coordinates, tail: V | None, beside: int | None = None
    ) -> list[V]:
        """Returns the parts of a mask that the surrounding loops do not guarantee, each an i1 or a vector of i1.

        beside: but for those that vary along a dimension.
        """
        bounds, rest = decompose_mask(mask)
        if beside is not None:
            bounds = [bound for bound in bounds if bound.dim != beside]
            rest = [part for part in rest if beside not in self.depends(part)]
        conditions: list[V] = []
        for bound in bounds:
            coordinate = coordinates[bound.dim]
            if coordinate is None or bound.limit.operand() in self.implied.get(coordinate.loop, ()):
                continue
            position = self.s.add(coordinate.at, self.s.constant(coordinate.offset))
            if coordinate.lanes == 1:
                is_known = is_constant(position) and is_constant(bound.limit)
                if not is_known or integer(position) >= integer(bound.limit):
                    conditions.append(self.f.icmp("slt", position, bound.limit))
            else:
                conditions.append(self.lane_mask(position, bound.limit, coordinate.lanes))
        rest = [part for part in rest if not self.assumed or not always(self, part, coordinates)]
        conditions += [self.at(part, coordinates, tail) for part in rest]
        return [each for each in conditions if each != TRUE]  # which is known of one position, as of a column

    def all_of(self, conditions: Sequence[V]) -> V | None:
        """Returns whether all conditions hold; None if there are none."""
        result: V | None = None
        for condition in conditions:
            if result is None:
                result = condition
            else:
                n = max(lanes(result.type), lanes(condition.type))
                result = self.f.binary("and", self.f.splat(result, n), self.f.splat(condition, n))
        return result

    def lane_mask(self, position: V, limit: V, n: int) -> V:
        """Returns the mask of lanes whose position is below the limit."""
        return lane_mask(self.s, self.target, position, limit, n)

    def _load(self, node: Load, coordinates: Coordinates, tail: V | None) -> V:
        pointers = node.pointers
        el, size, align = memory_element(pointers.pointee), memory_size(pointers.pointee), alignment_of(pointers)
        if node.mask is not None and never(self, node.mask, coordinates):
            other = None if node.other is None else self.at(node.other, coordinates, tail)
            return zero(register_element(node.elem)) if other is None else other
        dim = self._vector_dim(coordinates)
        if dim is not None and dim not in self.depends(node):
            dim = None
        conditions = self._conditions(node.mask, coordinates, tail)
        n = 1 if dim is None else along(coordinates, dim).lanes
        affine = dim is None or self.is_affine(pointers, dim)
        step = pointers.offset.coefficients[dim] if affine and dim is not None else None
        run = stride_of(pointers, dim) if affine and dim is not None else 0
        row = None
        if dim is not None and run == 1:
            row, conditions = self._row_or_other(node, coordinates, dim, conditions)
        guard = self.all_of(conditions)
        if affine and step is None and (guard is None or lanes(guard.type) == 1):
            raw = self._load_scalar(pointers, coordinates, guard, el, align)
            return self._fill(from_memory(self.f, raw, node.elem), guard, node, coordinates, tail)
        type_ = vector(el, n)
        if tail is not None and lanes(tail.type) == n:
            guard = tail if guard is None else self.f.binary("and", self.f.splat(guard, n), tail)
        if run in (1, -1):
            pointer = self.pointer_at(pointers, coordinates, dim, row)
            if run == -1:
                pointer = self.f.gep(pointer, -(n - 1), el)
                on = None if guard is None else self.f.splat(guard, n)
                guard = None if on is None else self.f.shuffle(on, on, range(n - 1, -1, -1))
            if guard is None:
                if dim is not None and run == 1 and row is None and id(node) in self.prefetching:
                    following = self.f.gep(pointer, self._to_next_row(node, dim), el)
                    for line in range(0, n, max(1, CACHE_LINE // size)):
                        self.f.prefetch(self.f.gep(following, line, el), locality=2)
                raw = self.f.load(type_, pointer, align)
            elif only_first_lane(guard):
                raw = load_first(self.f, pointer, type_, align)
            else:
                raw = load_lanes(self.f, type_, pointer, self.f.splat(guard, n), align)
            if run == -1:
                raw = self.f.shuffle(raw, raw, range(n - 1, -1, -1))
                guard = None if guard is None else self.f.shuffle(guard, guard, range(n - 1, -1, -1))
        else:
            near = None if dim is None else self._load_strided(node, coordinates, dim, conditions, tail, type_, run)
            if near is not None:
                raw, guard = near
            else:
                raw = self._gather(pointers, coordinates, guard, n, tail)
        return self._fill(from_memory(self.f, raw, node.elem), guard, node, coordinates, tail)

    def _load_strided(
        self, node: Load, coordinates: Coordinates, dim: int, conditions: Sequence[V], tail: V | None, type_: str, step: int
    ) -> tuple[V, V | None] | None:
        """Returns elements a few apart, with those between or in pieces, and which are the block's; None for a gather."""
        module, n = self.f.module, lanes(type_)
        size, align = memory_size(node.pointers.pointee), alignment_of(node.pointers)
        if step < 2:
            return None
        other = step <= MAX_IN_PIECES
        row, conditions = self._row_or_other(node, coordinates, dim, conditions, step) if other else (None, conditions)
        guard = self.all_of(conditions)
        if tail is not None and lanes(tail.type) == n:
            guard = tail if guard is None else self.f.binary("and", self.f.splat(guard, n), tail)
        may_be_pieces = guard is None or node.shape[dim] > n or self.target.picks_lanes
        few_apart = are_few_apart(module, size, step, [guard, tail], along(coordinates, dim).at)
        if may_be_pieces and are_in_pieces(module, size, step, otherwise=not few_apart):
            on = None if guard is None else self.f.splat(guard, n)
            return load_in_pieces(self.f, self.pointer_at(node.pointers, coordinates, dim, row), on, type_, step, align), guard
        if few_apart:
            return load_apart(self.f, self.pointer_at(node.pointers, coordinates, dim, row), guard, type_, step, align), guard
        return None

    def _to_next_row(self, node: Load, dim: int) -> V:
        """Returns the elements from a row to the next one of the block, or of the next program; where that is not known, as
        if rows were contiguous."""
        above, offset = [d for d in range(dim) if node.shape[d] > 1], node.pointers.offset
        step = self.s.step(offset.base) if not above else stride_of(node.pointers, above[-1])
        if step and memory_size_of(node.pointers.unit) == memory_size(node.pointers.pointee):
            return i64(step)
        bounds, _ = decompose_mask(node.mask)
        return self.extent(node.shape[dim], bounds, dim)[0]

    def _fill(self, value: V, guard: V | None, node: Load, coordinates: Coordinates, tail: V | None) -> V:
        """Selects `other` where the mask is false. Without `other` those lanes are zero, as the load leaves them."""
        if guard is None or guard is tail or node.other is None:
            return value
        other = self.at(node.other, coordinates, tail)
        n = max(lanes(value.type), lanes(guard.type), lanes(other.type))  # one address may have many others
        fill = self.f.splat(other, n)
        if is_zero(fill):
            return value
        return self.f.select(guard if lanes(guard.type) == n else self.f.splat(guard, n), self.f.splat(value, n), fill)

    def _load_scalar(
        self, pointers: Pointers, coordinates: Coordinates, guard: V | None, el: str, align: int
    ) -> V:
        pointer = self.pointer_at(pointers, coordinates, None)
        if guard is not None:  # a false guard must not touch memory: read a stack slot instead
            safe = self.f.alloca("i64", 1, 8)
            self.f.store(i64(0), safe, 8)
            pointer = self.f.select(guard, pointer, safe)
        return self.f.load(el, pointer, align)

    def addresses(self, pointers: Pointers, coordinates: Coordinates, n: int, tail: V | None) -> V:
        offsets = self.f.splat(self.offset_at(pointers, coordinates, tail), n)
        base = pointers.base.operand()
        return self.f.op(f"getelementptr {pointers.unit}, ptr {base}, {offsets.type} {offsets.operand()}", vector("ptr", n))

    def _addresses_of(self, pointers: Pointers, coordinates: Coordinates, mask: V | None) -> V:
        """Returns pointers as i64 addresses."""
        offset = self.offset_at(pointers, coordinates, mask)
        n = lanes(offset.type)
        size = self.f.splat(self.s.constant(memory_size_of(pointers.unit)), n)
        scaled = self.f.binary("mul", offset, size)
        if pointers.base is NULL:
            return scaled
        return self.f.binary("add", self.f.splat(self.s.address(pointers.base), n), scaled)

    def _gather(
        self, pointers: Pointers, coordinates: Coordinates, guard: V | None, n: int, tail: V | None
    ) -> V:
        el, size, align = memory_element(pointers.pointee), memory_size(pointers.pointee), alignment_of(pointers)
        if n == 1:
            return self._load_scalar(pointers, coordinates, guard, el, align)
        offsets = self.f.splat(self.offset_at(pointers, coordinates, tail), n)
        mask = None if guard is None else self.f.splat(guard, n)
        type_ = vector(el, n)

        def apart(rarely: bool) -> V:
            unit = f"{pointers.unit}, ptr {pointers.base.operand()}, {offsets.type} {offsets.operand()}"
            addresses = self.f.op(f"getelementptr {unit}", vector("ptr", n))
            return gather(self.f, addresses, mask, type_, align, rarely)

        if memory_size_of(pointers.unit) != size or pointers.rest is None or reads_memory(pointers.rest):
            return apart(False)
        # Computed offsets, such as `index % n`, are mostly a run of neighbours after all.
        first = self.f.extract(offsets, 0)
        expected = self.f.binary("add", self.f.splat(first, n), self.f.iota(n, "i64"))
        is_run = self.f.intrinsic("vector.reduce.and", [self.f.icmp("eq", offsets, expected)], "i1")
        run, spread, done = self.f.label("run"), self.f.label("spread"), self.f.label("gathered")
        self.f.cond_branch(is_run, run, spread)
        self.f.start(run)
        pointer = self.f.gep(pointers.base, first, pointers.unit)
        together = self.f.load(type_, pointer, align) if mask is None else load_lanes(self.f, type_, pointer, mask, align)
        self.f.branch(done)
        self.f.start(spread)
        separate = apart(True)
        self.f.branch(done)
        self.f.start(done)
        return self.f.phi(type_, [(together, run), (separate, spread)])

    def is_affine(self, pointers: Pointers, dim: int) -> bool:
        """Whether neighbours along the dimension are a fixed distance apart."""
        return pointers.rest is None or dim not in self.depends(pointers.rest)

    def offset_at(self, pointers: Pointers, coordinates: Coordinates, tail: V | None = None) -> V:
        """Returns the offsets as i64, a scalar or a vector."""
        offset = self.at(pointers.offset, coordinates, tail)
        if pointers.rest is None:
            return offset
        rest = self.at(pointers.rest, coordinates, tail)
        n = max(lanes(offset.type), lanes(rest.type))
        rest = self.f.cast("sext", rest, vector("i64", lanes(rest.type)))
        if n == 1:
            return self.s.add(offset, rest)
        if is_integer(offset, 0):
            return self.f.splat(rest, n)
        return self.f.binary("add", self.f.splat(offset, n), self.f.splat(rest, n))

    def write_scratch(self, node: Stored, coordinates: Coordinates, value: V) -> None:
        """Writes elements of a block at the coordinates."""
        write_elements(self.s, node, coordinates, value)

    def scratch(self, shape: Shape, elem: str, pad: int = 0) -> Stored:
        """Reserves uninitialised scratch for a block: row-major, rows padded to whole vectors.

        Tails may thus write past the end of a row. After the last row there is room for one more vector, which may be
        read. Blocks of many dimensions with short rows need no padding to be visited in vectors: without it
        neighbours lie together across all dimensions (`loops/flat.py`).
        `pad`: another multiple that rows are padded to.
        """
        if not pad and is_deep(shape, lambda: self.lanes_for(elem)):
            pad = shape[-1]
        memory = {"i1": "i8", "ptr": "i64"}.get(elem) or register_element(elem)
        to = pad or self.target.vector_bytes
        row = -(-shape[-1] // to) * to if shape and shape[-1] > 1 else 1
        strides: list[int] = []
        step = row
        for extent in reversed(shape[:-1]):
            strides.append(step if extent > 1 else 0)
            step *= extent
        strides.reverse()
        if shape:
            strides.append(1 if shape[-1] > 1 else 0)
        count = max(1, math.prod(shape[:-1])) * row if shape else 1
        if row > 1 or pad == 1:
            count += self.target.vector_bytes
        pointer = self.memory.block(memory, count, memory_size_of(memory), f"a block of {shape} {elem}")
        self._reserved[pointer.operand()] = memory, count
        return Stored(shape, elem, pointer, tuple(strides), memory)

    def release(self, block: Stored) -> None:
        """Gives scratch back that no code reads after what was emitted so far, nor before it in another turn of a loop."""
        self.memory.release(*self._reserved[block.pointer.operand()], block.pointer)

    # -- loops ----------------------------------------------------------------

    def extent(self, size: int, bounds: Sequence[Bound], dim: int) -> tuple[V, set[str]]:
        """Returns how many positions of a dimension to visit, and the limits that visiting no more implies."""
        count = self.s.constant(size)
        implied: set[str] = set()
        for bound in bounds:
            if bound.dim == dim:
                count = self.s.min(count, bound.limit)
                implied.add(bound.limit.operand())
        return count, implied

    def open_loop(self, implied: set[str]) -> int:
        """Returns the number of a new loop, whose positions keep these limits."""
        self._loops += 1
        self.implied[self._loops] = implied
        return self._loops

    @contextmanager
    def dimension(self, size: int, count: V, implied: set[str]) -> Iterator[Coordinate]:
        """Opens a loop over one dimension, position by position."""
        loop = self.open_loop(implied)
        if size == 1 and not implied:
            yield Coordinate(ZERO, 0, 1, loop)
        else:
            with self.f.loop(0, count) as state, self.scope():
                yield Coordinate(state.index, 0, 1, loop)

    def hoist(self, nodes: Sequence[Node], coordinates: Coordinates) -> None:
        """Evaluates what the known coordinates determine already (None: not yet known)."""
        seen: set[tuple[int, Coordinates]] = set()
        for node in nodes:
            self._hoist(node, coordinates, seen)

    def _hoist(self, node: Node, coordinates: Coordinates, seen: set[tuple[int, Coordinates]]) -> None:
        if (id(node), coordinates) in seen:  # chains share operands: every node once
            return
        seen.add((id(node), coordinates))
        if isinstance(node, Splat):
            return
        unknown = [d for d in self.depends(node) if coordinates[d] is None]
        if not unknown:
            if not isinstance(node, (Affine, Pointers)):
                self.at(node, coordinates)
            return
        if id(node) in self.replacement:
            return
        match node:
            case Map():
                for operand in node.operands:
                    self._hoist(operand, coordinates, seen)
            case View():
                self._hoist(node.source, self.through(node, coordinates), seen)
            case Load():
                if len(unknown) == 1 and self.is_affine(node.pointers, unknown[0]):
                    self.row_pointer(node.pointers, coordinates, unknown[0])
                    self._hoist_filled_row(node, coordinates, unknown[0])
                elif node.pointers.rest is not None:
                    self._hoist(node.pointers.rest, coordinates, seen)
                if node.other is not None:
                    self._hoist(node.other, coordinates, seen)

    def _hoist_filled_row(self, node: Load, coordinates: Coordinates, dim: int) -> None:
        """Chooses between a row and its `other` ahead of the loop along it, from the conditions that hold for all of it."""
        if stride_of(node.pointers, dim) == 1 and node.shape[dim] > 1:
            conditions = self._conditions(node.mask, coordinates, None, beside=dim)
            self._row_or_other(node, coordinates, dim, conditions)
