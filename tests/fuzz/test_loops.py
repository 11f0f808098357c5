"""The generator of loops, sorts and scatters: what its trees mean, and that a difference from NumPy is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from . import loop_cases
from .cases import Settings, packed
from .choices import Choices
from .loop_programs import InNumPy, drawn, names_in

HOST = Settings(simulate=False)
X, Y = np.array([3, -1, 3, 0], np.int64), np.array([1, 2, -7, 5], np.int64)
EXAMPLES: dict[str, tuple[list[Any], list[int]]] = {
    "repeat": (["repeat", 3, "number", ["map", "add", ["input", 2], ["input", 3]], ["input", 0]], [6, 2, 6, 3]),
    "until": (["until", 4, ["map", "add", ["input", 2], ["input", 1]], ["input", 1]], [3, 6, -21, 15]),
    "scan": (["scan", 1, ["map", "add", ["input", 2], ["input", 3]], ["input", 1], ["input", 0]], [9, 11, -1, 11]),
    "cond": (["cond", ["input", 0], ["input", 0], ["input", 1]], [1, 2, -7, 5]),
    "argsort": (["argsort", 1, ["input", 0]], [0, 2, 3, 1]),
    "running": (["running", "cumsum", 1, 1, ["input", 0]], [2, 3, 0, 0]),
    "scatter": (["scatter", "add", "drop", ["input", 0], ["input", 1], ["input", 0]], [3, -1, -3, 0]),
}
"""Trees of the two inputs X and Y, and what they are, worked out by hand."""


def case(tree: list[Any]) -> dict[str, Any]:
    return {"kind": "loop", "dtype": "int64", "trees": [tree], "calls": [[packed(X), packed(Y)]], "made": []}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_trees_mean(name: str) -> None:
    tree, expected = EXAMPLES[name]
    assert InNumPy().evaluate(tree, [X, Y]).tolist() == expected
    outcome = loop_cases.run(case(tree), HOST)
    assert outcome.faults == []
    assert outcome.runs >= 4


def test_a_wrong_number_of_iterations_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = InNumPy._count
    monkeypatch.setattr(InNumPy, "_count", lambda self, rest, values, wanted: count(self, rest, values, wanted) + 1)
    (fault,) = loop_cases.run(case(EXAMPLES["repeat"][0]), HOST).faults
    assert (fault.where, fault.what) == ("evaluator", "wrong values")


def test_an_update_at_another_position_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ["scatter", "none", "drop", ["input", 0], ["input", 1], ["input", 0]]
    assert loop_cases.run(case(tree), HOST).faults == []
    positions = InNumPy._positions
    monkeypatch.setattr(InNumPy, "_positions", lambda self, places: [at + 1 for at in positions(self, places)])
    assert loop_cases.run(case(tree), HOST).faults


def test_everything_is_drawn() -> None:
    found: set[str] = set()
    for seed in range(60):
        found |= names_in(drawn(Choices(str(seed)), 2))
    assert found >= {"input", "map", "where", "sort", "argsort", "top", "running", "scatter", "take", "repeat", "until", "scan",
                     "cond"}  # fmt: skip
