"""Triton's key of itself is computed again when its files differ, and not otherwise."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from joinery.interface.triton.patches.compiler_key import _kept
from joinery.runtime.storage.cache import CompileCache


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Files where Triton has them."""
    extension = str(sysconfig.get_config_var("EXT_SUFFIX")).rsplit(".", 1)[-1]
    names = ("__init__.py", "runtime/cache.py", "compiler/compiler.py", "backends/nvidia/driver.py", "language/core.py")
    for name in (*names, f"_C/libtriton.{extension}"):
        (tmp_path / "triton" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "triton" / name).write_text(name)
    return tmp_path / "triton"


class Computation:
    """Counts how often the key is computed in a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0

    def _compute(self) -> str:
        self.count += 1
        return f"key {self.count}"

    def key(self) -> Any:
        return _kept(self._compute, self.root, CompileCache(self.root.parent / "cache"))()


def test_the_key_is_kept_between_processes(root: Path) -> None:
    computation = Computation(root)
    assert [computation.key() for _ in range(3)] == ["key 1"] * 3


@pytest.mark.parametrize("name", ["_C", "language/core.py", "backends/nvidia/driver.py", "runtime/cache.py"])
def test_a_file_that_changed_makes_another_key(root: Path, name: str) -> None:
    computation = Computation(root)
    computation.key()
    file = root / name if name != "_C" else next((root / name).iterdir())
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert computation.key() == "key 2"
    file.write_text(file.read_text() + " ")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert computation.key() == "key 3"


def test_another_file_makes_another_key(root: Path) -> None:
    computation = Computation(root)
    computation.key()
    (root / "backends" / "other.py").write_text("")
    assert computation.key() == "key 2"


def test_files_that_cannot_be_listed_are_no_reason_to_fail(root: Path) -> None:
    computation = Computation(root)
    shutil.rmtree(root / "language")
    assert [computation.key() for _ in range(2)] == ["key 1", "key 2"]
    (root / "runtime" / "cache.py").unlink()
    assert computation.key() == "key 3"
