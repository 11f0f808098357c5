"""Proves that no integer from which addresses and masks are computed wraps, in any lane of any program, masked or not.

Every operation that could wrap is looked at where it stands, under its own path, with the results of the operations before it:
if none of these wraps, their terms are the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from ..tt import types as t
from ..tt.analysis.control_flow import terminator
from ..tt.dialect.arith import INTEGER_PREDICATES
from ..tt.dialect.attributes import property_number
from . import claims
from .bounds import Bounds
from .evaluate.loops import is_counted
from .evaluate.paths import NotModelled, path
from .evaluate.values import Condition, Integer, Unknown
from .found import ALWAYS, Found, Level
from .preparation import Access, line_of
from .proof import PROVEN, UNDER, UNKNOWN
from .terms.formulas import TRUE, Formula, both, either, equal, negated, within
from .terms.polynomials import TooLarge
from .world import World

_RING = frozenset({"arith.addi", "arith.subi", "arith.muli", "arith.shli", "arith.trunci"})
_MIN = frozenset({"arith.divsi", "arith.floordivsi", "arith.ceildivsi", "math.absi"})
"""Operations that wrap for the least number alone."""
_EXACT = frozenset({
    "arith.constant", "tt.get_program_id", "tt.get_num_programs", "tt.make_range", "tt.splat", "tt.unsplat", "tt.broadcast",
    "tt.expand_dims", "tt.trans", "tt.reshape", "tt.join", "tt.split", "tt.cat", "tt.gather", "arith.cmpi", "arith.cmpf",
    "arith.select", "arith.extsi", "arith.extui", "arith.andi", "arith.ori", "arith.xori", "arith.minsi", "arith.maxsi",
    "arith.minui", "arith.maxui", "arith.shrsi", "arith.shrui", "arith.remsi", "arith.remui", "arith.divui", "tt.addptr",
    "tt.bitcast", "arith.bitcast", "scf.for", "scf.if", "scf.while", "scf.execute_region",
})  # fmt: skip
"""Operations whose integers are those of their operands, or cannot wrap."""
_UNSIGNED = frozenset({
    "arith.divui", "arith.remui", "arith.shrui", "arith.minui", "arith.maxui", "arith.extui", "arith.cmpi", "scf.for",
})  # fmt: skip
"""Operations that may read their operands as unsigned numbers."""
_LOADS = frozenset({"tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_poll"})
"""Operations whose results are what memory holds: how their own addresses are computed is their own affair."""


class Overflow:
    """The verdicts on overflow of one function."""

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the worlds."""
        self._bounds = bounds
        self._unsigned = _read_as_unsigned(bounds.prepared.function)
        self._asked: dict[tuple[Operation, Level], tuple[str, tuple[Operation, ...]]] = {}

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        accesses = [each for each in self._bounds.prepared.accesses if not each.is_gather]
        return {access: self._bounds.guarded(lambda access=access: self._verdict(access)) for access in accesses}  # type: ignore[misc]

    def _verdict(self, access: Access) -> Found:
        pointer = self._bounds.pointer(access)
        if isinstance(pointer, Unknown):
            return Found(UNKNOWN, reason=f"the address is not known: {pointer.reason}")
        world = self._bounds.world()
        operations = []
        for op in _computing(self._bounds.prepared.function, access):
            if op.name == "scf.for" and not is_counted(world.first, op):
                return Found(UNKNOWN, reason=f"the loop at {line_of(op)} is not shown to count upwards as signed numbers do")
            if op.name in _RING or op.name in _MIN or op in self._unsigned:
                operations.append(op)
            elif op.name not in _EXACT | _LOADS and any(_holds_integers(result) for result in op.results):
                return Found(UNKNOWN, reason=f"whether {op.name} at {line_of(op)} wraps is not modelled")
        failed = [op for op in operations if self._problem(op, ALWAYS)]
        reads = [read for op in operations for read in self._asked[op, ALWAYS][1]]
        own = claims.address_need(access, pointer)
        is_far = not self._is_near(world, access, ())
        if not failed and not is_far:
            return Found(PROVEN, reads=self._bounds.accesses_of(reads))
        for level in self._bounds.levels(world, pointer.base):
            if not any(self._problem(op, level) for op in failed) and self._is_near(world, access, level.formulas(world)):
                reads += [read for op in failed for read in self._asked[op, level][1]]
                return Found(UNDER, level, reads=self._bounds.accesses_of(reads))
        if failed:
            return Found(UNKNOWN, reason=f"may wrap: {self._problem(failed[0], ALWAYS)} at {line_of(failed[0])}")
        return Found(UNKNOWN, reason=f"may wrap: {world.terms.text(own.value)} in {own.width} bits")

    def _is_near(self, world: World, access: Access, given: Sequence[Formula]) -> bool:
        """Returns whether an address is no more than 64 bits away from its array, and its terms are its numbers."""
        return claims.address_needs(world, access, given).holds

    def _problem(self, op: Operation, level: Level) -> str:
        """Returns what may wrap in an operation; "" if nothing does."""
        found = self._asked.get((op, level))
        if found is None:
            try:
                found = self._ask(op, level)
            except NotModelled as error:
                found = error.reason, ()
            except (TooLarge, RecursionError):
                found = f"{op.name}, whose operands are too long terms", ()
            self._asked[op, level] = found
        return found[0]

    def _ask(self, op: Operation, level: Level) -> tuple[str, tuple[Operation, ...]]:
        world = self._bounds.world()
        ev = world.first
        if any(op.regions):
            return f"{op.name} of unsigned numbers", ()
        lanes = ev.lanes(t.shape_of(op.results[0].type))
        operands = [ev.value(operand, lanes) for operand in op.operands]
        is_exact = op.name != "arith.cmpi" and t.bit_width(op.results[0].type) == 1
        if all(isinstance(each, Condition) for each in operands) or is_exact:
            return "", ()
        if not all(isinstance(each, Integer) for each in operands):
            return f"{op.name} of what is not modelled", ()
        numbers = [each for each in operands if isinstance(each, Integer)]
        fault: Formula | None
        if op in self._unsigned:
            fault, text = _is_negative(world, numbers), f"{op.name} of what others read as unsigned, and may be negative"
            if op.name in _RING or op.name in _MIN:
                own, its = _wraps(world, op, numbers)
                fault, text = (None, its) if own is None else (either(fault, own), f"{its}, as a signed or unsigned number")
        else:
            fault, text = _wraps(world, op, numbers)
        steps = tuple(path(ev, op))
        here = both(*[step.formula for step in steps])
        given = level.formulas(world)
        if fault is not None and world.solver.is_impossible(*world.base, *given, here, fault):
            needs = [*claims.needs_of_path(steps)]
            needs += [(need, here) for each in operands if isinstance(each, Integer) for need in each.needs]
            failed, reads = claims.not_shown(world, given, needs)
            if not failed:
                return "", tuple(reads)
        return text, ()


