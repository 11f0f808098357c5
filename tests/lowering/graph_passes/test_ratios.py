"""Arctangents of ratios: found in atan2, and in nothing that may leave [0, 1]."""

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand


def _names(build, dtype="float32"):
    inputs = [jn.TensorType(dtype, (9,), name=name) for name in "xy"]
    graph = jn.Graph("ratio", inputs=inputs)
    graph.output(build(*graph.inputs))
    return {symbol.op.name for symbol in expand(graph).symbols}


def _ratio(x, y, divisor=lambda large: jn.where(large == 0.0, 1.0, large), a=abs, same=lambda steep, x, y: steep):
    a, b = a(x), a(y)
    steep = b > a
    return jn.where(steep, a, b) / divisor(jn.where(same(steep, x, y), b, a))


def _joined(x, y, ratio):
    """What atan2 takes the arctangent of."""
    return jn.where(x < y, 1.0, ratio)


def test_atan2_takes_the_short_form_in_float32_alone():
    for dtype in ("float32", "float16", "bfloat16"):
        assert "atan_ratio" in _names(lambda x, y: jn.atan2(y, x), dtype)
    assert "atan_ratio" not in _names(lambda x, y: jn.atan2(y, x), "float64")


@pytest.mark.parametrize(
    ("found", "build"),
    [
        (True, lambda x, y: _joined(x, y, _ratio(x, y))),
        (True, lambda x, y: _joined(x, y, _ratio(x, y, lambda large: large))),
        (False, _ratio),
        (False, lambda x, y: _joined(x, y, -0.0)),
        (False, lambda x, y: jn.where(x < y, -0.0, _ratio(x, y))),
        (False, lambda x, y: jn.where(x < y, 0.25, 0.75)),
        (False, lambda x, y: jn.where(x < y, 1.5, _ratio(x, y))),
        (False, lambda x, y: jn.where(x < y, x, _ratio(x, y))),
        (False, lambda x, y: _joined(x, y, _ratio(x, y, a=lambda v: v + 1.0))),
        (False, lambda x, y: _joined(x, y, _ratio(x, y, lambda large: jn.where(large == 0.0, 0.5, large)))),
        (False, lambda x, y: _joined(x, y, _ratio(x, y, lambda large: jn.where(large == 2.0, 1.0, large)))),
        (False, lambda x, y: _joined(x, y, _ratio(x, y, lambda large: jn.where(large == 0.0, large, 1.0)))),
        (False, lambda x, y: _joined(x, y, _ratio(x, y, same=lambda steep, x, y: x > y))),
        (False, lambda x, y: 1.0 / _ratio(x, y)),
        (False, lambda x, y: x),
    ],
)
def test_ratios_are_told_from_others(found, build):
    names = _names(lambda x, y: jn.atan(build(x, y)))
    assert ("atan_ratio" in names, "atan" in names) == (found, not found)


def test_angles_are_within_two_ulp():
    """Near the diagonal, where a step of the ratio and two sums meet; the first pair was 2.17 ulp off."""
    rng = np.random.default_rng(0)
    y = np.concatenate([[1.1349472], rng.uniform(1, 2, 200_000), np.exp2(rng.uniform(-20, 20, 50_000))]).astype(np.float32)
    x = y * np.concatenate([[1.1296132 / 1.1349472], rng.uniform(0.95, 1.05, 250_000)]).astype(np.float32)
    graph = jn.Graph("angles", inputs=[jn.TensorType("float32", ("n",), name=name) for name in "yx"])
    graph.output(jn.atan2(*graph.inputs))
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    found = jn.compile(graph, device="cpu")(y, x)
    assert np.max(np.abs(found - exact) / np.spacing(exact.astype(np.float32))) < 1.6


def test_ratios_have_the_values_of_arctangents():
    x = np.concatenate([np.linspace(0, 1, 100_001), np.exp2(-np.arange(150.0)), [np.nan]]).astype(np.float32)
    graph = jn.Graph("ratio", inputs=[jn.TensorType("float32", ("n",), name="x")])
    ratio = _ratio(graph.inputs[0], graph.inputs[0] * 0.0 + 1.0)
    graph.output(jn.atan(jn.where(graph.inputs[0] < 0.0, 1.0, ratio)), ratio)
    found, ratio = jn.compile(graph, device="cpu")(x)
    exact = np.arctan(ratio.astype(np.float64))
    assert np.nanmax(np.abs(found - exact) / np.spacing(exact.astype(np.float32))) < 1.5
    assert np.isnan(found[-1])
