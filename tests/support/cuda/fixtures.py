"""Provides fixtures for the tests of CUDA devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from joinery.runtime.cuda import current
from joinery.runtime.cuda.device import cuda_device

from .fake_driver import FakeDriver


@pytest.fixture
def install() -> Iterator[Callable[..., FakeDriver]]:
    """Yields a function that installs a fake driver for the test: install(devices=2, …) returns it."""
    with ExitStack() as stack:

        def put(**options: Any) -> FakeDriver:
            fake = FakeDriver(**options)
            stack.enter_context(current.installed(lambda: fake))
            return fake

        yield put


@pytest.fixture
def fake(install: Callable[..., FakeDriver]) -> FakeDriver:
    """Returns a fake driver with one device of capability 8.0."""
    return install()


@pytest.fixture
def hopper(install: Callable[..., FakeDriver]) -> Iterator[FakeDriver]:
    """Yields a fake driver with a device of capability 9.0; afterwards nothing may be left on the device."""
    fake = install(capability=(9, 0))
    yield fake
    cuda_device().synchronize()
    assert (fake.live(), fake.violations) == ([], [])
