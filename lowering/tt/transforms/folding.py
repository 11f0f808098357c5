"""Folds constants in single operations, and answers what passes ask of operations and values.

Blocks filled with one value fold as that value does. Float arithmetic is folded only where that leaves every
bit of the result (`float_folding`).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.traits import NoMemoryEffect

from ...integers import DIVISIONS, INTEGERS, SHIFTS
from .. import types as t
from ..analysis.control_flow import parent_block
from ..constants import constant_attr, splat_value
from ..dialect.arith import INTEGER_PREDICATES
from ..dialect.attributes import property_number
from ..dialect.shapes import BroadcastOp, SplatOp
from .float_folding import FLOAT_FOLDERS

STRUCTURED = frozenset({"scf.for", "scf.if", "tt.reduce", "tt.scan"})
"""Operations that have no effect besides those of their regions."""


_PURE: dict[type[Operation], bool] = {}


def is_pure(kind: type[Operation]) -> bool:
    """Returns whether operations of this class only compute their results (and have no region)."""
    found = _PURE.get(kind)
    if found is None:
        # xDSL forgot the trait on arith.remui; everything in arith and math is pure by definition.
        arithmetic = kind.name.startswith(("arith.", "math."))
        found = (arithmetic or kind.has_trait(NoMemoryEffect)) and kind.name not in STRUCTURED
        _PURE[kind] = found
    return found


def replace_by(block: Block, op: Operation, value: SSAValue | Attribute) -> None:
    """Replaces the result of an operation of the block by a value or a constant, and erases the operation."""
    if isinstance(value, Attribute):
        made = arith.ConstantOp.create(
            result_types=(op.results[0].type,), properties={"value": value}, location=op.location
        )
        block.insert_op_before(made, op)
        value = made.results[0]
    op.results[0].replace_all_uses_with(value)
    block.erase_op(op)


# Folding


def constant_of(value: SSAValue) -> int | None:
    """Returns the integer that a scalar or every element of a block is known to have (0 or 1 for i1), or
    None."""
    if not isinstance(value, OpResult) or value.op.name != "arith.constant" or not t.is_integer(value.type):
        return None
    found = splat_value(value.op.properties["value"])
    return found if isinstance(found, int) else None


def fold(op: Operation) -> SSAValue | Attribute | None:
    """Returns what `op` always gives, another value or a constant; None if that is not known."""
    folder = _FOLDERS.get(op.name)
    return folder(op) if folder is not None else None


def _constant(op: Operation, value: int) -> Attribute:
    type_ = op.results[0].type
    return constant_attr(value, t.elem(type_), t.shape_of(type_))


def _fold_binary(op: Operation) -> SSAValue | Attribute | None:
    left, right = op.operands
    x, y = constant_of(left), constant_of(right)
    width = t.bit_width(left.type)
    if x is not None and y is not None:
        undefined = (op.name in _DIVISIONS and y == 0) or (op.name in _SHIFTS and not 0 <= y < width)
        if undefined or (width == 1 and op.name not in _BITWISE):
            return None
        return _constant(op, _INTEGERS[op.name](x, y, (1 << width) - 1))
    if y == 0 and op.name in _RIGHT_NEUTRAL_ZERO:
        return left
    if x == 0 and op.name in _COMMUTATIVE_NEUTRAL_ZERO:
        return right
    if op.name == "arith.ori" and (1 if width == 1 else -1) in (x, y):
        return _constant(op, 1 if width == 1 else -1)
    if left is right and op.name in ("arith.subi", "arith.xori"):
        return _constant(op, 0)
    if left is right and op.name in ("arith.andi", "arith.ori"):
        return left
    if op.name in ("arith.muli", "arith.andi"):
        if 0 in (x, y):
            return _constant(op, 0)
        neutral = -1 if op.name == "arith.andi" and width > 1 else 1
        return left if y == neutral else right if x == neutral else None
    if op.name in ("arith.divsi", "arith.divui") and y == 1:
        return left
    return None


def _fold_compare(op: Operation) -> Attribute | None:
    predicate = INTEGER_PREDICATES[property_number(op, "predicate")]
    if op.operands[0] is op.operands[1]:
        return _constant(op, int(predicate in ("eq", "sle", "sge", "ule", "uge")))
    x, y = constant_of(op.operands[0]), constant_of(op.operands[1])
    if x is None or y is None:
        return None
    width = t.bit_width(op.operands[0].type)
    if width == 1:
        return None
    if predicate[0] == "u":
        mask = (1 << width) - 1
        x, y = x & mask, y & mask
    return _constant(op, int(_RELATIONS[predicate if predicate in ("eq", "ne") else predicate[1:]](x, y)))


def _fold_cast(op: Operation) -> Attribute | None:
    x = constant_of(op.operands[0])
    if x is None:
        return None
    width = t.bit_width(op.operands[0].type)
    if op.name == "arith.extui":
        x &= (1 << width) - 1
    elif op.name == "arith.extsi" and width == 1:
        x = -x
    elif op.name == "arith.trunci" and t.bit_width(op.results[0].type) == 1:
        x &= 1
    return _constant(op, x)


def _fold_select(op: Operation) -> SSAValue | None:
    condition, yes, no = op.operands
    known = constant_of(condition)
    if yes is no:
        return yes
    if yes.type == condition.type and t.elem(yes.type) == t.I1 and (constant_of(yes), constant_of(no)) == (1, 0):
        return condition
    return None if known is None else yes if known else no


def _fold_spread(op: Operation) -> SSAValue | Attribute | None:
    """Folds tt.splat, tt.broadcast, tt.expand_dims and tt.reshape of one value into that value."""
    source = op.operands[0]
    if source.type == op.results[0].type:
        return source
    owner = source.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "arith.constant":
        value = splat_value(owner.properties["value"])
        type_ = op.results[0].type
        return None if value is None else constant_attr(value, t.elem(type_), t.shape_of(type_))
    if op.name != "tt.splat" and isinstance(owner, SplatOp):
        return _respread(SplatOp, op, owner)
    if op.name == "tt.broadcast" and isinstance(owner, BroadcastOp):
        return _respread(BroadcastOp, op, owner)
    return None


def _respread(kind: type[Operation], op: Operation, owner: Operation) -> SSAValue:
    made = kind.create(operands=owner.operands, result_types=(op.results[0].type,), location=op.location)
    parent_block(op).insert_op_before(made, op)
    return made.results[0]


_DIVISIONS = frozenset(f"arith.{name}" for name in DIVISIONS)
_BITWISE = frozenset({"arith.andi", "arith.ori", "arith.xori"})
_SHIFTS = frozenset(f"arith.{name}" for name in SHIFTS)
_COMMUTATIVE_NEUTRAL_ZERO = frozenset({"arith.addi", "arith.ori", "arith.xori"})
_RIGHT_NEUTRAL_ZERO = _COMMUTATIVE_NEUTRAL_ZERO | _SHIFTS | {"arith.subi"}
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


_INTEGERS = {f"arith.{name}": meaning for name, meaning in INTEGERS.items()}
_FOLDERS: dict[str, Callable[[Operation], SSAValue | Attribute | None]] = {
    **FLOAT_FOLDERS,
    **dict.fromkeys(_INTEGERS, _fold_binary),
    "arith.cmpi": _fold_compare,
    "arith.extsi": _fold_cast,
    "arith.extui": _fold_cast,
    "arith.trunci": _fold_cast,
    "arith.select": _fold_select,
    "tt.splat": _fold_spread,
    "tt.broadcast": _fold_spread,
    "tt.expand_dims": _fold_spread,
    "tt.reshape": _fold_spread,
}
