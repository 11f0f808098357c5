"""NVIDIA's Python bindings against a driver that prints what reaches it, and what is said where there is none.

The stub is built by the machine's C compiler; without one, or without the bindings, that test is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import joinery as jn
import pytest
from joinery.runtime.cuda import bindings
from joinery.runtime.cuda.bindings import open_driver

HERE = Path(__file__).parent
STUB = HERE.parents[1] / "support" / "cuda" / "stub_driver.c"

EXPECTED = """
cuInit 0
12040 2 71 Stub 71 1099511627776
attribute 97 of 71
166912 0xc0047 0
push 0xc1
pop
stream flags 1
wait 0x5 0xe 0
event flags 2
record 0xe 0x5
event sync 0xe
elapsed 0xe 0xf
1.5
event destroy 0xe
begin 0x5 1
end 0x5
instantiate 0x6 0
graph 0x7 0x5
exec destroy 0x7
graph destroy 0x6
pool of 71
pool 0x900 4 8589934592
trim 0x900 5
alloc 100 0x5
host 99 0
htod 12 0x5
dtoh 12 0x5
dtod 12 0x5
pointer 9
True 3
free host
free 0x5
alloc 2097152 0x5
CudaFailure('cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY (2): other') 2 CUDA_ERROR_OUT_OF_MEMORY
plain alloc 7
126 (11, 22)
plain free 126
map at multiple of 64: 1, type 9 rank 3 at 0x10000000000 dims 7 6 4294967296 strides 16 549755813888 box 8 4 2 steps 1 1 1 interleave 0 swizzle 3 l2 2 fill 1
True
map at multiple of 64: 1, type 99 rank 3 at 0x20 dims 1 2 3 strides 4 5 box 6 7 8 steps 1 1 1 interleave 0 swizzle 0 l2 0 fill 0
CudaFailure('cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE (1): other') 1 CUDA_ERROR_INVALID_VALUE
module of 4 bytes, options 2: 5 6 size 16384
function 0x33 'kern'
module of 3 bytes, options 2: 5 6 size 16384
CudaFailure('cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): other; ptxas: line 3: bad') ptxas: line 3: bad
get 4 0x44
32
set 0x44 8 99
unload 0x33
library of 8 bytes, options 2: 5 6 size 16384, others 0
library of 3 bytes, options 2: 5 6 size 16384, others 0
CudaFailure('cuLibraryLoadData: CUDA_ERROR_INVALID_PTX (218): other; ptxas: line 4: bad') ptxas: line 4: bad
module of 0x55
52
unload library 0x55
launch 0x44 grid 3 4 5 block 128 1 1 shared 1024 stream 0x5 params 7f0000001111 -1 extra (nil)
launchex 0x44 grid 4 4 5 block 128 1 1 shared 1024 stream 0x5 attrs 1 id 4: 2 1 1 params 7f0000001111 -1
sync 0xbad
CudaFailure('cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered') 700 CUDA_ERROR_ILLEGAL_ADDRESS
""".strip()  # noqa: E501


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the script and the stub printed: every call, a launch."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler that makes a libcuda.so.1")
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("cuda-python is not installed")
    folder = tmp_path_factory.mktemp("stub")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, STUB], check=True)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    done = subprocess.run(
        [sys.executable, HERE / "through_the_bindings.py"], capture_output=True, text=True, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls, _, launch = done.stdout.partition("-- as users write it\n")
    return calls, launch


@pytest.mark.slow
def test_every_call_reaches_the_driver_as_it_is_meant(said: tuple[str, str]) -> None:
    assert said[0].strip().splitlines() == EXPECTED.splitlines()


@pytest.mark.slow
def test_a_launch_reaches_the_driver(said: tuple[str, str]) -> None:
    lines = said[1].strip().splitlines()
    assert "round trip True" in lines
    launches = [line for line in lines if line.startswith("launch ")]
    assert len(launches) == 2
    assert launches[0].startswith("launch 0x44 grid 2 3 1 block 128 1 1 shared 0 stream 0x5 params ")
    assert launches[0].endswith(" -42 extra (nil)")
    assert launches[1].endswith(" 5 extra (nil)")
    recorded = [line for line in lines[lines.index("begin 0x5 1") :] if line.split()[0] not in ("push", "pop", "free")]
    assert recorded == [
        "begin 0x5 1", launches[1], "end 0x5", "instantiate 0x6 0", "graph destroy 0x6", "graph 0x7 0x5",
    ]  # fmt: skip


def test_without_the_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    for system, machine, hint in (
        ("linux", "x86_64", "fix: pip install cuda-python"), ("linux", "aarch64", "fix: pip install cuda-python"),
        ("win32", "AMD64", "fix: pip install cuda-python"), ("darwin", "arm64", "it has no wheels for darwin on arm64"),
    ):  # fmt: skip
        monkeypatch.setattr(bindings.sys, "platform", system)
        monkeypatch.setattr(bindings.platform, "machine", lambda machine=machine: machine)
        with pytest.raises(jn.DeviceError, match=f"need the package cuda-python, which is not installed; {hint}"):
            open_driver()


class Status(int):
    name = "CUDA_ERROR_NO_DEVICE"


class Empty:
    """Bindings that find a driver without a device."""

    CUdevice_attribute = CUfunction_attribute = int

    def cuInit(self, flags: int) -> tuple[Status]:
        return (Status(100),)

    def cuGetErrorString(self, status: Status) -> tuple[int, bytes]:
        return 0, b"no CUDA-capable device is detected"


def test_a_driver_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", cast(ModuleType, Empty()))
    with pytest.raises(jn.DeviceError, match="the CUDA driver finds no device") as caught:
        open_driver()
    assert (caught.value.code, caught.value.name) == (100, "CUDA_ERROR_NO_DEVICE")


def test_a_driver_that_lacks_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(Empty):
        def cuInit(self, flags: int) -> tuple[Status]:  # type: ignore[override]
            return (Status(0),)

        def cuGraphInstantiate(self, graph: int, flags: int) -> object:
            raise RuntimeError('Function "cuGraphInstantiateWithFlags" not found')

    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", cast(ModuleType, Old()))
    with pytest.raises(jn.DeviceError, match=r"the CUDA driver has no cuGraphInstantiate: .*; fix: install a newer driver"):
        open_driver().cuGraphInstantiate(5)
