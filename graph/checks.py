"""Decides whether sizes are equal while the graph is built, and records checks for launch where it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..promotion.errors import UserError
from .dims.dim import Dim, Extent, at_most, dims_equal, maximum, minimum

MAX_SIZE = 1 << 62
"""No tensor of any graph has this many bytes: sizes are computed in 64 bits."""


class ShapeError(UserError):
    """Operand shapes or attributes do not fit the op. `expected` and `fix` complete the message."""

    def __init__(self, problem: str, expected: str = "", fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.expected, self.fix = problem, expected, fix


class Check(NamedTuple):
    """A condition of a launch: `lhs` must equal `rhs`, else `message` is raised."""

    lhs: Extent
    rhs: Extent
    message: str


class Checks:
    """The runtime checks of a graph and what they imply: a checked name may be replaced by what it equals.

    Args:
        entries: checks to begin with.
        names: whether dims of two plain names count as different unless a check says otherwise. If not, their
            equality is checked at launch like any other.
        is_final: whether recording is off, for rewrites of a graph, which keep the checks of the original.
    """

    __slots__ = ("_known", "entries", "is_final", "names")

    def __init__(self, entries: Iterable[Check] = (), *, names: bool = True, is_final: bool = False) -> None:
        self.entries: list[Check] = []
        self._known: dict[str, Extent] = {}
        self.names = names
        self.is_final = False
        for entry in entries:
            self.add(*entry)
        self.is_final = is_final

    def __len__(self) -> int:
        return len(self.entries)

    def truncate(self, count: int) -> None:
        """Drop all but the first `count` checks, because the op that added the others failed."""
        if len(self.entries) > count:
            kept, self.entries, self._known = self.entries[:count], [], {}
            for check in kept:
                self.add(*check)

    def simplified(self, extent: Extent) -> Extent:
        """Return `extent` with names replaced by what checks say they equal."""
        return extent.substitute(self._known) if self._known and isinstance(extent, Dim) else extent

    def decide(self, lhs: Extent, rhs: Extent) -> bool | None:
        """Return whether two extents are equal, given the checks so far.

        The result is None when that is only known at launch.
        """
        if lhs is rhs or lhs == rhs:
            return True
        verdict = dims_equal(lhs, rhs)
        if verdict is not None or not self.entries:
            return verdict
        verdict = dims_equal(self.simplified(lhs), self.simplified(rhs))
        if verdict is None and any({lhs, rhs} == {check.lhs, check.rhs} for check in self.entries):
            return True
        return verdict

    def add(self, lhs: Extent, rhs: Extent, message: str) -> None:
        """Record that `lhs` must equal `rhs`, unless that is known.

        Raises `ShapeError` when they are never equal.
        """
        verdict = self.decide(lhs, rhs)
        if verdict is False:
            raise ShapeError(f"{message}: {lhs} never equals {rhs}", "sizes that can be equal")
        if verdict or self.is_final:
            return
        self.entries.append(Check(lhs, rhs, message))
        left, right = self.simplified(lhs), self.simplified(rhs)
        for name, value in ((left, right), (right, left)):
            plain = name.name if isinstance(name, Dim) else None
            if plain is not None and not (isinstance(value, Dim) and plain in value.symbols()):
                self._known = {
                    key: old.substitute({plain: value}) if isinstance(old, Dim) else old
                    for key, old in self._known.items()
                }
                self._known[plain] = value
                self._refuse_contradiction(message)
                return

    def _refuse_contradiction(self, message: str) -> None:
        """Raise `ShapeError`, and drop the newest check, if it makes an earlier one fail for all sizes."""
        for check in self.entries[:-1]:
            if dims_equal(self.simplified(check.lhs), self.simplified(check.rhs)) is False:
                self.truncate(len(self.entries) - 1)
                raise ShapeError(
                    f"{message.partition(': ')[2] or message}, which contradicts a check made before: {check.message}",
                    "checks that some sizes satisfy",
                    "leave one of the two operations out; a graph keeps the checks of every call until it is finished",
                )

    def require_equal(self, lhs: Extent, rhs: Extent, what: str) -> Extent:
        """Require two axes to agree, now or by a check at launch, and return the simpler of their sizes.

        `what` opens the message. Raises `ShapeError` for sizes that differ, and for dims with different
        names.
        """
        verdict = self.decide(lhs, rhs)
        if verdict is None:
            self._refuse_names(lhs, rhs, what)
            self.add(lhs, rhs, f"{what}: {lhs} must equal {rhs}")
        elif not verdict:
            raise ShapeError(f"{what}: {lhs} and {rhs} differ", "equal sizes")
        return simpler(lhs, rhs)

    def require_at_most(self, value: Extent, limit: Extent, what: str) -> None:
        """Require `value <= limit`, decided now or checked at launch."""
        if not at_most(value, limit):
            self.add(minimum(value, limit), value, what)

    def require_at_least(self, value: Extent, limit: Extent, what: str) -> None:
        """Require `value >= limit`, decided now or checked at launch."""
        if not at_most(limit, value):
            self.add(maximum(value, limit), value, what)

    def _refuse_names(self, lhs: Extent, rhs: Extent, what: str) -> None:
        if not self.names or self.is_final:
            return
        if isinstance(lhs, Dim) and isinstance(rhs, Dim) and lhs.name and rhs.name:
            raise ShapeError(
                f"{what}: the dims {lhs} and {rhs} have different names",
                "one name, or a statement that the two are equal",
                f"if they are always equal, say so: joinery.rebind(x, shape) with {rhs} in place of {lhs} (checked at launch), "
                f"or give both inputs the same name",
            )


def simpler(lhs: Extent, rhs: Extent) -> Extent:
    """Return which of two equal extents to show: an int, else the one with the shorter text."""
    if isinstance(lhs, int):
        return lhs
    if isinstance(rhs, int):
        return rhs
    return rhs if len(str(rhs)) < len(str(lhs)) else lhs