def _is_negative(world: World, operands: Sequence[Integer]) -> Formula:
    """Returns that an operand is not the same number read as signed and as unsigned."""
    found = [
        negated(within(each.value, 0, (1 << (each.width - 1)) - 1)) for each in operands
        if not world.terms.fits(each.value, 0, (1 << (each.width - 1)) - 1)
    ]  # fmt: skip
    return either(*found)


def _wraps(world: World, op: Operation, operands: Sequence[Integer]) -> tuple[Formula | None, str]:
    """Returns when the result of an operation is not its exact number, and that number in words; None: perhaps always."""
    width = t.bit_width(op.results[0].type)
    half = 1 << (width - 1)
    x = operands[0].value
    y = operands[-1].value
    match op.name:
        case "math.absi":
            return equal(x, -half), f"abs({world.terms.text(x)}) in {width} bits"
        case "arith.divsi" | "arith.floordivsi" | "arith.ceildivsi":
            return both(equal(x, -half), equal(y, -1)), f"{world.terms.text(x)} / {world.terms.text(y)} in {width} bits"
        case "arith.addi":
            exact = x + y
        case "arith.subi":
            exact = x - y
        case "arith.muli":
            exact = x * y
        case "arith.shli":
            amount = y.number
            if amount is None or not 0 <= amount < width:
                return None, f"{world.terms.text(x)} << {world.terms.text(y)} in {width} bits"
            exact = x * (1 << amount)
        case _:
            exact = x
    if world.terms.fits(exact, -half, half - 1):
        return negated(TRUE), ""
    return negated(within(exact, -half, half - 1)), f"{world.terms.text(exact)} in {width} bits"


