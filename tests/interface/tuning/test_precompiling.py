"""Configurations that other processes compile: when that pays, what comes back, and what ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface import gpu_code
from joinery.interface.kernel import Kernel
from joinery.interface.texts import triton_c_text
from joinery.interface.tuning import precompiling, tuned
from joinery.interface.tuning.precompiling import Job, precompiled, workers_for
from joinery.runtime.cuda.device import cuda_device

from ...support.cuda.fake_driver import FakeDriver

ADD = "__global__ void add(int *y, int n) { int i[BS] = 0 ... BS; *?(i < n)(y + i) += BS; }\n"


def job(extent: object) -> Job:
    return Job(triton_c_text(ADD, {"BS": extent}, None, (), False), None, "strict", False)


@pytest.mark.parametrize(
    ("count", "seconds", "cores", "workers"),
    [
        (8, 0.1, 8, 0), (16, 0.15, 8, 8), (36, 0.074, 8, 8), (100, 0.03, 16, 0), (200, 0.03, 16, 16), (200, 0.1, 64, 16),
        (20, 0.5, 2, 2), (20, 0.1, 2, 0), (1000, 1.0, 1, 0), (1000, 1.0, -3, 0), (0, 1.0, 8, 0), (3, 9.0, 8, 0), (4, 9.0, 8, 2),
    ],
)  # fmt: skip
def test_processes_are_started_where_they_pay(count: int, seconds: float, cores: int, workers: int) -> None:
    assert workers_for(count, seconds, cores) == workers


def test_without_an_interpreter_to_start_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", None)
    assert workers_for(1000, 1.0, 8) == 0


@pytest.mark.slow
def test_code_of_others_runs_here_and_errors_are_found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    extents = [16, 32, 24, 64, 128, 256]
    compiled: list[int] = []
    made: list[int] = []
    lower = Kernel._lower

    def lowered(self: Kernel, *rest: Any) -> Any:
        compiled.append(1)
        return lower(self, *rest)

    def codes(jobs: list[Job], workers: int) -> list[bytes | None]:
        found = precompiled(jobs, workers)
        made.extend(code is not None for code in found)
        return found

    monkeypatch.setattr(Kernel, "_lower", lowered)
    monkeypatch.setattr(tuned, "workers_for", lambda count, seconds: 1)
    monkeypatch.setattr(tuned, "precompiled", codes)
    kernel = jn.kernel.tune(ADD, {"BS": extents}, cache=False, progress=False)
    y = np.zeros(300, np.int32)
    kernel.launch(1, y, 300)
    assert made == [True, False, True]  # 24 is no power of two
    assert len(compiled) == 3
    assert [each.defines["BS"] for each in kernel.dropped] == [24]
    best = kernel.best(1, y, 300).defines["BS"]
    assert y.tolist() == [best] * best + [0] * (300 - best)
    for each, own in kernel._kernels.items():
        z, bs = np.zeros(300, np.int32), each.defines["BS"]
        own.launch(1, z, 300)
        assert z.tolist() == [bs] * bs + [0] * (300 - bs)


def test_a_process_that_ends_early_leaves_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompiling, "_CHILD", "import sys; sys.exit(3)")
    assert precompiled([job(16), job(32)], 2) == [None, None]


@pytest.mark.slow
def test_what_an_interpreter_prints_as_it_starts_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = "print('cos\\nsystem\\nFile is on', flush=True); " + precompiling._CHILD
    monkeypatch.setattr(precompiling, "_CHILD", noisy)
    (code,) = precompiled([job(16)], 1)
    assert isinstance(code, bytes)
    monkeypatch.setattr(precompiling, "_CHILD", "import sys; sys.stdout.write('x' * 9000)")
    assert precompiled([job(16)], 1) == [None]


@pytest.mark.slow
def test_processes_that_cannot_be_started_leave_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    popen, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def limited(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", limited)
    assert [type(each) for each in precompiled([job(16), job(32)], 2)] == [bytes, bytes]
    assert started[0].poll() is not None
    assert precompiled([job(16)], 2) == [None]


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begun: list[float] = []

    def remembered(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        if len(started) == 2:  # on a busy machine, starting them takes long
            begun.append(time.monotonic())
            timer.start()
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    monkeypatch.setattr(precompiling, "_CHILD", "import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        precompiled([job(16), job(32)], 2)
    timer.join()
    assert time.monotonic() - begun[0] < 20
    assert [each.poll() is not None for each in started] == [True, True]


def test_an_interrupt_before_all_threads_are_started_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, submitted = precompiling.ThreadPoolExecutor.submit, []

    def interrupted(self: Any, *arguments: Any) -> Any:
        if submitted:
            raise KeyboardInterrupt
        submitted.append(submit(self, *arguments))
        return submitted[0]

    monkeypatch.setattr(precompiling.ThreadPoolExecutor, "submit", interrupted)
    monkeypatch.setattr(precompiling, "_CHILD", "import time; time.sleep(60)")
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        precompiled([job(16), job(32)], 2)
    assert time.monotonic() - begin < 20


@pytest.mark.slow
def test_a_gpu_runs_code_of_others_too(monkeypatch: pytest.MonkeyPatch, install: Callable[..., FakeDriver]) -> None:
    fake = install()
    lowered: list[int] = []
    lower = gpu_code.lower_to_threads

    def counted(*rest: Any) -> Any:
        lowered.append(1)
        return lower(*rest)

    monkeypatch.setattr(gpu_code, "lower_to_threads", counted)
    monkeypatch.setattr(tuned, "workers_for", lambda count, seconds: 1)
    kernel = jn.kernel.tune(ADD, {"BS": [16, 32, 24, 128, 256]}, warps=[1, 2], cache=False, progress=False)
    y = np.zeros(300, np.int32)
    kernel.launch(1, y, 300, device="cuda")
    assert len(lowered) == 3  # those that tell what one takes
    assert {each.defines["BS"] for each in kernel.dropped} == {24}
    assert len(fake.named("cuLibraryLoadData")) == 5
    assert len(fake.named("cuModuleLoadDataEx")) == 3
    best = kernel.best(1, y, 300, device="cuda")
    extent = best.defines["BS"]
    assert y.tolist() == [extent] * extent + [0] * (300 - extent)
    for each, own in kernel._kernels.items():
        z, bs = np.zeros(300, np.int32), each.defines["BS"]
        own.launch(1, z, 300, device="cuda", warps=each.warps)
        assert z.tolist() == [bs] * bs + [0] * (300 - bs)
    cuda_device().synchronize()
    assert len(lowered) == 3


def test_a_library_that_the_driver_refuses_is_loaded_as_a_module(install: Callable[..., FakeDriver]) -> None:
    fake = install()
    fake.fail("cuLibraryLoadData", 218, 2)
    kernels = [jn.kernel.from_triton_c(ADD, {"BS": extent}, cache=False) for extent in (16, 32, 64)]
    codes = [each.gpu_code("sm_80").kernel for each in kernels]
    device = cuda_device()
    ahead = device.preload([*codes, codes[0]])
    assert {kernel.code for kernel in ahead} == {codes[0], codes[2]}
    assert (len(fake.named("cuLibraryLoadData")), len(fake.named("cuLibraryGetModule"))) == (3, 2)
    assert [device.load(code).code for code in codes] == codes
    assert len(fake.named("cuModuleLoadDataEx")) == 1
    assert len(device.preload(codes[::2])) == 2  # they are there
    assert len(fake.named("cuLibraryLoadData")) == 3
    del ahead
    device.load(codes[1])  # gives back what nobody has any more
    assert len(fake.named("cuLibraryUnload")) == 2
    assert len(fake.modules) == 1


def test_drivers_before_libraries_load_one_after_the_other(install: Callable[..., FakeDriver]) -> None:
    fake = install(version=11080)
    codes = [jn.kernel.from_triton_c(ADD, {"BS": extent}, cache=False).gpu_code("sm_80").kernel for extent in (16, 32)]
    assert cuda_device().preload(codes) == ()
    assert len(fake.named("cuLibraryLoadData", "cuModuleLoadDataEx")) == 0
