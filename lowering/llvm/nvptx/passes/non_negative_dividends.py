"""Marks divisions of blocks that have non-negative dividends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr

from ....tt.dialect.functions import FuncOp
from ....tt.facts import NON_NEGATIVE
from ....tt.transforms.function_pass import Allowed, FunctionPass
from ..analysis.known_non_negative import Dividends, divisions


@dataclass(frozen=True)
class NonNegativeDividends(FunctionPass):
    """Marks divisions of blocks whose dividends are never negative.

    divisions: positions, among all divisions of blocks, of those for which a launch has proven it; without any, those for which
        it always holds.
    """

    name = "non-negative-dividends"
    divisions: tuple[int, ...] = ()

    def allowed_in(self, function: FuncOp) -> Mapping[str, Allowed]:
        if not self.divisions:
            return {}
        known = range(sum(1 for _ in divisions(function)))
        return {"divisions": Allowed.numbers(f"signed divisions of blocks in @{function.sym_name.data}", known)}

    def run(self, function: FuncOp) -> None:
        numbers = self.divisions or Dividends(function).always
        for number, op in enumerate(divisions(function)):
            op.attributes.pop(NON_NEGATIVE, None)
            if number in numbers:
                op.attributes[NON_NEGATIVE] = UnitAttr()

    def is_needed(self, function: FuncOp) -> bool:
        return any(True for _ in divisions(function))


__all__ = ["NonNegativeDividends"]
