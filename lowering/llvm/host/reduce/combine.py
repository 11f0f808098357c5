"""The combine regions of reductions and scans, as straight-line code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from .....promotion.dataclass import dataclass
from ...elementwise import constant, emit_map
from ...values import V, lanes
from ..evaluate import Evaluator


@dataclass(frozen=True, slots=True)
class Combine:
    """The combining function of a reduction or scan: straight-line operations on `2·n` values giving `n`."""

    arguments: tuple[Any, ...]
    operations: tuple[tuple[str, str, Any, tuple[Any, ...], tuple[str, ...], dict[str, Any]], ...]
    results: tuple[Any, ...]
    captured: Mapping[int, V] = field(default_factory=dict)
    """The scalars of the enclosing function that the region reads, by the id of the value."""

    @property
    def kind(self) -> str | None:
        """The operation's name when the region is a single commutative operation on the two arguments, else None."""
        return self.kinds[0] if len(self.results) == 1 and self.kinds is not None else None

    @property
    def kinds(self) -> tuple[str, ...] | None:
        """The operations' names when the region combines every pair of arguments by a commutative one of its own, else None."""
        count, found = len(self.results), {id(operation[2]): operation for operation in self.operations}
        if len(self.operations) != count:
            return None
        kinds: list[str] = []
        for number, result in enumerate(self.results):
            own = {id(self.arguments[number]), id(self.arguments[count + number])}
            if id(result) not in found or set(map(id, found[id(result)][3])) != own:
                return None
            kinds.append(found[id(result)][0])
        return tuple(kinds)

    def emit(self, ev: Evaluator, left: Sequence[V], right: Sequence[V]) -> list[V]:
        values = dict(self.captured) | dict(zip(map(id, self.arguments), [*left, *right], strict=True))
        for op, elem, result, operands, elems, attrs in self.operations:
            if op == "arith.constant":
                values[id(result)] = constant(attrs["value"], elem)
            else:
                values[id(result)] = emit_map(ev.f, op, elem, [values[id(o)] for o in operands], elems, attrs)
        n = max(lanes(value.type) for value in (*left, *right))
        return [ev.f.splat(values[id(r)], n) for r in self.results]  # a constant or captured scalar is the same in all lanes
