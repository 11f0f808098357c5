"""Configurations that other processes compile: when that pays, what comes back, and what ends early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.kernel import Kernel
from joinery.interface.texts import triton_c_text
from joinery.interface.tuning import precompiling, tuned
from joinery.interface.tuning.precompiling import Job, precompiled, workers_for

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


def test_code_of_others_runs_here_and_errors_are_found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    extents = [16, 32, 24, 128, 256]
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
    assert made == [False, True, True]  # 24 is no power of two
    assert len(compiled) == 2
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


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def remembered(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    monkeypatch.setattr(precompiling, "_CHILD", "import time; time.sleep(60)")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        precompiled([job(16), job(32)], 2)
    timer.join()
    assert time.monotonic() - begin < 20
    assert [each.poll() is not None for each in started] == [True, True]
