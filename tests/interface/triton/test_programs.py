"""Programs of Triton through joinery. Needs triton and torch (`make test-doors`); skipped without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = sorted((ROOT / "tests" / "data" / "triton_programs").glob("*.py"))
GUIDE = ROOT / "docs" / "guides" / "triton.md"
TUTORIAL = ROOT / "docs" / "tutorials" / "05-kernel-tests-without-a-gpu.md"
BLOCKS = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(file: Path, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with caches of its own."""
    surroundings = {**os.environ, "TRITON_CACHE_DIR": str(cache / "triton"), "HOME": str(cache), **environment}
    command = [sys.executable, str(file)]
    if (mode := environment.get("JOINERY_TRITON")) and not hasattr(triton.backends, "entry_points"):  # Triton 3.3
        enable = f"joinery.triton.enable({mode!r}); runpy.run_path({str(file)!r}, run_name='__main__')"
        command = [sys.executable, "-c", f"import runpy; import joinery.triton; {enable}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=cache)


@pytest.mark.parametrize("mode", ["native", "interpret", "sanitize", "ptxsim"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_computes_what_torch_does(program: Path, mode: str, tmp_path: Path) -> None:
    if "TensorDescriptor" in program.read_text(encoding="utf-8") and find_spec("triton.tools.tensor_descriptor") is None:
        pytest.skip("this version of Triton has no TensorDescriptor")
    done = run(program, tmp_path, JOINERY_TRITON=mode, TRITON_DEFAULT_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    assert "launches checked" in done.stdout
    if mode == "native":  # once more, from the cache
        again = run(program, tmp_path, JOINERY_TRITON=mode, TRITON_DEFAULT_BACKEND="cpu")
        assert again.returncode == 0, again.stderr


def test_the_guide(tmp_path: Path) -> None:
    blocks = BLOCKS.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) > 1
    for number, block in enumerate(blocks):
        file = tmp_path / f"block{number}.py"
        file.write_text(block)
        done = run(file, tmp_path)
        assert done.returncode == 0, done.stderr


def test_triton_without_joinery_asked_for_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent("""
        import sys
        import triton
        layers = ("joinery.lowering", "joinery.runtime", "joinery.graph")
        assert not [name for name in sys.modules if name.startswith(layers)]
        assert not {"llvmlite", "xdsl"} & set(sys.modules)
        try:
            triton.runtime.driver.active.utils
        except RuntimeError as error:
            assert "0 active drivers" in str(error)
        else:
            raise AssertionError("a driver without a GPU")
        """)
    )
    done = run(file, tmp_path, JOINERY_TRITON="", TRITON_DEFAULT_BACKEND="")
    assert done.returncode == 0, done.stderr


def test_enable_and_disable(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent("""
        import numpy as np
        import triton
        import triton.language as tl
        import joinery
        import joinery.triton

        @triton.jit
        def fill(x, value, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), value)

        assert not joinery.triton.is_enabled()
        joinery.triton.enable()
        assert joinery.triton.is_enabled()
        x = np.zeros(16, np.float32)
        fill[(1,)](x, 3.0, BLOCK=16)
        assert (x == 3).all()
        joinery.triton.enable("sanitize")
        try:
            fill[(1,)](x[:8].copy(), 3.0, BLOCK=16)
        except joinery.SanitizerError:
            pass
        else:
            raise AssertionError("nothing found")
        for arguments in (dict(mode="fast"), dict(threads=0), dict(target="sm_1"), dict(numerics="no")):
            try:
                joinery.triton.enable(**arguments)
            except joinery.UserError:
                pass
            else:
                raise AssertionError(arguments)
        joinery.triton.disable()
        assert not joinery.triton.is_enabled()
        joinery.triton.enable()
        fill[(1,)](x, 4.0, BLOCK=16)
        assert (x == 4).all()
        joinery.triton.disable()
        try:
            fill[(1,)](x, 3.0, BLOCK=16)
        except Exception as error:
            assert "drivers" in str(error), error
        else:
            raise AssertionError("a launch without a driver")
        """)
    )
    done = run(file, tmp_path, JOINERY_TRITON="", TRITON_DEFAULT_BACKEND="")
    assert done.returncode == 0, done.stderr


SUITE = '''
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def unmasked(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i), mask=i < n)


def test_add():
    assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    x, y = torch.randn(100, device="cuda"), torch.randn(100).cuda()
    assert x.is_cuda and x.device.type == "cuda" and y.to("cuda:0").device == x.device
    assert triton.runtime.driver.active.get_active_torch_device() == x.device
    assert [each.driver for each in triton.backends.backends.values() if each.driver.is_active()]
    assert torch.range(1, 3, device="cuda").tolist() == [1, 2, 3]
    assert torch.empty(3, device=torch.cuda.current_device()).to(0).device == x.device
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    add[(1,)](x, y, out, 100, BLOCK=128)
    torch.testing.assert_close(out, x + y)


def test_that_catches_everything():
    x = torch.randn(100, device="cuda")
    try:
        unmasked[(1,)](x, torch.empty_like(x), 100, BLOCK=128)
    except Exception:
        pass


def test_without_a_kernel():
    generator = torch.Generator(device="cuda").manual_seed(1)
    assert torch.rand(3, device="cuda", generator=generator).shape == (3,)
'''


@pytest.mark.parametrize(
    ("mode", "failed", "summary"),
    [
        (
            "--joinery=sanitize",
            1,
            ["1 test failed, launched", "1 test passed, launched", "1 test passed, not launched", "1 finding"],
        ),
        ("--joinery=native", 1, ["1 test failed, launched", "1 test passed, launched", "AccessError", "test_suite.py:18"]),
        ("--joinery=interpret", 1, ["1 test failed, launched", "AccessError"]),
        ("--joinery=ptxsim", 1, ["1 test failed, launched", "PtxCheckError", "test_suite.py:18", "(x)"]),
    ],
)
def test_a_suite_for_a_gpu(mode: str, failed: int, summary: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    plugin = ["-p", "joinery.triton.pytest", mode, "--joinery-report=page.html"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "test_suite.py"]
    own = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}  # kernels there keep the path of their file
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=own)
    assert f"{failed} failed, {3 - failed} passed" in done.stdout, done.stdout + done.stderr
    for line in summary:
        assert line in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert "unmasked" in page
    assert "test_that_catches_everything" in page
    assert "<mark><i>18</i>    tl.store(out + i, tl.load(x + i), mask=i &lt; n)</mark>" in page


MENDS = (
    ("tl.load(weight + i), mask", "tl.load(weight + i, mask=i < columns), mask"),
    (
        "    total = tl.load(out + i, mask=inside) + tl.load(x + row * columns + i, mask=inside)\n"
        "    tl.store(out + i, total, mask=inside)\n",
        "    tl.atomic_add(out + i, tl.load(x + row * columns + i, mask=inside), mask=inside)\n",
    ),
)


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    """Its project fails as it says, and is right when it is mended as it says."""
    program, suite = BLOCKS.findall(TUTORIAL.read_text(encoding="utf-8"))
    (tmp_path / "test_rms_norm.py").write_text(suite)

    def output(mode: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "joinery.triton.pytest", f"--joinery={mode}"]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout

    (tmp_path / "rms_norm.py").write_text(program)
    native = output("native")
    assert "rms_norm.py:12: @rms_norm_rows, program (0, 0, 0): tt.load: element 100 of array 'weight' is read" in native
    assert "2 kernels, 3 launches, 1 finding" in native
    assert "host_program.py" not in native, "frames below the launch"
    assert "runtime/jit.py" not in native
    assert "E       joinery.AccessError: " in native
    sanitized = output("sanitize")
    assert "write-read race on %out + 4 * 0 (array of 64 elements)" in sanitized
    assert "rms_norm.py:21:5, and nothing orders the two (320 lanes)" in sanitized
    for old, new in MENDS:
        assert old in program
        program = program.replace(old, new)
    (tmp_path / "rms_norm.py").write_text(program)
    for mode in ("native", "sanitize", "ptxsim"):
        assert "3 passed" in output(mode)


@pytest.mark.slow
def test_the_plugin_by_default_and_with_nonsense(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text("def test_nothing():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "joinery.triton.pytest"]
    for options, text in [
        (["--joinery", "test_suite.py"], "1 test passed, not launched"),
        (["--joinery", "-v", "test_suite.py"], "mode native (JOINERY_TRITON); \"cuda:0\" is"),
        (["--joinery", "-v", "--joinery-device=cpu", "test_suite.py"], "mode native (JOINERY_TRITON)\n"),
        (["--joinery=fast", "test_suite.py"], "unknown mode 'fast'"),
        (["test_suite.py"], "1 passed"),
    ]:
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert text in done.stdout + done.stderr


@pytest.mark.parametrize("imported", ["joinery", "joinery.triton", "joinery.triton.settings"])
def test_the_plugin_in_a_process_that_has_joinery_already(imported: str, tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    program = f"import {imported}, pytest; pytest.main(['-q', '-p', 'joinery.triton.pytest', '--joinery', 'test_suite.py'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 test failed, launched" in done.stdout, done.stdout + done.stderr
    assert "AccessError" in done.stdout
    assert "host_program.py" not in done.stdout


UNDEFINED = '''
import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n, OTHER: tl.constexpr, INSIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0) if OTHER else tl.load(x + i, mask=i < n)
    if INSIDE:
        tl.store(y + i, value * 2, mask=i < n)
    else:
        tl.store(y + i, value * 2)


def launch(x, other, inside):
    doubled[(1,)](x, torch.zeros(16, device="cuda"), 10, OTHER=other, INSIDE=inside, BLOCK=16)


def test_lanes_without_a_value_are_stored():
    launch(torch.ones(16, device="cuda"), False, False)


def test_lanes_without_a_value_go_nowhere():
    launch(torch.ones(16, device="cuda"), False, True)


def test_lanes_have_a_value():
    launch(torch.ones(16, device="cuda"), True, False)


def test_memory_that_nobody_wrote():
    launch(torch.empty(16, device="cuda"), True, False)
'''


def test_findings_say_where_an_undefined_value_comes_from(tmp_path: Path) -> None:
    """What a masked load without `other` leaves undefined is a finding where it is stored, and there alone."""
    (tmp_path / "test_suite.py").write_text(UNDEFINED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "joinery.triton.pytest", "--joinery=sanitize", "test_suite.py"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "2 failed, 2 passed" in said, said
    _, _, summary = said.partition("= joinery =")
    findings = [line for line in summary.splitlines() if ": doubled: " in line]
    assert len(findings) == 2
    assert "test_lanes_without_a_value_are_stored: doubled: uninitialised: the stored value is undefined" in findings[0]
    assert "it comes from a lane that" in findings[0], findings[0]
    assert "test_suite.py:10" in findings[0]
    assert "test_memory_that_nobody_wrote: doubled: uninitialised: the stored value is undefined" in findings[1]
    assert "reads and nothing has written" in findings[1]
