"""How long each kernel of a model takes, as native code notes it."""

from __future__ import annotations

import ctypes
import json
import threading
import time
from typing import Any

import joinery as jn
import numpy as np
import pytest

F = np.float32
BIG = np.random.default_rng(0).standard_normal((256, 256)).astype(F)


def layers(count: int = 3, size: int | str = "n") -> Any:
    """A graph of products, each of which is a kernel of its own."""
    graph = jn.Graph("layers", [jn.TensorType(jn.float32, (size, 256), "x")])
    (x,) = graph.inputs
    for number in range(count):
        x = jn.sum(x @ graph.weight(f"w{number}", BIG + number), axis=0, keepdims=True) + x
    graph.output(x)
    return graph


def test_times_of_kernels_are_those_of_calls() -> None:
    model = jn.compile(layers(), device="cpu", cache=False, threads=1)
    x = BIG[:200]
    expected = model(x)
    profile = model.profile(x, repeat=7)
    assert (profile.name, profile.threads, len(profile.seconds)) == ("layers", 1, 7)
    assert [each.kernel for each in profile.kernels] == list(model.kernels)
    assert [each.number for each in profile.kernels] == list(range(1, len(model.kernels) + 1))
    assert all(0 < each.fastest <= each.seconds for each in profile.kernels)
    assert sum(each.share for each in profile.kernels) == pytest.approx(1.0)
    inside = sum(each.seconds for each in profile.kernels)
    assert 0.5 * profile.call < inside <= profile.call * 1.5
    assert profile.outside == pytest.approx(max(0.0, profile.call - inside))
    for each, kernel in zip(profile.kernels, model.kernels, strict=True):
        sizes = kernel.at(n=200)
        assert (each.bytes, each.flops) == (sizes["bytes_read"] + sizes["bytes_written"], sizes["flops"])
        assert each.flops_per_second == pytest.approx(each.flops / each.seconds)
        assert each.bytes_per_second == pytest.approx(each.bytes / each.seconds)
        assert any("test_profiling.py" in line for line in each.lines)
    np.testing.assert_array_equal(model(x), expected)


def test_launches_of_a_loop_and_of_a_branch_are_counted() -> None:
    graph = jn.Graph("loop", [jn.TensorType(jn.float32, (64, 64), "x"), jn.TensorType(jn.bool, (), "taken")])
    x, taken = graph.inputs
    y = jn.fori_loop(0, 50, lambda i, y: jn.tanh(y @ x), x)
    graph.output(jn.cond(taken, lambda z: jn.exp(z), lambda z: jn.log(z), y))
    profile = jn.compile(graph, device="cpu", cache=False).profile(BIG[:64, :64] / 100, np.array(True))
    product = next(each for each in profile.kernels if "matmul" in each.kernel.fused)
    assert product.launches == 50
    assert product.flops == 50 * product.kernel.flops
    assert product.bytes == 50 * (product.kernel.bytes_read + product.kernel.bytes_written)
    assert "50 launches: matmul" in str(profile)
    branches = {name: each for each in profile.kernels for name in ("exp", "log") if name in each.kernel.fused}
    assert [(branches[name].launches, branches[name].flops > 0) for name in ("exp", "log")] == [(1, True), (0, False)]


def test_a_kernel_that_computes_more_takes_a_larger_share() -> None:
    graph = jn.Graph("uneven", [jn.TensorType(jn.float32, (512, 256), "x")])
    (x,) = graph.inputs
    large = x @ graph.weight("large", np.tile(BIG, (1, 6)))
    graph.output(jn.sum(large, 1), jn.sum(x, 1) * 2.0)
    profile = jn.compile(graph, device="cpu", cache=False, threads=1).profile(np.tile(BIG, (2, 1)), repeat=5)
    first = max(profile.kernels, key=lambda each: each.flops)
    assert first.share > 0.5
    rows = str(profile).splitlines()
    assert rows[0].startswith("uneven: ")
    assert rows[3].split()[0] == str(first.number)


def test_numbers_are_json_and_names_are_taken() -> None:
    model = jn.compile(layers(1), device="cpu", cache=False)
    found = json.loads(json.dumps(model.profile(x=BIG, repeat=1).as_dict()))
    assert (found["model"], found["calls"], len(found["kernels"])) == ("layers", 1, len(model.kernels))
    assert found["kernels"][0]["fused"] == list(model.kernels[0].fused)


