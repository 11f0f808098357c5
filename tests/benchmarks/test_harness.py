"""The benchmark harness: what it computes from samples, and that its kernels do what their figures claim."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


harness = load("harness")
machine = load("machine")


def test_ratios_are_formed_within_a_round() -> None:
    """A machine that gets ten times slower halfway must not change a ratio."""
    peer = [1.0, 1.0, 1.0, 10.0, 10.0]
    ours = [0.5, 0.5, 0.5, 5.0, 5.0]
    samples = {"ours": ours, "peer": peer, "slow": [20.0] * 5, harness.LIMIT: [value / 4 for value in peer]}
    measurement = harness.Measurement("case", "why", samples, ("ours",))
    ratio = measurement.ratio("ours", "peer")
    assert (ratio.lower_quartile, ratio.median, ratio.upper_quartile) == (0.5, 0.5, 0.5)
    assert measurement.best_peer() == "peer"
    assert measurement.summary("peer").median == 1.0
    assert measurement.peers == ["peer", "slow"]
    ratios = measurement.as_dict()["ratios"]
    assert ratios["ours / peer"]["median"] == 0.5
    assert ratios[f"ours / {harness.LIMIT}"]["median"] == 2.0
    assert ratios[f"peer / {harness.LIMIT}"]["quartiles"] == [4.0, 4.0]
    assert "2.00× limit" in harness.report(measurement)
    assert "0.50 (0.50–0.50)" in harness.table([measurement])


def test_sampling_measures_seconds_per_call() -> None:
    contenders = [
        harness.Contender("short", "wait(2e-3)", {"wait": time.sleep}, ours=True),
        harness.Contender("long", "wait(6e-3)", {"wait": time.sleep}),
    ]
    samples = harness.sample(contenders, seconds=0.0, minimum_rounds=3)
    assert [len(values) for values in samples.values()] == [3, 3]
    assert 2e-3 <= min(samples["short"]) < 20e-3
    assert 6e-3 <= min(samples["long"]) < 60e-3
    samples = harness.sample(contenders[:1], seconds=0.0, minimum_rounds=3, limit=lambda: 0.25)
    assert samples[harness.LIMIT] == [0.25] * 3
    with pytest.raises(ValueError, match="share a name"):
        harness.sample(contenders[:1] * 2, seconds=0.0)


def test_short_calls_are_timed_in_blocks() -> None:
    samples = harness.sample([harness.Contender("nothing", "None", {})], seconds=0.0, minimum_rounds=3)
    assert 0 < min(samples["nothing"]) < 1e-6


def test_settling_refuses_a_thread_that_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin)
    thread.start()
    monkeypatch.setattr(harness, "IDLE_TIMEOUT", 0.1)
    try:
        with pytest.raises(SystemExit, match="still run"):
            harness.settle(spins=False)
    finally:
        stop.set()
        thread.join()
    harness.settle(spins=False)


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.5, "1.5 s"), (0.0123, "12.3 ms"), (4.5e-5, "45 µs"), (2.56e-7, "256 ns")]
)
def test_times_are_printed_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert harness.format_seconds(seconds) == text


@pytest.mark.parametrize("non_temporal", [False, True])
def test_the_copy_kernel_copies(non_temporal: bool) -> None:
    lanes = machine.vector_lanes()
    count = lanes * machine.VECTORS_PER_STEP * 3
    source, target = machine.aligned(count), machine.aligned(count + lanes, -1.0)
    source[:] = np.arange(count)
    kernel = machine.NativeKernel(machine.copy_kernel(lanes, non_temporal))
    kernel(source, target, count, 1)
    np.testing.assert_array_equal(target[:count], source)
    np.testing.assert_array_equal(target[count:], -1.0)


def test_the_read_kernel_reads_every_element() -> None:
    lanes = machine.vector_lanes()
    count = lanes * machine.VECTORS_PER_STEP * 3
    source, target = machine.aligned(count), machine.aligned(lanes)
    source[:] = np.random.default_rng(0).integers(0, 100, count)
    machine.NativeKernel(machine.read_kernel(lanes))(source, target, count, 1)
    np.testing.assert_array_equal(target, source.reshape(-1, lanes).sum(axis=0))


def test_the_multiply_add_kernel_does_all_its_work() -> None:
    lanes = machine.vector_lanes()
    source, target = machine.aligned(2 * lanes, 0.5), machine.aligned(lanes)
    machine.NativeKernel(machine.fma_kernel(lanes))(source, target, 0, 1000)
    np.testing.assert_array_equal(target, 0.25 * 1000 * machine.FMA_CHAINS)


def test_the_kernels_use_the_widest_vectors() -> None:
    lanes = machine.vector_lanes()
    register = {16: "zmm", 8: "ymm", 4: ""}[lanes]
    assert register in machine.NativeKernel(machine.fma_kernel(lanes)).assembly
    if lanes == 16:
        assert "vmovntps\t%zmm" in machine.NativeKernel(machine.copy_kernel(lanes, True)).assembly


def test_the_limit_tasks_do_all_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each thread is given, added up, is the work asked for."""
    calls: list[tuple[int, int]] = []

    class Recorded:
        def __init__(self, text: str) -> None:
            self.text = text

        def __call__(self, source: np.ndarray, target: np.ndarray, elements: int, repeats: int) -> None:
            assert source.size >= elements
            calls.append((elements, repeats))

    monkeypatch.setattr(machine, "NativeKernel", Recorded)
    unit = machine.vector_lanes() * machine.VECTORS_PER_STEP * 2 * 4
    assert machine.traffic_task(unit * 10, 2, only_reads=True)() >= 0
    assert calls == [(unit * 5 // 4, 1)] * 2
    calls.clear()
    machine.traffic_task(unit * 10, 2, only_reads=False)()
    assert sum(elements for elements, _ in calls) * 8 == pytest.approx(unit * 10, rel=0.25)
    calls.clear()
    machine.fma_task(10**6, 2)()
    done = sum(repeats for _, repeats in calls) * machine.FMA_CHAINS * machine.vector_lanes() * 2
    assert done == pytest.approx(machine.SMALLEST_FMA_TASK, rel=0.01)
    calls.clear()
    machine.fma_task(10**10, 2)()
    done = sum(repeats for _, repeats in calls) * machine.FMA_CHAINS * machine.vector_lanes() * 2
    assert done == pytest.approx(10**10, rel=0.01)


def test_work_on_threads_overlaps() -> None:
    seconds = machine.run_on_threads([lambda: time.sleep(0.2), lambda: time.sleep(0.2)])
    assert 0.2 <= seconds < 0.39
