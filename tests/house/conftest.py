"""Pauses the collector of cycles in these tests: syntax trees have none, and to look for some took longer than to parse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from joinery.lowering.gc_paused import gc_paused


@pytest.fixture(autouse=True)
def _paused() -> Iterator[None]:
    with gc_paused():
        yield
