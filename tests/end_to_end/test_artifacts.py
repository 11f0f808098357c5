"""Saved models through the public API: what comes back in a fresh process, and what a damaged file answers."""

from __future__ import annotations

import json
import mmap
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.storage import artifact_file

Array = np.ndarray[Any, Any]
HEADER = struct.Struct("<8sIIQ32s")
GENERATOR = np.random.default_rng(11)
MATRIX = GENERATOR.standard_normal((64, 128), dtype=np.float32)
ROW = GENERATOR.standard_normal(64, dtype=np.float32)
INPUT = GENERATOR.standard_normal((5, 64), dtype=np.float32)


def build(name: str = "saved") -> jn.Graph:
    """A matrix weight (stored in panels), a row (stored plain), an anonymous constant; two outputs, one of them bfloat16."""
    g = jn.Graph(name, [jn.TensorType(jn.float32, ("batch", 64), name="x")])
    (x,) = g.inputs
    y = jn.softmax(
        (x + g.weight("row", ROW)) @ g.weight("matrix", MATRIX) + np.arange(128, dtype=np.float32), axis=-1
    )
    g.output(y, jn.sum(y * y, axis=1).cast(jn.bfloat16), names=["probabilities", "energy"])
    return g


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Array, Array]]:
    """The file, and what the model that wrote it answers to `INPUT`."""
    path = tmp_path_factory.mktemp("artifacts") / "saved.joinery"
    m = jn.compile(build(), cache=False)
    m.save(path)
    return path, m(INPUT)


@pytest.fixture
def copy(saved: tuple[Path, Any], tmp_path: Path) -> Path:
    path = tmp_path / "copy.joinery"
    path.write_bytes(saved[0].read_bytes())
    return path


def manifest_of(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    length = HEADER.unpack_from(content)[3]
    manifest: dict[str, Any] = json.loads(content[HEADER.size : HEADER.size + length])
    return manifest


def section(path: Path, kind: str) -> tuple[int, int]:
    """Offset and length of a section."""
    (found,) = [entry for entry in manifest_of(path)["sections"] if entry[0] == kind]
    return found[2], found[3]


# --- round trips

FRESH = """
import sys
import joinery as jn
import numpy as np

path, folder = sys.argv[1:]
x = np.load(f"{folder}/x.npy")
trusted = jn.load(path, trusted=True, cache=False)
y, e = trusted(x)
print("xdsl" in sys.modules)  # nothing was compiled
untrusted = jn.load(path, cache=False)
v, f = untrusted(x)
print("xdsl" in sys.modules)
for name, array in {"y": y, "v": v, "e": e.view("uint16"), "f": f.view("uint16")}.items():
    np.save(f"{folder}/{name}.npy", array)
print(trusted.name, *[f"{s.name}:{s.dtype}{list(s.shape)}" for s in (*trusted.inputs, *trusted.outputs)])
"""


@pytest.mark.slow
def test_a_fresh_process_computes_the_same_bits(saved: tuple[Path, Any], tmp_path: Path) -> None:
    path, (probabilities, energy) = saved
    np.save(tmp_path / "x.npy", INPUT)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(path), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    compiled_trusted, compiled_untrusted, description = done.stdout.splitlines()
    assert (compiled_trusted, compiled_untrusted) == ("False", "True")
    assert description == (
        "saved x:float32['batch', 64] probabilities:float32['batch', 128] energy:bfloat16['batch']"
    )
    for name in ("y", "v"):
        assert np.load(tmp_path / f"{name}.npy").tobytes() == probabilities.tobytes()
    for name in ("e", "f"):
        assert np.load(tmp_path / f"{name}.npy").tobytes() == energy.tobytes()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("trusted", [True, False])
def test_a_loaded_model_saves_the_same_file(saved: tuple[Path, Any], tmp_path: Path, trusted: bool) -> None:
    path, _ = saved
    again = tmp_path / "again.joinery"
    jn.load(path, trusted=trusted, cache=False).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_equal_weights_are_stored_once_and_serve_both(tmp_path: Path) -> None:
    def twice(second: Array) -> jn.Graph:
        g = jn.Graph("twice", [jn.TensorType(jn.float32, ("n", 64), name="x")])
        (x,) = g.inputs
        g.output(jn.relu(x @ g.weight("a", MATRIX)) - x @ g.weight("b", second))
        return g

    path, other = tmp_path / "twice.joinery", tmp_path / "other.joinery"
    m = jn.compile(twice(MATRIX.copy()), cache=False)
    m.save(path)
    jn.compile(twice(2 * MATRIX), cache=False).save(other)
    assert other.stat().st_size - path.stat().st_size >= MATRIX.nbytes
    for trusted in (True, False):
        assert np.array_equal(jn.load(path, trusted=trusted, cache=False)(INPUT), m(INPUT))


def bits(arrays: tuple[Array, ...]) -> list[tuple[str, tuple[int, ...], bytes]]:
    return [(str(array.dtype), array.shape, array.tobytes()) for array in arrays]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "name",
    ["bool", "int4", "int64", "uint8", "index", "float16", "bfloat16", "tensor_float32", "float64", "float8_e4m3fn",
     "float8_e8m0fnu", "float4_e2m1fn", "int2", "complex64"],
)  # fmt: skip
def test_weights_of_every_kind_of_dtype(tmp_path: Path, name: str) -> None:
    """Small weights lie in the text, large ones in their section; dtypes that are only stored travel too."""
    dtype = jn.DType(name)
    small, large = (
        np.random.default_rng(1).integers(0, 2, shape).astype(dtype.numpy) for shape in ((3, 5), (300, 5))
    )
    g = jn.Graph("stored", [jn.TensorType(dtype, ("n", 5), name="x")])
    g.output(g.inputs[0][::2], g.weight("small", small, dtype), g.weight("large", large, dtype)[::-1])
    m = jn.compile(g, cache=False)
    x = large[:7]
    expected = bits((x[::2], small, large[::-1]))
    assert bits(m(x)) == expected
    m.save(tmp_path / "stored.joinery")
    for trusted in (True, False):
        loaded = jn.load(tmp_path / "stored.joinery", trusted=trusted, cache=False)
        assert bits(loaded(x)) == expected
        assert loaded.inputs[0].dtype == name


