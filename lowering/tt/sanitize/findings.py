"""Defines what a sanitized run reports."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field, replace

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError, printable, printable_lines, public

MAX_FINDINGS = 100
"""Most different findings that are kept; more are only counted."""
_SHOWN = 10

Program = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake; equal mistakes of one operation are one finding with a count.

    Attributes:
        kind: "out-of-bounds", "misaligned", "divisibility", "uninitialised", "overflow", "race", "lane-race", "deadlock",
            "read-only", "division-by-zero", "shift-exponent", or "error" (the run could not go on).
        message: the mistake in words.
        operation: the operation's text, its first line in `Kernel.ttir`.
        line: its source line, or the line of `Kernel.ttir` (`ttir:17`) if the text names no source.
        program: the first program that made it, (x, y, z); None before any program runs.
        lane: the first of its lanes, an index of the block (`()` for a scalar).
        address: the place in memory, `%x + 4 * 1030 (array of 1024 elements)`; "" if memory is not concerned.
        origin: the line of the operation that left a value undefined, in which an offset wrapped, or on the other side of a
            race or of a missing barrier.
        other_program: the program on the other side of a race.
        count: number of lanes of all programs.
    """

    kind: str
    message: str
    operation: str
    line: str
    program: Program | None
    lane: tuple[int, ...] = ()
    address: str = ""
    origin: str = ""
    other_program: Program | None = None
    count: int = 1

    def __post_init__(self) -> None:
        # Here nobody who composes one can forget it; a message alone has several lines, where a run could not go on.
        for name in ("kind", "operation", "line", "address", "origin"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        object.__setattr__(self, "message", printable_lines(self.message))

    def __str__(self) -> str:
        of_program = "" if self.program is None else f", program {self.program}"
        lane = f", lane {list(self.lane)}" if self.lane else ""
        times = f" ({self.count} lanes)" if self.count > 1 else ""
        return f"{self.kind}: {self.message}{times}\n  {self.line}{of_program}{lane}: {self.operation}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `Kernel.sanitize`.

    Attributes:
        findings: mistakes, in the order in which they were found.
        masked_out_of_bounds: accesses that only their mask keeps inside the arrays, one per operation. They are no mistakes.
        dropped: number of lanes of further findings, beyond the limit of `MAX_FINDINGS`.
        looked_at, programs: how many programs of the launch were looked at, of how many: those that show what is found.
    """

    findings: tuple[Finding, ...]
    masked_out_of_bounds: tuple[Finding, ...] = ()
    dropped: int = 0
    looked_at: int = field(default=0, compare=False)
    programs: int = field(default=0, compare=False)

    @property
    def part(self) -> str:
        """A sentence that says so, if some programs were not looked at; else ""."""
        if self.looked_at >= self.programs:
            return ""
        some = "one" if self.looked_at == 1 else str(self.looked_at)
        return f"{some} of {self.programs} programs {'was' if self.looked_at == 1 else 'were'} looked at"

    def __str__(self) -> str:
        count = len(self.findings)
        lines = [f"{count} finding{'' if count == 1 else 's'}", *map(str, self.findings)]
        if self.dropped:
            lines.append(f"further findings of {self.dropped} lanes are left out")
        if self.part:
            lines.append(self.part)
        for note in self.masked_out_of_bounds:
            lines.append(f"note: {note.message} ({note.count} lanes)\n  {note.line}: {note.operation}")
        return "\n".join(lines)


@public
class SanitizerError(UserError):
    """Raised when a launch with `sanitize=True` finds mistakes. `findings` lists them; `report` is the whole
    report."""

    def __init__(self, name: str, report: Report) -> None:
        self.report = report
        self.findings = report.findings
        count = len(report.findings)
        more = count - _SHOWN
        lines = [f"@{name}: the sanitizer has {count} finding{'' if count == 1 else 's'}"]
        lines += map(str, report.findings[:_SHOWN])
        if more > 0:
            lines.append(f"and {more} more: see .findings")
        if report.part:
            lines.append(report.part)
        super().__init__("\n".join(lines))


class Collector:
    """Merges equal findings and keeps some of them. most: how many."""

    def __init__(self, most: int = MAX_FINDINGS) -> None:
        self._most = most
        self._found: dict[Hashable, Finding] = {}
        self._notes: dict[Hashable, Finding] = {}
        self.dropped = 0

    def add(self, key: Hashable, count: int, make: Callable[[], Finding]) -> None:
        """Count lanes of the finding `key`, which is made only when it is the first of its kind."""
        found = self._found.get(key)
        if found is not None:
            self._found[key] = replace(found, count=found.count + count)
        elif len(self._found) < self._most:
            self._found[key] = replace(make(), count=count)
        else:
            self.dropped += count

    def note(self, key: Hashable, count: int, make: Callable[[], Finding]) -> None:
        """Count lanes of something that is no mistake, as `add` does of findings."""
        found = self._notes.get(key)
        if found is not None:
            self._notes[key] = replace(found, count=found.count + count)
        elif len(self._notes) < self._most:
            self._notes[key] = replace(make(), count=count)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        return not self._found

    def report(self, looked_at: int = 0, programs: int = 0) -> Report:
        return Report(tuple(self._found.values()), tuple(self._notes.values()), self.dropped, looked_at, programs)


__all__ = ["MAX_FINDINGS", "Collector", "Finding", "Report", "SanitizerError"]
