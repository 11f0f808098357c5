"""States what a launch knows of its arguments as `tt.divisibility` of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute

from ...dialect.functions import FuncOp
from ...facts import (
    DIVISIBILITY,
    MAX_DIVISIBILITY,
    divisibility,
    parameter_attributes,
    set_parameter_attributes,
)
from ...types import is_integer, is_pointer, is_tensor
from ..function_pass import Allowed, FunctionPass


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

    def allowed(self) -> Mapping[str, Allowed]:
        count = len(self.parameters)
        return {
            "divisors": Allowed(
                f"a power of two from 1 to {MAX_DIVISIBILITY} for each of {count} parameters",
                lambda given: len(given) == count and all(map(_is_divisor, given)),
            )
        }

    def allowed_in(self, function: FuncOp) -> Mapping[str, Allowed]:
        divided = [
            number
            for number, argument in enumerate(function.body.blocks[0].args)
            if (is_pointer(argument.type) or is_integer(argument.type)) and not is_tensor(argument.type)
        ]
        what = f"parameters of @{function.sym_name.data} that are pointers or integers"
        return {"parameters": Allowed.numbers(what, divided)}

    def run(self, function: FuncOp) -> None:
        count = len(function.body.blocks[0].args)
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


def _is_divisor(number: int) -> bool:
    return 0 < number <= MAX_DIVISIBILITY and not number & (number - 1)


__all__ = ["AssumeDivisibility"]
