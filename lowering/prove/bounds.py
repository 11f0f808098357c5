"""Proves that accesses stay inside their arrays, at multiples of their size.

A verdict is sought without a condition first, then under conditions on sizes, the weakest first. What remains is looked for in
launches with small sizes, which are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..tt import types as t
from . import claims
from .evaluate.contexts import NotModelled, bounds_of, context
from .evaluate.values import Pointer, Unknown
from .found import SHOWN, Found, joined, shown
from .launches import Confirm, Launches
from .preparation import Access, PreparedFunction, line_of
from .proof import NEVER, REFUTED, UNKNOWN, Counterexample
from .specify import expressions
from .specify.specification import ParsedSpecification, Specification
from .terms.formulas import Formula, at_least, both, negated
from .terms.polynomials import TooLarge
from .terms.solver import Budget
from .world import ALWAYS, BLOCK, Level, World

Live = Callable[[Level], Formula]
"""What says, under conditions, that an access is executed, or that whatever else has a verdict runs."""

_QUESTIONS = 20
"""Questions that take all steps that they may, before nothing more is asked."""
_STEPS_AN_ACCESS = 75_000
"""And what there is for each access besides, as thousands of easy ones take that."""
_STEPS_A_CLAIM = 1500
"""What a claim counts at least: making its terms takes time, also where the solver is not asked."""
_LIMITS = (
    ((1 << 31) - 1, "2**31 - 1"), ((1 << 31) - (1 << 16), "2**31 - 2**16"), (1 << 30, "2**30"), (1 << 24, "2**24"),
    (1 << 15, "2**15"),
)  # fmt: skip
"""What sizes are at most under conditions, the weakest first."""
_OF_64_BITS = (1 << 48, "2**48")
"""What they are at most where a kernel computes in 64 bits, before these."""
_BELOW_WRAPPING = "2**30"
"""What the end of a loop is at most that is said not to wrap: far enough from 2**31 for usual steps."""
_MAX_LOOSENED = 3
"""Conditions of a verdict of which weaker ones are tried: each takes making everything again."""
_SHARE_OF_WEAKER = 40
"""Of the steps of a proof, this share at most is for weaker conditions: others need the rest."""
_SHARE_OF_LAUNCHES = 10
"""As many steps as this share of a proof's are there besides, for whether conditions leave launches that execute an access."""
_SHARE_OF_EXAMPLES = 40
"""And as many as this share for launches in which numbers wrap."""
_SHARE_OF_SMALL = 10
"""And as many as this share for launches with small sizes that break a property, if terms are others for these."""
_MAX_EXAMPLES, _MAX_ROOM = 3, 2048
"""Sizes that are known to satisfy assumptions, with which a launch that executes an access is looked for first; and the largest
number that all sizes of a new one are to be at least, so that it executes others as well."""
_TOO_LONG = "its address is too long a term"
_SPENT = "all steps that the solver may take for one proof were taken before; fix: a larger limit, or a part of the kernel"
_NOT_RUN = "launches that may refute it were not run, as others had run all operations that they may"


