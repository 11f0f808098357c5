"""Defines the findings of a simulated launch, and the errors that carry them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError, printable, public

MAX_SHOWN = 100
"""How many characters of an instruction a message shows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a rule.

    Attributes:
        kind: "bounds", "alignment", "uninitialised", "in flight", "divergence", "deadlock", "race" and others.
        line, instruction: the line in the PTX text, and the instruction there.
        source: (file, line) of the kernel's source, when the text has `.loc`.
        cta: the block's index in the grid; lanes: threads of the block, at most eight.
        warning: true where a device would go on, with an unspecified value.
        callers: lines of the calls that led to `source`, where functions were inlined there; the innermost first.
    """

    kind: str
    message: str
    line: int = 0
    instruction: str = ""
    source: tuple[str, int] | None = None
    cta: tuple[int, int, int] = (0, 0, 0)
    lanes: tuple[int, ...] = ()
    warning: bool = False
    callers: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        text = printable(self.instruction if len(self.instruction) <= MAX_SHOWN else f"{self.instruction[:MAX_SHOWN]} …")
        offset = f"PTX line {self.line}: {text}: " if self.line else ""
        source = f" [{printable(self.source[0])}:{self.source[1]}]" if self.source else ""
        threads = (
            f", thread{'s' if len(self.lanes) > 1 else ''} {', '.join(map(str, self.lanes))}"
            if self.lanes
            else ""
        )
        calls = "".join(f", called from {printable(file)}:{line}" for file, line in self.callers)
        return f"{offset}{self.kind}: {printable(self.message)} (program {self.cta}{threads}){source}{calls}"


@public
class PtxCheckError(UserError):
    """A simulated kernel broke a rule.

    `findings` holds the findings, the first one first; `printed` the output of vprintf; `ptx` the text that was run, whose
    lines the findings name ("" if nobody has said).
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        more = f"; {len(findings) - 1} more" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")
        self.findings = tuple(findings)
        if findings[0].source is not None:
            self.origin = "{}:{}".format(*findings[0].source)
        self.printed = ""
        self.ptx = ""


class Fault(Exception):
    """A violation, raised inside a step; the scheduler adds the location and turns it into a `PtxCheckError`."""

    def __init__(self, kind: str, message: str, lanes: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.lanes = tuple(int(lane) for lane in lanes)[:8]
