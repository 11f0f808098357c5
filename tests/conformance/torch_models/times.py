"""Writes the table of times of PyTorch's models from the last run of `make bench-torch` that had all of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
MIN_CASES = 10
"""A run of fewer models is one of some that were named."""
_PEERS = ("eager", "inductor")
_INTRO = """## Times

Larger models with random weights, `make bench-torch`, two threads: medians of the ratios of rounds, below 1 is faster. First
calls are those of new processes with empty caches, in seconds; in brackets, with what the process before left in them.
`torch._dynamo.config.allow_rnn = True` is set: otherwise PyTorch runs recurrent layers without any back end."""


def last() -> tuple[str, Mapping[str, Any]] | None:
    """Return the name and the content of the last record of all models and peers."""
    for path in sorted(RESULTS.glob("*-torch-models.json"), reverse=True):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cases = content["cases"]
        if len(cases) >= MIN_CASES and all(f"joinery / {peer}" in case["ratios"] for case in cases for peer in _PEERS):
            return path.name, content
    return None


def section(found: tuple[str, Mapping[str, Any]] | None) -> list[str]:
    """Return the lines of the page on a record: times of calls as parts of a peer's, and first calls in seconds."""
    if found is None:
        return []
    name, content = found
    processor, version = content["processor"], content["versions"]["torch"]
    machine = f"{processor.get('model name', processor['machine'])}, family {processor.get('cpu family', 'unknown')}"
    lines = [
        _INTRO,
        f"[Record](../benchmarks/results/{name}) of {content['date'][:10]}, torch {version}, {machine}.",
        "",
        "| model | joinery, ms | of eager's time | of inductor's time | first call | inductor's |",
        "|---|---|---|---|---|---|",
    ]
    for case in content["cases"]:
        median = 1e3 * case["timings"]["joinery"]["median_s"]
        parts = [f"{case['ratios'][f'joinery / {peer}']['median']:.2f}" for peer in _PEERS]
        calls = content["first_calls"].get(case["name"], {})
        firsts = [_first(calls.get(backend)) for backend in ("joinery", "inductor")]
        lines.append(f"| {' | '.join([case['name'], f'{median:.3g}', *parts, *firsts])} |")
    return [*lines, ""]


def _first(calls: Mapping[str, list[float]] | None) -> str:
    if calls is None:
        return ""
    return f"{statistics.median(calls['cold']):.1f} ({statistics.median(calls['warm']):.1f})"