def test_calls_of_other_threads_are_not_counted_and_are_right() -> None:
    model = jn.compile(layers(), device="cpu", cache=False, threads=1)
    x, stop, wrong = BIG[:64], threading.Event(), []
    expected = model(x)

    def calls() -> None:
        while not stop.is_set():
            if not np.array_equal(model(x), expected):
                wrong.append(1)

    other = threading.Thread(target=calls)
    other.start()
    try:
        profiles = [model.profile(x, repeat=20) for _ in range(5)]
    finally:
        stop.set()
        other.join()
    assert not wrong
    for profile in profiles:
        assert all(0 < each.seconds < profile.call for each in profile.kernels)


def test_nothing_is_noted_outside_a_profile() -> None:
    model = jn.compile(layers(), device="cpu", cache=False)
    model.profile(BIG, repeat=1)
    executable = model._executable
    assert ctypes.c_void_p.from_address(executable.linked.profile_address).value is None
    before = list(executable.profile_table(0))
    model(BIG)
    model.bind(BIG)()
    assert list(executable.profile_table(0)) == before
    assert 0 < before[3] < before[2] <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def test_a_failed_call_ends_the_profile() -> None:
    graph = jn.Graph("two", [jn.TensorType(jn.float32, ("n",), "x"), jn.TensorType(jn.float32, ("n",), "y")])
    graph.output(graph.inputs[0] + graph.inputs[1])
    model = jn.compile(graph, device="cpu", cache=False)
    with pytest.raises(jn.UserError, match=r"y.*n"):
        model.profile(np.ones(2, F), np.ones(3, F))
    assert model.profile(np.ones(2, F), np.ones(2, F), repeat=1).kernels[0].bytes == 24


@pytest.mark.parametrize("repeat", [0, -1, True, 1.5, "3", 10**9])
def test_a_number_of_calls_is_wanted(repeat: Any) -> None:
    model = jn.compile(layers(1), device="cpu", cache=False)
    with pytest.raises(jn.UserError, match=r"profile: repeat is .*; fix: a number of calls from 1 to 1000000"):
        model.profile(BIG, repeat=repeat)


def test_models_of_gpus_are_refused() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
    graph.output(graph.inputs[0] * 2.0)
    with pytest.raises(jn.UnsupportedError, match=r"kernels on a GPU are not timed; fix: device='cpu', or a profiler"):
        jn.compile(graph, device="ptxsim", cache=False).profile(np.ones(4, F))


def test_models_in_parts() -> None:
    graph = jn.Graph("parts", [jn.TensorType(jn.float32, ("n", 256), "x")])
    (x,) = graph.inputs
    graph.output(jn.sum(jn.gather(jn.exp(x), jn.nonzero(x[:, 0] > 0.0)[0], axis=0), axis=0))
    model = jn.compile(graph, device="cpu", cache=False)
    profile = model.profile(BIG, repeat=3)
    assert [each.kernel.name for each in profile.kernels] == [kernel.name for kernel in model.kernels]
    assert [each.number for each in profile.kernels] == list(range(1, len(profile.kernels) + 1))
    assert len(profile.kernels) > 1
    assert profile.outside > 0


def test_a_model_without_kernels() -> None:
    graph = jn.Graph("empty", [jn.TensorType(jn.float32, (0,), "x")])
    graph.output(graph.inputs[0] + 1.0)
    profile = jn.compile(graph, device="cpu", cache=False).profile(np.ones(0, F), repeat=2)
    assert len(str(profile).splitlines()) == 3 + len(profile.kernels)


def test_launches_of_a_loop_are_added_up() -> None:
    """All iterations together are most of the call; one of them alone would be a thousandth."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (64,), "x")])
    graph.output(jn.fori_loop(0, 5000, lambda i, x: jn.tanh(x) + 1.0, graph.inputs[0]))
    found = jn.compile(graph, device="cpu", cache=False).profile(np.ones(64, F), repeat=1)
    assert 0.2 * found.seconds[0] < sum(each.seconds for each in found.kernels) <= found.seconds[0]
