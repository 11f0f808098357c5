"""Kernels as Triton 3.9 printed them (locations left out), against NumPy: the modules `numpy_cases_…` have a formula for each.
Names that end in `_raw` are texts before any pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import each
from . import numpy_cases_memory, numpy_cases_products, numpy_cases_reductions  # noqa: F401  (register their cases)
from .numpy_cases import CASES, F64

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir_numpy"


def memory(arguments: list[Any]) -> list[np.ndarray]:
    """Copies of the arguments' arrays."""
    found = []
    for argument in arguments:
        arrays = argument.arrays if isinstance(argument, jn.PointerTable) else [argument]
        found += [array.copy() for array in arrays if isinstance(array, np.ndarray)]
    return found


def check(name: str, run: Callable[[jn.kernel.Kernel, Any, list[Any]], object]) -> None:
    grid, tolerance, make = CASES[name]
    arguments, expected = make(np.random.default_rng(11))
    wanted = []
    for argument, result in zip(arguments, expected, strict=True):
        if isinstance(argument, jn.PointerTable):
            wanted += result
        elif isinstance(argument, np.ndarray):
            wanted.append(argument.copy() if result is None else np.array(result))
    run(jn.kernel.from_ttir((ROOT / f"{name}.ttir").read_text()), grid, arguments)
    found = memory(arguments)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        one, other = one.astype(F64), other.astype(one.dtype).astype(F64)
        np.testing.assert_allclose(one, other.reshape(one.shape), rtol=tolerance, atol=tolerance)


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in ROOT.glob("*.ttir")} == set(CASES)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    check(name, lambda kernel, grid, arguments: kernel.interpret(grid, *arguments))


@pytest.mark.one_in(32)
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str) -> None:
    for threads in (1, 2):
        check(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, threads=threads))  # noqa: B023


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_the_sanitizer_finds_nothing(name: str) -> None:
    def run(kernel: jn.kernel.Kernel, grid: Any, arguments: list[Any]) -> None:
        report = kernel.sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    check(name, run)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CASES)
def test_text_survives_printing_and_reading(name: str) -> None:
    kernel = jn.kernel.from_ttir((ROOT / f"{name}.ttir").read_text())
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


@pytest.mark.one_in(54)
@pytest.mark.parametrize(("name", "target"), each(sorted(CASES), ["sm_80", "sm_90a"]))
def test_on_a_simulated_gpu(name: str, target: str) -> None:
    options = {"device": "ptxsim", "target": target, "sanitize": True}
    check(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, **options))
