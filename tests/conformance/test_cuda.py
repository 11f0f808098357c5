"""The TTIR corpus through `device="cuda"`: on the fake driver, whose launches the PTX simulator carries out.

It is arguments that count here: how they get to a device and back, and that nothing of them stays there.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from joinery.runtime.cuda import current
from joinery.runtime.cuda.device import cuda_device

from ..support.corpus import WITH_DATA, Case, run
from ..support.cuda.fake_driver import FakeDriver


def kinds(name: str) -> tuple[str, ...]:
    """What counts of a case's arguments: their kinds and dtypes."""
    return tuple(sorted({f"{each['kind']} {each.get('dtype', '')}" for each in Case(name).facts["args"]}))


def representatives(names: list[str]) -> list[Any]:
    """The cases as parameters. Fast are the first with each kind and dtype of an argument, slow those that add none."""
    seen: set[str] = set()
    found = []
    for name in names:
        found.append(pytest.param(name, marks=() if set(kinds(name)) - seen else pytest.mark.slow))
        seen |= set(kinds(name))
    return found


DESCRIBED = [name for name in WITH_DATA if any(each["kind"] == "tensordesc" for each in Case(name).facts["args"])]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", representatives(WITH_DATA))
def test_on_a_cuda_device(name: str) -> None:
    on_a_device(name, FakeDriver(memory=1 << 23))


@pytest.mark.parametrize("name", DESCRIBED)
def test_on_a_device_that_has_tensor_maps(name: str) -> None:
    on_a_device(name, FakeDriver(memory=1 << 23, capability=(9, 0)))


def on_a_device(name: str, fake: FakeDriver) -> None:

    def launch(kernel: Any, grid: Any, arguments: Any) -> None:
        kernel.launch(grid, *arguments, device="cuda")
        gc.collect()
        cuda_device().synchronize()
        assert fake.live() == []

    with current.installed(lambda: fake):
        run(name, launch, gpu=True)
