"""The description of this machine: LLVM's own, kept in a store, and asked for again when the store has nothing usable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from joinery.lowering import machine as described
from joinery.lowering.llvm.compile import host_target


def test_it_is_what_llvm_says() -> None:
    found = described.machine()
    assert found.cpu == llvm.get_host_cpu_name()
    assert found.features == llvm.get_host_cpu_features().flatten()
    assert host_target().features == {name for name, on in llvm.get_host_cpu_features().items() if on}


PROGRAM = """
import sys
import numpy as np
import joinery as jn
g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
g.output(jn.exp(g.inputs[0]) + 1)
model = jn.compile(g, "cpu", threads=1)
assert np.allclose(model(np.zeros(5, np.float32)), 2)
print("llvmlite.binding" in sys.modules)
"""


def run(home: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="other machines link by LLVM")
def test_what_is_compiled_already_runs_without_llvm(tmp_path: Path) -> None:
    assert run(tmp_path) == "True"
    assert run(tmp_path) == "False"


class Kept:
    def __init__(self, data: bytes | None) -> None:
        self.data, self.asked = data, 0

    def recall(self, key: str) -> bytes | None:
        self.asked += len(key) == 64
        return self.data

    def put_bytes(self, key: str, data: bytes) -> None:
        self.data = data


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[1, 2, 3, 4]", b'["a", "b", "c"]', b"\xff"])
def test_what_a_store_has_is_checked(data: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, store = described.machine(), Kept(data)
    monkeypatch.setattr(described, "_stores", [store])
    for _ in range(2):
        assert described.machine.__wrapped__() == expected
    assert described._decoded(store.data) == expected
    assert store.asked == 2


def test_the_store_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "_stores", [Kept(b'["t", "c", "+f", "1"]')])
    assert described.machine.__wrapped__() == ("t", "c", "+f", "1")
