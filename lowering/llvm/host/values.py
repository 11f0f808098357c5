"""The SSA values of a function while it is lowered: LLVM scalars, or lazy nodes for blocks."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from ....promotion.errors import InternalError
from ...tt.dialect.functions import FuncOp
from ..elementwise import memory_element
from ..syntax import element_name, pointee_name
from ..values import NULL, V
from .evaluate import Evaluator
from .loops.coordinates import Bound
from .loops.demanded_elements import DemandedElements, wide_dim
from .loops.liveness import Liveness, all_operations, reachable
from .loops.loop_nests import LoopNests
from .nodes import Affine, Load, Map, Node, Pointers, Shape, Splat, Stored, View
from .scalars import ZERO

MAX_DEPTH = 80
"""The longest chain of operations on blocks before a block is written to scratch: evaluation recurses through the chain."""


class Values:
    """The values of one function that are defined so far, and what reads them.

    scalars: the LLVM value of each scalar.
    nodes: the lazy node of each block.
    wide: the i64 value of scalars that also exist in a narrower type, such as loop counters.
    carried: the scratch that a value becomes when its loop's next iteration begins.
    """

    def __init__(self, ev: Evaluator, function: FuncOp) -> None:
        self.ev = ev
        self.nests = LoopNests(ev, self._is_read_later, self._unread)
        self.scalars: dict[SSAValue, V] = {}
        self.nodes: dict[SSAValue, Node] = {}
        self.wide: dict[SSAValue, V] = {}
        self.carried: dict[SSAValue, Stored] = {}
        self.blocks = reachable(function.body)
        self.liveness = Liveness(self.blocks)
        self._demanded = DemandedElements(function) if len(self.blocks) == 1 else None
        self.current_nest = -1
        self._value_of: dict[int, SSAValue] = {}
        self._depths: dict[int, int] = {}

    def operations(self) -> Iterator[Operation]:
        for block in self.blocks:
            yield from all_operations(block)

    # -- definitions --------------------------------------------------------------

    def define(self, value: SSAValue, node: Node) -> None:
        self._depths[id(node)] = self._depth(node)
        self.ev.lines.set(node, self.ev.f.location)
        self.nodes[value] = node
        self._value_of.setdefault(id(node), value)

    def node(self, value: SSAValue) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value in self.scalars:
            return Splat((), element_name(value.type), self.scalars[value])
        raise InternalError(f"host lowering: value of type {value.type} has no definition yet")

    def scalar(self, value: SSAValue) -> V:
        if value in self.scalars:
            return self.scalars[value]
        return self.nests.argument_of(self.node(value))

    def integer(self, value: SSAValue) -> V:
        """Returns a scalar integer as an i64."""
        if value in self.wide:
            return self.wide[value]
        return self.ev.s.to_i64(self.scalar(value))

    def pointers(self, value: SSAValue) -> Pointers:
        node = self.node(value)
        if isinstance(node, Pointers):
            return node
        pointee = pointee_name(value.type)
        unit = memory_element(pointee)
        if isinstance(node, Splat):
            offset = Affine(node.shape, "i64", ZERO, (None,) * len(node.shape))
            return Pointers(node.shape, "ptr", node.value, pointee, offset, self.ev.s.multiple(node.value), unit)
        addresses = Map(node.shape, "i64", "tt.ptr_to_int", (node,))
        nothing = Affine(node.shape, "i64", ZERO, (None,) * len(node.shape))
        return Pointers(node.shape, "ptr", NULL, pointee, nothing, 1, "i8", addresses)

    # -- readers ------------------------------------------------------------------

    def _is_read_later(self, node: Node) -> bool:
        value = self._value_of.get(id(node))
        return value is not None and self.liveness.last.get(value, -1) > self.current_nest

    def limits(self, value: SSAValue) -> list[Bound]:
        """Returns the bounds beyond which a block value is never read, as far as their limits are known here."""
        demanded = self._demanded
        if demanded is None:
            return []
        found = []
        for dim, comparison in demanded.of(value):
            limit = self.ev.s.known(_compared(demanded, comparison))
            if limit is not None:
                found.append(Bound(dim, limit))
        return found

    def remember_limit(self, comparison: SSAValue, shape: Shape, bound: Bound) -> None:
        """Makes the bound of a comparison known from here on, for all comparisons with the same result."""
        demanded = self._demanded
        if demanded is not None and bound.dim == wide_dim(shape):
            self.ev.s.remember(_compared(demanded, comparison), bound.limit)

    def is_read_after(self, node: Node, op: Operation) -> bool:
        """Whether a nest after the operation's reads the block that the node was defined as."""
        value = self._value_of.get(id(node))
        return value is not None and self.liveness.last.get(value, -1) > self.liveness.index[op]

    def _unread(self, node: Node, bound: Bound) -> bool:
        """Whether the node's block is never read beyond the bound."""
        value = self._value_of.get(id(node))
        return value is not None and any(
            own.dim == bound.dim and own.limit == bound.limit for own in self.limits(value)
        )

    # -- depth --------------------------------------------------------------------

    def _depth(self, node: Node) -> int:
        """Returns how many nodes evaluation descends through. Every new node is measured once, so this does not recurse."""
        match node:
            case View():
                return 1 + self._depths.get(id(node.source), 0)
            case Pointers():
                return 0 if node.rest is None else self._depths.setdefault(id(node.rest), self._depth(node.rest))
            case Load():
                parts = [node.pointers, node.mask, node.other]
                return 1 + max(self._depths.get(id(part), 0) for part in parts if part is not None)
            case Map():
                return 1 + max(self._depths.get(id(operand), 0) for operand in node.operands)
        return 0

    def shallow(self, node: Map) -> Node:
        """Returns the node, or a copy of its block in scratch where its chain of operands is too long to evaluate at once."""
        if self._depth(node) < MAX_DEPTH:
            return node
        return self.nests.materialize(node)


def _compared(demanded: DemandedElements, comparison: SSAValue) -> tuple[str, ...]:
    """Returns the key of a comparison's limit, which all comparisons with the same result share."""
    return ("compared", str(demanded.comparisons.number(comparison)))
