"""Arrays by name in GGUF: every block format against the package's own decoding, and files that are broken or hostile."""

from __future__ import annotations

import os
import re
import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFEndian, GGUFWriter
from gguf.quants import dequantize

F = np.float32
KEPT = {
    "Q4_0": (jn.int4, 32, False), "Q4_1": (jn.uint4, 32, True), "Q5_0": (jn.int8, 32, False), "Q5_1": (jn.uint8, 32, True),
    "Q8_0": (jn.int8, 32, False), "Q2_K": (jn.uint2, 16, True), "Q3_K": (jn.int4, 16, False), "Q4_K": (jn.uint4, 32, True),
    "Q5_K": (jn.uint8, 32, True), "Q6_K": (jn.int8, 16, False),
}  # fmt: skip
"""Formats that stay as they are: dtype of the values, elements per block, whether something is added."""
PLAIN = {"F32", "F16", "F64", "BF16", "I8", "I16", "I32", "I64"}
NOT_DECODED = {"Q8_1", "Q8_K", "Q1_0"}
DECODED = sorted({code.name for code in GGML_QUANT_SIZES} - PLAIN - NOT_DECODED)


def saved(path: Path, arrays: dict[str, Any], metadata: dict[str, Any] | None = None, **options: Any) -> Path:
    """Write a file by the package: arrays, or pairs of bytes and their block format."""
    writer = GGUFWriter(path, "llama", **options)
    for key, value in (metadata or {}).items():
        writer.add_array(key, value) if isinstance(value, list) else writer.add_string(key, value)
    for name, array in arrays.items():
        if isinstance(array, tuple):
            writer.add_tensor(name, array[0], raw_dtype=array[1])
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def blocks_of(form: str, rows: int = 3, count: int = 2, seed: int = 1, finite: bool = True) -> tuple[Any, Any]:
    """Return random bytes of blocks, as `saved` takes them; finite: scales of ordinary size."""
    code = GGMLQuantizationType[form]
    _, size = GGML_QUANT_SIZES[code]
    data = np.random.default_rng(seed).integers(0, 256, (rows, count * size)).astype(np.uint8)
    if finite:  # the high byte of every float16 gets a small exponent
        places = {"Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1], "Q2_K": [81, 83], "Q3_K": [109],
                  "Q4_K": [1, 3], "Q5_K": [1, 3], "Q6_K": [209]}[form]  # fmt: skip
        for place in places:
            data[:, place::size] = data[:, place::size] & 0x80 | 0x2C
    return data, code


@pytest.mark.parametrize("form", DECODED)
def test_blocks_of_any_bits_are_decoded_as_by_the_package(tmp_path: Path, form: str) -> None:
    data, code = blocks_of(form, finite=False)
    path = saved(tmp_path / "w.gguf", {"a": (data, code), "b": (data[:1], code)})
    with np.errstate(all="ignore"):
        want = dequantize(data, code).astype(F)
    for blocks in ("dequantize", "keep"):
        found = jn.load_gguf(path, blocks=blocks)
        for name, part in (("a", want), ("b", want[:1])):
            array = found[name]
            assert isinstance(array, jn.BlockQuantized) == (blocks == "keep" and form in KEPT)
            plain = array.dequantize() if isinstance(array, jn.BlockQuantized) else array
            assert (plain.dtype, plain.shape) == (F, part.shape)
            np.testing.assert_array_equal(plain, part)
            assert np.array_equal(np.signbit(plain)[~np.isnan(part)], np.signbit(part)[~np.isnan(part)])


@pytest.mark.one_in(6)
@pytest.mark.parametrize("form", KEPT)
def test_kept_blocks_are_small_integers_that_graphs_compute_with(tmp_path: Path, form: str) -> None:
    dtype, block, has_offsets = KEPT[form]
    data, code = blocks_of(form)
    kept = jn.load_gguf(saved(tmp_path / "w.gguf", {"w": (data, code)}), blocks="keep")["w"]
    assert isinstance(kept, jn.BlockQuantized)
    assert (jn.DType.from_numpy(kept.values.dtype), kept.block, kept.offsets is not None) == (dtype, block, has_offsets)
    want = dequantize(data, code).astype(F)
    assert kept.shape == want.shape
    assert kept.nbytes <= want.nbytes / 2
    x = np.random.default_rng(2).standard_normal((2, want.shape[1])).astype(F)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, "x")])
    weights = kept.symbol(graph, "w")
    graph.output(weights, graph.inputs[0] @ weights.transpose())
    assert not graph.casts()
    for weights_found, product in (jn.evaluate(graph, x), jn.compile(graph, device="cpu", cache=False)(x)):
        np.testing.assert_array_equal(weights_found, want)
        np.testing.assert_allclose(product, x @ want.T, rtol=1e-4, atol=1e-3)
    assert sorted(graph.weights) == ["w", *(["w.offsets"] if has_offsets else []), "w.scales"]


