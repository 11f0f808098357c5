"""Whole graphs on CUDA devices: a fake driver runs their PTX; what is asked of it is counted."""

from __future__ import annotations

import gc
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.cuda.device import cuda_device

from .test_buffers import Exporter

Array = np.ndarray[Any, Any]
W = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)


def graph() -> jn.Graph:
    g = jn.Graph("m", [jn.TensorType("float32", ("n", 40), "x"), jn.TensorType("float32", (24,), "b")])
    x, b = g.inputs
    g.output(jn.softmax(x @ g.weight("w", W) + b, -1), jn.sum(x, 1))
    return g


def expected(x: Array, b: Array) -> tuple[Array, Array]:
    z = x.astype(np.float64) @ W + b
    powers = np.exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True), x.sum(1, dtype=np.float64)


def arrays(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 40)).astype(np.float32), rng.standard_normal(24).astype(np.float32)


def close(results: tuple[Any, ...], x: Array, b: Array) -> None:
    for ours, theirs in zip(results, expected(x, b), strict=True):
        array = ours.numpy() if isinstance(ours, jn.Buffer) else ours
        np.testing.assert_allclose(array, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_numpy_in_numpy_out(fake: Any, device: str) -> None:
    model = jn.compile(graph(), device, cache=False)
    for n in (5, 1, 0, 5):
        x, b = arrays(n)
        results = model(x, b)
        assert all(isinstance(result, np.ndarray) for result in results)
        close(results, x, b)
    assert ".target sm_80" in model.kernels[0].ptx


def test_runs_of_one_size_replay_one_graph(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    x, b = arrays(3)
    model(x, b)
    before = len(fake.calls)
    model(x, b)
    asked = [name for name, _ in fake.calls[before:]]
    assert asked.count("cuGraphLaunch") == 1
    assert not {"cuLaunchKernel", "cuLaunchKernelEx", "cuMemAllocAsync", "cuModuleLoadDataEx", "cuStreamBeginCapture"} & set(
        asked
    )
    assert asked.count("cuMemcpyHtoDAsync") == 2
    assert asked.count("cuMemcpyDtoHAsync") == 2


@pytest.mark.slow
def test_arrays_on_the_device_stay_there(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    x, b = arrays(4)
    model(x, b)
    on_device = jn.Buffer(x)
    before = len(fake.calls)
    results = model(on_device, b)  # one on the device is enough
    asked = [name for name, _ in fake.calls[before:]]
    assert all(isinstance(result, jn.Buffer) for result in results)
    assert asked.count("cuMemcpyHtoDAsync") == 1  # b
    assert asked.count("cuMemcpyDtoDAsync") == 3  # x, and both outputs
    assert not {"cuStreamSynchronize", "cuMemcpyDtoHAsync"} & set(asked)
    close(results, x, b)
    named = model.run({"b": jn.Buffer(b), "x": on_device})
    assert list(named) == [spec.name for spec in model.outputs]
    close(tuple(named.values()), x, b)


def test_arrays_of_other_libraries(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    x, b = arrays(4)
    exporter = Exporter(fake, x)
    before = len(fake.calls)
    results = model(exporter, b)
    assert "cuStreamSynchronize" in [name for name, _ in fake.calls[before:]]  # its owner may write it afterwards
    close(results, x, b)


def test_bound_calls_copy_nothing(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    x, b = arrays(4)
    inputs = jn.Buffer(x), jn.Buffer(b)
    outputs = jn.Buffer((4, 24)), jn.Buffer((4,))
    bound = model.bind(*inputs, outputs=list(outputs))
    assert bound()[0] is outputs[0]
    close(outputs, x, b)
    more, b = arrays(4)[0] * 2, b + 1
    inputs[0].copy_from(more)
    inputs[1].copy_from(b)
    before = len(fake.calls)
    results = bound()
    asked = [name for name, _ in fake.calls[before:]]
    assert [name for name in asked if not name.startswith("cuCtx")] == ["cuGraphLaunch"]
    close(results, more, b)
    assert bound.inputs["x"] is inputs[0]
    outputs[1].free()
    with pytest.raises(jn.UserError, match="a bound array was freed; fix: free it after the last call, or bind anew"):
        bound()
    fresh = model.bind(*inputs)
    close(fresh(), more, b)
    assert set(fresh.outputs) == {spec.name for spec in model.outputs}


def test_mistakes_with_arrays_on_the_device(install: Any) -> None:
    fake = install(devices=2)
    model = jn.compile(graph(), "cuda", cache=False)
    x, b = (jn.Buffer(array) for array in arrays(4))
    other = jn.Buffer(arrays(4)[0], device="cuda:1")
    with pytest.raises(jn.UserError, match="does not lie on cuda, where the model runs; fix: copy it there, or compile for"):
        model(other, b)
    with pytest.raises(jn.UserError, match=r"input 'x' expects float32, got int32 with shape \(4, 40\) on the device"):
        model(jn.Buffer((4, 40), dtype="int32"), b)
    with pytest.raises(jn.UserError, match=r"input 'b' expects shape \(24,\), got \(25,\): axis 0 is 25, not 24"):
        model(x, jn.Buffer((25,)))
    with pytest.raises(jn.UserError, match=r"input 'b' expects shape \(24,\) of rank 1, got \(1, 24\) of rank 2"):
        model(x, jn.Buffer((1, 24)))
    with pytest.raises(jn.UserError, match=r"input 'b' is a ndarray, others are on the device; fix: bind joinery\.Buffer\(b\)"):
        model.bind(x, arrays(4)[1])
    first, second = jn.Buffer((4, 24)), jn.Buffer((4,))
    for outputs, message in (
        ([first], "has 2 outputs, got 1 buffers"),
        ([first, np.empty(4, np.float32)], r"must be on the device, as the inputs are, got a ndarray; fix: joinery\.Buffer"),
        ([second, first], r"must be float32\[4, 24\], got float32\[4\]"),
        ([first, jn.Buffer.from_dlpack(Exporter(fake, np.zeros(4, np.float32), read_only=True))], "is read-only"),
    ):
        with pytest.raises(jn.UserError, match=message):
            model.bind(x, b, outputs=outputs)
    odd = Exporter(fake, np.zeros((4, 40), np.float32))
    odd.address += 16
    with pytest.raises(jn.UserError, match="which is no multiple of 64; fix: bind a copy"):
        model.bind(jn.Buffer.from_dlpack(odd), b)
    square = jn.Graph("same", [jn.TensorType("float32", (8,), "x")])
    square.output(square.inputs[0] + 1)
    same, other = jn.Buffer((8,)), jn.compile(square, "cuda", cache=False)
    with pytest.raises(jn.UserError, match="overlaps input 'x'; fix: a buffer of its own"):
        other.bind(same, outputs=same)
    freed = jn.Buffer((8,))
    freed.free()
    with pytest.raises(jn.UserError, match="is used; fix: free it later"):
        jn.compile(square, "cuda", cache=False)(freed)


@pytest.mark.slow
def test_nothing_is_left_behind(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    for n in range(1, 12):
        model(*arrays(n))
    bound = model.bind(*(jn.Buffer(array) for array in arrays(3)))
    bound()
    del model, bound
    gc.collect()
    cuda_device("cuda").allocate(1).free()  # what died is given back at the next call
    fake.settle()
    assert [block.size for block in fake.live()] == []


def test_a_second_device(install: Any) -> None:
    fake = install(devices=2)
    model = jn.compile(graph(), "cuda:1", cache=False)
    x, b = arrays(2)
    close(model(x, b), x, b)
    close(model(jn.Buffer(x, device="cuda:1"), b), x, b)
    assert {block.device for block in fake.live()} == {1}


def test_products_through_tensor_maps(install: Any) -> None:
    """On a device that copies by TMA; the maps are made when launches are recorded, not when they are replayed."""
    fake = install(capability=(9, 0))
    g = jn.Graph("tma", [jn.TensorType("float16", ("n", 64), "x")])
    w = np.random.default_rng(0).standard_normal((64, 72)).astype(np.float16)
    g.output(jn.relu(g.inputs[0] @ g.weight("w", w)))
    model = jn.compile(g, "cuda", cache=False)
    assert ".target sm_90a" in model.kernels[0].ptx
    for n in (70, 1, 70, 0):
        x = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float16)
        before = len(fake.calls)
        result = model(x)
        np.testing.assert_allclose(result, np.maximum(x.astype(np.float32) @ w, 0), rtol=2e-3, atol=2e-2)
        if n:
            asked = [name for name, _ in fake.calls[before:]]
            assert asked.count("cuTensorMapEncodeTiled") == 3 * asked.count("cuGraphInstantiate")


def test_a_lost_device_says_so(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    model(*arrays(2))
    fake.fail("cuGraphLaunch", 700)
    with pytest.raises(jn.DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        model(*arrays(2))
    with pytest.raises(jn.DeviceError, match="lost to this process since an earlier error"):
        model(*arrays(2))


def test_out_of_memory_leaves_the_model_usable(fake: Any) -> None:
    model = jn.compile(graph(), "cuda", cache=False)
    model(*arrays(2))
    fake.fail("cuMemAllocAsync", 2, 1)
    fake.fail("cuMemAllocAsync", 2, 2)
    with pytest.raises(jn.DeviceMemoryError):
        model(*arrays(6))
    x, b = arrays(6)
    close(model(x, b), x, b)


def test_without_a_driver() -> None:
    if cuda_is_there():
        pytest.skip("this machine has a driver")
    with pytest.raises(jn.DeviceError, match="no CUDA driver"):
        jn.compile(graph(), "cuda", cache=False)
    assert jn.compile(graph(), cache=False).kernels[0].code is None
    with pytest.raises(jn.UserError, match="expected 'cuda' or 'cuda:N'"):
        jn.compile(graph(), "cuda:x", cache=False)


def cuda_is_there() -> bool:
    from joinery.runtime.cuda.current import why_unavailable

    return why_unavailable() is None
