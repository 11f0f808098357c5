"""Records the planted bugs, as texts, arguments and what notices them, and writes the table of the guide.

Needs Triton and torch: `.venv-doors/bin/python -m pytest tests/support/planted_bugs/record.py`. (It is no test, and so is not
found by one that looks for tests; pytest puts its folder where its imports look.)
"""

from __future__ import annotations

import json
import re
from typing import Any

import joinery.triton
import numpy as np

from . import recorded
from .launches import BUGS, noticed, tensors
from .recorded import BEGIN, END, ENDLESS, FOLDER, GUIDE, MODES

FOLDERS = re.compile(r'"/[^"]*/(planted_bugs/|(?=triton/language/))')
"""What stands in front of names of files: where this machine has them."""


def test_record() -> None:
    joinery.triton.enable()
    data: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    for old in FOLDER.glob("*.ttir"):
        old.unlink()
    for name, bug in BUGS.items():
        case = bug.make()
        entry = facts[name] = {
            "about": bug.about, "kind": bug.kind, "line": f"{bug.file}:{bug.line}", "program": bug.program,
            "noticed": {m: "does not end" if name in ENDLESS.get(m, ()) else noticed(bug, **MODES[m]) for m in MODES},
        }  # fmt: skip
        if not bug.is_recorded:
            continue
        for kind, is_faulty in (("right", False), ("faulty", True)):
            grid, args, constexprs = case.launch(is_faulty)
            given, _ = tensors(args, False)
            compiled = case.kernel.warmup(*given.values(), grid=grid, **constexprs)
            text = FOLDERS.sub('"', compiled.asm["ttir"])
            parameters = [each for each, type_ in compiled.src.signature.items() if type_ != "constexpr"]
            file = FOLDER / f"{name}.ttir"
            if is_faulty and file.read_text() != text:
                file = FOLDER / f"{name}.faulty.ttir"
            file.write_text(text)
            written = {each: _written(name, kind, each, args[each], data) for each in parameters}
            entry[kind] = {"text": file.name, "grid": grid, "args": written}
        entry |= {"expected": list(case.expected), "tolerance": case.tolerance}
        data |= {f"{name}/{each}/expected": value for each, value in case.expected.items()}
    np.savez_compressed(FOLDER / "data.npz", **data)
    (FOLDER / "cases.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    recorded.FACTS.clear()
    recorded.FACTS.update(json.loads((FOLDER / "cases.json").read_text()))
    before, rest = GUIDE.read_text(encoding="utf-8").split(BEGIN)
    GUIDE.write_text(before + BEGIN + recorded.table() + END + rest.split(END)[1], encoding="utf-8")


def _written(bug: str, kind: str, name: str, value: Any, data: dict[str, np.ndarray]) -> Any:
    """An argument as JSON, its arrays in `data`."""
    from planted_bugs.cases import Addresses, Empty

    if isinstance(value, Empty):
        return {"empty": value.shape, "dtype": value.dtype}
    if isinstance(value, str):
        return {"same": value}
    if isinstance(value, Addresses):
        keys = [f"{bug}/{name}/{i}" for i in range(len(value.arrays))]
        data.update(zip(keys, value.arrays, strict=True))
        return {"table": keys}
    if isinstance(value, np.ndarray):
        key = f"{bug}/{name}"
        if key in data and not np.array_equal(data[key], value):
            key = f"{bug}/{name}/{kind}"
        data[key] = value
        return {"array": key}
    return value
