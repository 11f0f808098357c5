"""Derives operand types from another type of the operation, for assembly formats.

`tt.addptr %p, %o : T, O` writes the type of the result and leaves the reader to know that the pointer operand
has it too. `Derived` says so: when a text is read, the type is computed from the written one. It never fails
verification by itself: the operation's verifier compares the types and can name the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from typing_extensions import TypeVar
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, AttrConstraint, VarConstraint
from xdsl.irdl.constraints import InferenceContext, IntConstraint, VerificationContext

from .. import types as t

WRITTEN = "T"
"""The type variable that stands for the type written in the text."""


def written() -> VarConstraint[Attribute]:
    """Returns the constraint of the type that the text states and others derive from; at most one per
    operation."""
    return VarConstraint(WRITTEN, AnyAttr())


def identity(type_: Attribute) -> Attribute:
    """Returns the written type itself."""
    return type_


@dataclass(frozen=True)
class Derived(AttrConstraint[Attribute]):
    """A type computed from the written one by `rule`, which must accept any type."""

    rule: Callable[[Attribute], Attribute] = identity

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        """Accepts every type; see the module's description."""

    def can_infer(self, var_constraint_names: Set[str]) -> bool:
        return WRITTEN in var_constraint_names

    def infer(self, context: InferenceContext) -> Attribute:
        type_ = context.get_variable(WRITTEN)
        assert isinstance(type_, Attribute)
        return self.rule(type_)

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> AttrConstraint[Attribute]:
        return self


SAME = Derived()
MASK = Derived(t.mask_type)
ELEMENT = Derived(t.elem)
