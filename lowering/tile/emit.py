"""Evaluates the body of a nest as blocks.

A `Frame` binds every axis of the nest to a coordinate: a scalar index, or a block dimension. Values are evaluated on demand and
remembered; each carries only the dimensions it varies along, and `tt.expand_dims` and `tt.broadcast` bring operands to one
shape. Loops open child frames that bind more axes; values that do not depend on those are found in the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod

from xdsl.dialects.builtin import LocationAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue

from ...graph.location import Location
from ...promotion.dtype import DType
from ...promotion.errors import InternalError, JoineryError
from ..nest import Affine, Buffer, Extent, Nest, Store, Value
from ..tt.builder.block_builder import BlockBuilder
from ..tt.builder.control import Loop
from ..tt.dialect.memory.descriptor_types import TensorDescType
from ..tt.facts import DIVISIBILITY, NOALIAS, state_facts_of_graphs
from ..tt.types import I1, I8, I32, I64, ptr
from .blocks import (
    Block,
    Coordinate,
    Dimension,
    Merged,
    memory_order,
    memory_type,
    register_type,
    shape,
    union,
)
from .elements import scalar
from .index_builder import Index, IndexBuilder
from .lookups import MIN_LOOKUPS, loaded_table, no_tables, picked, table_of, unsigned_position
from .merged_axes import quotient_terms
from .structure import pointer_buffers, runtime_extents
from .tensor_descriptors import DTYPES, DescriptorAccess, descriptor_axes
from .user_lines import location_of, name_lines, nest_lines

BUFFER_ALIGNMENT = 64
"""Alignment in bytes of every buffer but inputs."""


class Kernel:
    """A block function under construction: its parameters, its builder, and the nest it computes."""

    def __init__(
        self,
        nest: Nest,
        name: str,
        streaming: bool = False,
        use_descriptors: bool = False,
        multiples: Mapping[Extent, int] | None = None,
        table_elements: Callable[[int], int] = no_tables,
        skips_masked_keys: bool = False,
    ) -> None:
        """Starts the function with its parameters.

        Args:
            use_descriptors: whether products load and store through tensor descriptors where they can.
            multiples: powers of two that divide sizes known at launch only.
            table_elements: returns the elements of so many bytes of the longest table that registers hold.
            skips_masked_keys: whether attention leaves out blocks of keys that its mask excludes.
        """
        self.nest = nest
        is_product = nest.template in ("contract", "attention")
        self.streaming, self.loaded = streaming and not is_product, "cs" if streaming and is_product else None
        self.use_descriptors, self.table_elements, self.skips_masked_keys = use_descriptors, table_elements, skips_masked_keys
        self.descriptors: dict[DescriptorAccess, SSAValue] = {}
        self._sides = {operand for v in nest.body if v.op == "contract" for operand in v.operands}
        self.buffers = pointer_buffers(nest)
        self.runtime = runtime_extents(nest)
        self.tiles: dict[int, int] = {}
        self.merged: dict[int, tuple[int, ...]] = {}
        params: list[tuple[str, Attribute]] = []
        facts: list[dict[str, Attribute | int]] = []
        for number, buffer in enumerate(self.buffers):
            params.append((f"{buffer.kind}{number}", ptr(memory_type(buffer.dtype))))
            facts.append({NOALIAS: UnitAttr()})
            if buffer.kind not in ("input", "variable"):
                facts[-1][DIVISIBILITY] = BUFFER_ALIGNMENT
        for number, extent in enumerate(self.runtime):
            params.append((f"n{number}", I64))
            multiple = (multiples or {}).get(extent, 1)
            facts.append({DIVISIBILITY: multiple} if multiple > 1 else {})
        self.builder = BlockBuilder.function(name, params, facts)
        state_facts_of_graphs(self.builder.func)
        lines = nest_lines(nest)
        self.builder.func.location = location_of(lines)
        self.builder.location = location_of(lines[:1])
        self._locations: dict[tuple[Location, ...], LocationAttr] = {}
        self.indices = IndexBuilder(self.builder)
        arguments = self.builder.args
        self._pointers = {(b.kind, b.index): arguments[number] for number, b in enumerate(self.buffers)}
        self._runtime = dict(zip(self.runtime, arguments[len(self.buffers) :], strict=True))
        self._ranks = 0

    @contextmanager
    def at(self, value: Value | Store) -> Iterator[None]:
        """Attributes what is emitted inside to the user's lines of the value; errors name the first line."""
        lines, outer = value.lines, self.builder.location
        if lines:
            location = self._locations.get(lines)
            if location is None:
                location = self._locations[lines] = location_of(lines)
            self.builder.location = location
        try:
            yield
        except JoineryError as error:
            name_lines(error, lines)
            raise
        self.builder.location = outer

    def extent(self, extent: Extent) -> Index:
        return extent if type(extent) is int else self._runtime[extent]

    def axis_extent(self, axis: int) -> Index:
        """Returns the extent of an axis, or of all axes that were merged with it."""
        extent: Index = 1
        for each in self.merged.get(axis, (axis,)):
            extent = self.indices.mul(extent, self.extent(self.nest.axes[each].extent))
        return extent

    def merge(self, axes: tuple[int, ...]) -> None:
        """Lets dimensions and the grid run over `axes`, outermost first, as over one: the last of them stands for all."""
        self.merged[axes[-1]] = axes

    def pointer(self, buffer: Buffer) -> SSAValue:
        return self._pointers[buffer.kind, buffer.index]

    def descriptor_load_access(
        self, number: int, value: Value, coordinates: Mapping[int, Coordinate]
    ) -> DescriptorAccess | None:
        """Returns the descriptor access that loads a product's operand; None where it is loaded through pointers."""
        attrs = value.attrs
        plain = not value.operands and not attrs["guarded"] and not attrs.get("fill", 0)
        if not self.use_descriptors or number not in self._sides or not plain or value.dtype.name not in DTYPES:
            return None
        axes = descriptor_axes(self.nest, attrs["at"], value.dtype.itemsize, coordinates)
        return None if axes is None else DescriptorAccess(False, number, axes)

    def descriptor_store_access(self, store: Store, coordinates: Mapping[int, Coordinate]) -> DescriptorAccess | None:
        """Returns the descriptor access of a store; None where anything else in the kernel touches the buffer."""
        dtype = self.nest.body[store.value].dtype
        users = [v.attrs["buffer"] for v in self.nest.loads] + [each.buffer for each in self.nest.stores]
        alone = sum((b.kind, b.index) == (store.buffer.kind, store.buffer.index) for b in users) == 1
        if not self.use_descriptors or not alone or dtype.name not in DTYPES:
            return None
        axes = descriptor_axes(self.nest, store.at, dtype.itemsize, coordinates)
        return None if axes is None else DescriptorAccess(True, self.nest.stores.index(store), axes)

    def descriptor(self, access: DescriptorAccess, elem: Attribute, sizes: tuple[int, int]) -> SSAValue:
        """Returns the descriptor parameter of an access; descriptors come after all other parameters."""
        if access not in self.descriptors:
            block = TensorType(elem, (*[1] * (len(access.axes) - 2), *sizes))
            type_ = TensorDescType(block)
            self.descriptors[access] = self.builder.parameter(f"tensor{len(self.descriptors)}", type_)
        return self.descriptors[access]

    def dimension(self, axis: int | None, size: int, start: Index = 0, rank: int | None = None) -> Dimension:
        """Makes a block dimension; later ones come later in blocks, unless `rank` says otherwise."""
        if rank is None:
            rank, self._ranks = self._ranks, self._ranks + 1
        if axis is not None:
            self.tiles[axis] = size
        return Dimension(axis, size, start, 1 if axis is None else self.axis_extent(axis), rank)

    @contextmanager
    def loop(self, count: Index, inits: Sequence[SSAValue] = ()) -> Iterator[Loop]:
        """Opens an `scf.for` over 0 … count - 1; indices emitted in its body are not used after it."""
        indices = self.indices
        with (
            self.builder.for_(indices.value(0), indices.value(count), indices.value(1), inits) as loop,
            indices.scope(),
        ):
            yield loop

    def grid(self, axes: Sequence[tuple[int, int]], group: int = 0) -> dict[int, Index]:
        """Decodes the program id into the program's start along each (axis, block) of the grid; the last axis varies fastest.

        With `group`, positions of the last axis come in groups of that many: a group passes over the whole of the axis before
        it, then the next group does. What a group reads then stays in the cache for all of these passes.
        """
        indices = self.indices
        counts = [indices.ceil_div(self.axis_extent(axis), block) for axis, block in axes]
        starts: dict[int, Index] = {}
        moving = [
            number for number, count in enumerate(counts) if not (isinstance(count, int) and count == 1)
        ]
        program: Index = 0
        if moving:
            program = self.builder.cast("arith.extsi", self.builder.program_id(0), I64)
        outer = len(axes)
        known = counts[-1] if axes else 0
        if isinstance(known, int) and known <= group:
            group = 0  # one group is the plain order
        if group and len(moving) >= 2 and moving[-1] == moving[-2] + 1 == len(axes) - 1:
            outer -= 2
            (above, above_block), (last, last_block) = axes[-2:]
            area = indices.mul(counts[-2], counts[-1])
            inside = indices.mod(program, area) if len(moving) > 2 else program
            program = indices.div(program, area)
            passes = indices.mul(counts[-2], group)
            number_of = indices.div(inside, passes)
            first = indices.mul(number_of, group)
            inside = indices.sub(inside, indices.mul(number_of, passes))
            even = isinstance(known, int) and known % group == 0
            height = group if even else indices.minimum(group, indices.sub(counts[-1], first))
            starts[above] = indices.mul(indices.div(inside, height), above_block)
            starts[last] = indices.mul(indices.add(first, indices.mod(inside, height)), last_block)
        for number in reversed(range(outer)):
            axis, block = axes[number]
            if number not in moving:
                starts[axis] = 0
                continue
            position = program if number == moving[0] else indices.mod(program, counts[number])
            program = indices.div(program, counts[number]) if number != moving[0] else program
            starts[axis] = indices.mul(position, block)
        return starts


