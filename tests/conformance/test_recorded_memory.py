"""The TTIR corpus: kernels as Triton printed them, run from their text and compared with recorded memory.

Cases that this version does not run are listed, and must be refused by name, never answered wrongly.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import joinery as jn
import pytest

from ..support.corpus import CASES, WITH_DATA, Case, read, run
from ..support.tiers import both_tiers, share

PTXAS = shutil.which("ptxas")
ASSEMBLED = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 149


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    run(name, lambda kernel, grid, arguments: kernel.interpret(grid, *arguments))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", CASES)
def test_the_sanitizer_finds_nothing_and_computes_the_same(name: str) -> None:
    def launch(kernel: Any, grid: Any, arguments: Any) -> None:
        report = kernel.sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    run(name, launch)


@pytest.mark.one_in(36)
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str) -> None:
    """By one kernel, on one thread and on two."""
    kernels: list[Any] = []

    def launch(threads: int, kernel: Any, grid: Any, arguments: Any) -> None:
        kernels.append(kernel)
        kernels[0].launch(grid, *arguments, threads=threads)

    for threads in (1, 2):
        run(name, partial(launch, threads))


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", CASES)
def test_text_survives_printing_and_reading(name: str) -> None:
    text, entry = read(name).ttir, Case(name).facts["entry"]
    assert jn.kernel.from_ttir(text, name=entry).ttir == text


def on_a_simulated_gpu(name: str, target: str, kernel: jn.kernel.Kernel | None = None) -> None:
    """The PTX, interpreted under the strictest checks: bounds, undefined values, races."""
    options = {"device": "ptxsim", "target": target, "sanitize": True}
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, **options), gpu=True, kernel=kernel)


HAS_BOTH = ("tt.dot", "tensordesc", "tt.atomic", "cp.async", "tt.descriptor")
"""What the two targets have instructions of their own for: texts with it are tried on both."""


def on_one_or_both() -> list[Any]:
    """Every case with both targets. Fast are those with both that differ between them, and half of the rest with one."""
    found = []
    for i, name in enumerate(WITH_DATA):
        is_both = any(what in Case(name).text for what in HAS_BOTH)
        for j, target in enumerate(("sm_80", "sm_90a")):
            found.append(pytest.param(name, target, marks=() if is_both or i % 6 == 3 * j else pytest.mark.slow))
    return found


@pytest.mark.one_in(45)
@pytest.mark.parametrize(("name", "target"), on_one_or_both())
def test_on_a_simulated_gpu(name: str, target: str) -> None:
    on_a_simulated_gpu(name, target)


WITH_LIBRARY_FUNCTIONS = [name for name in WITH_DATA if "tt.extern_elementwise" in Case(name).text]


@pytest.mark.parametrize("name", WITH_LIBRARY_FUNCTIONS)
def test_with_our_own_library_functions_on_a_simulated_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_LIBDEVICE", "none")
    case = Case(name)
    on_a_simulated_gpu(name, "sm_80", jn.kernel.from_ttir(case.text, name=case.facts["entry"]))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_86", "sm_89", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", WITH_DATA)
def test_on_other_simulated_gpus(name: str, target: str) -> None:
    on_a_simulated_gpu(name, target)


@pytest.mark.one_in(4)
@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("target", ASSEMBLED)
@both_tiers
def test_the_assembler_takes_it(target: str, tmp_path: Path, in_full: bool) -> None:
    """All of the corpus: fast, a part of it for each target."""
    refused = []
    for name in share(CASES, ASSEMBLED.index(target), 4 * len(ASSEMBLED), in_full):
        file = tmp_path / f"{name}.ptx"
        file.write_text(read(name).ptx(target))
        command = [PTXAS, "-arch", target, "-v", "-o", str(tmp_path / "out.cubin"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or "(C75" in done.stderr:
            refused.append(f"{name}: {done.stderr[:300]}")
    assert not refused, "\n".join(refused)
