"""Names machine code that the driver loaded."""

from __future__ import annotations

from typing import NamedTuple

from . import driver as cu


class Image(NamedTuple):
    """Machine code that the driver loaded. library: its handle; 0 for a module that was loaded alone."""

    module: int
    library: int

    def unload(self, driver: cu.Driver) -> None:
        """Gives the code back; no kernel of it may run."""
        if self.library:
            driver.cuLibraryUnload(self.library)
        else:
            driver.cuModuleUnload(self.module)


__all__ = ["Image"]
