"""Shows how long a model takes to open and to call, and what its kernels do; finds names for the files of its outputs."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...promotion import UnsupportedError, UserError
from ...promotion.errors import printable_lines
from .doctor import section

if TYPE_CHECKING:
    from ...promotion.arrays import Array
    from ...runtime.model.profiling import Profile
    from ..model import Model

_CALLS = 10
"""How many calls kernels are timed in at least."""


class Clock:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Note the time since the last lap."""
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now


def timed_runs(model: Model, arrays: Mapping[str, Any], options: argparse.Namespace, clock: Clock) -> dict[str, Array]:
    """Run a model as often as the options say, and show the times that they ask for."""
    from ...runtime.model.profiling import seconds_text

    clock.lap("reading inputs")
    results = model.run(arrays)
    clock.lap("first call")
    times = []
    for _ in range((options.repeat or 1) - 1):
        start = time.perf_counter()
        results = model.run(arrays)
        times.append(time.perf_counter() - start)
    if options.profile and options.format == "json":
        print(json.dumps(_as_json(model, arrays, options, clock)))
        return results
    if options.profile:
        section("time", [f"{name}: {seconds_text(taken)}" for name, taken in clock.laps.items()])
    if options.repeat is not None:
        later = times or [clock.laps["first call"]]
        low, middle, high = min(later), statistics.median(later), max(later)
        what = f"{len(times)} calls after the first" if times else "one call"
        print(f"{what}: median {seconds_text(middle)}, {seconds_text(low)} to {seconds_text(high)}")
    if options.profile:
        profile = _profile(model, arrays, options)
        if profile is None:
            section("kernels, per call", _kernel_lines(model, arrays))
        else:  # a table is as wide as it is
            print("kernels, per call")
            print("\n".join(f"  {line}" for line in printable_lines(str(profile)).split("\n")))
    return results


def _profile(model: Model, arrays: Mapping[str, Any], options: argparse.Namespace) -> Profile | None:
    """Return how long the kernels take; None on a GPU, whose launches are not timed."""
    if options.device not in (None, "auto", "cpu") or any(kernel.code is not None for kernel in model.kernels):
        return None
    return model.profile(*[arrays[spec.name] for spec in model.inputs], repeat=max(options.repeat or 1, _CALLS))


def _as_json(model: Model, arrays: Mapping[str, Any], options: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    profile = _profile(model, arrays, options)
    if profile is None:
        raise UnsupportedError("--format json: the launches of a GPU are not timed; fix: --device cpu")
    return {"seconds_before": clock.laps, **profile.as_dict()}


def _kernel_lines(model: Model, arrays: Mapping[str, Any]) -> list[str]:
    """Return a line for each launch, with numbers where they depend on sizes of the inputs alone."""
    from ...graph.dims.binding import parse_extent
    from ...graph.dims.dim import Dim

    sizes: dict[str, int] = {}
    for spec in model.inputs:
        for extent, size in zip(map(parse_extent, spec.shape), getattr(arrays[spec.name], "shape", ()), strict=False):
            if isinstance(extent, Dim) and extent.name is not None:
                sizes[extent.name] = int(size)

    def number(value: int | str) -> str:
        extent = parse_extent(value)
        if isinstance(extent, int):
            return f"{extent:,}"
        return f"{extent.evaluate(sizes):,}" if extent.symbols() <= set(sizes) else str(extent)

    lines = []
    for at, kernel in enumerate(model.kernels, 1):
        lines.append(f"{at}  {kernel.name}: {', '.join(kernel.fused) or 'nothing fused'}")
        read, written, flops = number(kernel.bytes_read), number(kernel.bytes_written), number(kernel.flops)
        lines.append(f"   reads {read} bytes, writes {written} bytes, {flops} flops")
    return lines


def files_in(folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return a file for each output in a folder, which is made if it is not there."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} is no folder for outputs: {error.strerror or error}; fix: NAME=FILE, or a folder") from error
    files: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^\w.\-]", "_", name).lstrip(".") or "output"
        base, count = plain, 1
        while os.path.join(folder, f"{plain}.npy") in files.values():
            count += 1
            plain = f"{base}_{count}"
        files[name] = os.path.join(folder, f"{plain}.npy")
    return files