def _is_unsigned(op: Operation) -> bool:
    if op.name == "arith.cmpi":
        return str(INTEGER_PREDICATES[property_number(op, "predicate")]).startswith("u")
    if op.name == "scf.for":
        return "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes
    return op.name in _UNSIGNED


def _read_as_unsigned(function: Operation) -> frozenset[Operation]:
    """Returns the operations that read unsigned numbers, and the sums and products of which these are made.

    A number that is not negative is the same one read as signed; only for such numbers is it the same question whether a sum
    wraps.
    """
    readers = [op for op in function.walk() if _is_unsigned(op)]
    made = _computing_values(function, [operand for op in readers for operand in op.operands], []) if readers else []
    return frozenset([*readers, *[op for op in made if op.name in _RING or op.name in _MIN]])


def _holds_integers(value: SSAValue) -> bool:
    return (t.is_integer(value.type) and t.bit_width(value.type) > 1) or t.is_pointer(value.type)


def _computing(function: Operation, access: Access) -> list[Operation]:
    """Returns the operations from which an access's address, mask and path are computed, what controls these included."""
    return _computing_values(function, [access.pointer, *([access.mask] if access.mask is not None else [])], [access.op])


def _computing_values(function: Operation, values: Sequence[SSAValue], around: list[Operation]) -> list[Operation]:
    """Returns the operations from which values are computed, and what controls these and the operations around."""
    found: dict[Operation, None] = {}
    seen: set[SSAValue] = set()
    entered: set[Operation] = set()
    waiting = list(values)
    while waiting or around:
        if around:
            op = around.pop()
            parent = op.parent_op()
            block = op.parent
            if block is not None and block.parent is not None and block is not block.parent.blocks[0]:
                waiting += [value for each in block.parent.blocks for value in (each.last_op.operands if each.last_op else ())]
            if parent is not None and parent is not function and parent not in entered:
                entered.add(parent)
                waiting += _controls(parent)
                around.append(parent)
            continue
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if parent is None or (parent is function and value.block is function.regions[0].blocks[0]):
                continue
            around += [] if value.block.first_op is None else [value.block.first_op]
            waiting += _passed(parent, value)
            continue
        assert isinstance(value, OpResult)
        op = value.op
        found[op] = None
        around.append(op)
        if op.name in _LOADS:
            continue
        waiting += op.operands
        for region in op.regions:
            waiting += [each for block in region.blocks for each in (block.last_op.operands if block.last_op else ())]
            found.update(dict.fromkeys(_inner(op)))
    return list(found)


def _controls(parent: Operation) -> list[SSAValue]:
    """Returns the values that decide whether and how often the regions of an operation run."""
    if parent.name == "scf.while":
        return [terminator(parent.regions[0].block).operands[0]]
    return list(parent.operands[:3] if parent.name == "scf.for" else parent.operands)


def _passed(parent: Operation, value: BlockArgument) -> Iterator[SSAValue]:
    """Yields what may be passed to the argument of a block; of loops and branches all that is passed to any."""
    yield from parent.operands
    for region in parent.regions:
        for block in region.blocks:
            if block.last_op is not None:
                yield from block.last_op.operands


def _inner(op: Operation) -> Iterator[Operation]:
    """Yields the operations in regions of what is no control flow: all of them make the result."""
    if op.name.startswith("scf."):
        return
    for each in op.walk():
        if each is not op and each.results:
            yield each


__all__ = ["Overflow"]
