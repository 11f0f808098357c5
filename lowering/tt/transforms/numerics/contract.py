"""Fuses products and the sums they feed into multiply-adds, where both have the flag `contract`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Block, Operation, OpResult, SSAValue

from ...builder.block_builder import BlockBuilder
from ...dialect.functions import FuncOp
from ...facts import CONTRACT
from ..function_pass import FunctionPass
from ..rewriting import Rewriter

_SUMS = frozenset({"arith.addf", "arith.subf"})
_EXPONENTIALS = frozenset({"math.exp", "math.exp2", "math.expm1"})
_PASSED_ON = frozenset(
    {"arith.mulf", "arith.divf", "arith.negf", "arith.extf", "arith.truncf", "arith.select", "tt.fp_to_fp", "tt.splat",
     "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.trans"}
)  # fmt: skip
"""Operations that hand on the error of a difference, relative to the argument of an exponential that it
becomes."""


def _has(op: Operation, flag: FastMathFlag) -> bool:
    flags = op.properties.get("fastmath")
    return isinstance(flags, FastMathFlagsAttr) and flag in flags.data


def _without(op: Operation, flag: FastMathFlag) -> None:
    flags = op.properties["fastmath"]
    assert isinstance(flags, FastMathFlagsAttr)
    op.properties["fastmath"] = FastMathFlagsAttr(flags.data - {flag})


def contract_products(func: Operation) -> None:
    """Fuses products with the sums and differences they feed, where both have `contract`; `func` is changed
    in place.

    This is decided here, once: a back end that evaluates a value twice must get the same bits twice. So a
    product is fused if it is used by nothing else, and the other sums lose the flag. Reductions that only add
    keep it: the back end may fuse the product that is added up, since a sum is not evaluated again.

    The argument of an exponential (softmax: x - max x) keeps its rounding: x·s - x·s is 0, and fused it would
    be the rounding error of the product, which for large x has no bound.
    """
    sums = [op for op in func.walk() if op.name in _SUMS and _has(op, CONTRACT) and not _is_reduction(op)]
    fusable = {op for op in sums if not _feeds_exponential(op)}
    for op in sums:
        product = _product(op, fusable) if op in fusable else None
        if product is None:
            _without(op, CONTRACT)
        else:
            fusable.discard(op)
            _fuse(op, product)


def _is_reduction(op: Operation) -> bool:
    """Returns whether the operation is all that a reduction does with two values."""
    parent, block = op.parent_op(), op.parent
    return parent is not None and parent.name == "tt.reduce" and block is not None and block.first_op is op and (
        op.next_op is block.last_op
    )


def _feeds_exponential(op: Operation) -> bool:
    """Returns whether an exponential takes the result, perhaps scaled or spread."""
    waiting, seen = list(op.results), set(op.results)
    while waiting:
        for use in waiting.pop().uses:
            user = use.operation
            if user.name in _EXPONENTIALS:
                return True
            if user.name in _PASSED_ON:
                new = [result for result in user.results if result not in seen]
                seen.update(new)
                waiting += new
    return False


def _product(op: Operation, fusable: set[Operation]) -> OpResult | None:
    """Returns the operand that is a product and is used by nothing but sums that it can be fused with; None
    without one."""
    left, right = op.operands
    if left is right:
        return None
    for operand in (left, right):
        if not isinstance(operand, OpResult) or operand.op.name != "arith.mulf" or not _has(operand.op, CONTRACT):
            continue
        users = [use.operation for use in operand.uses]
        if all(user in fusable and user.operands[0] is not user.operands[1] for user in users):
            return operand
    return None


def _fuse(op: Operation, product: OpResult) -> None:
    b = Rewriter(op)
    x, y = product.op.operands
    left, right = op.operands
    is_left = left is product
    other = right if is_left else left
    if op.name == "arith.subf":
        if is_left:
            other = _negative(b, other)
        else:
            x = _negative(b, x)
    fused = b.ternary("math.fma", x, y, other)
    assert isinstance(fused, OpResult)
    fused.op.properties["fastmath"] = op.properties["fastmath"]
    b.replace([fused])
    if product.first_use is None:
        block = product.op.parent
        assert isinstance(block, Block)
        block.erase_op(product.op)


def _negative(b: BlockBuilder, value: SSAValue) -> SSAValue:
    return b.unary("arith.negf", value)


@dataclass(frozen=True)
class Contract(FunctionPass):
    """Fuses products and sums that have the flag `contract` into multiply-adds."""

    name = "contract"

    def run(self, function: FuncOp) -> None:
        contract_products(function)
