"""Collects the output of a launch."""

from __future__ import annotations

MAX_PRINTED = 1 << 20
"""How many characters one launch can print; texts that do not fit are dropped, as a device drops what its
buffer cannot hold."""


class Printer:
    """Collects the output of a launch's vprintf."""

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
