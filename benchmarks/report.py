"""Writes a result file as a page: Markdown tables, and HTML with bars of the ratios and the shares of the limit.

python benchmarks/report.py benchmarks/results/FILE.json              # FILE.md and FILE.html in out/bench
python benchmarks/report.py FILE.json --folder DIR

A bar is joinery's time over a peer's: 1 is the line in the middle, shorter is faster; the whisker is the 95 % confidence
interval. The roofline has the limit's rate (bandwidth or operations) at 1 and each case at the share of it that joinery
reaches.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compare import interval
from harness import LIMIT, format_seconds

ROOT = Path(__file__).resolve().parents[1]
ROW, LEFT, WIDTH = 18, 300, 420
SPAN = 8.0
"""The ratio at the right end of the bars; its reciprocal is at the left one."""
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .2rem .7rem; border-bottom: 1px solid #d9dde2;
text-align: left } td.n { text-align: right; font-variant-numeric: tabular-nums } svg text { font: 12px system-ui,
sans-serif; fill: #1b1f24 } .fast { fill: #2f7d4f } .slow { fill: #b4462f } .line { stroke: #6b7480; stroke-width: 1 }
.grid { stroke: #d9dde2 }
"""


def rows_of(content: Mapping[str, Any]) -> list[tuple[str, str, float, tuple[float, float], float, float]]:
    """Return the case, the peer, the ratio and its interval, and both medians in seconds, for each pair of joinery and
    a peer."""
    found = []
    for case in content["cases"]:
        for pair, ratio in case["ratios"].items():
            ours, _, peer = pair.rpartition(" / ")
            if ours.startswith("joinery") and peer != LIMIT:
                name = case["name"] if ours == "joinery" else f"{case['name']} [{ours}]"
                times = (case["timings"][each]["median_s"] for each in (ours, peer))
                found.append((name, peer, ratio["median"], interval(ratio), *times))
    return found


