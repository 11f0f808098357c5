"""A page of HTML with what a test-suite's kernels did: findings with their lines, kernels, and every test.

It is one file, which loads nothing and runs nothing. All texts of the project's are escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from ...proving import Proven
from .excerpts import Excerpt
from .outcomes import CRASHED, Found, Result, counted, gist

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --dim: #5b6475; --paper: #fff; --box: #f4f6f9; --line: #d8dde6;
  --bad: #b3261e; --good: #1b6e3c; --warn: #8a5300; --mark: #fde3e0 }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ec; --dim: #9aa3b2; --paper: #14171d; --box: #1e232c;
  --line: #363d4a;
  --bad: #ff8a80; --good: #7fd49b; --warn: #f0b45a; --mark: #4d2523 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.6em; margin: 0 } h2 { font-size: 1.25em; margin: 2em 0 .4em } h3 { font-size: 1em; margin: 0 }
p { margin: .3em 0 } a { color: inherit } code, pre { font: 13px/1.5 ui-monospace, monospace }
table { border-collapse: collapse } th { font-weight: 600; color: var(--dim) }
td, th { border-bottom: 1px solid var(--line); padding: .25em 1.5em .25em 0; text-align: left; vertical-align: top }
td:last-child, th:last-child { padding-right: 0 } td { overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } .whole { white-space: nowrap }
.tests { width: 100% } .dim { color: var(--dim) } .bad { color: var(--bad) } .good { color: var(--good) }
.warn { color: var(--warn) }
h3 code { font-size: 1em } article { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 4px }
article { margin: 1em 0; padding: .8em 1em }
article.caught { border-left-color: var(--line) }
pre { background: var(--box); border-radius: 4px; margin: .6em 0 0; padding: .6em .8em; overflow-x: auto }
pre.text { white-space: pre-wrap; overflow-wrap: anywhere }
.file { color: var(--dim); font-size: 13px; margin: .7em 0 -.4em; overflow-wrap: anywhere }
.source { padding: .4em 0 } .source span { display: block; min-width: max-content; padding: 0 .8em }
.source i { display: inline-block; width: 3.2em; font-style: normal; color: var(--dim); user-select: none }
.source mark { display: block; min-width: max-content; padding: 0 .8em; color: inherit; background: var(--mark) }
.source mark i { color: var(--bad) } summary { cursor: pointer; margin: 1em 0 .4em; font-weight: 600 }
"""
GUESSED = "as the launches of each kernel suggest them; for all sizes where none is said to be fixed"
"""What proofs of a run of tests are about."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_ORDER = ("failed", CRASHED, "not run", "xpassed", "passed", "xfailed", "skipped")
"""Outcomes in the order in which they are listed; others come first."""
_COLOURS = {"failed": "bad", CRASHED: "bad", "passed": "good", "xpassed": "warn", "not run": "warn"}


def write_page(
    path: str, mode: str, results: Sequence[Result], findings: Sequence[Found], proofs: Collection[Proven] = ()
) -> None:
    """Write the page.

    mode: how launches ran; results: of every test; findings: of all tests, those that they wait for too; proofs: of kernels.
    """
    failing = [each for each in findings if not each.is_expected]
    caught = [each for each in findings if each.is_expected]
    launches = launches_of(results)
    total = launches.total()
    title = f"{counted(len(launches), 'kernel')}, {counted(total, 'launch')}, {counted(len(failing), 'finding')}"
    texts = _articles(failing) or "<p class=good>None."
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f'<meta http-equiv=Content-Security-Policy content="{_POLICY}"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p class=dim>Kernels of Triton, run by joinery without a GPU, mode <code>{escape(mode)}</code>."
        f"{_totals(results)}<h2 id=findings>Findings</h2>{texts}{_proofs(proofs)}"
        f"{_kernels(launches, findings)}{_tests(results)}"
    )
    if caught:
        page += "<h2 id=caught>Findings that tests wait for, and catch</h2>"
        page += f"<details><summary>{counted(len(caught), 'finding')}</summary>{_articles(caught)}</details>"
    Path(path).write_text(f"{page}</html>\n", encoding="utf-8")


def launches_of(results: Iterable[Result]) -> Counter[str]:
    """How often each kernel was launched."""
    found: Counter[str] = Counter()
    for each in results:
        found.update(each.launches or {})
    return found


def remarks_of(proven: Proven) -> list[str]:
    """What is to be known of a proof besides: from how many launches it was guessed, and of how many it says nothing."""
    found = []
    if proven.launches > 1:
        found.append(f"guessed from {proven.launches} launches with different relations between sizes")
    if proven.others:
        found.append(f"says nothing of {counted(proven.others, 'launch')} with other sizes, or with arrays that share memory")
    return found


def _proofs(proofs: Collection[Proven]) -> str:
    """What was proven of each kernel, with the proof to open."""
    if not proofs:
        return ""
    parts = [
        f"<details><summary><code>{escape(each.kernel)}</code>: {escape(each.verdicts)}</summary>"
        f"{''.join(f'<p class=dim>{escape(remark)}' for remark in remarks_of(each))}<pre class=text>{escape(each.text)}</pre>"
        "</details>"
        for each in proofs
    ]
    return f"<h2 id=proofs>Proofs</h2><p class=dim>{GUESSED}.{''.join(parts)}"


def _totals(results: Sequence[Result]) -> str:
    """The table of outcomes."""
    counts = Counter((each.outcome, each.kind) for each in results)
    rows = [
        f"<tr><td class=number>{number}<td class='{_COLOURS.get(outcome, 'dim')}'>{escape(kind)}"
        for (outcome, kind), number in sorted(counts.items(), key=lambda each: (_rank(each[0][0]), each[0][1]))
    ]
    note = ""
    if any(each.outcome == "passed" and not each.launches for each in results):
        note = "<p class=dim>A test that passed without a launch has shown nothing about kernels."
    return f"<h2 id=totals>Outcomes</h2><table><tr><th class=number>tests<th>outcome{''.join(rows)}</table>{note}"


def _kernels(launches: Counter[str], findings: Sequence[Found]) -> str:
    """The table of kernels."""
    failing = Counter(each.kernel for each in findings if not each.is_expected)
    caught = Counter(each.kernel for each in findings if each.is_expected)
    rows = [
        f"<tr><td><code>{escape(name)}</code><td class=number>{number}"
        f"<td class='number{' bad' if failing[name] else ''}'>{failing[name]}<td class=number>{caught[name]}"
        for name, number in sorted(launches.items(), key=lambda each: (-failing[each[0]], each[0]))
    ]
    heads = "".join(f"<th class=number>{each}" for each in ("launches", "findings", "caught"))
    return f"<h2 id=kernels>Kernels</h2><table><tr><th>kernel{heads}{''.join(rows)}</table>"


def _tests(results: Sequence[Result]) -> str:
    """The tests by outcome: those that need a look are open."""
    parts = ["<h2 id=tests>Tests</h2>"]
    in_order = sorted(results, key=lambda each: (_rank(each.outcome), each.kind, each.test))
    for (outcome, kind), group in groupby(in_order, lambda each: (each.outcome, each.kind)):
        rows = [_row(each) for each in group]
        state = "" if outcome in ("passed", "skipped", "xfailed") else " open"
        parts.append(
            f"<details{state}><summary class={_COLOURS.get(outcome, 'dim')}>{len(rows)} {escape(kind)}</summary>"
            f"<table class=tests><tr><th>test<th>launches<th>reason{''.join(rows)}</table></details>"
        )
    return "".join(parts)


def _row(result: Result) -> str:
    launches = "unknown" if result.launches is None else ", ".join(
        f"<span class=whole>{escape(name)}{f' × {number}' if number > 1 else ''}</span>"
        for name, number in sorted(result.launches.items())
    ) or "none"  # fmt: skip
    return f"<tr><td><code>{escape(result.test)}</code><td>{launches}<td>{escape(result.reason)}"


def _articles(findings: Sequence[Found]) -> str:
    """What was found, and where and by which tests: the same finding of several is shown once."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for each in findings:
        groups.setdefault((each.kernel, each.text), []).append(each)
    articles = []
    for (kernel, text), group in groups.items():
        tests = "".join(f"<p class=dim>{escape(test)}" for test in dict.fromkeys(each.test for each in group))
        articles.append(
            f"<article{' class=caught' if group[0].is_expected else ''}><h3><code>{escape(kernel)}</code>: "
            f"{escape(gist(text))}</h3>{tests}{''.join(map(_source, group[0].excerpts))}{_whole(text)}</article>"
        )
    return "".join(articles)


def _whole(text: str) -> str:
    """The text of a finding, if it says more than its head does."""
    return f"<pre class=text>{escape(text)}</pre>" if text.strip() != gist(text) else ""


def _source(excerpt: Excerpt) -> str:
    """Lines of a kernel, one of them marked."""
    lines = []
    for number, line in enumerate(excerpt.lines, excerpt.first):
        tag = "mark" if number == excerpt.marked else "span"
        lines.append(f"<{tag}><i>{number}</i>{escape(line) or ' '}</{tag}>")
    return f"<p class=file>{escape(excerpt.file)}:{excerpt.marked}<pre class=source>{''.join(lines)}</pre>"


def _rank(outcome: str) -> int:
    return _ORDER.index(outcome) if outcome in _ORDER else -1
