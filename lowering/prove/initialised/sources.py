"""Lists the operations whose results may be undefined though their operands are not, and how the others hand that on.

An operation that is on no list here is one whose results may be undefined.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import cf
from xdsl.ir import Operation, SSAValue

from ...libdevice.signatures import SIGNATURES
from ...tt import types as t
from ...tt.dialect.attributes import enum_name
from ...tt.dialect.external import ExternElementwiseOp
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS
from ..evaluate.elements import MOVES
from ..evaluate.undefined import is_poison

ABSORBING = frozenset({"arith.andi", "arith.ori", "arith.muli"})
"""Operations of which one operand may decide the result alone."""
MIXING = frozenset({"tt.cat", "tt.histogram", "tt.dot_scaled", "tt.reshape", "tt.map_elementwise", "tt.atomic_poll"})
"""Operations of which any lane may depend on any lane of their operands."""
COMBINING = frozenset({"tt.reduce", "tt.scan"})
"""Operations of which any lane may depend on any lane along one axis of their operands."""
_DEFINED = frozenset({"arith.constant", "tt.get_program_id", "tt.get_num_programs", "tt.make_range"})
_ELEMENTWISE = frozenset({
    "tt.addptr", "tt.ptr_to_int", "tt.int_to_ptr", "tt.bitcast", "tt.fp_to_fp", "tt.clampf", "tt.mulhiui", "tt.precise_divf",
    "tt.precise_sqrt", "tt.approx_divf",
})  # fmt: skip
_OTHERS = frozenset({
    "arith.select", "tt.join", "tt.gather", "tt.dot", "tt.atomic_cas", "scf.if", "scf.for", "scf.while", "scf.execute_region",
    *MOVES, *MIXING, *COMBINING,
})  # fmt: skip
"""Operations with a rule of their own."""
ASSERTED = frozenset({"tt.assert", "cf.assert", "llvm.intr.assume"})
"""Operations that say of a value that it is true."""


def is_elementwise(op: Operation) -> bool:
    """Returns whether an operation makes each lane of the same lane of its operands, or of numbers, and of all of them."""
    if isinstance(op, ExternElementwiseOp):
        named = op.names_libdevice and op.symbol.data in SIGNATURES
    else:
        named = op.name in _ELEMENTWISE or (op.name.startswith(("arith.", "math.")) and op.name not in (*_DEFINED, *_OTHERS))
    shapes = {t.shape_of(each.type) for each in op.results}
    same = all(t.shape_of(each.type) in ((), *shapes) for each in op.operands)
    return named and len(shapes) == 1 and same and bool(op.operands) and not op.regions


def leaves_undefined(op: Operation) -> bool:
    """Returns whether results of an operation may be undefined though its operands are not."""
    if not op.results or op.name in _DEFINED or op.name in _OTHERS or is_elementwise(op):
        return False
    match op.name:
        case "tt.load":
            return t.is_tensor(t.pointee(op.operands[0].type)) or len(op.operands) == 2
        case "tt.atomic_rmw":
            return len(op.operands) > 2
        case "tt.atomic_load":
            return len(op.operands) > 1
    return True


def is_memory(op: Operation) -> bool:
    """Returns whether results of an operation may be what memory holds."""
    return bool(op.results) and (leaves_undefined(op) or op.name.startswith(("tt.load", "tt.atomic"))) and not is_poison(op)


def relies_on_memory(op: Operation) -> bool:
    """Returns whether what an operation writes, or how long it waits, is made of what memory holds where it does so."""
    if op.name == "tt.atomic_rmw":
        return enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"]) != "exch"
    return op.name in ("tt.atomic_cas", "tt.atomic_poll")


def has_source(op: Operation) -> bool:
    """Returns whether an operation in the regions of another one may leave something undefined."""
    return any(leaves_undefined(each) for each in op.walk() if each is not op)


def captured(op: Operation) -> Iterator[SSAValue]:
    """Yields the values from outside that an operation's regions use."""
    for each in op.walk():
        if each is not op:
            yield from [value for value in each.operands if not _is_inside(value, op)]


def _is_inside(value: SSAValue, op: Operation) -> bool:
    owner: Operation | None = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while owner is not None and owner is not op:
        owner = owner.parent_op()
    return owner is op and value not in op.results


def deciding(op: Operation) -> list[SSAValue]:
    """Returns the values by which an operation decides what runs, and those that it asserts."""
    match op.name:
        case "scf.for":
            return list(op.operands[:3])
        case "scf.while":
            ends = [block.last_op for block in op.regions[0].blocks]
            return [each.operands[0] for each in ends if each is not None and each.name == "scf.condition"]
        case "scf.if" | "scf.index_switch" | "cf.cond_br":
            return [op.operands[0]]
    if op.name in ASSERTED:
        return [op.operands[0]]
    return list(op.operands) if op.successors and not isinstance(op, cf.BranchOp) else []


__all__ = [
    "ABSORBING", "ASSERTED", "COMBINING", "MIXING", "captured", "deciding", "has_source", "is_elementwise", "is_memory",
    "leaves_undefined", "relies_on_memory",
]  # fmt: skip
