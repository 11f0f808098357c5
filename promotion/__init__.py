"""Decides which dtype two operands meet in, with dtypes, lattices, rule sets, literals and casts.

`implicit_cast_type` and `implicit_cast` are the queries of the MAX type_promotion page; `rules(name)` returns
a whole rule set. Nothing here depends on graphs, and nothing imports NumPy before a NumPy dtype is asked for.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from .casts import LOSS_CLASSES, LossClass, loss_class, loss_example
from .definition import Definition, Erratum
from .dtype import ABSTRACT, DTYPES, DType
from .errors import InternalError, JoineryError, UnsupportedError, UserError
from .lattices.lattice import Lattice, Law, Laws, check_laws
from .literals import LiteralRules, Scalar, check_literal, is_scalar
from .presets import PRESETS, register, rules
from .result_rules import RESULT_RULES, Promotion, ResultRule
from .rules import Difference, RuleSet, ZeroDim, dtype_of
from .table import PromotionTable


def implicit_cast_type(lhs: DType | str, rhs: DType | str, rule_set: str | RuleSet = "max") -> DType:
    """Return the smallest dtype to which both operands may be promoted.

    Raises `UserError` if the rule set has no join for them.
    """
    found = rules(rule_set)
    return found.concrete(found.join(lhs, rhs))


class Castable(Protocol):
    """A symbol, or anything else that has a dtype and can be cast."""

    @property
    def dtype(self) -> DType: ...

    def cast(self, dtype: DType, /) -> Self: ...


LeftT = TypeVar("LeftT", bound=Castable)
RightT = TypeVar("RightT", bound=Castable)


def implicit_cast(lhs: LeftT, rhs: RightT, rule_set: str | RuleSet = "max") -> tuple[LeftT, RightT]:
    """Cast two symbols to their promoted dtype where necessary, and return both.

    Symbols need `.dtype` and `.cast(dtype)`. Raises `UserError` if the rule set has no join for them.
    """
    target = rules(rule_set).promote(lhs, rhs)
    first = lhs if lhs.dtype is target else lhs.cast(target)
    second = rhs if rhs.dtype is target else rhs.cast(target)
    return first, second


__all__ = [
    "ABSTRACT",
    "DTYPES",
    "LOSS_CLASSES",
    "PRESETS",
    "RESULT_RULES",
    "DType",
    "Definition",
    "Difference",
    "Erratum",
    "InternalError",
    "JoineryError",
    "Lattice",
    "Law",
    "Laws",
    "LiteralRules",
    "LossClass",
    "Promotion",
    "PromotionTable",
    "ResultRule",
    "RuleSet",
    "Scalar",
    "UnsupportedError",
    "UserError",
    "ZeroDim",
    "check_laws",
    "check_literal",
    "dtype_of",
    "implicit_cast",
    "implicit_cast_type",
    "is_scalar",
    "loss_class",
    "loss_example",
    "register",
    "rules",
]
