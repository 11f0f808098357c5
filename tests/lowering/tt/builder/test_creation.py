"""Operations that joinery's builders make are what xDSL's own `create` and `add_op` make of the same operands."""

from __future__ import annotations

from typing import Any

import pytest
from joinery.lowering.tt import types as t
from joinery.lowering.tt.builder import creation
from joinery.lowering.tt.constants import constant_attr
from xdsl.dialects import arith
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue, Use

HERE = FileLineColLoc(StringAttr("here"), IntAttr(3), IntAttr(4))
THREE = constant_attr(3, t.I32, ())


def uses(value: SSAValue) -> list[tuple[str, int]]:
    """Return the uses of a value from the first on, and check that they are linked in both directions."""
    found: list[tuple[str, int]] = []
    before: Use | None = None
    use = value.first_use
    while use is not None:
        assert use._prev_use is before
        found.append((use.operation.name, use.index))
        before, use = use, use._next_use
    return found


def own(operation: type[Operation], operands: list[SSAValue], types: list[Any], properties: Any, block: Block) -> Operation:
    made = creation.create(operation, operands, types, properties, HERE)
    creation.append(block, made)
    return made


def theirs(operation: type[Operation], operands: list[SSAValue], types: list[Any], properties: Any, block: Block) -> Operation:
    made = operation.create(operands=operands, result_types=types, properties=properties, location=HERE)
    block.add_op(made)
    return made


def program(make: Any) -> Block:
    """Make a block: constants, sums that use a value twice, and an operation whose properties have defaults."""
    block = Block(arg_types=[t.I32, t.I32])
    three = make(arith.ConstantOp, [], [t.I32], {"value": THREE}, block).results[0]
    total = make(arith.AddiOp, [three, three], [t.I32], {}, block).results[0]
    product = make(arith.MuliOp, [total, block.args[1]], [t.I32], {}, block).results[0]
    make(arith.SubiOp, [three, product], [t.I32], {}, block)
    make(arith.AddUIExtendedOp, [three, total], [t.I32, t.I1], {}, block)
    return block


def test_blocks_are_the_same_field_by_field() -> None:
    blocks = program(own), program(theirs)
    pairs = list(zip(*(block.ops for block in blocks), strict=True))
    assert len(pairs) == 5
    number = [{value: index for index, value in enumerate([*b.args, *(r for op in b.ops for r in op.results)])} for b in blocks]
    for one, other in pairs:
        fields = {*vars(one), *vars(other)}
        assert fields <= {
            "_operands", "_operand_uses", "results", "_successors", "_successor_uses", "properties", "attributes", "location",
            "regions", "parent", "_next_op", "_prev_op",
        }  # fmt: skip
        assert type(one) is type(other)
        assert list(one.properties.items()) == list(other.properties.items())
        assert one.attributes == other.attributes == {}
        assert one.location is other.location is HERE
        assert one.regions == other.regions == ()
        assert len(one.successors) == len(other.successors) == 0
        assert type(one._operands) is type(other._operands)
        assert type(one.results) is type(other.results)
        assert [number[0][each] for each in one.operands] == [number[1][each] for each in other.operands]
        assert [each.type for each in one.results] == [each.type for each in other.results]
        assert [(use.operation is one, use.index) for use in one._operand_uses] == [(True, i) for i in range(len(one.operands))]
        for mine, its in zip(one.results, other.results, strict=True):
            assert mine.op is one
            assert mine.index == its.index
            assert mine.name_hint is None
            assert uses(mine) == uses(its)
        one.verify()
    for block in blocks:
        ops = list(block.ops)
        assert (block.first_op, block.last_op) == (ops[0], ops[-1])
        assert [op.next_op for op in ops] == [*ops[1:], None]
        assert [op.prev_op for op in ops] == [None, *ops[:-1]]
        assert all(op.parent is block for op in ops)
    assert [uses(each) for each in blocks[0].args] == [uses(each) for each in blocks[1].args]
    assert blocks[0].is_structurally_equivalent(blocks[1])


def test_what_was_made_can_be_changed_and_taken_out() -> None:
    block = program(own)
    ops = list(block.ops)
    ops[1].results[0].replace_all_uses_with(block.args[0])
    block.erase_op(ops[1])
    assert [op.name for op in block.ops] == ["arith.constant", "arith.muli", "arith.subi", "arith.addui_extended"]
    assert uses(ops[0].results[0]) == [("arith.addui_extended", 0), ("arith.subi", 0)]


@pytest.mark.parametrize("operation", [arith.AddiOp, arith.AddfOp])
def test_properties_with_defaults_are_filled_in(operation: type[Operation]) -> None:
    type_ = t.I32 if operation is arith.AddiOp else t.F32
    block = Block(arg_types=[type_, type_])
    assert own(operation, list(block.args), [type_], {}, block).properties
