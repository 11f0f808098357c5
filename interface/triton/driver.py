"""joinery as a device of Triton. Triton imports this module with itself, always: nothing else loads before it is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from .targets import NAME, current_target, stands_for_cuda

if os.environ.get("JOINERY_TRITON") or os.environ.get("TRITON_DEFAULT_BACKEND") == NAME:
    from .settings import is_asked_for, warn_of_interpreter
    from .versions import let_others_wait

    if is_asked_for():  # the variable settles the choice since 3.7, also where a GPU's driver is active
        os.environ.setdefault("TRITON_DEFAULT_BACKEND", NAME)
        let_others_wait(NAME, is_asked_for)
        warn_of_interpreter()

if os.environ.get("JOINERY_TRITON", "").lower() == "sanitize":  # before the program makes its tensors
    from .testing.unwritten import follow

    follow()


class JoineryDriver(DriverBase):  # type: ignore[misc]
    """The device that joinery's kernels run on, number 0: the processors of this machine."""

    def __init__(self) -> None:
        from .launcher import Launcher
        from .patches.compiler_key import keep_key
        from .patches.precision import prefer_float32
        from .settings import current
        from .testing.unwritten import follow
        from .utilities import Utilities

        keep_key()
        prefer_float32()
        if current().mode == "sanitize":
            follow()
        self.utils = Utilities()
        self.launcher_cls = Launcher

    @classmethod
    def is_active(cls) -> bool:
        from .settings import is_asked_for
        from .versions import current_driver

        return is_asked_for() or isinstance(current_driver(), cls)

    def get_current_target(self) -> GPUTarget:
        return current_target()

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0) if stands_for_cuda() else torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return divmod(int(current_target().arch), 10)

    def get_device_interface(self) -> Any:
        from .utilities import DeviceInterface

        return DeviceInterface

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        from triton.testing import do_bench

        from .benchmarking import benchmarker

        return benchmarker(do_bench)

    def get_empty_cache_for_benchmark(self) -> Any:
        from .utilities import memory_beyond_caches

        return memory_beyond_caches()

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        from .utilities import c_type

        return c_type(ty)

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.int8)
