"""Evaluates symbols at indices: the body of a nest, built with hash-consing and memoised by (symbol, index,
guard)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ...graph.location import Location
from ...graph.symbol import Symbol
from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...promotion.errors import InternalError
from ...promotion.literals import Scalar
from ..nest import Attributes, Extent
from .costs import FEW_PICKED, PICKED_LIMIT, PICKED_SHARE
from .extents import at_most, contiguous_strides, exact_quotient, is_one, is_zero, product
from .fusion.grouping import Grouping
from .fusion.repeated import is_repeated
from .groups import Group
from .indexing import (
    ZERO,
    AxisMap,
    Entry,
    Index,
    axes_of,
    constant_index,
    effort,
    linear,
    map_indices,
    mask_of,
    scale,
    shift,
    view_position,
)
from .views import (
    are_in_range,
    computed_of_joins,
    is_computed,
    is_counting,
    is_number,
    progression,
    reshape_groups,
    storage_root,
)

INT64 = DType("int64")
BOOL = DType("bool")
NO_GUARD = -1

_PLAIN = frozenset([
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
])  # fmt: skip
"""Dtypes whose numbers memory holds as registers do: a load may fill with one."""

MAX_VARIANTS = 12
"""A symbol evaluated at more index maps than this in one nest is stored instead (shifts of shifts multiply
otherwise)."""

MAX_REPEATED = 64
"""Most simple instructions per element that a nest spends on evaluating a symbol anew at further index maps; one that takes
more, such as a convolution whose windows another one reads, is stored."""

MAX_MASKED = 32
"""So is memory with a border at more index maps than this: taps of a convolution."""


class NeedsBufferError(Exception):
    """Raised when `symbol` cannot be evaluated inline and has to be stored. Never leaves the scheduler."""

    def __init__(self, symbol: Symbol) -> None:
        super().__init__(f"%{symbol.id} {symbol.op.name} must be stored")
        self.symbol = symbol


class SplitAxisError(Exception):
    """Raised when `symbol` needs `axis` split into two loops, the inner one of extent `inner`. Never leaves
    the scheduler."""

    def __init__(self, axis: int, inner: Extent, symbol: Symbol) -> None:
        super().__init__(f"axis {axis} must be split by {inner} for %{symbol.id} {symbol.op.name}")
        self.axis, self.inner, self.symbol = axis, inner, symbol


class BodyBuilder:
    """Builds the body of one group's nest. Loads name the storage root they read; its buffer is looked up
    when the nest is finished."""

    def __init__(self, grouping: Grouping, group: Group) -> None:
        self.grouping, self.group = grouping, group
        self.extents = group.axes
        self.entries: list[Entry] = []
        self.evaluated: dict[int, None] = {}
        self._known: dict[Hashable, int] = {}
        self._memo: dict[Hashable, int] = {}
        self._variants: dict[int, int] = {}
        self._lines: tuple[Location, ...] = ()  # of the symbol that is being computed
        self._is_part_of_repeated = False
        self._parts_of_repeated: dict[Hashable, int] = {}  # the axes along which they vary

    # -- values -------------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        dtype: DType,
        operands: tuple[int, ...] = (),
        attrs: Attributes | None = None,
        *,
        axes: int = 0,
        at: Index | None = None,
        key: Hashable = None,
    ) -> int:
        """Adds a value on the union of its operands' axes and `axes`, or returns the equal one that
        exists."""
        entries = self.entries
        for operand in operands:
            axes |= entries[operand].axes
        identity = (op, dtype, axes, operands, at, key if attrs else None)
        found = self._known.get(identity)
        if found is None:
            found = len(entries)
            entries.append(Entry(op, dtype, axes, operands, attrs or {}, at, self._lines))
            self._known[identity] = found
        return found

    def constant(self, value: Array | Scalar, dtype: DType) -> int:
        scalar = np.asarray(value, dtype=dtype.numpy).reshape(())[()]
        return self.emit("const", dtype, attrs={"value": scalar}, key=scalar.tobytes())

    def extent_value(self, extent: Extent) -> int:
        if type(extent) is int:
            return self.emit("const", INT64, attrs={"value": extent}, key=extent)
        return self.emit("dim", INT64, attrs={"extent": extent}, key=extent)

    def index_value(self, index: Index) -> int:
        """Emits the int64 value of an index expression."""
        offset, terms, dynamic = index
        total: int | None = None
        if terms:
            mask = 0
            for axis, _ in terms:
                mask |= 1 << axis
            total = self.emit("index", INT64, axes=mask, at=(offset, terms, ()))
        elif not dynamic or not is_zero(offset):
            total = self.extent_value(offset)
        for operand, coefficient in dynamic:
            term = operand
            if not is_one(coefficient):
                term = self.emit("mul", INT64, (operand, self.extent_value(coefficient)))
            total = term if total is None else self.emit("add", INT64, (total, term))
        if total is None:
            raise InternalError("schedule: an index expression without terms")
        return total

    def as_index(self, value: int) -> Index:
        """Returns the index expression of an int64 body value."""
        entry = self.entries[value]
        if entry.op == "index" and entry.at is not None:
            return entry.at
        if entry.op == "const":
            return constant_index(int(entry.attrs["value"]))
        return (0, (), ((value, 1),))

    def both(self, lhs: int, rhs: int) -> int:
        """Emits the conjunction of two guards, either of which may be absent."""
        if lhs in (NO_GUARD, rhs):
            return rhs
        return lhs if rhs == NO_GUARD else self.emit("logical_and", BOOL, (lhs, rhs))

    def spread(self, value: int, axes: int) -> int:
        """Returns `value` as a value on at least `axes`: a load, constant or index is emitted anew there,
        anything else is cast to its own type."""
        entry = self.entries[value]
        if axes & ~entry.axes == 0:
            return value
        if entry.op in ("load", "const", "dim", "index"):
            key = ("spread", value)
            axes |= entry.axes
            return self.emit(entry.op, entry.dtype, entry.operands, entry.attrs, axes=axes, at=entry.at, key=key)
        attrs = {"dtype": entry.dtype, "rounding": "nearest", "saturate": True}
        return self.emit("cast", entry.dtype, (value,), attrs, axes=axes, key="same")

    # -- symbols ------------------------------------------------------------------------------------------------------

    def evaluate(self, symbol: Symbol, index: tuple[Index, ...], guard: int = NO_GUARD) -> int:
        """Returns the value of `symbol` at `index`, which has one expression per dimension. Memory is not
        accessed where `guard` is false."""
        index = tuple([ZERO if type(e) is int and e == 1 else i for e, i in zip(symbol.shape, index, strict=True)])
        key = (symbol.id, index, guard)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._evaluate(symbol, index, guard)
        elif key in self._parts_of_repeated and not self._is_part_of_repeated:
            self._find_repeated(symbol, self._parts_of_repeated.pop(key))
        return found

    def _find_repeated(self, symbol: Symbol, depends: int) -> bool:
        """Notes whether a symbol that varies along the axes in the mask `depends` is computed again and again."""
        found = is_repeated(symbol, depends, self.group, self.grouping.cost[symbol.id])
        if found:
            self.grouping.found_repeated.add(symbol.id)
        return found

    def _evaluate(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        kind = symbol.op.kind
        if kind == "source":
            return self._source(symbol, index, guard)
        root = storage_root(symbol)
        if root.op.kind == "source":
            return self._load(root, symbol, index, guard)
        writers = self.grouping.stored.get(root.id)
        own = self.group
        if writers is not None and not writers & own.bit and self.grouping.group_of.get(root.id) is not own:
            return self._load(root, symbol, index, guard)
        if kind == "view":
            operand = symbol.inputs[0]
            return self.evaluate(operand, self._view_index(symbol, operand, index), guard)
        self.evaluated[symbol.id] = None
        variants = self._variants[symbol.id] = self._variants.get(symbol.id, 0) + 1
        if self._is_masked_load(symbol):
            if variants > MAX_MASKED:
                raise NeedsBufferError(symbol)
        elif variants > MAX_VARIANTS or (variants - 1) * self.grouping.cost[symbol.id] * effort(index) > MAX_REPEATED:
            raise NeedsBufferError(symbol)
        outer, self._lines, is_part = self._lines, (symbol.location,), self._is_part_of_repeated
        if kind == "map":
            depends = axes_of(index, self.entries)
            if is_part:
                self._parts_of_repeated[symbol.id, index, guard] = depends
            else:
                self._is_part_of_repeated = self._find_repeated(symbol, depends)
        found = self._computed(symbol, index, guard)
        self._lines, self._is_part_of_repeated = outer, is_part
        lines = self.entries[found].lines
        if symbol.location not in lines:  # an equal value that another line asked for before
            self.entries[found].lines = (*lines, symbol.location)
        return found

    def _is_masked_load(self, symbol: Symbol) -> bool:
        """Returns whether a symbol is memory with a number around it, which loads read under masks."""
        if symbol.op.name != "pad" or symbol.attrs["mode"] != "constant":
            return False
        return self._in_memory(symbol.inputs[0])

    def _in_memory(self, symbol: Symbol) -> bool:
        root = storage_root(symbol)
        is_stored = root.id in self.grouping.stored and self.grouping.group_of.get(root.id) is not self.group
        return root.op.kind == "source" or is_stored

    def _computed(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        kind = symbol.op.kind
        if kind == "map":
            return self._map(symbol, index, guard)
        if kind == "join":
            return self._concat(symbol, index, guard) if symbol.op.name == "concat" else self._pad(symbol, index, guard)
        if kind == "index":
            return self._gather(symbol, index, guard)
        if is_counting(symbol):
            return self._position(symbol, index)
        return self._anchor(symbol, index)

    def _position(self, symbol: Symbol, index: tuple[Index, ...]) -> int:
        """Emits how many ones a running sum has added up at a position, all before it or with its own."""
        axis = symbol.attrs["axis"]
        after = 0 if symbol.attrs["exclusive"] else 1
        if symbol.attrs["reverse"]:
            return self.index_value(shift(scale(index[axis], -1), symbol.shape[axis] + (after - 1)))
        return self.index_value(shift(index[axis], after))

    def _source(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        name = symbol.op.name
        if name == "dim_value":
            return self.extent_value(symbol.attrs["extent"])
        if is_number(symbol):
            return self.constant(np.asarray(symbol.attrs["value"]).reshape(()), symbol.dtype)
        return self._load(symbol, symbol, index, guard)

    def _load(self, root: Symbol, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        if root.op.name == "dim_value" or is_number(root):
            return self._source(root, (ZERO,) * len(root.shape), guard)
        position = linear(index, contiguous_strides(symbol.shape))
        is_operand = self.group.roles and not (self.group.kind == "attention" and symbol.dtype.is_integer)
        numbers = None if is_operand else progression(root)  # operands of products are loads
        if numbers is not None:
            value = self.index_value(shift(scale(position, numbers[1]), numbers[0]))
            return value if symbol.dtype is INT64 else self._cast(value, symbol.dtype)
        offset, terms, dynamic = position
        mask = 0
        for axis, _ in terms:
            mask |= 1 << axis
        operands = tuple([operand for operand, _ in dynamic])
        strides = tuple([stride for _, stride in dynamic])
        guarded = guard != NO_GUARD
        if guarded:
            operands = (*operands, guard)
        attrs = {"buffer": root, "strides": strides, "guarded": guarded, "fill": 0}
        key = (root.id, strides, guarded)
        return self.emit("load", symbol.dtype, operands, attrs, axes=mask, at=(offset, terms, ()), key=key)

    def _map(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        rank = len(index)
        operands = []
        for operand in symbol.inputs:
            operands.append(self.evaluate(operand, index[rank - len(operand.shape) :], guard))
        attrs = dict(symbol.attrs)
        return self.emit(symbol.op.name, symbol.dtype, tuple(operands), attrs, key=tuple(attrs.items()))

    def _view_index(self, symbol: Symbol, operand: Symbol, index: tuple[Index, ...]) -> tuple[Index, ...]:
        if symbol.op.index is not None:
            found = symbol.op.index(operand.shape, symbol.shape, symbol.attrs)
            return tuple([view_position(index, terms, start) for terms, start in found])
        if symbol.op.name == "reshape":
            return self._reshape_index(symbol, operand, index)
        raise InternalError(f"schedule: unknown view {symbol.op.name}")

    def _reshape_index(self, symbol: Symbol, operand: Symbol, index: tuple[Index, ...]) -> tuple[Index, ...]:
        below = [ZERO] * len(operand.shape)
        empty = [d for d, extent in enumerate(operand.shape) if is_zero(extent)]
        if empty:  # no element is ever read; an index along an empty axis keeps its mask, which says so
            known = [i for i, e in zip(index, symbol.shape, strict=True) if is_zero(e)]
            below[empty[0]] = known[0] if known else index[0]  # a size that a check requires to be 0
            return tuple(below)
        for source_dims, target_dims in reshape_groups(operand.shape, symbol.shape):
            if len(target_dims) == 1:
                position = index[target_dims[0]]
            else:
                sizes = tuple([symbol.shape[d] for d in target_dims])
                position = linear([index[d] for d in target_dims], contiguous_strides(sizes))
            for number, dimension in enumerate(source_dims[:-1]):
                inner = product([operand.shape[d] for d in source_dims[number + 1 :]])
                below[dimension], position = self._divide(position, inner, operand)
            if source_dims:
                below[source_dims[-1]] = position
        return tuple(below)

    def _divide(self, index: Index, inner: Extent, operand: Symbol) -> tuple[Index, Index]:
        """Returns (index // inner, index % inner) as affine expressions. Raises `SplitAxisError` or
        `NeedsBufferError` where they are not affine."""
        offset, terms, dynamic = index
        if dynamic:
            raise NeedsBufferError(operand)
        base: Extent
        rest: Extent
        if type(offset) is int and type(inner) is int:
            base, rest = divmod(offset, inner)
        else:
            whole = exact_quotient(offset, inner)
            base, rest = (0, offset) if whole is None else (whole, 0)
        quotient: list[tuple[int, Extent]] = []
        remainder: list[tuple[int, Extent]] = []
        largest: Extent = rest
        for axis, coefficient in terms:
            whole = exact_quotient(coefficient, inner)
            if whole is not None:
                quotient.append((axis, whole))
                continue
            if not at_most(0, coefficient):
                raise NeedsBufferError(operand)
            remainder.append((axis, coefficient))
            largest = largest + coefficient * (self.extents[axis] - 1)
        if at_most(0, rest) and at_most(largest + 1, inner):
            return (base, tuple(quotient), ()), (rest, tuple(remainder), ())
        if is_zero(rest):
            for axis, coefficient in remainder:
                factor = exact_quotient(inner, coefficient)
                if factor is None or is_one(factor) or factor == self.extents[axis]:
                    continue
                if exact_quotient(self.extents[axis], factor) is not None:
                    raise SplitAxisError(axis, factor, operand)
        raise NeedsBufferError(operand)

    # -- piecewise and data-dependent indices -------------------------------------------------------------------------

    def _concat(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        axis = symbol.attrs["axis"]
        position = index[axis]
        at = self.index_value(position)
        bounds: list[Extent] = [0]
        for operand in symbol.inputs:
            bounds.append(bounds[-1] + operand.shape[axis])
        result: int | None = None
        shares = self.grouping.shares_parts and symbol.id in self.grouping.interleaved
        for number in range(len(symbol.inputs) - 1, -1, -1):
            operand = symbol.inputs[number]
            if is_zero(operand.shape[axis]):
                continue
            again = computed_of_joins(operand, self._in_memory)
            if again is not None:  # each part would be computed of parts
                raise NeedsBufferError(again)
            below = NO_GUARD
            inside = guard
            if number + 1 < len(symbol.inputs):
                below = self.emit("less", BOOL, (at, self.extent_value(bounds[number + 1])))
                inside = self.both(inside, below)
            if not is_zero(bounds[number]):
                inside = self.both(inside, self.emit("greater_equal", BOOL, (at, self.extent_value(bounds[number]))))
            moved = (*index[:axis], shift(position, -bounds[number]), *index[axis + 1 :])
            if shares and is_one(operand.shape[axis]) and is_computed(operand, self._in_memory):
                inside = guard  # its one position is there for all lanes
            value = self.evaluate(operand, moved, inside)
            result = value if result is None else self.emit("where", symbol.dtype, (below, value, result))
        if result is None:
            return self.constant(0, symbol.dtype)
        return result

    def _pad(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        operand, attrs = symbol.inputs[0], symbol.attrs
        mode = attrs.get("mode", "constant")
        moved: list[Index] = []
        inside = NO_GUARD
        for position, extent, low, high in zip(index, operand.shape, attrs["low"], attrs["high"], strict=True):
            source = shift(position, -low)
            if is_zero(low) and is_zero(high):
                moved.append(source)
                continue
            at = self.index_value(source)
            if mode == "constant":
                if not is_zero(low):
                    inside = self.both(inside, self.emit("greater_equal", BOOL, (at, self.extent_value(0))))
                if not is_zero(high):
                    inside = self.both(inside, self.emit("less", BOOL, (at, self.extent_value(extent))))
                moved.append(source)
                continue
            zero, last = self.extent_value(0), self.extent_value(extent - 1)
            if mode == "reflect":
                at = self._mirrored(at, extent)
            at = self.emit("minimum", INT64, (self.emit("maximum", INT64, (at, zero)), last))
            moved.append(self.as_index(at))
        allowed = self.both(guard, inside)
        value = self.evaluate(operand, tuple(moved), allowed)
        if inside == NO_GUARD:
            return value
        fill = self.constant(attrs.get("value", 0), symbol.dtype)
        filled = self._filled(value, allowed, fill)
        return self.emit("where", symbol.dtype, (inside, value, fill)) if filled is None else filled

    def _filled(self, value: int, guard: int, fill: int) -> int | None:
        """Returns a load under just this guard as one that reads `fill` where the guard is false; None for another value."""
        entry = self.entries[value]
        if entry.op != "load" or not entry.attrs["guarded"] or entry.operands[-1] != guard or entry.dtype.name not in _PLAIN:
            return None
        number = self.entries[fill].attrs["value"]
        attrs = {**entry.attrs, "fill": number.item()}
        key = ("filled", value, number.tobytes())
        return self.emit("load", entry.dtype, entry.operands, attrs, axes=entry.axes, at=entry.at, key=key)

    def _mirrored(self, at: int, extent: Extent) -> int:
        """Reflects position `at` at both ends without repeating them: there are more elements than are reflected, which the
        graph's shapes say, or a check of every call."""
        last = self.extent_value(extent - 1)
        mirrored = self.emit("sub", INT64, (last, self.emit("abs", INT64, (at,))))  # last - |last - |at||
        return self.emit("sub", INT64, (last, self.emit("abs", INT64, (mirrored,))))

    def _gather(self, symbol: Symbol, index: tuple[Index, ...], guard: int) -> int:
        data, indices = symbol.inputs
        axis = symbol.attrs["axis"]
        if symbol.op.name == "gather":
            rank = len(indices.shape)
            position = self.evaluate(indices, index[axis : axis + rank], guard)
            outer, inner = index[:axis], index[axis + rank :]
        else:
            position = self.evaluate(indices, index, guard)
            outer, inner = index[:axis], index[axis + 1 :]
        extent = data.shape[axis]
        if are_in_range(indices, extent):
            return self.evaluate(data, (*outer, self._picked(symbol, self._wide(position), inner), *inner), guard)
        unsigned = self._unsigned(position)
        if unsigned is not None and type(extent) is int and 0 < extent <= 1 << self.entries[unsigned].dtype.bits:
            dtype = self.entries[unsigned].dtype
            position = self._wide(self.emit("minimum", dtype, (unsigned, self.constant(extent - 1, dtype))))
            return self.evaluate(data, (*outer, self._picked(symbol, position, inner), *inner), guard)
        position = self._wrapped(position, indices.dtype, extent)
        zero, last = self.extent_value(0), self.extent_value(extent - 1)
        if indices.dtype.kind != "int" and indices.dtype.bits == 64:  # what is negative as int64 is beyond the end
            position = self.emit("where", INT64, (self.emit("less", BOOL, (position, zero)), last, position))
        position = self.emit("minimum", INT64, (self.emit("maximum", INT64, (position, zero)), last))
        return self.evaluate(data, (*outer, self._picked(symbol, position, inner), *inner), guard)

    def _unsigned(self, position: int) -> int | None:
        """Returns the value of unsigned integers of 8 or 16 bits that a position is."""
        entry = self.entries[position]
        found = entry.operands[0] if entry.op == "cast" else position
        dtype = self.entries[found].dtype
        is_kept = dtype.kind == "uint" and dtype.bits in (8, 16) and (found == position or entry.dtype.bits > dtype.bits)
        return found if is_kept else None

    def _picked(self, symbol: Symbol, position: int, inner: tuple[Index, ...]) -> Index:
        """Returns a position as an index of what a gather reads. Of neighbours in memory, what is picked a second time is
        stored, if it is computed of several numbers, which would all be read one by one each time, unless few are picked."""
        data, count, extent = symbol.inputs[0], product(symbol.inputs[1].shape), symbol.inputs[0].shape[-1]
        is_again = not inner and data.op.kind == "map" and self._variants.get(data.id, 0) > 0
        are_few = isinstance(count, int) and (extent > PICKED_SHARE * count if isinstance(extent, int) else count < FEW_PICKED)
        if is_again and not are_few and self.grouping.cost[data.id] >= PICKED_LIMIT:
            raise NeedsBufferError(data)
        return self.as_index(position)

    def _wide(self, position: int) -> int:
        """Emits a position as int64."""
        return position if self.entries[position].dtype is INT64 else self._cast(position, INT64)

    def _cast(self, value: int, dtype: DType) -> int:
        attrs = {"dtype": dtype, "rounding": "nearest", "saturate": True}
        return self.emit("cast", dtype, (value,), attrs, key=tuple(attrs.items()))

    def _wrapped(self, position: int, dtype: DType, extent: Extent) -> int:
        """Emits a position of `dtype` as int64; negative ones count from the end. Those from 2**63 on become negative."""
        position = self._wide(position)
        if dtype.kind != "int":
            return position
        negative = self.emit("less", BOOL, (position, self.extent_value(0)))
        moved = self.emit("add", INT64, (position, self.extent_value(extent)))
        return self.emit("where", INT64, (negative, moved, position))

    # -- reductions, scans, contractions ------------------------------------------------------------------------------

    def _anchor(self, symbol: Symbol, index: tuple[Index, ...]) -> int:
        group = self.group
        axis_map = group.members.get(symbol.id)
        if axis_map is None or symbol.id not in group.reads or map_indices(axis_map, self.extents) != index:
            raise NeedsBufferError(symbol)
        reads = group.reads[symbol.id]
        kind, attrs = symbol.op.kind, symbol.attrs
        if kind == "contract":
            return self._contract(symbol, axis_map, reads)
        if kind == "ordered":
            return self._ordered(symbol, axis_map, reads)
        operand = symbol.inputs[0]
        value = self.evaluate(operand, map_indices(reads[0], self.extents))
        if kind == "scan":
            (axis,) = reads[0][attrs["axis"]] or (-1,)
            is_whole = symbol.op.name in ("sort_block", "fft_block")
            if axis < 0 and is_whole:  # a line of one element
                return value
            if axis < 0:
                neutral = symbol.op.neutral
                return self.constant(neutral(symbol.dtype), symbol.dtype) if attrs["exclusive"] and neutral else value
            value = self.spread(value, 1 << axis)
            name = "sum" if symbol.op.name == "cumsum" else symbol.op.name
            details = {
                "kind": f"fft_{attrs['kind']}" if name == "fft_block" else name,
                "axis": axis,
                "exclusive": not is_whole and attrs["exclusive"],
                "reverse": not is_whole and attrs["reverse"],
            }
            return self.emit("scan", symbol.dtype, (value,), details, key=tuple(details.items()))
        over = tuple([axis for d in attrs["axes"] for axis in reads[0][d]])
        name = symbol.op.name.removeprefix("reduce_")
        if not over:
            if name == "sum" and symbol.dtype.is_float:  # of one element; a sum starts from 0, so that -0 gives 0
                return self.emit("add", symbol.dtype, (value, self.constant(0, symbol.dtype)))
            return self.constant(0, symbol.dtype) if name in ("argmax", "argmin") else value
        mask = mask_of((over,))
        value = self.spread(value, mask)
        result = self.emit("reduce", symbol.dtype, (value,), {"kind": name, "over": over}, key=(name, over))
        self.entries[result].axes &= ~mask
        return result

    def _ordered(self, symbol: Symbol, axis_map: AxisMap, reads: Sequence[AxisMap]) -> int:
        """Emits a scatter or a sort, whose template writes the memory of the result."""
        operands = [self.evaluate(x, map_indices(read, self.extents)) for x, read in zip(symbol.inputs, reads, strict=True)]
        details: dict[str, object]
        if symbol.op.name == "sort_keys":
            (half,), (axis,) = axis_map[-2] or (-1,), axis_map[-1] or (-1,)
            operands[0] = self.spread(operands[0], mask_of((axis_map[-1],)))
            details = {"axis": axis, "half": half}
            return self.emit("sort", symbol.dtype, tuple(operands), details, axes=mask_of(axis_map), key=(axis, half))
        number = symbol.attrs["axis"]
        if symbol.op.name == "sort_lines":
            (axis,) = axis_map[number] or (-1,)
            operands[0] = self.spread(operands[0], mask_of((axis_map[number],)))
            details = {"axis": axis}
            return self.emit("sort_lines", symbol.dtype, tuple(operands), details, axes=mask_of(axis_map), key=(axis,))
        (target,), (over,) = axis_map[number] or (-1,), reads[1][number] or (-1,)
        steps = mask_of((reads[1][number],))
        position = self._wrapped(operands[1], symbol.inputs[1].dtype, symbol.shape[number])
        operands = [operands[0], self.spread(position, steps), self.spread(operands[2], steps)]
        details = {"kind": symbol.attrs["reduction"], "target": target, "over": over}
        key = tuple(details.items())
        result = self.emit("scatter", symbol.dtype, tuple(operands), details, axes=mask_of(axis_map), key=key)
        self.entries[result].axes &= ~steps
        return result

    def _contract(self, symbol: Symbol, axis_map: AxisMap, reads: Sequence[AxisMap]) -> int:
        m, n, k = self.group.roles[symbol.id]
        lhs, rhs = [self.evaluate(x, map_indices(read, self.extents)) for x, read in zip(symbol.inputs, reads, strict=True)]
        depth = self.group.depth[symbol.id]
        over = mask_of((depth,))
        lhs = self.spread(lhs, 1 << m | over)
        rhs = self.spread(rhs, over | 1 << n)
        accumulate = symbol.attrs["accumulate"]
        details = {"over": k, "outer": depth[:-1], "precision": symbol.attrs["precision"]}
        axes, key = mask_of(axis_map), tuple(details.items())
        result = self.emit("contract", accumulate, (lhs, rhs), details, axes=axes, key=key)
        self.entries[result].axes &= ~over
        if accumulate is symbol.dtype:
            return result
        return self._cast(result, symbol.dtype)
