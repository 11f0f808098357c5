"""NVIDIA's assembler: found, asked, and its answers read. The tests that run a real one are skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import joinery as jn
import pytest
from joinery.lowering.artifact import KernelCode
from joinery.promotion.errors import InternalError
from joinery.runtime.toolchain import ptxas

CODE = KernelCode("k", "sm_80", ".version 7.0", 70, 128, 0, ())
SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 376 bytes cmem[0]
"""


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was found before and during a test is not remembered."""
    ptxas.find_assembler.cache_clear()
    ptxas.resources.cache_clear()
    yield
    ptxas.find_assembler.cache_clear()
    ptxas.resources.cache_clear()


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts an assembler in place that answers with a text and a status."""

    def put(text: str, status: int = 0, version: str = "release 12.9, V12.9.41") -> None:
        tool = tmp_path / "bin" / "ptxas"
        tool.parent.mkdir(exist_ok=True)
        (tmp_path / "said").write_text(text)
        tool.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit 0; fi\ncat "{tmp_path}/said" >&2\nexit {status}\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))
        monkeypatch.setattr(ptxas.shutil, "which", lambda _: None)

    return put


def test_the_report_is_read(says: Callable[..., None]) -> None:
    says(SAID)
    assert ptxas.find_assembler() is not None
    assert ptxas.resources(CODE) == ptxas.Resources(40, 16, 12, 20, 1024)
    ptxas.resources.cache_clear()
    says(SAID.replace(", 1024 bytes smem", "").replace("16 bytes stack frame, 12", "0 bytes stack frame, 0"))
    assert ptxas.resources(CODE) == ptxas.Resources(40, 0, 0, 20, 0)


def test_code_that_is_refused_is_our_mistake(says: Callable[..., None]) -> None:
    says("ptxas k.ptx, line 3; error : Unknown symbol 'x'", 255)
    with pytest.raises(InternalError, match=r"@k: ptxas 12\.9 refuses the code: .*Unknown symbol 'x'"):
        ptxas.resources(CODE)


@pytest.mark.parametrize(
    "said",
    ["Unsupported .version 9.3; current version is '9.0'", "Value 'sm_999' is not defined for option 'gpu-name'"],
)
def test_an_old_assembler_knows_nothing(says: Callable[..., None], said: str) -> None:
    says(f"ptxas fatal   : {said}", 255)
    assert ptxas.resources(CODE) is None


def test_an_answer_without_registers_is_no_answer(says: Callable[..., None]) -> None:
    says("hello")
    with pytest.raises(InternalError, match="said nothing about registers: hello"):
        ptxas.resources(CODE)


def test_without_an_assembler(says: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says(SAID, version="something else")
    monkeypatch.setattr(ptxas, "toolkit_folders", lambda: [tmp_path])
    assert ptxas.find_assembler() is None
    assert ptxas.resources(CODE) is None


def test_kernels_of_models_show_their_resources() -> None:
    if ptxas.find_assembler() is None:
        pytest.skip("no ptxas on this machine")
    g = jn.Graph("k", [jn.TensorType("float32", (256, 256), "a")])
    g.output(jn.softmax(g.inputs[0] @ g.inputs[0], -1))
    for target in ("sm_80", "sm_90a"):
        for kernel in jn.compile(g, device="ptxsim", target=target, cache=False).kernels:
            found = kernel.resources
            assert found is not None
            assert 16 < found.registers <= 255
            assert found.spill_store_bytes == found.spill_load_bytes == 0
    assert jn.compile(g, "cpu", cache=False).kernels[0].resources is None
