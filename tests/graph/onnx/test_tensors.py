"""Every dtype from every field that may hold it, and data in files beside the model."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.onnx.limits import OnnxLimits
from joinery.graph.onnx.tensors import decoded

from ...support.onnx_models import TensorProto, model, node

F = np.float32
DTYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "UINT16": np.uint16, "INT32": np.int32,
    "UINT32": np.uint32, "INT64": np.int64, "UINT64": np.uint64, "FLOAT16": np.float16, "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT": np.float32, "DOUBLE": np.float64, "COMPLEX64": np.complex64, "COMPLEX128": np.complex128,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu, "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2, "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}


def read(tensor: Any) -> Any:
    return decoded(tensor, lambda *_: pytest.fail("no file is needed"), OnnxLimits(), "test:")


def sample(name: str) -> Any:
    """Five elements with bits of all kinds."""
    dtype = np.dtype(DTYPES[name])
    if name == "BOOL":
        return np.array([True, False, False, True, True])
    if name in BITS:
        codes = np.array([1, 2, 3, 0, 2], np.uint8) if BITS[name] == 2 else np.array([1, 15, 7, 8, 2], np.uint8)
        if name.startswith("FLOAT"):
            return codes.view(dtype)
        signed = (codes.astype(np.int8) << (8 - BITS[name])) >> (8 - BITS[name]) if name.startswith("INT") else codes
        return signed.astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, 7], dtype)
    return np.array([0.5, -2, 1, 4, 8] if name != "FLOAT8E8M0" else [0.5, 2, 1, 4, 8], np.float64).astype(dtype)


def packed(array: Any, name: str) -> bytes:
    """The bytes of raw_data, written bit by bit from the text of the format."""
    if name not in BITS:
        return np.ascontiguousarray(array).tobytes()
    codes = array.view(np.uint8) if name.startswith("FLOAT") else array.astype(np.int8).view(np.uint8)
    bits = "".join(f"{int(value) & ((1 << BITS[name]) - 1):0{BITS[name]}b}"[::-1] for value in codes)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[start : start + 8][::-1], 2) for start in range(0, len(bits), 8))


def numbers(array: Any, name: str) -> tuple[str, list[Any]]:
    """The field of numbers that the format gives the dtype, and what it holds."""
    if name in ("FLOAT", "COMPLEX64"):
        return "float_data", array.view(np.float32).tolist()
    if name in ("DOUBLE", "COMPLEX128"):
        return "double_data", array.view(np.float64).tolist()
    if name == "INT64":
        return "int64_data", array.tolist()
    if name in ("UINT32", "UINT64"):
        return "uint64_data", array.tolist()
    if name in BITS:
        return "int32_data", list(packed(array, name))
    if "FLOAT" in name:
        return "int32_data", array.view(f"u{array.dtype.itemsize}").tolist()
    return "int32_data", array.astype(np.int64).tolist()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_in_every_field(name: str) -> None:
    array = sample(name)
    raw = TensorProto(dims=[5], data_type=TensorProto.DataType.Value(name), raw_data=packed(array, name))
    field, values = numbers(array, name)
    typed = TensorProto(dims=[5], data_type=raw.data_type)
    getattr(typed, field).extend(values)
    for found in (read(raw), read(typed)):
        assert (found.dtype, found.shape) == (array.dtype, (5,))
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", DTYPES)
def test_empty_tensors_of_every_dtype(name: str) -> None:
    assert read(TensorProto(dims=[0, 3], data_type=TensorProto.DataType.Value(name))).shape == (0, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data_type": 1, "dims": [2], "int32_data": [1, 2]}, "float32 in int32_data; expected float_data"),
        ({"data_type": 3, "dims": [1], "int32_data": [200]}, "values outside int8"),
        ({"data_type": 14, "dims": [2], "float_data": [1, 2, 3]}, "3 values for 2 elements"),
        ({"data_type": 22, "dims": [3], "int32_data": [1]}, "1 values for 3 elements"),
        ({"data_type": 22, "dims": [3], "raw_data": b"abc"}, "3 bytes for int4"),
        ({"data_type": 8, "dims": [2], "string_data": [b"a"]}, "1 strings for 2 elements"),
        ({"data_type": 8, "dims": [1], "raw_data": b"a"}, "0 strings for 1 elements"),
        ({"data_type": 8, "dims": [1], "string_data": [b"a" * (1 << 21)]}, "a string of 2097152 bytes"),
        ({"data_type": 0, "dims": [1]}, "0 is no tensor data type"),
    ],
)
def test_fields_that_do_not_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.JoineryError, match=message):
        read(TensorProto(**fields))


# -- external data -----------------------------------------------------------------------------------------------------

W = np.arange(6, dtype=F).reshape(2, 3)


def with_external(**entries: Any) -> Any:
    made = model([node("Add", "x w")], {"x": (F, [2, 3])}, constants={"w": W})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return made


def saved(folder: Path, **entries: Any) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(with_external(**entries).SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "model"
    (inside / "data").mkdir(parents=True)
    for place in (inside / "weights.bin", inside / "data" / "weights.bin", tmp_path / "outside.bin"):
        place.write_bytes(b"head" + W.tobytes() + b"tail")
    return inside


@pytest.mark.parametrize("location", ["weights.bin", "data/weights.bin", "./weights.bin", "data\\weights.bin"])
def test_data_beside_the_model(folder: Path, location: str) -> None:
    digest = hashlib.sha1(W.tobytes()).hexdigest()
    path = saved(folder, location=location, offset=4, length=24, checksum=digest)
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(path), W), 2 * W)
    made = with_external(location=location, offset=4)
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(made, external_data_dir=folder), W), 2 * W)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../outside.bin"}, "not a path inside"),
        ({"location": "data/../../outside.bin"}, "not a path inside"),
        ({"location": "data\\..\\..\\outside.bin"}, "not a path inside"),
        ({"location": "/etc/passwd"}, "not a path inside"),
        ({"location": "C:\\weights.bin"}, "not a path inside"),
        ({"location": "weights.bin\0"}, "not a path inside"),
        ({"location": ""}, "not a path inside"),
        ({}, "not a path inside"),
        ({"location": "."}, "no regular file"),
        ({"location": "data"}, "no regular file"),
        ({"location": "nothing.bin"}, "cannot be opened"),
        ({"location": "weights.bin", "offset": 12}, "of a file of 32"),
        ({"location": "weights.bin", "offset": -1}, "expected a decimal number"),
        ({"location": "weights.bin", "offset": "1e1"}, "expected a decimal number"),
        ({"location": "weights.bin", "offset": "9" * 30}, "expected a decimal number"),
        ({"location": "weights.bin", "length": 20}, "20 bytes, the tensor takes 24"),
        ({"location": "weights.bin", "mode": "w"}, "'mode' is unknown"),
        ({"location": "weights.bin", "checksum": "00"}, "checksum does not fit"),
    ],
)  # fmt: skip
def test_data_that_is_refused(folder: Path, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError, match=message) as caught:
        jn.from_onnx(saved(folder, **entries))
    assert "tensor 'w'" in str(caught.value)


def test_links_are_not_followed(folder: Path) -> None:
    os.symlink(folder / "weights.bin", folder / "link.bin")
    os.symlink(folder / "data", folder / "linked")
    for location in ("link.bin", "linked/weights.bin"):
        with pytest.raises(jn.UserError, match=r"links are not followed.*external_data_dir"):
            jn.from_onnx(saved(folder, location=location, offset=4))


def test_hard_links_need_a_folder_that_the_caller_names(folder: Path) -> None:
    os.link(folder / "weights.bin", folder / "second.bin")
    path = saved(folder, location="second.bin", offset=4)
    with pytest.raises(jn.UserError, match=r"several hard links.*external_data_dir"):
        jn.from_onnx(path)
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(path, external_data_dir=folder), W), 2 * W)


def test_pipes_are_not_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe.bin")
    with pytest.raises(jn.UserError, match="no regular file"):
        jn.from_onnx(saved(folder, location="pipe.bin"))


def test_bytes_have_no_folder() -> None:
    with pytest.raises(jn.UserError, match="a model from bytes has no folder; fix: pass external_data_dir="):
        jn.from_onnx(with_external(location="weights.bin").SerializeToString())
