"""The TTIR corpus: kernels as Triton printed them, run from their text and compared with recorded memory.

Cases that this version does not run are listed, and must be refused by name, never answered wrongly.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import joinery as jn
import pytest

from ..support.corpus import CASES, WITH_DATA, Case, run

PTXAS = shutil.which("ptxas")


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 149


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    run(name, lambda kernel, grid, arguments: kernel.interpret(grid, *arguments))


@pytest.mark.parametrize("name", CASES)
def test_the_sanitizer_finds_nothing_and_computes_the_same(name: str) -> None:
    def launch(kernel: Any, grid: Any, arguments: Any) -> None:
        report = kernel.sanitize(grid, *arguments)
        assert report.findings == (), str(report)

    run(name, launch)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str, threads: int) -> None:
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, threads=threads))


@pytest.mark.parametrize("name", CASES)
def test_text_survives_printing_and_reading(name: str) -> None:
    case = Case(name)
    kernel = jn.kernel.from_ttir(case.text, name=case.facts["entry"])
    assert jn.kernel.from_ttir(kernel.ttir, name=case.facts["entry"]).ttir == kernel.ttir


def on_a_simulated_gpu(name: str, target: str) -> None:
    """The PTX, interpreted under the strictest checks: bounds, undefined values, races."""
    options = {"device": "ptxsim", "target": target, "sanitize": True}
    run(name, lambda kernel, grid, arguments: kernel.launch(grid, *arguments, **options), gpu=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", WITH_DATA)
def test_on_a_simulated_gpu(name: str, target: str) -> None:
    on_a_simulated_gpu(name, target)


WITH_LIBRARY_FUNCTIONS = [name for name in WITH_DATA if "tt.extern_elementwise" in Case(name).text]


@pytest.mark.parametrize("name", WITH_LIBRARY_FUNCTIONS)
def test_with_our_own_library_functions_on_a_simulated_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOINERY_LIBDEVICE", "none")
    on_a_simulated_gpu(name, "sm_80")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_86", "sm_89", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", WITH_DATA)
def test_on_other_simulated_gpus(name: str, target: str) -> None:
    on_a_simulated_gpu(name, target)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_the_assembler_takes_it(target: str, tmp_path: Path) -> None:
    """All of the corpus, in one go for each target."""
    refused = []
    for name in CASES:
        case = Case(name)
        file = tmp_path / f"{name}.ptx"
        file.write_text(jn.kernel.from_ttir(case.text, name=case.facts["entry"]).ptx(target))
        command = [PTXAS, "-arch", target, "-v", "-o", str(tmp_path / "out.cubin"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or "(C75" in done.stderr:
            refused.append(f"{name}: {done.stderr[:300]}")
    assert not refused, "\n".join(refused)
