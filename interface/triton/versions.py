"""Where the versions of Triton differ in what joinery uses of them: 3.3 to 3.9.

What differs is asked of Triton itself, by whether it has a name; its version number is looked at where nothing else tells.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any


def current_driver() -> Any:
    """The driver of Triton's launches; None where none was needed yet."""
    from triton.runtime.driver import driver

    found = getattr(driver, _attribute(driver))
    # up to 3.4 a proxy makes the driver when it is asked for something
    return found._obj if type(found).__name__ == "LazyProxy" else found


def restore_driver(previous: Any) -> None:
    """Make this the driver of Triton's launches again, as `current_driver` gave it: None leaves the choice to Triton."""
    from triton.runtime.driver import driver

    name = _attribute(driver)
    if previous is None and name == "active":
        previous = driver.default
    setattr(driver, name, previous)


def _attribute(driver: Any) -> str:
    """Where Triton keeps its driver: up to 3.4 in `active`, then in `_active`, which is empty until it is needed."""
    return "_active" if "_active" in vars(driver) else "active"


def let_others_wait(own: str, is_asked_for: Callable[[], bool]) -> None:
    """Make the drivers of other back ends say that they are not active while `is_asked_for` returns true.

    Before 3.7 Triton refuses to choose between two active drivers, as there are on a machine with a GPU.
    """
    if _version() >= (3, 7):
        return
    from triton.backends.driver import DriverBase

    for entry in entry_points(group="triton.backends"):
        if entry.name == own:
            continue
        for driver in vars(importlib.import_module(f"{entry.value}.driver")).values():
            if isinstance(driver, type) and issubclass(driver, DriverBase) and not inspect.isabstract(driver):
                waiting = functools.partial(_waiting, is_asked_for, driver.is_active)  # type: ignore[attr-defined]
                driver.is_active = staticmethod(waiting)  # type: ignore[attr-defined]


def _waiting(is_asked_for: Callable[[], bool], is_active: Callable[[], bool]) -> bool:
    return not is_asked_for() and is_active()


def register(name: str, compiler: type, driver: type) -> None:
    """Add a back end to Triton's where no entry point did: 3.3 has none, and neither has a checkout that is not installed."""
    from triton.backends import Backend, backends

    if name not in backends:
        backends[name] = Backend(compiler=compiler, driver=driver)


def forget_compiled(module_type: type) -> None:
    """Forget what kernels were compiled for by the driver that is about to go: Triton keeps it by the number of the device.

    Since 3.8 a kernel has its module unloaded by the driver that is there when the kernel goes. Modules of `module_type` need
    none, and kernels that somebody holds load theirs again when they are launched again.
    """
    from triton.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    # Triton's own table of functions came with 3.7, and keeps one of those that share a name
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, JITFunction):
            if "device_caches" in vars(each):
                each.device_caches.clear()
        elif issubclass(kind, CompiledKernel) and isinstance(vars(each).get("module"), module_type):
            each.module = None


def run_passes(manager: Any, module: Any, name: str) -> None:
    """Run a pipeline of Triton's passes, which has a name since 3.6."""
    manager.run(*((module, name) if _version() >= (3, 6) else (module,)))


def as_loaded(module: Any, registers: int, spills: int, threads: int) -> tuple[Any, ...]:
    """What `load_binary` returns: the greatest number of threads came with 3.4."""
    found = (module, module, registers, spills, threads)
    return found if _version() >= (3, 4) else found[:4]


@functools.cache
def dot_precisions() -> frozenset[str]:
    """The precisions of products that Triton's own dialect has: those of several bfloat16 parts came with 3.6."""
    from triton._C.libtriton import ir

    return frozenset(name.lower() for name in vars(ir.INPUT_PRECISION))


@functools.cache
def _version() -> tuple[int, int]:
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)
