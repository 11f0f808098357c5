"""Finds which memory a launch has to watch for races, and how, from the accesses of a function."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ....promotion.dataclass import dataclass
from .. import types as t
from ..analysis.aliasing import AliasAnalysis
from ..analysis.integer_facts import carried
from ..constants import splat_value
from ..dialect.attributes import property_number
from ..dialect.memory.atomics import MEMORY_SCOPES
from ..sanitize.shadow import MOVES
from .bounds import ACCESSES
from .plan import Plan

_KEEP_SAME = (MOVES - {"tt.join", "tt.cat"}) | {"arith.addi", "arith.muli", "arith.extsi", "tt.addptr"}
"""Operations whose results are the same in all lanes if their operands are."""
_ATOMIC_LOADS = frozenset({"tt.atomic_load", "tt.atomic_poll"})


@dataclass(frozen=True, slots=True)
class Kind:
    """How an operation accesses memory. Atomics of one program only count as plain accesses."""

    reads: bool
    writes: bool
    is_atomic: bool

    @staticmethod
    def of(op: Operation) -> Kind:
        """Returns the kind of one of `ACCESSES`."""
        if op.name == "tt.load":
            return Kind(True, False, False)
        if op.name == "tt.store":
            return Kind(False, True, False)
        is_atomic = property_number(op, "scope") != MEMORY_SCOPES["cta"]
        return Kind(op.name != "tt.atomic_store", op.name not in _ATOMIC_LOADS, is_atomic)


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched in the memory of a group of parameters.

    races: other programs that wrote an element, or read one that is written.  readers: whether elements are read.
    lanes: whether a lane that loads what another one stored needs a barrier between.  unwritten: reads of elements that nothing
    has written.
    """

    races: bool
    readers: bool
    lanes: bool
    unwritten: bool


def watches(function: Operation, aliases: AliasAnalysis, plan: Plan) -> dict[int, Watch]:
    """Returns group → what is watched in its memory; groups of which nothing has to be are left out.

    Atomics of several programs do not race with each other. Where they meet plain accesses, they count as such: whether
    something orders the two is for the sanitizer to find out.
    """
    kinds: dict[int, list[Kind]] = {}
    for op in function.walk():
        if op.name in ACCESSES:
            (group,) = aliases.of(op.operands[0])
            kinds.setdefault(group, []).append(Kind.of(op))
    found = {}
    for group, of_group in kinds.items():
        writes = any(kind.writes for kind in of_group)
        races = writes and not plan.apart and not all(kind.is_atomic for kind in of_group)
        readers = races and any(kind.reads for kind in of_group)
        plain = [kind for kind in of_group if not kind.is_atomic]
        lanes = plan.needs_barriers and any(kind.reads for kind in plain) and any(kind.writes for kind in plain)
        unwritten = group in plan.unwritten
        if races or unwritten:
            found[group] = Watch(races, readers, lanes, unwritten)
    return found


def has_distinct_lanes(pointer: SSAValue) -> bool:
    """Returns whether no two lanes of a block of pointers can be the same: a scalar, and consecutive elements of one axis."""
    return not t.is_tensor(pointer.type) or _is_distinct(pointer, set())


def _is_distinct(value: SSAValue, seen: set[SSAValue]) -> bool:
    if value in seen:
        return True  # what a loop carries: what it starts from, and what is added, decide
    seen.add(value)
    both = carried(value)
    if both is not None:
        return all(_is_distinct(each, seen) for each in both)
    op = value.owner
    if not isinstance(op, Operation):
        return False
    match op.name:
        case "tt.make_range":
            return True
        case "tt.addptr" | "arith.addi" | "arith.subi":
            left, right = op.operands
            if _is_same_in_all_lanes(right):
                return _is_distinct(left, seen)
            return op.name != "arith.subi" and _is_same_in_all_lanes(left) and _is_distinct(right, seen)
        case "arith.extsi" | "arith.extui" | "tt.expand_dims" | "tt.reshape" | "tt.trans" | "tt.bitcast":
            return _is_distinct(op.operands[0], seen)
        case "tt.broadcast":
            source = op.operands[0]
            return t.element_count(source.type) == t.element_count(value.type) and _is_distinct(source, seen)
    return False


def _is_same_in_all_lanes(value: SSAValue) -> bool:
    if not t.is_tensor(value.type) or t.element_count(value.type) == 1:
        return True
    op = value.owner
    if not isinstance(op, Operation):
        return False
    if op.name == "tt.splat":
        return True
    if op.name == "arith.constant":
        return splat_value(op.properties["value"]) is not None
    return op.name in _KEEP_SAME and all(map(_is_same_in_all_lanes, op.operands))


__all__ = ["Kind", "Watch", "has_distinct_lanes", "watches"]
