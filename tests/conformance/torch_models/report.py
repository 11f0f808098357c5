"""Keeps what runs of PyTorch's models in docs/torch_models.json, and writes docs/torch_models.md from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .times import last, section

ROOT = Path(__file__).resolve().parents[3]
RECORD = ROOT / "docs" / "torch_models.json"
PAGE = ROOT / "docs" / "torch_models.md"
MODES = ("inference", "training", "export")
NOTE = "<!-- Written by tests/conformance/torch_models (make torch-models) from docs/torch_models.json. Do not edit. -->"
INTRO = """# Models of PyTorch: what runs

Small models of many architectures with random weights ([guide](guides/torch.md)), compared with eager PyTorch: results of
`torch.compile(model, backend="joinery")`, gradients of a step of training, and results of the exported graph, which runs
without PyTorch. The bound of errors is that of float32, or bfloat16, through 30 layers, and eight times that for gradients.
`make torch-models` runs them all, in `.venv-doors`, and writes this page.

Dynamo makes graphs of recurrent networks only with `torch._dynamo.config.allow_rnn = True`, which was set for them, and of
their training only without `torch.backends.mkldnn`: PyTorch's own back ends fail there as well.

A cell has the share of operators that run in joinery, and their number after PyTorch has taken composites apart: all of a
step's forward and backward graphs for training, and the operators of the exported program, which are whole or refused. What
PyTorch runs is named below."""


def record(found: Mapping[tuple[str, str], Any], versions: dict[str, str]) -> dict[str, Any]:
    """Return what is kept of a run."""
    models: dict[str, dict[str, Any]] = {}
    for (name, mode), result in sorted(found.items()):
        entry: dict[str, Any] = {"nodes": result.nodes, "compiled": result.compiled, "graphs": result.graphs}
        if result.left:
            entry["left"] = list(result.left)
        if result.problem:
            entry["problem"] = result.problem
        models.setdefault(name, {})[mode] = entry
    return {"versions": versions, "models": models}


def is_whole(entry: Mapping[str, Any]) -> bool:
    """Return whether all operators run in joinery, with PyTorch's results."""
    return bool(entry["nodes"]) and entry["compiled"] == entry["nodes"] and "problem" not in entry


def is_counted(entry: Mapping[str, Any]) -> bool:
    """Return whether a model has this mode."""
    return "inference alone" not in entry.get("problem", "")


def _cell(entry: Mapping[str, Any]) -> str:
    if not is_counted(entry):
        return "–"
    if not entry["nodes"]:
        return "no graph" if not entry.get("problem") else "refused"
    share = 100 * entry["compiled"] / entry["nodes"]
    text = f"{share:.0f} % of {entry['nodes']}" if share in (0, 100) else f"{share:.1f} % of {entry['nodes']}"
    return f"{text}, differs" if entry.get("problem") else text


def page(kept: Mapping[str, Any], times: Sequence[str] = ()) -> str:
    """Return the page of a record, with the lines of its section on times."""
    models = kept["models"]
    versions = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    lines = [NOTE, "", INTRO, "", f"Recorded with {versions}.", ""]
    wholes = [sum(is_whole(entry[mode]) for entry in models.values()) for mode in MODES]
    counts = [sum(is_counted(entry[mode]) for entry in models.values()) for mode in MODES]
    shown = [f"{whole} of {count}" for whole, count in zip(wholes, counts, strict=True)]
    lines += [f"| model | {' | '.join(MODES)} |", f"|---|{'---|' * len(MODES)}"]
    lines.append(f"| **whole** | {' | '.join(shown)} |")
    for name, modes in sorted(models.items()):
        lines.append(f"| {name} | {' | '.join(_cell(modes[mode]) for mode in MODES)} |")
    rest = [(name, mode, entry) for name, modes in sorted(models.items()) for mode, entry in modes.items()
            if is_counted(entry) and not is_whole(entry)]  # fmt: skip
    lines += ["", *times, "## What is not whole", ""]
    if not rest:
        return "\n".join([*lines, "Nothing."]) + "\n"
    lines += ["| model | mode | PyTorch runs | |", "|---|---|---|---|"]
    for name, mode, entry in rest:
        problem = entry.get("problem", "")[:300].replace("|", "/").replace("<", "‹")
        if not problem and not entry["nodes"]:
            problem = "Dynamo makes no graph of it"
        lines.append(f"| {name} | {mode} | {', '.join(entry.get('left', []))} | {problem} |")
    return "\n".join(lines) + "\n"


def write(kept: Mapping[str, Any]) -> None:
    """Keep a record, and write its page."""
    RECORD.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept, section(last())), encoding="utf-8")


def kept() -> dict[str, Any]:
    """Return the record of the last run that was kept."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def changes(before: Mapping[str, Any], found: Mapping[tuple[str, str], Any]) -> list[str]:
    """Return lines on models of which less runs in joinery than a record says, or that differ."""
    lines: list[str] = []
    now = record(found, {})["models"]
    for name, modes in now.items():
        for mode, entry in modes.items():
            known = before["models"].get(name, {}).get(mode)
            if known is None:
                lines.append(f"{name} {mode}: not in the record")
            elif is_whole(known) and not is_whole(entry):
                lines.append(f"{name} {mode}: {entry.get('problem') or 'PyTorch runs ' + ', '.join(entry.get('left', []))}")
    return lines


