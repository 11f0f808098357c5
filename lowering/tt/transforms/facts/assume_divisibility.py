"""States what a launch knows of its arguments as `tt.divisibility` of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute

from .....promotion.errors import UserError
from ...dialect.functions import FuncOp
from ...facts import DIVISIBILITY, divisibility, parameter_attributes, set_parameter_attributes
from ..function_pass import FunctionPass


@dataclass(frozen=True)
class AssumeDivisibility(FunctionPass):
    """States divisors of the addresses and values of parameters, besides those that are stated already.

    parameters: positions of parameters, from 0.
    divisors: a power of two for each of them.
    only: whether what the function states already is to count for nothing.
    """

    name = "assume-divisibility"
    parameters: tuple[int, ...] = ()
    divisors: tuple[int, ...] = ()
    only: bool = False

    def run(self, function: FuncOp) -> None:
        count = len(function.body.blocks[0].args)
        if len(self.parameters) != len(self.divisors) or any(not 0 <= each < count for each in self.parameters):
            raise UserError(f"{self}: expected one divisor for each, of the {count} parameters of @{function.sym_name.data}")
        if any(each <= 0 or each & (each - 1) for each in self.divisors):
            raise UserError(f"{self}: divisors are powers of two")
        own: list[dict[str, Attribute]] = [dict(parameter_attributes(function, number)) for number in range(count)]
        if self.only:
            for each in own:
                each.pop(DIVISIBILITY, None)
        for number, divisor in zip(self.parameters, self.divisors, strict=True):
            known = 1 if self.only else divisibility(function, number)
            own[number][DIVISIBILITY] = IntegerAttr(max(divisor, known), i32)
        set_parameter_attributes(function, own)

    def is_needed(self, function: FuncOp) -> bool:
        if self.parameters or self.divisors:
            return True
        count = len(function.body.blocks[0].args)
        return self.only and any(DIVISIBILITY in parameter_attributes(function, number) for number in range(count))


__all__ = ["AssumeDivisibility"]
