"""Loops and branches on CUDA devices: a fake driver, whose streams are lazy, runs their PTX; what is asked of it is counted."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

F32 = jn.float32


def graph() -> jn.Graph:
    types = [(F32, ("n", 6)), (jn.int64, ()), (jn.bool, ())]
    g = jn.Graph("m", [jn.TensorType(*each, name) for each, name in zip(types, ("x", "trips", "flag"), strict=True)])
    x, trips, flag = g.inputs

    def body(i: Any, v: Any) -> Any:
        total = jn.sum(v, 1, keepdims=True)
        return v * 0.5 + jn.softmax(total + v, 0) + i.cast(F32)

    moved = jn.fori_loop(0, trips, body, x)
    g.output(jn.cond(flag, lambda: moved, lambda: moved - x), jn.scan(lambda c, r: (c + r, c), x[0], x)[1])
    return g


def expected(x: Any, trips: int, flag: bool) -> list[Any]:
    v = x.astype(np.float64)
    for i in range(trips):
        powers = np.exp(v.sum(1, keepdims=True) + v)
        v = v * 0.5 + powers / powers.sum(0) + i
    sums = np.cumsum(np.concatenate([x[:1], x]), 0)[:-1]
    return [v if flag else v - x, sums]


def close(results: Any, wanted: list[Any]) -> None:
    for result, value in zip(results, wanted, strict=True):
        array = result.numpy() if isinstance(result, jn.Buffer) else result
        np.testing.assert_allclose(array, value, rtol=1e-5, atol=1e-5)


def floats(n: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_arrays_of_the_host(fake: Any, device: str) -> None:
    model = jn.compile(graph(), device, cache=False)
    for n, trips, flag in ((3, 0, True), (3, 2, False)):
        x = floats(n)
        close(model(x, np.int64(trips), np.bool_(flag)), expected(x, trips, flag))


@pytest.mark.slow
def test_addresses_that_come_again_are_replayed(fake: Any) -> None:
    """A value that a loop carries lies in two temporaries in turn: what runs from the sixth iteration on is recorded."""
    model, x = jn.compile(graph(), "cuda", cache=False), floats(2)
    model(x, np.int64(8), np.bool_(True))
    before = len(fake.calls)
    close(model(x, np.int64(18), np.bool_(True)), expected(x, 18, True))
    asked = [name for name, _ in fake.calls[before:]]
    assert asked.count("cuGraphLaunch") >= 16
    assert not {"cuMemAllocAsync", "cuModuleLoadDataEx"} & set(asked)


@pytest.mark.slow
def test_arrays_on_the_device_and_bound_calls(fake: Any) -> None:
    model, x = jn.compile(graph(), "cuda", cache=False), floats(3)
    given = jn.Buffer(x), jn.Buffer(np.array(4)), jn.Buffer(np.array(False))
    close(model(*given), expected(x, 4, False))
    outputs = [jn.Buffer((3, 6)), jn.Buffer((3, 6))]
    bound = model.bind(*given, outputs=outputs)
    bound()
    close(outputs, expected(x, 4, False))
    given[0].copy_from(x * 2)
    given[1].copy_from(np.array(1))
    given[2].copy_from(np.array(True))
    bound()
    close(outputs, expected(x * 2, 1, True))


def test_products_that_a_body_reads_through_tensor_maps(hopper: Any) -> None:
    g = jn.Graph("m", [jn.TensorType(jn.float16, (64, 64), "x"), jn.TensorType(jn.float16, (64, 64), "w")])
    x, w = g.inputs
    g.output(jn.fori_loop(0, 4, lambda i, v: (v @ w) * 0.25, x))
    model = jn.compile(g, "cuda", cache=False)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    wanted = a.astype(np.float32)
    for _ in range(4):
        wanted = (wanted @ b.astype(np.float32) * 0.25).astype(np.float16).astype(np.float32)
    found = model(a, b)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=np.abs(wanted).max() * 5e-3)
