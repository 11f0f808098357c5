"""What is the same in every way to run a launch: memory of addresses, arguments without memory, settings that make no sense."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

MODES = ["native", "checked", "interpret", "sanitize", "ptxsim"]
ENABLE = """
import sys
import torch, triton, triton.language as tl, joinery.triton
mode = sys.argv[1]
joinery.triton.enable("native", check_bounds=True) if mode == "checked" else joinery.triton.enable(mode)
"""


def run(text: str, folder: Path, mode: str, **environment: str) -> Any:
    """Run a program in a process of its own, which a fault of memory may end."""
    file = folder / "program.py"
    file.write_text(ENABLE + textwrap.dedent(text))
    surroundings = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "HOME": str(folder), **environment}
    return subprocess.run(
        [sys.executable, str(file), mode], capture_output=True, text=True, check=False, env=surroundings, cwd=folder
    )


TABLES = """
@triton.jit
def copy(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i))

@triton.jit
def advance(p, o, N: tl.constexpr):
    q = tl.load(p).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(q + i))
    tl.store(p, tl.load(p) + 4 * N)

@triton.jit
def build(p, a, b):
    tl.store(p, a.to(tl.int64))
    tl.store(p + 1, b.to(tl.int64))

@triton.jit
def use(p, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(tl.load(p + 1).to(tl.pointer_type(tl.float32)) + i))

x = torch.arange(256)
for o in (torch.full((256,), x.data_ptr()), torch.zeros(256, dtype=torch.int64)):
    o[77] = x.data_ptr()
    copy[(1,)](x, o, 256)
    assert (o == x).all(), "numbers that happen to be addresses are numbers"

x, o = torch.arange(64.), torch.zeros(32)
p = torch.tensor([x.data_ptr()])
advance[(1,)](p, o, 32)
assert p[0] == x.data_ptr() + 128
assert (o == x[:32]).all()
advance[(1,)](p, o, 32)
assert (o == x[32:]).all()

a, b, o = torch.zeros(16), torch.arange(16.), torch.zeros(16)
p = torch.zeros(2, dtype=torch.int64)
build[(1,)](p, a, b)
assert p.tolist() == [a.data_ptr(), b.data_ptr()]
use[(1,)](p, o, 16)
assert (o == b).all()
"""


@pytest.mark.parametrize("mode", MODES)
def test_memory_holds_the_addresses_of_the_host(mode: str, tmp_path: Path) -> None:
    done = run(TABLES, tmp_path, mode)
    assert done.returncode == 0, done.stderr


NO_MEMORY = """
from torch._subclasses.fake_tensor import FakeTensorMode

@triton.jit
def increment(x, spare, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) + 1)

with FakeTensorMode():
    fake = torch.zeros(4)
shrunk = torch.zeros(4)
shrunk.untyped_storage().resize_(0)
for tensor in (fake, shrunk):
    for arguments in ((tensor, None), (torch.zeros(4), tensor)):
        try:
            increment[(1,)](*arguments, 4)
        except Exception as error:
            name = "x" if arguments[0] is tensor else "spare"
            assert type(error).__name__ == "UserError", error
            assert str(error).startswith(f"{name}: a ") and "without memory" in str(error), error
        else:
            raise AssertionError("a tensor without memory was taken")
full = torch.zeros(4)
for spare in (None, torch.zeros(0)):
    increment[(1,)](full, spare, 4)
assert (full == 2).all()
"""


@pytest.mark.parametrize("mode", MODES)
def test_tensors_without_memory_are_refused(mode: str, tmp_path: Path) -> None:
    done = run(NO_MEMORY, tmp_path, mode)
    assert done.returncode == 0, done.stderr


OPTIONAL = """
@triton.jit
def double(x, o, total, N: tl.constexpr, HAS: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, v * 2)
    if HAS:
        tl.store(total, tl.sum(v))

