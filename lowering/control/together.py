"""Finds loops that need nothing of each other, such as the two directions of a recurrent layer: hosts may run them at once.

An iteration of such a loop is often too short for several threads to share, and two loops are work for two threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...promotion.dataclass import dataclass
from ..nest import Buffer, Nest
from .steps import Branch, Launches, Loop, Step, Together, inner_steps

_Key = tuple[str, int]
_Behind = Mapping[int, tuple[Buffer, ...]]


@dataclass(frozen=True, slots=True)
class _Effects:
    """The buffers that steps read and write, themselves or behind variables."""

    read: frozenset[_Key]
    written: frozenset[_Key]

    def disturbs(self, other: _Effects) -> bool:
        return bool(self.written & (other.read | other.written))


def together(steps: Sequence[Step], nests: Sequence[Nest]) -> tuple[Step, ...]:
    """Return steps in which neighbours that are independent loops are one step, here and in regions."""
    return _together(steps, nests, dict(_variables(steps)))


def _together(steps: Sequence[Step], nests: Sequence[Nest], behind: _Behind) -> tuple[Step, ...]:
    found: list[Step] = []
    run: list[tuple[Loop, _Effects]] = []

    def close() -> None:
        loops = [loop for loop, _ in run]
        found.extend([Together(tuple([(loop,) for loop in loops]))] if len(loops) > 1 else loops)
        run.clear()

    for step in steps:
        match step:
            case Loop():
                body, condition = (_together(inner, nests, behind) for inner in (step.body, step.condition))
                step = replace(step, body=body, condition=condition)
            case Branch():
                then, otherwise = (_together(inner, nests, behind) for inner in (step.then, step.otherwise))
                step = replace(step, then=then, otherwise=otherwise)
        if not isinstance(step, Loop) or step.is_unbounded or step.condition:
            close()
            found.append(step)
            continue
        effects = _effects([step], nests, behind)
        if any(effects.disturbs(other) or other.disturbs(effects) for _, other in run):
            close()
        run.append((step, effects))
    close()
    return tuple(found)


def in_order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return steps of which none run at once."""
    found: list[Step] = []
    for step in steps:
        match step:
            case Together():
                found += [each for part in step.parts for each in in_order(part)]
            case Loop():
                found.append(replace(step, body=in_order(step.body), condition=in_order(step.condition)))
            case Branch():
                found.append(replace(step, then=in_order(step.then), otherwise=in_order(step.otherwise)))
            case _:
                found.append(step)
    return tuple(found)


def _variables(steps: Sequence[Step]) -> Iterator[tuple[int, tuple[Buffer, ...]]]:
    """Yield what each variable may point to, in its loop and after it."""
    for step in steps:
        if isinstance(step, Loop):
            for carried in step.carried:
                yield carried.now.index, (carried.begin, *carried.memory)
                for variable in (carried.following, carried.spare):
                    if variable is not None:
                        yield variable.index, carried.memory
            for each in step.slices:
                yield each.row.index, (each.whole,)
        for inner in inner_steps(step):
            yield from _variables(inner)


def _effects(steps: Sequence[Step], nests: Sequence[Nest], behind: _Behind) -> _Effects:
    """Return what steps read and write. behind: what variables may point to."""
    read, written = set[_Key](), set[_Key]()

    def memory(buffers: Iterable[Buffer | None]) -> set[_Key]:
        found = set[_Key]()
        for buffer in buffers:
            if buffer is not None and buffer.kind == "variable":
                found |= memory(behind[buffer.index])
            elif buffer is not None:
                found.add((buffer.kind, buffer.index))
        return found

    for step in steps:
        match step:
            case Launches():
                for nest in nests[step.first : step.last]:
                    read |= memory([load.attrs["buffer"] for load in nest.loads])
                    written |= memory([store.buffer for store in nest.stores])
            case Loop():
                read |= memory([step.limit, step.asked, *[each.positions for each in step.slices]])
                read |= memory([carried.begin for carried in step.carried])
                written |= memory([step.index, step.count])
            case Branch():
                read |= memory([step.condition])
                written |= memory([step.number])
        for inner in inner_steps(step):
            effects = _effects(inner, nests, behind)
            read |= effects.read
            written |= effects.written
    return _Effects(frozenset(read), frozenset(written))
