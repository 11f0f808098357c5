"""Making joinery the device of Triton's launches, and taking that back."""

from __future__ import annotations

from typing import Any

from ...lowering.llvm.nvptx.targets import gpu_target
from ...lowering.numerics import checked_numerics
from ...promotion.errors import UserError
from .settings import Settings, checked_mode, current, set_current
from .testing import unwritten

_before: list[tuple[Any, Settings]] = []


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

    _register()
    from triton.runtime.driver import driver

    from .driver import JoineryDriver

    if not isinstance(driver._active, JoineryDriver):
        _before.append((driver._active, current()))
        driver.set_active(JoineryDriver())
        _forget_compiled()
    elif settings != current():
        _forget_compiled()  # native code depends on them
    set_current(settings)
    if mode == "sanitize":
        unwritten.follow()
    else:
        unwritten.forget()


def deactivate() -> None:
    """See `disable`."""
    if not _before:
        return
    from triton.runtime.driver import driver

    from .patches.arrays import refuse_arrays
    from .patches.precision import forget_preference

    refuse_arrays()
    forget_preference()
    _forget_compiled()  # kernels ask the driver that is active to unload them
    previous, settings = _before.pop()
    driver._active = previous
    set_current(settings)
    unwritten.forget()


def is_active() -> bool:
    """See `is_enabled`."""
    import sys

    if "triton" not in sys.modules:
        return False
    from triton.runtime.driver import driver

    from .driver import JoineryDriver

    return isinstance(driver._active, JoineryDriver)


def _register() -> None:
    """Add the back end to Triton's where no entry point did: Triton 3.3 has none, and neither has a checkout."""
    from triton.backends import Backend, backends

    from .compiler import JoineryBackend
    from .driver import JoineryDriver
    from .targets import NAME

    if NAME not in backends:
        backends[NAME] = Backend(compiler=JoineryBackend, driver=JoineryDriver)


def _forget_compiled() -> None:
    """Forget what kernels were compiled for by the driver before: Triton keeps it by the number of the device."""
    from triton.runtime import jit

    for function in list(getattr(jit, "_triton_jit_function_registry", {}).values()):
        function.device_caches.clear()
