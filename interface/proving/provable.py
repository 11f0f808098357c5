"""Gives kernels their proofs, which load when the first one is asked for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .proving import KernelProver


class Provable:
    """What has a function, arguments and sanitized launches."""

    _function: Any
    _arguments: Any
    sanitize: Any

    @functools.cached_property
    def prove(self) -> KernelProver:
        """Proofs for all sizes: `prove(assume=…, extents=…, grid=…)`, or `prove.like(grid, *args)` (docs/guides/proofs.md)."""
        from .proving import KernelProver

        return KernelProver(self._function, self.sanitize, self._arguments)


__all__ = ["Provable"]
