"""Guesses what counters and locks hold when a launch begins: what they held in the launch, if more is proven with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ....promotion.errors import UserError
from ..bounds import Bounds
from ..found import SHOWN
from ..preparation import PreparedFunction
from ..prover import Prover
from ..specify.specification import Specification
from ..terms.solver import DEFAULT_LIMIT

_PROPERTIES = ("bounds", "races")


def with_contents(
    prepared: PreparedFunction, specification: Specification, contents: Mapping[str, tuple[int, int]], limit: int
) -> Specification:
    """Returns a guessed specification with what it assumes of the arrays that tell programs their order.

    These are arrays of integers of which an atomic returns an element that is used: counters, which held one number in all
    elements, and locks, which held 0 and 1.

    Args:
        contents: by array of integers, its least and largest element in the launch.
        limit: the most steps for one question.
    """
    names = [name for name in _counting(prepared) if name in contents]
    least = _proven(prepared, specification, limit) if names else None
    for name in names:
        low, high = contents[name]
        texts = [f"at_launch({name}[:]) == {low}"] if low == high else []
        texts += [f"0 <= {name}[:] <= 1"] if 0 <= low <= high <= 1 else []
        for text in texts:
            tried = replace(specification, assume=(*specification.assume, text))
            if least is not None and (found := _proven(prepared, tried, limit) or 0) > least:
                specification, least = tried, found
                break
    return specification


def _counting(prepared: PreparedFunction) -> Iterator[str]:
    """Yields the parameters of which an atomic returns an element that is used."""
    used = [each for each in prepared.accesses if each.is_atomic and any(one.first_use for one in each.op.results)]
    if used:
        specification = Specification((), (), ("1", "1", "1"))
        bounds = Bounds(prepared, specification, specification.parsed(), None, DEFAULT_LIMIT)
        yield from dict.fromkeys([bounds.array(access) for access in used])


def _proven(prepared: PreparedFunction, specification: Specification, limit: int) -> int | None:
    """Returns how many verdicts hold; None if the specification is refused."""
    try:
        proof = Prover(prepared, specification, None, limit).prove(_PROPERTIES)
    except UserError:
        return None
    return sum(each.verdict in SHOWN for each in proof.accesses)


__all__ = ["with_contents"]
