"""A page of HTML with what a test-suite's kernels did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #1d2433 }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border-bottom: 1px solid #d8dde6; padding: .3em 1em .3em 0; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums } pre { background: #f4f6f9; padding: .8em; overflow-x: auto }
.found { color: #b3261e }
"""


def write_report(
    path: str, mode: str, tests: Counter[str], launches: Counter[str], findings: Sequence[tuple[str, str, str]]
) -> None:
    """Write the page. tests: by outcome; launches: by kernel; findings: (test, kernel, text)."""
    found = Counter(kernel for _, kernel, _ in findings)
    outcomes = "".join(f"<tr><td class=number>{n}<td>{escape(name)}" for name, n in sorted(tests.items()))
    kernels = "".join(
        f"<tr><td>{escape(name)}<td class=number>{n}<td class='number{' found' if found[name] else ''}'>{found[name]}"
        for name, n in sorted(launches.items())
    )
    texts = "".join(
        f"<h3>{escape(kernel)}</h3><p>{escape(test)}<pre>{escape(text)}</pre>" for test, kernel, text in findings
    )
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Kernels of a test-suite</title><style>{_STYLE}</style>"
        f"<h1>{len(launches)} kernels, {sum(launches.values())} launches, {len(findings)} findings</h1>"
        f"<p>Kernels ran in mode <code>{escape(mode)}</code>."
        f"<h2>Tests</h2><table><tr><th>tests<th>outcome{outcomes}</table>"
        f"<h2>Kernels</h2><table><tr><th>kernel<th>launches<th>findings{kernels}</table>"
        f"<h2>Findings</h2>{texts or '<p>None.'}</html>\n"
    )
    Path(path).write_text(page, encoding="utf-8")
