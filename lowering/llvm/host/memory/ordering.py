"""Keeps memory accesses in order. Loads are lazy: what a load reads must be kept before something overwrites it.

A kernel that never writes where it reads has nothing to keep. Otherwise a load that is read again after a write that may hit
its memory is evaluated into scratch before the write; so is one that the write itself reads at other positions than it writes.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from xdsl.ir import Operation, SSAValue

from ....tt.analysis.alias_sets import UNKNOWN, AliasSet, may_alias
from ....tt.analysis.aliasing import ATOMICS, AliasAnalysis
from ....tt.dialect.attributes import enum_name
from ....tt.dialect.memory.atomics import MEMORY_ORDERS
from ....tt.dialect.memory.pointers import StoreOp
from ...syntax import attribute
from ..nodes import Load, Map, Node, Pointers, View
from ..values import Values


class Ordering:
    """Keeps the loads of one function in order with its writes. `aliases` tells which pointers may share memory."""

    def __init__(self, values: Values, aliases: AliasAnalysis) -> None:
        self._values = values
        self._aliases = aliases
        self._pending: list[tuple[Any, Load, AliasSet]] = []

    def loaded(self, op: Any, node: Load) -> None:
        """Records a block load. It matters only if the function may write what it reads."""
        alias_set = self._aliases.of(op.ptr)
        if may_alias(alias_set, self._aliases.written):
            self._pending.append((op.results[0], node, alias_set))

    def before(self, op: Operation, index: int) -> None:
        """Keeps the loads that loop nest number `index` would overwrite."""
        if not self._pending:
            return
        written = self._writes(op)
        if not written:
            return
        for value, node, alias_set in list(self._pending):
            last = self._values.liveness.last.get(value, -1)
            if last < index or id(node) in self._values.ev.replacement or (last == index and op.regions):
                continue  # read before, kept already, or passed to a loop or branch, which reads it first
            if may_alias(alias_set, written) and (last > index or not _in_step(self._values, op, node)):
                self._keep(value, node)

    def may_overwrite(self, op: Operation) -> bool:
        """Whether an operation may write what some block is loaded from."""
        written = self._writes(op)
        return any(may_alias(alias_set, written) for _, _, alias_set in self._pending)

    def is_pending(self, node: Load) -> bool:
        """Whether something may overwrite what a block is loaded from."""
        return any(load is node for _, load, _ in self._pending)

    def enter(self) -> int:
        """Begins a block of a branching region. Returns the mark that `leave` takes."""
        return len(self._pending)

    def leave(self, mark: int, values: Set[Any]) -> None:
        """Ends a block: keeps its loads among these values, which other blocks read, and forgets the others."""
        own = self._pending[mark:]
        del self._pending[mark:]
        for value, node, _ in own:
            if value in values and id(node) not in self._values.ev.replacement:
                self._keep(value, node)

    def _keep(self, value: SSAValue, node: Load) -> None:
        stored = self._values.nests.materialize(node, bounds=self._values.limits(value))
        self._values.ev.replacement[id(node)] = (node, stored, ())

    def _writes(self, op: Operation) -> AliasSet:
        found: set[int] = set()
        for inner in op.walk():
            if inner.name in ATOMICS and _orders(inner):  # other programs may have written what it synchronises with
                return frozenset({UNKNOWN})
            found |= self._aliases.writes(inner)
        return frozenset(found)


def _orders(op: Operation) -> bool:
    return enum_name(MEMORY_ORDERS, attribute(op, "sem")) != "relaxed"


def _in_step(values: Values, op: Operation, load: Load) -> bool:
    """Whether a store reads the load only at the positions it writes: in place, element by element."""
    if not isinstance(op, StoreOp) or not load.shape:
        return False
    target = values.node(op.ptr)
    if not isinstance(target, Pointers) or not same_addresses(target, load.pointers):
        return False
    if target.rest is not None and _reads(target.rest, load):
        return False
    parts = [values.node(op.value)] + ([] if op.mask is None else [values.node(op.mask)])
    stack, seen = parts, set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Map):
                stack.extend(node.operands)
            elif node is not load and _reads(node, load):
                return False
    return True


def same_addresses(left: Pointers, right: Pointers) -> bool:
    """Whether two blocks of pointers are the same, position by position. False when that is not known."""
    if left.shape != right.shape or left.base != right.base or left.unit != right.unit:
        return False
    a, b = left.offset, right.offset
    same = a.base == b.base and a.coefficients == b.coefficients
    return same and left.rest is right.rest


def _reads(node: Node, load: Load) -> bool:
    """Whether evaluating the node reads the load."""
    stack, seen = [node], set[int]()
    while stack:
        here = stack.pop()
        if here is load:
            return True
        if id(here) in seen:
            continue
        seen.add(id(here))
        match here:
            case Map():
                stack.extend(here.operands)
            case View():
                stack.append(here.source)
            case Pointers():
                stack.extend([] if here.rest is None else [here.rest])
            case Load():
                parts = (here.pointers.rest, here.mask, here.other)
                stack.extend(part for part in parts if part is not None)
    return False
