"""Finds locks: places in memory that one program at a time takes, so that what programs do while they hold one is in an order.

A lock is taken by a loop that ends when its `tt.atomic_cas` has exchanged one number for another, and is given back by an
exchange later in the same block. Nothing else touches it. So who gives it back is who took it, and from one to the other no
other program does; the next one that takes it reads what was given back, so all that the former did before happens before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from ....promotion.dataclass import dataclass
from ...tt.analysis.control_flow import terminator
from ...tt.dialect.arith import INTEGER_PREDICATES
from ...tt.dialect.attributes import enum_name, property_number
from ...tt.dialect.hints import BarrierOp
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS
from ..bounds import Bounds
from ..evaluate.contexts import NotModelled, context
from ..evaluate.values import Condition, Integer, Pointer
from ..preparation import Access
from ..terms.formulas import TRUE
from ..terms.polynomials import TooLarge
from ..world import World


@dataclass(frozen=True, slots=True)
class Lock:
    """What holds a lock: the operations of a block behind the loop that takes it, and before the last barrier."""

    take: Operation
    barrier: Operation

    def guards(self, op: Operation) -> bool:
        """Returns whether a program holds the lock until all its threads have run an operation."""
        block = self.take.parent
        within: Operation | None = op
        while within is not None and within.parent is not block:
            within = within.parent_op()
        return within is not None and self.take.is_before_in_block(within) and within.is_before_in_block(self.barrier)


def find_locks(bounds: Bounds, groups: Mapping[int, Sequence[Access]]) -> list[Lock]:
    """Returns the locks of a function. groups: the accesses that are inside their arrays, by array."""
    found = []
    for base, accesses in groups.items():
        by_name = {access.op.name: access for access in accesses}
        if len(accesses) == 2 and base >= 0 and {*by_name} == {"tt.atomic_cas", "tt.atomic_rmw"}:
            try:
                lock = _lock(bounds, base, by_name["tt.atomic_cas"], by_name["tt.atomic_rmw"])
            except (NotModelled, TooLarge, RecursionError):
                continue
            found += [] if lock is None else [lock]
    return found


def _lock(bounds: Bounds, base: int, taking: Access, giving: Access) -> Lock | None:
    """Returns the lock that one access takes and the other one gives back; None if they may be anything else."""
    world = bounds.world
    one, two = bounds.pointer(taking), bounds.pointer(giving)
    if not isinstance(one, Pointer) or not isinstance(two, Pointer) or one.offset != two.offset:
        return None
    is_single = taking.size == giving.size and not taking.shape and not giving.shape
    is_one_address = is_single and not world.terms.depends(one.offset)
    if not is_one_address or not taking.is_ordered or not giving.is_ordered:
        return None
    expected, taken = [number_of(world, taking.op, each) for each in taking.op.operands[1:3]]
    free = number_of(world, giving.op, giving.op.operands[1])
    if expected is None or taken is None or expected == taken or free != expected:
        return None
    if not _ends_when_taken(world, base, taking, expected, taken) or not _gives_back(world, giving):
        return None
    loop, give = taking.op.parent_op(), giving.op
    assert loop is not None
    if loop.parent is None or give.parent is not loop.parent or not loop.is_before_in_block(give):
        return None
    barriers = [op for op in loop.parent.ops if is_barrier(op) and loop.is_before_in_block(op) and op.is_before_in_block(give)]
    return Lock(loop, barriers[-1]) if barriers else None


def is_barrier(op: Operation) -> bool:
    """Returns whether an operation is a barrier of all threads of a program for all memory."""
    return isinstance(op, BarrierOp) and op.addrSpace.data == "all"


def _gives_back(world: World, giving: Access) -> bool:
    """Returns whether an access exchanges what is there in every run, and what was done before is done before that."""
    op = giving.op
    assert op.parent is not None
    mask = None if giving.mask is None else context(world.run(), op.parent).value(giving.mask, ())
    is_live = mask is None or (isinstance(mask, Condition) and mask.formula == TRUE)
    order = enum_name(MEMORY_ORDERS, op.properties["sem"])
    kind = enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"])
    return is_live and kind == "exch" and order in ("release", "acq_rel")


def _ends_when_taken(world: World, base: int, taking: Access, expected: int, taken: int) -> bool:
    """Returns whether the loop around an access ends if, and only if, this has taken the lock.

    That is so if it goes on while what was there is not what is expected; and if it goes on while that is what says that the
    lock is taken, if the specification leaves no other numbers: what is written is one of the two.
    """
    op = taking.op
    loop = op.parent_op()
    if loop is None or loop.name != "scf.while" or op.parent is not loop.regions[0].block:
        return False
    if enum_name(MEMORY_ORDERS, op.properties["sem"]) not in ("acquire", "acq_rel"):
        return False
    compared = terminator(loop.regions[0].block).operands[0].owner
    if not isinstance(compared, Operation) or compared.name != "arith.cmpi" or op.results[0] not in compared.operands:
        return False
    other = next((each for each in compared.operands if each is not op.results[0]), None)
    number = None if other is None else number_of(world, compared, other)
    predicate = str(INTEGER_PREDICATES[property_number(compared, "predicate")])
    if predicate == "ne":
        return number == expected
    low, high = world.range_of_contents(base)
    only_two = low is not None and high is not None and low >= 0 and {low, high} == {expected, taken} and high == low + 1
    return predicate == "eq" and number == taken and only_two


def number_of(world: World, op: Operation, ssa: SSAValue) -> int | None:
    """Returns the number that an operand always is; None for others."""
    if op.parent is None:
        return None
    found = context(world.run(), op.parent).value(ssa, ())
    return found.value.number if isinstance(found, Integer) else None


def keeps_range(world: World, base: int, access: Access) -> bool:
    """Returns whether all that an atomic access writes is a number of the range that is assumed of its array's elements."""
    op = access.op
    match op.name:
        case "tt.atomic_cas":
            value = op.operands[2]
        case "tt.atomic_rmw" if enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"]) == "exch":
            value = op.operands[1]
        case _:
            return False
    low, high = world.range_of_contents(base)
    if access.shape or low is None or high is None or low < 0 or access.size != world.prepared.parameters[base].element_size:
        return False
    try:
        number = number_of(world, op, value)
    except (NotModelled, TooLarge, RecursionError):
        return False
    return number is not None and low <= number <= high


__all__ = ["Lock", "find_locks", "is_barrier", "keeps_range"]
