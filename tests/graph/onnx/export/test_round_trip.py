"""Every op with every dtype becomes a model that computes the same, and that is read back as the op it was."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import pytest

from ....support.onnx_export.agreement import (
    by_onnxruntime,
    by_reference,
    computed_in,
    difference,
    exported,
    outputs,
)
from ....support.onnx_export.cases import Case, op_cases
from ....support.onnx_export.structure import structure

has_onnxruntime = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
PLAIN = ("bool", "int32", "uint8", "float32")
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
NO_KERNEL = {
    **dict.fromkeys(("asin", "acos", "atan", "erf", "gelu"), ("float64",)),
    "bitcast": EIGHT_BITS,
}
"""Row → dtypes for which onnxruntime 1.32 has no CPU kernel of the operator that means the row, and nothing else means it."""
NO_CAST = ("int2", "uint2", "float4_e2m1fn")
"""Dtypes for which onnxruntime has no kernel at all, not even of Cast."""
NO_ARRAY = ("int2", "uint2", "int4", "uint4")
"""Dtypes of outputs that onnxruntime gives no NumPy array of."""
SCANNED = ("cumprod", "cummax", "cummin")
"""Rows that scan along an axis, which ONNX's evaluator does along the first only."""
FEW_BITS = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
CARRIED = {
    "reshape": FEW_BITS,
    "broadcast_to": (*FEW_BITS, "bfloat16", *EIGHT_BITS),
    "slice": (*FEW_BITS, *EIGHT_BITS),
    "windows": (*FEW_BITS, *EIGHT_BITS, "float8_e8m0fnu"),
    "pad": (*FEW_BITS, "int16", "uint16", "bfloat16", *EIGHT_BITS),
}
"""Rows whose nodes read sizes, so that they are no functions: casts to the dtype that carries them are read back as such."""


def is_read_back(case: Case) -> bool:
    """Whether an imported graph has the structure of the exported one."""
    if case.row in ("quantize", "dequantize"):  # read back where one node means them
        found = next(symbol for symbol in case.graph.symbols if symbol.op.name == case.row)
        numbers, codes = (found.inputs[0].dtype, found.dtype)[:: 1 if case.row == "quantize" else -1]
        few = codes.name in ("uint2", "int2", "float4_e2m1fn", "uint32") or (codes is jn.int32 and len(found.inputs) > 2)
        return numbers is jn.float32 and not few
    return case.dtype not in CARRIED.get(case.row, ())


def has_index(case: Case) -> bool:
    """Whether a graph has the dtypes index and address, which ONNX does not have: they are read back as uint64."""
    return any(str(symbol.dtype) in ("index", "address") for symbol in case.graph.symbols)


def first_of_each_row() -> list[Case]:
    found: dict[tuple[str, str], Case] = {}
    for case in op_cases(PLAIN):
        if case.row in SCANNED:
            continue
        if case.graph.outputs[0].dtype.bits in (1, 8, 32, 64):
            found.setdefault((case.row, case.dtype), case)
    return list(found.values())


@pytest.mark.slow
def test_a_sample_computes_the_same_in_the_reference_evaluator_and_is_read_back() -> None:
    cases = first_of_each_row()
    assert len({case.row for case in cases}) > 60
    wrong = []
    for case in cases:
        model = exported(case.graph)
        (got,), (want,) = by_reference(model, case.graph, case.arrays), outputs(case.graph, case.arrays)
        if told := difference(got, want, computed_in(case.graph)):
            wrong.append(f"{case.name}: {told}")
        if is_read_back(case) != (structure(jn.from_onnx(model)) == structure(case.graph)):
            wrong.append(f"{case.name}: read back as another graph")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@has_onnxruntime
@pytest.mark.parametrize("seed", [0, 1])
def test_every_op_of_every_dtype_computes_the_same_in_onnxruntime(seed: int) -> None:
    wrong, count = [], 0
    for case in op_cases(seed=seed):
        out = str(case.graph.outputs[0].dtype)
        if case.dtype in NO_KERNEL.get(case.row, ()) or out in NO_ARRAY or case.dtype in NO_CAST or out in NO_CAST:
            continue
        model = exported(case.graph)
        (got,), (want,) = by_onnxruntime(model, case.graph, case.arrays), outputs(case.graph, case.arrays)
        count += 1
        if told := difference(got, want, computed_in(case.graph)):
            wrong.append(f"{case.name}: {told}")
    assert count > 1900
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_every_op_of_every_dtype_is_read_back_as_it_was() -> None:
    wrong = []
    for case in op_cases():
        if has_index(case):
            continue
        graph: Any = jn.from_onnx(jn.to_onnx(case.graph))
        if graph.casts() or is_read_back(case) != (structure(graph) == structure(case.graph)):
            wrong.append(case.name)
    assert not wrong, wrong
