"""Importing joinery is cheap: compilers, file formats and drivers load on first use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

FILE_FORMATS_AND_COMPILERS = {"llvmlite", "xdsl", "onnx", "google", "safetensors", "gguf", "lark", "pcpp"}
DRIVERS_AND_PEERS = {"cuda", "torch", "jax", "onnxruntime"}
HEAVY = FILE_FORMATS_AND_COMPILERS | DRIVERS_AND_PEERS

LIST_PACKAGES = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def heavy_packages_after(statements: str) -> list[str]:
    """The heavy packages loaded in a fresh process once it has run `statements`."""
    command = [sys.executable, "-c", statements + LIST_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(HEAVY.intersection(json.loads(done.stdout.splitlines()[-1])))


def test_the_probe_sees_a_heavy_package() -> None:
    assert heavy_packages_after("import llvmlite") == ["llvmlite"]


def test_importing_loads_nothing_heavy() -> None:
    assert heavy_packages_after("import joinery") == []


def test_promotion_queries_load_nothing_heavy() -> None:
    code = """
import joinery as jn
assert jn.promotion.implicit_cast_type(jn.int8, jn.float32) == jn.float32
"""
    assert heavy_packages_after(code) == []


def test_kernels_load_no_driver_before_a_device_is_asked_for() -> None:
    code = """
import joinery as jn
jn.Buffer
text = "tt.func public @put(%o: !tt.ptr<i32>, %n: i32) { tt.store %o, %n : !tt.ptr<i32> tt.return }"
import numpy as np
jn.kernel.from_ttir(text + chr(10), cache=False).launch((1,), np.zeros(1, np.int32), 3)
"""
    assert "cuda" not in heavy_packages_after(code)


def test_kernels_on_the_host_load_no_code_for_gpus() -> None:
    """It takes as long to load as all the rest."""
    code = """
import sys
import numpy as np
import joinery as jn
text = "tt.func public @put(%o: !tt.ptr<i32>, %n: i32) { tt.store %o, %n : !tt.ptr<i32> tt.return }"
kernel = jn.kernel.from_ttir(text + chr(10), cache=False)
kernel.launch((1,), np.zeros(1, np.int32), 3)
parts = ("joinery.lowering.llvm.nvptx.kernel", "joinery.runtime.ptxsim", "joinery.interface.gpu_code", "networkx")
assert not sys.modules.keys() & parts, sys.modules.keys() & parts
kernel.ptx()
assert "joinery.lowering.llvm.nvptx.kernel" in sys.modules
"""
    heavy_packages_after(code)


def test_a_file_whose_digest_is_known_is_opened_without_graphs_and_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take twice the time of the rest. The native library comes from the cache, where a process before leaves it."""
    monkeypatch.setenv("HOME", str(tmp_path))  # whose cache is empty
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("batch", 4), name="x")])
    graph.output(graph.inputs[0] @ graph.weight("w", np.ones((4, 4), np.float32)))
    model = jn.compile(graph, device="cpu")
    model.save(tmp_path / "m.joinery")
    opened = f"""
import sys
import numpy as np
import joinery as jn
for options in (dict(verify=False), dict()):
    model = jn.load({str(tmp_path / "m.joinery")!r}, "cpu", trusted=True, digest={model.digest!r}, **options)
    assert np.array_equal(model(np.ones((2, 4), np.float32)), np.full((2, 4), 4.0))
"""
    parts = """
parts = {
    "joinery.graph.graph", "joinery.graph.symbol", "joinery.graph.text.parsing", "joinery.interface.compiling",
    "joinery.lowering.keys", "llvmlite.binding", "xdsl", "ml_dtypes", "tempfile", "statistics",
}
assert not sys.modules.keys() & parts, sys.modules.keys() & parts
"""
    heavy_packages_after(opened)
    assert heavy_packages_after(opened + parts) == ["llvmlite"]  # its version alone


def test_building_a_graph_loads_nothing_heavy() -> None:
    code = """
import joinery as jn
graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, ("batch", 4), name="x")])
graph.output(jn.relu(graph.inputs[0]) + 1)
"""
    assert heavy_packages_after(code) == []
