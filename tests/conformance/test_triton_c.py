"""The examples of the Triton-C reference on every device, against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import each, halved
from .triton_c_cases import CASES

ROOT = Path(__file__).resolve().parents[1] / "data" / "triton_c"
REVERSED = {"get_program_id(axis)": "(get_num_programs(axis) - 1 - get_program_id(axis))"}
"""A macro by which the programs of a grid come in the opposite order."""
EXPENSIVE = frozenset(["e4 float 0", "e4 float 1", "e4 half 0", "e5", "e6", "e9", "e13"])
"""Cases that take the simulator long."""


@functools.cache
def kernel_of(name: str, is_reversed: bool = False) -> jn.kernel.Kernel:
    case = CASES[name]
    return jn.kernel.from_triton_c(ROOT / f"{case.file}.tc", {**case.defines, **(REVERSED if is_reversed else {})})


def check(name: str, run: Callable[[Any, list[Any]], object]) -> None:
    case = CASES[name]
    arguments, expected = case.make(np.random.default_rng(5))
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    run(case.grid, arguments)
    for position, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            continue
        wanted = np.asarray(expected.get(position, before[position])).reshape(argument.shape)
        tolerance = case.tolerance if position in expected else 0
        found, wanted = argument.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in ROOT.glob("*.tc")} == {case.file for case in CASES.values()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    check(name, lambda grid, arguments: kernel_of(name).interpret(grid, *arguments))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str) -> None:
    for threads in (1, 2):
        check(name, lambda grid, arguments: kernel_of(name).launch(grid, *arguments, threads=threads))  # noqa: B023


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "threads"), each(list(CASES), (1, 2)))
def test_the_programs_run_in_any_order(name: str, threads: int) -> None:
    kernel = kernel_of(name, is_reversed=True)
    check(name, lambda grid, arguments: kernel.interpret(grid, *arguments))
    if threads == 2:
        check(name, lambda grid, arguments: kernel.launch(grid, *arguments, threads=threads))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", halved(list(CASES)))
def test_the_sanitizer_finds_nothing(name: str) -> None:
    def run(grid: Any, arguments: list[Any]) -> None:
        report = kernel_of(name).sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    check(name, run)


def _simulated() -> list[Any]:
    cases = []
    for number, name in enumerate(CASES):
        for which, target in enumerate(("sm_80", "sm_90a")):
            is_fast = name not in EXPENSIVE and which == number % 2
            cases.append(pytest.param(name, target, marks=() if is_fast else pytest.mark.slow))
    return cases


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "target"), _simulated())
def test_simulated(name: str, target: str) -> None:
    check(name, lambda grid, arguments: kernel_of(name).launch(grid, *arguments, device="ptxsim", target=target))


@pytest.mark.parametrize("name", halved(list(CASES)))
def test_the_text_of_the_block_ir_is_the_same_kernel(name: str) -> None:
    again = jn.kernel.from_ttir(kernel_of(name).ttir)
    assert again.ttir == kernel_of(name).ttir
