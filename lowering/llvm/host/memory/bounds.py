"""The memory that accesses may reach, in launches that compare them with it (`checked_accesses.py`).

Such a launch passes the first byte and the size of the memory behind every pointer. For addresses that the kernel loads or
makes, it passes a table of all memory that is known. A pointer may reach the memory of the parameters that it is based on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from .....promotion.dataclass import dataclass
from ....tt.analysis.alias_sets import UNKNOWN
from ....tt.analysis.aliasing import WRITES, AliasAnalysis
from ....tt.analysis.distances import distance_moves
from ....tt.dialect.memory.check_access import CheckAccessOp
from ....tt.instrument.bounds import ACCESSES
from ....tt.limits import MAX_DISTANCE
from ....tt.types import bit_width, is_integer, is_pointer
from ...elementwise import memory_size
from ...ir import Function
from ...module import Module
from ...syntax import element_name, is_tensor, pointee_name
from ...values import FALSE, TRUE, V, i64
from ..control.sites import Access
from ..nodes import Node
from ..scalars import ZERO, Scalars, is_constant

LOST = -(1 << 63)
"""The address of pointers that were moved too far. No memory is near."""
HIGHEST = 1 << 62
"""Addresses beyond it, as signed numbers, are of such pointers: moves by 32-bit numbers lead at most 2^34 bytes further."""


def led_to(s: Scalars, address: V, offset: V, size: int, near: V = TRUE) -> V:
    """The address that an offset in elements of so many bytes leads to: one in no memory if it leads beyond `MAX_DISTANCE`.

    near: whether the address is one that can be left.
    """
    limit = MAX_DISTANCE // size
    f = s.f
    if not (is_constant(offset) and -limit <= offset.number <= limit):
        is_near = f.icmp("ule", s.add(offset, i64(limit)), i64(2 * limit))
        near = is_near if near == TRUE else f.binary("and", near, is_near)
    found = s.add(address, s.mul(offset, s.constant(size)))
    return found if near == TRUE else f.select(near, found, i64(LOST))


class Bounds:
    """The memory behind the parameters of a function, as its launches pass it.

    memory: the (first byte, size) of each pointer; None for numbers.  table: address and length of the known memory's spans.
    alive: nodes that extremes are known of by their ids.  moves_far: whether scalar pointers are moved by 64-bit numbers.
    reads_addresses: whether numbers are then made of addresses.
    """

    def __init__(self, function: Operation, memory: Sequence[tuple[V, V] | None], table: tuple[V, V]) -> None:
        self.memory = memory
        self.table = table
        self.moves_far, self.reads_addresses = _far_moves(function)
        self._aliases = AliasAnalysis(function)
        self._arguments = function.regions[0].blocks[0].args
        self.alive: list[Node] = []

    def reach(self, op: CheckAccessOp) -> Access:
        """What the checked access may reach."""
        bases = self._aliases.of(op.ptr)
        names = [(base, self._arguments[base].name_hint or f"argument {base}") for base in sorted(bases - {UNKNOWN})]
        verb = "written" if op.access.data in WRITES else "read"
        return Access(verb, memory_size(pointee_name(op.ptr.type)), () if UNKNOWN in bases else tuple(names))


def _far_moves(function: Operation) -> tuple[bool, bool]:
    """Whether a function moves scalar pointers by 64-bit numbers, and whether it also makes numbers of addresses."""
    operations = list(function.walk())
    scalar_moves = [op for op in operations if op.name == "tt.addptr" and not is_tensor(op.results[0].type)]
    moves = any(bit_width(op.operands[1].type) == 64 for op in scalar_moves)
    return moves, moves and any(
        op.name in ("tt.ptr_to_int", "tt.print")
        or (op.name in WRITES and any(element_name(value.type) == "ptr" for value in op.operands[1:]))
        for op in operations
    )


def follows_addresses(function: Operation) -> bool:
    """Whether a function accesses memory at addresses that it loads or makes."""
    aliases = AliasAnalysis(function)
    return any(op.name in ACCESSES and UNKNOWN in aliases.of(op.operands[0]) for op in function.walk())


@dataclass(frozen=True, slots=True)
class AddressSources:
    """Where a function loads the numbers that it makes addresses of.

    tables: parameter → bytes of the smallest elements that it loads from the memory behind it; 0 for a parameter that is such a
    number itself.  again: whether it loads some at addresses that it loads or makes.
    """

    tables: tuple[tuple[int, int], ...]
    again: bool


def address_sources(function: Operation) -> AddressSources:
    """Finds where the addresses come from that a function loads or makes: loaded pointers, and what they are computed from."""
    aliases = AliasAnalysis(function)
    pending = [op.operands[0] for op in function.walk() if op.name in ACCESSES and UNKNOWN in aliases.of(op.operands[0])]
    distances = distance_moves(function)
    branches = [value for op in function.walk() if op.name in ("cf.br", "cf.cond_br") for value in op.operands]
    seen: set[SSAValue] = set()
    tables: dict[int, int] = {}
    again = False
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        if op is None:
            continue
        if op is function and isinstance(value, BlockArgument) and value.owner is function.regions[0].blocks[0]:
            if not is_pointer(value.type):
                tables[value.index] = 0
            continue
        if value.owner is not op and op is function:
            pending += branches
        elif op.name in ACCESSES:
            size = memory_size(pointee_name(op.operands[0].type))
            for base in aliases.of(op.operands[0]):
                again = again or base == UNKNOWN
                if base != UNKNOWN:
                    tables[base] = min(tables.get(base, size), size)
        elif op.name == "tt.addptr" and op not in distances:
            pending.append(op.operands[0])
        else:
            ends = [block.last_op for region in op.regions for block in region.blocks if block.last_op is not None]
            pending += [*op.operands, *[each for end in ends for each in end.operands]]
    if (tables or again) and any(op.name in WRITES and _may_hold_addresses(op.operands[1].type) for op in function.walk()):
        # What is loaded may be a number that the kernel has stored there.
        for argument in function.regions[0].blocks[0].args:
            if is_integer(argument.type) and bit_width(argument.type) == 64:
                tables.setdefault(argument.index, 0)
    return AddressSources(tuple(sorted(tables.items())), again)


def _may_hold_addresses(type_: Attribute) -> bool:
    return is_integer(type_) or is_pointer(type_)


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
