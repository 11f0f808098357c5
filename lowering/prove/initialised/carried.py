"""Says when values that loops carry are undefined, by induction.

What is assumed of values before an iteration, a formula in which nothing changes between iterations, is shown of what the loop
starts with, and of what the iteration makes of them, in the context of any iteration. All that is assumed of one loop is
assumed at the same time, and what is not shown is assumed no more, until all that is left is shown, start and iteration, in one
pass in which no assumption changes. Nothing that was found while something was assumed is kept longer than that: what a pass
finds of other loops ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from xdsl.ir import BlockArgument, Operation, SSAValue

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ...tt.analysis.control_flow import terminator
from ..evaluate.contexts import NotModelled, context
from ..evaluate.evaluator import Evaluator, Lanes, Run
from ..terms.formulas import FALSE, TRUE, Formula, either, negated

_MAX_OPEN = 3
"""Most loops of which something is assumed at once."""
_MAX_LANES = 2
"""Most lanes of one value of which something is assumed."""

Key = tuple[int, Lanes | None]
"""Which carried value, and which of its lanes; None: all lanes at once."""
Shown = Mapping[Key, Formula]
"""By value and lanes, when it is undefined, which was shown; `TRUE` says that nothing was."""


class Values(Protocol):
    """What is asked of the values of a run."""

    run: Run

    def formula(self, ev: Evaluator, ssa: SSAValue, lanes: Lanes) -> Formula: ...
    def forget(self) -> Any: ...
    def remember(self, known: Any) -> None: ...


@dataclass(slots=True)
class Assumed:
    """What is assumed of the values that a loop carries.

    Attributes:
        when: by value and lanes, when it is undefined; of all lanes never, or `TRUE`, which says nothing.
        tried: how many formulas were tried in vain, of a lane.
    """

    when: dict[Key, Formula] = field(default_factory=dict)
    tried: dict[Key, int] = field(default_factory=dict)


class Carried:
    """When the values that loops carry, or leave, are undefined."""

    def __init__(self, values: Values) -> None:
        """Starts with nothing assumed. values: says so of all other values."""
        self._values = values
        self._open: dict[Operation, Assumed] = {}
        self._shown: dict[Operation, Shown] = {}
        """What was shown while exactly that was assumed which is assumed now. No mapping in it changes any more."""

    def argument(self, ev: Evaluator, loop: Operation, ssa: BlockArgument, lanes: Lanes) -> Formula:
        """Returns when a lane of an argument of a loop's block is undefined."""
        first = loop.regions[0].block
        if ssa.block is not first:  # what the condition of a loop passes on
            return self._values.formula(ev, terminator(first).operands[1 + ssa.index], lanes)
        if loop.name == "scf.while":
            return self._before(loop, ssa.index, lanes)
        if ssa.index:
            return self._before(loop, ssa.index - 1, lanes)
        return self._bounds(loop)

    def result(self, ev: Evaluator, loop: Operation, index: int, lanes: Lanes) -> Formula:
        """Returns when a lane of what a loop leaves is undefined."""
        if any(len(each.blocks) != 1 for each in loop.regions):
            return TRUE
        if loop.name == "scf.for":
            return either(self._bounds(loop), self._before(loop, index, lanes))
        run, first = self._values.run, loop.regions[0].block
        own = context(run, first)  # of the last time that the condition was asked
        last = terminator(first)
        found = either(
            self._values.formula(own, last.operands[0], ()), self._values.formula(own, last.operands[1 + index], lanes)
        )
        if self._is_impossible(own, found):
            return FALSE
        return TRUE if loop in run.terms.formula_depends(found) else found

    def _bounds(self, loop: Operation) -> Formula:
        """Returns when it is undefined how often a loop runs, and what it counts."""
        assert loop.parent is not None
        outer = context(self._values.run, loop.parent)
        return either(*[self._values.formula(outer, each, ()) for each in loop.operands[:3]])

    def _parts(self, loop: Operation, number: int) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Returns a carried value's argument, what it starts with, and what an iteration makes of it."""
        first = loop.regions[0].block
        if loop.name == "scf.for":
            return first.args[number + 1], loop.operands[number + 3], terminator(first).operands[number]
        return first.args[number], loop.operands[number], terminator(loop.regions[1].block).operands[number]

    def _is_impossible(self, ev: Evaluator, *formulas: Formula) -> bool:
        return FALSE in formulas or self._values.run.solver.is_impossible(*self._values.run.base, *ev.given, *formulas)

    # Induction

    def _before(self, loop: Operation, number: int, lanes: Lanes) -> Formula:
        """Returns when a lane of a value is undefined that is carried into any iteration, or out of the last one."""
        assumed = self._open.get(loop)
        if assumed is not None:
            return self._assumed(assumed, loop, number, lanes)
        found = self._known(loop, number, lanes)
        for _ in range(2):  # of all lanes, and, where that is not shown, of these ones
            if found is None and len(self._open) < _MAX_OPEN:
                self._show(loop, number, lanes)
                found = self._known(loop, number, lanes)
        return TRUE if found is None else found

    def _known(self, loop: Operation, number: int, lanes: Lanes) -> Formula | None:
        """Returns what is shown of a lane; None if nothing was asked of it."""
        shown = self._shown.get(loop, {})
        found = shown.get((number, None))
        if found is None or found == FALSE:
            return found
        found = shown.get((number, lanes))
        return TRUE if found is None and self._is_beyond(shown, loop, number, lanes) else found

    def _is_beyond(self, when: Shown, loop: Operation, number: int, lanes: Lanes) -> bool:
        """Returns whether nothing is assumed of a lane: iterations change which it is, or others of the value were asked."""
        of_value = sum(each == number for each, _ in when) - 1
        return of_value >= _MAX_LANES or loop in self._values.run.terms.depends(*lanes)

    def _assumed(self, assumed: Assumed, loop: Operation, number: int, lanes: Lanes) -> Formula:
        """Returns what is assumed of a lane, and notes that it has to be shown."""
        found = assumed.when.setdefault((number, None), FALSE)
        if found == FALSE:
            return FALSE
        key = (number, lanes)
        if key not in assumed.when:
            if self._is_beyond(assumed.when, loop, number, lanes):
                return TRUE
            assumed.when[key] = TRUE  # while it is made
            assumed.when[key] = self._first(loop, number, lanes)
        return assumed.when[key]

    def _first(self, loop: Operation, number: int, lanes: Lanes) -> Formula:
        """Returns when what a loop starts with is undefined."""
        assert loop.parent is not None
        run = self._values.run
        found = self._values.formula(context(run, loop.parent), self._parts(loop, number)[1], lanes)
        return TRUE if loop in run.terms.formula_depends(found) else found

    def _show(self, loop: Operation, number: int, lanes: Lanes) -> None:
        """Shows what is assumed of a lane, and all that was shown of the loop before, or assumes it no more."""
        known, shown = self._values.forget(), self._shown
        assumed = self._open[loop] = Assumed(dict(shown.get(loop, {})))
        try:
            self._begin(shown, loop)
            self._assumed(assumed, loop, number, lanes)
            while True:
                self._begin(shown, loop)
                before = dict(assumed.when)
                failed = [key for key, when in before.items() if not self._is_kept(loop, key, when)]
                for key in failed:
                    self._weaken(assumed, loop, key)
                if not failed and assumed.when == before:
                    break
        finally:
            del self._open[loop]
            self._shown = shown
            self._values.remember(known)
        self._shown = shown | {loop: before}

    def _begin(self, shown: Mapping[Operation, Shown], loop: Operation) -> None:
        """Forgets what was found under other assumptions about a loop. shown: what was before there were any."""
        self._values.forget()
        self._shown = {each: found for each, found in shown.items() if not _is_inside(each, loop)}

    def _is_kept(self, loop: Operation, key: Key, when: Formula) -> bool:
        """Returns whether what is assumed of a value holds before the first iteration, and after any."""
        number, lanes = key
        if when == TRUE:
            return True
        _, start, following = self._parts(loop, number)
        run = self._values.run
        if lanes is None:
            lanes = run.lanes(t.shape_of(start.type))
        assert loop.parent is not None
        try:
            contexts = (context(run, loop.parent), start), (context(run, loop.regions[-1].block), following)
            return all(self._is_impossible(ev, self._values.formula(ev, ssa, lanes), negated(when)) for ev, ssa in contexts)
        except NotModelled:
            return False

    def _weaken(self, assumed: Assumed, loop: Operation, key: Key) -> None:
        """Assumes less of a value: that it may be undefined where an iteration leaves it so, in which nothing changes."""
        number, lanes = key
        tried = assumed.tried[key] = assumed.tried.get(key, 0) + 1
        before = assumed.when[key]
        assumed.when[key] = TRUE
        if lanes is None or tried > 1:
            return
        run = self._values.run
        known, shown = self._values.forget(), self._shown
        self._begin(shown, loop)
        mine = Assumed({(each, None): FALSE for each in range(len(loop.operands))})
        self._open[loop] = mine
        try:
            added = self._values.formula(context(run, loop.regions[-1].block), self._parts(loop, number)[2], lanes)
        except NotModelled:
            added = TRUE
        finally:
            self._open[loop] = assumed
            self._shown = shown
            self._values.remember(known)
        if loop not in run.terms.formula_depends(added):
            assumed.when[key] = either(before, added)


def _is_inside(op: Operation, loop: Operation) -> bool:
    parent: Operation | None = op
    while parent is not None and parent is not loop:
        parent = parent.parent_op()
    return parent is loop


__all__ = ["Carried"]
