"""Proves that loops that count come to their end. Of everything else that may go on forever nothing is shown.

An operation that is on no list here counts as one that may go on forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.ir import Operation, Region

from ..tt.analysis.dominance import postorder
from .bounds import Bounds
from .evaluate.contexts import bounds_of, context
from .evaluate.undefined import Undefined
from .found import SHOWN, Found, joined, shown
from .preparation import ends_at_once, line_of
from .proof import TERMINATION, UNKNOWN, AccessVerdict
from .terms.formulas import Formula
from .world import ALWAYS, Level

_WAITING = {
    "scf.while": "a loop with a condition: whether it ever stops to hold is not modelled",
    "tt.call": "a call that is not expanded: whether it ever returns is not modelled",
    "tt.atomic_poll": "a wait: whether it ever ends is not modelled",
}
_ENDING = frozenset({
    "tt.func", "scf.if", "scf.execute_region", "tt.map_elementwise", "tt.reduce", "tt.scan", "tt.reduce.return",
    "tt.scan.return",
})  # fmt: skip
"""Operations that run each of their regions a number of times that does not depend on what is computed, or that end one."""


class Termination:
    """The verdicts on loops of one function."""

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms."""
        self._bounds = bounds

    def verdicts(self) -> list[tuple[Operation, AccessVerdict]]:
        """Returns the verdict of every loop, in the order of the text. One comes to its end only if all inside it do."""
        own = [
            (op, Found(UNKNOWN, reason=reason) if reason else self._bounds.guarded(partial(self._ends, op)))
            for op, reason in self._loops()
        ]  # fmt: skip
        inner: dict[Operation, list[tuple[Operation, Found]]] = {op: [] for op, _ in own}
        for op, found in own:
            around: Operation | None = op
            while around is not None:
                if around in inner and (around is not op or found.verdict not in SHOWN):
                    inner[around].append((op, found))
                around = around.parent_op()
        return [(op, self._with_inner(op, found, inner[op])) for op, found in own]

    @staticmethod
    def _with_inner(op: Operation, found: Found, inner: Sequence[tuple[Operation, Found]]) -> AccessVerdict:
        """Returns the verdict of a loop, which says no more than those of what is inside it, or of its own blocks."""
        for each, verdict in inner:
            if found.verdict in SHOWN and verdict.verdict not in SHOWN:
                found = Found(UNKNOWN, reason=f"inside it {each.name} at {line_of(each)} is not shown to end")
            elif found.verdict in SHOWN:
                found = shown(joined(found.level, verdict.level))
        return AccessVerdict(TERMINATION, line_of(op), op.name, "", found.verdict, found.level, found.reason)

    def _loops(self) -> Iterator[tuple[Operation, str]]:
        """Yields what may go on forever, with the reason why nothing is shown of it; "" if something may be."""
        undefined = Undefined(self._bounds.prepared.function)
        for op in self._bounds.prepared.function.walk():
            if op.name == "scf.for":
                is_undefined = undefined.is_path(op) or any(map(undefined.is_value, op.operands[:3]))
                yield op, "poison, or what tt.fft makes, in its bounds or its path is not modelled" if is_undefined else ""
            elif op.name in _WAITING:
                yield op, _WAITING[op.name]
            elif "assembly" in op.name or "asm" in op.name:
                yield op, "assembly is not modelled"
            elif op.name not in _ENDING and (op.regions or not ends_at_once(op)):
                yield op, f"{op.name} is not modelled: whether it ever ends is not known"
            if any(_has_circle(region) for region in op.regions):
                yield op, "branches that lead back: whether they ever stop is not modelled"

    def _ends(self, loop: Operation) -> Found:
        found = self._bounds.climb(None, lambda level: self._is_counted(loop, level), [partial(self.live, loop)])
        if found.verdict in SHOWN:
            return found
        return Found(UNKNOWN, reason=found.reason or "the loop is not shown to count upwards to its end without wrapping")

    def live(self, loop: Operation, level: Level) -> Formula:
        """Returns that a loop is reached. Raises `NotModelled`."""
        assert loop.parent is not None
        return context(self._bounds.world.run(level), loop.parent).formula

    def _is_counted(self, loop: Operation, level: Level = ALWAYS) -> bool:
        return bounds_of(self._bounds.world.run(level), loop) is not None


def _has_circle(region: Region) -> bool:
    """Returns whether a branch of a region leads to a block that leads there."""
    if len(region.blocks) < 2 and not any(block.last_op is not None and block.last_op.successors for block in region.blocks):
        return False
    order = {block: number for number, block in enumerate(postorder(region.blocks[0]))}
    ways = [(block, each) for block in order if block.last_op is not None for each in block.last_op.successors]
    return any(order[successor] >= order[block] for block, successor in ways)


__all__ = ["Termination"]
