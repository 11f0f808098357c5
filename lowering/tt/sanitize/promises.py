"""Compares what a text promises of values (`tl.multiple_of`, `max_contiguous`, `max_constancy`, `assume`) with what they are.

The meaning of a hint is that of `nvptx/analysis/axis_info.py`. Kernels promise of rows that they take modulo an extent that
they are consecutive: that is tolerated where they begin anew between two accesses of 16 bytes, the widest that may rely on it,
and where the axis leads to no consecutive addresses (`reliance.py`), so that no access relies on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from .. import types as t
from ..interpret.machine import Step
from .machine import SanitizedTranslator
from .reliance import widths_along
from .shadow import Frame


@dataclass(frozen=True, slots=True)
class Hints:
    """What is promised of a value: a number for each axis (one for a scalar), () where nothing is."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]


def hints_of(op: Operation) -> Hints | None:
    """Returns what a text promises of the single result of an operation; None for nothing."""
    if len(op.results) != 1 or not (t.is_integer(op.results[0].type) or t.is_pointer(op.results[0].type)):
        return None
    rank = max(1, len(t.shape_of(op.results[0].type)))
    found = Hints(*[_numbers(op, f"tt.{name}", rank) for name in ("contiguity", "divisibility", "constancy")])
    return found if found.contiguity or found.divisibility or found.constancy else None


def _numbers(op: Operation, name: str, rank: int) -> tuple[int, ...]:
    found = op.attributes.get(name)
    numbers = [int(number) for number in found.get_values()] if isinstance(found, DenseIntOrFPElementsAttr) else []
    return tuple(number & -number for number in numbers) if len(numbers) == rank and min(numbers) > 0 else ()


def kept(translation: SanitizedTranslator, op: Operation, hints: Hints, step: Step[Frame]) -> Step[Frame]:
    """Translates an operation with hints: they are compared with its result."""
    guard, result = translation.guard, translation.slot(op.results[0])
    is_pointer, widths = t.is_pointer(op.results[0].type), widths_along(op)
    is_scalar = not t.is_tensor(op.results[0].type)
    unit, name = (max(1, t.bit_width(t.value_type(op.results[0].type)) // 8), "an address") if is_pointer else (1, "a number")

    def run(env: Frame) -> None:
        step(env)
        shadow = env.shadow.get(result)
        values = guard.real_addresses(env[result], shadow) if is_pointer else np.asarray(env[result]).astype(np.int64)
        poison = None if shadow is None or shadow.poison is None else np.broadcast_to(shadow.poison, values.shape)
        unknown = np.zeros(values.shape, np.bool_) if poison is None else np.asarray(poison != 0)
        found = _of_scalars(values, unknown, hints) if is_scalar else faults(values, unknown, hints, unit, widths)
        for kind, lanes, what in found:
            lane = tuple(int(each) for each in lanes[0])
            at = int(values[lane])
            message = f"{name} is promised to be {what}, and is {at}; fix: take the hint out"
            guard.report(kind, op, len(lanes), message, kind, lane)

    return run


def _of_scalars(values: Array, unknown: Array, hints: Hints) -> Iterator[tuple[str, Array, str]]:
    """Yields what `faults` does, for a scalar; in a region it is an array of scalars."""
    divisor = hints.divisibility[0] if hints.divisibility else 1
    broken = (values % divisor != 0) & ~unknown
    if broken.any():
        yield "divisibility", np.argwhere(broken), f"a multiple of {divisor}"


def faults(
    values: Array, unknown: Array, hints: Hints, unit: int, widths: Sequence[int | None]
) -> Iterator[tuple[str, Array, str]]:
    """Yields (kind, lanes, what is promised) of the hints that are not kept. unknown: lanes that may be anything.

    unit: what consecutive values differ by.  widths: elements of the widest access along each axis; None where a promise that
    they are consecutive decides none, and what they begin with then decides nothing either.
    """
    for axis, width in zip(range(values.ndim), widths, strict=True):
        extent = values.shape[axis]
        moved = np.moveaxis(values, axis, -1)
        hidden = np.moveaxis(unknown, axis, -1)
        rises = np.diff(moved, axis=-1)
        wide = width or 1
        wraps = (rises < 0) & (np.arange(1, extent) % wide == 0)

        def lanes(found: Array, axis: int = axis) -> Array:
            return np.argwhere(np.moveaxis(found, -1, axis))

        contiguity = min(hints.contiguity[axis], extent) if hints.contiguity else 1
        inside = np.arange(1, extent) % contiguity != 0
        is_believed = width is not None or contiguity == 1
        if contiguity > 1 and is_believed:
            broken = np.zeros(moved.shape, np.bool_)
            broken[..., 1:] = (rises != unit) & ~wraps & inside & ~hidden[..., 1:] & ~hidden[..., :-1]
            if broken.any():
                yield "contiguity", lanes(broken), f"{unit} more than the one before, in groups of {contiguity}"
        if is_believed and hints.divisibility and (divisor := hints.divisibility[axis]) > 1:
            begins = np.ones(moved.shape, np.bool_)
            begins[..., 1:] = ~inside if contiguity > 1 else rises != unit
            least = np.full(moved.shape, divisor)
            if contiguity > 1:  # a group that begins anew may begin anywhere between two accesses
                anew = np.zeros(moved.shape, np.bool_)
                anew[..., 1:] = wraps & inside
                groups = anew.reshape(*anew.shape[:-1], -1, contiguity).any(-1)
                least = np.where(np.repeat(groups, contiguity, -1), min(divisor, wide * unit), divisor)
            broken = begins & (moved % least != 0) & ~hidden
            if broken.any():
                yield "divisibility", lanes(broken), f"a multiple of {divisor}"
        constancy = min(hints.constancy[axis], extent) if hints.constancy else 1
        if constancy > 1:
            broken = np.zeros(moved.shape, np.bool_)
            broken[..., 1:] = (rises != 0) & (np.arange(1, extent) % constancy != 0) & ~hidden[..., 1:] & ~hidden[..., :-1]
            if broken.any():
                yield "constancy", lanes(broken), f"the same in groups of {constancy}"


def assumed(translation: SanitizedTranslator, op: Operation) -> Step[Frame]:
    """Translates llvm.intr.assume, whose condition has to hold."""
    guard, condition = translation.guard, translation.slot(op.operands[0])

    def run(env: Frame) -> None:
        if not guard.undefined(op, "the assumption", env.shadow.get(condition)) and not np.all(env[condition]):
            known = [(each, env[slot]) for each, slot in operands if np.ndim(env[slot]) == 0]
            values = ", ".join(f"{each} = {int(value)}" for each, value in known)
            message = f"the assumption does not hold{f': {values}' if values else ''}; fix: take it out, or make it true"
            guard.report("assumption", op, 1, message)

    owner = op.operands[0].owner
    given = owner.operands if isinstance(owner, Operation) and owner.name == "arith.cmpi" else ()
    operands = [(f"%{each.name_hint}" if each.name_hint else "an operand", translation.slot(each)) for each in given]
    return run


__all__ = ["Hints", "assumed", "faults", "hints_of", "kept"]
