"""Proves the properties of a prepared function under a specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...promotion.errors import UserError
from ..tt import types as t
from .bounds import Bounds, Live
from .evaluate.values import Pointer, Unknown
from .found import SHOWN, Found, joined, shown
from .initialised.verdicts import Initialised
from .launches import Confirm
from .order.verdicts import Order
from .overflow import Overflow
from .preparation import Access, PreparedFunction, ambiguous, renamed
from .proof import (
    INITIALISED,
    NEVER,
    ORDER,
    PROPERTIES,
    REFUTED,
    TERMINATION,
    UNKNOWN,
    AccessVerdict,
    Counterexample,
    Proof,
)
from .races.locks import keeps_range
from .races.verdicts import Races
from .specify.expressions import Expression, Number, arrays_in, doubtful_divisor, names_in
from .specify.names import mistaken, nearest
from .specify.remarks import fixed
from .specify.single_values import SingleValues
from .specify.specification import GRID_NAMES, Specification
from .termination import Termination
from .terms.formulas import at_least
from .terms.polynomials import TooLarge
from .terms.solver import DEFAULT_LIMIT
from .world import MAX_BYTES

_NO_SIZES = (
    "no sizes were found that satisfy the assumptions; fix: simpler assumptions, or small sizes among them"
)
_OTHERS: Mapping[str, Callable[[Bounds], Races | Overflow | Initialised]] = {
    "races": Races, "overflow": Overflow, INITIALISED: Initialised, ORDER: Order,
}  # fmt: skip
"""What finds the verdicts of properties, which are asked after bounds."""


class Prover:
    """Proves the properties of one function under one specification."""

    def __init__(
        self,
        prepared: PreparedFunction,
        specification: Specification,
        confirm: Confirm | None,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """Starts with nothing proven. Raises `UserError` for names that are not there."""
        self.prepared = prepared
        self.specification = specification
        self._parsed = specification.parsed()
        self._check_names()
        try:
            self._bounds = Bounds(prepared, specification, self._parsed, confirm, limit)
        except (TooLarge, RecursionError):
            raise UserError(
                f"prove: the specification is too long:\n{specification}\nfix: shorter expressions"
            ) from None

    def _check_names(self) -> None:
        arrays, numbers = self.prepared.arrays, self.prepared.numbers
        function = self.prepared.function.sym_name.data
        for name in (*self._parsed.extents, *self._parsed.contents(), *self._parsed.starts()):
            if name not in arrays:
                near = nearest(name, arrays)
                fix = f"; fix: {near!r}" if near else ""
                raise UserError(f"prove: @{function} has no array {name!r}; arrays: {', '.join(arrays) or 'none'}{fix}")
        for name in (*self._parsed.contents(), *self._parsed.starts()):
            pointee = t.pointee(self.prepared.parameters[arrays[name]].type)
            if not t.is_integer(pointee) or t.bit_width(pointee) == 1:
                raise UserError(f"prove: {name} holds {pointee}; assumptions about elements are for integers")
        for name in self._parsed.starts().keys() & self._parsed.contents().keys():
            raise UserError(
                f"prove: what elements of {name} are at launch and what they always are is assumed; fix: one of the two"
            )
        for name, size in self._parsed.points().items():
            divisor = doubtful_divisor(size)
            if divisor is not None:
                raise UserError(
                    f"prove: points({name}[:], ...) divides by {divisor}[:], which may be 0 or less; "
                    f"fix: a divisor such as max({divisor}[:], 1)"
                )
            if isinstance(size, Number) and size.value > MAX_BYTES:
                raise UserError(f"prove: points({name}[:], ...): no array has {size.value} bytes; fix: 2**63 - 1 at most")
            if t.bit_width(t.pointee(self.prepared.parameters[arrays[name]].type)) != 64:
                raise UserError(f"prove: the elements of {name} are no addresses, which have 64 bits")
            for each in (name, *arrays_in(size)):
                if each not in self._parsed.extents or self.prepared.parameters[arrays[each]].rank:
                    fix = f"fix: extents={{{each!r}: 'n'}}"
                    raise UserError(f"prove: points({name}[:], ...) is about {each}, of which no extent is said; {fix}")
        others = {each.name for each in self.prepared.parameters} - set(numbers)
        named = {name for axis in self._parsed.grid for name in names_in(axis)}
        for name in sorted(named & set(GRID_NAMES) & set(numbers)):
            raise UserError(
                f"prove: {name} is a parameter of @{function}, and no number of programs; fix: another name in the grid, which "
                f"stands for any number"
            )
        for name in self._parsed.names():
            if name in others:
                raise UserError(
                    f"prove: {name!r} is no integer; numbers: {', '.join(numbers) or 'none'}, and new names"
                )
            if name not in numbers and ambiguous(self.prepared.original, name):
                meant = "".join([f"; {each}" for each in renamed(self.prepared.original, name)])
                raise UserError(
                    f"prove: which parameter of @{function} {name!r} is, is not known, as texts are read without the numbers "
                    f"at the end of names; numbers: {', '.join(numbers) or 'none'}{meant}; fix: one of these, or a new name "
                    "that is like no other"
                )
        if (fault := mistaken(self._parsed, tuple(numbers))) is not None:
            raise UserError(f"prove: {fault}; numbers of @{function}: {', '.join(numbers) or 'none'}")

    def prove(self, properties: Sequence[str]) -> Proof:
        """Returns the verdicts. Raises `UserError` for assumptions that contradict each other."""
        world = self._bounds.world
        if world.solver.is_impossible(*world.base):
            raise UserError(
                f"prove: the assumptions contradict each other, and everything would follow:\n{self.specification}\n"
                "fix: take out one of them; extents are 0 or more, and a grid has at most 2**31 - 1 programs along an axis"
            )
        for name in world.without_numbers():
            bits = t.bit_width(t.pointee(self.prepared.parameters[self.prepared.arrays[name]].type))
            raise UserError(
                f"prove: the assumptions about elements of {name} are true of no number of {bits} bits, so it could have none; "
                "fix: take out one of them"
            )
        for name in self._parsed.points():
            if world.is_beyond_memory(name):
                raise UserError(
                    f"prove: points({name}[:], ...): no array has so many bytes as are said there; fix: 2**63 - 1 at most for "
                    "all elements that the assumptions allow"
                )
        programs = [at_least(axis, 1) for axis in world.grid]  # a launch without any shows less
        example = self._bounds.launches.sizes(world, programs)
        if example is None:
            example = self._bounds.launches.sizes(world, [])
        self._bounds.examples += [] if example is None else [example]
        self._check_contents()
        bounds = {access: self._bounds.bounds_of(access) for access in self.prepared.accesses}
        by_property: dict[str, list[tuple[AccessVerdict, Found, Live]]] = {}
        for prop in PROPERTIES:  # in one order, as they share what the solver may take
            if prop not in properties:
                continue
            if prop == TERMINATION:
                loops = Termination(self._bounds)
                by_property[prop] = [
                    (each, Found(each.verdict, each.condition, each.reason), partial(loops.live, op))
                    for op, each in loops.verdicts()
                ]  # fmt: skip
                continue
            own = bounds
            if prop != "bounds":
                own = _OTHERS[prop](self._bounds).verdicts()
            by_property[prop] = [
                (self._verdict(prop, access, each), each, partial(self._bounds.live, access)) for access, each in own.items()
            ]  # fmt: skip
        found = [each for prop in properties for each in by_property[prop]]
        weakened = self._relying(bounds) if world.uses_contents else None
        if example is None:
            weakened = Found(UNKNOWN, reason=_NO_SIZES)
        verdicts = [(each if weakened is None else _weakened(each, own, weakened), live) for each, own, live in found]
        said = [self._possible(each, live) for each, live in verdicts]
        return Proof(
            self.prepared.function.sym_name.data, self.specification, tuple(properties),
            tuple(said),
            tuple([*self.specification.assume, *renamed(self.prepared.original), *world.promises]),
            tuple(sorted((example or {}).items())),
            world.solver.asked, world.solver.steps, fixed=self._fixed(example),
        )  # fmt: skip

    def _fixed(self, example: Mapping[str, int] | None) -> tuple[str, ...]:
        """Returns the sizes that have one value. example: sizes that satisfy the assumptions."""
        if example is None:
            return fixed(self.specification, axes=self.prepared.asked_axes)
        world = self._bounds.world
        values = SingleValues(world.solver, world.base, world.symbols, self._parsed.holds, example)

        def single(sizes: Sequence[Expression]) -> Mapping[Expression, int]:
            return values.of({each: world.size(each) for each in sizes})

        return fixed(self.specification, single, self.prepared.asked_axes)

    def _verdict(self, prop: str, access: Access, found: Found) -> AccessVerdict:
        example = found.counterexample
        reason = self._unsigned(example) if found.verdict == REFUTED and example is not None else found.reason
        return AccessVerdict(
            prop, access.line, access.op.name, self._bounds.array(access), found.verdict, found.level, reason, example
        )

    def _unsigned(self, example: Counterexample) -> str:
        """Returns which elements of a launch are no signed numbers, and what excludes them; "" if there are none."""
        ranges = self._parsed.ranges_of_contents(dict(example.sizes))
        arrays, fixes = [], []
        for name, value in example.contents:
            bits = t.bit_width(t.pointee(self.prepared.parameters[self.prepared.arrays[name]].type))
            if value >= 1 << (bits - 1):
                low, _ = ranges.get(name, (None, None))
                arrays.append(name)
                fixes.append(f"{'' if low is not None and low < 0 else '0 <= '}{name}[:] < 2**{bits - 1}")
        if not arrays:
            return ""
        return (
            f"whether elements of {' and '.join(arrays)} are signed the kernel does not say, and those of this launch are not; "
            f"fix, if they are: assume={fixes!r}"
        )

    def _possible(self, verdict: AccessVerdict, live: Live) -> AccessVerdict:
        """Returns a verdict; unknown if it holds under conditions, for example those of several accesses, that leave nothing.

        live: what says that an access is executed, which some launch must do for which the conditions hold.
        """
        if verdict.verdict not in SHOWN or self._bounds.is_executed(live, verdict.condition):
            return verdict
        return replace(verdict, verdict=UNKNOWN, condition=(), reason=self._bounds.says_nothing(verdict.condition))

    def _relying(self, bounds: dict[Access, Found]) -> Found:
        """Returns how much may be said where what arrays hold was used: no more than that they keep holding it.

        The first access in time that leaves its array is one before which they did. So if each stays inside as long as they
        do, all do. What is read must be an element, and nothing may be written elsewhere.
        """
        level = joined(*[found.level for found in bounds.values()])
        for access, found in bounds.items():
            if found.verdict not in SHOWN and not access.is_gather:
                where = f"{access.op.name} at {access.line}"
                reason = f"it relies on what arrays hold, and {where} is not proven to stay inside its own"
                return Found(UNKNOWN, reason=reason)
        return shown(level)

    # Launches

    def _check_contents(self) -> None:
        """Refuses assumptions about contents of arrays that the kernel writes: they would not hold for long."""
        for name in self._parsed.contents():
            position = self.prepared.arrays[name]
            for access in self.prepared.accesses:
                pointer = self._bounds.pointer(access)
                is_known = isinstance(pointer, Pointer)
                if is_known and access.is_atomic and keeps_range(self._bounds.world, position, access):
                    continue
                if access.writes and (isinstance(pointer, Unknown) or pointer.base == position):
                    where = "there" if isinstance(pointer, Pointer) else "to an address that is not known"
                    raise UserError(
                        f"prove: the assumption about elements of {name} may not last: {access.op.name} at {access.line} "
                        f"writes {where}; fix: leave it out"
                    )


def _weakened(verdict: AccessVerdict, own: Found, least: Found) -> AccessVerdict:
    """Returns a verdict that says no more than another one."""
    if own.verdict not in SHOWN:
        return verdict
    if least.verdict not in SHOWN:
        return replace(verdict, verdict=least.verdict, condition=(), reason=least.reason)
    level = joined(own.level, least.level)
    if own.verdict == NEVER and not level:
        return verdict
    return replace(verdict, verdict=shown(level).verdict, condition=level)


def written_arrays(prepared: PreparedFunction) -> frozenset[str] | None:
    """Returns the parameters whose arrays are written; None if a write may lead into any of them."""
    specification = Specification((), (), ("1", "1", "1"))
    bounds = Bounds(prepared, specification, specification.parsed(), None, DEFAULT_LIMIT)
    found = set()
    for access in prepared.accesses:
        if access.writes:
            pointer = bounds.pointer(access)
            if isinstance(pointer, Unknown):
                return None
            found.add(prepared.parameters[pointer.base].name)
    return frozenset(found)


__all__ = ["PROPERTIES", "Confirm", "Prover", "written_arrays"]
