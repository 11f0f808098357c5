"""Finds passes by name, and loads each on first use.

A file in one of `ROOMS` defines the pass that has the file's name, with - for _. Passes of other packages are entry points of
the group `joinery.passes`:

    [project.entry-points."joinery.passes"]
    my-pass = "my_package.my_pass:MyPass"
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ....promotion.errors import InternalError, UserError, close_names
from .function_pass import FunctionPass

if TYPE_CHECKING:  # it takes longer to load than all passes, and only passes of other packages need it
    from importlib.metadata import EntryPoint

ROOMS = (
    "tt.transforms.cleanup",
    "tt.transforms.facts",
    "tt.transforms.expand",
    "tt.transforms.numerics",
    "tt.transforms.loops",
    "llvm.nvptx.passes",
)
"""Packages in `lowering` every module of which defines a pass. They load by name, when a pipeline has the pass."""

GROUP = "joinery.passes"
"""The group of entry points by which other packages add passes."""

_LOWERING = __name__.rpartition(".tt.")[0]
_FOLDER = Path(__file__).resolve().parents[2]


@functools.cache
def own_passes() -> dict[str, str]:
    """Returns the passes of joinery: name → module."""
    found = {}
    for room in ROOMS:
        for module in pkgutil.iter_modules([str(_FOLDER.joinpath(*room.split(".")))]):
            found[module.name.replace("_", "-")] = f"{_LOWERING}.{room}.{module.name}"
    return found


def _installed() -> dict[str, EntryPoint]:
    """Returns the passes of other packages, without those that have a name of joinery's own passes."""
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=GROUP) if each.name not in own_passes()}


def pass_names() -> tuple[str, ...]:
    """Returns the names of all passes, those of other packages last."""
    return (*own_passes(), *sorted(_installed()))


@functools.cache
def find_pass(name: str) -> type[FunctionPass]:
    """Returns the pass of this name. Raises `UserError`, which lists the passes, for unknown names."""
    module = own_passes().get(name)
    if module is not None:
        for each in _passes_in(module):
            if each.name == name:
                return each
        raise InternalError(f"{module} defines no pass {name!r}")
    installed = _installed().get(name)
    if installed is not None:
        return _loaded(installed)
    names = pass_names()
    close = close_names(name, names, 1)
    fix = f"fix: {close[0]!r}; " if close else ""
    raise UserError(f"no pass {name!r}; {fix}the passes are {', '.join(names)}")


def _passes_in(module: str) -> Iterator[type[FunctionPass]]:
    for each in vars(importlib.import_module(module)).values():
        if isinstance(each, type) and issubclass(each, FunctionPass) and each.__module__ == module:
            yield each


def _loaded(entry: EntryPoint) -> type[FunctionPass]:
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"pass {entry.name!r}: {entry.value} cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, FunctionPass)):
        raise UserError(f"pass {entry.name!r}: {entry.value} is no subclass of {FunctionPass.__name__}")
    if found.name != entry.name:
        raise UserError(f"pass {entry.name!r}: {entry.value} calls itself {found.name!r}; fix: one name for both")
    return found


__all__ = ["GROUP", "ROOMS", "find_pass", "own_passes", "pass_names"]
