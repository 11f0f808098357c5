"""What a launch prints."""

from __future__ import annotations

MAX_PRINTED = 1 << 20
"""Characters that one launch prints at most; the rest is dropped, as a device drops what its buffer cannot hold."""


class Printer:
    """Collects what a launch prints."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, text: str) -> None:
        if self.size + len(text) <= MAX_PRINTED:
            self.parts.append(text)
            self.size += len(text)
