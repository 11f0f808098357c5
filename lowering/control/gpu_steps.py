"""Turns the steps of a plan into data that a GPU's driver runs, and finds what is known of addresses that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd

from ...promotion.errors import InternalError
from ..artifact import GpuBranch, GpuCarried, GpuLoop, GpuSection, GpuSlice, GpuStep, Location
from ..nest import Buffer, Extent, size_text
from ..program import Launch
from ..schedule.extents import exact_quotient
from .steps import Branch, Carried, Launches, Loop, Slice, Step, Together, inner_steps


def gpu_steps(steps: Sequence[Step], launches: Sequence[Launch]) -> tuple[GpuStep, ...]:
    """Return steps as data. Numbers that the driver writes and nothing reads are left out: each is a copy to the device."""
    read = {(buffer.kind, buffer.index) for launch in launches for buffer in launch.buffers}
    read |= {(buffer.kind, buffer.index) for buffer in _read_by_steps(steps)}

    def written(buffer: Buffer | None) -> Location | None:
        return None if buffer is None or (buffer.kind, buffer.index) not in read else (buffer.kind, buffer.index)

    return tuple([_gpu_step(step, written) for step in steps])


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for inner in inner_steps(step):
            yield from _all_steps(inner)


def _read_by_steps(steps: Sequence[Step]) -> Iterator[Buffer]:
    """Yield what the driver reads, or gives another address to."""
    for step in _all_steps(steps):
        match step:
            case Loop():
                yield from [buffer for buffer in (step.limit, step.asked) if buffer is not None]
                yield from [carried.begin for carried in step.carried]
                yield from [each.whole for each in step.slices]
                yield from [each.positions for each in step.slices if each.positions is not None]
            case Branch():
                yield step.condition


def _gpu_step(step: Step, written: Callable[[Buffer | None], Location | None]) -> GpuStep:
    inner = [tuple([_gpu_step(each, written) for each in steps]) for steps in inner_steps(step)]
    match step:
        case Launches():
            return GpuSection(step.first, step.last)
        case Branch():
            return GpuBranch(_location(step.condition), inner[0], inner[1], written(step.number))
        case Together():
            raise InternalError("GPU lowering: steps that run at once; a GPU takes them in order")
    condition, body = inner
    return GpuLoop(
        body, tuple(map(_carried, step.carried)), tuple(map(_slice, step.slices)), size_text(step.length),
        None if step.limit is None else _location(step.limit), condition,
        None if step.asked is None else _location(step.asked), written(step.index), written(step.count), step.reverse,
    )  # fmt: skip


def _location(buffer: Buffer) -> Location:
    return buffer.kind, buffer.index


def _carried(carried: Carried) -> GpuCarried:
    following, spare = (-1 if each is None else each.index for each in (carried.following, carried.spare))
    return GpuCarried(
        _location(carried.begin), carried.now.index, following, spare, tuple(map(_location, carried.memory))
    )


def _slice(each: Slice) -> GpuSlice:
    positions = None if each.positions is None else _location(each.positions)
    bits = 64 if each.positions is None else each.positions.dtype.bits
    return GpuSlice(_location(each.whole), each.row.index, size_text(each.nbytes), positions, size_text(each.count), bits)


# -- addresses that change ---------------------------------------------------------------------------------------------


def variable_alignments(steps: Sequence[Step], alignment: int) -> dict[int, int]:
    """Return, for each variable, a power of two that divides all its addresses, if `alignment` divides those of arrays."""
    found: dict[int, int] = {}

    def of(buffer: Buffer) -> int:
        return found[buffer.index] if buffer.kind == "variable" else alignment

    for step in _all_steps(steps):  # a loop before what is inside it
        if isinstance(step, Loop):
            for carried in step.carried:
                found[carried.now.index] = of(carried.begin)
                for each in (carried.following, carried.spare):
                    if each is not None:
                        found[each.index] = alignment
            for row in step.slices:
                found[row.row.index] = gcd(of(row.whole), _power_of_two(row.nbytes, alignment))
    return found


def _power_of_two(nbytes: Extent, most: int) -> int:
    """Return the greatest power of two up to `most` that divides a size whatever its dims are."""
    while most > 1 and exact_quotient(nbytes, most) is None:
        most //= 2
    return most
