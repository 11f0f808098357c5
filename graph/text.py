"""The text form of graphs: `to_text` and `from_text` are inverse to each other."""

from __future__ import annotations

from .parsing import from_text
from .printing import to_text

__all__ = ["from_text", "to_text"]
