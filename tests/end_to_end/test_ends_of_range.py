"""Composites where float32 overflows or underflows on the way, and the signs of zeros: compiled code means what the reference
evaluator means."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.ops.denormal_results import DENORMAL_BELOW

from ..support.tiers import each

DEVICES = ("cpu", "ptxsim")
NUMPY = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float64": np.float64}
ROWS = {
    "a sum too large": [3e38, 2e38],
    "differences too large": [3e38, -3e38],
    "squares too large": [1e25, -3e24, 2.0],
    "squares too small": [1e-30, 3e-30, -2e-30],
    "denormals": [1e-42, 3e-41, 0.0],
    "zeros": [0.0, -0.0, 0.0],
    "infinity": [np.inf, 1.0, 2.0],
    "NaN": [np.nan, 1.0],
    "one": [5.0],
}


def composites(x: Any) -> dict[str, Any]:
    return {
        "mean": jn.mean(x, axis=1), "var": jn.var(x, axis=1), "unbiased": jn.var(x, axis=1, correction=1),
        "stdev": jn.stdev(x, axis=1), "layer_norm": jn.layer_norm(x), "rms_norm": jn.rms_norm(x),
        "layer_norm of 0": jn.layer_norm(x, epsilon=0.0), "rms_norm of 0": jn.rms_norm(x, epsilon=0.0),
        "softmax": jn.softmax(x), "logsoftmax": jn.logsoftmax(x), "logsumexp": jn.logsumexp(x, axis=1), "silu": jn.silu(x),
        "gelu": jn.gelu(x), "gelu tanh": jn.gelu(x, "tanh"), "gelu quick": jn.gelu(x, "quick"),
    }  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_composites_overflow_and_underflow_alike(dtype: str, device: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, (1, len(row))) for row in ROWS.values()])
    outputs = {f"{what} of {name}": y for x, name in zip(graph.inputs, ROWS, strict=True) for what, y in composites(x).items()}
    graph.output(*outputs.values())
    exponent = 8.09 if dtype == "float64" else 1.0  # as close to the ends of its range
    arrays = []
    for row in ROWS.values():
        wide = np.array([row])
        with np.errstate(all="ignore"):
            arrays.append((np.sign(wide) * np.abs(wide) ** exponent if exponent > 1 else wide).astype(NUMPY[dtype]))
    with np.errstate(all="ignore"):
        expected = jn.evaluate(graph, *arrays)
    step = 2.0**-8 if dtype == "bfloat16" else 2e-5
    for name, ours, theirs in zip(outputs, jn.compile(graph, device, cache=False)(*arrays), expected, strict=True):
        wanted = theirs.astype(np.float64)
        np.testing.assert_allclose(ours.astype(np.float64), wanted, rtol=step, atol=1e-44, err_msg=name)


def test_the_mean_is_the_sum_by_the_count() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (2,))])
    graph.output(jn.mean(graph.inputs[0]), jn.layer_norm(graph.inputs[0]), jn.rms_norm(graph.inputs[0]))
    x = np.array([3e38, 2e38], np.float32)
    for mean, layer, rms in (jn.evaluate(graph, x), jn.compile(graph, "cpu", cache=False)(x)):
        assert np.isposinf(mean)
        assert np.isnan(layer).all()
        assert not rms.any()


def by_sign(x: Any, y: Any) -> dict[str, Any]:
    return {
        "relu": jn.relu(x), "maximum": jn.maximum(x, y), "minimum": jn.minimum(x, y), "above 0": jn.maximum(x, 0.0),
        "above -0": jn.maximum(x, -0.0), "below 0": jn.minimum(x, 0.0), "below -0": jn.minimum(x, -0.0),
        "left": jn.maximum(0.0, x), "clip": jn.clip(x, 0.0, 1.0), "clip to -0": jn.clip(x, -1.0, -0.0), "sign": jn.sign(x),
        "where": jn.where(x > y, x, y), "product": x * y, "sum": x + y, "difference": x - y, "remainder": jn.rem(x, y),
        "modulo": x % y, "ceil": jn.ceil(x * 0.3), "trunc": jn.trunc(x * 0.3), "round": jn.round(x * 0.3), "root": jn.sqrt(x),
        "negative": -x,
    }  # fmt: skip


@pytest.mark.one_in(9)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_signs_of_zeros(dtype: str, device: str) -> None:
    values = np.array([0.0, -0.0, 1, -1, 0.5, np.nan, np.inf, -np.inf], NUMPY[dtype])
    a, b = (part.ravel() for part in np.meshgrid(values, values))
    graph = jn.Graph("g", [jn.TensorType(dtype, a.shape) for _ in range(2)])
    outputs = by_sign(*graph.inputs)
    graph.output(*outputs.values())
    with np.errstate(all="ignore"):
        expected = jn.evaluate(graph, a, b)
    for name, ours, theirs in zip(outputs, jn.compile(graph, device, cache=False)(a, b), expected, strict=True):
        np.testing.assert_array_equal(ours.astype(np.float64), theirs.astype(np.float64), err_msg=name)
        number = ~np.isnan(theirs.astype(np.float64))
        differ = np.signbit(ours[number]) != np.signbit(theirs[number])
        assert not differ.any(), (name, a[number][differ], b[number][differ])


@pytest.mark.parametrize("device", DEVICES)
def test_limits_of_activations_at_negative_infinity(device: str) -> None:
    """-0, where the product with a sigmoid of 0 would be NaN; their documentation says so."""
    names = ("gelu", "silu", "mish")
    graph = jn.Graph("g", [jn.TensorType("float32", (4,))])
    graph.output(*(getattr(jn, name)(graph.inputs[0]) for name in names))
    x = np.array([-np.inf, -1e30, -300.0, np.inf], np.float32)
    with np.errstate(all="ignore"):
        expected = jn.evaluate(graph, x)
    for name, ours, theirs in zip(names, jn.compile(graph, device, cache=False)(x), expected, strict=True):
        assert re.search(r"-0 for larger? negative x", " ".join(getattr(jn, name).__doc__.split()))
        for values in (ours, theirs):
            np.testing.assert_array_equal(values, [0, 0, 0, np.inf], err_msg=name)
            np.testing.assert_array_equal(np.signbit(values), [True, True, True, False], err_msg=name)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", DEVICES)
def test_activations_have_no_denormal_results(device: str, dtype: str) -> None:
    """Results are normal down to the least operand that has such a one, and -0 below: products that read denormal numbers take
    a multiple of the time."""
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n",))])
    names = ("x_phi", "x_sigmoid", "x_sigmoid_quick", "x_sigmoid_tanh")
    x = graph.inputs[0]
    graph.output(jn.gelu(x), jn.silu(x), jn.gelu(x, "quick"), jn.gelu(x, "tanh"))
    kind = np.dtype(dtype).type
    ends = np.array([DENORMAL_BELOW[name][dtype] for name in names], kind)
    operands = np.concatenate([ends, np.nextafter(ends, kind(-np.inf)), ends * kind(1.01), ends * kind(3)])
    model = jn.compile(graph, device, cache=False)
    for number, (found, expected) in enumerate(zip(model(operands), jn.evaluate(graph, operands), strict=True)):
        below = operands < ends[number]
        for values in (found, expected):
            assert np.signbit(values).all(), names[number]
            assert not values[below].any(), names[number]
            assert 0.999 < -values[number] / np.finfo(dtype).tiny < 1.001, names[number]


def sums(x: Any) -> dict[str, Any]:
    ones = jn.ones(x.graph, (x.shape[-1], 3), dtype=x.dtype)
    return {
        "rows": jn.sum(x, axis=-1), "columns": jn.sum(x, axis=0), "all": jn.sum(x), "mean": jn.mean(x, axis=-1),
        "product": x @ ones, "of a product": jn.sum(x * 0.5, axis=-1), "running": jn.cumsum(x, axis=-1),
        "down": jn.cumsum(x, axis=0), "backward": jn.cumsum(x, axis=-1, reverse=True),
        "exclusive": jn.cumsum(x, axis=-1, exclusive=True),
        "exclusive backward": jn.cumsum(x, axis=0, exclusive=True, reverse=True),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "numerics"),
    each([("cpu", None), ("ptxsim", "sm_80"), ("ptxsim", "sm_90a")], ["strict", "fast", "reproducible"]),
)
def test_signs_of_sums_of_zeros(where: tuple[str, str | None], numerics: str) -> None:
    """As in NumPy: sums and products begin with 0 and are never -0.0; running sums begin with their first element."""
    device, target = where
    shapes = [(1, 1), (2, 3), (3, 8), (40, 20), *([(3, 5000)] if device == "cpu" else [])]
    graph = jn.Graph("g", [jn.TensorType("float32", shape) for shape in shapes])
    outputs = {(name, x.shape): y for x in graph.inputs for name, y in sums(x).items()}
    graph.output(*outputs.values())
    arrays = [np.full(shape, -0.0, np.float32) for shape in shapes]
    expected = jn.evaluate(graph, *arrays)
    found = jn.compile(graph, device, target=target, numerics=numerics, cache=False)(*arrays)
    for (name, shape), ours, theirs in zip(outputs, found, expected, strict=True):
        np.testing.assert_array_equal(ours, 0.0, err_msg=f"{name} of {shape}")
        for values in (ours, theirs):
            negative = name in ("running", "down", "backward")
            np.testing.assert_array_equal(np.signbit(values), negative, err_msg=f"{name} of {shape}")


@pytest.mark.parametrize("extent", [0, "n"])
def test_hardmax_has_no_largest_of_nothing(extent: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType("int32", (extent, 3), "x")])
    if extent == 0:
        with pytest.raises(jn.UserError, match="hardmax: axis 0 is empty"):
            jn.hardmax(graph.inputs[0], axis=0)
        return
    graph.output(jn.hardmax(graph.inputs[0], axis=0))
    nothing = np.zeros((0, 3), np.int32)
    for run in (lambda x: jn.evaluate(graph, x), *[jn.compile(graph, device, cache=False) for device in DEVICES]):
        with pytest.raises(jn.UserError, match="hardmax: axis 0 must not be empty"):
            run(nothing)
        np.testing.assert_array_equal(run(np.array([[1, 5, 2], [4, 0, 2]], np.int32)), [[0, 1, 1], [1, 0, 0]])


@pytest.mark.parametrize("device", [*DEVICES, "evaluate"])
@pytest.mark.parametrize(("value", "count"), [(2.0**-149, 1024), (3e-42, 1000), (2e-38, 1024), (3e-39, 4096)])
def test_means_of_small_numbers_keep_their_digits(value: float, count: int, device: str) -> None:
    """Scaled down before they are added, against overflow, they would not."""
    x = np.full(count, value, np.float32)
    graph = jn.Graph("g", [jn.TensorType("float32", (count,))])
    graph.output(jn.mean(graph.inputs[0]))
    mean = jn.evaluate(graph, x) if device == "evaluate" else jn.compile(graph, device, cache=False)(x)
    np.testing.assert_allclose(np.float64(mean), np.float64(x[0]), rtol=1e-6, atol=2.0**-149)


def test_the_mean_of_denormals_is_not_0() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (1024,))])
    graph.output(jn.mean(graph.inputs[0]))
    x = np.full(1024, 2.0**-149, np.float32)
    for device in DEVICES:
        assert jn.compile(graph, device, cache=False)(x) == x[0]
