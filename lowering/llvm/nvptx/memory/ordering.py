"""Emits barriers between accesses to global memory that other threads of the program have to see in order.

Operations of a program happen one after the other, but each thread does its part on its own: where an operation accesses what
an earlier one wrote (or writes what an earlier one read), and not every thread its own elements, all wait for each other first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from ....linear_layouts.layout import LANE, WARP, LinearLayout
from ....tt.analysis.alias_sets import UNKNOWN, AliasSet, may_alias
from ....tt.analysis.aliasing import WRITES, AliasAnalysis
from ....tt.dialect.attributes import enum_name
from ....tt.dialect.functions import FuncOp
from ....tt.dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS
from .shared_memory import SharedMemory

_READS = frozenset({"tt.load", "tt.atomic_load", "tt.atomic_poll", "tt.descriptor_load", "tt.descriptor_store"})
"""The operations that read; also accesses through tensor maps, which conflict with no others.

A tensor with a map is only read, or only written.
"""

_COMMUTING = frozenset({"and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin"})

Access = tuple[bool, AliasSet, Any, LinearLayout | None, str]
"""(writes, alias set, pointer, layout, the kind of an atomic whose order among atomics of that kind cannot be observed)"""


class MemoryOrder:
    """Tracks the accesses since the last barrier."""

    def __init__(self, function: FuncOp, shared: SharedMemory) -> None:
        self._aliases = AliasAnalysis(function)
        self._shared = shared
        self._since: list[Access] = []
        self._barriers = shared.barriers
        self._apart = False

    def before(self, op: Operation, layout: LinearLayout | None) -> None:
        """Makes an access wait for those that it could conflict with."""
        if self._apart:
            return
        self._forget_ordered()
        own = (op.name in WRITES, self._aliases.of(op.operands[0]), op.operands[0], layout, _commuting(op))
        if any(_conflict(own, earlier) for earlier in self._since):
            self._shared.barrier()
            self._forget_ordered()
        self._since.append(own)

    @contextmanager
    def apart(self, op: Operation) -> Iterator[None]:
        """Encloses an operation whose regions threads run on their own: no thread can wait inside, so all wait before it."""
        for inner in op.walk():
            if inner.name in _READS:
                self.before(inner, None)
        self._apart = True
        yield
        self._apart = False

    def release(self) -> None:
        """Makes all threads wait for each other if any of them accessed memory, so that their accesses are done."""
        self._forget_ordered()
        if self._since:
            self._shared.barrier()
            self._forget_ordered()

    def _forget_ordered(self) -> None:
        """Forgets the accesses before the last barrier, which need no other one."""
        if self._barriers != self._shared.barriers:
            self._since, self._barriers = [], self._shared.barriers

    @contextmanager
    def several_ways(self, op: Operation) -> Iterator[None]:
        """Encloses an operation with regions: inside and afterwards, the accesses in them may have happened."""
        before = list(self._since)
        for inner in op.walk():
            if inner.name in WRITES or inner.name in _READS:
                before.append((inner.name in WRITES, self._aliases.of(inner.operands[0]), None, None, _commuting(inner)))
        self._since = list(before)
        yield
        self._since, self._barriers = before, self._shared.barriers

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Restores the state afterwards."""
        kept = (list(self._since), self._barriers)
        yield
        self._since, self._barriers = kept


def _commuting(op: Any) -> str:
    """Returns the kind of a read-modify-write that promises no order and whose old values are not used, else ""."""
    if op.name != "tt.atomic_rmw" or op.result.first_use is not None:
        return ""
    if enum_name(MEMORY_ORDERS, op.sem) != "relaxed":
        return ""
    kind = str(enum_name(HOST_RMW_OPERATIONS, op.atomic_rmw_op))
    return kind if kind in _COMMUTING else ""


def _conflict(later: Access, earlier: Access) -> bool:
    if not (later[0] or earlier[0]) or not may_alias(later[1], earlier[1]):
        return False
    if later[4] and later[4] == earlier[4]:
        return False
    same = later[2] is not None and later[2] is earlier[2] and later[3] is not None and later[3] == earlier[3]
    return not same or UNKNOWN in later[1] or not _is_exclusive(later[3])


def _is_exclusive(layout: LinearLayout | None) -> bool:
    """Whether no two threads have the same element."""
    if layout is None:
        return False
    free = layout.free_masks()
    return not free[LANE] and not free[WARP]