def test_a_weight_that_is_read_in_several_layouts(tmp_path: Path) -> None:
    w = GENERATOR.standard_normal((64, 64), dtype=np.float32)
    g = jn.Graph("layouts", [jn.TensorType(jn.float32, ("n", 64), name="x")])
    (x,) = g.inputs
    weight = g.weight("w", w)
    g.output(x @ weight, x @ weight.T, weight * 2)
    m = jn.compile(g, cache=False)
    assert len({spec.layout for spec in m.compiled.constants}) == 3
    path, again = tmp_path / "layouts.joinery", tmp_path / "again.joinery"
    m.save(path)
    start, end = weight_bytes(path)
    assert end - start < 2 * w.nbytes, "it is stored once"
    expected = bits(m(INPUT))
    np.testing.assert_allclose(m(INPUT)[1], INPUT @ w.T, rtol=1e-4, atol=1e-4)
    for trusted in (True, False):
        loaded = jn.load(path, trusted=trusted, cache=False)
        assert bits(loaded(INPUT)) == expected
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()


def test_shapes_of_weights_without_elements_or_axes(tmp_path: Path) -> None:
    g = jn.Graph("shapes", [jn.TensorType(jn.float32, ("n",), name="x")])
    (x,) = g.inputs
    g.output(x * g.weight("scalar", np.float32(3)), g.weight("empty", np.zeros((0, 4), np.float32)))
    jn.compile(g, cache=False).save(tmp_path / "shapes.joinery")
    for trusted in (True, False):
        tripled, empty = jn.load(tmp_path / "shapes.joinery", trusted=trusted, cache=False)(
            np.ones(2, np.float32)
        )
        assert tripled.tolist() == [3, 3]
        assert (empty.shape, empty.dtype) == ((0, 4), np.float32)


