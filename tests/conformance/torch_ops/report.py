"""Keeps what passes of PyTorch's own samples of operators in docs/torch_ops.json, and writes docs/torch_ops.md from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "docs" / "torch_ops.json"
PAGE = ROOT / "docs" / "torch_ops.md"
NOTE = "<!-- Written by tests/conformance/torch_ops (make torch-ops) from docs/torch_ops.json. Do not edit. -->"
DTYPES = ("float32", "int64", "bool", "bfloat16")
INTRO = """# Operators of PyTorch: what passes

The back end of `torch.compile` ([guide](guides/torch.md), [how it works](design/020-torch.md)) against PyTorch's own samples
of its core operators (OpInfo): every entry whose operator, or whose gradient's, has the tag "core", with all its samples on the
CPU. A sample **passes** if joinery runs all of it, and values, dtypes and shapes are those of eager PyTorch, as
`torch.testing.assert_close` has it. What PyTorch runs in part does not pass. `make torch-ops` runs them all, in `.venv-doors`,
and writes this page; of a run of one sample in so many, these are chosen by digests of their names.

Left out are entries that draw random numbers, and those whose results have no value (`empty`). Where several elements are
equal, `topk`, and `sort` unless it is stable, may return the position of any of them. Samples of bfloat16 that differ pass if
they are no farther from eager PyTorch's results in float32 than its own results in bfloat16 are."""

Results = Mapping[str, tuple[str, str, str]]
"""By the name of a sample ("entry dtype number"): its operator, what became of it ("passed", …), and why."""


def record(found: Results, counts: Mapping[tuple[str, str], int], versions: dict[str, str]) -> dict[str, Any]:
    """Return what is kept of a run: numbers of samples by entry and dtype, and reasons of those that do not pass.

    counts: how many samples there are, by entry and dtype.
    """
    entries: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    for name, (op, kind, reason) in sorted(found.items()):
        entry, dtype, _ = name.rsplit(" ", 2)
        cell = entries.setdefault(entry, {"op": op}).setdefault(dtype, [0, 0, counts[(entry, dtype)]])
        cell[0] += kind == "passed"
        cell[1] += 1
        if kind != "passed":
            failed[name] = f"{kind}: {reason}"
    return {"versions": versions, "entries": entries, "failed": failed}


def totals(kept: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the samples that pass, that were run, and all, by dtype and together."""
    found = {name: [0, 0, 0] for name in (*DTYPES, "together")}
    for entry in kept["entries"].values():
        for dtype in DTYPES:
            for position, count in enumerate(entry.get(dtype, (0, 0, 0))):
                found[dtype][position] += count
                found["together"][position] += count
    return found


def page(kept: Mapping[str, Any]) -> str:
    """Return the page of a record."""
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    lines = [NOTE, "", INTRO, "", f"Recorded with {versions}.", "", "| dtype | samples | run | passed | share |"]
    lines.append("|---|---|---|---|---|")
    for name, (good, count, every) in totals(kept).items():
        lines.append(f"| {name} | {every} | {count} | {good} | {_share(good, count)} |")
    lines += ["", "## Entries", "", "Samples that pass, of those that were run.", ""]
    lines += [f"| entry | operator | {' | '.join(DTYPES)} |", f"|---|---|{'---|' * len(DTYPES)}"]
    for name, entry in sorted(kept["entries"].items()):
        cells = [f"{entry[dtype][0]}/{entry[dtype][1]}" if dtype in entry else "–" for dtype in DTYPES]
        lines.append(f"| {name} | {entry['op']} | {' | '.join(cells)} |")
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, reason in kept["failed"].items():
        reasons[reason].append(name)
    lines += ["", "## What does not pass", ""]
    if not reasons:
        return "\n".join([*lines, "Nothing."]) + "\n"
    lines += ["| reason | samples |", "|---|---|"]
    for reason, names in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"| {reason[:200].replace('|', '/').replace('<', '‹')} | {', '.join(names[:3])}{more} |")
    return "\n".join(lines) + "\n"


def _share(good: int, count: int) -> str:
    return f"{100 * good / count:.1f} %" if count else "–"


def write(kept: Mapping[str, Any]) -> None:
    """Keep a record, and write its page."""
    RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def kept() -> dict[str, Any]:
    """Return the record of the last run that was kept."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def changes(before: Mapping[str, Any], found: Results) -> list[str]:
    """Return lines on samples that a record says something else of."""
    lines = []
    for name, (_, kind, reason) in found.items():
        entry, dtype, number = name.rsplit(" ", 2)
        if int(number) >= before["entries"].get(entry, {}).get(dtype, (0, 0, 0))[2]:
            lines.append(f"{name}: not in the record")
        elif (kind != "passed") != (name in before["failed"]):
            lines.append(f"{name}: {kind}{': ' * bool(reason)}{reason}{' now' * (kind == 'passed')}")
    return lines


def failures(lines: Iterable[str]) -> bool:
    """Return whether one of the changes is for the worse."""
    return any(not line.endswith("passed now") for line in lines)
