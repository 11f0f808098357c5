"""Gives kernels their proofs, which load when the first one is asked for."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

from ..texts import KernelText

if TYPE_CHECKING:
    from .proving import KernelProver

_LOADED = time.time_ns()
"""When this process began to load what proves. Sources that are younger may be others than it has."""


class Provable:
    """What has a function, arguments and sanitized launches."""

    _function: Any
    _arguments: Any
    _source: KernelText
    sanitize: Any

    @functools.cached_property
    def prove(self) -> KernelProver:
        """Proofs for all sizes: `prove(assume=…, extents=…, grid=…)`, or `prove.like(grid, *args)` (docs/guides/proofs.md)."""
        from .proving import KernelProver

        return KernelProver(self._function, self.sanitize, self._arguments, self._source.identity, _LOADED)


__all__ = ["Provable"]
