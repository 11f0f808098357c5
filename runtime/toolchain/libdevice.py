"""Finds NVIDIA's libdevice, the library of math functions that code for GPUs is linked with.

Code for GPUs can be compiled on any machine, so this needs no device. Nothing here reads the library.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from .ptxas import TOOLKIT_VARIABLES, toolkit_folders

VARIABLE = "JOINERY_LIBDEVICE"
"""Environment variable: the path of libdevice.10.bc, or "none" for joinery's own functions; unset or empty: search."""
NONE = "none"
FILE_NAME = "libdevice.10.bc"


@dataclass(frozen=True, slots=True)
class LibdeviceFile:
    """The path of libdevice, and what named it: the variable, "cuda.pathfinder" or "CUDA toolkit"."""

    path: Path
    found_by: str


def find_libdevice() -> LibdeviceFile | None:
    """Returns the file that the variable names; without it the one that `cuda.pathfinder` finds (wheels,
    conda, CUDA_HOME), where that is installed and new enough, else one in a CUDA toolkit. None: none is
    found, or the variable is "none".

    Raises `UserError` where the variable names no file.
    """
    said = os.environ.get(VARIABLE, "")
    if said.lower() == NONE:
        return None
    if said:
        path = Path(said).expanduser()
        if not path.is_file():
            raise UserError(
                f"{VARIABLE} is {said!r}, which is no file; fix: the path of {FILE_NAME}, {NONE!r} for joinery's own "
                "functions, or unset it to search"
            )
        return LibdeviceFile(path, VARIABLE)
    return _search(*(os.environ.get(name) for name in (*TOOLKIT_VARIABLES, "CONDA_PREFIX")))


@functools.lru_cache(maxsize=8)
def _search(*candidates: str | None) -> LibdeviceFile | None:
    """Searches for libdevice. candidates: the values of variables that the answer depends on, as the key of the cache."""
    found = _asked_pathfinder()
    if found is not None:
        return LibdeviceFile(found, "cuda.pathfinder")
    for folder in toolkit_folders():
        path = folder / "nvvm" / "libdevice" / FILE_NAME
        if path.is_file():
            return LibdeviceFile(path, "CUDA toolkit")
    return None


def _asked_pathfinder() -> Path | None:
    try:
        from cuda import pathfinder  # comes with cuda-python, which not every platform has
    except ImportError:
        return None
    find = getattr(pathfinder, "find_bitcode_lib", None)
    if find is None:  # older than 1.4
        return None
    try:
        return Path(find("device"))
    except pathfinder.BitcodeLibNotFoundError:
        return None
