"""Measures how long each kernel of a model takes: native code adds up the times of the launches of a call."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError, UserError
from ..native.library import mark_function
from .executable import Executable
from .kernels import Kernel, aligned

MAX_CALLS = 1_000_000
_FIRST = 3
"""Where the nanoseconds and launches of kernels begin in the table of `profile.ll`."""


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """What one kernel of a model takes in a call.

    Attributes:
        number: its position among the kernels of a call, from 1.
        kernel: the kernel.
        lines: the lines of the user, or the nodes of a model in ONNX, that it computes.
        seconds: median time of its launches together.
        fastest: the shortest one.
        share: its part of the time of all kernels, from 0 to 1.
        bytes, flops: what all launches read and write, and their operations on floats, at the sizes of the call.
        launches: how many there are in a call: 1, in a loop one for each iteration, 0 in a branch that is not taken.
    """

    number: int
    kernel: Kernel
    lines: tuple[str, ...]
    seconds: float
    fastest: float
    share: float
    bytes: int
    flops: int
    launches: int = 1

    @property
    def bytes_per_second(self) -> float:
        """Bytes read and written per second; 0 where the clock saw no time pass."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def flops_per_second(self) -> float:
        """Operations on floats per second; 0 where the clock saw no time pass."""
        return self.flops / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        return {
            "number": self.number, "name": self.kernel.name, "template": self.kernel.template, "fused": list(self.kernel.fused),
            "lines": list(self.lines), "seconds": self.seconds, "fastest": self.fastest, "share": self.share,
            "bytes": self.bytes, "flops": self.flops, "bytes_per_second": self.bytes_per_second,
            "flops_per_second": self.flops_per_second, "launches": self.launches,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """What the calls of a model take, kernel by kernel; printed, it is a table.

    Attributes:
        name: the model's name.
        threads: threads a call may use.
        seconds: time of each call.
        kernels: what its kernels take, in order.
    """

    name: str
    threads: int
    seconds: tuple[float, ...]
    kernels: tuple[KernelProfile, ...]

    @property
    def call(self) -> float:
        """Median time of a call, in seconds."""
        return float(np.median(self.seconds))

    @property
    def outside(self) -> float:
        """Seconds of a call that pass outside kernels: checks, memory, operations of the host."""
        return max(0.0, self.call - sum(each.seconds for each in self.kernels))

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        return {
            "model": self.name, "threads": self.threads, "calls": len(self.seconds), "seconds": self.call,
            "fastest": min(self.seconds), "outside_kernels": self.outside, "kernels": [each.as_dict() for each in self.kernels],
        }  # fmt: skip

    def __str__(self) -> str:
        rows: list[Sequence[str]] = [("#", "time", "share", "bytes", "GB/s", "flops", "GFLOP/s", "kernel", "computes")]
        for each in sorted(self.kernels, key=lambda each: -each.seconds):
            work = [
                text for amount, rate in ((each.bytes, each.bytes_per_second), (each.flops, each.flops_per_second))
                for text in (f"{amount:,}", f"{rate / 1e9:.1f}" if rate else "-")
            ]  # fmt: skip
            computes = _first(each.kernel.fused, 6) + (f" ({_first(each.lines, 2)})" if each.lines else "")
            computes = computes if each.launches == 1 else f"{each.launches} launches: {computes}"
            share = f"{100 * each.share:.1f}%"
            rows.append((str(each.number), seconds_text(each.seconds), share, *work, each.kernel.name, computes))
        calls = f"{len(self.seconds)} call{'s' if len(self.seconds) > 1 else ''}"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        head = f"{self.name}: {seconds_text(self.call)} per call (median of {calls}, {threads}), "
        return "\n".join([head + f"{seconds_text(self.outside)} outside kernels", *aligned(rows, right=7)])


def _first(texts: Sequence[str], count: int) -> str:
    return ", ".join(texts[:count]) + (f" and {len(texts) - count} more" if len(texts) > count else "")


def seconds_text(taken: float) -> str:
    """Return a duration in the largest unit in which it is at least 1."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if taken >= size:
            return f"{taken / size:.3g} {unit}"
    return f"{taken / 1e-6:.3g} µs"


class Recorder:
    """Calls a model and notes how long each launch takes. Calls of other threads meanwhile are not counted."""

    def __init__(self, executable: Executable, kernels: Sequence[Kernel]) -> None:
        """Prepare to record. Raises `UnsupportedError` for models whose launches are not timed."""
        mark, address = mark_function(), executable.linked.profile_address
        if address is None and executable.linked.run_address is not None:
            raise UnsupportedError(
                f"{executable.label}: profile: code of an earlier version of joinery does not tell times; fix: compile it anew"
            )
        if mark is None or address is None:
            where = "on this system" if address is not None else "on a GPU"
            raise UnsupportedError(
                f"{executable.label}: profile: kernels {where} are not timed; fix: device='cpu', or a profiler of the GPU"
            )
        self._executable, self._kernels = executable, kernels
        self._launches: list[list[float]] = []
        self._counts = [0] * len(kernels)
        self._variable = ctypes.c_void_p.from_address(address)
        self._table, self._code = executable.profile_table(2 * len(kernels) + _FIRST), mark
        self._dims: Mapping[str, int] = {}

    def call(self, values: Sequence[object]) -> list[Array]:
        """Run the model once on inputs in order; return its outputs."""
        executable, table = self._executable, self._table
        arrays, plan = executable.check(values)
        outputs = executable.allocate(plan)
        with executable.profiled:
            table[0], table[1] = self._code["jn_mark"], threading.get_ident()
            end = _FIRST + 2 * len(self._kernels)
            table[_FIRST:end] = [0] * (end - _FIRST)
            self._variable.value = ctypes.addressof(table)
            try:
                executable.run(arrays, outputs, plan)
            finally:
                self._variable.value = None
            times, self._counts = table[_FIRST:end:2], table[_FIRST + 1 : end : 2]
        self._launches.append([each / 1e9 for each in times])
        self._dims = {name: plan.dims[name] for name in executable.compiled.dims}
        return outputs

    def forget(self) -> None:
        """Drop what was recorded."""
        self._launches.clear()

    def found(self, lines: Sequence[Sequence[str]], before: int = 0) -> list[KernelProfile]:
        """Return the launches, whose shares are still 0. lines: of each launch. before: launches of other parts."""
        profiles = []
        for at, kernel in enumerate(self._kernels):
            sizes, taken = kernel.at(**self._dims), [each[at] for each in self._launches] or [0.0]
            launches = self._counts[at]
            profiles.append(KernelProfile(
                before + at + 1, kernel, tuple(lines[at]) if at < len(lines) else (), float(np.median(taken)), min(taken), 0.0,
                launches * (sizes["bytes_read"] + sizes["bytes_written"]), launches * sizes["flops"], launches,
            ))  # fmt: skip
        return profiles


def profile_of(name: str, threads: int, seconds: Sequence[float], kernels: Sequence[KernelProfile]) -> Profile:
    """Return the profile of calls, with the share of each kernel."""
    total = sum(each.seconds for each in kernels)
    shared = [
        KernelProfile(each.number, each.kernel, each.lines, each.seconds, each.fastest,
                      each.seconds / total if total else 0.0, each.bytes, each.flops, each.launches)
        for each in kernels
    ]  # fmt: skip
    return Profile(name, threads, tuple(seconds), tuple(shared))


def require_calls(label: str, repeat: object) -> int:
    """Return a number of calls. Raises `UserError` for anything else."""
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= MAX_CALLS:
        raise UserError(f"{label}: profile: repeat is {repeat!r}; fix: a number of calls from 1 to {MAX_CALLS}")
    return repeat


def clock() -> float:
    """Return the time in seconds."""
    return time.perf_counter()
