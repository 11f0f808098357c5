"""Shows a proof as a page of HTML: the verdicts, what refutes them, what was asked and what is trusted.

It is one file, which loads nothing and runs nothing. All texts are escaped: names and lines are those of a stranger's kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from .specify.specification import Specification

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --dim: #5b6475; --paper: #fff; --box: #f4f6f9; --line: #d8dde6;
  --bad: #b3261e; --good: #1b6e3c; --warn: #8a5300 }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ec; --dim: #9aa3b2; --paper: #14171d; --box: #1e232c;
  --line: #363d4a; --bad: #ff8a80; --good: #7fd49b; --warn: #f0b45a } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.6em; margin: 0 } h2 { font-size: 1.25em; margin: 2em 0 .4em } p { margin: .3em 0 }
code, pre { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% } th { font-weight: 600; color: var(--dim) }
td, th { border-bottom: 1px solid var(--line); padding: .25em 1.5em .25em 0; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere } .whole { white-space: nowrap } .dim { color: var(--dim) } .proven { color: var(--good) }
.never-executed { color: var(--dim) } .proven-under, .unknown { color: var(--warn) } .refuted { color: var(--bad) }
pre { background: var(--box); border-radius: 4px; margin: .4em 0; padding: .6em .8em; white-space: pre-wrap }
summary { cursor: pointer; margin: 1em 0 .4em; font-weight: 600 }
"""
_DONE = ("proven", "never executed")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Row(NamedTuple):
    """The verdict on an access. condition, reason, example: what is said of it, as texts; "" for nothing."""

    line: str
    operation: str
    array: str
    verdict: str
    condition: str
    reason: str
    example: str


class Section(NamedTuple):
    """A property, the weakest verdict on it, and those on all accesses."""

    title: str
    verdict: str
    rows: Sequence[Row]


def page_of(
    kernel: str, sections: Sequence[Section], specification: Specification, remarks: tuple[Sequence[str], Sequence[str]],
    example: str, trusted: Iterable[str], made: str,
) -> str:  # fmt: skip
    """Returns the page.

    Args:
        remarks: what the specification fixes, and what is to be looked at.
        example: sizes that the specification allows.
        made: how the proof was found.
    """
    fixed, notes = remarks
    about = f"It fixes <code>{escape(', '.join(fixed))}</code>: nothing is proven of other values." if fixed else ""
    noted = "".join([f"<p class=unknown>{escape(each)}" for each in notes])
    title = f"{escape(kernel)}: " + ", ".join([f"{escape(each.title)} {each.verdict}" for each in sections])
    listed = "".join([f"<li>{escape(each)}" for each in trusted])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f'<meta http-equiv=Content-Security-Policy content="{_POLICY}"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1><code>@{escape(kernel)}</code></h1><p class=dim>Proofs for every launch that the specification describes. {about}"
        f"<h2 id=specification>Specification</h2><pre>{escape(str(specification))}</pre>{noted}"
        f"<p class=dim>as a call: <code>prove({escape(specification.call)})</code>"
        f"<p class=dim>sizes that it allows: <code>{escape(example) or 'none were found'}</code>"
        f"{''.join([_section(each, bool(fixed)) for each in sections])}"
        f"<h2 id=trusted>Trusted</h2><ul>{listed}</ul><p class=dim>{escape(made)}</html>\n"
    )


def _section(section: Section, is_fixed: bool) -> str:
    """Returns the table of a property: what needs a look comes first, what is proven is folded.

    is_fixed: whether sizes are fixed, so that nothing is proven for all.
    """
    head = f"<h2>{escape(section.title)}: <span class={_class(section.verdict)}>{section.verdict}</span></h2>"
    counts = Counter([each.verdict for each in section.rows])
    head += f"<p class=dim>{', '.join([f'{number} {each}' for each, number in counts.items()]) or 'no access'}"
    done = [each for each in section.rows if each.verdict in _DONE]
    rest = [each for each in section.rows if each.verdict not in _DONE]
    text = _table(rest) if rest else ""
    sizes = "these sizes" if is_fixed else "all sizes"
    if done:
        text += f"<details{'' if rest else ' open'}><summary>{len(done)} for {sizes}</summary>{_table(done)}</details>"
    return head + text


def _table(rows: Iterable[Row]) -> str:
    written = [
        f"<tr><td class=whole><code>{escape(each.line)}</code><td class=whole><code>{escape(each.operation)}</code>"
        f"<td><code>{escape(each.array)}</code><td class='whole {_class(each.verdict)}'>{each.verdict}"
        f"<td>{''.join(_details(each))}"
        for each in rows
    ]
    return f"<table><tr><th>line<th>operation<th>array<th>verdict<th>why{''.join(written)}</table>"


def _details(row: Row) -> Iterator[str]:
    if row.condition:
        yield f"<p>if <code>{escape(row.condition)}</code>"
    if row.reason:
        yield f"<p>{escape(row.reason)}"
    if row.example:
        yield f"<pre>{escape(row.example)}</pre>"


def _class(verdict: str) -> str:
    return verdict.replace(" ", "-")


__all__ = ["Row", "Section", "page_of"]
