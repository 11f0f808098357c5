"""Defines templates: the operation that a line of text stands for, learned from the strict parser."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, Operation
from xdsl.traits import HasParent, IsTerminator

from ....promotion.dataclass import dataclass
from ...tt.dialect.functions import CalleeExists

_CONTEXT_TRAITS = (IsTerminator, HasParent, CalleeExists)
"""Traits whose verifiers depend on more than the operation."""


@dataclass(slots=True)
class Template:
    """The operation of a template.

    Attributes:
        op_class: the operation.
        operands: for each operand the place of its name in the text.
        operand_types: the types that the operands must have.
        result_types, properties, attributes: those of the operation.
        successors: names of the blocks that it branches to.
        arguments: for each region the (place, type) of the arguments that the operation gives to its first block; None if
            it gives no such block.
        constant_bytes: size of its block constants.
        is_sound: whether an operation made from it has passed its verifier, and that verifier depends on nothing but these
            fields: not on regions, the parent or symbols.
    """

    op_class: type[Operation]
    operands: tuple[int, ...]
    operand_types: tuple[Attribute, ...]
    result_types: tuple[Attribute, ...]
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    successors: tuple[str, ...]
    arguments: tuple[tuple[tuple[int, Attribute], ...] | None, ...]
    constant_bytes: int
    is_sound: bool = False

    def passed(self) -> None:
        """Records that an operation made from the template has passed its verifier."""
        traits = self.op_class.traits.traits
        depends_on_context = self.arguments or self.successors or any(isinstance(each, _CONTEXT_TRAITS) for each in traits)
        self.is_sound = not depends_on_context
