"""Proves that what accesses write, where, and by which mask, is defined in every lane in which they do.

The question for one access is whether the lane touches memory and what it writes, or its address, is undefined; for masks, and
for what decides branches and loops, whether they are undefined wherever they are asked. What memory holds is defined if all
that writes there writes what is defined: a verdict that relies on a load says no more than those of all such writes.

What is asserted has a verdict of its own, and so has what decides a branch or a loop of a function without accesses.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from functools import partial

from xdsl.ir import Block, Operation, SSAValue

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ..bounds import Bounds
from ..evaluate.contexts import context
from ..evaluate.undefined import Undefined
from ..evaluate.values import Pointer
from ..found import SHOWN, Found, joined, shown
from ..preparation import Access, line_of, no_access
from ..proof import INITIALISED, NEVER, PROVEN, REFUTED, UNKNOWN, Counterexample
from ..terms.formulas import FALSE, Formula
from ..world import ALWAYS, Level
from . import sources
from .definedness import Definedness

_MAX_NAMED = 50
"""Most operations that are looked at for the one which a reason names."""
_MAX_SEARCHED = 3
"""Most questions about one access for which launches are looked for."""

@dataclass(frozen=True, slots=True)
class Question:
    """What is to be defined.

    Attributes:
        what: in words.
        value: the value.
        given: in which runs it is asked, and `undefined`, in which of those it is not defined.
        decides: the operation that it decides about; None of what belongs to the access itself.
    """

    what: str
    value: SSAValue
    given: Formula
    undefined: Formula
    decides: Operation | None = None


class Initialised:
    """The verdicts on undefined lanes of one function."""

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms, and the verdicts on bounds."""
        self._bounds = bounds
        self._function = bounds.prepared.function
        self._accesses = tuple([each for each in bounds.prepared.accesses if not each.is_gather])
        self._possible = Undefined(self._function, sources.leaves_undefined)
        self._definedness: dict[Level, Definedness] = {}
        """That of the access that is asked about: its verdict depends on no other one that was asked before."""
        self._decisions: dict[Level, Definedness] = {}
        self._decided: dict[tuple[Level, int], Question] = {}
        self._deciding = [
            (op, value) for op in self._function.walk() for value in sources.deciding(op) if self._possible.is_value(value)
        ]  # fmt: skip
        rows = dict.fromkeys(op for op, _ in self._deciding if op.name in sources.ASSERTED or not self._accesses)
        self._own_rows = dict.fromkeys([no_access(op, "it touches no memory") for op in rows])

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        doubtful = self._bounds.prepared.doubtful
        if doubtful is not None:
            return {each: Found(UNKNOWN, reason=doubtful.obstacle) for each in (*self._accesses, *self._own_rows, doubtful)}
        found = {each: self._verdict(each) for each in self._accesses}
        return self._relying(found | {each: self._bounds.guarded(partial(self._asked, each)) for each in self._own_rows})

    def _verdict(self, access: Access) -> Found:
        if access.obstacle:
            return Found(UNKNOWN, reason=access.obstacle)
        if not self._deciding and not any(map(self._possible.is_value, access.op.operands)):  # the solver is not asked
            return Found(NEVER if self._bounds.bounds_of(access).verdict == NEVER else PROVEN)
        return self._bounds.guarded(partial(self._asked, access))

    def _asked(self, access: Access) -> Found:
        self._definedness = {}
        launches = self._bounds.launches
        if (known := launches.known(INITIALISED, (access,))) is not None:
            return Found(REFUTED, counterexample=known)
        is_never = self._bounds.bounds_of(access).verdict == NEVER

        def holds(level: Level) -> bool:
            return not any(True for _ in self._open_questions(access, level))

        pointer = self._bounds.pointer(access)
        array = pointer.base if isinstance(pointer, Pointer) else None
        result = self._bounds.climb(array, holds, [partial(self._bounds.live, access)])
        if result.verdict in SHOWN:
            return Found(NEVER) if is_never and not result.level else result
        found = self._counterexample(access, array)
        if found is not None:
            return Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        _, question = next(self._open_questions(access, ALWAYS))
        return Found(UNKNOWN, reason=f"{question.what} is not shown to be defined{self._origin(question.value)}")

    # Questions

    def _open_questions(self, access: Access, level: Level) -> Iterator[tuple[int, Question]]:
        """Yields what is not shown to be defined under conditions, with its place among the questions."""
        world = self._bounds.world
        for number, question in enumerate(self._questions(access, level)):
            if question.undefined != FALSE and not world.is_impossible(level, question.given, question.undefined):
                yield number, question

    def _questions(self, access: Access, level: Level) -> Iterator[Question]:
        """Yields what is to be defined: the same values in the same order, whatever the conditions."""
        run, op = self._bounds.world.run(level), access.op
        is_own_row = access in self._own_rows
        for number, (decides, _) in enumerate(self._deciding):
            if not is_own_row or decides is op:
                yield self._decision(level, number)
        if is_own_row:
            return
        values = self._definedness.get(level)
        if values is None:
            values = self._definedness[level] = Definedness(run, self._possible)
        assert op.parent is not None
        ev, lanes = context(run, op.parent), run.lanes(access.shape)
        if access.mask is not None:
            position = lanes if t.is_tensor(access.mask.type) else ()
            yield Question("the mask", access.mask, ev.formula, values.formula(ev, access.mask, position))
            ev = ev.under(ev.condition(access.mask, position).formula)
        if op.name == "tt.atomic_poll":
            for value in op.operands:
                yield Question("an operand of the poll", value, ev.formula, values.anywhere(ev, value, op))
            return
        for number, value in enumerate(op.operands):
            if value is access.mask or (number and op.name in ("tt.load", "tt.atomic_load")):
                continue
            what = "the address" if number == 0 else "the stored value" if op.name == "tt.store" else "an operand"
            yield Question(what, value, ev.formula, values.formula(ev, value, lanes if t.is_tensor(value.type) else ()))

    def _decision(self, level: Level, number: int) -> Question:
        """Returns the question about something that decides, or is asserted."""
        found = self._decided.get((level, number))
        if found is None:
            decides, value = self._deciding[number]
            run = self._bounds.world.run(level)
            if level not in self._decisions:
                self._decisions[level] = Definedness(run, self._possible)
            block = decides.regions[0].blocks[0] if decides.name == "scf.while" else decides.parent
            assert block is not None
            own = context(run, block)
            what = f"{_DECIDES.get(decides.name, 'what decides')} of {decides.name} at {line_of(decides)}"
            undefined = self._decisions[level].formula(own, value, run.lanes(t.shape_of(value.type)))
            found = self._decided[level, number] = Question(what, value, own.formula, undefined, decides)
        return found

    def _origin(self, value: SSAValue) -> str:
        """Returns which operation may leave a value undefined, as a part of a sentence."""
        makers = [op for op in self._function.walk() if sources.leaves_undefined(op)]
        for op in makers[:_MAX_NAMED]:
            if Undefined(self._function, partial(operator.is_, op)).is_value(value):
                lanes = "; fix: other=" if op.name == "tt.load" else ""
                return f": it may come from a lane that {op.name} at {line_of(op)} leaves undefined{lanes}"
        return ""

    def _counterexample(self, access: Access, array: int | None) -> Counterexample | None:
        """Looks for a launch in which something that is not shown to be defined is not."""
        bounds = self._bounds
        for number, question in itertools.islice(self._open_questions(access, ALWAYS), _MAX_SEARCHED):

            def formulas(level: Level, number: int = number) -> list[Formula]:
                same = next(itertools.islice(self._questions(access, level), number, None))
                return [same.given, same.undefined]

            found = bounds.searched(INITIALISED, (access,), array, formulas)
            decides = question.decides
            if found is None and decides is not None and _leads_to(decides, access.op):
                found = bounds.launches.decided(decides)
            if found is not None:
                return found
        return None

    # Memory

    def _relying(self, found: dict[Access, Found]) -> dict[Access, Found]:
        """Returns the verdicts, which say no more than those of all writes that may have made what they rely on.

        Of all accesses that break the property in a launch, the first one relies on no write that did so before.
        """
        groups: dict[int | None, list[Access]] = {}
        for access in self._accesses:
            if access.writes:
                groups.setdefault(self._position(access), []).append(access)
        relying: dict[int | None, list[Access]] = {}
        is_open = True
        while is_open:
            is_open = False
            for position, writes in groups.items():
                if all(found[each].verdict in (PROVEN, NEVER) for each in writes):
                    continue
                if position not in relying:
                    relying[position] = self._readers(position)
                level = joined(*[found[each].level for each in writes])
                bad = next((each for each in writes if found[each].verdict not in SHOWN), None)
                for access in relying[position]:
                    own = found[access]
                    if own.verdict not in SHOWN:
                        continue
                    result = shown(joined(own.level, level))
                    if bad is not None:
                        written = f"{bad.op.name} at {bad.line}, which is not shown to write what is defined"
                        result = Found(UNKNOWN, reason=f"it relies on what memory holds, perhaps by {written}")
                    if result.verdict == UNKNOWN or result.level != own.level:
                        found[access], is_open = result, True
        return found

    def _position(self, access: Access) -> int | None:
        """Returns the parameter of whose array an access surely stays inside; None if that is not known."""
        pointer = self._bounds.pointer(access)
        is_inside = self._bounds.bounds_of(access).verdict in (PROVEN, NEVER)
        return pointer.base if is_inside and isinstance(pointer, Pointer) and pointer.base >= 0 else None

    def _readers(self, position: int | None) -> list[Access]:
        """Returns the accesses that rely on what memory holds that writes to a position may have made."""
        elsewhere = set()
        for access in self._accesses:
            own = self._position(access)
            if not access.obstacle and None not in (own, position) and own != position:
                elsewhere.add(access.op)
        made = Undefined(self._function, lambda op: sources.is_memory(op) and op not in elsewhere)
        if any(made.is_value(each) for op in self._function.walk() for each in sources.deciding(op)):
            return [*self._accesses, *self._own_rows]
        updates = {each.op for each in self._accesses if each.op not in elsewhere and sources.relies_on_memory(each.op)}
        return [each for each in self._accesses if each.op in updates or any(map(made.is_value, each.op.operands))]


_DECIDES = {
    "scf.for": "a bound", "scf.if": "the condition", "scf.while": "the condition", "cf.cond_br": "the condition",
    "tt.assert": "the condition", "cf.assert": "the condition", "llvm.intr.assume": "the condition",
}  # fmt: skip


def _leads_to(decides: Operation, op: Operation) -> bool:
    """Returns whether what an operation decides may be whether another one runs."""
    inner: Operation | None = op
    while inner is not None:
        if inner is decides:
            return True
        if decides.successors and inner.parent in _reached(decides):
            return True
        inner = inner.parent_op()
    return False


def _reached(branch: Operation) -> set[Block]:
    """Returns the blocks to which a branch may lead."""
    found: set[Block] = set()
    waiting = list(branch.successors)
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += block.last_op.successors if block.last_op is not None else ()
    return found


__all__ = ["Initialised"]
