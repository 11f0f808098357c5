"""Defines the operations that run a region of scalars: tt.reduce and tt.scan combine the elements along one
axis with it, tt.map_elementwise applies it to every element."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IntegerAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import HasParent, IsTerminator, NoMemoryEffect, Pure

from .. import types as t
from ..checks import BlockSizes, expect_axis, expect_block, expect_shape, expect_types, fail


class _CombineOp(IRDLOperation):
    """n blocks of one shape, combined elementwise by a region (n left values, n right values) -> n values."""

    srcs = var_operand_def()
    results_ = var_result_def()
    axis = prop_def(IntegerAttr)
    combine = region_def("single_block")

    def verify_(self) -> None:
        if not self.srcs:
            fail(self, "no operands, expected at least one block")
        shape = expect_block(self, "operand 0", self.srcs[0])
        for index, value in enumerate(self.srcs):
            expect_block(self, f"operand {index}", value)
            expect_shape(self, f"operand {index}", value.type, shape, "the shape of operand 0")
        axis = self.axis.value.data
        expect_axis(self, axis, len(shape))
        elements = [t.elem(value.type) for value in self.srcs]
        expect_types(self, "results", self.result_types, self.expected_results(axis))
        block = self.combine.block
        expect_types(
            self, "region arguments", [argument.type for argument in block.args], [*elements, *elements]
        )
        last = block.last_op
        if last is None or last.name != f"{self.name}.return":
            fail(self, f"the region ends in {last.name if last else 'nothing'}, expected {self.name}.return")
        expect_types(self, "values returned by the region", last.operand_types, elements)

    def expected_results(self, axis: int) -> list[Attribute]:
        """Returns the result types that follow from the operands."""
        raise NotImplementedError


@irdl_op_definition
class ReduceOp(_CombineOp):
    """Combines all elements along `axis`, which disappears. The combination is associative; its order is
    free."""

    name = "tt.reduce"

    traits = traits_def(NoMemoryEffect(), BlockSizes())

    def expected_results(self, axis: int) -> list[Attribute]:
        shape = t.shape_of(self.srcs[0].type)
        left = (*shape[:axis], *shape[axis + 1 :])
        return [t.tensor(t.elem(value.type), left) for value in self.srcs]


@irdl_op_definition
class ScanOp(_CombineOp):
    """Inclusive prefix combinations along `axis`, from its end when `reverse`."""

    name = "tt.scan"

    reverse = prop_def(BoolAttr)

    traits = traits_def(NoMemoryEffect(), BlockSizes())

    def expected_results(self, axis: int) -> list[Attribute]:
        return list(self.operand_types)


class _CombineReturnOp(IRDLOperation):
    """Ends the region with the combined values."""

    values = var_operand_def()

    assembly_format = "$values attr-dict `:` type($values)"


@irdl_op_definition
class ReduceReturnOp(_CombineReturnOp):
    """Ends the region of tt.reduce."""

    name = "tt.reduce.return"

    traits = traits_def(IsTerminator(), HasParent(ReduceOp), Pure())


@irdl_op_definition
class ScanReturnOp(_CombineReturnOp):
    """Ends the region of tt.scan."""

    name = "tt.scan.return"

    traits = traits_def(IsTerminator(), HasParent(ScanOp), Pure())


@irdl_op_definition
class MapElementwiseOp(IRDLOperation):
    """Applies a region of scalars to `pack` elements at a time, in row-major order; it may branch.

    Region arguments: `pack` elements of the first operand, then of the second, …; returned are `pack` elements of the first
    result, then of the second, …
    """

    name = "tt.map_elementwise"

    srcs = var_operand_def()
    results_ = var_result_def()
    pack = prop_def(IntegerAttr)
    scalarOp = region_def()

    traits = traits_def(BlockSizes())

    def verify_(self) -> None:
        if not self.srcs:
            fail(self, "no operands, expected at least one block")
        if not self.results_:
            fail(self, "no results, expected at least one")
        shape = expect_block(self, "operand 0", self.srcs[0])
        for what, values in (("operand", self.srcs), ("result", self.results_)):
            for index, value in enumerate(values):
                expect_block(self, f"{what} {index}", value)
                expect_shape(self, f"{what} {index}", value.type, shape, "the shape of operand 0")
        pack = self.pack.value.data
        if pack < 1 or t.element_count(self.srcs[0].type) % pack:
            fail(self, f"pack is {pack}, expected a divisor of the {t.element_count(self.srcs[0].type)} elements")
        blocks = self.scalarOp.blocks
        if not blocks:
            fail(self, "the region is empty")
        elements = [t.elem(value.type) for value in self.srcs for _ in range(pack)]
        expect_types(self, "region arguments", [argument.type for argument in blocks[0].args], elements)
        expected = [t.elem(value.type) for value in self.results_ for _ in range(pack)]
        for block in blocks:
            last = block.last_op
            if last is None or not last.has_trait(IsTerminator):
                fail(self, "a block of the region does not end in a terminator such as tt.map_elementwise.return")
            if not isinstance(last, MapElementwiseReturnOp) and not last.successors:
                fail(self, f"the region ends in {last.name}, expected tt.map_elementwise.return")
            if isinstance(last, MapElementwiseReturnOp):
                expect_types(self, "values returned by the region", last.operand_types, expected)


@irdl_op_definition
class MapElementwiseReturnOp(IRDLOperation):
    """Ends the region of tt.map_elementwise."""

    name = "tt.map_elementwise.return"

    values = var_operand_def()

    assembly_format = "attr-dict ($values^ `:` type($values))?"
    traits = traits_def(IsTerminator(), HasParent(MapElementwiseOp), Pure())


OPERATIONS: Sequence[type[Operation]] = (
    ReduceOp,
    ReduceReturnOp,
    ScanOp,
    ScanReturnOp,
    MapElementwiseOp,
    MapElementwiseReturnOp,
)
