"""Provides an array of another library."""

from __future__ import annotations

from typing import Any

import joinery as jn


class Exporter:
    """Another library's array in the memory of a buffer."""

    def __init__(self, buffer: jn.Buffer) -> None:
        self.buffer = buffer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        return self.buffer.__dlpack__(max_version=options.get("max_version"), stream=-1)
