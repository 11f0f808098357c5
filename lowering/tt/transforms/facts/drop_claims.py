"""Drops what a text claims of itself and nothing checks."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from ...dialect.functions import FuncOp
from ...facts import FACTS, RESULTS, parameter_attributes, set_parameter_attributes
from ..function_pass import FunctionPass

_CLAIMS = frozenset((*FACTS, *RESULTS))


@dataclass(frozen=True)
class DropClaims(FunctionPass):
    """Removes facts that only a trusted front end may state, and results that passes find out anew."""

    name = "drop-claims"

    def run(self, function: FuncOp) -> None:
        for op in function.walk():
            for name in _CLAIMS.intersection(op.attributes):
                del op.attributes[name]
        own = [parameter_attributes(function, number) for number in range(len(function.body.blocks[0].args))]
        if any(not _CLAIMS.isdisjoint(each) for each in own):
            kept: list[dict[str, Attribute]] = [
                {name: value for name, value in each.items() if name not in _CLAIMS} for each in own
            ]
            set_parameter_attributes(function, kept)


__all__ = ["DropClaims"]
