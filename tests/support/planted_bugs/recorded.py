"""Planted bugs as texts that Triton printed, with the arguments of their launches; and what notices them. Needs no Triton.

`record.py` writes them, from the programs in `tests/data/triton_programs/planted_bugs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "data" / "planted_bugs"
GUIDE = ROOT / "docs" / "guides" / "triton.md"
BEGIN, END = "<!-- planted bugs -->\n", "<!-- end of planted bugs -->\n"

MODES: Mapping[str, Mapping[str, Any]] = {
    "interpret": {"interpret": True},
    "ptxsim": {"device": "ptxsim"},
    "native, checked": {"device": "cpu", "check_bounds": True, "threads": 1},
}
"""The modes beside the sanitizer that the guide has a column for: what a launch says. Another one is a column more."""
ENDLESS = {mode: ("lock_never_given_back",) for mode in ("interpret", "native, checked")}
"""By mode: bugs that are not run, since the run would not end."""

FACTS: dict[str, Any] = json.loads((FOLDER / "cases.json").read_text()) if (FOLDER / "cases.json").exists() else {}
NAMES = [name for name, facts in FACTS.items() if "right" in facts]


class Recorded:
    """One bug's recorded launches."""

    def __init__(self, name: str) -> None:
        self.name, self.facts = name, FACTS[name]
        self._data = np.load(FOLDER / "data.npz")

    def kernel(self, is_faulty: bool) -> jn.kernel.Kernel:
        return jn.kernel.from_ttir((FOLDER / self._launch(is_faulty)["text"]).read_text())

    def grid(self, is_faulty: bool) -> tuple[int, ...]:
        return tuple(self._launch(is_faulty)["grid"])

    def arguments(self, is_faulty: bool) -> tuple[list[Any], dict[str, np.ndarray], dict[int, np.ndarray]]:
        """The arguments; the arrays by name; and which bytes of arrays nothing has written, by address."""
        given: list[Any] = []
        arrays: dict[str, np.ndarray] = {}
        unwritten = {}
        for name, value in self._launch(is_faulty)["args"].items():
            if not isinstance(value, dict):
                given.append(value)
            elif "table" in value:
                given.append(jn.PointerTable([self._data[key].copy() for key in value["table"]]))
            else:
                if "same" in value:
                    array = arrays[value["same"]]
                elif "empty" in value:
                    array = np.full(value["empty"], 123, value["dtype"])
                    unwritten[array.__array_interface__["data"][0]] = np.ones(array.nbytes, np.bool_)
                else:
                    array = self._data[value["array"]].copy()
                arrays[name] = array
                given.append(array)
        return given, arrays, unwritten

    def check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raises `AssertionError` unless the arrays hold what the reference says."""
        for name in self.facts["expected"]:
            expected = self._data[f"{self.name}/{name}/expected"]
            np.testing.assert_allclose(arrays[name], expected, rtol=self.facts["tolerance"], atol=self.facts["tolerance"])

    def _launch(self, is_faulty: bool) -> Mapping[str, Any]:
        return self.facts["faulty" if is_faulty else "right"]


def table() -> str:
    """The table of the guide: bug by bug, what notices it."""
    lines = [f"| fault | sanitize | {' | '.join(MODES)} |", f"|---|---|{'---|' * len(MODES)}"]
    for name, facts in FACTS.items():
        rest = " | ".join(facts["noticed"][mode] for mode in MODES)
        lines.append(f"| {name.replace('_', ' ')} | {facts['kind']} | {rest} |")
    return "\n".join(lines) + "\n"
