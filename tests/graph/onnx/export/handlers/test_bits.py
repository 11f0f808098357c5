"""The bits of floats are computed before opset 26, exactly, where those of NaN do not matter; running products and extremes are
scans. onnxruntime computes the same."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from joinery.graph.onnx.export.functions import function_message, written
from joinery.graph.onnx.export.registry import Call
from joinery.graph.ops.attributes import fixed
from joinery.promotion.dtype import DTYPES
from onnx import helper

from .....support.onnx_export.agreement import by_onnxruntime, exported, outputs
from .....support.onnx_export.cases import op_cases
from .....support.onnx_export.single import built
from .....support.onnx_export.structure import structure

onnxruntime = pytest.importorskip("onnxruntime")
HARD = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e-39, 1e-38, 3.4e38, 0.3, -2.7, 5, -9, 27, 1e-3], "f")


def model(source: str, target: str) -> Any:
    """A model that is the function of one conversion."""
    call = Call("bitcast", (DTYPES[source],), DTYPES[target], fixed({"dtype": DTYPES[target]}), 21)
    infos = [helper.make_tensor_value_info(n, DTYPES[dtype].names.onnx, ["n"]) for n, dtype in (("x", source), ("y", target))]
    graph = helper.make_graph([helper.make_node("f", ["x"], ["y"], domain="joinery")], "bits", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("joinery", 1)]
    functions = [function_message(onnx, "f", written(call))]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)


def patterns(bits: int, mantissa: int) -> Any:
    """All patterns of 16 bits, or many of more: random ones, and the ends of each range of one exponent, of both signs."""
    dtype = np.dtype(f"uint{bits}")
    if bits == 16:
        return np.arange(1 << 16).astype(dtype)
    rng = np.random.default_rng(0)
    shares = np.array([0, 1, 2, (1 << mantissa) - 1, (1 << mantissa) - 2, 1 << (mantissa - 1)], dtype)
    edges = (np.arange(1 << (bits - 1 - mantissa)).astype(dtype)[:, None] << dtype.type(mantissa) | shares).reshape(-1)
    some = rng.integers(0, np.iinfo(dtype).max, 50_000, dtype, endpoint=True)
    return np.concatenate([some, edges, edges | dtype.type(1) << dtype.type(bits - 1), np.arange(99).astype(dtype)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("floats", "bits", "mantissa"), [("float16", 16, 10), ("float32", 32, 23), ("float64", 64, 52)])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_bits_are_computed_exactly(floats: str, bits: int, mantissa: int, kind: str) -> None:
    numbers = patterns(bits, mantissa)
    x, integers = numbers.view(floats), f"{kind}{bits}"
    is_nan = np.isnan(x)
    for level in (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4

        def run(made: Any, given: Any, options: Any = options) -> Any:
            return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, {"x": given})[0]

        got = run(model(floats, integers), x).view(numbers.dtype)
        np.testing.assert_array_equal(got[~is_nan], numbers[~is_nan])
        assert np.unique(got[is_nan]).tolist() == [np.array(np.nan, floats).view(numbers.dtype)]
        back = run(model(integers, floats), numbers.view(integers))
        np.testing.assert_array_equal(back.view(numbers.dtype)[~is_nan], numbers[~is_nan])
        assert np.isnan(back[is_nan]).all()


def of_complex(function: Any) -> Any:
    def build(x: Any, y: Any) -> Any:
        z = function(jn.complex(x, y))
        return (jn.real(z), jn.imag(z)) if z.dtype.is_complex else z

    return build


FUNCTIONS: dict[str, Any] = {
    "erfc": lambda x, y: jn.erfc(x), "copysign": jn.copysign, "atan2": jn.atan2, "angle": of_complex(jn.angle),
    "complex log": of_complex(jn.log), "complex exp": of_complex(jn.exp), "complex quotient": of_complex(lambda z: z / (z + 2)),
    "masked": lambda x, y: (x.bitcast("int32") & np.int32(-4096)).bitcast("float32") + y,
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_functions_of_bits_have_a_form_in_old_opsets(case: str, dtype: str) -> None:
    if dtype != "float32" and case not in ("erfc", "copysign"):
        pytest.skip("of float32; onnxruntime has no kernel of Atan of float64")
    graph = built(FUNCTIONS[case], (dtype, ("n",)), (dtype, ("n",)))
    x, y = (each.reshape(-1).astype(dtype) for each in np.meshgrid(HARD, HARD))
    with np.errstate(all="ignore"):
        want = outputs(graph, [x, y])
    for opset in (18, 21, None):
        made = exported(graph, opset=opset)
        assert made.opset_import[0].version == (opset or 21)
        for got, expected in zip(by_onnxruntime(made, graph, [x, y]), want, strict=True):
            tolerance = 1e-3 if dtype == "float16" else 1e-5
            np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=tolerance, atol=1e-40)
            zeros = (expected == 0) & ~np.isnan(expected) & (case != "complex quotient")
            if case in ("copysign", "atan2", "masked"):
                np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))
        assert structure(jn.from_onnx(made)) == structure(graph)


SEEN: dict[str, Any] = {
    "an output": lambda x: x.bitcast("int32"),
    "a mask that makes numbers of NaN": lambda x: (x.bitcast("int32") & np.int32(0xFFFF)).bitcast("float32"),
    "a sum": lambda x: (x.bitcast("int32") + np.int32(1)).bitcast("float32"),
    "a mask of the run": lambda x: (x.bitcast("int32") & x.cast("int32")).bitcast("float32"),
    "another dtype": lambda x: x.bitcast("int32").cast("float32"),
    "a comparison": lambda x: x.bitcast("uint32") >= np.uint32(5),
    "both": lambda x: ((x.bitcast("int32") & np.int32(-4096)).bitcast("float32"), x.bitcast("int32")),
    "8 bits": lambda x: x.cast("float8_e5m2").bitcast("uint8"),
}


@pytest.mark.parametrize("case", SEEN)
def test_bits_of_nan_that_are_seen_need_the_operator(case: str) -> None:
    graph = built(SEEN[case], ("float32", ("n",)))
    assert jn.to_onnx(graph).opset_import[0].version == 26
    with pytest.raises(jn.UnsupportedError, match=r"BitCast is in opset 26 and later, not in 25(.|\n)*fix: opset=26"):
        jn.to_onnx(graph, opset=25)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("opset", [18, 21, 25, 26])
@pytest.mark.parametrize("row", ["cumprod", "cummax", "cummin"])
def test_running_products_and_extremes(row: str, opset: int) -> None:
    """Of every dtype; products round and wrap as one after the other does, and a NaN stays."""
    count = 0
    for case in op_cases(seed=opset, rows=[row]):
        if case.dtype in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn"):
            continue
        made = exported(case.graph, opset=opset)
        (got,), (want,) = by_onnxruntime(made, case.graph, case.arrays), outputs(case.graph, case.arrays)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-6, err_msg=case.name)
        if case.dtype not in ("index", "address"):
            assert structure(jn.from_onnx(made)) == structure(case.graph), case.name
        count += 1
    assert count > 40


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5, 2)])
def test_running_products_of_any_size(shape: tuple[int, int]) -> None:
    def build(x: Any) -> Any:
        return (
            jn.cumprod(x, 0), jn.cumprod(x, 0, exclusive=True, reverse=True), jn.cumprod(x, 1, exclusive=True),
            jn.cummax(x, 0), jn.cummin(x, 1, reverse=True), jn.cumprod(x, 1, reverse=True),
        )  # fmt: skip

    graph = built(build, ("float32", ("n", "m")))
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    for got, want in zip(by_onnxruntime(exported(graph), graph, [x]), outputs(graph, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    if x.size:
        np.testing.assert_allclose(outputs(graph, [x])[0], np.cumprod(x, 0), rtol=1e-6)
        np.testing.assert_array_equal(outputs(graph, [x])[3], np.maximum.accumulate(x, 0))
