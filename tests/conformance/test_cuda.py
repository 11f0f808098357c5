"""The TTIR corpus through `device="cuda"`: on the fake driver, whose launches the PTX simulator carries out.

It is arguments that count here: how they get to a device and back, and that nothing of them stays there.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from joinery.runtime.cuda import current
from joinery.runtime.cuda.device import cuda_device

from ..runtime.cuda.fake_driver import FakeDriver
from .test_ttir import WITH_DATA, run


@pytest.mark.parametrize("name", WITH_DATA)
def test_on_a_cuda_device(name: str) -> None:
    fake = FakeDriver(memory=1 << 23)

    def launch(kernel: Any, grid: Any, arguments: Any) -> None:
        kernel.launch(grid, *arguments, device="cuda")
        gc.collect()
        cuda_device().synchronize()
        assert fake.live() == []

    with current.installed(lambda: fake):
        run(name, launch, gpu=True)
