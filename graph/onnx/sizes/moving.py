"""Finds how bounds of slices move with the iterations of loops: the size of `x[:, i:i + 1]` is known, where it starts is not.

A bound is a sum of a size and of multiples of the numbers of iterations, of which the loops say how many there are.
"""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ....promotion.dtype import int64
from ...checks import Check
from ...construction.stated import state
from ...dims.dim import Dim, Extent, at_most, maximum, minimum
from ...functions.building import apply
from ...functions.indexing import gather
from ...functions.positions import counting
from ...graph import Graph
from ...region import Region
from ...symbol import Symbol
from ..values import Known, Sizes, Value
from .origins import captured, known_sizes

_MAX_LENGTH = 16
"""Most elements of a vector of bounds."""
_MAX_STEPS = 256
"""Most symbols that bounds are followed through."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A size, and a factor for each number of an iteration that is added to it: by the region whose first input it is."""

    size: Extent
    factors: dict[Region, Extent]

    def plus(self, other: Bound, times: int = 1) -> Bound:
        factors = dict(self.factors)
        for region, factor in other.factors.items():
            factors[region] = factors.get(region, 0) + factor * times
        return Bound(self.size + other.size * times, {region: factor for region, factor in factors.items() if factor != 0})

    def scaled(self, by: Extent) -> Bound:
        return Bound(self.size * by, {region: factor * by for region, factor in self.factors.items()})


def bounds_of(value: Value) -> list[Bound] | None:
    """Return the elements of a scalar or vector of integers as bounds; None where they are anything else."""
    if isinstance(value, Known) and value.array.dtype.kind in "iu" and value.array.size <= _MAX_LENGTH:
        return [Bound(int(number), {}) for number in value.array.reshape(-1).tolist()]
    if isinstance(value, Sizes) and value.dtype.is_integer:
        return [Bound(item, {}) for item in value.items.reshape(-1).tolist()]
    return _Following().of(value) if isinstance(value, Symbol) else None


class _Following:
    """Follows symbols to what they are computed from, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Graph, int], list[Bound] | None] = {}

    def of(self, symbol: Symbol) -> list[Bound] | None:
        key = (symbol.graph, symbol.id)
        if key not in self._found:
            few = len(self._found) < _MAX_STEPS and isinstance(symbol.size, int) and symbol.size <= _MAX_LENGTH
            self._found[key] = None
            if few and symbol.dtype is int64 and len(symbol.shape) <= 1:
                self._found[key] = self._computed(symbol)
        return self._found[key]

    def _computed(self, symbol: Symbol) -> list[Bound] | None:
        row, graph = symbol.op.name, symbol.graph
        if row in ("constant", "weight"):
            return [Bound(int(number), {}) for number in symbol.attrs["value"].reshape(-1).tolist()]
        if row == "dim_value":
            return [Bound(symbol.attrs["extent"], {})]
        if row == "input":
            if isinstance(graph, Region) and symbol is graph.inputs[0] and graph.trips is not None:
                return [Bound(0, {graph: 1})]
            outer = captured(symbol)
            return None if outer is None else self.of(outer)
        operands = [self.of(operand) for operand in symbol.inputs]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None
        match row, known:
            case "reshape" | "cast", [source]:
                return source
            case "concat", _:
                return [each for operand in known for each in operand]
            case "broadcast_to", [[one]] if isinstance(symbol.size, int):
                return [one] * symbol.size
            case ("add" | "sub" | "mul"), [left, right]:
                return _combined(row, left, right)
        return None


def _combined(row: str, left: list[Bound], right: list[Bound]) -> list[Bound] | None:
    count = max(len(left), len(right))
    found: list[Bound] = []
    for one, other in zip(left * (count if len(left) == 1 else 1), right * (count if len(right) == 1 else 1), strict=True):
        if row == "mul":
            if one.factors and other.factors:
                return None
            found.append(one.scaled(other.size) if one.factors else other.scaled(one.size))
        else:
            found.append(one.plus(other, 1 if row == "add" else -1))
    return found


def window(x: Symbol, axis: int, start: Symbol, first: Bound, last: Bound, step: int) -> Symbol | None:
    """Return a slice whose start moves and whose size does not; None where that is not so.

    It lies inside of the axis in all iterations, or the launch refuses sizes with which it does not: slices are clamped.

    start: a scalar. first, last: its bounds.
    """
    width = last.plus(first, -1)
    if width.factors or step < 1 or not at_most(0, width.size):
        return None
    low = high = first.size
    trips: list[Extent] = []
    for region, factor in first.factors.items():
        if region.trips is None:
            return None
        trips.append(region.trips)
        whole = factor * (region.trips - 1)
        if at_most(0, factor):
            high = high + whole
        elif at_most(factor, 0):
            low = low + whole
        else:
            return None
    what = f"a slice of {width.size} of the {x.shape[axis]} elements along axis {axis} that moves with the iterations of a loop"
    for smaller, larger in ((0, low), (high + width.size, x.shape[axis])):
        if not _require(x.graph, smaller, larger, trips, what):
            return None
    count = (width.size + (step - 1)) // step
    positions = start.reshape((1,))
    if count != 1:
        steps = counting(x.graph, count)
        positions = apply("add", steps if step == 1 else apply("mul", steps, step), positions)
    return gather(x, positions, axis)


def _require(graph: Graph, smaller: Extent, larger: Extent, trips: list[Extent], what: str) -> bool:
    """Require that one size is at most another one, by a check of the launch where that is not known; return whether it can be.

    trips: where any of these is not positive, there is no iteration in which it has to be.
    """
    if at_most(smaller, larger):
        return True
    if at_most(larger + 1, smaller):
        return False
    above = maximum(smaller - larger, 0)
    for count in trips:
        above = above * minimum(maximum(count, 0), 1)
    if above == 0:
        return True
    if not isinstance(above, Dim) or not above.symbols() <= known_sizes(graph):
        return False
    state(graph, Check(above, 0, f"{what} must lie inside of it"))
    return True
