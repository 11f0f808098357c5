"""Linear functions of a thread's lane and warp: the data of which every plan is made."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dataclass import dataclass
from .f2 import Span, combine, parity
from .layout import REGISTER, LinearLayout


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """The XOR of `constant`, of `lane[i]` for each set bit i of the lane and of `warp[i]` for each set bit of the warp."""

    constant: int = 0
    lane: tuple[int, ...] = ()
    warp: tuple[int, ...] = ()

    def at(self, lane: int, warp: int = 0) -> int:
        return self.constant ^ combine(self.lane, lane) ^ combine(self.warp, warp)

    def shifted(self, constant: int) -> ThreadMap:
        return ThreadMap(self.constant ^ constant, self.lane, self.warp)

    @property
    def is_constant(self) -> bool:
        return not any(self.lane) and not any(self.warp)

    @property
    def thread_bits(self) -> int:
        """The bits that differ between threads. A constant without any of them can be added instead of XORed."""
        found = 0
        for each in (*self.lane, *self.warp):
            found |= each
        return found


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds where the parity of the register index, lane and warp under the masks is `value`."""

    value: int = 0
    register: int = 0
    lane: int = 0
    warp: int = 0

    def holds(self, register: int, lane: int, warp: int = 0) -> bool:
        found = parity(self.register & register) ^ parity(self.lane & lane) ^ parity(self.warp & warp)
        return found == self.value


@dataclass(frozen=True, slots=True)
class ThreadPredicate:
    """The threads that act: those with none of these lane and warp bits set."""

    lane: int = 0
    warp: int = 0

    def holds(self, lane: int, warp: int = 0) -> bool:
        return not (lane & self.lane or warp & self.warp)


def table(columns: Sequence[int], constant: int = 0) -> tuple[int, ...]:
    """Returns constant ^ combine(columns, x) for every x."""
    found = [constant]
    for column in columns:
        found += [each ^ column for each in found]
    return tuple(found)


def expand_unique(layout: LinearLayout) -> tuple[int, ...]:
    """Maps a register index in `layout.unique_registers()` to the index of the same value in `layout`."""
    span = Span()
    return table([1 << bit for bit, each in enumerate(layout[REGISTER]) if span.add(each)])


def to_unique(layout: LinearLayout) -> tuple[int, ...]:
    """Maps a register index in `layout` to the index of the same value in `layout.unique_registers()`."""
    span = Span(layout.unique_registers()[REGISTER])
    return table([found for each in layout[REGISTER] if (found := span.solve(each)) is not None])
