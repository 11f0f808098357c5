"""Builds block functions fast: `Op.create` with interned types and attributes, no verification (`verify` does
that).

    b = BlockBuilder.function("scale", [("x", ptr("f32")), ("n", I64)])
    x, n = b.args
    offsets = b.cast("arith.extsi", b.arange(64), I64)
    mask = b.cmpi("slt", offsets, b.splat(n, (64,)))
    pointers = b.addptr(b.splat(x, (64,)), offsets)
    value = b.load(pointers, mask)
    b.store(pointers, b.binary("arith.mulf", value, b.const(2.0, F32, (64,))), mask)
    function = b.finish()

Operands of one operation must have equal types (or, where only the shape is shared, equal shapes): the
builder checks and raises `InternalError`, because its callers are joinery's own. Scalars and blocks are
treated alike; nothing broadcasts by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from ....promotion.dtype import DType
from ....promotion.errors import InternalError
from .. import types as t
from ..constants import Number, constant_attr
from ..dialect.arith import FLOAT_PREDICATES, INTEGER_PREDICATES, CmpfOp, CmpiOp, SelectOp, predicate_attr
from ..dialect.attributes import INPUT_PRECISIONS, PROGRAM_AXES, ROUNDING_MODES, cache_policy, enum_attr
from ..dialect.compute import NO_IMPRECISE_ACCUMULATION, DotOp, FftOp, SortOp
from ..dialect.context import operation_class
from ..dialect.functions import FuncOp, GetNumProgramsOp, GetProgramIdOp, ReturnOp
from ..dialect.memory.descriptor_types import TensorDescType
from ..dialect.memory.pointers import LOAD_SEGMENTS, NOT_VOLATILE, SEGMENTS, AddPtrOp, LoadOp, StoreOp
from ..dialect.memory.sort_lines import SortLinesOp
from ..dialect.regions import ReduceOp, ReduceReturnOp, ScanOp, ScanReturnOp
from ..dialect.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    GatherOp,
    JoinOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    SplitOp,
    TransOp,
)
from .control import Branch, Loop
from .operation_builder import OperationBuilder

Combine = Callable[["BlockBuilder", list[SSAValue], list[SSAValue]], Sequence[SSAValue]]
"""The body of a reduction or scan: (builder, left values, right values) -> combined values, all scalars."""

_NONE: dict[str, Attribute] = {}
_DOT_PROPERTIES = {
    name: {"inputPrecision": enum_attr(value), "maxNumImpreciseAcc": NO_IMPRECISE_ACCUMULATION}
    for name, value in INPUT_PRECISIONS.items()
}
_FUNCTION_ATTRIBUTES = {"noinline": BoolAttr.from_bool(False)}
_PUBLIC = StringAttr("public")


_DEFAULTS: dict[str, Attribute] = {
    "overflowFlags": arith.IntegerOverflowAttr("none"),
    "fastmath": arith.FastMathFlagsAttr("none"),
}


class _Classes(dict[str, type[Operation]]):
    """Operation classes by name."""

    def __missing__(self, name: str) -> type[Operation]:
        found = operation_class(name)
        if found is None:
            raise InternalError(f"the block IR has no operation {name}")
        self[name] = found
        return found


class _DefaultProperties(dict[str, dict[str, Attribute]]):
    """Properties that an operation must have and whose default the builder writes, by its name."""

    def __missing__(self, name: str) -> dict[str, Attribute]:
        operation = _CLASSES[name]
        found = _NONE
        if issubclass(operation, IRDLOperation) and name != "arith.trunci":
            declared = operation.get_irdl_definition().properties
            found = {key: value for key, value in _DEFAULTS.items() if key in declared} or _NONE
        self[name] = found
        return found


_CLASSES = _Classes()
_PROPERTIES = _DefaultProperties()


class BlockBuilder(OperationBuilder):
    """Appends operations to a block function. Made by `BlockBuilder.function`."""

    __slots__ = ("args", "func")

    func: FuncOp
    args: list[SSAValue]

    def __init__(self, func: FuncOp) -> None:
        entry = func.body.block
        super().__init__(entry)
        self.func = func
        self.args = list(entry.args)

    @staticmethod
    def function(
        name: str,
        params: Sequence[tuple[str, Attribute]],
        arg_attrs: Sequence[Mapping[str, Attribute | int]] = (),
    ) -> BlockBuilder:
        """Start a public function without results.

        `arg_attrs`, one mapping per parameter, holds discardable attributes such as `{"tt.divisibility": 16}`
        (ints become i32).
        """
        block = Block(arg_types=[type_ for _, type_ in params])
        for (hint, _), argument in zip(params, block.args, strict=True):
            argument.name_hint = hint
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists([type_ for _, type_ in params], []),
            "sym_visibility": _PUBLIC,
        }
        if arg_attrs:
            if len(arg_attrs) != len(params):
                raise InternalError(f"{len(arg_attrs)} argument attributes for {len(params)} parameters")
            properties["arg_attrs"] = ArrayAttr([_dictionary(attrs) for attrs in arg_attrs])
        func = FuncOp.create(properties=properties, attributes=_FUNCTION_ATTRIBUTES, regions=[Region(block)])
        return BlockBuilder(func)

    def parameter(self, hint: str, type_: Attribute) -> SSAValue:
        """Append a further parameter."""
        entry = self.func.body.block
        argument = entry.insert_arg(type_, len(entry.args))
        argument.name_hint = hint
        self.args.append(argument)
        types = [each.type for each in entry.args]
        self.func.properties["function_type"] = FunctionType.from_lists(types, [])
        attrs = self.func.properties.get("arg_attrs")
        if isinstance(attrs, ArrayAttr):
            self.func.properties["arg_attrs"] = ArrayAttr([*attrs.data, _dictionary({})])
        return argument

    def finish(self) -> FuncOp:
        """Append `tt.return` and return the function."""
        if self._scopes:
            raise InternalError("finish() inside a loop, branch or combine region")
        self._block.add_op(ReturnOp.create(location=self.location))
        return self.func

    # Making operations

    def op(
        self,
        operation: type[Operation] | str,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute] = _NONE,
        regions: Sequence[Region] = (),
    ) -> Sequence[SSAValue]:
        """Append any operation of the block IR, by class or name; nothing is checked. Returns its results."""
        kind = _CLASSES[operation] if isinstance(operation, str) else operation
        return self.append(kind, operands, result_types, properties, regions)

    def _one(
        self,
        operation: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] = _NONE,
    ) -> SSAValue:
        return self.append(operation, operands, (result_type,), properties)[0]

    # Sources

    def const(self, value: Number, elem_type: Attribute | DType | str, shape: Sequence[int] = ()) -> SSAValue:
        """Emit `arith.constant`: a scalar, or a block filled with the value. One operation per value and
        block.

        The value is rounded to a float type and wrapped to an integer type; i1 takes truth.
        """
        attr = constant_attr(value, t.scalar_type(elem_type), tuple(shape))
        key = id(attr)  # interned: one object per type and value
        found = self._constants.get(key)
        if found is None:
            for scope in self._scopes:
                if (found := scope.get(key)) is not None:
                    return found
            found = self._one(arith.ConstantOp, (), attr.get_type(), {"value": attr})
            self._constants[key] = found
        return found

    def program_id(self, axis: int = 0) -> SSAValue:
        """Emit the index of this program along a grid axis, i32."""
        return self._one(GetProgramIdOp, (), t.I32, {"axis": _grid_axis(axis)})

    def num_programs(self, axis: int = 0) -> SSAValue:
        """Emit the number of programs along a grid axis, i32."""
        return self._one(GetNumProgramsOp, (), t.I32, {"axis": _grid_axis(axis)})

    def arange(self, n: int, start: int = 0) -> SSAValue:
        """Emit the block start … start + n - 1 of i32; `n` is a power of two."""
        properties = {"start": IntegerAttr(start, i32), "end": IntegerAttr(start + n, i32)}
        return self._one(MakeRangeOp, (), t.tensor(t.I32, (n,)), properties)

    # Shapes

    def splat(self, scalar: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Fill a block with a scalar; return the scalar itself for the empty shape."""
        if t.shape_of(scalar.type):
            raise InternalError(f"tt.splat of a block {scalar.type}; broadcast it instead")
        return self._one(SplatOp, (scalar,), t.tensor(scalar.type, shape)) if len(shape) else scalar

    def expand_dims(self, x: SSAValue, axis: int) -> SSAValue:
        """Insert an axis of extent 1 before `axis` (0 … rank)."""
        shape = t.shape_of(x.type)
        if not 0 <= axis <= len(shape) or not shape:
            raise InternalError(f"tt.expand_dims of {x.type} at axis {axis}")
        result = t.with_shape(x.type, (*shape[:axis], 1, *shape[axis:]))
        return self._one(ExpandDimsOp, (x,), result, {"axis": enum_attr(axis)})

    def broadcast(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Repeat along axes of extent 1; nothing is emitted when the shape is already right."""
        old, new = t.shape_of(x.type), tuple(shape)
        if old == new:
            return x
        if len(old) != len(new) or any(a not in (1, b) for a, b in zip(old, new, strict=True)):
            raise InternalError(f"tt.broadcast of {x.type} to {list(new)}")
        return self._one(BroadcastOp, (x,), t.with_shape(x.type, new))

    def trans(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        """Permute the axes: axis i of the result is axis order[i] of x."""
        shape = t.shape_of(x.type)
        if sorted(order) != list(range(len(shape))):
            raise InternalError(f"tt.trans of {x.type} with order {list(order)}")
        result = t.with_shape(x.type, tuple(shape[axis] for axis in order))
        return self._one(TransOp, (x,), result, {"order": DenseArrayBase.from_list(i32, list(order))})

    def gather(self, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
        """Take the elements of x at indices along an axis; the other axes are the same."""
        result = t.with_shape(x.type, t.shape_of(indices.type))
        return self._one(GatherOp, (x, indices), result, {"axis": IntegerAttr(axis, i32)})

    def sort(self, x: SSAValue, axis: int) -> SSAValue:
        """Put the elements along an axis in ascending order, as signed integers."""
        return self._one(SortOp, (x,), x.type, {"axis": IntegerAttr(axis, i32)})

    def fft(self, x: SSAValue, axis: int, kind: str, length: int) -> SSAValue:
        """Transform lines of complex64 along an axis, as `tt.fft` has it."""
        said = {"axis": IntegerAttr(axis, i32), "kind": StringAttr(kind), "length": IntegerAttr(length, i32)}
        return self._one(FftOp, (x,), x.type, said)

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Give the elements, in row-major order, another shape."""
        if prod(t.shape_of(x.type)) != prod(shape) or not len(shape):
            raise InternalError(f"tt.reshape of {x.type} to {list(shape)}")
        return self._one(ReshapeOp, (x,), t.with_shape(x.type, tuple(shape)))

    def join(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Stack two blocks along a new last axis."""
        type_ = _same_type("tt.join", a, b)
        return self._one(JoinOp, (a, b), t.with_shape(type_, (*t.shape_of(type_), 2)))

    def split(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Emit x[…, 0] and x[…, 1] of a block whose last axis has extent 2."""
        shape = t.shape_of(x.type)
        if len(shape) < 2 or shape[-1] != 2:
            raise InternalError(f"tt.split of {x.type}")
        half = t.with_shape(x.type, shape[:-1])
        first, second = self.op(SplitOp, (x,), (half, half))
        return first, second

    # Memory

    def addptr(self, p: SSAValue, offsets: SSAValue) -> SSAValue:
        """Move pointers by offsets in elements (any integer type, the pointers' shape)."""
        if not t.is_pointer(p.type) or t.shape_of(p.type) != t.shape_of(offsets.type):
            raise InternalError(f"tt.addptr of {p.type} by {offsets.type}")
        return self._one(AddPtrOp, (p, offsets), p.type)

    def load(
        self,
        p: SSAValue,
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
        cache: str | None = None,
    ) -> SSAValue:
        """Read through pointers. `cache` is a cache modifier ("cs", "cg", …).

        Lanes whose mask is false touch no memory and read `other`; without it their value is undefined.
        """
        result = _memory_type("tt.load", p, mask)
        operands = [p]
        if mask is not None:
            operands.append(mask)
        if other is not None:
            if mask is None or other.type != result:
                raise InternalError(f"tt.load of {p.type} with other {other.type} and mask {mask}")
            operands.append(other)
        properties = {SEGMENTS: LOAD_SEGMENTS[len(operands) - 1], "isVolatile": NOT_VOLATILE}
        if cache is not None:
            properties["cachePolicy"] = cache_policy(cache)
        return self._one(LoadOp, operands, result, properties)

    def store(
        self, p: SSAValue, value: SSAValue, mask: SSAValue | None = None, cache: str | None = None
    ) -> None:
        """Write through pointers where the mask is true. `cache` is a cache modifier ("cs", "cg", …)."""
        expected = _memory_type("tt.store", p, mask)
        if value.type != expected:
            raise InternalError(f"tt.store of {value.type} through {p.type}")
        operands = (p, value) if mask is None else (p, value, mask)
        properties: dict[str, Attribute] = {} if cache is None else {"cachePolicy": cache_policy(cache)}
        self.append(StoreOp, operands, (), properties)

    def sort_lines(self, p: SSAValue, lines: SSAValue, count: SSAValue) -> None:
        """Put lines of integers, which lie one after the other in memory, in ascending order each."""
        self.append(SortLinesOp, (p, lines, count), (), {})

    def descriptor_load(self, desc: SSAValue, indices: Sequence[SSAValue], sizes: tuple[int, ...]) -> SSAValue:
        """Read the block that starts at the (i32) indices; `sizes` are its extents, of which leading ones may
        be left out."""
        type_ = desc.type
        assert isinstance(type_, TensorDescType)
        return self._one(_CLASSES["tt.descriptor_load"], (desc, *indices), t.tensor(type_.elem, sizes))

    def descriptor_store(self, desc: SSAValue, value: SSAValue, indices: Sequence[SSAValue]) -> None:
        """Write the block that starts at the (i32) indices."""
        stored = _CLASSES["tt.descriptor_store"].create(operands=(desc, value, *indices), location=self.location)
        self._block.add_op(stored)

    # Arithmetic

    def unary(self, name: str, x: SSAValue) -> SSAValue:
        """Emit an operation with one operand and a result of its type: `"math.exp"`, `"arith.negf"`,
        `"tt.precise_sqrt"`, …"""
        return self._one(_CLASSES[name], (x,), x.type, _PROPERTIES[name])

    def binary(self, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Emit an operation with two operands and a result of one type: `"arith.addf"`, `"math.powf"`,
        `"tt.mulhiui"`, …"""
        return self._one(_CLASSES[name], (a, b), _same_type(name, a, b), _PROPERTIES[name])

    def ternary(self, name: str, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """Emit an operation with three operands and a result of one type: `"math.fma"`."""
        _same_type(name, a, c)
        return self._one(_CLASSES[name], (a, b, c), _same_type(name, a, b), _PROPERTIES[name])

    def cmpi(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Compare integers: eq ne slt sle sgt sge ult ule ugt uge."""
        result = t.mask_type(_same_type("arith.cmpi", a, b))
        return self._one(CmpiOp, (a, b), result, {"predicate": _INTEGER[predicate]})

    def cmpf(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Compare floats: oeq one olt ole ogt oge ord, ueq une ult ule ugt uge uno, true, false."""
        result = t.mask_type(_same_type("arith.cmpf", a, b))
        return self._one(CmpfOp, (a, b), result, _FLOAT[predicate])

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """Emit a where the condition holds, else b. The condition has the values' shape or is a scalar."""
        type_ = _same_type("arith.select", a, b)
        if t.shape_of(condition.type) not in ((), t.shape_of(type_)):
            raise InternalError(f"arith.select of {type_} by {condition.type}")
        return self._one(SelectOp, (condition, a, b), type_)

    def cast(self, name: str, x: SSAValue, elem_type: Attribute | DType | str) -> SSAValue:
        """Change the element type: arith.extf truncf sitofp uitofp fptosi fptoui extsi extui trunci,
        tt.fp_to_fp, tt.bitcast, tt.ptr_to_int, tt.int_to_ptr. `tt.fp_to_fp` rounds to nearest even. Nothing
        is emitted when the type is already right."""
        result = t.with_elem(x.type, t.scalar_type(elem_type))
        if result == x.type:
            return x
        properties: Mapping[str, Attribute] = _PROPERTIES[name]
        if name == "tt.fp_to_fp" and t.bit_width(result) <= t.bit_width(x.type):
            properties = _ROUND_TO_NEAREST
        return self._one(_CLASSES[name], (x,), result, properties)

    def dot(self, a: SSAValue, b: SSAValue, acc: SSAValue, precision: str = "ieee") -> SSAValue:
        """Emit a · b + acc over (M, K) and (K, N), or batches of them. `precision`: how f32 inputs may be
        narrowed."""
        rows, columns = t.shape_of(a.type), t.shape_of(b.type)
        legal = len(rows) in (2, 3) and len(rows) == len(columns) and rows[-1] == columns[-2]
        if not legal or t.shape_of(acc.type) != (*rows[:-1], columns[-1]) or rows[:-2] != columns[:-2]:
            raise InternalError(f"tt.dot of {a.type} and {b.type} into {acc.type}")
        return self._one(DotOp, (a, b, acc), acc.type, _DOT_PROPERTIES[precision])

    # Regions

    def reduce(self, operands: Sequence[SSAValue], axis: int, combine: Combine) -> list[SSAValue]:
        """Emit `tt.reduce` along `axis`, which disappears. `combine` builds the region from scalars."""
        shape = t.shape_of(operands[0].type)
        left = (*shape[:axis], *shape[axis + 1 :])
        types = [t.with_shape(value.type, left) for value in operands]
        return self._combined(ReduceOp, ReduceReturnOp, operands, types, {"axis": enum_attr(axis)}, combine)

    def scan(
        self, operands: Sequence[SSAValue], axis: int, combine: Combine, reverse: bool = False
    ) -> list[SSAValue]:
        """Emit `tt.scan`: inclusive prefixes along `axis`, from its end when `reverse`."""
        types = [value.type for value in operands]
        properties = {"axis": enum_attr(axis), "reverse": BoolAttr.from_bool(reverse)}
        return self._combined(ScanOp, ScanReturnOp, operands, types, properties, combine)

    def _combined(
        self,
        operation: type[Operation],
        terminator: type[Operation],
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: Mapping[str, Attribute],
        combine: Combine,
    ) -> list[SSAValue]:
        shapes = {t.shape_of(value.type) for value in operands}
        if len(shapes) != 1 or shapes == {()}:
            raise InternalError(f"{operation.name} of {', '.join(str(value.type) for value in operands)}")
        elements = [t.elem(value.type) for value in operands]
        block = Block(arg_types=[*elements, *elements])
        # The region sees nothing of the function: back ends run it for any pair of elements, anywhere.
        with self.inside(block, visible=False):
            values = combine(self, list(block.args[: len(elements)]), list(block.args[len(elements) :]))
            if [value.type for value in values] != elements:
                raise InternalError(
                    f"{operation.name}: the region gives {', '.join(str(value.type) for value in values)}"
                )
            block.add_op(terminator.create(operands=values, location=self.location))
        return list(self.op(operation, operands, result_types, properties, (Region(block),)))

    def for_(self, low: SSAValue, high: SSAValue, step: SSAValue, inits: Sequence[SSAValue] = ()) -> Loop:
        """Open an `scf.for` over [low, high) by step (equal integer types, signed).

        with b.for_(low, high, step, [zero]) as loop:
            index, (total,) = loop              # or loop.index, loop.args
            loop.yield_([b.binary("arith.addf", total, …)])
        loop.results
        """
        _same_type("scf.for", low, high)
        return Loop(self, [low, high, step, *inits], _same_type("scf.for", low, step))

    def if_(self, condition: SSAValue, result_types: Sequence[Attribute] = ()) -> Branch:
        """Open an `scf.if` on a scalar i1.

        branch = b.if_(condition, [F32])
        with branch.then():
            branch.yield_([x])
        with branch.otherwise():                # may be left out when there are no results
            branch.yield_([y])
        branch.results
        """
        if condition.type != t.I1:
            raise InternalError(f"scf.if on {condition.type}")
        return Branch(self, condition, list(result_types))


_INTEGER = {name: predicate_attr(number) for number, name in enumerate(INTEGER_PREDICATES)}
_FLOAT = {
    name: {"predicate": predicate_attr(number), **_PROPERTIES["arith.cmpf"]}
    for number, name in enumerate(FLOAT_PREDICATES)
}
_ROUND_TO_NEAREST = {"rounding": enum_attr(ROUNDING_MODES["rtne"])}


def _same_type(name: str, a: SSAValue, b: SSAValue) -> Attribute:
    type_ = a.type
    if type_ is not b.type and type_ != b.type:
        raise InternalError(f"{name} of {type_} and {b.type}")
    return type_


def _memory_type(name: str, p: SSAValue, mask: SSAValue | None) -> Attribute:
    """Return the type of what the pointers point to, and check the mask against it."""
    type_ = t.value_type(p.type)
    if mask is not None and mask.type != t.mask_type(type_):
        raise InternalError(f"{name} through {p.type} with mask {mask.type}")
    return type_


def _grid_axis(axis: int) -> IntegerAttr:
    if axis not in PROGRAM_AXES.values():
        raise InternalError(f"grid axis {axis}")
    return enum_attr(axis)


def _dictionary(attrs: Mapping[str, Attribute | int]) -> DictionaryAttr:
    return DictionaryAttr(
        {key: IntegerAttr(value, i32) if isinstance(value, int) else value for key, value in attrs.items()}
    )
