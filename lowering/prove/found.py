"""Defines what provers find: verdicts with the conditions, and the operations that may wrap, under which they hold."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dataclass import dataclass
from .evaluate.values import Need
from .preparation import Access, line_of
from .proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN, Counterexample
from .specify.expressions import parse_assumption
from .terms.formulas import Formula
from .world import World, Wrapping

SHOWN = (PROVEN, UNDER, NEVER)
"""Verdicts that say that a property holds, if under a condition."""
_WORSE = (PROVEN, NEVER, UNDER, UNKNOWN, REFUTED)


@dataclass(frozen=True, slots=True)
class Level:
    """Conditions under which numbers are smaller than they could be, as assumptions."""

    texts: tuple[str, ...]

    def formulas(self, world: World) -> list[Formula]:
        """Returns the conditions as formulas of a world."""
        return [world.assumption(parse_assumption(text)) for text in self.texts]


ALWAYS = Level(())


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict with what it was found by."""

    verdict: str
    level: Level = ALWAYS
    wrapping: Wrapping = frozenset()
    reason: str = ""
    counterexample: Counterexample | None = None
    reads: tuple[Access, ...] = ()


def joined(one: Level, two: Level) -> Level:
    """Returns the conditions of both."""
    return Level(tuple(dict.fromkeys((*one.texts, *two.texts))))


def worse(before: Found, result: Found) -> Found:
    """Returns the weaker of two verdicts on one access, which relies on the loads of both."""
    reads = tuple(dict.fromkeys((*before.reads, *result.reads)))
    if before.verdict == UNDER and result.verdict == UNDER:
        return Found(UNDER, joined(before.level, result.level), reads=reads)
    own = result if _WORSE.index(result.verdict) > _WORSE.index(before.verdict) else before
    return Found(own.verdict, own.level, own.wrapping, own.reason, own.counterexample, reads)


def observers(needs: Sequence[Need]) -> Wrapping:
    """Returns the operations that may look at wrapped numbers: an address that wraps is hardly ever inside."""
    return frozenset(need.op for need in needs if need.op.name != "tt.addptr")


def text_of(world: World, need: Need) -> str:
    """Returns the number of a need, with its line."""
    if need.what:
        return f"{need.what} at {line_of(need.op)}"
    return f"{world.terms.text(need.value)} in {need.width} bits at {line_of(need.op)}"


__all__ = ["ALWAYS", "SHOWN", "Found", "Level", "joined", "observers", "text_of", "worse"]