class Bounds:
    """The verdicts on bounds of one function, and the terms of which all properties are asked.

    Attributes:
        world: the terms of the function.
        launches: looks for launches that break a property.
        examples: sizes that satisfy the assumptions.
    """

    def __init__(
        self, prepared: PreparedFunction, specification: Specification, parsed: ParsedSpecification, confirm: Confirm | None,
        limit: int,
    ) -> None:  # fmt: skip
        """Starts with nothing proven."""
        self.prepared = prepared
        self.specification = specification
        self.launches = Launches(prepared, parsed, confirm, self.array)
        steps = _QUESTIONS * limit + len(prepared.accesses) * min(limit, _STEPS_AN_ACCESS)
        self.world = World(prepared, parsed, Budget(limit, steps))
        self._bounds: dict[Access, Found] = {}
        self._pointers: dict[Access, Pointer | Unknown] = {}
        self._levels: dict[int | None, list[Level]] = {}
        self._needed: dict[Level, Level] = {}
        self._executed: dict[tuple[Level, Formula], bool] = {}
        types = [each.type for op in prepared.function.walk() for each in (*op.results, *op.operands)]
        has_64_bits = any(t.is_integer(each) and t.bit_width(each) > 32 for each in types)
        self._limits = (_OF_64_BITS, *_LIMITS) if has_64_bits else _LIMITS
        self._for_weaker = _QUESTIONS * limit // _SHARE_OF_WEAKER
        self._for_launches = Budget(limit, _QUESTIONS * limit // _SHARE_OF_LAUNCHES)
        self._for_small = Budget(limit, _QUESTIONS * limit // _SHARE_OF_SMALL)
        self.examples: list[dict[str, int]] = []

    def steps_besides(self) -> Budget:
        """Returns steps for what no verdict depends on, which take none of those that verdicts need."""
        return Budget(self._for_launches.limit, _QUESTIONS * self._for_launches.limit // _SHARE_OF_EXAMPLES)

    def array(self, access: Access) -> str:
        """Returns the parameter that an access is to; "" if that is not known."""
        pointer = self.pointer(access)
        if not isinstance(pointer, Pointer) or pointer.base == BLOCK:
            return ""
        target = self.world.terms.target_of(pointer.base)
        return f"{self.prepared.parameters[target[0]].name}[:]" if target else self.prepared.parameters[pointer.base].name

    def pointer(self, access: Access) -> Pointer | Unknown:
        """Returns where an access reads or writes, or why that is not known."""
        found = self._pointers.get(access)
        if found is None:
            try:
                found = (
                    Unknown(access.obstacle) if access.obstacle else self.world.access_terms(access).pointer
                )
            except NotModelled as error:
                found = Unknown(error.reason)
            except (TooLarge, RecursionError):
                found = Unknown(_TOO_LONG)
            self._pointers[access] = found
        return found

    def guarded(self, ask: Callable[[], Found]) -> Found:
        """Returns a verdict; unknown where a term outgrows its limits, and where nothing more may be asked."""
        budget = self.world.solver.budget
        if budget.is_spent:
            return Found(UNKNOWN, reason=_SPENT)
        budget.take(_STEPS_A_CLAIM)
        try:
            found = ask()
        except NotModelled as error:
            return Found(UNKNOWN, reason=f"{error.reason} is not modelled")
        except (TooLarge, RecursionError):
            return Found(UNKNOWN, reason=_TOO_LONG)
        if found.verdict == UNKNOWN and budget.is_spent:
            return Found(UNKNOWN, reason=_SPENT)
        if found.verdict == UNKNOWN and self.launches.is_spent:
            return Found(UNKNOWN, reason=f"{found.reason}; {_NOT_RUN}")
        return found

    # Levels

    def levels(self, array: int | None) -> list[Level]:
        """Returns conditions, the weakest first, that are possible at all.

        array: the parameter that is asked about. With the strongest ones products of two sizes have 31 bits.
        """
        found = self._levels.get(array)
        if found is None:
            found = self._levels[array] = self._made_levels(array)
        return found

    def _made_levels(self, array: int | None) -> list[Level]:
        world = self.world
        names = {position: name for name, position in self.prepared.arrays.items()}
        texts = dict(self.specification.extents)
        extents = [
            (texts[names[position]], extent) for position, extent in world.specified.items() if extent.number is None
        ]  # fmt: skip
        own = [(texts[names[array]], world.specified[array])] if array in world.specified else []
        sizes = [*extents, *world.symbols.items()]
        sizes += [
            (text, axis) for text, axis in zip(self.specification.grid, world.grid, strict=True) if axis.number is None
        ]  # fmt: skip
        bounds = [(own, *_LIMITS[0]), (extents, *_LIMITS[0]), *[(sizes, *each) for each in _LIMITS[1:]]]
        if self._limits[0] == _OF_64_BITS:
            bounds.insert(0, (sizes, *_OF_64_BITS))
        found: list[Level] = []
        for parts, limit, text in bounds:
            limited = [
                f"{name} <= {text}" for name, size in parts if not world.terms.fits(size, -limit, limit)
            ]
            level = tuple(dict.fromkeys(limited))
            if (
                level
                and level not in found
                and not world.solver.is_impossible(*world.base, *world.level(level))
            ):
                found.append(level)
        return found

    def live(self, access: Access, level: Level) -> Formula:
        """Returns that an access is executed; of what is none, that its block is. Raises `NotModelled`."""
        if access.obstacle:
            assert access.op.parent is not None
            return context(self.world.run(level), access.op.parent).formula
        return self.world.access_terms(access, level).live

    def is_executed(self, live: Live, level: Level) -> bool:
        """Returns whether a launch is found that satisfies conditions beside the assumptions, and executes something.

        Without any, what is shown under these conditions says nothing.
        """
        if not level:
            return True
        solver, budget = self.world.solver, self.world.solver.budget
        solver.budget = self._for_launches  # verdicts that were found are not lost where all else was spent
        try:
            formula = live(level)
            found = self._executed.get((level, formula))
            if found is None:
                found = self._executed[level, formula] = self._is_executed(formula, level)
            return found
        except (NotModelled, TooLarge, RecursionError):
            return False
        finally:
            solver.budget = budget

    def _is_executed(self, live: Formula, level: Level) -> bool:
        conditions = [expressions.parse_assumption(text) for text in level]
        formulas = [*self.world.level(level), live]
        if self.launches.is_met(formulas, lambda sizes: self.satisfies(sizes, conditions)):
            return True
        near = [each for each in self.examples if self.satisfies(each, conditions)][-_MAX_EXAMPLES:]
        if any(self.launches.is_possible(self.world, formulas, each) for each in near):
            return True
        example = None
        if len(self.examples) > 1:  # one with room serves more accesses
            room = min(_MAX_ROOM, 8 ** len(self.examples))
            free = [size for size in self.world.symbols.values() if size.number is None]
            example = self.launches.sizes(self.world, [*formulas, *[at_least(size, room) for size in free]])
        if example is None:
            example = self.launches.sizes(self.world, formulas)
        if example is None or not self.satisfies(example, conditions):
            return False
        self.examples.append(example)
        return True

    @staticmethod
    def satisfies(example: Mapping[str, int], conditions: Sequence[expressions.Assumption]) -> bool:
        """Returns whether conditions hold of sizes."""
        return all(expressions.holds(each, example) for each in conditions)

    def climb(
        self, array: int | None, holds: Callable[[Level], bool], live: Sequence[Live], least: Level = ALWAYS
    ) -> Found:
        """Returns that a claim holds, under the weakest conditions; unknown if there are none.

        Conditions are those of a verdict only if a launch is found in which they leave something to be said: of `live`, all
        that can be, and one at least. Where there is none, the reason says so.

        Args:
            array: the parameter that the claim is about.
            live: what says that something is executed of which a verdict is sought.
            least: conditions there are anyway.
        """
        if least and self.world.is_impossible(least):
            return Found(UNKNOWN)  # what two accesses need each is never true at once
        if holds(least):
            return self._said(live, least)
        levels = [joined(least, level) for level in self.levels(array)]
        if not levels or not holds(levels[-1]):
            return Found(UNKNOWN)
        first = next(at for at, each in enumerate(levels) if each == levels[-1] or holds(each))
        level = self._loosened(self._alone(self._shortened(levels[first], holds, least), holds, least), holds, least)
        if all(self.is_executed(each, level) for each in live):
            return shown(level)
        for each in levels[first:]:  # what leaves nothing is not needed, perhaps, and was kept in place of other conditions
            rest = joined(least, self._leaving(each, live, least))
            if rest and rest != each and holds(rest):
                return self._said(live, self._loosened(self._shortened(rest, holds, least), holds, least))
        return self._said(live, level)

    def _said(self, live: Sequence[Live], level: Level) -> Found:
        """Returns that something is shown under conditions; unknown if they leave no launch that executes anything."""
        if any(self.is_executed(each, level) for each in live):
            return shown(level)
        return Found(UNKNOWN, reason=self.says_nothing(level))

    def _leaving(self, level: Level, live: Sequence[Live], least: Level) -> Level:
        """Returns those conditions which leave, all together, launches that execute what is to be executed."""
        kept: Level = ()
        for text in level:
            if text in least or all(self.is_executed(each, joined(least, (*kept, text))) for each in live):
                kept = (*kept, text)
        return kept

    def _shortened(self, level: Level, holds: Callable[[Level], bool], least: Level) -> Level:
        """Returns conditions without those that are not needed; bounds of arrays are the last to go."""
        for text in reversed(level):
            fewer = joined(least, tuple([each for each in level if each != text]))
            if text not in least and fewer and holds(fewer):
                level = fewer
        return level

    def needed(self, level: Level) -> Level:
        """Returns conditions without those that follow from others."""
        found = self._needed.get(level)
        if found is None:
            found = level
            for text in reversed(level) if len(level) > 1 else ():
                fewer = tuple([each for each in found if each != text])
                formulas = [*self.world.base, *self.world.level(fewer), negated(both(*self.world.level((text,))))]
                if fewer and self.world.solver.is_impossible(*formulas):
                    found = fewer
            self._needed[level] = found
        return found

    def _alone(self, level: Level, holds: Callable[[Level], bool], least: Level) -> Level:
        """Returns conditions with one on a single size in place of one on a product that it is in, if that does."""
        own = [text for text in level if text not in least]
        if len(own) == 1:
            name, _, most = own[0].rpartition(" <= ")
            for size in expressions.names_in(expressions.parse_size(name, "a size")) if "*" in name else ():
                fewer = joined(least, (f"{size} <= {most}",))
                if size != name and fewer != level and self._holds_weaker(holds, fewer):
                    return fewer
        return level

    def _holds_weaker(self, holds: Callable[[Level], bool], level: Level) -> bool:
        """Returns whether a claim holds under weaker conditions; False where the steps for that are taken."""
        if self._for_weaker <= 0:
            return False
        budget = self.world.solver.budget
        before = budget.left
        found = holds(level)
        self._for_weaker -= before - budget.left
        return found

    def _loosened(self, level: Level, holds: Callable[[Level], bool], least: Level) -> Level:
        """Returns conditions of which single ones are weaker, as far as a claim holds with them."""
        own = [text for text in level if text not in least]
        for text in own if len(own) <= _MAX_LOOSENED else ():
            name, _, most = text.rpartition(" <= ")
            texts = [each for _, each in self._limits]
            for weaker in reversed(texts[: texts.index(most)] if most in texts else texts):
                others = tuple([each for each in level if each != text])
                tried = joined(least, (*others, f"{name} <= {weaker}"))
                if tried == level or not self._holds_weaker(holds, tried):
                    break
                level, text = tried, f"{name} <= {weaker}"
        return level

    # Bounds

    def bounds_of(self, access: Access) -> Found:
        """Returns the verdict on the bounds of an access, as far as loads find what is assumed of contents."""
        found = self._bounds.get(access)
        if found is None:
            found = self._bounds[access] = self.guarded(lambda: self._find_bounds(access))
        return found

    def _find_bounds(self, access: Access) -> Found:
        pointer = self.pointer(access)
        if isinstance(pointer, Unknown):
            return Found(UNKNOWN, reason=f"the address is not known: {pointer.reason}")
        world = self.world
        if (known := self.launches.known("bounds", (access,))) is not None:
            return Found(REFUTED, counterexample=known)
        if claims.is_never_executed(world, access, ALWAYS):
            return Found(NEVER)
        is_target = world.terms.target_of(pointer.base) is not None
        if pointer.base not in world.extents and not is_target and not access.is_gather:
            name = self.array(access)
            return Found(UNKNOWN, reason=f"{name} has no extent; fix: extents={{{name!r}: 'n'}}")

        def holds(level: Level) -> bool:
            return claims.is_inside(world, access, level) and claims.is_aligned(world, access, level)

        found = self.climb(pointer.base, holds, [partial(self.live, access)])
        if found.verdict in SHOWN:
            return found
        if not found.reason and claims.is_inside(world, access, ALWAYS):
            return Found(UNKNOWN, reason=f"its address is not shown to be a multiple of {access.size} bytes")

        def formulas(level: Level) -> list[Formula]:
            terms = world.access_terms(access, level)
            fault = claims.outside(world, access, claims.known(terms.pointer))
            assert fault is not None
            return [terms.live, fault]

        counterexample = self.searched("bounds", (access,), pointer.base, formulas)
        if counterexample is not None:
            return Found(REFUTED, counterexample=counterexample)
        return Found(UNKNOWN, reason=found.reason or self._why(access, pointer))

    def searched(
        self, prop: str, accesses: tuple[Access, ...], array: int | None, formulas: Callable[[Level], Sequence[Formula]]
    ) -> Counterexample | None:
        """Looks for a launch that breaks a property: with terms made for small sizes where they are others, then with any.

        What is any number without conditions, as the counter of a loop that may wrap, is known where sizes are small, so that
        the sanitizer confirms more of what is found. Steps for that are others, so that no verdict becomes unknown by it.

        Args:
            array: the parameter of which conditions there are.
            formulas: says what breaks it, under conditions.
        """
        solver, budget = self.world.solver, self.world.solver.budget
        always = formulas(ALWAYS)
        found = None
        for level in self.levels(array)[-1:]:
            solver.budget = self._for_small
            try:
                small = formulas(level)
                if small != always:
                    found = self.launches.search(self.world, prop, accesses, [*self.world.level(level), *small])
            except (NotModelled, TooLarge, RecursionError):
                pass  # they are too long, or not known, under these conditions alone
            finally:
                solver.budget = budget
        return self.launches.search(self.world, prop, accesses, always) if found is None else found

    def says_nothing(self, level: Level) -> str:
        """Returns the reason why there is no verdict under conditions."""
        condition = " and ".join(level)
        if self._for_launches.is_spent:
            return (
                f"it holds if {condition}, and all steps for finding launches in which that and the assumptions hold were "
                "taken before; fix: a larger limit"
            )
        return f"it holds if {condition}, and no launch was found in which that and the assumptions hold and it is executed"

    def _why(self, access: Access, pointer: Pointer) -> str:
        terms = self.world.terms
        if access.is_gather:
            return f"not shown to be an index of the block: {terms.text(pointer.offset)}"
        arrays = sorted(
            {
                self.prepared.parameters[terms.loaded[atom]].name
                for atom in pointer.offset.atoms
                if atom in terms.loaded
            }
        )
        if arrays:
            return f"the address depends on what is loaded from {', '.join(arrays)}; fix: assume=['0 <= {arrays[0]}[:] < n']"
        counters = self._counters_that_may_wrap(access)
        return f"not shown to be inside: element {terms.text(pointer.offset)} (in bytes){counters}"

    def _counters_that_may_wrap(self, access: Access) -> str:
        """Returns, as the end of a sentence, of which loop around an access the counter may wrap, and what excludes that."""
        world, loop = self.world, access.op.parent_op()
        run = world.run()
        names = {atom: name for name, size in world.symbols.items() for atom in size.atoms}
        while loop is not None:
            if loop.name == "scf.for" and loop.parent is not None and bounds_of(run, loop) is None:
                ev = context(run, loop.parent)
                for atom in sorted(ev.signed(ev.integer(loop.operands[1], ())).atoms & names.keys()):
                    fix = f"{names[atom]} <= {_BELOW_WRAPPING}"
                    if not world.is_impossible((fix,)) and bounds_of(world.run((fix,)), loop) is not None:
                        return f"; the counter of the loop at {line_of(loop)} may wrap; fix: assume={[fix]!r}"
            loop = loop.parent_op()
        return ""


__all__ = ["Bounds", "Live"]
