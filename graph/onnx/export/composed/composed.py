"""Holds nodes of ONNX that stand for several symbols, with one output or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from .....promotion.dataclass import dataclass
from ....dims.dim import Extent
from ....symbol import Symbol
from ..body import Constant


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """An operand that is sizes: a vector, or a scalar of one."""

    extents: tuple[Extent, ...]
    is_scalar: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Unsqueezed:
    """An operand that is a symbol with one more axis of size 1 at the end."""

    symbol: Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Expanded:
    """An operand that is a symbol whose axes of size 1 are repeated, to a shape that broadcasts against its own."""

    symbol: Symbol
    shape: tuple[Extent, ...]


Operand: TypeAlias = "Symbol | Constant | Size | Unsqueezed | Expanded | None"
"""What a node reads; None for an input that it does without."""


@dataclass(frozen=True, slots=True, eq=False)
class Composed:
    """A node that stands for several symbols.

    Attributes:
        operands: what it reads, in the order of the operator's inputs.
        results: for each output the symbols that it is, which may be several times the same computation, or none.
        turned: the permutations of operands before the node, by their position, None for none.
        result_turned: the permutation of the first output behind the node.
        all_outputs: whether the operator has no optional outputs.
        facts: metadata of the node, by which import finds how its symbols were made.
    """

    op: str
    operands: tuple[Operand, ...]
    results: tuple[tuple[Symbol, ...], ...]
    attributes: Mapping[str, Any]
    turned: Mapping[int, tuple[int, ...]]
    result_turned: tuple[int, ...] | None = None
    all_outputs: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols that the node reads."""
        found = [each.symbol if isinstance(each, (Unsqueezed, Expanded)) else each for each in self.operands]
        return tuple([each for each in found if isinstance(each, Symbol)])

    @property
    def roots(self) -> tuple[Symbol, ...]:
        """The symbols whose values it computes."""
        return tuple([symbol for result in self.results for symbol in result])


def plain(op: str, operands: tuple[Operand, ...], result: Symbol, **attributes: Any) -> Composed:
    """Return a node with one output, whose operands are as the operator takes them."""
    return Composed(op, operands, ((result,),), attributes, {})


def walked(root: Symbol, most: int) -> Iterator[Symbol]:
    """Yield a symbol and what it is computed of, the nearest first, up to a number of symbols."""
    pending, seen = [root], {root.id}
    for each in pending:
        yield each
        for operand in each.inputs:
            if operand.id not in seen and len(seen) < most:
                seen.add(operand.id)
                pending.append(operand)
