"""Kernels as they were written from 2019 to 2021: full of macros, careless about attributes. On every device, against NumPy."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.tiers import halved
from . import contractions, elements, layers, products, reductions, sparse
from .cases import KERNELS

ROOT = Path(__file__).resolve().parents[2] / "data" / "triton_c_kernels"
REVERSED = {"get_program_id(axis)": "(get_num_programs(axis) - 1 - get_program_id(axis))"}
MODULES = (contractions, elements, layers, products, reductions, sparse)
NAMES = list(KERNELS)


@functools.cache
def kernel_of(name: str, is_reversed: bool = False) -> jn.kernel.Kernel:
    case = KERNELS[name]
    defines = {**case.defines, **(REVERSED if is_reversed else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jn.TritonCWarning)  # outputs that are marked __readonly
        return jn.kernel.from_triton_c(ROOT / f"{case.file}.tc", defines, name=case.name or None)


def check(name: str, run: Callable[[Any, list[Any]], object]) -> None:
    case = KERNELS[name]
    arguments, expected = case.make(np.random.default_rng(7))
    before = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    run(case.grid, arguments)
    for position, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            continue
        wanted = np.asarray(expected.get(position, before[position])).reshape(argument.shape).astype(np.float64)
        tolerance = case.tolerance if position in expected else 0
        found = np.where(np.isnan(wanted), np.nan, argument.astype(np.float64))
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=f"argument {position}")


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in ROOT.glob("*.tc")} == {case.file for case in KERNELS.values()}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", NAMES)
def test_interpreted(name: str) -> None:
    check(name, lambda grid, arguments: kernel_of(name).interpret(grid, *arguments))


@pytest.mark.one_in(30)
@pytest.mark.parametrize("name", halved(NAMES))
def test_on_the_host(name: str) -> None:
    for threads in (2, 1):
        check(name, lambda grid, arguments: kernel_of(name).launch(grid, *arguments, threads=threads))  # noqa: B023


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_programs_run_in_any_order(name: str) -> None:
    kernel = kernel_of(name, is_reversed=True)
    check(name, lambda grid, arguments: kernel.interpret(grid, *arguments))
    for threads in (1, 2):
        check(name, lambda grid, arguments: kernel.launch(grid, *arguments, threads=threads))  # noqa: B023


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if KERNELS[name].is_checked])
def test_the_sanitizer_finds_nothing(name: str) -> None:
    def run(grid: Any, arguments: list[Any]) -> None:
        report = kernel_of(name).sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    check(name, run)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_simulated(name: str, target: str) -> None:
    check(name, lambda grid, arguments: kernel_of(name).launch(grid, *arguments, device="ptxsim", target=target))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_the_block_ir_is_the_same_kernel(name: str) -> None:
    again = jn.kernel.from_ttir(kernel_of(name).ttir)
    assert again.ttir == kernel_of(name).ttir
