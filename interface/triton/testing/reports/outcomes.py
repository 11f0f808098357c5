"""What became of tests: outcomes in pytest's words, and in one line what a test failed by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .....promotion.dataclass import dataclass
from .excerpts import Excerpt

CRASHED = "crashed"
"""The outcome of a test that ended the process that it ran in."""
_LOCATION = re.compile(r"\bat \d+:\d+:$")
"""How the first line of Triton's errors of compilation ends: the source follows, a mark below it, and what is wrong."""
_PHASES = {"setup": "in set-up: ", "teardown": "in teardown: "}


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of a test, as it is shown.

    Attributes:
        test: the test, and the part of it.
        is_expected: whether the test waited for it, and caught it.
    """

    test: str
    kernel: str
    text: str
    is_expected: bool
    excerpts: Sequence[Excerpt]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a test.

    Attributes:
        launches: by kernel; None where they went with the process.
        reason: what it failed by, or was skipped for, in one line.
    """

    test: str
    outcome: str
    launches: dict[str, int] | None
    reason: str

    @property
    def kind(self) -> str:
        """The outcome, and whether the test launched something."""
        if self.launches is None:
            return f"{self.outcome}, launches unknown"
        return f"{self.outcome}, {'launched' if self.launches else 'not launched'}"


def outcome_of(report: Any) -> tuple[str, str]:
    """The outcome of a phase of a test, and the reason for it."""
    reason = getattr(report, "wasxfail", None)
    if reason is not None and report.outcome != "failed":
        return "xfailed" if report.outcome == "skipped" else "xpassed", str(reason).removeprefix("reason: ")
    if report.outcome == "passed":
        return "passed", ""
    return report.outcome, _PHASES.get(report.when, "") + _reason(report.longrepr)


def counted(number: int, what: str, width: int = 0) -> str:
    """A number of things, in words. width: of the number."""
    return f"{number:{width}d} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"


def gist(text: str) -> str:
    """What a finding or an error is, in one line.

    The sanitizer's reports begin with how many there are; Triton's errors of compilation with where they are.
    """
    first, *rest = text.splitlines() or [""]
    if _LOCATION.search(first):
        mark = next((i for i, line in enumerate(rest) if line.strip() == "^"), len(rest))
        reason = [line.strip() for line in rest[mark + 1 :] if line.strip()]
        return f"{first} {reason[0]}" if reason else first
    return rest[0] if "the sanitizer has" in first and rest else first


def _reason(shown: Any) -> str:
    """The first line of what pytest shows for a failure."""
    if isinstance(shown, tuple):  # of a skipped test: (file, line, reason)
        return str(shown[-1]).removeprefix("Skipped: ")
    crash = getattr(shown, "reprcrash", None)
    if crash is None:
        return gist(str(shown))
    own = gist(str(crash.message))
    if _LOCATION.search(own):  # of a function that the kernel calls: the reason stands in the cause of this error
        chain = getattr(shown, "chain", ())  # (frames, where it was raised, …), of which the second is None without frames
        causes = [gist(str(frames if where is None else where.message)) for frames, where, _ in chain]
        return next((each for each in causes if not _LOCATION.search(each)), own)
    return own
