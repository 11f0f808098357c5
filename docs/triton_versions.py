"""Writes docs/triton_versions.md: what was tried with which version of Triton, and what came out.

python docs/triton_versions.py           writes the page from triton_versions.json
python docs/triton_versions.py FILE…     takes new outcomes first: what tests/data/triton_features/run.py printed
                                         (`make triton-versions` runs it with every version)

Exits with 1 when something that was tried fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
PAGE, RECORD = DOCS / "triton_versions.md", DOCS / "triton_versions.json"
NOTE = "<!-- Written by docs/triton_versions.py (make docs) from triton_versions.json (make triton-versions). Do not edit. -->"
INTRO = """# Versions of Triton

What [Triton programs](guides/triton.md) on joinery use of Triton, version by version. Every cell was computed:
[features](../tests/data/triton_features/run.py) launch kernels in the modes of the second column, or start processes, and
compare with torch or NumPy. `make triton-versions` tries all of them anew, each version in an environment of its own;
`make test-doors` compares those of one version with this table. What joinery does about the differences is in its
[design](design/014-triton.md#versions-of-triton).

**–** is what this version of Triton does not have itself. Numbers lead to the notes below.
"""

Outcomes = Mapping[str, Mapping[str, str]]
"""Version → feature → outcome."""


def by_age(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def take(record: dict[str, dict[str, Any]], texts: Sequence[str]) -> None:
    """Put what the program of features printed into the record."""
    for text in texts:
        found = json.loads(text)
        record[found["triton"]] = {key: found[key] for key in ("with", "modes", "features")}


def cell(outcome: str, notes: list[str]) -> str:
    """A cell of the table. Its note is added to the notes, unless they have it."""
    kind, _, note = outcome.partition(": ")
    shown = {"works": "yes", "absent": "–", "fails": "**fails**"}[kind]
    if not note:
        return shown
    if note not in notes:
        notes.append(note)
    return f"{shown} ({notes.index(note) + 1})"


def lines(record: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The page."""
    versions = sorted(record, key=by_age)
    outcomes: Outcomes = {version: record[version]["features"] for version in versions}
    notes: list[str] = []
    yield NOTE
    yield ""
    yield INTRO
    yield f"| feature | modes | {' | '.join(versions)} |"
    yield f"| --- | --- |{' --- |' * len(versions)}"
    for name in outcomes[versions[-1]]:
        cells = [cell(outcomes[version].get(name, "absent: not tried"), notes) for version in versions]
        modes = record[versions[-1]]["modes"][name]
        yield f"| {name} | {'all' if len(modes) == 4 else ', '.join(modes)} | {' | '.join(cells)} |"
    yield ""
    for number, note in enumerate(notes, 1):
        yield f"{number}. {note}"
    yield ""
    together: dict[str, list[str]] = {}
    for version in versions:
        together.setdefault(str(record[version]["with"]), []).append(version)
    for beside, tried in together.items():
        yield f"Tried with {beside}: Triton {', '.join(tried)}."


def page(record: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(lines(record)) + "\n"


def main(files: Sequence[str]) -> int:
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    take(record, [Path(file).read_text(encoding="utf-8") for file in files])
    record = {version: record[version] for version in sorted(record, key=by_age)}
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(record), encoding="utf-8")
    failed = [
        f"{version}: {name}: {outcome}"
        for version, found in record.items()
        for name, outcome in found["features"].items()
        if outcome.startswith("fails")
    ]
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
