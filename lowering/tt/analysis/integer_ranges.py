"""Computes ranges of the integers of a function.

Integers wrap, so bounds of operands bound a sum or product only if the exact result fits its type; otherwise
it may be any number. Proofs start from constants, program ids, widths of types, `overflow<nsw>`, assumptions
at the start of the function, and what is known of the launch (`LaunchRanges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue

from ....promotion.dataclass import dataclass
from .. import types as t
from ..constants import splat_value
from ..dialect.arith import INTEGER_PREDICATES
from ..dialect.attributes import property_number
from .control_flow import counts_unsigned

Range = tuple[int, int]
"""(lowest, highest), both included, of numbers read as signed."""

MAX_PROGRAMS = (1 << 31) - 1
"""The most programs along an axis of a grid."""
_BUDGET = 4096
_DEPTH = 60
_MAX_CONDITIONS = 64
"""The most comparisons of one condition that are analysed."""
_SAME = frozenset(
    {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat", "arith.extsi", "arith.trunci",
     "arith.index_cast"}
)  # fmt: skip
_ANY_OF = frozenset({"tt.join", "tt.cat"})


@dataclass(frozen=True, slots=True)
class LaunchRanges:
    """What is known of launches. grid: range of the number of programs along each axis.  numbers: ranges by
    parameter."""

    grid: tuple[Range, Range, Range] = ((1, MAX_PROGRAMS),) * 3
    numbers: Mapping[int, Range] = field(default_factory=dict)


ANY_LAUNCH = LaunchRanges()


class IntegerRanges:
    """The ranges of the scalars and blocks of a function, by `of(value)`.

    Attributes:
        looked_at: the parameters, and the axes of the grid as -1, -2, -3, on which an answer depends.
    """

    def __init__(self, launch: LaunchRanges = ANY_LAUNCH, budget: int = _BUDGET, trusting: bool = False) -> None:
        """Starts without known ranges.

        budget: how many values are visited; nothing is known of others. trusting: whether what the text claims, by
        `overflow<nsw>` and assumptions, counts. Code for the CPU relies on what nobody checks nowhere; code for GPUs does, as
        that of other compilers.
        """
        self._launch = launch
        self._trusting = trusting
        self._known: dict[SSAValue, Range] = {}
        self._open: set[SSAValue] = set()  # values that are being visited, or that a visited loop carries
        self._left = budget
        self._depth = 0
        self._assumed: Mapping[SSAValue, Sequence[tuple[str, SSAValue]]] | None = None
        self.looked_at: set[int] = set()

    def of(self, value: SSAValue) -> Range:
        everything = _everything(value)
        found = self._known.get(value)
        if found is not None:
            return found
        self._left -= 1
        if value in self._open or self._left < 0 or self._depth > _DEPTH:
            return everything
        self._open.add(value)
        self._depth += 1
        found = self._known[value] = _within(self._of(value), everything)
        for predicate, bound in self._assumptions(value):  # the range of the bound may depend on this one
            found = _compared(found, predicate, self.of(bound))
        self._depth -= 1
        self._open.discard(value)
        self._known[value] = found
        return found

    def may_wrap(self, op: Operation) -> bool:
        """Returns whether the exact result of an integer operation may not fit its type."""
        result = op.results[0]
        rule = _RULES.get(op.name)
        found = self.of(op.operands[0]) if op.name == "arith.trunci" else None if rule is None else rule(self, op)
        low, high = _everything(result)
        return found is None or found[0] < low or found[1] > high

    def _of(self, value: SSAValue) -> Range | None:
        """Returns bounds of the exact number; None if nothing is known."""
        if isinstance(value, BlockArgument):
            return self._of_argument(value)
        assert isinstance(value, OpResult)
        op = value.op
        if op.name == "scf.for":
            return self._carried(op, value.index)
        if op.name == "scf.if":
            ends = [_yielded(region, value.index) for region in op.regions]
            return _union([self.of(end) for end in ends if end is not None]) if None not in ends else None
        if op.name in _SAME:
            return self.of(op.operands[0])
        if op.name in _ANY_OF:
            return _union([self.of(operand) for operand in op.operands])
        rule = _RULES.get(op.name)
        if rule is None:
            return None
        found = rule(self, op)
        if found is not None and self._trusting and _never_wraps(op):
            low, high = _everything(value)
            return (max(found[0], low), min(found[1], high)) if found[0] <= high and found[1] >= low else None
        return found

    def _of_argument(self, value: BlockArgument) -> Range | None:
        parent = value.block.parent_op()
        if parent is None:
            return None
        if parent.name == "tt.func":
            self.looked_at.add(value.index)
            return self._launch.numbers.get(value.index)
        if parent.name != "scf.for":
            return None
        if value.index:
            return self._carried(parent, value.index - 1)
        if counts_unsigned(parent):
            return None
        low, high = self.of(parent.operands[0])[0], self.of(parent.operands[1])[1] - 1
        return low, max(low, high)

    def _carried(self, loop: Operation, number: int) -> Range | None:
        """Returns the range of a number that a loop carries, from its initial value and what an iteration
        makes of it."""
        following = _yielded(loop.regions[0], number)
        if following is None or 3 + number >= len(loop.operands):
            return None
        argument = loop.regions[0].block.args[1 + number]
        first = self.of(loop.operands[3 + number])
        step = _added(argument, following)
        if step is not None:
            iterations = self._iterations(loop)
            low, high = self.of(step)
            return first[0] + iterations * min(low, 0), first[1] + iterations * max(high, 0)
        is_open = argument in self._open
        self._open.add(argument)
        known, self._known = self._known, dict(self._known)  # ranges found while it may be any number are forgotten
        found = self.of(following)
        self._known = known
        if not is_open:
            self._open.discard(argument)
        return _union([first, found])

    def _iterations(self, loop: Operation) -> int:
        """Returns the largest possible number of iterations; 2**64 if it is not known."""
        low, high, step = (self.of(bound) for bound in loop.operands[:3])
        if counts_unsigned(loop) or step[0] < 1:
            return 1 << 64
        return max(0, -(-(high[1] - low[0]) // step[0]))

    def _assumptions(self, value: SSAValue) -> Sequence[tuple[str, SSAValue]]:
        if self._assumed is None:
            self._assumed = _assumptions(value) if self._trusting else {}
        return self._assumed.get(value, ())

    def programs(self, op: Operation) -> Range:
        axis = property_number(op, "axis")
        self.looked_at.add(-1 - axis)
        return self._launch.grid[axis]


def _everything(value: SSAValue) -> Range:
    if not t.is_integer(value.type) and str(t.elem(value.type)) != "index":
        return -(1 << 63), (1 << 63) - 1
    width = 64 if not t.is_integer(value.type) else t.bit_width(value.type)
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _within(found: Range | None, everything: Range) -> Range:
    """Returns the range of an exact number if it fits the type, else everything, since the number may
    wrap."""
    if found is None or found[0] < everything[0] or found[1] > everything[1]:
        return everything
    return found


def _union(ranges: Sequence[Range]) -> Range | None:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _yielded(region: Region, number: int) -> SSAValue | None:
    """Returns the value that a region yields; None if that is not written yet."""
    last = region.block.last_op if region.blocks else None
    return last.operands[number] if last is not None and number < len(last.operands) else None


def _added(argument: SSAValue, following: SSAValue) -> SSAValue | None:
    """Returns the value that an iteration adds to a carried number; None if it does anything else."""
    op = following.owner
    if not isinstance(op, Operation) or op.name != "arith.addi" or argument not in op.operands:
        return None
    return op.operands[1 if op.operands[0] is argument else 0]


def _never_wraps(op: Operation) -> bool:
    flags = op.properties.get("overflowFlags")
    return isinstance(flags, arith.IntegerOverflowAttr) and arith.IntegerOverflowFlag.NSW in flags.data


# -- conditions ------------------------------------------------------------------------------

_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "eq": "eq", "ne": "ne"}
_NEGATED = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt", "eq": "ne", "ne": "eq"}


def _assumptions(value: SSAValue) -> Mapping[SSAValue, Sequence[tuple[str, SSAValue]]]:
    """Returns what the function of a value assumes in its only block, which always runs from start to end."""
    found: dict[SSAValue, list[tuple[str, SSAValue]]] = {}
    parent = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while parent is not None and parent.name != "tt.func":
        parent = parent.parent_op()
    if parent is None or len(parent.regions[0].blocks) != 1:
        return found
    for op in parent.regions[0].block.ops:
        if op.name == "llvm.intr.assume":
            for each, predicate, other in _facts(op.operands[0]):
                found.setdefault(each, []).append((predicate, other))
    return found


def _facts(condition: SSAValue) -> Iterator[tuple[SSAValue, str, SSAValue]]:
    """Yields the comparisons that all hold where a condition does, each of them from both sides."""
    for op in _joined(condition, "arith.andi"):
        if op.name == "arith.cmpi":
            predicate = _predicate(op)
            if predicate in _MIRRORED:
                left, right = op.operands
                yield left, predicate, right
                yield right, _MIRRORED[predicate], left


def _joined(condition: SSAValue, by: str) -> Iterator[Operation]:
    """Yields the operations that make up a condition joined by `andi` or `ori` (`by`), each once, up to a
    limit."""
    pending, seen = [condition], {condition}
    while pending and len(seen) <= _MAX_CONDITIONS:
        op = pending.pop().owner
        if not isinstance(op, Operation):
            continue
        if op.name == by:
            new = [operand for operand in op.operands if operand not in seen]
            seen.update(new)
            pending += new
        yield op


def _predicate(op: Operation) -> str:
    return str(INTEGER_PREDICATES[property_number(op, "predicate")])


def _compared(own: Range, predicate: str, other: Range) -> Range:
    """Narrows a range by a comparison that holds; returns it unchanged if that leaves nothing."""
    low, high = own
    match predicate:
        case "slt":
            high = min(high, other[1] - 1)
        case "sle":
            high = min(high, other[1])
        case "sgt":
            low = max(low, other[0] + 1)
        case "sge":
            low = max(low, other[0])
        case "eq":
            low, high = max(low, other[0]), min(high, other[1])
        case "ne" if other[0] == other[1]:
            low, high = low + (low == other[0]), high - (high == other[0])
    return (low, high) if low <= high else own


# -- operations ------------------------------------------------------------------------------


def _constant(ranges: IntegerRanges, op: Operation) -> Range | None:
    value = op.properties["value"]
    number = splat_value(value)
    if isinstance(number, int):
        return number, number
    if number is None and isinstance(value, DenseIntOrFPElementsAttr) and t.is_integer(op.results[0].type):
        numbers = [int(each) for each in value.get_values()]
        return min(numbers), max(numbers)
    return None


def _make_range(ranges: IntegerRanges, op: Operation) -> Range:
    return property_number(op, "start"), property_number(op, "end") - 1


def _program_id(ranges: IntegerRanges, op: Operation) -> Range:
    return 0, ranges.programs(op)[1] - 1


def _widened(ranges: IntegerRanges, op: Operation) -> Range:
    low, high = ranges.of(op.operands[0])
    return (low, high) if low >= 0 else (0, (1 << t.bit_width(op.operands[0].type)) - 1)


def _pair(ranges: IntegerRanges, op: Operation) -> tuple[Range, Range]:
    return ranges.of(op.operands[0]), ranges.of(op.operands[1])


def _sum(ranges: IntegerRanges, op: Operation) -> Range:
    a, b = _pair(ranges, op)
    return a[0] + b[0], a[1] + b[1]


def _difference(ranges: IntegerRanges, op: Operation) -> Range:
    a, b = _pair(ranges, op)
    return a[0] - b[1], a[1] - b[0]


def _corners(a: Range, b: Range, of: Callable[[int, int], int]) -> Range:
    found = [of(x, y) for x in a for y in b]
    return min(found), max(found)


def _product(ranges: IntegerRanges, op: Operation) -> Range:
    return _corners(*_pair(ranges, op), lambda x, y: x * y)


def _toward_zero(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _quotient(ranges: IntegerRanges, op: Operation) -> Range:
    a, b = _pair(ranges, op)
    if b[0] > 0:
        return _corners(a, b, _toward_zero)
    most = max(abs(a[0]), abs(a[1]))
    return -most, most


def _remainder(ranges: IntegerRanges, op: Operation) -> Range:
    """Bounds a remainder, which has the sign of the dividend, and is the dividend for a divisor of zero."""
    a, b = _pair(ranges, op)
    most = max(abs(b[0]), abs(b[1])) - 1 if b[0] > 0 or b[1] < 0 else 1 << 64
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _unsigned_quotient(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    if a[0] < 0:
        return None
    return (0, a[1] // b[0]) if b[0] > 0 else (0, a[1])


def _unsigned_remainder(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    if b[0] > 0:
        return 0, b[1] - 1 if a[0] < 0 else min(a[1], b[1] - 1)
    return (0, a[1]) if a[0] >= 0 else None


def _min(ranges: IntegerRanges, op: Operation) -> Range:
    a, b = _pair(ranges, op)
    return min(a[0], b[0]), min(a[1], b[1])


def _max(ranges: IntegerRanges, op: Operation) -> Range:
    a, b = _pair(ranges, op)
    return max(a[0], b[0]), max(a[1], b[1])


def _unsigned_min(ranges: IntegerRanges, op: Operation) -> Range | None:
    """Bounds an unsigned minimum; read as unsigned, negative numbers are the highest ones."""
    counts = [each for each in _pair(ranges, op) if each[0] >= 0]
    return (0, min(high for _, high in counts)) if counts else None


def _unsigned_max(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    return (max(a[0], b[0]), max(a[1], b[1])) if a[0] >= 0 and b[0] >= 0 else None


def _and(ranges: IntegerRanges, op: Operation) -> Range | None:
    return _unsigned_min(ranges, op)  # it has no bit that one of them lacks


def _or(ranges: IntegerRanges, op: Operation) -> Range | None:
    """Bounds `or` and `xor`, which have no bit that both operands lack."""
    a, b = _pair(ranges, op)
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if a[0] >= 0 and b[0] >= 0 else None


def _shifted_left(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    if b[0] < 0 or b[1] >= t.bit_width(op.results[0].type):
        return None
    return _corners(a, b, lambda x, y: x << y)


def _shifted_right(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    if b[0] < 0:
        return min(a[0], 0) if a[0] >= 0 else min(a[0], -1), max(a[1], 0)
    width = t.bit_width(op.results[0].type)
    return _corners(a, (min(b[0], width), min(b[1], width)), lambda x, y: x >> y)


def _shifted_right_unsigned(ranges: IntegerRanges, op: Operation) -> Range | None:
    a, b = _pair(ranges, op)
    width = t.bit_width(op.results[0].type)
    if a[0] >= 0:
        return 0, a[1] >> min(max(b[0], 0), width)
    return (0, ((1 << width) - 1) >> min(b[0], width)) if b[0] > 0 else None


def _select(ranges: IntegerRanges, op: Operation) -> Range | None:
    """Joins the ranges of both values, each narrowed by the condition, as in `select x < y, x, y` and in
    divisors that are replaced when they are 0 or -1."""
    condition, yes, no = op.operands
    first, second = ranges.of(yes), ranges.of(no)
    decided = _decided(ranges, condition)
    if decided is not None:
        return first if decided else second
    for value, predicate, bound in _facts(condition):
        if value is yes:
            first = _compared(first, predicate, ranges.of(bound))
    for value, predicate, bound in _refuted(condition):
        if value is no:
            second = _compared(second, predicate, ranges.of(bound))
    return _union([first, second])


def _decided(ranges: IntegerRanges, condition: SSAValue) -> bool | None:
    """Returns what a condition always is; None if it may be either."""
    return _decision(ranges, condition, {})


def _decision(ranges: IntegerRanges, condition: SSAValue, known: dict[SSAValue, bool | None]) -> bool | None:
    if condition not in known:
        known[condition] = None  # what is nested too deeply is left open
        if len(known) <= _MAX_CONDITIONS:
            known[condition] = _decide(ranges, condition, known)
    return known[condition]


def _decide(ranges: IntegerRanges, condition: SSAValue, known: dict[SSAValue, bool | None]) -> bool | None:
    op = condition.owner
    if not isinstance(op, Operation):
        return None
    if op.name in ("arith.andi", "arith.ori"):
        both = [_decision(ranges, operand, known) for operand in op.operands]
        ends = op.name == "arith.ori"  # what either alone decides
        return ends if ends in both else None if None in both else not ends
    if op.name != "arith.cmpi" or not t.is_integer(op.operands[0].type) or t.bit_width(op.operands[0].type) == 1:
        return None
    (low, high), (least, most) = _pair(ranges, op)
    match _predicate(op):
        case "slt" | "sge" as predicate:
            found = True if high < least else False if low >= most else None
        case "sle" | "sgt" as predicate:
            found = True if high <= least else False if low > most else None
        case "eq" | "ne" as predicate:
            found = True if low == high == least == most else False if high < least or most < low else None
        case _:
            return None
    return found if found is None or predicate in ("slt", "sle", "eq") else not found


def _refuted(condition: SSAValue) -> Iterator[tuple[SSAValue, str, SSAValue]]:
    """Yields the comparisons that all hold where a condition does not, in both orders: of `x = 0 or x = -1`,
    one removes the end of a range that the other then shortens further."""
    found = []
    for op in _joined(condition, "arith.ori"):
        if op.name == "arith.cmpi" and _predicate(op) in _NEGATED:
            left, right = op.operands
            predicate = _NEGATED[_predicate(op)]
            found += [(left, predicate, right), (right, _MIRRORED[predicate], left)]
    yield from found
    yield from reversed(found)


_RULES: dict[str, Callable[[IntegerRanges, Any], Range | None]] = {
    "arith.constant": _constant, "tt.make_range": _make_range, "tt.get_program_id": _program_id,
    "tt.get_num_programs": IntegerRanges.programs, "arith.extui": _widened, "arith.addi": _sum, "arith.subi": _difference,
    "arith.muli": _product, "arith.divsi": _quotient, "arith.remsi": _remainder, "arith.divui": _unsigned_quotient,
    "arith.remui": _unsigned_remainder, "arith.minsi": _min, "arith.maxsi": _max, "arith.minui": _unsigned_min,
    "arith.maxui": _unsigned_max, "arith.andi": _and, "arith.ori": _or, "arith.xori": _or, "arith.shli": _shifted_left,
    "arith.shrsi": _shifted_right, "arith.shrui": _shifted_right_unsigned, "arith.select": _select,
}  # fmt: skip
