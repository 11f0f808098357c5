"""Processes of their own: how joinery is asked for, caches, suites."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import triton.backends
from features import Absent, feature

HAS_ENTRY_POINTS = hasattr(triton.backends, "entry_points")
HAS_DEFAULT_BACKEND = "TRITON_DEFAULT_BACKEND" in inspect.getsource(sys.modules["triton.runtime.driver"])
PROGRAM = """
import sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def fill(x, value, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), value)

def launch(value, size=16):
    x = np.zeros(size, np.float32)
    fill[(1,)](x, value, BLOCK=16)
    assert (x == value).all()

def refusal(call, *args):
    try:
        call(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was refused")
"""


def run(body: str, folder: str | None = None, **environment: str) -> None:
    """Run lines after `PROGRAM` in a process of its own. Raises `AssertionError` with what it wrote if it fails."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("JOINERY_", "TRITON_"))}
    with tempfile.TemporaryDirectory() as other:
        place = Path(folder or other)
        file = place / "program.py"
        file.write_text(PROGRAM + textwrap.dedent(body))
        surroundings = {**plain, "TRITON_CACHE_DIR": str(place / "cache"), **environment}
        command = [sys.executable, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=place)
    assert done.returncode == 0, done.stderr


@feature("a process that does not ask for joinery")
def unasked() -> None:
    run("""
        layers = ("joinery.lowering", "joinery.runtime", "joinery.graph")
        assert not [name for name in sys.modules if name.startswith(layers)]
        assert not {"llvmlite", "xdsl", "torch"} & set(sys.modules)
        assert "0 active drivers" in refusal(lambda: triton.runtime.driver.active.utils)
    """)


@feature("JOINERY_TRITON=1, JOINERY_TRITON=sanitize")
def asked_by_environment() -> None:
    if not HAS_ENTRY_POINTS:
        run(
            """
            assert "0 active drivers" in refusal(launch, 1.0)
            import joinery.triton
            joinery.triton.enable()
            launch(2.0)
            """,
            JOINERY_TRITON="1",
        )
        raise Absent("no entry points: `enable()` alone asks for joinery")
    run("launch(2.0)", JOINERY_TRITON="1")
    run("assert 'SanitizerError' in refusal(launch, 2.0, 8)", JOINERY_TRITON="sanitize")


@feature("TRITON_DEFAULT_BACKEND=cpu")
def asked_by_triton() -> str | None:
    if not HAS_ENTRY_POINTS:
        raise Absent("no entry points: `enable()` alone asks for joinery")
    run("launch(2.0)", TRITON_DEFAULT_BACKEND="cpu")
    return None if HAS_DEFAULT_BACKEND else "Triton does not read it, and joinery does: where no GPU's driver is active"


@feature("enable() and disable()")
def enabled() -> None:
    run("""
        import joinery
        import joinery.triton
        assert not joinery.triton.is_enabled()
        assert "drivers" in refusal(launch, 1.0)
        for round in range(2):
            joinery.triton.enable()
            assert joinery.triton.is_enabled()
            launch(2.0)
            joinery.triton.enable("sanitize")
            assert "SanitizerError" in refusal(launch, 2.0, 8)
            joinery.triton.disable()
            assert not joinery.triton.is_enabled()
            assert "drivers" in refusal(launch, 1.0), refusal(launch, 1.0)
    """)


OTHER = """
from triton.backends import Backend, backends
from triton.backends.driver import DriverBase
from triton.runtime.driver import driver

class Other(DriverBase):
    is_active = classmethod(lambda cls: True)
    get_current_target = lambda self: (_ for _ in ()).throw(RuntimeError("another driver"))
    get_active_torch_device = get_benchmarker = map_python_to_cpp_type = get_current_target
    get_current_device = lambda self: 0
    get_current_stream = lambda self, device: 0

def other_refuses():
    assert "another driver" in refusal(fill.__getitem__((1,)), None, 1.0, 16)
"""


@feature("enable() in place of another driver, and back")
def replaced() -> None:
    run(OTHER + """
import joinery.triton

other = Other()
driver.set_active(other)
other_refuses()
joinery.triton.enable()
launch(2.0)
joinery.triton.disable()
assert driver.active is other
other_refuses()
""")


@feature("JOINERY_TRITON=1 where a GPU's driver is active")
def beside() -> str | None:
    gpu = OTHER + "backends['gpu'] = Backend(compiler=backends['nvidia'].compiler, driver=Other)\n"
    run(gpu + "other_refuses()")
    if not HAS_ENTRY_POINTS:
        raise Absent("no entry points: `enable()` alone asks for joinery")
    if HAS_DEFAULT_BACKEND:
        run(gpu + "launch(2.0)", JOINERY_TRITON="1")
        return None
    run(gpu + "assert '2 active drivers' in refusal(launch, 2.0)", JOINERY_TRITON="1")
    run(gpu + "import joinery.triton; joinery.triton.enable(); launch(2.0)", JOINERY_TRITON="1")
    return "Triton refuses to choose: `enable()`"


@feature("TRITON_BACKENDS_IN_TREE=1, and enable()")
def in_tree() -> None:
    run("import joinery.triton; joinery.triton.enable(); launch(2.0)", TRITON_BACKENDS_IN_TREE="1")


@feature("a second process launches from Triton's cache")
def cached() -> None:
    program = """
        import joinery.triton
        joinery.triton.enable()
        launch(2.0)
        assert ("xdsl" in sys.modules) is {compiles}
    """
    with tempfile.TemporaryDirectory() as folder:
        run(program.format(compiles=True), folder)
        run(program.format(compiles=False), folder)


SUITE = """
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i), mask=i < n)


@pytest.mark.parametrize("n", [128, 100])
def test_copy(n):
    assert torch.cuda.is_available() and triton.runtime.driver.active.get_current_target().backend == "cuda"
    x = torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    copy[(1,)](x, out, n, BLOCK=128)
    assert torch.equal(out, x)
"""


@feature("the plugin of pytest")
def suites() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("JOINERY_", "TRITON_"))}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_suite.py").write_text(SUITE)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "joinery.triton.pytest", "--joinery=sanitize", "test_suite.py"]
        surroundings = {**plain, "TRITON_CACHE_DIR": folder + "/cache"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=surroundings)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "out-of-bounds" in done.stdout
