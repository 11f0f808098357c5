"""Defines the steps of a plan with loops and branches: what the driver does beside launching kernels in order.

Addresses that change while a plan runs lie in *variables* of the driver: a `Buffer` of kind "variable" is whatever memory its
variable points to (docs/design/019-control-flow.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...promotion.dataclass import dataclass
from ..nest import Buffer, Extent


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernels number `first` to `last - 1` of the plan, in order."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a loop carries.

    Attributes:
        begin: what it is before the first iteration.
        now, following: variables: what an iteration reads, and where it writes what the next one reads. No `following`: the
            value does not change.
        spare: a variable that holds the memory for the iteration after the next.
        memory: two temporaries, which iterations write in turn.
    """

    begin: Buffer
    now: Buffer
    following: Buffer | None = None
    spare: Buffer | None = None
    memory: tuple[Buffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """A row of a tensor that each iteration reads or writes where it lies.

    Attributes:
        row: a variable.
        nbytes: of one row.
        positions: which row each iteration reads, int32 or int64; None: row i in iteration i. Positions below 0 count from the
            end, and those out of range are clamped, as `gather` does it.
        count: how many rows there are, 1 or more; with positions alone.
    """

    whole: Buffer
    row: Buffer
    nbytes: Extent
    positions: Buffer | None = None
    count: Extent = 1


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop.

    Attributes:
        length: how often it runs at most, or -1.
        limit: an int64 scalar, how often it runs at most, or None.
        condition, asked: steps that compute a bool scalar, and that scalar; None where there is no condition.
        index: an int64 scalar that the driver writes for each iteration.
        count: where the number of iterations goes, if somebody reads it.
        reverse: whether slices are taken from the end.
        line: the user's line.
    """

    body: tuple[Step, ...]
    carried: tuple[Carried, ...]
    slices: tuple[Slice, ...]
    length: Extent
    limit: Buffer | None
    condition: tuple[Step, ...]
    asked: Buffer | None
    index: Buffer
    count: Buffer | None
    reverse: bool
    line: str

    @property
    def is_unbounded(self) -> bool:
        """Whether values decide how often it runs."""
        return isinstance(self.length, int) and self.length < 0


@dataclass(frozen=True, slots=True)
class Branch:
    """Steps of which one condition, a bool scalar, chooses. number: where the number of the region that ran goes, or None."""

    condition: Buffer
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    number: Buffer | None
    line: str


@dataclass(frozen=True, slots=True)
class Together:
    """Parts that need nothing of each other: they may run in any order, or at once."""

    parts: tuple[tuple[Step, ...], ...]


Step: TypeAlias = "Launches | Loop | Branch | Together"


def inner_steps(step: Step) -> tuple[tuple[Step, ...], ...]:
    """Return the sequences of steps inside a step."""
    match step:
        case Loop():
            return step.condition, step.body
        case Branch():
            return step.then, step.otherwise
        case Together():
            return step.parts
    return ()


def with_constants(steps: Sequence[Step], moved: Callable[[Buffer], Buffer]) -> tuple[Step, ...]:
    """Return steps that read rows of other constants."""

    def constant(each: Slice) -> Slice:
        return replace(each, whole=moved(each.whole)) if each.whole.kind == "constant" else each

    found: list[Step] = []
    for step in steps:
        match step:
            case Loop():
                body, condition = with_constants(step.body, moved), with_constants(step.condition, moved)
                step = replace(step, body=body, condition=condition, slices=tuple([constant(each) for each in step.slices]))
            case Branch():
                step = replace(step, then=with_constants(step.then, moved), otherwise=with_constants(step.otherwise, moved))
            case Together():
                step = Together(tuple([with_constants(part, moved) for part in step.parts]))
        found.append(step)
    return tuple(found)


def steps_text(steps: tuple[Step, ...], indent: str = "  ") -> list[str]:
    """Return the steps as lines."""
    lines = []
    for step in steps:
        match step:
            case Launches():
                lines.append(f"{indent}kernels {step.first} to {step.last - 1}")
            case Loop():
                bounds = [str(step.length)] if not step.is_unbounded else []
                bounds += ["as often as a value says"] if step.limit is not None else []
                lines.append(f"{indent}loop {', '.join(bounds)} from {step.line}".replace("loop  ", "loop "))
                if step.asked is not None:
                    lines += [f"{indent}while", *steps_text(step.condition, f"{indent}  ")]
                lines += [f"{indent}do", *steps_text(step.body, f"{indent}  ")]
            case Branch():
                lines += [f"{indent}if, from {step.line}", *steps_text(step.then, f"{indent}  ")]
                lines += [f"{indent}else", *steps_text(step.otherwise, f"{indent}  ")]
            case Together():
                for number, part in enumerate(step.parts):
                    lines += [f"{indent}{'and' if number else 'together'}", *steps_text(part, f"{indent}  ")]
    return lines
