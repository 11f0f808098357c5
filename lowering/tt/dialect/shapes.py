"""Defines the tt operations that make blocks and move their elements, and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from .. import types as t
from ..checks import (
    BlockSizes,
    expect_axis,
    expect_block,
    expect_kind,
    expect_same_elem,
    expect_scalar,
    expect_shape,
    expect_type,
    fail,
)
from .constraints import ELEMENT, SAME, written


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """The block start, start + 1, …, end - 1 of i32."""

    name = "tt.make_range"

    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        start, end = self.start.value.data, self.end.value.data
        if end <= start:
            fail(self, f"the range {start} … {end} is empty")
        expect_type(self, "result", self.result.type, t.tensor(t.I32, (end - start,)), f"{start} … {end}")


class _ShapeOp(IRDLOperation):
    """One operand, one result, both types written: `$src {…} : type -> type`."""

    src = operand_def()
    result = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure(), BlockSizes())


@irdl_op_definition
class SplatOp(_ShapeOp):
    """A block filled with one scalar."""

    name = "tt.splat"

    def verify_(self) -> None:
        expect_scalar(self, "src", self.src)
        expect_block(self, "result", self.result)
        expect_same_elem(self, "result", self.result.type, self.src.type)


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The only element of a block."""

    name = "tt.unsplat"

    src = operand_def(written())
    result = result_def(ELEMENT)

    assembly_format = "$src attr-dict `:` type($src)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        if prod(shape) != 1:
            fail(self, f"src is {self.src.type} with {prod(shape)} elements, expected exactly one")
        expect_type(self, "result", self.result.type, t.elem(self.src.type))


@irdl_op_definition
class ExpandDimsOp(_ShapeOp):
    """Inserts an axis of extent 1 before `axis`."""

    name = "tt.expand_dims"

    axis = prop_def(IntegerAttr)

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        axis = self.axis.value.data
        expect_axis(self, axis, len(shape) + 1)
        expect_shape(self, "result", self.result.type, (*shape[:axis], 1, *shape[axis:]))
        expect_same_elem(self, "result", self.result.type, self.src.type)


@irdl_op_definition
class BroadcastOp(_ShapeOp):
    """Repeats the elements along axes of extent 1."""

    name = "tt.broadcast"

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        target = expect_block(self, "result", self.result)
        if len(shape) != len(target):
            fail(self, f"src has rank {len(shape)} and result rank {len(target)}; tt.expand_dims adds axes")
        for axis, (old, new) in enumerate(zip(shape, target, strict=True)):
            if old not in (1, new):
                fail(self, f"axis {axis} grows from {old} to {new}; only axes of extent 1 can grow")
        expect_same_elem(self, "result", self.result.type, self.src.type)


@irdl_op_definition
class TransOp(_ShapeOp):
    """Permutes the axes: axis i of the result is axis order[i] of src."""

    name = "tt.trans"

    order = prop_def(DenseArrayBase)

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        order = tuple(int(axis) for axis in self.order.get_values())
        if sorted(order) != list(range(len(shape))):
            fail(
                self, f"order {list(order)} is not a permutation of the {len(shape)} axes of {self.src.type}"
            )
        expect_shape(self, "result", self.result.type, [shape[axis] for axis in order])
        expect_same_elem(self, "result", self.result.type, self.src.type)


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements, in row-major order, under another shape."""

    name = "tt.reshape"

    src = operand_def()
    result = result_def()
    allow_reorder = opt_prop_def(UnitAttr)
    efficient_layout = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$src (`allow_reorder` $allow_reorder^)? (`efficient_layout` $efficient_layout^)? attr-dict "
        "`:` type($src) `->` type($result)"
    )
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        old = prod(expect_block(self, "src", self.src))
        new = prod(expect_block(self, "result", self.result))
        if old != new:
            fail(self, f"src has {old} elements and result {new}")
        expect_same_elem(self, "result", self.result.type, self.src.type)


class _PairOp(IRDLOperation):
    """Two blocks of one type, one result."""

    lhs = operand_def(written())
    rhs = operand_def(SAME)
    result = result_def()

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
    traits = traits_def(Pure(), BlockSizes())


@irdl_op_definition
class JoinOp(_PairOp):
    """Stacks two blocks along a new last axis of extent 2."""

    name = "tt.join"

    def verify_(self) -> None:
        shape = expect_block(self, "lhs", self.lhs)
        expect_type(self, "rhs", self.rhs.type, self.lhs.type, "the type of lhs")
        expect_shape(self, "result", self.result.type, (*shape, 2))
        expect_same_elem(self, "result", self.result.type, self.lhs.type)


@irdl_op_definition
class CatOp(_PairOp):
    """Concatenates two blocks of rank 1. The order of the result's elements is free."""

    name = "tt.cat"

    def verify_(self) -> None:
        shape = expect_block(self, "lhs", self.lhs)
        expect_type(self, "rhs", self.rhs.type, self.lhs.type, "the type of lhs")
        expect_shape(self, "result", self.result.type, (2 * shape[0], *shape[1:]))
        expect_same_elem(self, "result", self.result.type, self.lhs.type)


@irdl_op_definition
class SplitOp(IRDLOperation):
    """The two halves of a block along its last axis, which has extent 2."""

    name = "tt.split"

    src = operand_def()
    outLHS = result_def(written())
    outRHS = result_def(SAME)

    assembly_format = "$src attr-dict `:` type($src) `->` type($outLHS)"
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        if shape[-1] != 2:
            fail(self, f"src is {self.src.type}, expected a last axis of extent 2")
        half = t.tensor(t.elem(self.src.type), shape[:-1])
        expect_type(self, "first result", self.outLHS.type, half)
        expect_type(self, "second result", self.outRHS.type, half)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """result[…, i, …] = src[…, indices[…, i, …], …] along one axis of a block."""

    name = "tt.gather"

    src = operand_def()
    indices = operand_def()
    result = result_def()
    axis = prop_def(IntegerAttr)
    efficient_layout = opt_prop_def(UnitAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$src `[` $indices `]` (`efficient_layout` $efficient_layout^)? attr-dict "
        "`:` functional-type(operands, results)"
    )
    traits = traits_def(Pure(), BlockSizes())

    def verify_(self) -> None:
        shape = expect_block(self, "src", self.src)
        index_shape = expect_block(self, "indices", self.indices)
        expect_kind(self, "indices", self.indices.type, "integer")
        axis = self.axis.value.data
        expect_axis(self, axis, len(shape))
        if len(index_shape) != len(shape):
            fail(self, f"src has rank {len(shape)} and indices rank {len(index_shape)}")
        for other, (extent, index_extent) in enumerate(zip(shape, index_shape, strict=True)):
            if other != axis and extent != index_extent:
                fail(self, f"axis {other} has extent {extent} in src and {index_extent} in indices")
        expect_shape(self, "result", self.result.type, index_shape)
        expect_same_elem(self, "result", self.result.type, self.src.type)


OPERATIONS: Sequence[type[Operation]] = (
    MakeRangeOp,
    SplatOp,
    UnsplatOp,
    ExpandDimsOp,
    BroadcastOp,
    TransOp,
    ReshapeOp,
    JoinOp,
    CatOp,
    SplitOp,
    GatherOp,
)
