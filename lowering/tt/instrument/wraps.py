"""Finds the integer operations on the way to an address that may wrap around, and emits the checks that they do not.

The sanitizer follows what an address would be if nothing had wrapped (`sanitize/shadow.py`). Here an operation must not wrap at
all, which is stricter: wraps that cancel out, or that only masked lanes have, are taken for suspicious too. Operations whose
results fit by the ranges of their operands in a launch need no check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue

from ....promotion.dataclass import dataclass
from .. import types as t
from ..analysis.control_flow import terminator
from ..analysis.integer_ranges import IntegerRanges, LaunchRanges
from ..builder.block_builder import BlockBuilder
from ..sanitize.shadow import EXACT, MOVES, starts_marks
from .bounds import ACCESSES

_FORWARDED = frozenset({"tt.addptr", "tt.split", "arith.extui", "tt.bitcast"})
"""Operations that hand on the marks of all operands, besides those that compute or move."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The operations of a function whose wrapping would move an access.

    narrow: integer operations that may start a mark, in the order of the text, by position in the function as it is walked.
    sums: reductions and scans by addition, likewise.  unclear: reductions and scans that compute in other ways.
    """

    narrow: tuple[tuple[int, Operation], ...]
    sums: tuple[tuple[int, Operation], ...]
    unclear: tuple[Operation, ...]

    def may_wrap(self, launch: LaunchRanges) -> tuple[int, ...]:
        """Returns the positions of the operations that may wrap around in such a launch."""
        ranges = IntegerRanges(launch)
        found = [position for position, op in self.narrow if ranges.may_wrap(op)]
        return tuple(sorted([*found, *(position for position, _ in self.sums)]))


def offsets_of(function: Operation) -> Offsets:
    """Finds the operations that compute offsets, in a function without calls."""
    reached = _reached(function)
    narrow, sums, unclear = [], [], []
    for position, op in enumerate(function.walk()):
        if op not in reached:
            continue
        if op.name in ("tt.reduce", "tt.scan"):
            if not _computes(op.regions[0]):
                continue
            if _is_sum(op):
                sums.append((position, op))
            else:
                unclear.append(op)
        elif _starts_marks(op):
            narrow.append((position, op))
    return Offsets(tuple(narrow), tuple(sums), tuple(unclear))


def _reached(function: Operation) -> set[Operation]:
    """Returns the operations from whose results marks reach an address."""
    pending = [op.operands[0] for op in function.walk() if op.name in ACCESSES]
    seen: set[SSAValue] = set()
    found: set[Operation] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, OpResult):
            found.add(value.op)
        pending.extend(_sources(value))
    return found


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """Yields the values whose marks a value has too."""
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        if loop is not None and loop.name == "scf.for" and value.index:
            yield from (loop.operands[2 + value.index], terminator(value.block).operands[value.index - 1])
        elif loop is not None and loop.name == "scf.while":
            before, after = (region.block for region in loop.regions)
            if value.block is before:
                yield from (loop.operands[value.index], terminator(after).operands[value.index])
            else:
                yield terminator(before).operands[1 + value.index]
        return
    assert isinstance(value, OpResult)
    op = value.op
    match op.name:
        case "scf.for":
            yield from (op.operands[3 + value.index], terminator(op.regions[0].block).operands[value.index])
        case "scf.while":
            yield terminator(op.regions[0].block).operands[1 + value.index]
        case "scf.if":
            yield from [terminator(region.block).operands[value.index] for region in op.regions if region.blocks]
        case "arith.select":
            yield from op.operands[1:]
        case "tt.gather":
            yield op.operands[0]
        case name if name in MOVES or name in EXACT or name in _FORWARDED or name in ("tt.reduce", "tt.scan", "tt.sort"):
            yield from op.operands


def _is_number(value: SSAValue) -> bool:
    return t.is_integer(value.type) and t.bit_width(value.type) > 1


def _starts_marks(op: Operation) -> bool:
    return (
        op.name in EXACT
        and _is_number(op.results[0])
        and _is_number(op.operands[0])
        and starts_marks(op.name, op.results[0].type)
    )


def _computes(region: Region) -> bool:
    """Returns whether an operation of a region may start a mark."""
    return any(map(_starts_marks, region.walk()))


def _is_sum(op: Operation) -> bool:
    """Returns whether a reduction or scan adds one block of integers, and does nothing else."""
    names = [inner.name for inner in op.regions[0].block.ops]
    return len(op.operands) == 1 and names == ["arith.addi", f"{op.name}.return"]


def emit_checks(b: BlockBuilder, op: Operation) -> SSAValue:
    """Emits, behind an operation of `Offsets`, the condition that it did not wrap around: an i1, or a block of them."""
    result = op.results[0]
    wide = [_widened(b, operand) for operand in op.operands]
    match op.name:
        case "tt.reduce":
            exact = b.reduce(wide, _axis(op), _added)[0]
        case "tt.scan":
            reverse = bool(op.properties["reverse"].value.data)  # type: ignore[attr-defined]
            exact = b.scan(wide, _axis(op), _added, reverse)[0]
        case "arith.trunci":
            exact = wide[0]
        case "arith.shli":
            return _shifted(b, op, wide)
        case name:
            exact = b.binary(name, wide[0], wide[1])
    return b.cmpi("eq", exact, _widened(b, result))


def _added(b: BlockBuilder, left: Sequence[SSAValue], right: Sequence[SSAValue]) -> list[SSAValue]:
    return [b.binary("arith.addi", left[0], right[0])]


def _axis(op: Operation) -> int:
    return int(op.properties["axis"].value.data)  # type: ignore[attr-defined]


def _widened(b: BlockBuilder, value: SSAValue) -> SSAValue:
    return value if t.bit_width(value.type) == 64 else b.cast("arith.extsi", value, t.I64)


def _shifted(b: BlockBuilder, op: Operation, wide: Sequence[SSAValue]) -> SSAValue:
    """Emits that a number shifted back is what it was, and that the shift is less than the width."""
    shape = t.shape_of(op.results[0].type)
    fits = b.cmpi("ult", wide[1], b.const(t.bit_width(op.results[0].type), t.I64, shape))
    amount = b.select(fits, wide[1], b.const(0, t.I64, shape))
    exact = b.cmpi("eq", b.binary("arith.shli", wide[0], amount), _widened(b, op.results[0]))
    return b.binary("arith.andi", fits, exact)


__all__ = ["Offsets", "emit_checks", "offsets_of"]
