"""Defines the operations that compute nothing: a barrier between the threads of one program, an assumption
about a scalar, and the order of one launch after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from .. import types as t
from ..checks import BlockSizes, expect_type
from .attributes import parse_case

ADDRESS_SPACES = ("all", "local", "global_read", "global_write", "tensor_read", "tensor_write")
OLD_SPELLING = "gpu.barrier"
"""An attribute of a barrier that the text spells like this; it is not printed."""


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Makes the threads of a program wait for one another; does nothing if a program is one thread."""

    name = "ttg.barrier"

    addrSpace = prop_def(StringAttr)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        spaces = [parse_case(parser, "address space", ADDRESS_SPACES)]
        while parser.parse_optional_punctuation("|") is not None:
            spaces.append(parse_case(parser, "address space", ADDRESS_SPACES))
        return cls.create(properties={"addrSpace": StringAttr("|".join(spaces))})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.addrSpace.data}")


@irdl_op_definition
class GpuBarrierOp(IRDLOperation):
    """The spelling of `ttg.barrier all` in Triton up to 3.6. Reading it gives that operation."""

    name = "gpu.barrier"

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:  # type: ignore[override]  # what is read is another operation
        return BarrierOp.create(properties={"addrSpace": StringAttr("all")}, attributes={OLD_SPELLING: UnitAttr()})


@irdl_op_definition
class AssumeOp(IRDLOperation):
    """A scalar condition that the author promises."""

    name = "llvm.intr.assume"

    condition = operand_def()

    assembly_format = "$condition attr-dict `:` type($condition)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), BlockSizes())

    def verify_(self) -> None:
        expect_type(self, "condition", self.condition.type, t.I1, "a scalar i1")


class _GridDependencyOp(IRDLOperation):
    """Concerns launches that overlap. Here a launch ends before the next begins, so nothing happens."""

    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class GridDependencyWaitOp(_GridDependencyOp):
    """Waits for the launches that this one depends on."""

    name = "tt.grid_dependency_wait"


@irdl_op_definition
class GridDependencyLaunchDependentsOp(_GridDependencyOp):
    """Lets the launches begin that depend on this one."""

    name = "tt.grid_dependency_launch_dependents"


BARRIERS: Sequence[type[Operation]] = (BarrierOp,)
OLD_BARRIERS: Sequence[type[Operation]] = (GpuBarrierOp,)
ASSUMPTIONS: Sequence[type[Operation]] = (AssumeOp,)
GRID_DEPENDENCIES: Sequence[type[Operation]] = (GridDependencyWaitOp, GridDependencyLaunchDependentsOp)
