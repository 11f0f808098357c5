"""Implements `joinery doctor`.

It reports on this installation and machine, and checks what a small graph computes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import Any

from ... import __version__
from ...promotion.errors import DeviceError, UserError, printable
from .text import wrapped

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
PACKAGES = ("numpy", "networkx", "llvmlite", "xdsl", "ml_dtypes", "cuda-python")
VECTORS = ("sse4.2", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "amx-bf16", "neon", "sve")


def add_doctor(add: Add) -> None:
    """Add the command `doctor`."""
    parser = add("doctor", _doctor, "check the installation: versions, CPU, cache, threads, CUDA devices")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--measure-caches", action="store_true",
        help="measure the sizes of the caches, which systems may report wrongly, and compile for these from now on",
    )  # fmt: skip


def section(title: str, lines: Iterable[str]) -> None:
    listed = list(lines)
    print(title if listed else f"{title} none")
    for line in listed:
        print(wrapped(printable(line), "  "))


def bytes_text(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _doctor(options: argparse.Namespace) -> int:
    problem = _measure_caches() if options.measure_caches else None
    found = diagnose()
    if problem is not None:
        print(f"joinery: the sizes of the caches are not kept: {problem}", file=sys.stderr)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    return 0 if problem is None and found["check"]["is_right"] and found["threads"]["problem"] is None else 1


def _measure_caches() -> str | None:
    """Measure the caches' sizes, and keep them where compilations look for them; return why that cannot be done, if so."""
    from ...lowering.llvm.compile import host_target, reported_caches
    from ...lowering.machine import keep_caches
    from ...runtime.storage.cache import cache_of
    from ..tuning.cache_sizes import cache_sizes, confirmed, latencies

    cache = cache_of(True)  # which the measurement is kept in
    assert cache is not None
    if cache.problem is not None:
        return cache.problem
    reported = reported_caches()
    sizes = confirmed(cache_sizes(latencies(), reported), cache_sizes(latencies(), reported), reported)
    if not keep_caches(sizes):
        return "the system does not describe its CPU; fix: none is needed, reported sizes are used"
    host_target.cache_clear()  # which has the sizes from here on
    return None