def shares(content: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Return for each case with a limit what the limit is, and the share of it that joinery reaches."""
    found = []
    for case in content["cases"]:
        ratio = case["ratios"].get(f"joinery / {LIMIT}")
        if ratio is not None:
            found.append((case["name"], case["limit_reason"], 1 / ratio["median"]))
    return found


def means(content: Mapping[str, Any]) -> dict[str, tuple[float, int, list[str]]]:
    """Return for each peer, and the best one of each case, the geometric mean of the ratios, their count and the slower
    cases."""
    groups: dict[str, dict[str, float]] = {}
    for name, peer, ratio, _, _, _ in rows_of(content):
        groups.setdefault(peer, {})[name] = ratio
        best = groups.setdefault("the best of them", {})
        best[name] = max(ratio, best.get(name, 0.0))
    return {
        peer: (
            math.exp(statistics.fmean(map(math.log, ratios.values()))), len(ratios),
            [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > 1],
        )
        for peer, ratios in groups.items()
    }  # fmt: skip


def facts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the run was made with."""
    processor = content.get("processor", {})
    versions = ", ".join(
        f"{name} {version}" for name, version in content.get("versions", {}).items() if version != "absent"
    )
    found = [("date", content["date"]), ("processor", processor.get("model name", "")),
             ("threads", str(content.get("threads", ""))),
             ("versions", versions)]  # fmt: skip
    if "load_average" in content:
        found.append(
            (
                "load before and after",
                f"{content['load_average']['before']}, {content['load_average']['after']}",
            )
        )
    return [(name, value) for name, value in found if value]


def markdown(content: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    lines = ["# Benchmark", "", *(f"- {name}: {value}" for name, value in facts(content)), "", "## Means", "",
             "| joinery's time over that of | geometric mean | cases | slower in |", "| --- | ---: | ---: | --- |"]  # fmt: skip
    for peer, (mean, count, slower) in means(content).items():
        lines.append(f"| {peer} | {mean:.2f} | {count} | {', '.join(slower) or 'none'} |")
    lines += [
        "",
        "## Cases",
        "",
        "| case | peer | joinery | peer's time | ratio | 95 % |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, peer, ratio, (low, high), ours, theirs in rows_of(content):
        times = f"{format_seconds(ours)} | {format_seconds(theirs)}"
        lines.append(f"| {name} | {peer} | {times} | {ratio:.2f} | {low:.2f}–{high:.2f} |")
    limits = shares(content)
    if limits:
        lines += [
            "",
            "## Share of the machine's limit",
            "",
            "| case | limit | share |",
            "| --- | --- | ---: |",
        ]
        lines += [f"| {name} | {reason} | {share:.0%} |" for name, reason, share in limits]
    return "\n".join(lines) + "\n"


def position(ratio: float) -> float:
    """Return where a ratio is drawn: logarithmic, from 1/SPAN to SPAN."""
    share = math.log(min(max(ratio, 1 / SPAN), SPAN)) / math.log(SPAN)
    return LEFT + WIDTH * (share + 1) / 2


def bars(rows: Sequence[tuple[str, str, float, tuple[float, float], float, float]]) -> str:
    """Return a drawing of ratios: a bar from 1 for each, with its interval."""
    height = ROW * (len(rows) + 2)
    parts = [f'<svg role="img" aria-label="ratios" width="{LEFT + WIDTH + 70}" height="{height}">']
    for tick in (0.125, 0.25, 0.5, 1, 2, 4, 8):
        x = position(tick)
        kind = "line" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{ROW}" y2="{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="{ROW - 5}" text-anchor="middle">{tick:g}</text>')
    for index, (name, peer, ratio, (low, high), _, _) in enumerate(rows):
        y = ROW * (index + 1) + 4
        ends = sorted((position(1), position(ratio)))
        kind = "fast" if ratio <= 1 else "slow"
        middle = y + ROW / 2 - 3
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{html.escape(name)} / {html.escape(peer)}</text>',
            f'<rect class="{kind}" x="{ends[0]:.1f}" y="{y}" width="{max(ends[1] - ends[0], 1):.1f}" height="{ROW - 6}"/>',
            f'<line class="line" x1="{position(low):.1f}" x2="{position(high):.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text x="{LEFT + WIDTH + 8}" y="{y + 11}">{ratio:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def roofline(limits: Sequence[tuple[str, str, float]]) -> str:
    """Return a drawing of the shares of the limit."""
    height = ROW * (len(limits) + 2)
    parts = [
        f'<svg role="img" aria-label="share of the limit" width="{LEFT + WIDTH + 70}" height="{height}">'
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = LEFT + WIDTH * tick
        kind = "line" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{ROW}" y2="{height}"/>')
        parts.append(f'<text x="{x:.1f}" y="{ROW - 5}" text-anchor="middle">{tick:.0%}</text>')
    for index, (name, _, share) in enumerate(limits):
        y = ROW * (index + 1) + 4
        kind = "fast" if share >= 0.9 else "slow"
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{WIDTH * min(share, 1.1):.1f}" height="{ROW - 6}"/>',
            f'<text x="{LEFT + WIDTH * min(share, 1.1) + 6:.1f}" y="{y + 11}">{share:.0%}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def page(content: Mapping[str, Any]) -> str:
    """Return the page in HTML; it needs no other file."""
    listed = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in facts(content)
    )
    means_rows = "".join(
        f'<tr><td>{html.escape(peer)}</td><td class="n">{mean:.2f}</td><td class="n">{count}</td>'
        f"<td>{html.escape(', '.join(slower) or 'none')}</td></tr>"
        for peer, (mean, count, slower) in means(content).items()
    )
    headings = "".join(f"<th>{each}</th>" for each in ("joinery's time over that of", "geometric mean", "cases", "slower in"))
    limits = shares(content)
    sections = [
        f"<table>{listed}</table>",
        f"<h2>Means</h2><table><tr>{headings}</tr>{means_rows}</table>",
        f"<h2>Ratios</h2><p>Joinery's time over the peer's: left of 1 joinery is faster.</p>{bars(rows_of(content))}",
        f"<h2>Share of the machine's limit</h2>{roofline(limits)}" if limits else "",
    ]
    head = (
        f'<meta charset="utf-8"><title>Benchmark {html.escape(content["date"])}</title><style>{STYLE}</style>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>Benchmark</h1>{"".join(sections)}</body></html>\n'


def write(path: Path, folder: Path) -> tuple[Path, Path]:
    """Write both pages of a result file into a folder, and return their paths."""
    content = json.loads(path.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    text, drawn = folder / f"{path.stem}.md", folder / f"{path.stem}.html"
    text.write_text(markdown(content))
    drawn.write_text(page(content))
    return text, drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "bench", help="default: out/bench")
    options = parser.parse_args()
    for path in write(options.result, options.folder):
        print(path)


if __name__ == "__main__":
    main()
