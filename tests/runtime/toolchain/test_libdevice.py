"""Where libdevice is looked for."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import joinery as jn
import pytest
from joinery.runtime.toolchain import libdevice
from joinery.runtime.toolchain.libdevice import VARIABLE, LibdeviceFile, find_libdevice


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without any, and nothing remembered."""
    for name in (VARIABLE, "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(libdevice, "toolkit_folders", list)
    monkeypatch.setitem(sys.modules, "cuda", None)
    libdevice._search.cache_clear()
    yield
    libdevice._search.cache_clear()


class NotFoundError(RuntimeError):
    pass


def pathfinder(monkeypatch: pytest.MonkeyPatch, **functions: object) -> None:
    cuda = types.ModuleType("cuda")
    cuda.pathfinder = types.SimpleNamespace(BitcodeLibNotFoundError=NotFoundError, **functions)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", cuda)


def toolkit(monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    file = root / "nvvm" / "libdevice" / "libdevice.10.bc"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"BC")
    monkeypatch.setattr(libdevice, "toolkit_folders", lambda: [root / "missing", root])
    return file


def test_there_is_none() -> None:
    assert find_libdevice() is None


def test_the_variable_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(monkeypatch, tmp_path)
    mine = tmp_path / "mine.bc"
    mine.write_bytes(b"")
    monkeypatch.setenv(VARIABLE, str(mine))
    assert find_libdevice() == LibdeviceFile(mine, VARIABLE)
    for none in ("none", "NONE"):
        monkeypatch.setenv(VARIABLE, none)
        assert find_libdevice() is None


@pytest.mark.parametrize("name", ["nothing.bc", ""])
def test_a_path_without_a_file_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / name))
    with pytest.raises(jn.UserError, match=r"is no file; fix: the path of libdevice\.10\.bc, 'none' for joinery's own"):
        find_libdevice()


def test_pathfinder_is_asked_before_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit(monkeypatch, tmp_path)
    asked = []

    def find(name: str) -> str:
        asked.append(name)
        return str(tmp_path / "wheel.bc")

    pathfinder(monkeypatch, find_bitcode_lib=find)
    assert find_libdevice() == LibdeviceFile(tmp_path / "wheel.bc", "cuda.pathfinder")
    assert find_libdevice() == LibdeviceFile(tmp_path / "wheel.bc", "cuda.pathfinder")
    assert asked == ["device"]


def test_the_toolkit_is_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pathfinder finds none, is too old to look, or is not installed."""

    def fail(name: str) -> str:
        raise NotFoundError("no such file")

    file = toolkit(monkeypatch, tmp_path)
    pathfinder(monkeypatch, find_bitcode_lib=fail)
    assert find_libdevice() == LibdeviceFile(file, "CUDA toolkit")
    libdevice._search.cache_clear()
    pathfinder(monkeypatch)
    assert find_libdevice() == LibdeviceFile(file, "CUDA toolkit")
    libdevice._search.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda", None)
    assert find_libdevice() == LibdeviceFile(file, "CUDA toolkit")


def test_the_variables_of_a_toolkit_count_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_libdevice() is None
    file = toolkit(monkeypatch, tmp_path)
    assert find_libdevice() is None  # remembered
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_libdevice() == LibdeviceFile(file, "CUDA toolkit")