o = torch.empty(32)
double[(1,)](torch.ones(32), o, torch.empty(1), 32, False)
assert (o == 2).all()
"""


@pytest.mark.parametrize("mode", MODES)
def test_an_output_that_nobody_wrote_or_writes(mode: str, tmp_path: Path) -> None:
    done = run(OPTIONAL, tmp_path, mode)
    assert done.returncode == 0, done.stderr


ARITHMETIC = """
@triton.jit
def quotients(x, y, o, n, GUARDED: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    mask = i < n
    a = tl.load(x + i, mask, other=0)
    b = tl.load(y + i, mask, other=0)
    q = a // b + (a << b)
    if GUARDED:
        q = tl.where((b != 0) & (b < 32), q, 0)
    tl.store(o + i, q, mask)

def findings(y, n, guarded):
    try:
        quotients[(1,)](torch.arange(8, dtype=torch.int32), torch.tensor(y, dtype=torch.int32), o, n, guarded, 8)
    except joinery.SanitizerError as error:
        return [each.kind for each in error.report.findings]
    return []

o = torch.zeros(8, dtype=torch.int32)
assert findings([1, 2, 3, 4, 5, 6, 7, 8], 5, False) == [], "lanes behind the mask divide by zero"
assert findings([0, 2, 3, 4, 5, 6, 7, 40], 8, True) == []
assert findings([1, 0, 3, 4, 5, 6, 7, 8], 8, False) == ["division-by-zero"]
assert findings([1, 2, 3, 4, 5, 6, 7, 32], 8, False) == ["shift-exponent"]
"""


def test_quotients_and_shifts_without_a_value(tmp_path: Path) -> None:
    done = run(ARITHMETIC, tmp_path, "sanitize")
    assert done.returncode == 0, done.stderr


NOTHING = """
@triton.jit
def nothing(x):
    pass

"""


@pytest.mark.parametrize("mode", MODES)
def test_a_gpu_that_is_none(mode: str, tmp_path: Path) -> None:
    done = run(NOTHING + "nothing[(1,)](torch.zeros(1), gpu='sm_1')", tmp_path, mode)
    assert "UserError: no GPU target 'sm_1'" in done.stderr
    text = NOTHING.replace("import", "#") + "nothing[(1,)](torch.zeros(1))"
    (tmp_path / "plain.py").write_text("import torch, triton, triton.language as tl, joinery.triton\n" + text)
    surroundings = {"JOINERY_TRITON": "native" if mode == "checked" else mode, "TRITON_DEFAULT_BACKEND": "cpu"}
    surroundings |= {"JOINERY_TRITON_TARGET": "sm_1", "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    surroundings = {**os.environ, **surroundings}
    command = [sys.executable, "plain.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=tmp_path)
    assert "JOINERY_TRITON_TARGET: no GPU target 'sm_1'" in done.stderr


def test_tritons_interpreter_in_place_of_joinery(tmp_path: Path) -> None:
    """Both are asked for: it is said once which one runs."""
    (tmp_path / "plain.py").write_text("import triton")
    command = [sys.executable, "plain.py"]
    for interpreter, times in (("1", 1), ("0", 0)):
        surroundings = {**os.environ, "JOINERY_TRITON": "1", "TRITON_INTERPRET": interpreter}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=surroundings, cwd=tmp_path)
        assert done.stderr.count("Triton's own interpreter runs the kernels, not joinery") == times, done.stderr
    done = run("", tmp_path, "native", TRITON_INTERPRET="1")
    assert done.stderr.count("Triton's own interpreter runs the kernels") == 1


NESTED = """
@triton.jit
def innermost(x, i):
    return tl.load(x + i)

@triton.jit
def outer(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, innermost(x, i))

try:
    outer[(1,)](torch.zeros(8), torch.zeros(16), 16)
except Exception as error:
    lines = [number for number, line in enumerate(open(__file__), 1) if "innermost(x, i))" in line or "return tl.load" in line]
    assert all(f"program.py:{number}" in str(error) for number in lines[:2]), error
else:
    raise AssertionError("nothing found")
"""


@pytest.mark.parametrize("mode", MODES[1:])
def test_errors_name_the_calls_that_led_to_their_line(mode: str, tmp_path: Path) -> None:
    done = run(NESTED, tmp_path, mode)
    assert done.returncode == 0, done.stderr


WARPS = """
import re
from triton.runtime.errors import OutOfResources

@triton.jit
def twice(x, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

x, o = torch.ones(100), torch.zeros(100)
for warps in (1, 8, 32):
    kernel = twice[(1,)](x, o, 100, BLOCK=128, num_warps=warps, device="ptxsim")
    assert (o == 2).all()
    print(warps, *re.findall(r"reqntid (\\d+)", kernel.asm["ptx"]))
try:
    twice[(1,)](x, o, 100, BLOCK=128, num_warps=64, device="ptxsim")
except OutOfResources as error:
    print(error)
try:
    twice[(1,)](x, o[:50].clone(), 100, BLOCK=128, num_warps=2, device="ptxsim")
except joinery.PtxCheckError as error:
    finding = error.findings[0]
    print(finding.instruction in error.ptx.splitlines()[finding.line - 1])
"""


def test_warps_of_the_simulated_gpu(tmp_path: Path) -> None:
    done = run(WARPS, tmp_path, "native")
    assert not done.returncode, done.stderr
    *warps, refusal, is_there = done.stdout.splitlines()
    assert warps == ["1 32", "8 256", "32 1024"]
    assert "threads, Required: 2048, Hardware limit: 1024" in refusal
    assert is_there == "True"


ORDER = """
@triton.jit
def last(a, b):
    return b

@triton.jit
def first(a, i, b, j):
    keep = a >= b
    return tl.where(keep, a, b), tl.where(keep, i, j)

@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d

@triton.jit
def reduced(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o, tl.reduce(i, 0, last).to(tl.float32))
    _, at = tl.reduce((tl.floor(v * 3), i), 0, first)
    tl.store(o + 1, at.to(tl.float32))
    _, y = tl.reduce((v, v + 1), 0, affine)
    tl.store(o + 2, y)

for n in (2, 32, 256):
    x, o = torch.rand(n, generator=torch.Generator().manual_seed(n)), torch.zeros(3)
    reduced[(1,)](x, o, N=n)
    y = 0.0
    for v in x.double().tolist():
        y = y * v + v + 1
    expected = torch.tensor([n - 1, int((x * 3).floor().argmax()), y])
    assert torch.allclose(o, expected, rtol=1e-5), (n, o, expected)

@triton.jit
def reversed_(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = N - 1 - i
    tl.store(o + n - 1 - at, tl.flip(tl.load(x + i, mask=i < n), 0), mask=at < n)

x, o = torch.rand(50), torch.zeros(50)
reversed_[(1,)](x, o, 50, N=64)
assert torch.equal(o, x.flip(0))
"""


@pytest.mark.parametrize("mode", MODES)
def test_reductions_keep_the_order_and_flips_forget_what_they_held(mode: str, tmp_path: Path) -> None:
    done = run(ORDER, tmp_path, mode)
    assert not done.returncode, done.stderr
