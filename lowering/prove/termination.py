"""Proves that loops end: those that count upwards to an end that their counter does not pass by wrapping.

Loops with a condition, and circles of blocks, are unknown: which of them end is another question than which numbers fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from ..tt import types as t
from . import claims
from .bounds import Bounds
from .evaluate.loops import counted_bounds, is_counted
from .evaluate.paths import path
from .evaluate.values import Condition, Need
from .found import ALWAYS, Found, Level, text_of
from .preparation import line_of
from .proof import PROVEN, TERMINATION, UNDER, UNKNOWN, AccessVerdict
from .terms.formulas import TRUE
from .world import World

_KNOWN = frozenset({"scf.for", "scf.if", "scf.while", "scf.execute_region"})


class Termination:
    """The verdicts on loops of one function."""

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the worlds."""
        self._bounds = bounds

    def verdicts(self) -> list[AccessVerdict]:
        """Returns the verdict of every loop, in the order of the text."""
        found = []
        for op, reason in self._loops():
            own = Found(UNKNOWN, reason=reason) if reason else self._bounds.guarded(lambda op=op: self._ends(op))  # type: ignore[misc]
            found.append(AccessVerdict(TERMINATION, line_of(op), op.name, "", own.verdict, own.level.texts, own.reason))
        return found

    def _loops(self) -> Iterator[tuple[Operation, str]]:
        """Yields what may go on forever, with the reason why nothing is shown of it; "" if something may be."""
        blocks = self._bounds.world().first.blocks
        for op in self._bounds.prepared.function.walk():
            if op.name == "scf.for":
                yield op, ""
            elif op.name == "scf.while":
                yield op, "a loop with a condition: whether it ever stops to hold is not modelled"
            elif op.name == "tt.call" or op.name == "tt.atomic_poll":
                yield op, f"{op.name} is not modelled"
            if op.name in _KNOWN or op.name == "tt.func":
                for region in op.regions:
                    if region.blocks and not blocks.is_acyclic(region):
                        yield op, "branches that lead back: whether they ever stop is not modelled"

    def _ends(self, loop: Operation) -> Found:
        world = self._bounds.world()
        if not is_counted(world.first, loop):
            return Found(UNKNOWN, reason="the loop is not shown to count upwards as signed numbers do")
        failed = self._failed(world, loop, ALWAYS)
        if not failed:
            return Found(PROVEN)
        for level in self._bounds.levels(world, None):
            if not self._failed(world, loop, level):
                texts = level.texts
                for text in reversed(level.texts):  # without those that are not needed
                    fewer = tuple([each for each in texts if each != text])
                    if fewer and not self._failed(world, loop, Level(fewer)):
                        texts = fewer
                return Found(UNDER, Level(texts))
        return Found(UNKNOWN, reason=failed)

    def _failed(self, world: World, loop: Operation, level: Level) -> str:
        """Returns what is not shown of a loop; "" if it ends."""
        ev = world.first
        (_, end, step), needs = counted_bounds(ev, loop)
        # Devices count in the counter's own bits: one step beyond the end must fit, too.
        beyond = Need(end + step, t.bit_width(loop.operands[0].type), TRUE, loop)
        steps = [*path(ev, loop), Condition(TRUE, (*needs, beyond))]
        failed, reads = claims.not_shown(world, level.formulas(world), claims.needs_of_path(steps))
        if failed:
            return f"may wrap: {text_of(world, failed[0])}"
        return "it relies on what is loaded" if reads else ""


__all__ = ["Termination"]
