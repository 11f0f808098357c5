"""Finds what keeps a function from being instrumented: such kernels are sanitized by the interpreter alone."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from .. import types as t
from ..analysis.alias_sets import UNKNOWN
from ..analysis.aliasing import AliasAnalysis
from ..sanitize.partial import is_partial
from ..sanitize.promises import hints_of
from ..sanitize.shadow import MOVES
from ..source_locations import source_location
from .bounds import ACCESSES
from .plan import SHAPE_BITS
from .wraps import Offsets

SCALAR_REGIONS = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})
_ASSERTS = frozenset({"tt.assert", "cf.assert"})
_MOVES_POINTERS = MOVES | {
    "tt.addptr", "arith.select", "tt.bitcast", "scf.for", "scf.if", "scf.while", "tt.load", "tt.int_to_ptr", "ub.poison",
}
"""Operations whose results may be pointers. Accesses through those that come from memory or integers are refused."""
_REFUSED = {
    "tt.print": "prints, which would come twice",
    "tt.sort_lines": "sorts memory",
    "tt.atomic_poll": "waits for other programs",
    "scf.execute_region": "branches inside of loops",
    "tt.call": "calls a function that calls itself",
}


def obstacle(
    function: Operation, aliases: AliasAnalysis, offsets: Offsets, undefined_arithmetic: bool = False
) -> str | None:
    """Returns why a function, prepared for instrumentation, cannot be instrumented, with the line; None if it can.

    aliases: of the function without knowledge of a launch. undefined_arithmetic: as for `sanitize`.
    """
    found = _control(function)
    if found is not None:
        return found
    for op in function.walk():
        why = _REFUSED.get(op.name) or _region(op, undefined_arithmetic)
        if why is None and op.name in ACCESSES:
            why = _access(op, aliases)
        if why is None and op.name == "tt.bitcast" and _changes_size(op):
            why = "reads memory as elements of another size"
        if why is not None:
            return _said(op, why)
    for op in offsets.unclear:
        return _said(op, "makes an address by a reduction that is no sum")
    shapes = {t.shape_of(op.operands[0].type) for op in function.walk() if op.name in ACCESSES}
    if len(shapes) >= 1 << SHAPE_BITS:
        return f"accesses blocks of {len(shapes)} shapes"
    return None


def _said(op: Operation, why: str) -> str:
    location = source_location(op)
    return f"{op.name} {why}" if location is None else f"{location[0]}:{location[1]}: {op.name} {why}"


def _control(function: Operation) -> str | None:
    """Returns why blocks that branches lead to cannot be instrumented."""
    inner = [region for op in function.walk() if op is not function for region in op.regions]
    if any(len(region.blocks) > 1 for region in inner):
        return "branches inside of loops"
    first, *others = function.regions[0].blocks
    if not others:
        return None
    order = {block: position for position, block in enumerate((first, *others))}
    for block in (first, *others):
        last = block.last_op
        if last is not None and any(order[each] <= order[block] for each in last.successors):
            return "branches back, and may never end"
    return "branches pass values" if any(block.args for block in others) else None


def _region(op: Operation, undefined_arithmetic: bool) -> str | None:
    """Returns what keeps an operation with a region on scalars, or one that moves pointers, from being instrumented."""
    if op.name in SCALAR_REGIONS:
        inner = [each for each in op.walk() if each is not op]
        if any(each.regions or each.successors or each.name in ACCESSES or each.name in _ASSERTS for each in inner):
            return "has accesses, assertions, branches or loops in its region"
        if any(each.name in ("ub.poison", "llvm.intr.assume") or hints_of(each) is not None for each in inner):
            return "has undefined values, hints or assumptions in its region"
        if undefined_arithmetic and any(map(is_partial, inner)):
            return "divides or shifts by what is not known, in its region"
        if any(len(region.blocks) > 1 for region in op.regions):
            return "branches in its region"
    elif op.regions and hints_of(op) is not None:
        return "has hints on its result"
    if any(t.is_pointer(result.type) for result in op.results) and op.name not in _MOVES_POINTERS:
        return "makes pointers"
    return None


def _access(op: Operation, aliases: AliasAnalysis) -> str | None:
    bases = aliases.of(op.operands[0])
    if UNKNOWN in bases or not bases:
        return "follows an address that was loaded or computed"
    if len(bases) > 1:
        return "reaches the memory of one of several parameters"
    if t.is_pointer(t.value_type(op.operands[0].type)):
        return "reads addresses"
    return None


def _changes_size(op: Operation) -> bool:
    source, result = op.operands[0].type, op.results[0].type
    if not t.is_pointer(source) or not t.is_pointer(result):
        return False
    return _size(source) != _size(result)


def _size(pointer: Attribute) -> int:
    return max(1, t.bit_width(t.elem(t.value_type(pointer))) // 8)


__all__ = ["obstacle"]