class Frame:
    """Holds the coordinates of the axes and the body values evaluated there; inner loops open child frames."""

    def __init__(
        self, kernel: Kernel, coordinates: Mapping[int, Coordinate], parent: Frame | None = None
    ) -> None:
        self.kernel, self.builder, self.indices = kernel, kernel.builder, kernel.indices
        self.coordinates: dict[int, Coordinate] = {**({} if parent is None else parent.coordinates), **coordinates}
        self.parent = parent
        self._bound = frozenset(coordinates)
        self._values: dict[int, Block] = {}

    def child(self, coordinates: Mapping[int, Coordinate]) -> Frame:
        """Opens a frame inside this one that binds more axes."""
        return Frame(self.kernel, coordinates, self)

    def define(self, value: int, block: Block) -> None:
        self._values[value] = block

    def known(self, value: int) -> Block | None:
        frame: Frame | None = self
        axes = self.kernel.nest.body[value].axes
        while frame is not None:
            found = frame._values.get(value)
            if found is not None:
                return found
            if not frame._bound.isdisjoint(axes):
                return None
            frame = frame.parent
        return None

    def hoist(self, targets: Iterable[int], moving: Iterable[int]) -> None:
        """Evaluates before a loop over the axes `moving` what `targets` need that does not vary with them."""
        loop = frozenset(moving)
        body = self.kernel.nest.body
        pending, seen = list(targets), set[int]()
        while pending:
            number = pending.pop()
            if number in seen or self.known(number) is not None:
                continue
            seen.add(number)
            value = body[number]
            if value.op == "const":
                continue
            if (
                loop.isdisjoint(value.axes)
                and self._is_pointwise(number)
                and all(a in self.coordinates for a in value.axes)
            ):
                self.block(number)
            else:
                pending.extend(value.operands)

    def _is_pointwise(self, number: int) -> bool:
        """Returns whether evaluating the value needs no reduction, scan or contraction not yet known."""
        pending = [number]
        while pending:
            current = pending.pop()
            if self.known(current) is not None:
                continue
            value = self.kernel.nest.body[current]
            if value.op in ("scan", "contract") or (value.op == "reduce" and value.attrs["over"]):
                return False
            pending.extend(value.operands)
        return True

    # -- indices -----------------------------------------------------------------------------------------

    def index(self, dim: Dimension) -> SSAValue:
        """Returns the positions of a dimension as an i64 block of rank 1."""
        b, indices = self.builder, self.indices

        def make() -> SSAValue:
            positions = indices.once(("range", dim.size), lambda: b.cast("arith.extsi", b.arange(dim.size), I64))
            if isinstance(dim.start, int) and dim.start == 0:
                return positions
            return b.binary("arith.addi", positions, b.splat(indices.value(dim.start), (dim.size,)))

        return indices.once(("index", dim), make)

    def scalar_coordinate(self, axis: int) -> Index:
        """Returns the index of an axis along which no block dimension runs."""
        coordinate = self.coordinates[axis]
        if isinstance(coordinate, (Dimension, Merged)):
            raise InternalError(f"tile: axis {axis} is a block dimension, and one index of it is wanted")
        return coordinate

    def scaled_index(self, dim: Dimension, coefficient: Index) -> SSAValue:
        b, indices = self.builder, self.indices
        index = self.index(dim)
        if isinstance(coefficient, int) and coefficient == 1:
            return index
        factor = self._filled(coefficient, (dim.size,))
        return indices.once(("scaled", dim, coefficient), lambda: b.binary("arith.muli", index, factor))

    def mask(self, dims: tuple[Dimension, ...], order: tuple[Dimension, ...] | None = None) -> SSAValue | None:
        """Emits which lanes of a block over `order` lie inside the extents of `dims`; None when all do."""
        b, indices = self.builder, self.indices
        order = dims if order is None else order
        cut = tuple([dim for dim in dims if not dim.is_full])
        if not cut:
            return None

        def inside(dim: Dimension) -> SSAValue:
            below = b.cmpi("slt", self.index(dim), self._filled(dim.extent, (dim.size,)))
            if dim.inside is not None:
                below = b.binary("arith.andi", below, dim.inside)
            if not dim.may_precede:
                return below
            return b.binary("arith.andi", below, b.cmpi("sge", self.index(dim), b.const(0, I64, (dim.size,))))

        def part(dim: Dimension) -> SSAValue:
            return self.expand(Block(indices.once(("inside", dim), partial(inside, dim)), (dim,), I1), order)

        def make() -> SSAValue:
            joined = part(cut[0])
            for dim in cut[1:]:
                joined = b.binary("arith.andi", joined, part(dim))
            return joined

        return indices.once(("mask", cut, order), make)

    def position(self, at: Affine, dynamic: Sequence[tuple[Block, Index]] = ()) -> tuple[Index, list[Block]]:
        """Splits an element offset into a scalar index and terms that vary along block dimensions."""
        indices = self.indices
        start = self.kernel.extent(at.offset)
        terms: list[Block] = []
        merged: dict[Merged, None] = {}
        for axis, coefficient in at.terms:
            coordinate, step = self.coordinates[axis], self.kernel.extent(coefficient)
            if isinstance(coordinate, Merged):
                merged[coordinate] = None
            elif isinstance(coordinate, Dimension):
                terms.append(Block(self.scaled_index(coordinate, step), (coordinate,), I64))
            else:
                start = indices.add(start, indices.mul(coordinate, step))
        for each in merged:
            terms.extend(self._merged_terms(each, at))
        for block, stride in dynamic:
            if not block.dims:
                if isinstance(block.value, float):
                    raise InternalError(f"tile: {block.value} is no index")
                start = indices.add(start, indices.mul(block.value, stride))
                continue
            scaled = block.emitted
            if not (isinstance(stride, int) and stride == 1):
                scaled = self.builder.binary("arith.muli", scaled, self._filled(stride, shape(block.dims)))
            terms.append(Block(scaled, block.dims, I64))
        return start, terms

    def _merged_terms(self, merged: Merged, at: Affine) -> list[Block]:
        last = self.kernel.extent(at.coefficient(merged.axes[-1]))
        terms = [] if at.coefficient(merged.axes[-1]) == 0 else [self.scaled_index(merged.dim, last)]
        terms += quotient_terms(self.indices, self.kernel.nest, merged, at, self.index(merged.dim), self.kernel.extent)
        return [Block(term, (merged.dim,), I64) for term in terms]

    def divide_rows(self, value: Value) -> None:
        """Emits the quotients that a load's address has along merged axes, so that a loop over others finds them computed."""
        at = value.attrs["at"] if value.op == "load" else Affine()
        for each in {self.coordinates[axis]: None for axis, _ in at.terms if axis in self.coordinates}:
            if isinstance(each, Merged):
                self._merged_terms(each, at)

    def offsets(self, start: Index, terms: Sequence[Block], order: tuple[Dimension, ...]) -> SSAValue:
        """Adds up the parts of an element offset as a block over `order` (a scalar when that is empty)."""
        b, indices = self.builder, self.indices
        if not order:
            return indices.value(start)
        total: SSAValue | None = None
        for term in terms:
            value = term.emitted
            if total is None and not (isinstance(start, int) and start == 0):
                value = b.binary("arith.addi", value, self._filled(start, shape(term.dims)))
            part = self.expand(Block(value, term.dims, I64), order)
            total = part if total is None else b.binary("arith.addi", total, part)
        return self._filled(start, shape(order)) if total is None else total

    def _filled(self, index: Index, sizes: tuple[int, ...]) -> SSAValue:
        return self.builder.const(index, I64, sizes) if isinstance(index, int) else self.builder.splat(index, sizes)

    def pointers(self, buffer: Buffer, start: Index, terms: Sequence[Block], order: tuple[Dimension, ...]) -> SSAValue:
        base, b = self.kernel.pointer(buffer), self.builder
        if not order:
            return base if isinstance(start, int) and start == 0 else b.addptr(base, self.indices.value(start))
        return b.addptr(b.splat(base, shape(order)), self.offsets(start, terms, order))

    # -- values ------------------------------------------------------------------------------------------

    def expand(self, block: Block, order: tuple[Dimension, ...]) -> SSAValue:
        """Repeats the block over all of `order`, whose dimensions may come in any order."""
        b = self.builder
        if not block.dims:
            if isinstance(block.value, SSAValue):
                return b.splat(block.value, shape(order))
            return b.const(block.value, block.elem, shape(order))
        value = block.emitted
        inside = tuple([dim for dim in order if dim in block.dims])
        if inside != block.dims:
            if len(inside) != len(block.dims):
                raise InternalError("tile: a block varies along a dimension that its use does not have")
            value = b.trans(value, [block.dims.index(dim) for dim in inside])
        for position, dim in enumerate(order):
            if dim not in block.dims:
                value = b.expand_dims(value, position)
        return b.broadcast(value, shape(order))

    def scalar_value(self, block: Block) -> SSAValue:
        return block.value if isinstance(block.value, SSAValue) else self.builder.const(block.value, block.elem)

    def combine(self, blocks: Sequence[Block]) -> tuple[tuple[Dimension, ...], list[SSAValue]]:
        """Brings the blocks to one shape, and returns its dimensions with them."""
        dims = union(*[block.dims for block in blocks])
        return dims, [self.expand(block, dims) for block in blocks]

    def block(self, number: int) -> Block:
        """Returns the value at this frame's coordinates, evaluating it at the first request."""
        found = self.known(number)
        if found is None:
            value = self.kernel.nest.body[number]
            with self.kernel.at(value):
                found = self._evaluate(number, value)
            self._values[number] = found
        return found

    def _evaluate(self, number: int, value: Value) -> Block:
        match value.op:
            case "const":
                literal, bits = scalar.constant(value.attrs["value"], value.dtype)
                elem = register_type(value.dtype)
                if bits:  # a type without constants of its own: its bits
                    made = self.builder.cast("tt.bitcast", self.builder.const(literal, I8), elem)
                    return Block(made, (), elem)
                return Block(literal, (), elem)
            case "dim":
                index = self.kernel.extent(value.attrs["extent"])
                return Block(index, (), I64)
            case "index":
                start, terms = self.position(value.attrs["at"])
                dims = union(*[term.dims for term in terms])
                if not dims and isinstance(start, int):
                    return Block(start, (), I64)
                return Block(self.offsets(start, terms, dims), dims, I64)
            case "load":
                return self._load(number, value)
            case "reduce" if not value.attrs["over"]:  # over nothing: every axis had extent 1
                if value.attrs["kind"] in ("argmax", "argmin"):
                    return Block(0, (), I64)
                only = self.block(value.operands[0])
                if value.attrs["kind"] != "sum" or not value.dtype.is_float:
                    return only
                if only.constant is not None:
                    return Block(only.constant + 0.0, (), only.elem)
                start = self.builder.const(0.0, only.elem, shape(only.dims))  # sums begin with 0
                return Block(self.builder.binary("arith.addf", only.emitted, start), only.dims, only.elem)
            case "reduce" | "scan" | "contract" | "scatter" | "sort" | "sort_lines":
                raise InternalError(f"tile: {value.op} %{number} is needed before its template has computed it")
        return self._map(value)

    def _map(self, value: Value) -> Block:
        blocks = [self.block(operand) for operand in value.operands]
        sources = tuple([self.kernel.nest.body[operand].dtype for operand in value.operands])
        if value.op == "cast" and sources[0] is value.dtype:
            return blocks[0]
        dims, operands = self.combine(blocks)
        literals = tuple([block.constant for block in blocks])
        call = scalar.Call(self.builder, value.op, sources, value.dtype, value.attrs, literals)
        zero = value.op == "cast" and blocks[0].zero_outside
        return Block(scalar.emit(call, operands), dims, register_type(value.dtype), zero_outside=zero)

    def _descriptor_block(
        self, access: DescriptorAccess, coordinates: Sequence[Coordinate]
    ) -> tuple[list[SSAValue], tuple[Dimension, Dimension]]:
        """Returns the i32 indices of the block's first element, and the block's two dimensions."""
        b, indices = self.builder, self.indices
        starts = []
        for coordinate in coordinates:
            assert not isinstance(coordinate, Merged)
            start = coordinate.start if isinstance(coordinate, Dimension) else coordinate
            starts.append(
                b.const(start, I32) if isinstance(start, int) else b.cast("arith.trunci", indices.value(start), I32)
            )
        rows, columns = coordinates[-2:]
        assert isinstance(rows, Dimension)
        assert isinstance(columns, Dimension)
        return starts, (rows, columns)

    def _load_through_descriptor(self, access: DescriptorAccess, value: Value) -> Block:
        """Loads a block through a descriptor; lanes outside the tensor read zero."""
        elem = memory_type(value.dtype)
        indices, order = self._descriptor_block(access, [self.coordinates[axis] for axis in access.axes])
        desc = self.kernel.descriptor(access, elem, (order[0].size, order[1].size))
        loaded = self.builder.descriptor_load(desc, indices, shape(order))
        dims = union(order)
        if order != dims:
            loaded = self.builder.trans(loaded, [order.index(dim) for dim in dims])
        return Block(loaded, dims, register_type(value.dtype), zero_outside=True)

    def _load(self, number: int, value: Value) -> Block:
        access = self.kernel.descriptor_load_access(number, value, self.coordinates)
        if access is not None:
            return self._load_through_descriptor(access, value)
        looked_up = self._looked_up(value)
        if looked_up is not None:
            return looked_up
        attrs = value.attrs
        operands = [self.block(operand) for operand in value.operands]
        guard = operands.pop() if attrs["guarded"] else None
        if guard is not None and guard.value is True:
            guard = None
        strides = [self.kernel.extent(stride) for stride in attrs["strides"]]
        start, terms = self.position(attrs["at"], list(zip(operands, strides, strict=True)))
        guard_dims = () if guard is None else guard.dims
        dims = union(guard_dims, *[term.dims for term in terms])
        order = memory_order(self.coordinates, attrs["at"], dims, [*operands, *([guard] if guard is not None else [])])
        b = self.builder
        mask = self.mask(dims, order)
        if guard is not None:
            allowed = self.expand(guard, order)
            mask = allowed if mask is None else b.binary("arith.andi", mask, allowed)
        pointers = self.pointers(attrs["buffer"], start, terms, order)
        dtype: DType = value.dtype
        fill = attrs.get("fill", 0)
        other = None if mask is None else b.const(fill, memory_type(dtype), shape(order))
        loaded = scalar.from_memory(b, b.load(pointers, mask, other, self.kernel.loaded), dtype)
        if order != dims:
            loaded = b.trans(loaded, [order.index(dim) for dim in dims])
        return Block(loaded, dims, register_type(dtype), zero_outside=not fill)

    def _looked_up(self, value: Value) -> Block | None:
        """Returns elements of a short array as picked from a block of it; None where they are loaded one by one."""
        body, b = self.kernel.nest.body, self.builder
        table = table_of(body, value, self.kernel.table_elements)
        if table is None:
            return None
        unsigned = unsigned_position(body, value.operands[0])
        positions = self.block(value.operands[0] if unsigned is None else unsigned)
        sizes = shape(positions.dims)
        if not sizes or prod(sizes) < MIN_LOOKUPS * table.length:
            return None
        buffer = value.attrs["buffer"]
        pointer, key = self.kernel.pointer(buffer), ("table", buffer.kind, buffer.index, table)
        elements = self.indices.once(key, lambda: loaded_table(b, pointer, value.dtype, table))
        found = picked(b, elements, value.dtype, positions.emitted, sizes, unsigned is not None)
        return Block(found, positions.dims, register_type(value.dtype))

    # -- effects -----------------------------------------------------------------------------------------

    def store(self, store: Store) -> None:
        """Stores a value for all positions of this frame."""
        with self.kernel.at(store):
            self._store(store)

    def _store(self, store: Store) -> None:
        b = self.builder
        value = self.kernel.nest.body[store.value]
        block = self.block(store.value)
        access = self.kernel.descriptor_store_access(store, self.coordinates)
        if access is not None:
            self._store_through_descriptor(access, value, block)
            return
        start, terms = self.position(store.at)
        dims = union(block.dims, *[term.dims for term in terms])
        order = memory_order(self.coordinates, store.at, dims, ())
        data = scalar.to_memory(b, self.expand(block, order), value.dtype)
        pointers = self.pointers(store.buffer, start, terms, order)
        b.store(pointers, data, self.mask(dims, order), "cs" if self.kernel.streaming and order else None)

    def _store_through_descriptor(self, access: DescriptorAccess, value: Value, block: Block) -> None:
        """Stores a block through a descriptor; lanes outside the tensor are not written."""
        b = self.builder
        indices, order = self._descriptor_block(access, [self.coordinates[axis] for axis in access.axes])
        desc = self.kernel.descriptor(access, memory_type(value.dtype), (order[0].size, order[1].size))
        b.descriptor_store(desc, scalar.to_memory(b, self.expand(block, order), value.dtype), indices)
