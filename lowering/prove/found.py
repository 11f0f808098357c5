"""Defines what provers find: verdicts with the conditions under which they hold."""

from __future__ import annotations

from ...promotion.dataclass import dataclass
from .proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN, Counterexample
from .world import ALWAYS, Level

SHOWN = (PROVEN, UNDER, NEVER)
"""Verdicts that say that a property holds, if under a condition."""
_WORSE = (PROVEN, NEVER, UNDER, UNKNOWN, REFUTED)


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict with the condition that it holds under."""

    verdict: str
    level: Level = ALWAYS
    reason: str = ""
    counterexample: Counterexample | None = None


def shown(level: Level) -> Found:
    """Returns that a property holds under conditions."""
    return Found(UNDER if level else PROVEN, level)


def joined(*levels: Level) -> Level:
    """Returns the conditions of all."""
    return tuple(dict.fromkeys([text for level in levels for text in level]))


def worse(before: Found, result: Found) -> Found:
    """Returns the weaker of two verdicts on one access."""
    if before.verdict == UNDER and result.verdict == UNDER:
        return Found(UNDER, joined(before.level, result.level))
    return result if _WORSE.index(result.verdict) > _WORSE.index(before.verdict) else before


__all__ = ["SHOWN", "Found", "joined", "shown", "worse"]
