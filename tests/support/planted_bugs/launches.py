"""Launches planted bugs through Triton, on tensors of torch. Needs both."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import torch
from joinery.lowering.tt.interpret.memory import AccessError
from joinery.runtime.ptxsim.checks.findings import PtxCheckError

PROGRAMS = Path(__file__).resolve().parents[2] / "data" / "triton_programs"
if str(PROGRAMS) not in sys.path:
    sys.path.insert(0, str(PROGRAMS))

from planted_bugs.cases import BUGS, Addresses, Case, Empty, Planted  # noqa: E402

for _each in ("masks", "addresses", "order"):
    importlib.import_module(f"planted_bugs.{_each}")

WRONG, NOTHING = "wrong values", "–"


def tensors(args: Mapping[str, Any], is_sanitized: bool) -> tuple[dict[str, Any], list[Any]]:
    """The arguments as tensors, and what else must live until the kernel has run.

    Memory that nothing has written is zero unless the launch is sanitized: as fresh pages are, which hides the fault.
    """
    found: dict[str, Any] = {}
    alive: list[Any] = []
    for name, value in args.items():
        if isinstance(value, Empty):
            make = torch.empty if is_sanitized else torch.zeros
            found[name] = make(value.shape, dtype=getattr(torch, value.dtype))
        elif isinstance(value, Addresses):
            behind = [torch.from_numpy(array.copy()) for array in value.arrays]
            found[name] = torch.tensor([each.data_ptr() for each in behind])
            alive += [each for i, each in enumerate(behind) if i not in value.stale]
            behind.clear()
        elif isinstance(value, np.ndarray):
            found[name] = torch.from_numpy(value.copy())
        else:
            found[name] = found[value] if isinstance(value, str) else value
    return found, alive


def launch(bug: Planted, is_faulty: bool, **options: Any) -> str:
    """Launch a kernel and compare: `WRONG`, or `NOTHING` for the values of the reference. Raises what the launch raises."""
    case = bug.make()
    grid, args, constexprs = case.launch(is_faulty)
    given, alive = tensors(args, "sanitize" in options)
    case.kernel[grid](*given.values(), **constexprs, **options)
    del alive
    return NOTHING if _agrees(case, given) else WRONG


def noticed(bug: Planted, **options: Any) -> str:
    """What a mode other than the sanitizer makes of the fault: "error", or as `launch` says."""
    try:
        return launch(bug, True, **options)
    except (AccessError, PtxCheckError):
        return "error"


def found(bug: Planted) -> tuple[jn.kernel.Finding, ...]:
    """What the sanitizer finds in the launch with the fault."""
    try:
        launch(bug, True, sanitize=True)
    except jn.SanitizerError as error:
        return error.findings
    return ()


def _agrees(case: Case, given: Mapping[str, Any]) -> bool:
    tolerance = case.tolerance
    return all(
        np.allclose(given[name].numpy(), expected, rtol=tolerance, atol=tolerance) for name, expected in case.expected.items()
    )


__all__ = ["BUGS", "NOTHING", "PROGRAMS", "WRONG", "found", "launch", "noticed", "tensors"]
