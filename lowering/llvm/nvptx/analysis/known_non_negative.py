"""Range analysis of the dividends of blocks: which are proven never to be negative.

Consecutive numbers have consecutive remainders, and equal quotients, only where they are not negative: -16, -15, … mod 16 are
0, -15, …, and -16, -15, … / 16 are -1, 0, …. Sums and products wrap, so whether a block is negative may depend on the arguments
and the grid of a launch. A launch finds out what holds (`Dividends.at`), and runs the code for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from ....tt.analysis.integer_ranges import ANY_LAUNCH, IntegerRanges, LaunchRanges, Range
from ....tt.dialect.functions import FuncOp
from ....tt.facts import NON_NEGATIVE
from ...syntax import is_tensor

_DIVISIONS = frozenset({"arith.divsi", "arith.remsi"})
_EXAMPLES = (1, 1024)
"""The sizes in two sample launches of one program: what is proven in neither is taken to be unprovable."""
_MAX_KNOWN = 1024
"""The most launches whose answers are kept."""


def is_known_non_negative(op: Operation) -> bool:
    """Whether the dividend of a division of blocks is known never to be negative."""
    return NON_NEGATIVE in op.attributes


class Dividends:
    """The dividends of a function's signed divisions of blocks, numbered in the order of the text.

    Attributes:
        always: dividends that are never negative.
        possible: dividends that are not negative in some launches.
    """

    def __init__(self, function: FuncOp) -> None:
        self._divisions = tuple(divisions(function))
        self.always, looked_at = self._proven(ANY_LAUNCH, range(len(self._divisions)))
        self._open: tuple[int, ...] = ()
        if looked_at:
            rest = [number for number in range(len(self._divisions)) if number not in self.always]
            launches = [
                LaunchRanges(((1, 1),) * 3, {parameter: (size, size) for parameter in looked_at}) for size in _EXAMPLES
            ]
            self._open = tuple(sorted({number for launch in launches for number in self._proven(launch, rest)[0]}))
        self.possible = (*self.always, *self._open)
        self._parameters = sorted(each for each in looked_at if each >= 0)
        self._axes = sorted(-1 - each for each in looked_at if each < 0)
        self._known: dict[tuple[Range | None, ...], tuple[int, ...]] = {}

    def at(self, grid: tuple[int, int, int], arguments: Sequence[SSAValue]) -> tuple[int, ...]:
        """Returns the numbers of the dividends that are never negative in a launch."""
        if not self._open:
            return self.always
        numbers = [value if isinstance(value := arguments[each], int) else None for each in self._parameters]
        extents = [grid[axis] for axis in self._axes]
        # By the length of numbers first, so that few different ones are analysed, however many launches there are.
        found = self._of([*map(_as_long, numbers)], [_of_length(extent) for extent in extents])
        if len(found) < len(self.possible):
            found = self._of([number if number is None else (number, number) for number in numbers], [(e, e) for e in extents])
        return found

    def _of(self, numbers: Sequence[Range | None], extents: Sequence[Range]) -> tuple[int, ...]:
        key = (*numbers, *extents)
        found = self._known.get(key)
        if found is None:
            grid = [(1, 1)] * 3
            for axis, extent in zip(self._axes, extents, strict=True):
                grid[axis] = extent
            sizes = {parameter: size for parameter, size in zip(self._parameters, numbers, strict=True) if size is not None}
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = (*self.always, *self._proven(LaunchRanges((grid[0], grid[1], grid[2]), sizes), self._open)[0])
            self._known[key] = found
        return found

    def _proven(self, launch: LaunchRanges, among: Collection[int]) -> tuple[tuple[int, ...], set[int]]:
        """Returns the divisions with provably non-negative dividends, and the parameters and axes of the others."""
        found, looked_at = [], set[int]()
        for number in among:
            ranges = IntegerRanges(launch, trusting=True)
            if ranges.of(self._divisions[number].operands[0])[0] >= 0:
                found.append(number)
            else:
                looked_at |= ranges.looked_at
        return tuple(found), looked_at


def _as_long(number: int | None) -> Range | None:
    """Returns the range of all numbers with as many bits; None for negative ones."""
    return None if number is None or number < 0 else _of_length(number)


def _of_length(number: int) -> Range:
    """Returns the range of all numbers that are not negative and have as many bits."""
    bits = number.bit_length()
    return 1 << bits >> 1, (1 << bits) - 1


def divisions(function: FuncOp) -> Iterator[Any]:
    """Yields the signed divisions of blocks, in the order of the text."""
    return (op for op in function.walk() if op.name in _DIVISIONS and is_tensor(op.results[0].type))
