"""`joinery doctor` with and without CUDA devices."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import llvmlite.binding
import pytest
from joinery.__main__ import main
from joinery.interface.cli.doctor import _libdevice, _ptxas, cuda_state
from joinery.promotion.errors import DeviceError
from joinery.runtime.cuda import current
from joinery.runtime.toolchain.libdevice import VARIABLE
from joinery.runtime.toolchain.ptxas import find_assembler


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["doctor", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_devices_are_listed(install: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    fake = install(devices=2, capability=(9, 0), version=12080, memory=141 << 30)
    out = said(capsys)
    assert max(len(line) for line in out.splitlines() if "/" not in line) <= 80  # paths are as long as they are
    text = " ".join(out.split())
    assert "CUDA driver for CUDA 12.8, takes PTX up to 8.7 cuda:0: Fake GPU 0, capability 9.0, 141.0 GiB, " in text
    assert "cuda:1: Fake GPU 1, capability 9.0" in text
    assert text.count("code for sm_90a") == 2
    assert fake.named("cuDevicePrimaryCtxRetain") == [], "no device is taken in use"


def test_json_says_the_same(install: Callable[..., Any], capsys: pytest.CaptureFixture[str], home: Path) -> None:
    install(capability=(8, 7), version=12040, memory=32 << 30)
    found = json.loads(said(capsys, "--json"))
    assert found["cuda"] == {
        "problem": None, "driver": "12.4", "highest_ptx": "8.4",
        "devices": [{
            "device": "cuda:0", "name": "Fake GPU 0", "capability": "8.7", "memory_bytes": 32 << 30, "multiprocessors": 4,
            "shared_bytes": 166912, "target": "sm_86", "problem": None,
        }],
    }  # fmt: skip
    assert found["versions"]["joinery"] == jn.__version__
    assert found["versions"]["llvmlite"] == llvmlite.__version__
    assert found["threads"]["cpus"] == os.cpu_count()
    cache = found["cache"]
    assert cache["directory"] == str(home / ".cache" / "joinery")
    assert (cache["entries"], cache["bytes"], cache["is_writable"], cache["problem"]) == (0, 0, True, None)
    assert found["check"]["is_right"] is True
    assert set(found["cpu"]["vectors"]) <= set(found["cpu"]["features"])


def test_a_variable_of_threads_that_is_no_number_is_reported(
    install: Callable[..., Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install()
    assert json.loads(said(capsys, "--json"))["threads"]["problem"] is None
    monkeypatch.setenv("JOINERY_THREADS", "all")
    assert main(["doctor"]) == 1, "models without a number of their own are refused"
    assert "JOINERY_THREADS is 'all'; fix: a number from 1 to 1024" in " ".join(capsys.readouterr().out.split())


def test_a_device_that_is_too_old_is_told(install: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    install(capability=(7, 5))
    assert cuda_state()["devices"][0]["target"] is None
    assert "has compute capability 7.5; joinery makes code for 8.0 and newer" in " ".join(said(capsys).split())


def test_a_driver_without_devices(install: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    install(devices=0)
    assert "the CUDA driver finds no device" in said(capsys)


def test_without_a_driver(capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> Any:
        raise DeviceError("there is none; fix: install one")

    with current.installed(missing):
        assert "CUDA\n  there is none; fix: install one\n" in said(capsys)
        found = json.loads(said(capsys, "--json"))["cuda"]
    assert found == {"problem": "there is none; fix: install one", "driver": None, "highest_ptx": None, "devices": []}


def test_a_driver_that_fails_is_told(install: Callable[..., Any]) -> None:
    fake = install()
    fake.fail("cuDeviceGetAttribute", 999)
    assert "cuDeviceGetAttribute: CUDA_ERROR_UNKNOWN (999)" in cuda_state()["problem"]


def test_the_assembler_is_found_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.name != "posix":
        pytest.skip("a shell script stands for the assembler")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    for folder in ("bin", "nvvm/libdevice"):
        (tmp_path / folder).mkdir(parents=True)
    tool, library = tmp_path / "bin" / "ptxas", tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc"
    tool.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    tool.chmod(0o755)
    library.write_bytes(b"")
    find_assembler.cache_clear()
    try:
        assert _ptxas() == {"path": str(tool), "version": "12.9"}
    finally:
        find_assembler.cache_clear()
    found = _libdevice()
    assert (found["path"], found["functions"]) == (None, 0)
    assert found["problem"].startswith(f"{library} is no libdevice that can be used: LLVM bitcode parsing error")


def test_libdevice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(VARIABLE, "none")
    assert "no libdevice: GPU code has joinery's own library functions" in " ".join(said(capsys).split())
    file = tmp_path / "small.bc"
    text = "define float @__nv_expf(float %x) { ret float %x } define float @__nv_sin(float %x) { ret float %x }"
    file.write_bytes(llvmlite.binding.parse_assembly(text).as_bitcode())
    monkeypatch.setenv(VARIABLE, str(file))
    assert f"{VARIABLE}): 1 of 331 functions, for GPU code" in " ".join(said(capsys).split())
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert f"{VARIABLE} is '{tmp_path}', which is no file" in " ".join(said(capsys).split())
