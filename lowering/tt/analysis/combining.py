"""Finds how reductions and scans combine two values, and in which order a scan in a fixed order takes
them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, Region, SSAValue

from .. import types as t
from ..dialect.arith import FLOAT_PREDICATES, INTEGER_PREDICATES
from ..dialect.attributes import property_number

COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in ("addf", "mulf", "addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", "maxnumf",
                 "minnumf", "maximumf", "minimumf")
)  # fmt: skip
"""The operations that give the same bits in either order of operands."""


def prefix_moves(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns one level of a scan of `count` places in which runs of `length` have their prefixes already:
    the places that are combined into others, and these others."""
    takers = np.flatnonzero(np.arange(count) & length)
    return (takers & -length) - 1, takers


def single_operation(region: Region) -> Operation | None:
    """Returns the single operation of a region if it takes both arguments, in either order, and its result is
    what the region returns; else None."""
    operations = [each for block in region.blocks for each in block.ops]
    if len(region.blocks) != 1 or len(operations) != 2 or len(region.block.args) != 2:
        return None
    inner, end = operations
    takes, gives = list(inner.operands), list(end.operands)
    arguments = list(region.block.args)
    return inner if takes in (arguments, arguments[::-1]) and gives == list(inner.results) else None


def exchanged_axis(op: Operation) -> tuple[int, int] | None:
    """Returns which operand of `x ^ xor(x over an axis of two)` is x, and the axis, along which two positions change places.

    Triton's `flip` and `sort` are made of this: the result does not depend on what the position itself held.
    """
    if op.name != "arith.xori":
        return None
    for position, (x, total) in enumerate(zip(op.operands, op.operands[::-1], strict=True)):
        owner = total.owner
        while isinstance(owner, Operation) and owner.name in ("tt.broadcast", "tt.expand_dims", "tt.splat", "tt.reshape"):
            owner = owner.operands[0].owner
        if not isinstance(owner, Operation) or owner.name != "tt.reduce" or list(owner.operands) != [x]:
            continue
        axis, shape = property_number(owner, "axis"), t.shape_of(x.type)
        single = single_operation(owner.regions[0])
        if single is None or single.name != "arith.xori" or shape[axis] != 2:
            continue
        if _is_repeated(total, owner.results[0], axis):
            return position, axis
    return None


def _is_repeated(total: SSAValue, reduced: SSAValue, axis: int) -> bool:
    """Whether a block is the reduced one with its axis put back: reshapes only insert the axis, which is then repeated."""
    shapes = []
    while total is not reduced:
        shapes.append(t.shape_of(total.type))
        owner = total.owner
        assert isinstance(owner, Operation)
        if owner.name == "tt.expand_dims" and property_number(owner, "axis") != axis:
            return False
        total = owner.operands[0]
    kept = t.shape_of(reduced.type)
    expected = [(*kept[:axis], extent, *kept[axis:]) for extent in (1, 2)]
    return all(shape in (kept, *expected) for shape in shapes) and len(set(shapes)) == len(shapes)


def commutes(region: Region) -> bool:
    """Whether the region of a reduction gives the same in either order of its two tuples of values.

    The sign of zero is not looked at, and NaN only where a value is compared with itself: which of several a maximum gives is
    open.

    That is so where each result is one commutative operation on its own two values, or where all results are chosen by
    comparisons: what these choose depends only on how the values compare, and so a few values stand for all.
    """
    if len(region.blocks) != 1:
        return False
    block = region.block
    *operations, end = block.ops
    count = len(block.args) // 2
    pairs = [[block.args[i], block.args[count + i]] for i in range(count)]
    owners = [value.owner for value in end.operands]
    if len({*owners}) == len(operations) == count and all(
        isinstance(owner, Operation) and owner.name in COMMUTATIVE and list(owner.operands) in (pair, pair[::-1])
        for owner, pair in zip(owners, pairs, strict=True)
    ):
        return True
    return _chooses_alike(operations, list(end.operands), list(block.args[:count]), list(block.args[count:]))


_MAX_PAIRS = 5
"""Pairs of values of which all cases are tried."""
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "rd": lambda a, b: True, "no": lambda a, b: False,
}  # fmt: skip
"""The relations of numbers by the last two letters of the predicates: `ord` and `uno` look for NaN."""
_LOGIC: dict[str, Callable[[int, int], int]] = {
    "arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor,
}  # fmt: skip
_PREDICATES = {"arith.cmpi": INTEGER_PREDICATES, "arith.cmpf": FLOAT_PREDICATES}


def _predicate(op: Operation) -> str:
    return _PREDICATES[op.name][property_number(op, "predicate")]


def _chooses_alike(
    operations: Sequence[Operation], results: Sequence[SSAValue], left: Sequence[SSAValue], right: Sequence[SSAValue]
) -> bool:
    """Whether operations only compare the two values of a pair, and choose by that, and choose the same in either order."""
    arguments = [*left, *right]
    signs, looks_for_nan = set(), set[int]()
    for op in operations:
        if op.name in _PREDICATES:
            pair = next((i for i in range(len(left)) if {left[i], right[i]}.issuperset(op.operands)), None)
            predicate = _predicate(op)
            if pair is None or predicate[-2:] not in _RELATIONS:
                return False
            if op.name == "arith.cmpf" and op.operands[0] is op.operands[1]:
                looks_for_nan.add(pair)
            signs.add((pair, predicate[0] if op.name == "arith.cmpi" and predicate[0] in "su" else ""))
        elif op.name != "arith.select" and (op.name not in _LOGIC or str(op.results[0].type) != "i1"):
            return False
    known = {*arguments, *[op.results[0] for op in operations]}
    if not known.issuperset([*results, *[operand for op in operations for operand in op.operands]]):
        return False
    if any((pair, "s") in signs and (pair, "u") in signs for pair in range(len(left))):
        return False
    if len(left) > _MAX_PAIRS or any(str(value.type) == "i1" for value in left):
        return False
    # Values of several pairs are never taken for each other. Negative ones are NaN.
    cases = [(2 * pair, 2 * pair + 1, *[-1 - pair] * (pair in looks_for_nan)) for pair in range(len(left))]
    return all(
        _chosen(operations, results, dict(zip(arguments, (*a, *b), strict=True)))
        == _chosen(operations, results, dict(zip(arguments, (*b, *a), strict=True)))
        for a, b in itertools.product(itertools.product(*cases), repeat=2)
    )


def _compared(predicate: str, a: int, b: int) -> bool:
    """Returns whether the relation of a predicate holds; of NaN, its first letter says so: unordered or ordered."""
    return predicate[0] == "u" if min(a, b) < 0 else _RELATIONS[predicate[-2:]](a, b)


def _chosen(operations: Sequence[Operation], results: Sequence[SSAValue], values: dict[SSAValue, int]) -> list[int]:
    for op in operations:
        operands = [values[operand] for operand in op.operands]
        if op.name in _PREDICATES:
            value: int = _compared(_predicate(op), *operands)
        elif op.name == "arith.select":
            value = operands[1] if operands[0] else operands[2]
        else:
            value = _LOGIC[op.name](*operands)
        values[op.results[0]] = value
    return [values[value] for value in results]