def test_quantising_by_the_package_and_reading_is_near_the_original(tmp_path: Path) -> None:
    whole = np.linspace(-3, 5, 256, dtype=F).reshape(4, 64)
    code = GGMLQuantizationType.Q8_0
    path = saved(tmp_path / "w.gguf", {"w": (gguf.quants.quantize(whole, code), code)})
    np.testing.assert_allclose(jn.load_gguf(path)["w"], whole, atol=0.03)


def test_arrays_of_dtypes_come_back_bit_by_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    arrays: dict[str, Any] = {
        np.dtype(kind).name: random.integers(-99, 99, (2, 3, 4)).astype(kind)
        for kind in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64)
    }
    arrays["vector"], arrays["row"] = np.ones(5, F), np.zeros((1, 1, 1, 7), F)
    half = random.integers(0, 1 << 16, (2, 6)).astype(np.uint16)
    stored = {**arrays, "bf": (half.view(np.uint8), GGMLQuantizationType.BF16)}
    metadata = {"tokens": ["a", "bc"] * 50, "numbers": [1, 2, 3], "template": "x" * 5000}
    found = jn.load_gguf(saved(tmp_path / "w.gguf", stored, metadata))
    for name, want in {**arrays, "bf": half.view(ml_dtypes.bfloat16)}.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape)
        assert found[name].tobytes() == want.tobytes()
        assert not found[name].flags.writeable


def test_some_names_are_read_and_unknown_ones_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.gguf", {"a": np.ones(2, F), "b": np.zeros(3, F)})
    assert list(jn.load_gguf(path, ["b"])) == ["b"]
    with pytest.raises(jn.UserError, match=r"w\.gguf' has no 'c'; it has a, b; fix: use its names"):
        jn.load_gguf(path, names=["a", "c"])
    with pytest.raises(jn.UserError, match="blocks is 'both'; fix: 'dequantize' or 'keep'"):
        jn.load_gguf(path, blocks="both")  # type: ignore[call-overload]


def test_the_highest_byte_may_come_first(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=F).reshape(2, 3), "i": np.arange(5, dtype=np.int16)}
    found = jn.load_gguf(saved(tmp_path / "w.gguf", arrays, endianess=GGUFEndian.BIG))
    for name, want in arrays.items():
        np.testing.assert_array_equal(found[name], want)
    path = saved(tmp_path / "q.gguf", {"q": blocks_of("Q8_0")}, endianess=GGUFEndian.BIG)
    with pytest.raises(jn.UnsupportedError, match=r"'q' is quantised \(Q8_0\) with the highest bytes first; fix: convert"):
        jn.load_gguf(path)


@pytest.mark.parametrize("form", sorted(NOT_DECODED))
def test_formats_that_nothing_decodes_are_told(tmp_path: Path, form: str) -> None:
    for rows in (2, 0):
        data, code = blocks_of(form, rows, finite=False)
        path = saved(tmp_path / "w.gguf", {"a": (data, code)})
        with pytest.raises(jn.UnsupportedError, match=f"'a' is quantised as {form}, which the package gguf does not decode"):
            jn.load_gguf(path)


def text(value: str | bytes, length: int | None = None) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data) if length is None else length) + data


def entry(name: str | bytes, sizes: Any, code: int, offset: int, axes: int | None = None) -> bytes:
    numbers = struct.pack(f"<{len(sizes)}Q", *sizes)
    return text(name) + struct.pack("<I", len(sizes) if axes is None else axes) + numbers + struct.pack("<IQ", code, offset)


