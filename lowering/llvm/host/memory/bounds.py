"""The memory that accesses may reach, in launches that compare them with it (`checked_accesses.py`).

Such a launch passes the first byte and the size of the memory behind every pointer. For addresses that the kernel loads or
makes, it passes a table of all memory that is known. A pointer may reach the memory of the parameters that it is based on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from ....tt import types as t
from ....tt.analysis.alias_sets import UNKNOWN
from ....tt.analysis.aliasing import WRITES, AliasAnalysis
from ....tt.dialect.memory.check_access import CheckAccessOp
from ....tt.instrument.bounds import ACCESSES
from ...elementwise import memory_size
from ...ir import Function
from ...module import Module
from ...syntax import pointee_name
from ...values import FALSE, V, i64
from ..control.sites import Access
from ..nodes import Node
from ..scalars import ZERO


class Bounds:
    """The memory behind the parameters of a function, as its launches pass it.

    memory: the (first byte, size) of each pointer; None for numbers.  table: address and length of the known memory's spans.
    alive: nodes that extremes are known of by their ids.
    """

    def __init__(self, function: Operation, memory: Sequence[tuple[V, V] | None], table: tuple[V, V]) -> None:
        self.memory = memory
        self.table = table
        self._aliases = AliasAnalysis(function)
        self._arguments = function.regions[0].blocks[0].args
        self.alive: list[Node] = []

    def reach(self, op: CheckAccessOp) -> Access:
        """What the checked access may reach."""
        bases = self._aliases.of(op.ptr)
        names = [(base, self._arguments[base].name_hint or f"argument {base}") for base in sorted(bases - {UNKNOWN})]
        verb = "written" if op.access.data in WRITES else "read"
        return Access(verb, memory_size(pointee_name(op.ptr.type)), () if UNKNOWN in bases else tuple(names))


def follows_addresses(function: Operation) -> bool:
    """Whether a function accesses memory at addresses that it loads or makes."""
    aliases = AliasAnalysis(function)
    return any(op.name in ACCESSES and UNKNOWN in aliases.of(op.operands[0]) for op in function.walk())


def follows_twice(function: Operation) -> bool:
    """Whether a function loads what may be addresses from memory at addresses that it loads or makes."""
    aliases = AliasAnalysis(function)
    return any(
        op.name in ACCESSES and bool(op.results) and UNKNOWN in aliases.of(op.operands[0])
        and (t.is_pointer(op.results[0].type) or t.bit_width(op.results[0].type) == 64)
        for op in function.walk()
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """The function that looks for memory in a table of spans, ordered by their first bytes. Implements `SharedFunction`."""

    name: ClassVar[str] = "jn_find_span"
    parameters: ClassVar = (
        ("ptr", "table"), ("i64", "count"), ("i64", "address"), ("i64", "size"), ("ptr", "found"),
    )  # fmt: skip

    def add(self, module: Module, linkage: str = "internal") -> None:
        """Adds it: it writes to `found` the span (first byte, end) that holds `size` bytes from the address on, if one does."""
        f = Function(module, self.name, self.parameters, attributes="nounwind noinline", linkage=linkage)
        table, count, address, size, found = f.params
        low, high = f.alloca("i64", 1, 8), f.alloca("i64", 1, 8)  # the last span that begins at the address or before
        f.store(i64(-1), low, 8)
        f.store(count, high, 8)
        steps = f.binary("sub", i64(64), f.intrinsic("ctlz", [count, FALSE], "i64"))
        with f.loop(0, steps), f.when(f.icmp("sgt", f.binary("sub", f.load("i64", high, 8), f.load("i64", low, 8)), i64(1))):
            middle = f.binary("ashr", f.binary("add", f.load("i64", low, 8), f.load("i64", high, 8)), i64(1))
            first = f.load("i64", f.gep(table, middle, "{ i64, i64 }"), 8)
            begins = f.icmp("ule", first, address)
            f.store(f.select(begins, middle, f.load("i64", low, 8)), low, 8)
            f.store(f.select(begins, f.load("i64", high, 8), middle), high, 8)
        last = f.load("i64", low, 8)
        with f.when(f.icmp("sge", last, ZERO)):
            span = f.gep(table, last, "{ i64, i64 }")
            first, end = f.load("i64", span, 8), f.load("i64", f.gep(span, 8), 8)
            room = f.binary("sub", f.binary("sub", end, first), size)
            with f.when(f.binary("and", f.icmp("sge", room, ZERO), f.icmp("ule", f.binary("sub", address, first), room))):
                f.store(first, found, 8)
                f.store(end, f.gep(found, 8), 8)
        f.ret()
        module.add(f)
