"""Defines what provers find: verdicts with the conditions under which they hold."""

from __future__ import annotations

import functools

from ...promotion.dataclass import dataclass
from .proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN, Counterexample
from .specify.expressions import Comparison, Expression, arrays_in, evaluate, names_in, parse_assumption
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
    """Returns the conditions of all, and of those that bound one size the strongest alone."""
    texts = list(dict.fromkeys([text for level in levels for text in level]))
    bounds = {text: _bound(text) for text in texts} if len(texts) > 1 else {}
    least: dict[Expression, int] = {}
    for bound in bounds.values():
        if bound is not None:
            size, most = bound
            least[size] = min(most, least.get(size, most))
    weaker = [text for text, bound in bounds.items() if bound is not None and bound[1] > least[bound[0]]]
    return tuple([text for text in texts if text not in weaker])


@functools.lru_cache(maxsize=1 << 12)
def _bound(text: str) -> tuple[Expression, int] | None:
    """Returns what a condition says: a size, and the number that it is at most; None if it says anything else."""
    found = parse_assumption(text)
    if not isinstance(found, Comparison) or found.relation != "<=":
        return None
    if any(True for _ in names_in(found.right)) or any(True for _ in arrays_in(found)):
        return None
    return found.left, evaluate(found.right, {})


def worse(before: Found, result: Found) -> Found:
    """Returns the weaker of two verdicts on one access."""
    if before.verdict == UNDER and result.verdict == UNDER:
        return Found(UNDER, joined(before.level, result.level))
    return result if _WORSE.index(result.verdict) > _WORSE.index(before.verdict) else before


__all__ = ["SHOWN", "Found", "joined", "shown", "worse"]