def diagnose() -> dict[str, Any]:
    """Return everything that the command shows, as plain data."""
    from ...lowering.llvm.compile import llvm_version

    return {
        "versions": {
            "joinery": __version__, "Python": platform.python_version(), "LLVM": llvm_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "cpu": _cpu(),
        "threads": _threads(),
        "cache": _cache(),
        "cuda": cuda_state(),
        "tools": {"ptxas": _ptxas(), "libdevice": _libdevice()},
        "check": _check(),
    }  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    from ...lowering.llvm.compile import host_target, reported_caches
    from ...lowering.machine import measured_caches
    from ...runtime.storage.cache import cache_of

    with contextlib.suppress(UserError):  # no home directory: nothing is kept
        cache_of(True)  # which a measurement of the caches is kept in
    target, kept = host_target(), measured_caches()
    return {
        "name": target.cpu, "triple": target.triple, "vector_bytes": target.vector_bytes,
        "vectors": [name for name in VECTORS if target.has(name)],
        "features": sorted(target.features), "l1_bytes": target.l1_bytes, "l2_bytes": target.l2_bytes,
        "l3_bytes": target.l3_bytes, "reported_caches": list(reported_caches()),
        "measured_caches": None if kept is None else list(kept),
    }  # fmt: skip


def _threads() -> dict[str, Any]:
    from ...runtime.host.threads import reported_threads, variable_problem

    return {"used": reported_threads(), "cpus": os.cpu_count(), "problem": variable_problem()}


def _cache() -> dict[str, Any]:
    from ...runtime.storage.cache import CompileCache

    try:
        cache = CompileCache()
    except UserError as error:
        return {"directory": None, "problem": str(error), "is_writable": False, "entries": 0, "bytes": 0, "budget_bytes": 0}
    sizes = [path.stat().st_size for path in cache.directory.glob("*.entry")] if cache.problem is None else []
    return {
        "directory": str(cache.directory), "problem": cache.problem, "entries": len(sizes), "bytes": sum(sizes),
        "is_writable": cache.problem is None and os.access(cache.directory, os.W_OK), "budget_bytes": cache.budget_bytes,
    }  # fmt: skip


def cuda_state() -> dict[str, Any]:
    """Return the state of the driver and the devices, without using any of them."""
    from ...runtime.cuda import current
    from ...runtime.cuda.driver import highest_ptx, ptx_text, version_text

    found: dict[str, Any] = {"problem": None, "driver": None, "highest_ptx": None, "devices": []}
    try:
        driver = current.driver()
        version = driver.cuDriverGetVersion()
        found["driver"] = version_text(version)
        found["highest_ptx"] = ptx_text(highest_ptx(version)) if highest_ptx(version) else None
        found["devices"] = [_device(driver, ordinal, version) for ordinal in range(driver.cuDeviceGetCount())]
        if not found["devices"]:
            found["problem"] = "the CUDA driver finds no device"
    except DeviceError as error:
        found["problem"] = str(error)
    return found


def _device(driver: Any, ordinal: int, version: int) -> dict[str, Any]:
    from ...runtime.cuda.driver import MAJOR, MINOR, MULTIPROCESSOR_COUNT, SHARED_OPTIN
    from ...runtime.cuda.targets import choose_target

    handle = driver.cuDeviceGet(ordinal)
    major, minor = (driver.cuDeviceGetAttribute(which, handle) for which in (MAJOR, MINOR))
    name = driver.cuDeviceGetName(handle)
    target, problem = None, None
    try:
        target = choose_target(10 * major + minor, version, f"cuda:{ordinal} ({name})")
    except DeviceError as error:
        problem = str(error)
    return {
        "device": f"cuda:{ordinal}", "name": name, "capability": f"{major}.{minor}",
        "memory_bytes": driver.cuDeviceTotalMem(handle),
        "multiprocessors": driver.cuDeviceGetAttribute(MULTIPROCESSOR_COUNT, handle),
        "shared_bytes": driver.cuDeviceGetAttribute(SHARED_OPTIN, handle), "target": target, "problem": problem,
    }  # fmt: skip


def _ptxas() -> dict[str, str] | None:
    from ...runtime.toolchain.ptxas import find_assembler

    found = find_assembler()
    return None if found is None else {"path": found.path, "version": found.version}


def _libdevice() -> dict[str, Any]:
    """Describe NVIDIA's library of math functions, which GPU code is linked with where it is found."""
    from ...lowering.libdevice.signatures import SIGNATURES
    from ...runtime.toolchain.libdevice import find_libdevice
    from ..device_library import current_libdevice

    found: dict[str, Any] = {"path": None, "found_by": None, "functions": 0, "of": len(SIGNATURES), "problem": None}
    try:
        file, library = find_libdevice(), current_libdevice()
        if file is not None and library is not None:
            found |= {"path": str(file.path), "found_by": file.found_by, "functions": library.functions()}
    except UserError as error:
        found["problem"] = str(error)
    return found


def _check() -> dict[str, Any]:
    import numpy as np

    from ...graph.functions.reductions import sum_
    from ...graph.graph import Graph
    from ...runtime.host.threads import reported_threads
    from ..compiling import compile as compile_graph

    graph = Graph("doctor")
    graph.output(sum_(graph.input("float32", ("n", 16), "x") * 2, axis=1))
    started = time.perf_counter()
    model = compile_graph(graph, "cpu", cache=False, threads=reported_threads())
    seconds = time.perf_counter() - started
    is_right = bool(np.array_equal(model(np.ones((3, 16), np.float32)), np.full(3, 32, np.float32)))
    return {"seconds": round(seconds, 3), "is_right": is_right}


# -- text ------------------------------------------------------------------------------------


def _show(found: dict[str, Any]) -> None:
    section("versions", (f"{name} {version or 'not installed'}" for name, version in found["versions"].items()))
    cpu, cache = found["cpu"], found["cache"]
    sizes = (("L1", cpu["l1_bytes"]), ("L2", cpu["l2_bytes"]), ("L3 counted on", cpu["l3_bytes"]))
    section(
        "CPU",
        [
            f"{cpu['name']}, {cpu['triple']}",
            f"vectors of {cpu['vector_bytes']} bytes; {' '.join(cpu['vectors']) or 'no known extensions'}",
            ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes),
            *_measurement_lines(cpu),
        ],
    )
    threads = found["threads"]
    section("threads", [f"{threads['used']} of {threads['cpus']} CPUs", *([threads["problem"]] if threads["problem"] else [])])
    state = f"{cache['entries']} entries, {bytes_text(cache['bytes'])} of {bytes_text(cache['budget_bytes'])}"
    state += "" if cache["is_writable"] else "; not writable"
    section("cache", [cache["directory"] or "no directory", cache["problem"] or state])
    section("CUDA", _cuda_lines(found["cuda"]))
    ptxas, libdevice = found["tools"]["ptxas"], found["tools"]["libdevice"]
    section(
        "tools that are not needed to run",
        [
            f"ptxas {ptxas['version']}, {ptxas['path']}" if ptxas else "ptxas not found",
            _libdevice_line(libdevice),
        ],
    )
    check = found["check"]
    numbers = "the right" if check["is_right"] else "WRONG"
    section("check", [f"compiled a small graph in {check['seconds']:.2f} s; it computes {numbers} numbers"])


def _measurement_lines(cpu: dict[str, Any]) -> list[str]:
    if cpu["measured_caches"] is None:
        return []
    measured, reported = (", ".join(map(bytes_text, cpu[f"{name}_caches"])) for name in ("measured", "reported"))
    return [f"caches measured: {measured}, which is compiled for; reported: {reported}"]


def _libdevice_line(found: dict[str, Any]) -> str:
    if found["problem"] is not None:
        return str(found["problem"])
    if found["path"] is None:
        return "no libdevice: GPU code has joinery's own library functions, and no gamma and Bessel functions"
    return f"libdevice {found['path']} ({found['found_by']}): {found['functions']} of {found['of']} functions, for GPU code"


def _cuda_lines(cuda: dict[str, Any]) -> Sequence[str]:
    lines = []
    if cuda["driver"] is not None:
        taken = f"takes PTX up to {cuda['highest_ptx']}" if cuda["highest_ptx"] else "takes no PTX that joinery makes"
        lines.append(f"driver for CUDA {cuda['driver']}, {taken}")
    for each in cuda["devices"]:
        lines.append(
            f"{each['device']}: {each['name']}, capability {each['capability']}, {bytes_text(each['memory_bytes'])}, "
            f"{each['multiprocessors']} multiprocessors, {bytes_text(each['shared_bytes'])} of shared memory per block; "
            + (f"code for {each['target']}" if each["target"] else each["problem"])
        )
    if cuda["problem"] is not None:
        lines.append(cuda["problem"])
    return lines
