"""Every row of the op table has a form in ONNX or a reason why it has none, and no row can be forgotten."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.onnx.export.native import NATIVE, carrier
from joinery.graph.onnx.export.registry import UNWRITTEN
from joinery.graph.onnx.export.table import REASONS, SIZED, WRITERS
from joinery.graph.ops.table import OPS
from joinery.promotion.dtype import DTYPES

from ....support.onnx_export.agreement import exported
from ....support.onnx_export.cases import op_cases

LEAVES = {"input", "constant", "weight", "text_constant"}
HOST = {row.name for row in OPS.values() if row.kind == "host"}
"""Rows that `test_host_ops.py` tries."""
CONTROL = {row.name for row in OPS.values() if row.kind == "control" or row.name.startswith("host_")}
"""Rows that `test_regions.py` and, of loops of the host, `tests/interface/onnx` try."""


def test_every_row_is_written_or_refused_with_a_reason() -> None:
    """Rows without either are refused, too; `docs/onnx_export.md` says so, and whoever adds a row decides about it there."""
    written = {*WRITERS, *SIZED}
    assert written | set(REASONS) | LEAVES <= set(OPS)
    assert not written & set(REASONS)
    page = (Path(__file__).resolve().parents[4] / "docs" / "onnx_export.md").read_text(encoding="utf-8")
    for row in set(OPS) - written - LEAVES - CONTROL:
        reason, fix = REASONS.get(row, UNWRITTEN)
        assert f"| `{row}` | – | refused: {reason} |" in page
        assert fix


def test_a_row_that_nobody_has_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(WRITERS, "exp")
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3,), "x")])
    graph.output(jn.exp(graph.inputs[0]))
    with pytest.raises(jn.UnsupportedError, match=r"exp at test_table\.py.*no form of it in ONNX yet(.|\n)*fix: compute"):
        jn.to_onnx(graph)


def test_every_row_that_is_written_has_a_graph_that_is_exported() -> None:
    first = {case.row: case for case in op_cases(("bool", "int32", "float32"))}
    exported_rows = {row for row, case in first.items() if jn.to_onnx(case.graph).ByteSize()}
    assert exported_rows == ({*WRITERS, *SIZED} - {"dim_value", "multiply_add"} - HOST)


def test_what_a_convolution_is_made_of_is_written_where_none_is_found() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (4,), name) for name in "xyz"])
    graph.output(graph.apply("multiply_add", graph.inputs))
    x, y, z = (np.arange(4, dtype=np.float32) + each for each in (1, 5, -7))
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(jn.to_onnx(graph)), x, y, z), x * y + z)


@pytest.mark.parametrize("row", sorted(row for row in REASONS if OPS[row].kind == "map"))  # loops: test_regions.py
def test_a_row_that_is_refused_names_op_line_reason_and_fix(row: str) -> None:
    is_integer = row in ("sort_keys", "sum_of_four")
    graph = jn.Graph("g", [jn.TensorType(jn.int32 if is_integer else jn.float32, (3,), "x")])
    (x,) = graph.inputs
    known = {"axis": 0, "exclusive": False, "reverse": False, "exponent": 3, "k": 2}
    attrs = {name: known[name] for name in OPS[row].attrs}
    y = graph.apply(row, [x] * OPS[row].arity, attrs)
    graph.output(y)
    with pytest.raises(jn.UnsupportedError) as caught:
        jn.to_onnx(graph)
    text = str(caught.value)
    assert re.match(rf"to_onnx: {row} at test_table\.py:\d+ in test_a_row", text)
    assert REASONS[row][0] in text
    assert f"fix: {REASONS[row][1]}" in text
    assert "operand 0: input 'x'" in text
    assert f"{x.dtype} (3,)" in text


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if not dtype.is_abstract], ids=str)
def test_every_dtype_is_an_input_and_output_or_refused(dtype: Any) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, (2, 3), "x")])
    graph.output(jn.permute(graph.inputs[0], (1, 0)), name="y")
    if not dtype.names.onnx or dtype.name == "tensor_float32":
        text = r"input at .*(no tensor data type|no tensor_float32)(.|\n)*fix: cast to float32"
        with pytest.raises(jn.UnsupportedError, match=text):
            jn.to_onnx(graph)
        return
    model = exported(graph)
    assert model.graph.input[0].type.tensor_type.elem_type == dtype.names.onnx
    again = jn.from_onnx(model)
    assert again.outputs[0].dtype.names.onnx == dtype.names.onnx


@pytest.mark.parametrize("op", sorted(NATIVE))
def test_carriers_hold_every_value_and_are_native(op: str) -> None:
    for dtype in DTYPES.values():
        wide = DTYPES[carrier(op, dtype.name)]
        if wide is dtype:
            continue
        assert wide.name in NATIVE[op]
        if dtype.is_float:
            assert wide.exponent_bits >= dtype.exponent_bits
            assert wide.mantissa_bits >= dtype.mantissa_bits
        else:
            signed = dtype.kind == "int"
            fits = wide.bits >= dtype.bits if signed == (wide.kind == "int") else wide.bits > dtype.bits
            assert fits or (wide.bits, dtype.bits) == (64, 64)  # the bits, with the top one flipped where order counts


def test_int_max_of_every_integer_is_carried_in_order() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.uint64, (4,), "x")])
    graph.output(jn.max(graph.inputs[0]), jn.argmin(graph.inputs[0]))
    model = exported(graph)
    again = jn.from_onnx(model)
    array = np.array([1 << 63, 5, (1 << 64) - 1, 7], np.uint64)
    assert [int(value) for value in jn.evaluate(again, array)] == [(1 << 64) - 1, 1]
