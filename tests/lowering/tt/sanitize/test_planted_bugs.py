"""Planted bugs of real kernel shapes, as Triton printed them: all are found, each at its line, and right kernels are clean."""

from __future__ import annotations

from typing import Any

import pytest

from ....support.planted_bugs.recorded import BEGIN, END, FACTS, GUIDE, NAMES, Recorded, table

FAST = NAMES[::3]
CASES = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in NAMES]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_the_right_kernel_is_clean_and_the_fault_is_found(name: str) -> None:
    recorded = Recorded(name)
    given, arrays, unwritten = recorded.arguments(False)
    options: dict[str, Any] = {"unwritten": unwritten, "needs_barriers": True}
    assert recorded.kernel(False).sanitize(recorded.grid(False), *given, **options).findings == ()
    recorded.check(arrays)

    given, _, options["unwritten"] = recorded.arguments(True)
    facts = recorded.facts
    found = recorded.kernel(True).sanitize(recorded.grid(True), *given, **options).findings
    where = [(each.kind, each.line.rsplit(":", 1)[0], each.program) for each in found]
    assert (facts["kind"], facts["line"], tuple(facts["program"])) in where


def test_there_are_thirty_and_the_guide_tells_of_all() -> None:
    assert len(NAMES) >= 30
    assert {facts["kind"] for facts in FACTS.values()} >= {"out-of-bounds", "race", "uninitialised", "overflow", "lane-race"}
    text = GUIDE.read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0] == table(), "run tests/support/planted_bugs/record.py"
