"""Holds nodes of ONNX that stand for several symbols, with one output or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....promotion.dataclass import dataclass
from ....symbol import Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Composed:
    """A node that stands for several symbols.

    Attributes:
        operands: what it reads, in the order of the operator's inputs; None for those that it does without.
        results: for each output the symbols that it is, which may be several times the same computation, or none.
        turned: the permutations of operands before the node, by their position, None for none.
        result_turned: the permutation of the first output behind the node.
        all_outputs: whether the operator has no optional outputs.
    """

    op: str
    operands: tuple[Symbol | None, ...]
    results: tuple[tuple[Symbol, ...], ...]
    attributes: Mapping[str, Any]
    turned: Mapping[int, tuple[int, ...]]
    result_turned: tuple[int, ...] | None = None
    all_outputs: bool = False

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols that the node reads."""
        return tuple([operand for operand in self.operands if operand is not None])

    @property
    def roots(self) -> tuple[Symbol, ...]:
        """The symbols whose values it computes."""
        return tuple([symbol for result in self.results for symbol in result])


def plain(op: str, operands: tuple[Symbol | None, ...], result: Symbol, **attributes: Any) -> Composed:
    """Return a node with one output, whose operands are as the operator takes them."""
    return Composed(op, operands, ((result,),), attributes, {})
