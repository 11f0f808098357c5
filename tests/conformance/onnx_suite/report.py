"""Keeps what passes of ONNX's suite in docs/onnx.json, and writes docs/onnx.md from it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from .cases import GROUPS, Case, Outcome, operators

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "docs" / "onnx.json"
PAGE = ROOT / "docs" / "onnx.md"
NOTE = "<!-- Written by tests/conformance/onnx_suite (make conformance) from docs/onnx.json. Do not edit. -->"
INTRO = """# Models in ONNX: what passes

`jn.from_onnx` ([how it works](design/017-onnx.md)) against the suite that comes with ONNX: models and expected values for every
operator and opset. Each case is imported, compiled for the host and run, and the suite's own runner compares shapes, dtypes and
values (rtol 10⁻³, atol 10⁻⁷). `make conformance` runs them all, in `.venv-onnx`, and writes this page.

- **specialised**: sizes, axes or trip counts come from inputs, which were made constants (`constants=`), with their values.
- **nothing to compute**: the graph has no inputs, because all of them were made constants or the model has none.

Strings, and operations whose sizes the values decide, are computed by NumPy on the host, between compiled parts. Cases with
random numbers fail by design: ONNX names no generator.

A simulated GPU runs a third of the suite (`CONFORMANCE_ARGS='--simulate --every 3'`), without the models of `real`, in
the slow tests. What passes on the host passes there, but for operations that the host computes, which are refused by name."""


def record(found: dict[tuple[str, str], Outcome], versions: dict[str, str]) -> dict[str, Any]:
    """What is kept of a run: every case, under its group, as "operator opset" with marks; and reasons of failures."""
    groups: dict[str, dict[str, str]] = {group: {} for group in GROUPS.values()}
    failed: dict[str, str] = {}
    for group in GROUPS.values():
        inside = {name: result for (of, name), result in found.items() if of == group}
        for name, result, operator in operators(inside):
            marks = " specialised" * result.specialised + " nothing" * (not result.computes)
            groups[group][name] = f"{operator} {result.opset}{marks}"
            if result.reason:
                failed[name] = result.reason
    return {"versions": versions, "groups": groups, "failed": failed}


def page(kept: dict[str, Any]) -> str:
    """The page of a record."""
    failed = kept["failed"]
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    lines = [NOTE, "", INTRO, "", f"Recorded with {versions}.", ""]
    lines += ["| group | cases | passed | of these specialised | nothing to compute |", "|---|---|---|---|---|"]
    totals = [0, 0, 0, 0]
    for group, inside in kept["groups"].items():
        passed = {name: text for name, text in inside.items() if name not in failed}
        numbers = [
            len(inside),
            len(passed),
            sum(" specialised" in t for t in passed.values()),
            sum(" nothing" in t for t in passed.values()),
        ]
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        lines.append(f"| {group} | {' | '.join(map(str, numbers))} |")
    lines += [f"| sum | {' | '.join(map(str, totals))} |", "", "## Operators", ""]
    lines += [
        "Cases of the group `node`: passed, of all, by the model's opset. An operator's definition, expanded, counts for it."
    ]
    lines.append("")
    lines += ["| operator | passed | by opset |", "|---|---|---|"]
    table: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for name, text in kept["groups"]["node"].items():
        operator, opset = text.split()[:2]
        cell = table[operator][int(opset)]
        cell[0] += name not in failed
        cell[1] += 1
    for operator in sorted(table):
        cells = sorted(table[operator].items())
        good, count = (sum(cell[place] for _, cell in cells) for place in (0, 1))
        shown = ", ".join(f"{opset}: {cell[0]}/{cell[1]}" for opset, cell in cells)
        lines.append(f"| {operator} | {good}/{count} | {shown} |")
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in failed.items():
        reasons[reason].append(name)
    lines += ["", "## What does not pass", "", "| reason | cases |", "|---|---|"]
    for reason, names in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"| {reason.replace('|', '/').replace('<', '‹')} | {', '.join(names[:3])}{more} |")
    return "\n".join(lines) + "\n"


def write(kept: dict[str, Any]) -> None:
    """Keep a record, and write its page."""
    RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def kept() -> dict[str, Any]:
    """The record of the last run that was kept."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def changes(before: dict[str, Any], found: dict[tuple[str, str], Outcome]) -> list[str]:
    """Lines on cases that a record says something else of."""
    known = {(group, name) for group, inside in before["groups"].items() for name in inside}
    lines = []
    for (group, name), result in found.items():
        if (group, name) not in known:
            lines.append(f"{group} {name}: not in the record")
        elif bool(result.reason) != (name in before["failed"]):
            lines.append(f"{group} {name}: {result.reason or 'passes, and failed before'}")
    return lines


__all__ = ["PAGE", "RECORD", "Case", "changes", "kept", "page", "record", "write"]
