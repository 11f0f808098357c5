"""Arrays by name in safetensors: every dtype, whole files, and files that are broken or hostile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
import safetensors.numpy
from joinery.promotion.dtype import DTYPES

F = np.float32
STORED = [
    dtype for dtype in DTYPES.values()
    if dtype.name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
                      "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex64")
]  # fmt: skip


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_arrays_of_each_dtype_come_back_bit_by_bit(tmp_path: Path, dtype: Any) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 6 * dtype.itemsize).astype(np.uint8)
    array = (bits % 2).astype(np.bool_).reshape(2, 3) if dtype.is_bool else bits.view(dtype.numpy).reshape(2, 3)
    arrays = {"a": array, "none": array[:0], "scalar": array[0, 0], "transposed": array.T}
    jn.save_safetensors(arrays, tmp_path / "w.st")
    found = jn.load_safetensors(tmp_path / "w.st")
    for name, want in arrays.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape)
        assert found[name].tobytes() == want.tobytes()
        assert not found[name].flags.writeable


@pytest.mark.one_in(18)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_a_process_reads_each_dtype_before_it_has_met_another(tmp_path: Path, dtype: Any) -> None:
    """NumPy knows bfloat16 and the floats of 8 bits only where ml_dtypes was loaded, as it is here."""
    array = np.arange(6).astype(dtype.numpy)
    jn.save_safetensors({"a": array}, tmp_path / "w.st")
    code = (
        "import sys, joinery as jn; assert 'ml_dtypes' not in sys.modules\n"
        "found = jn.load_safetensors(sys.argv[1])['a']; print(found.dtype, found.tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, tmp_path / "w.st"], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([str(array.dtype), array.tobytes().hex()], "")


def test_weights_of_a_graph_are_saved_by_name_and_make_it_again(tmp_path: Path) -> None:
    def build(weights: Any) -> Any:
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 3), "x")])
        w, b = [graph.weight(name, weights[name]) for name in ("layer.w", "layer.b")]
        graph.output(graph.inputs[0] @ w + b)
        return graph

    graph = build({"layer.w": np.arange(6, dtype=F).reshape(3, 2), "layer.b": np.ones(2, F)})
    jn.save_safetensors(graph, tmp_path / "w.safetensors")
    assert sorted(safetensors.numpy.load_file(tmp_path / "w.safetensors")) == ["layer.b", "layer.w"]
    assert build(jn.load_safetensors(tmp_path / "w.safetensors")).canonical_key() == graph.canonical_key()


def test_some_names_are_read_and_unknown_ones_told(tmp_path: Path) -> None:
    jn.save_safetensors({"a": np.ones(2, F), "b": np.zeros(3, F)}, tmp_path / "w.st")
    assert list(jn.load_safetensors(tmp_path / "w.st", ["b"])) == ["b"]
    with pytest.raises(jn.UserError, match=r"w\.st' has no 'c'; it has a, b; fix: use its names"):
        jn.load_safetensors(tmp_path / "w.st", names=["a", "c"])


def test_equal_arrays_give_equal_bytes_and_a_failed_write_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        jn.save_safetensors({"x": np.ones(2, F), "y": np.zeros((2, 2), np.int8)}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(jn.UserError, match=r"a' cannot be written \(disk is full\); fix: "):
        jn.save_safetensors({"x": np.zeros(9, F)}, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        (3, jn.UserError, "expected a graph or arrays by name, not int; fix: pass the graph"),
        ({1: np.ones(2)}, jn.UserError, "the name 1 is no text; fix: "),
        ({"a": [1, 2]}, jn.UserError, r"'a' is list, no array; fix: numpy\.asarray"),
        ({"a": np.ones(2, jn.int4.numpy)}, jn.UnsupportedError, "'a' is int4, and the format has no dtype of fewer"),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_is_told(tmp_path: Path, weights: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        jn.save_safetensors(weights, tmp_path / "w.st")
    assert list(tmp_path.iterdir()) == []


def written(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Any, start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x01", b"\xff" * 8, b"\xff" * 64, written(b"{" * 99), written(b"\xff\xfe"), written({}, b"left over"),
        written({"a": entry("F32", [2], 0, 8)}), written({"a": entry("F32", [2], 0, 8)}, bytes(7)),
        written({"a": entry("F32", [2], 0, 4)}, bytes(4)), written({"a": entry("F32", [2**62, 8], 0, 8)}, bytes(8)),
        written({"a": entry("F32", [-1], 0, 8)}, bytes(8)), written({"a": entry("F99", [2], 0, 8)}, bytes(8)),
        written({"a": entry("F32", [2], 8, 0)}, bytes(8)), written({"a": entry("F32", [2], -8, 0)}, bytes(8)),
        written({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 2, 6)}, bytes(6)),
        written({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, bytes(12)),
        written({"a": entry("F32", [1], 0, 4)}, bytes(4), length=1 << 62), written({"a": 3}), written([1]), written(b"null"),
    ],
)  # fmt: skip
def test_broken_files_are_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(jn.UserError, match=r"bad\.safetensors' is no safetensors file, or .* cut off \(.*\); fix: fetch"):
        jn.load_safetensors(path)


def test_mutated_files_raise_our_errors_only(tmp_path: Path) -> None:
    path = tmp_path / "w.st"
    jn.save_safetensors({"a": np.arange(6, dtype=F).reshape(2, 3), "b": np.ones(3, np.int8)}, path)
    good, rng = path.read_bytes(), np.random.default_rng(7)
    for _ in range(600):
        bad = bytearray(good)
        for position in rng.integers(0, len(bad), rng.integers(1, 4)):
            bad[position] = rng.integers(0, 256)
        path.write_bytes(bytes(bad[: rng.integers(0, len(bad) + 1)] if rng.random() < 0.3 else bad))
        try:
            found = jn.load_safetensors(path)
        except (jn.UserError, jn.UnsupportedError):
            continue
        assert sum(array.nbytes for array in found.values()) <= len(good)


def test_a_name_twice_in_a_header(tmp_path: Path) -> None:
    path = tmp_path / "w.st"
    one = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    for header, text in (
        (f"{{{one},{one}}}", "has 'a' twice in its header; fix:"),
        ('{"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}', "fix:"),
    ):
        path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * 4)
        with pytest.raises(jn.UserError, match=text):
            jn.load_safetensors(path)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, text in (("pipe", "is no regular file"), (".", "is no regular file"), ("none", r"cannot be read \(No such file")):
        with pytest.raises(jn.UserError, match=text):
            jn.load_safetensors(tmp_path / name)


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: jn.load_safetensors(tmp_path / "a"), lambda: jn.save_safetensors({}, tmp_path / "a")):
        with pytest.raises(jn.UserError, match=r"needs the package safetensors; fix: pip install 'joinery-graph\[safe"):
            call()