def meta(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def whole(tensors: Any = (), metadata: Any = (), data: bytes = b"", version: int = 3, counts: Any = None) -> bytes:
    many, keys = counts or (len(tensors), len(metadata))
    head = b"GGUF" + struct.pack("<IQQ", version, many, keys) + b"".join(metadata) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


U64 = (1 << 64) - 1
NESTED = b"".join(struct.pack("<IQ", 9, 1) for _ in range(9))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "at byte 0: no GGUF file"),
        (b"\x00" * 64, "at byte 0: no GGUF file"),
        (b"GGUF\x03", "at byte 4: the version of 4 bytes, and the file ends after 1"),
        (whole(counts=(U64, 0)), f"at byte 8: {U64} arrays; at most 262144 are read"),
        (whole(counts=(0, U64)), f"at byte 16: {U64} entries of metadata; at most"),
        (whole(counts=(1, 0)), "at byte 32: a number of axes of 4 bytes, and the file ends after 0"),
        (whole(counts=(0, 1)), "the kind of an entry of 4 bytes, and the file ends after 0"),
        (whole(metadata=[text("k", 1 << 62)]), f"at byte 24: the name of an entry of metadata has {1 << 62} bytes"),
        (whole(metadata=[text(b"\xff\xfe")]), "at byte 32: the name of an entry of metadata is no UTF-8"),
        (whole(metadata=[meta("k", 99, b"")]), "metadata of kind 99, which GGUF does not have"),
        (whole(metadata=[meta("k", 8, text("", U64))]), f"a text has {U64} bytes; at most 16777216 are read"),
        (whole(metadata=[meta("k", 8, text("", 1 << 20))]), f"a text of {1 << 20} bytes, and the file ends"),
        (whole(metadata=[meta("k", 9, struct.pack("<IQ", 6, U64))]), "an array of 18446744073709551615 numbers of "),
        (whole(metadata=[meta("k", 9, struct.pack("<IQ", 8, U64))]), "more than 4194304 entries of metadata"),
        (whole(metadata=[meta("k", 9, struct.pack("<IQ", 9, U64))]), "more than 4194304 entries of metadata"),
        (whole(metadata=[meta("k", 9, NESTED)]), "more than 4 arrays within each other"),
        (whole(metadata=[meta("k", 0, b"a")] * 2), "metadata 'k' is given twice"),
        (whole(metadata=[meta("general.alignment", 4, struct.pack("<I", 0))]), "general.alignment is 0; a power of two"),
        (whole(metadata=[meta("general.alignment", 4, struct.pack("<I", 48))]), "general.alignment is 48; a power of two"),
        (whole(metadata=[meta("general.alignment", 8, text("32"))]), "general.alignment is no uint32; a power of two"),
        (whole([entry("a", [2], 0, 0)] * 2, data=bytes(64)), "two arrays are called 'a'"),
        (whole([entry("a", [2], 0, 0), entry("b", [2], 0, 0)], data=bytes(64)), "arrays 'a' and 'b' overlap"),
        (whole([entry("a", [9], 0, 0), entry("b", [2], 0, 32)], data=bytes(64)), "arrays 'a' and 'b' overlap"),
        (whole([entry("a", [9], 0, 0)], data=bytes(35)), "array 'a' ends at byte 100, and the file at byte 99"),
        (whole([entry("a", [2], 0, 8)], data=bytes(64)), "array 'a' begins 8 bytes after the header; a multiple of 32"),
        (whole([entry("a", [2], 0, U64 - 31)], data=bytes(64)), "array 'a' begins 18446744073709551584 bytes after"),
        (whole([entry("a", [U64, U64], 0, 0)], data=bytes(64)), "array 'a' has the sizes .*, which no file holds"),
        (whole([entry("a", [1 << 40, 0, 1 << 40], 0, 0)], data=b""), r"has the sizes \(.*, 0, .*\), which no file"),
        (whole([entry("a", [33], 8, 0)], data=bytes(64)), "array 'a' has rows of 33 elements in blocks of 32"),
        (whole([entry("a", [], 8, 0)], data=bytes(64)), "array 'a' has rows of 1 elements in blocks of 32"),
        (whole([entry("a", [2], 0, 0, axes=1 << 31)], data=bytes(64)), f"array 'a' has {1 << 31} axes; at most 8 are read"),
        (whole([entry(b"\xff", [2], 0, 0)], data=bytes(64)), "the name of an array is no UTF-8"),
    ],
)  # fmt: skip
def test_broken_and_hostile_files_are_told(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(jn.UserError, match=r"bad\.gguf', at byte \d+: .*; fix: ") as caught:
        jn.load_gguf(path)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_versions_and_formats_of_other_times_are_told(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    for version in (0x10001, 1, 4):
        path.write_bytes(whole(version=version))
        with pytest.raises(jn.UnsupportedError, match=rf"version {version} of GGUF; versions 2 and 3 are read; fix: "):
            jn.load_gguf(path)
    path.write_bytes(whole([entry("a", [32], 77, 0)], data=bytes(64)))
    with pytest.raises(jn.UnsupportedError, match="array 'a' has the block format 77, unknown here; fix: a newer version"):
        jn.load_gguf(path)


def test_files_without_arrays_or_with_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    path.write_bytes(whole())
    assert jn.load_gguf(path) == {}
    entries = [entry("none", [0, 3], 0, 0), entry("q", [32, 0], 8, 0), entry("i", [0], 20, 0), entry("scalar", [], 0, 0)]
    path.write_bytes(whole(entries, data=struct.pack("<f", 2.5)))
    for blocks in ("dequantize", "keep"):
        found = jn.load_gguf(path, blocks=blocks)
        assert {name: array.shape for name, array in found.items()} == {"none": (3, 0), "q": (0, 32), "i": (0,), "scalar": ()}
        assert float(found["scalar"]) == 2.5


def test_files_cut_anywhere_and_mutated_raise_our_errors_only(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=F).reshape(2, 3), "q": blocks_of("Q4_K", 1, 1)}
    arrays["i"] = blocks_of("IQ2_S", 1, 1, finite=False)
    path = saved(tmp_path / "w.gguf", arrays, {"tokens": ["a", "b"], "n": [1, 2]})
    good, random = path.read_bytes(), np.random.default_rng(7)
    told = 0
    for trial in range(700):
        bad = bytearray(good[: random.integers(0, len(good) - 32)] if trial < 200 else good)
        for position in random.integers(0, min(len(bad), 420), random.integers(1, 4)) if trial >= 200 else ():
            bad[position] = random.integers(0, 256)
        path.write_bytes(bytes(bad))
        try:
            found = jn.load_gguf(path, blocks=("keep", "dequantize")[trial % 2])
        except (jn.UserError, jn.UnsupportedError) as error:
            told += "fix: " in str(error)
            continue
        assert trial >= 200, "a file that was cut off was read"
        told += sum(array.nbytes for array in found.values()) <= 20 * len(good)
    assert told == 700


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("pipe", "is no regular file"), (".", "is no regular file"), ("none", r"cannot be read \(No such")):
        with pytest.raises(jn.UserError, match=message):
            jn.load_gguf(tmp_path / name)


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(jn.UserError, match=r"needs the package gguf; fix: pip install 'joinery-graph\[gguf"):
        jn.load_gguf(tmp_path / "a")


@pytest.mark.parametrize(
    ("values", "scales", "offsets", "message"),
    [
        (np.ones((2, 8), np.int8), np.ones((2, 3), F), None, r"numbers of shape \(2, 3\) for blocks of values of shape"),
        (np.ones((2, 8), np.int8), np.ones((1, 2), F), None, "numbers of shape"),
        (np.ones((2, 8), np.int8), np.ones((2, 2), F), np.ones((2, 4), F), r"numbers of shape \(2, 4\)"),
        (np.ones((), np.int8), np.ones((), F), None, "numbers of shape"),
        (np.ones((2, 8), F), np.ones((2, 2), F), None, "values of float32; fix: integers"),
        (np.ones((2, 8), np.int8), np.ones((2, 2), np.int8), None, "scales of int8; fix: floats"),
    ],
)  # fmt: skip
def test_blocks_that_do_not_fit_are_told(values: Any, scales: Any, offsets: Any, message: str) -> None:
    with pytest.raises(jn.UserError, match=f"BlockQuantized: {message}"):
        jn.BlockQuantized(values, scales, offsets)
