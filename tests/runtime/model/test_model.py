"""What a model tells about itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from joinery.promotion.errors import UserError
from joinery.runtime.model.model import Model
from joinery.runtime.storage.weight_packing import pack, stored_shape, unpack


def test_specs_and_repr(symbolic, many, weight):
    model = Model(symbolic, [], "", threads=2)
    assert (model.name, model.dims, model.threads) == ("symbolic", ("rows",), 2)
    assert [spec.name for spec in model.inputs] == ["x", "y"]
    assert model.outputs[0].shape == ("rows", 4)
    assert repr(model) == (
        "<joinery.Model 'symbolic' (x: float32[rows, 4], y: float32[rows, 4]) -> (z: float32[rows, 4]); "
        "2 kernels, 2 threads>"
    )
    assert isinstance(model, Model)
    assert type(model).__name__ == "Model"
    assert "total: float32[]" in repr(Model(many, [weight], ""))


def test_kernels(symbolic):
    double, add = Model(symbolic, [], "").kernels
    assert (double.name, double.template, double.fused, double.tiles) == (
        "double_rows",
        "map",
        ("mul",),
        (("i", 64),),
    )
    assert double.grid == "rows"
    assert double.bytes == "16*rows + 16*rows"
    assert add.at(rows=10) == {"grid": 10, "bytes_read": 320, "bytes_written": 160, "flops": 40}
    with pytest.raises(UserError, match="the size of dim 'rows' is not given"):
        add.at()
    assert double.llvm_ir.startswith("define void @double_rows(")
    assert double.llvm_ir.endswith("}")
    assert "@add_rows" not in double.llvm_ir
    assert "@double_rows" not in add.llvm_ir
    assert "double_rows:" in double.asm
    assert "ret" in double.asm
    assert "add_rows:" not in double.asm


def test_static_kernels(add16):
    (kernel,) = Model(add16, [], "").kernels
    assert kernel.at() == {"grid": 1, "bytes_read": 128, "bytes_written": 64, "flops": 16}
    assert (kernel.ttir, kernel.bytes) == ("tt", 192)


def test_plan(symbolic):
    lines = Model(symbolic, [], "").plan().splitlines()
    assert lines[0].split() == [
        "kernel",
        "template",
        "grid",
        "tiles",
        "bytes",
        "read",
        "bytes",
        "written",
        "flops",
        "fused",
    ]
    assert lines[2].split() == ["double_rows", "map", "rows", "i=64", "16*rows", "16*rows", "4*rows", "mul"]
    assert lines[3].split() == [
        "add_rows",
        "map",
        "rows",
        "i=64",
        "32*rows",
        "16*rows",
        "4*rows",
        "add,",
        "cast",
    ]
    assert len(lines) == 4


def test_a_model_is_not_pickled(add16):
    with pytest.raises(TypeError, match=r"cannot be pickled; fix: m\.save"):
        pickle.dumps(Model(add16, [], ""))


@pytest.mark.parametrize("shape", [(3, 16), (3, 17), (1, 1), (5, 48), (2, 3, 4, 10), (0, 5), (5, 0)])
def test_panels_invert(shape):
    matrix = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    stored = pack(matrix, "panels:16")
    assert stored.shape == stored_shape(shape, "panels:16")
    np.testing.assert_array_equal(unpack(stored, shape, "panels:16"), matrix)
    *batch, rows, columns = shape
    for index in np.ndindex(*batch, rows, columns):  # the definition
        *head, row, column = index
        assert stored[(*head, column // 16, row, column % 16)] == matrix[index]
    assert stored.sum() == pytest.approx(matrix.sum(), abs=1e-4), "padding is zero"
    transpose = np.ascontiguousarray(np.swapaxes(matrix, -1, -2))
    np.testing.assert_array_equal(pack(transpose, "panels:16:t"), stored)
    np.testing.assert_array_equal(unpack(stored, transpose.shape, "panels:16:t"), transpose)
    assert pack(matrix, "plain") is matrix


@pytest.mark.parametrize(("shape", "segment"), [((8, 16), 8), ((7, 17), 7), ((9, 5), 3), ((12, 33), 1), ((2, 3, 10, 40), 5)])
@pytest.mark.parametrize("together", [1, 2, 4])
def test_panels_of_rows_together_invert(shape, segment, together):
    matrix = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    layout = f"panels:16:{together}x{segment}"
    stored = pack(matrix, layout)
    assert stored.shape == stored_shape(shape, layout)
    np.testing.assert_array_equal(unpack(stored, shape, layout), matrix)
    flat, groups = stored.reshape(*stored.shape[:-3], -1), -(-segment // together)
    expected = np.zeros_like(flat)
    for index in np.ndindex(*shape):  # the definition
        *head, row, column = index
        group = row // segment * groups + row % segment // together
        expected[(*head, column // 16, (16 * group + column % 16) * together + row % segment % together)] = matrix[index]
    np.testing.assert_array_equal(flat, expected)
    transpose = np.ascontiguousarray(np.swapaxes(matrix, -1, -2))
    np.testing.assert_array_equal(pack(transpose, f"{layout}:t"), stored)
    np.testing.assert_array_equal(unpack(stored, transpose.shape, f"{layout}:t"), transpose)


def test_unknown_layouts():
    panels = ("", "panels", "panels:0", "panels:-1", "panels:x", "plain ", "panels:16:4", "panels:16:0x4", "panels:16:4x0")
    for layout in (*panels, "winograd", "winograd:0:8", "winograd:8", "winograd:8:8:t", "winograd2:8:8", "winograd4:8"):
        with pytest.raises(UserError, match="unknown constant layout"):
            stored_shape((2, 2), layout)
    with pytest.raises(UserError, match="is for matrices, not for shape"):
        stored_shape((4,), "panels:8")
    with pytest.raises(UserError, match="segments of 3 rows are no layout of a matrix with 8 rows"):
        stored_shape((8, 4), "panels:8:4x3")
    for shape in [(), (3, 3, 4, 5), (9, 5), (8, 4)]:
        with pytest.raises(UserError, match=r"is for filters of 3 × 3 taps and 8 channels, not"):
            stored_shape(shape, "winograd:8:4")
        with pytest.raises(UserError, match=r"is for filters of 3 × 3 taps and 8 channels, not"):
            stored_shape(shape, "winograd4:8:4")
