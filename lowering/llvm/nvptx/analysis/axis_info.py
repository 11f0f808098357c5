"""Axis info of integer and pointer blocks: contiguity, divisibility and constancy along each dim.

Along a dim, aligned groups of `contiguity` elements rise by one (pointers: by one element), the first of each such group is a
multiple of `divisibility` (pointers: in bytes), and aligned groups of `constancy` elements are equal. All are powers of two.
Numbers may wrap around inside a group, unless it starts at a multiple of its length: code that needs elements that are also
consecutive after widening asks for such groups (`aligned`).

The analysis runs forward over a function; values carried by loops are met with what the loop yields until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation, Region, SSAValue

from .....promotion.dataclass import dataclass
from ....tt.analysis.control_flow import terminator
from ....tt.dialect.functions import FuncOp
from ....tt.facts import MAX_DIVISIBILITY, divisibility
from ....tt.transforms.folding import constant_of
from ...elementwise import memory_size
from ...syntax import attribute, attributes, constant_value, element_name, is_tensor, pointee_name, shape_of
from .known_non_negative import is_known_non_negative


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """Contiguity, divisibility and constancy per dim; `constant` is the value of a block that is known to be uniform."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    def aligned(self, dim: int) -> int:
        """Returns the length of the groups of consecutive numbers that start at a multiple of it, so that none wraps around."""
        return min(self.contiguity[dim], self.divisibility[dim])


def _power(value: int) -> int:
    """Returns the largest power of two, up to MAX_DIVISIBILITY, that divides a number: every one divides 0."""
    return MAX_DIVISIBILITY if value == 0 else min(MAX_DIVISIBILITY, value & -value)


def _scalar(divisibility: int, constant: int | None = None) -> AxisInfo:
    return AxisInfo((1,), (divisibility,), (1,), constant)


def _splat(info: AxisInfo, shape: Sequence[int]) -> AxisInfo:
    rank = len(shape)
    return AxisInfo((1,) * rank, (info.divisibility[0],) * rank, tuple(shape), info.constant)


def meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """Returns the info that holds for both."""

    def least(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
        return tuple(min(x, y) for x, y in zip(left, right, strict=True))

    constant = a.constant if a.constant == b.constant else None
    contiguity = least(a.contiguity, b.contiguity)
    divisibility = tuple(
        min(_of_groups(x, d, c), _of_groups(y, d, c)) for d, c in enumerate(contiguity) for x, y in ((a, b),)
    )
    return AxisInfo(contiguity, divisibility, least(a.constancy, b.constancy), constant)


def _of_groups(info: AxisInfo, dim: int, contiguity: int, unit: int = 1) -> int:
    """Returns the divisibility of the first elements of smaller groups."""
    if contiguity >= info.contiguity[dim]:
        return info.divisibility[dim]
    return min(info.divisibility[dim], contiguity * unit)


class AxisAnalysis:
    """The axis info of every value of a function: `of(value)`.

    promises: whether hints of the text on blocks count (`tl.max_contiguous`, `multiple_of`, `max_constancy`). Kernels claim of
        rows that wrap around that they are consecutive, which is true of what one wide access touches, and not of a whole
        block. Hints on scalars always count.
    """

    def __init__(self, function: FuncOp, promises: bool = False) -> None:
        self._promises = promises
        self._infos: dict[Any, AxisInfo] = {}
        for i, argument in enumerate(function.body.blocks[0].args):
            least = memory_size(pointee_name(argument.type)) if element_name(argument.type) == "ptr" else 1
            self._infos[argument] = _scalar(_power(max(divisibility(function, i), least)))
        changed = True
        while changed:
            changed = self._region(function.body)

    def of(self, value: SSAValue) -> AxisInfo:
        found = self._infos.get(value)
        if found is None:
            found = self._unknown(value)
        return found

    def _unknown(self, value: SSAValue) -> AxisInfo:
        rank = len(shape_of(value.type)) if is_tensor(value.type) else 1
        least = memory_size(pointee_name(value.type)) if element_name(value.type) == "ptr" else 1
        return AxisInfo((1,) * rank, (least,) * rank, (1,) * rank)

    def _region(self, region: Region) -> bool:
        changed = False
        for block in region.blocks:
            for op in block.ops:
                changed = self._operation(op) or changed
        return changed

    def _operation(self, op: ForOp) -> bool:
        changed = False
        if op.name == "scf.for":
            index = op.body.blocks[0].args[0]
            own = _scalar(min(self.of(value).divisibility[0] for value in (op.lb, op.step)))
            changed = self._infos.get(index) != own
            self._infos[index] = own
        for target, sources in _flows(op):
            for source in sources:
                changed = self._join(target, source) or changed
        if op.name not in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            for region in op.regions:
                changed = self._region(region) or changed
        rule = _RULES.get(op.name)
        if len(op.results) == 1:
            found = rule(self, op) if rule is not None else None
            if self._promises or not is_tensor(op.results[0].type):
                found = self._with_promises(op, found)
            if found is not None and self._infos.get(op.results[0]) != found:
                self._infos[op.results[0]] = found
                changed = True
        return changed

    def _with_promises(self, op: Operation, found: AxisInfo | None) -> AxisInfo | None:
        """Merges what is found with the hints of the text, where these say more."""
        result = op.results[0]
        shape = shape_of(result.type) if is_tensor(result.type) else (1,)
        said = {name: _promise(op, f"tt.{name}", len(shape)) for name in ("contiguity", "divisibility", "constancy")}
        if not any(said.values()):
            return found
        info = self._unknown(result) if found is None else found

        def more(known: tuple[int, ...], promised: Sequence[int], most: Sequence[int]) -> tuple[int, ...]:
            return tuple(max(k, min(p, m)) for k, p, m in zip(known, promised, most, strict=True)) if promised else known

        return AxisInfo(
            more(info.contiguity, said["contiguity"], shape),
            more(info.divisibility, said["divisibility"], (MAX_DIVISIBILITY,) * len(shape)),
            more(info.constancy, said["constancy"], shape), info.constant,
        )  # fmt: skip

    def _join(self, target: Any, source: Any) -> bool:
        if source not in self._infos and source.owner is not None and _is_later(source):
            return False  # not visited yet: the next round meets it
        info = self.of(source)
        old = self._infos.get(target)
        new = info if old is None else meet(old, info)
        self._infos[target] = new
        return new != old

    def numbers(self, op: Operation) -> list[AxisInfo]:
        return [self.of(operand) for operand in op.operands]


def _promise(op: Operation, name: str, rank: int) -> tuple[int, ...]:
    """Returns the powers of two of an attribute with one positive number per dim; () where there is none such."""
    found = op.attributes.get(name)
    numbers = [int(number) for number in found.get_values()] if isinstance(found, DenseIntOrFPElementsAttr) else []
    return tuple(map(_power, numbers)) if len(numbers) == rank and min(numbers) > 0 else ()


def has_promises(function: FuncOp) -> bool:
    """Whether the text has hints on blocks that only wide accesses may rely on."""
    return any(name in op.attributes for op in function.walk() for name in ("tt.contiguity", "tt.divisibility", "tt.constancy"))


def _is_later(value: SSAValue) -> bool:
    return getattr(value.owner, "name", "") in _RULES or getattr(value.owner, "name", "").startswith("scf.")


def _flows(op: Any) -> Iterable[tuple[Any, Sequence[Any]]]:
    """Yields (block argument or result, the values it may be)."""
    name = op.name
    if name == "scf.for":
        body = op.body.blocks[0]
        yielded = terminator(body).operands
        for argument, result, first, last in zip(body.args[1:], op.results, op.iter_args, yielded, strict=True):
            yield argument, (first, last)
            yield result, (first, last)
    elif name == "scf.while":
        before, after = op.before_region.blocks[0], op.after_region.blocks[0]
        for argument, first, last in zip(before.args, op.operands, terminator(after).operands, strict=True):
            yield argument, (first, last)
        for argument, result, passed in zip(after.args, op.results, terminator(before).operands[1:], strict=True):
            yield argument, (passed,)
            yield result, (passed,)
    elif name == "scf.if":
        for region in op.regions:
            if region.blocks:
                for result, value in zip(op.results, terminator(region.blocks[0]).operands, strict=True):
                    yield result, (value,)


Rule = Callable[[AxisAnalysis, Any], AxisInfo | None]


def _constant(analysis: AxisAnalysis, op: Operation) -> AxisInfo | None:
    elem = element_name(op.results[0].type)
    if elem[0] != "i":
        return None
    attr = attribute(op, "value")
    if is_tensor(op.results[0].type) and not attr.is_splat():
        return None
    value = int(constant_value(op))
    info = _scalar(_power(value), value)
    return _splat(info, shape_of(op.results[0].type)) if is_tensor(op.results[0].type) else info


def _make_range(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    (size,) = shape_of(op.results[0].type)
    start = int(attributes(op)["start"])
    return AxisInfo((size,), (_power(start),), (1,))


def _add(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    left, right = analysis.numbers(op)
    return _sum(left, right, 1)


def _address(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    pointer, offset = analysis.numbers(op)
    unit = memory_size(pointee_name(op.operands[0].type))
    scaled = AxisInfo(offset.contiguity, tuple(min(MAX_DIVISIBILITY, d * unit) for d in offset.divisibility), offset.constancy)
    return _sum(pointer, scaled, unit)


def _sum(a: AxisInfo, b: AxisInfo, unit: int) -> AxisInfo:
    contiguity, divisibility, constancy = [], [], []
    for d in range(len(a.contiguity)):
        runs = max(gcd(a.contiguity[d], b.constancy[d]), gcd(a.constancy[d], b.contiguity[d]))
        contiguity.append(runs)
        divisibility.append(min(_of_groups(a, d, runs, unit), _of_groups(b, d, runs, unit)))
        constancy.append(min(a.constancy[d], b.constancy[d]))
    constant = a.constant + b.constant if a.constant is not None and b.constant is not None else None
    return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy), constant)


def _subtract(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    a, b = analysis.numbers(op)
    contiguity = tuple(gcd(x, y) for x, y in zip(a.contiguity, b.constancy, strict=True))
    divisibility = tuple(
        min(_of_groups(a, d, c), _of_groups(b, d, 1)) for d, c in enumerate(contiguity)
    )
    constancy = tuple(min(x, y) for x, y in zip(a.constancy, b.constancy, strict=True))
    return AxisInfo(contiguity, divisibility, constancy)


def _multiply(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    a, b = analysis.numbers(op)
    rank = range(len(a.contiguity))
    contiguity = tuple(
        a.contiguity[d] if b.constant == 1 else b.contiguity[d] if a.constant == 1 else 1 for d in rank
    )
    divisibility = tuple(
        min(MAX_DIVISIBILITY, _of_groups(a, d, contiguity[d]) * _of_groups(b, d, contiguity[d])) for d in rank
    )
    constancy = tuple(min(a.constancy[d], b.constancy[d]) for d in rank)
    constant = a.constant * b.constant if a.constant is not None and b.constant is not None else None
    return AxisInfo(contiguity, divisibility, constancy, constant)


def _remainder(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    return _of_remainder(analysis, op, op.operands[1])


def _of_remainder(analysis: AxisAnalysis, op: Operation, divisor: SSAValue) -> AxisInfo:
    """Returns the info of a remainder.

    Groups start at multiples of a power of two that also divides the divisor: the numbers of one group have consecutive
    remainders, unless they are negative.
    """
    a, b = analysis.of(op.operands[0]), analysis.of(divisor)
    counts = op.name == "arith.remui" or is_known_non_negative(op)
    contiguity, divisibility, constancy = [], [], []
    for d in range(len(a.contiguity)):
        same = b.constancy[d]
        runs = min(a.aligned(d), b.divisibility[d], same) if counts else 1
        contiguity.append(max(1, runs))
        divisibility.append(max(1, min(_of_groups(a, d, contiguity[-1]), b.divisibility[d])))
        constancy.append(min(a.constancy[d], same))
    return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy))


def _quotient(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    return _of_quotient(analysis, op, op.operands[1])


def _of_quotient(analysis: AxisAnalysis, op: Operation, divisor: SSAValue) -> AxisInfo:
    """Returns the info of a quotient.

    Consecutive numbers between two multiples of the divisor have one quotient; multiples of more than a divisor that is a power
    of two keep the rest of their divisibility.
    """
    a, b = analysis.of(op.operands[0]), analysis.of(divisor)
    counts = op.name == "arith.divui" or is_known_non_negative(op)
    constancy = []
    for d in range(len(a.contiguity)):
        runs = min(a.aligned(d), b.divisibility[d], b.constancy[d]) if counts else 1
        constancy.append(max(runs, min(a.constancy[d], b.constancy[d])))
    ones, divisibility = (1,) * len(constancy), (1,) * len(constancy)
    if b.constant is not None and 0 < b.constant == _power(b.constant):
        pairs = zip(a.divisibility, a.contiguity, strict=True)
        divisibility = tuple([max(1, known // b.constant) if runs == 1 else 1 for known, runs in pairs])
    return AxisInfo(ones, divisibility, tuple(constancy))


def _guarded_division(analysis: AxisAnalysis, op: Any) -> AxisInfo | None:
    """Returns the info of the selects that `legalize_division` makes of x mod y and x / y; None for other selects.

    They are `select y == 0, x, x mod (select (y is 0 or -1), 1, y)` and `select y == 0, 0, …`, where signed quotients
    by -1 have a select of their own. Nothing is claimed for a y of -1, which is not even.
    """
    by_zero, otherwise, rest = op.operands
    division = rest.owner
    if getattr(division, "name", "") == "arith.select":
        division = division.operands[2].owner
    rule = _DIVISIONS.get(getattr(division, "name", ""))
    if rule is None or not (otherwise is division.operands[0] if rule is _of_remainder else constant_of(otherwise) == 0):
        return None
    guard = division.operands[1].owner
    if getattr(guard, "name", "") != "arith.select" or constant_of(guard.operands[1]) != 1:
        return None
    y = guard.operands[2]
    cases = [guard.operands[0]]
    if getattr(cases[0].owner, "name", "") == "arith.ori":
        cases = list(cases[0].owner.operands)
    if rest.owner is not division:
        cases.append(rest.owner.operands[0])
    if not _is_number(by_zero, y, 0) or not all(_is_number(case, y, 0) or _is_number(case, y, -1) for case in cases):
        return None
    return rule(analysis, division, y)


_DIVISIONS = {
    "arith.remsi": _of_remainder, "arith.remui": _of_remainder, "arith.divsi": _of_quotient, "arith.divui": _of_quotient,
}  # fmt: skip


def _is_number(condition: Any, value: Any, number: int) -> bool:
    """Whether a condition tests that a value is this number."""
    test = condition.owner
    return (
        getattr(test, "name", "") == "arith.cmpi"
        and attributes(test)["predicate"] == "eq"
        and test.operands[0] is value
        and constant_of(test.operands[1]) == number
    )


def _elementwise(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    """Returns the info of an elementwise operation: equal operands give equal results; nothing else is known."""
    infos = analysis.numbers(op)
    rank = len(infos[0].contiguity)
    return AxisInfo((1,) * rank, (1,) * rank, tuple(min(i.constancy[d] for i in infos) for d in range(rank)))


def _compare(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    """Returns the info of a comparison.

    Consecutive numbers against a constant bound: the answer changes only at a multiple of what divides both.
    """
    a, b = analysis.numbers(op)
    predicate = attributes(op)["predicate"]
    steps = []
    for d in range(len(a.contiguity)):
        same = min(a.constancy[d], b.constancy[d])
        if predicate in ("slt", "sge", "ult", "uge"):
            run = min(a.aligned(d), b.divisibility[d], b.constancy[d])
            same = max(same, run)
        elif predicate in ("sgt", "sle", "ugt", "ule"):
            run = min(b.aligned(d), a.divisibility[d], a.constancy[d])
            same = max(same, run)
        steps.append(same)
    rank = len(steps)
    return AxisInfo((1,) * rank, (1,) * rank, tuple(steps))


def _select(analysis: AxisAnalysis, op: Operation) -> AxisInfo | None:
    guarded = _guarded_division(analysis, op)
    if guarded is not None:
        return guarded
    condition, a, b = analysis.numbers(op)
    joined = meet(a, b)
    if not is_tensor(op.operands[0].type):
        return joined
    contiguity = tuple(min(x, y) for x, y in zip(joined.contiguity, condition.constancy, strict=True))
    unit = memory_size(pointee_name(op.results[0].type)) if element_name(op.results[0].type) == "ptr" else 1
    divisibility = tuple(_of_groups(joined, d, c, unit) for d, c in enumerate(contiguity))
    constancy = tuple(min(x, y) for x, y in zip(joined.constancy, condition.constancy, strict=True))
    return AxisInfo(contiguity, divisibility, constancy)


def _bitcast(analysis: AxisAnalysis, op: Operation) -> AxisInfo | None:
    source, target = op.operands[0].type, op.results[0].type
    if "ptr" in (element_name(source), element_name(target)):
        sizes = [memory_size(pointee_name(each)) for each in (source, target)]
        return analysis.of(op.operands[0]) if sizes[0] == sizes[1] else None
    return analysis.of(op.operands[0]) if "f" not in element_name(source)[0] + element_name(target)[0] else None


def _resized(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    """Returns the info of an integer of another width.

    Narrow integers wrap around soon, so that groups have to lie between two positions where they do.
    """
    info = analysis.of(op.operands[0])
    bits = min(int(element_name(value.type)[1:]) for value in (op.operands[0], op.results[0]))
    if bits >= 32:
        return info
    contiguity = tuple(
        max(1, min(c, _of_groups(info, d, c), 1 << bits - 1)) for d, c in enumerate(info.contiguity)
    )
    divisibility = tuple(_of_groups(info, d, c) for d, c in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, info.constancy)


def _splat_rule(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    return _splat(analysis.of(op.operands[0]), shape_of(op.results[0].type))


def _expand(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    info, axis = analysis.of(op.operands[0]), int(attributes(op)["axis"])
    lowest = min(
        (_of_groups(info, d, 1) for d in range(len(info.contiguity))), default=info.divisibility[0] if info.divisibility else 1
    )

    def with_one(values: Sequence[int], one: int) -> tuple[int, ...]:
        return (*values[:axis], one, *values[axis:])

    return AxisInfo(
        with_one(info.contiguity, 1), with_one(info.divisibility, lowest), with_one(info.constancy, 1), info.constant
    )


def _broadcast(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    info = analysis.of(op.operands[0])
    own, wide = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    constancy = tuple(
        wide[d] if own[d] == 1 != wide[d] else info.constancy[d] for d in range(len(wide))
    )
    return AxisInfo(info.contiguity, info.divisibility, constancy, info.constant)


def _transpose(analysis: AxisAnalysis, op: Operation) -> AxisInfo:
    info, order = analysis.of(op.operands[0]), attributes(op)["order"]
    return AxisInfo(
        tuple(info.contiguity[d] for d in order), tuple(info.divisibility[d] for d in order),
        tuple(info.constancy[d] for d in order), info.constant,
    )  # fmt: skip


_RULES: dict[str, Rule] = {
    "arith.constant": _constant, "tt.make_range": _make_range, "tt.splat": _splat_rule, "tt.expand_dims": _expand,
    "tt.broadcast": _broadcast, "tt.trans": _transpose, "arith.addi": _add, "arith.subi": _subtract, "arith.muli": _multiply,
    "tt.addptr": _address, "arith.remui": _remainder, "arith.cmpi": _compare, "arith.andi": _elementwise,
    "arith.ori": _elementwise, "arith.xori": _elementwise, "arith.select": _select, "arith.extsi": _resized,
    "arith.extui": _resized, "arith.trunci": _resized, "tt.bitcast": _bitcast, "arith.divsi": _quotient,
    "arith.divui": _quotient, "arith.remsi": _remainder, "arith.minsi": _elementwise, "arith.maxsi": _elementwise,
}  # fmt: skip
