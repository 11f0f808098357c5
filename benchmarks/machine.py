"""Measures the limits of this machine: copy and read bandwidth and multiply-add rate, in the same run as the cases.

The kernels are LLVM IR text with explicit vectors of the machine's widest width, compiled by llvmlite
without optimisation passes, and run by one or more pinned Python threads that hold no lock while inside a
kernel. All figures are the best of several runs, since they are upper limits: a measured figure can be too low,
but never too high.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np

FMA_CHAINS = 16  # independent accumulators: more than latency (4–5 cycles) times ports (2)
PAIR_CHAINS = 24  # the products of pairs of bfloat16 take 10 cycles
VECTORS_PER_STEP = 4
SMALLEST_FMA_TASK = 4 * 10**9  # operations: some 10 ms
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Bandwidths in GB/s (10⁹ bytes, read plus written), rates in GFLOP/s (a multiply-add counts two)."""

    vector_bits: int
    threads: int
    fma_one_thread: float
    fma_all_threads: float
    copy_bytes: int
    copy_normal: float
    copy_non_temporal: float
    read: float
    large_copy_bytes: int
    large_copy_normal: float
    large_copy_non_temporal: float
    large_read: float

    def describe(self) -> str:
        """Format the limits as one line of text."""
        return (
            f"{self.fma_one_thread:.0f} GFLOP/s float32 with one thread, {self.fma_all_threads:.0f} with "
            f"{self.threads}; copy {self.copy_normal:.1f} GB/s, non-temporal {self.copy_non_temporal:.1f}, read "
            f"{self.read:.1f} (64 MiB arrays); {self.large_copy_normal:.1f}, {self.large_copy_non_temporal:.1f}, "
            f"{self.large_read:.1f} (512 MiB arrays)"
        )

    def better_of(self, other: MachineLimits) -> MachineLimits:
        """Return the larger of each figure: limits measured on a busy machine are too low, never too high."""
        figures = {name: max(value, getattr(other, name)) for name, value in self.as_dict().items()}
        return MachineLimits(**figures)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def vector_lanes() -> int:
    """Return how many float32 fit the widest vector register."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx") else 4


def copy_kernel(lanes: int, non_temporal: bool) -> str:
    """Write void copy(source, target, elements, repeats): `elements` is a multiple of lanes · VECTORS_PER_STEP."""
    vector = f"<{lanes} x float>"
    hint = ", !nontemporal !0" if non_temporal else ""
    body = []
    for step in range(VECTORS_PER_STEP):
        body += [
            f"  %i{step} = add i64 %i, {step * lanes}",
            f"  %s{step} = getelementptr float, ptr %source, i64 %i{step}",
            f"  %t{step} = getelementptr float, ptr %target, i64 %i{step}",
            f"  %v{step} = load {vector}, ptr %s{step}, align {ALIGNMENT}",
            f"  store {vector} %v{step}, ptr %t{step}, align {lanes * 4}{hint}",
        ]
    return streaming_loop(lanes, body, 0, []) + "\n!0 = !{i32 1}\n"


def read_kernel(lanes: int) -> str:
    """Write void read(source, target, elements, repeats): sums everything and stores one vector to `target`."""
    vector = f"<{lanes} x float>"
    body = []
    for step in range(VECTORS_PER_STEP):
        body += [
            f"  %i{step} = add i64 %i, {step * lanes}",
            f"  %s{step} = getelementptr float, ptr %source, i64 %i{step}",
            f"  %v{step} = load {vector}, ptr %s{step}, align {ALIGNMENT}",
            f"  %n{step} = fadd {vector} %a{step}, %v{step}",
        ]
    after = store_sum(vector, [f"%n{step}" for step in range(VECTORS_PER_STEP)])
    return streaming_loop(lanes, body, VECTORS_PER_STEP, after)


def multiplies_pairs() -> bool:
    """Return whether the machine multiplies pairs of bfloat16 (`vdpbf16ps`): twice as many products per instruction."""
    return bool(llvm.get_host_cpu_features().get("avx512bf16"))


def fma_kernel(lanes: int, pairs: bool = False) -> str:
    """Write void fma(source, target, _, repeats): FMA_CHAINS multiply-adds of one vector each per repeat.

    pairs: PAIR_CHAINS of pairs of bfloat16 instead.
    """
    vector, short = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    count = PAIR_CHAINS if pairs else FMA_CHAINS
    chains = range(count)
    phis = [f"  %a{c} = phi {vector} [ zeroinitializer, %entry ], [ %n{c}, %loop ]" for c in chains]
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" if pairs else f"llvm.fma.v{lanes}f32"
    call = f"call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %y, {vector} %a{{0}})"
    if pairs:
        call = f"call {vector} @{name}({vector} %a{{0}}, {short} %xs, {short} %ys)"
    steps = [f"  %n{c} = {call.format(c)}" for c in chains]
    lines = [
        f"declare {vector} @{name}({', '.join([vector, short, short] if pairs else [vector] * 3)})",
        "define void @kernel(ptr %source, ptr %target, i64 %elements, i64 %repeats) nounwind {",
        "entry:",
        f"  %x = load {vector}, ptr %source, align 4",
        f"  %q = getelementptr float, ptr %source, i64 {lanes}",
        f"  %y = load {vector}, ptr %q, align 4",
        *([f"  %{v}s = bitcast {vector} %{v} to {short}" for v in "xy"] if pairs else []),
        "  br label %loop",
        "loop:",
        "  %r = phi i64 [ 0, %entry ], [ %rn, %loop ]",
        *phis,
        *steps,
        "  %rn = add i64 %r, 1",
        "  %more = icmp slt i64 %rn, %repeats",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *store_sum(vector, [f"%n{c}" for c in chains]),
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def store_sum(vector: str, names: Sequence[str]) -> list[str]:
    """Add the named vectors and store the sum to %target, so that nothing above is dead code."""
    lines, total = [], names[0]
    for position, name in enumerate(names[1:]):
        lines.append(f"  %sum{position} = fadd {vector} {total}, {name}")
        total = f"%sum{position}"
    return [*lines, f"  store {vector} {total}, ptr %target, align 4"]


def streaming_loop(lanes: int, body: Sequence[str], sums: int, after: Sequence[str]) -> str:
    """Write `repeats` passes over `elements`. The body turns the vector sums %a0, %a1, … into %n0, %n1, …"""
    vector = f"<{lanes} x float>"
    inner = [f"  %a{s} = phi {vector} [ %o{s}, %outer ], [ %n{s}, %inner ]" for s in range(sums)]
    outer = [f"  %o{s} = phi {vector} [ zeroinitializer, %entry ], [ %n{s}, %latch ]" for s in range(sums)]
    lines = [
        "define void @kernel(ptr %source, ptr %target, i64 %elements, i64 %repeats) nounwind {",
        "entry:",
        "  br label %outer",
        "outer:",
        "  %r = phi i64 [ 0, %entry ], [ %rn, %latch ]",
        *outer,
        "  br label %inner",
        "inner:",
        "  %i = phi i64 [ 0, %outer ], [ %in, %inner ]",
        *inner,
        *body,
        f"  %in = add i64 %i, {lanes * VECTORS_PER_STEP}",
        "  %more = icmp slt i64 %in, %elements",
        "  br i1 %more, label %inner, label %latch",
        "latch:",
        "  %rn = add i64 %r, 1",
        "  %again = icmp slt i64 %rn, %repeats",
        "  br i1 %again, label %outer, label %done",
        "done:",
        *after,
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


class NativeKernel:
    """A compiled `kernel(source, target, elements, repeats)`; a call releases the GIL."""

    def __init__(self, text: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2)
        # for Intel hosts, LLVM otherwise splits 512-bit vectors in two
        text = text.replace(" nounwind {", ' nounwind "prefer-vector-width"="512" {')
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        self.assembly = machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address("kernel")
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._function = signature(address)

    def __call__(self, source: np.ndarray, target: np.ndarray, elements: int, repeats: int) -> None:
        self._function(source.ctypes.data, target.ctypes.data, elements, repeats)


def aligned(elements: int, fill: float = 1.0) -> np.ndarray:
    """Allocate a float32 array on a cache line boundary whose pages are present."""
    raw = np.empty(elements * 4 + ALIGNMENT, dtype=np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    array = raw[offset : offset + elements * 4].view(np.float32)
    array.fill(fill)
    return array


def run_on_threads(tasks: Sequence[Callable[[], None]]) -> float:
    """Run every task on a thread and a processor of its own; return the seconds from the first start to the
    last end."""
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    gate = threading.Barrier(len(tasks))
    times: list[float] = []

    def work(position: int, task: Callable[[], None]) -> None:
        if processors:
            os.sched_setaffinity(0, {processors[position % len(processors)]})
        gate.wait()
        times.append(time.perf_counter())
        task()
        times.append(time.perf_counter())

    threads = [threading.Thread(target=work, args=(position, task)) for position, task in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(times) - min(times)


def fma_rate(threads: int, samples: int) -> float:
    """Return GFLOP/s of float32 multiply-adds."""
    lanes = vector_lanes()
    kernel = NativeKernel(fma_kernel(lanes))
    source = aligned(2 * lanes, 0.5)
    targets = [aligned(lanes) for _ in range(threads)]
    repeats = 20_000_000

    def task(target: np.ndarray) -> Callable[[], None]:
        return lambda: kernel(source, target, 0, repeats)

    seconds = min(run_on_threads([task(target) for target in targets]) for _ in range(samples))
    return 2.0 * lanes * FMA_CHAINS * repeats * threads / seconds / 1e9


def fma_task(flops: int, threads: int, pairs: bool = False) -> Callable[[], float]:
    """Return a function that does `flops` operations (a multiply-add is two) on all threads and returns the
    seconds. Small amounts of work are repeated, so that the staggered start of the threads does not count.
    pairs: products of pairs of bfloat16, where the machine has them."""
    lanes = vector_lanes()
    pairs = pairs and multiplies_pairs()
    kernel = NativeKernel(fma_kernel(lanes, pairs))
    per_repeat = 2 * lanes * (2 * PAIR_CHAINS if pairs else FMA_CHAINS)
    source = aligned(2 * lanes, 0.5)
    targets = [aligned(lanes) for _ in range(threads)]
    times = -(-SMALLEST_FMA_TASK // max(flops, 1))
    repeats = -(-flops * times // (per_repeat * threads))
    return lambda: run_on_threads([partial(kernel, source, target, 0, repeats) for target in targets]) / times


def traffic_task(nbytes: int, threads: int, only_reads: bool) -> Callable[[], float]:
    """Return a function that moves `nbytes` on all threads, half read and half written past the caches, or
    all read, and returns the seconds."""
    lanes = vector_lanes()
    step = lanes * VECTORS_PER_STEP
    share = nbytes // (4 if only_reads else 8) // threads // step * step
    kernel = NativeKernel(read_kernel(lanes) if only_reads else copy_kernel(lanes, non_temporal=True))
    source = aligned(share * threads)
    target = aligned(lanes * threads if only_reads else share * threads)
    space = target.size // threads

    def part(position: int) -> Callable[[], None]:
        here = slice(position * share, None), slice(position * space, None)
        return partial(kernel, source[here[0]], target[here[1]], share, 1)

    return lambda: run_on_threads([part(position) for position in range(threads)])


Arrays = tuple[np.ndarray, np.ndarray]


def bandwidth(text: str, arrays: Arrays, threads: int, samples: int, moved: int) -> float:
    """Return GB/s of a kernel from the first array to the second that moves `moved` bytes per element."""
    source, target = arrays
    kernel = NativeKernel(text)
    step = vector_lanes() * VECTORS_PER_STEP
    share = source.size // threads // step * step
    repeats = max(1, (1 << 29) // source.nbytes)

    def task(position: int) -> Callable[[], None]:
        part = slice(position * share, None)
        return lambda: kernel(source[part], target[part], share, repeats)

    seconds = min(run_on_threads([task(position) for position in range(threads)]) for _ in range(samples))
    return share * threads * moved * repeats / seconds / 1e9


def measure_limits(threads: int, samples: int = 7) -> MachineLimits:
    """Measure all limits with `threads` threads. Takes a few seconds and 1.1 GB of memory."""
    lanes = vector_lanes()
    figures: dict[str, Any] = {
        "vector_bits": lanes * 32,
        "threads": threads,
        "fma_one_thread": fma_rate(1, samples),
        "fma_all_threads": fma_rate(threads, samples),
    }
    for prefix, size in (("", 4096 * 4096 * 4), ("large_", 512 << 20)):
        arrays = aligned(size // 4), aligned(size // 4, 0.0)
        figures |= {
            prefix + "copy_bytes": size,
            prefix + "copy_normal": bandwidth(copy_kernel(lanes, False), arrays, threads, samples, 8),
            prefix + "copy_non_temporal": bandwidth(copy_kernel(lanes, True), arrays, threads, samples, 8),
            prefix + "read": bandwidth(read_kernel(lanes), arrays, threads, samples, 4),
        }
    return MachineLimits(**figures)


if __name__ == "__main__":
    for name, value in measure_limits(threads=2).as_dict().items():
        print(f"{name:28s} {value:12.1f}")