def test_a_new_file_takes_the_place_of_the_old_one_while_that_is_in_use(
    copy: Path, saved: tuple[Path, Any]
) -> None:
    first = jn.load(copy, trusted=True, cache=False)
    g = jn.Graph("small", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(g.inputs[0] * 2)
    jn.compile(g, cache=False).save(copy)
    assert np.array_equal(first(INPUT)[0], saved[1][0])
    assert jn.load(copy, trusted=True, cache=False)(np.ones(2, np.float32)).tolist() == [2, 2]
    assert [entry.name for entry in copy.parent.iterdir()] == [copy.name]


@pytest.mark.parametrize("target", ["missing/model.joinery", "."])
def test_a_path_that_cannot_be_written(tmp_path: Path, target: str) -> None:
    g = jn.Graph("small", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(g.inputs[0] * 2)
    m = jn.compile(g, cache=False)
    with pytest.raises(
        jn.UserError, match=r"artifact 'small' cannot be written to .*: (No such file|Is a directory)"
    ):
        m.save(tmp_path / target)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_no_path(saved: tuple[Path, Any]) -> None:
    with pytest.raises(
        jn.UserError, match=r"model 'saved': save expects a path, got int; fix: save\('model\.joinery'\)"
    ):
        jn.load(saved[0], trusted=True, cache=False).save(5)  # type: ignore[arg-type]


# --- what becomes of the file


def weight_bytes(path: Path) -> tuple[int, int]:
    """Where the weights' data lies in the file: from, to."""
    start, length = section(path, "weights")
    header = int.from_bytes(path.read_bytes()[start : start + 8], "little")
    return start + 8 + header, start + length


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("how", ["cut", "zeros", "removed"])
def test_a_file_that_changes_under_a_model(copy: Path, saved: tuple[Path, Any], trusted: bool, how: str) -> None:
    """Neither ends the process nor changes a result, whether pages of it were used before or not."""
    m = jn.load(copy, trusted=trusted, cache=False)
    if how == "cut":
        os.truncate(copy, 64)
    elif how == "zeros":
        with open(copy, "r+b") as file:
            file.write(bytes(copy.stat().st_size))
    else:
        copy.unlink()
    for found, expected in zip(m(INPUT), saved[1], strict=True):
        assert np.array_equal(found, expected)


# --- whose code runs


def impostor(path: Path, target: Path) -> None:
    """A copy whose object code is that of another model: it adds where the graph subtracts."""

    def model(add: bool) -> jn.Model:
        g = jn.Graph("difference", [jn.TensorType(jn.float32, ("n",), name=name) for name in "xy"])
        x, y = g.inputs
        g.output(x + y if add else x - y)
        return jn.compile(g, cache=False)

    honest = model(add=False)
    honest.save(path)
    opened = artifact_file.load(path)
    forged = replace(honest.compiled, object_code=model(add=True).compiled.object_code)
    artifact_file.save(target, "difference", opened.graph_text, [forged], [])


def test_code_of_a_stranger_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "impostor.joinery"
    impostor(tmp_path / "honest.joinery", path)
    three, one = np.full(2, 3, np.float32), np.ones(2, np.float32)
    assert jn.load(path, cache=False)(three, one).tolist() == [2, 2]
    assert jn.load(path, cache=False, trusted=True)(three, one).tolist() == [4, 4]  # so it would have run


# --- damage


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    match how:
        case "empty":
            content.clear()
        case "header cut":
            del content[40:]
        case "magic":
            content[0] ^= 1
        case "version":
            content[8] = 9
        case "manifest too long":
            content[16:24] = (2**40).to_bytes(8, "little")
        case "manifest changed":
            content[HEADER.size + 10] ^= 1
        case "manifest cut":
            del content[HEADER.size + 20 :]
        case "last byte missing":
            del content[-1]
        case "half":
            del content[len(content) // 2 :]
        case _:
            start, length = section(path, how)
            content[start + length // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", r"it has 0 bytes, less than a header"),
        ("header cut", r"it has 40 bytes, less than a header"),
        ("magic", r"it does not start with"),
        ("version", r"has artifact version 9; this joinery reads version 1; fix: save it anew"),
        ("manifest too long", r"its manifest of 1099511627776 bytes does not fit"),
        ("manifest changed", r"its manifest does not match its SHA-256"),
        ("manifest cut", r"its manifest of \d+ bytes does not fit: it is truncated"),
        ("last byte missing", r"section 'weights' ends at byte \d+, but the file has \d+: it is truncated"),
        ("half", r"ends at byte \d+, but the file has \d+: it is truncated"),
        ("graph", r"section 'graph' does not match its SHA-256: it was damaged or changed"),
        ("compiled", r"section 'compiled' does not match its SHA-256"),
        ("weights", r"section 'weights' does not match its SHA-256"),
    ],
)
def test_damage_is_named(copy: Path, how: str, message: str, trusted: bool) -> None:
    damaged(copy, how)
    with pytest.raises(jn.UserError, match=message) as caught:
        jn.load(copy, trusted=trusted, cache=False)
    assert str(copy) in str(caught.value)


def test_a_graph_that_does_not_fit_its_weights_is_refused(saved: tuple[Path, Any], tmp_path: Path) -> None:
    """A file may be sealed with matching digests and still be wrong inside."""
    opened = artifact_file.load(saved[0])
    weights = [
        artifact_file.StoredWeight(e.name, e.dtype, e.shape, e.layout, opened.weights[e.name] + 1)
        for e in opened.manifest.weights
    ]
    honest = [replace(weight, array=opened.weights[weight.name]) for weight in weights]
    path = tmp_path / "wrong.joinery"
    cases = [
        (opened.graph_text, weights, r"line 3: the array [0-9a-f]{16}… does not have that digest"),
        (opened.graph_text, honest[:1], r"the array [0-9a-f]{16}… is not among those given"),
        (
            opened.graph_text.replace("softmax", "sotfmax"),
            honest,
            r"unknown op 'sotfmax'; did you mean softmax",
        ),
        (opened.graph_text.replace("bfloat16", "float99"), honest, r"line 12: unknown value 'float99'"),
        (
            opened.graph_text.replace("[64, 128]", "[64, 129]"),
            honest,
            r"\(64, 128\), the line says float32 \(64, 129\)",
        ),
        ("", honest, r"graph text: it is empty"),
    ]
    for text, arrays, message in cases:
        artifact_file.save(path, "wrong", text, [], arrays)
        with pytest.raises(jn.UserError, match=message) as caught:
            jn.load(path, cache=False)
        assert f"artifact {path}: " in str(caught.value)
    artifact_file.save(path, "right", opened.graph_text, [], honest)
    assert np.array_equal(jn.load(path, cache=False)(INPUT)[0], saved[1][0])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: replace(c, dims=("batch", "n")), "dim 'n' is none of its inputs'"),
        (lambda c: replace(c, inputs=(replace(c.inputs[0], shape=("batch", 65)),)), "is for other inputs than its graph has"),
        (lambda c: replace(c, inputs=c.inputs * 2), "is for other inputs"),
        (lambda c: replace(c, outputs=c.outputs[:1]), "is for other outputs"),
        (lambda c: replace(c, outputs=(replace(c.outputs[0], shape=("batch",)), c.outputs[1])), "is for other outputs"),
        (lambda c: replace(c, constants=(replace(c.constants[0], name="row2"), *c.constants[1:])), "is for other weights"),
    ],
)
def test_code_of_another_graph_is_refused(saved: tuple[Path, Any], tmp_path: Path, edit: Any, message: str) -> None:
    """Every hash of the file is right."""
    opened = artifact_file.load(saved[0], trusted=True)
    weights = [
        artifact_file.StoredWeight(entry.name, entry.dtype, entry.shape, entry.layout, opened.weights[entry.name])
        for entry in opened.manifest.weights
    ]
    path = tmp_path / "other.joinery"
    for change in (lambda c: c, edit):
        artifact_file.save(path, "other", opened.graph_text, [change(opened.compiled)], weights, {"numerics": "strict"})
        if change is not edit:
            jn.load(path, trusted=True, cache=False)
    with pytest.raises(jn.UserError, match=message):
        jn.load(path, trusted=True, cache=False)
    assert jn.load(path, cache=False)(INPUT)[0].tobytes() == saved[1][0].tobytes()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nonexistent.joinery", r"artifact /nonexistent\.joinery cannot be opened: No such file"),
        (os.sep, r"cannot be opened: Is a directory"),
        (5, r"load: expected a path, bytes or a file open for reading, got int; fix: joinery\.load\('model\.joinery'\)"),
    ],
)
def test_paths_that_are_no_file(path: Any, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.load(path)


def test_devices_are_checked_first() -> None:
    with pytest.raises(jn.DeviceError, match=r"no CUDA driver|no device cuda:99"):
        jn.load("/nonexistent.joinery", device="cuda:99")
    with pytest.raises(jn.UserError, match="load: unknown device 'tpu'; expected one of auto, cpu"):
        jn.load("/nonexistent.joinery", device="tpu")


def test_models_are_not_pickled(saved: tuple[Path, Any]) -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled; fix: m\.save\(path\) and joinery\.load\(path\)"):
        pickle.dumps(jn.load(saved[0], trusted=True, cache=False))


# -- from memory, by digest


def test_a_digest_stands_for_a_file(saved: tuple[Path, tuple[Array, Array]], tmp_path: Path) -> None:
    """It is known before the file is written, and the same for equal models."""
    opened = jn.load(saved[0])
    made = jn.compile(build(), cache=False)
    assert made.digest == opened.digest == jn.load(saved[0].read_bytes()).digest
    assert jn.compile(build("another"), cache=False).digest != opened.digest
    made.save(tmp_path / "a")
    assert jn.load(tmp_path / "a", digest=opened.digest).digest == opened.digest
    with pytest.raises(jn.UserError, match=f"has the digest {opened.digest}, not {'0' * 64}: it is another model"):
        jn.load(tmp_path / "a", digest="0" * 64)
    with pytest.raises(jn.UserError, match="verify=False without a digest"):
        jn.load(tmp_path / "a", verify=False)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_a_model_from_memory(
    saved: tuple[Path, tuple[Array, Array]], trusted: bool, verify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, want = saved
    digest = jn.load(path).digest
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if trusted:
        monkeypatch.setattr("joinery.interface.compiling.stored_graph", lambda *_: pytest.fail("the graph is not needed"))
    model = jn.load(mapped, "cpu", trusted=trusted, digest=digest, verify=verify, cache=False)
    monkeypatch.undo()
    for got, expected in zip(model(INPUT), want, strict=True):
        assert got.tobytes() == expected.tobytes()


def test_what_was_loaded_without_its_graph_is_saved_and_sanitized(saved: tuple[Path, Any], tmp_path: Path) -> None:
    model = jn.load(saved[0].read_bytes(), "cpu", trusted=True, digest=jn.load(saved[0]).digest, verify=False, cache=False)
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved[0].read_bytes()
    assert not model.sanitize(INPUT).findings
    again = jn.load(tmp_path / "again", "cpu", trusted=True, cache=False)
    assert again(INPUT)[0].tobytes() == saved[1][0].tobytes()


def test_two_constants_of_one_content_and_one_in_two_layouts(tmp_path: Path) -> None:
    """A file has each array once; the code says which of them each constant is."""
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("batch", 64), name="x")])
    (x,) = g.inputs
    first, second = g.weight("first", MATRIX), g.weight("second", MATRIX.copy())
    g.output(x @ first, x @ second + 1, jn.sum(first, axis=0), jn.sum(second, axis=1))
    m = jn.compile(g, cache=False)
    m.save(tmp_path / "m")
    loaded = jn.load(tmp_path / "m", trusted=True, digest=m.digest, cache=False)
    for got, expected in zip(loaded(INPUT), m(INPUT), strict=True):
        assert got.tobytes() == expected.tobytes()


def test_code_that_reads_a_weight_that_is_not_there(saved: tuple[Path, Any], tmp_path: Path) -> None:
    opened = artifact_file.load(saved[0], trusted=True)
    assert opened.compiled is not None
    (constant, *others) = opened.compiled.constants
    wrong = replace(opened.compiled, constants=(replace(constant, weight="f" * 64), *others))
    stored = [
        artifact_file.StoredWeight(each.name, each.dtype, each.shape, each.layout, opened.weights[each.name])
        for each in opened.manifest.weights
    ]
    made = artifact_file.assemble("saved", opened.graph_text, [wrong], stored, opened.manifest.metadata)
    made.write(tmp_path / "wrong")
    with pytest.raises(jn.UserError, match=r"its code reads '.*', which is none of its weights"):
        jn.load(tmp_path / "wrong", "cpu", trusted=True, digest=made.digest, cache=False)


def test_a_model_with_operations_of_the_host_has_a_digest(tmp_path: Path) -> None:
    g = jn.Graph("found", [jn.TensorType(jn.float32, ("n",), name="x")])
    g.output(jn.nonzero(g.inputs[0]))
    m = jn.compile(g)
    m.save(tmp_path / "m")
    assert jn.load(tmp_path / "m").digest == m.digest
