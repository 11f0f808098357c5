"""Timing of configurations for Triton's autotuner: those that launch the same code on the same arguments are timed once.

Configurations for a GPU differ in numbers of warps and stages, which say nothing to code for the CPU.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

Launch = tuple[str, str, tuple[int, int, int], tuple[int, ...]]
"""The text of a kernel, its numerics, the grid, and the arguments as 64-bit values."""

MAX_TIMINGS = 256
_listening: list[list[Launch]] = []
_timings: OrderedDict[tuple[Launch, ...], Any] = OrderedDict()


def is_timed() -> bool:
    """Whether somebody wants to know of launches."""
    return bool(_listening)


def launched(launch: Launch) -> None:
    """Note a launch of native code, for the configuration that is being timed."""
    for launches in _listening:
        launches.append(launch)


def benchmarker(do_bench: Callable[..., Any]) -> Callable[..., Any]:
    """Triton's way to time a function, but for functions whose launches are those of one that it has timed."""

    def timed(kernel_call: Callable[[], Any], quantiles: Sequence[float] | None = None, **options: Any) -> Any:
        launches: list[Launch] = []
        _listening.append(launches)
        try:
            kernel_call()  # it compiles the kernel, and says what it launches
        finally:
            _listening[:] = [each for each in _listening if each is not launches]  # equal lists may nest
        key = tuple(launches)
        if not key:
            return do_bench(kernel_call, quantiles=quantiles, **options)
        if key not in _timings:
            _timings[key] = do_bench(kernel_call, quantiles=quantiles, **options)
            if len(_timings) > MAX_TIMINGS:
                _timings.popitem(last=False)
        return _timings[key]

    return timed
