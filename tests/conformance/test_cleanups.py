"""Kernels that Triton really printed, run from their text against recorded results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.canonical import canonical_text
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline
from joinery.lowering.tt.verify import verify

ROOT = Path(__file__).resolve().parents[1] / "data" / "ttir"
CASES = [
    "vec_add",  # masks, cache of names from Python variables
    "softmax_rows",  # locations used before their definition, dense<0xFF800000>
    "matmul_masked",  # scf.for with four carried values, ragged tiles, tt.dot on f16
    "reduce_axes",  # reductions over both axes
    "welford_stats",  # a reduction with three operands
    "fp8_cast_matrix",  # conversions between all float types, clampf
    "raw_early_exit",  # before any pass: calls, cf branches, unreachable blocks, ub.poison
    "countdown",  # scf.while
]
STORED = {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn}


def dtype_of(name: str) -> np.dtype[Any]:
    if name in STORED:
        return np.dtype(STORED[name])
    kind = {"f": "float", "i": "int", "u": "uint"}[name[0]]
    return np.dtype(f"{kind}{name[1:]}")


def buffer(argument: dict[str, Any], data: Any) -> np.ndarray:
    dtype = dtype_of(argument["dtype"])
    start = argument["init"]
    if "fill" in start:
        return np.full(argument["numel"], start["fill"], np.float64).astype(dtype)
    return np.ascontiguousarray(data[start["array"]]).reshape(-1).view(dtype).copy()


def check(found: np.ndarray, expected: np.ndarray, tolerance: dict[str, Any]) -> None:
    expected = np.ascontiguousarray(expected).reshape(-1).view(found.dtype)
    if tolerance["mode"] == "exact":
        both_nan = np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        bits = f"u{found.dtype.itemsize}"
        assert ((found.view(bits) == expected.view(bits)) | both_nan).all()
    else:
        np.testing.assert_allclose(
            found.astype(np.float64),
            expected.astype(np.float64),
            rtol=tolerance.get("rtol", 0),
            atol=tolerance.get("atol", 0),
        )


def run(module, case: dict[str, Any], data: Any) -> int:
    """Run a case and compare all its outputs, the guard elements behind them included; the number of outputs."""
    args, outputs = [], []
    for argument in case["args"]:
        if argument["kind"] == "scalar":
            args.append(argument["value"])
            continue
        array = buffer(argument, data)
        args.append(array)
        expected = data[argument["expected"]] if argument["output"] else array.copy()
        outputs.append((array, expected, argument.get("tolerance", {"mode": "exact"})))
    interpret(module, case["grid"], args, name=case["entry"])
    for array, expected, tolerance in outputs:
        check(array, expected, tolerance)
    return sum(bool(argument.get("output")) for argument in case["args"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_recorded_results(name: str) -> None:
    case = json.loads((ROOT / name / "case.json").read_text())
    data = np.load(ROOT / name / "data.npz")
    module = parse((ROOT / name / "kernel.ttir").read_text(), name)
    assert run(module, case, data) > 0
    # printed and read again it is the same program with the same results
    printed = print_module(module)
    again = parse(printed)
    assert print_module(again) == printed
    for first, second in zip(module.body.block.ops, again.body.block.ops, strict=True):
        assert canonical_text(first) == canonical_text(second)
    run(again, case, data)
    # and so it is after the cleanups
    before = sum(1 for _ in module.walk())
    for function in module.body.block.ops:
        Pipeline.parse("canonicalize,cse,dce").run(function)
    verify(module)
    assert sum(1 for _ in module.walk()) <= before
    run(module, case, data)


def test_a_wrong_result_is_noticed() -> None:
    """The comparison itself: one changed constant must fail."""
    case = json.loads((ROOT / "vec_add" / "case.json").read_text())
    data = np.load(ROOT / "vec_add" / "data.npz")
    text = (ROOT / "vec_add" / "kernel.ttir").read_text()
    assert "arith.addf" in text
    with pytest.raises(AssertionError):
        run(parse(text.replace("arith.addf", "arith.subf")), case, data)
