"""Pauses the collector of cycles in these tests: syntax trees have none, and to look for some took longer than to parse. The
trees are kept as long as the tests of this folder run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from joinery.lowering.gc_paused import gc_paused

from ..support.syntax import forget


@pytest.fixture(autouse=True)
def _paused() -> Iterator[None]:
    with gc_paused():
        yield


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    yield
    forget()
