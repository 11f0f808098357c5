"""Proves the properties of a prepared function under a specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...promotion.errors import UserError
from ..tt import types as t
from .bounds import Bounds
from .evaluate.values import Pointer, Unknown
from .found import SHOWN, Found, joined
from .launches import Confirm
from .overflow import Overflow
from .preparation import Access, PreparedFunction
from .proof import PROPERTIES, TERMINATION, UNDER, UNKNOWN, AccessVerdict, Proof
from .races import Races
from .specify.expressions import names_in
from .specify.specification import GRID_NAMES, Specification
from .termination import Termination
from .terms.polynomials import TooLarge
from .terms.solver import DEFAULT_LIMIT

_NO_SIZES = "no sizes were found that satisfy the assumptions; fix: simpler assumptions, or small sizes among them"


class Prover:
    """Proves the properties of one function under one specification."""

    def __init__(
        self, prepared: PreparedFunction, specification: Specification, confirm: Confirm | None, limit: int = DEFAULT_LIMIT
    ) -> None:
        """Starts with nothing proven. Raises `UserError` for names that are not there."""
        self.prepared = prepared
        self.specification = specification
        self._parsed = specification.parsed()
        self._check_names()
        self._bounds = Bounds(prepared, specification, self._parsed, confirm, limit)
        self._final: dict[Access, Found] | None = None

    def _check_names(self) -> None:
        arrays, numbers = self.prepared.arrays, self.prepared.numbers
        function = self.prepared.function.sym_name.data
        for name in self._parsed.extents:
            if name not in arrays:
                raise UserError(
                    f"prove: @{function} has no array {name!r}; arrays: {', '.join(arrays) or 'none'}"
                )
        for name in self._parsed.contents():
            if name not in arrays:
                raise UserError(f"prove: @{function} has no array {name!r}; arrays: {', '.join(arrays) or 'none'}")
            pointee = self.prepared.parameters[arrays[name]].type.pointee  # type: ignore[attr-defined]
            if not t.is_integer(pointee) or t.bit_width(pointee) == 1:
                raise UserError(f"prove: {name} holds {pointee}; assumptions about elements are for integers")
        others = {each.name for each in self.prepared.parameters} - set(numbers)
        named = {name for axis in self._parsed.grid for name in names_in(axis)}
        for name in sorted(named & set(GRID_NAMES) & set(numbers)):
            raise UserError(
                f"prove: {name} is a parameter of @{function}, and no number of programs; fix: another name in the grid, which "
                f"stands for any number"
            )
        for name in self._parsed.names():
            if name in others:
                raise UserError(f"prove: {name!r} is no integer; numbers: {', '.join(numbers) or 'none'}, and new names")

    def prove(self, properties: Sequence[str]) -> Proof:
        """Returns the verdicts. Raises `UserError` for assumptions that contradict each other."""
        try:
            world = self._bounds.world()
        except (TooLarge, RecursionError):
            raise UserError(f"prove: the specification is too long:\n{self.specification}\nfix: shorter expressions") from None
        if world.solver.is_impossible(*world.base):
            raise UserError(
                f"prove: the assumptions contradict each other, and everything would follow:\n{self.specification}\n"
                "fix: take out one of them; extents are 0 or more, and a grid has at most 2**31 - 1 programs along an axis"
            )
        example = self._bounds.launches.sizes(world, [])
        self._check_contents()
        found: list[AccessVerdict] = []
        for prop in properties:
            if prop == TERMINATION:
                loops = Termination(self._bounds).verdicts()
                if example is None:
                    loops = [replace(each, verdict=UNKNOWN, condition=(), reason=_NO_SIZES) for each in loops]
                found += loops
                continue
            own = self._of_property(prop)
            if example is None:
                own = {access: Found(UNKNOWN, reason=_NO_SIZES) for access in own}
            found += [self._verdict(prop, access, each) for access, each in own.items()]
        return Proof(
            self.prepared.function.sym_name.data, self.specification, tuple(properties), tuple(found),
            tuple([*self.specification.assume, *world.promises]), tuple(sorted((example or {}).items())),
            sum(each.solver.asked for each in self._bounds.worlds.values()),
            sum(each.solver.steps for each in self._bounds.worlds.values()),
        )  # fmt: skip

    def _verdict(self, prop: str, access: Access, found: Found) -> AccessVerdict:
        return AccessVerdict(
            prop, access.line, access.op.name, self._bounds.array(access), found.verdict, found.level.texts, found.reason,
            found.counterexample,
        )  # fmt: skip

    def _of_property(self, prop: str) -> dict[Access, Found]:
        match prop:
            case "bounds":
                return self._final_bounds()
            case "races":
                return self._relying(Races(self._bounds, self._final_bounds()).verdicts(), self._final_bounds())
            case _:
                return self._relying(Overflow(self._bounds).verdicts(), self._final_bounds())

    def _final_bounds(self) -> dict[Access, Found]:
        """Returns the verdicts on bounds, as far as the loads that they rely on are inside their arrays."""
        if self._final is None:
            found = {access: self._bounds.bounds_of(access) for access in self.prepared.accesses}
            self._final = self._relying(found, found)
        return self._final

    def _relying(self, found: dict[Access, Found], bounds: dict[Access, Found]) -> dict[Access, Found]:
        """Returns verdicts in which those that rely on contents of arrays are no better than what keeps these as they are.

        The loads must be inside their arrays, and so must everything that writes: it may change the contents otherwise.
        """
        writers = [access for access in self.prepared.accesses if access.writes]
        changed = True
        while changed:
            changed = False
            for access, own in found.items():
                if own.verdict not in SHOWN or not own.reads:
                    continue
                level = own.level
                for other in (*own.reads, *writers):
                    if bounds[other].verdict not in SHOWN:
                        what = "the load" if other in own.reads else "contents that may be overwritten by the store"
                        reason = f"it relies on {what} at {other.line}, which is not proven to be inside its array"
                        found[access] = Found(UNKNOWN, reason=reason)
                        changed = True
                        break
                    level = joined(level, bounds[other].level)
                else:
                    if level.texts != own.level.texts:
                        found[access] = Found(UNDER, level, own.wrapping, reads=own.reads)
                        changed = True
        return found

    # Launches

    def _check_contents(self) -> None:
        """Refuses assumptions about contents of arrays that the kernel writes: they would not hold for long."""
        for name in self._parsed.contents():
            position = self.prepared.arrays[name]
            for access in self.prepared.accesses:
                pointer = self._bounds.pointer(access)
                if access.writes and (isinstance(pointer, Unknown) or pointer.base == position):
                    where = "there" if isinstance(pointer, Pointer) else "to an address that is not known"
                    raise UserError(
                        f"prove: the assumption about elements of {name} may not last: {access.op.name} at {access.line} "
                        f"writes {where}; fix: leave it out"
                    )


def written_arrays(prepared: PreparedFunction) -> frozenset[str] | None:
    """Returns the parameters whose arrays are written; None if a write may lead into any of them."""
    parsed = Specification.of((), {}, None, [each.name for each in prepared.parameters]).parsed()
    bounds = Bounds(prepared, Specification((), (), ("1", "1", "1")), parsed, None, DEFAULT_LIMIT)
    found = set()
    for access in prepared.accesses:
        if access.writes:
            pointer = bounds.pointer(access)
            if isinstance(pointer, Unknown):
                return None
            found.add(prepared.parameters[pointer.base].name)
    return frozenset(found)


__all__ = ["PROPERTIES", "Confirm", "Prover", "written_arrays"]
