"""Creates operations and appends them, as `Operation.create` and `Block.add_op` do, in half the time.

Those check what callers of joinery's builders cannot get wrong: that an operation is new, and not inside of itself. What
they leave behind is the same, which `tests/lowering/tt/builder/test_creation.py` compares field by field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, OptionalDef


class _Defaults(dict[type[Operation], dict[str, Attribute]]):
    """Properties with a default value, by the class of operations that must have them."""

    def __missing__(self, operation: type[Operation]) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        if issubclass(operation, IRDLOperation):
            for name, each in operation.get_irdl_definition().properties.items():
                if not isinstance(each, OptionalDef) and each.default_value is not None:
                    found[name] = each.default_value
        self[operation] = found
        return found


_DEFAULTS = _Defaults()


def create(
    operation: type[Operation],
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: Mapping[str, Attribute],
    location: LocationAttr | None,
) -> Operation:
    """Create an operation without regions, successors and attributes. Nothing is checked."""
    made = operation.__new__(operation)
    uses = []
    for index, operand in enumerate(operands):
        use = Use(made, index)
        uses.append(use)
        first = operand.first_use
        if first is not None:
            use._next_use = first
            first._prev_use = use
        operand.first_use = use
    made._operands = SSAValues(operands)
    made._operand_uses = tuple(uses)
    made.results = SSAValues([OpResult(type_, made, index) for index, type_ in enumerate(result_types)])
    made.properties = dict(properties)
    for name, value in _DEFAULTS[operation].items():
        made.properties.setdefault(name, value)
    made.attributes = {}
    made.location = UNKNOWN_LOC if location is None else location
    return made


def append(block: Block, op: Operation) -> None:
    """Append an operation that is in no block and has no regions."""
    last = block._last_op
    op.parent = block
    if last is None:
        block._first_op = op
    else:
        last._next_op = op
        op._prev_op = last
    block._last_op = op


__all__ = ["append", "create"]
