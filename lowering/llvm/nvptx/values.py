"""The SSA values of a function while it is lowered, LLVM scalars or nodes for blocks, and the objects that emit code."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ....promotion.errors import InternalError
from ...linear_layouts.layout import LinearLayout
from ...tt.dialect.functions import FuncOp
from ..ir import Function
from ..syntax import element_name
from ..values import V
from .convert_layout import Moves
from .evaluate import Evaluator
from .memory.access_layouts import AccessLayouts
from .memory.shared_memory import SharedMemory
from .nodes import MAX_DEPTH, Node, Splat, depth_of, own_layout
from .targets import GpuTarget
from .threads import Threads


class Values:
    """The values of one function that are defined so far.

    f: the LLVM function that code goes to; t, shared, moves, ev: emit code of threads, accesses to shared memory, conversions
        of layouts, and the elements of nodes.
    accesses: layouts of accesses to global memory.
    scalars: the LLVM value of each scalar; nodes: the node of each block.
    """

    def __init__(self, f: Function, function: FuncOp, target: GpuTarget, warps: int) -> None:
        self.f = f
        self.function = function
        self.target = target
        self.t = Threads(f, warps)
        self.shared = SharedMemory(self.t)
        self.moves = Moves(self.t, self.shared)
        self.ev = Evaluator(self.t, self.moves)
        self.accesses = AccessLayouts(function, warps)
        self.scalars: dict[SSAValue, V] = {}
        self.nodes: dict[SSAValue, Node] = {}

    @property
    def warps(self) -> int:
        return self.t.warps

    def scalar(self, value: SSAValue) -> V:
        if value in self.scalars:
            return self.scalars[value]
        raise InternalError(f"nvptx lowering: scalar of type {value.type} has no definition yet")

    def node(self, value: SSAValue) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value in self.scalars:
            return Splat((), element_name(value.type), self.scalars[value])
        raise InternalError(f"nvptx lowering: value of type {value.type} has no definition yet")

    def define(self, value: SSAValue, node: Node) -> None:
        if depth_of(node) >= MAX_DEPTH:  # evaluation descends through all of it
            own = own_layout(node)
            node = self.ev.distributed(node, self.accesses.preferred(value) if own is None else own[0])
        self.ev.lines.set(node, self.ev.f.location)
        self.nodes[value] = node

    def registers(self, value: SSAValue, layout: LinearLayout) -> tuple[V, ...]:
        return self.ev.at(self.node(value), layout)

    def elements(self, value: SSAValue, layout: LinearLayout, registers: Sequence[int]) -> dict[int, V]:
        """Returns the elements of these registers, by register."""
        return dict(zip(registers, self.ev.elements(self.node(value), layout, registers), strict=True))

    def layout_of(self, value: SSAValue) -> LinearLayout:
        """Returns the layout that a block has, or else the preferred one."""
        node = self.node(value)
        found = self.ev.choose_layout([node])
        return found if found is not None else self.accesses.preferred(value)
