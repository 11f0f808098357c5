"""What the instrumentation of a launch depends on, and the memory that it adds to the parameters of a function."""

from __future__ import annotations

from dataclasses import field

from ....promotion.dataclass import dataclass
from ..analysis.alias_sets import Groups
from ..dialect.functions import FuncOp

NUMBER_SHIFT, LANE_BITS, SHAPE_BITS, EPOCH_BITS = 27, 20, 3, 4
"""A stamp is an i64: the number of a program from bit 27 on; below it, of a lane that a barrier concerns, the number of
barriers that the program has passed (4 bits), of the block's shape (3 bits), and of the lane (20 bits)."""
NOT_WRITTEN = -1
"""The stamp of an element that nothing has written."""
FIRST_NUMBER = 1
MAX_NUMBER = 1 << (63 - NUMBER_SHIFT)
"""The numbers of programs lie below it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The facts about launches that a variant of instrumented code is made for.

    groups: parameters that share memory.  unwritten: groups (parameters that share no memory are groups of their own) of whose
    memory nothing has written a part.  wraps: positions in the function, as it is walked, of integer operations that may wrap
    around on the way to an address.  needs_barriers, undefined_arithmetic: as for `sanitize`.  apart: whether it is proven that
    no two programs, and no two lanes of a store, race.
    """

    groups: Groups = ()
    unwritten: frozenset[int] = frozenset()
    wraps: tuple[int, ...] = ()
    needs_barriers: bool = False
    undefined_arithmetic: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A function with checks, and what its launches pass behind its own parameters, in this order.

    floor (i64): the least stamp of this launch, less than that of its first program; a multiple of `1 << NUMBER_SHIFT`.
    epochs: whether a pointer to an i32 of 0 for each program comes next.
    stamps: the parameters, in order, for each of which a pointer follows, to an i64 stamp for each element from the parameter's
        address on: of the program that wrote it last.
    readers: those of them after which an i64 follows: how many elements behind its stamps the stamps of its readers lie.
    """

    function: FuncOp
    epochs: bool
    stamps: tuple[int, ...]
    readers: frozenset[int] = field(default_factory=frozenset)


__all__ = [
    "EPOCH_BITS", "FIRST_NUMBER", "LANE_BITS", "MAX_NUMBER", "NOT_WRITTEN", "NUMBER_SHIFT", "SHAPE_BITS", "Instrumented",
    "Plan",
]  # fmt: skip
