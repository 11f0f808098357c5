"""Making joinery the device of Triton's launches, and taking that back."""

from __future__ import annotations

from typing import Any

from ...lowering.llvm.nvptx.targets import gpu_target
from ...lowering.numerics import checked_numerics
from ...promotion.errors import UserError
from .settings import Settings, checked_mode, current, is_asked_for, set_current, warn_of_interpreter
from .testing import unwritten

_before: list[tuple[Any, Settings]] = []
"""The driver and the settings of before the first `activate`, until `deactivate`."""


def activate(mode: str, threads: int | None, target: str, numerics: str, check_bounds: bool) -> None:
    """See `enable`."""
    from ...runtime.host.threads import resolve_threads

    if threads is not None:
        resolve_threads(threads)
    gpu_target(target)
    if not isinstance(check_bounds, bool):
        raise UserError(f"enable: check_bounds={check_bounds!r}; expected True or False")
    settings = Settings(checked_mode(mode, "enable"), threads, target, checked_numerics(numerics, "enable"), check_bounds)
    import triton  # noqa: F401 - before the modules of the back end, which it imports itself
    from triton.runtime.driver import driver

    from .binary import LoadedKernel
    from .compiler import JoineryBackend
    from .driver import JoineryDriver
    from .targets import NAME
    from .versions import current_driver, forget_compiled, register

    register(NAME, JoineryBackend, JoineryDriver)
    previous = current_driver()
    if not _before:
        _before.append((previous, current()))
    if not isinstance(previous, JoineryDriver):
        forget_compiled(LoadedKernel)
        driver.set_active(JoineryDriver())
    elif settings != current():
        forget_compiled(LoadedKernel)  # native code depends on them
    set_current(settings)
    warn_of_interpreter()
    if mode == "sanitize":
        unwritten.follow()
    else:
        unwritten.forget()


def deactivate() -> None:
    """See `disable`."""
    if not _before:
        return
    from .binary import LoadedKernel
    from .patches.precision import forget_preference
    from .versions import forget_compiled, restore_driver

    forget_preference()
    previous, settings = _before.pop()
    forget_compiled(LoadedKernel)
    restore_driver(previous)
    set_current(settings)
    unwritten.forget()


def is_active() -> bool:
    """See `is_enabled`."""
    import sys

    if "triton" not in sys.modules:
        return False
    from triton.runtime.driver import driver

    from .driver import JoineryDriver
    from .versions import current_driver

    found = current_driver()
    if found is None and is_asked_for():
        try:
            driver.active.get_current_device()
        except RuntimeError:  # of several drivers that could be meant
            return False
        found = current_driver()
    return isinstance(found, JoineryDriver)
