"""Inputs of `joinery batch` from strangers: what is no rows of numbers is refused with a fix, what is gives right results."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.interface.distributed.batch import columns, jobs, running

from .conftest import SIZE, Run, rows, scores


def npy(path: Path, header: str, data: bytes = b"") -> None:
    """Write an .npy file with any text as its header."""
    text = header.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)


def shaped(shape: str, order: str = "False") -> str:
    return f"{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (shaped("(1000000000000000, 16)"), "mmap length is greater than file size"),
        (shaped("(9223372036854775807, 16)"), "is no .npy file, or a part of one: "),
        (shaped(f"({10**30}, 16)"), "Python int too large to convert to C long"),
        (shaped("(-5, 16)"), "is no .npy file, or a part of one: "),
        (shaped("(1000000000000, 0)"), "axis 1 of input x: float32[batch, 16] is 0"),
        (shaped("(True, 16)"), "an integer is required"),
        (shaped("(2, 16)", "'yes'"), "fortran_order is not a valid bool"),
        (shaped("(__import__('os').system('touch run'), 16)"), "malformed node or string"),
        (shaped("(" * 30), "is no .npy file, or a part of one: "),
    ],
)
@pytest.mark.filterwarnings("error")
def test_headers_of_npy_files(folder: Path, batch: Run, header: str, message: str) -> None:
    npy(folder / "x.npy", header, bytes(64))
    assert message in batch("--output", "y.npy", status=2)["error"]
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy"]


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_objects_are_not_unpacked(folder: Path, batch: Run, name: str) -> None:
    class Opened:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, ("run",)

    objects = np.array([Opened()], dtype=object)
    np.save("x.npy", objects, allow_pickle=True)
    np.savez("x.npz", x=objects)
    error = batch("--output", "y.npy", status=2, inputs=(f"x={name}",))["error"]
    assert "has Python objects, which are not unpacked; fix: an array of numbers" in error
    assert not (folder / "run").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_strings_of_zarr(folder: Path, batch: Run, version: int) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # strings are not in Zarr's specification
        group = zarr.open_group("in.zarr", mode="w", zarr_format=version)
        group.create_array("x", shape=(4, 16), dtype="str")
        error = batch("--output", "y.npy", status=2, inputs=("x=in.zarr/x",))["error"]
    assert "in.zarr:x: input 'x' expects x: float32[batch, 16], got " in error
    assert "; fix: an array of numbers, 'float32'" in error


def test_members_of_an_archive(folder: Path, batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    x, file = rows(20), BytesIO()
    np.save(file, x)
    with zipfile.ZipFile("in.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("名/x.npy", file.getvalue())
        archive.writestr("bytes", b"no array")
        archive.writestr("zeros.npy", bytes(10 << 20))
    batch("--output", "y.npy", inputs=("x=in.npz:名/x",))
    np.testing.assert_allclose(np.load("y.npy"), scores(x), rtol=1e-5)
    error = batch("--output", "z.npy", status=2, inputs=("x=in.npz:bytes",))["error"]
    assert "has bytes that are no array" in error
    monkeypatch.setattr(columns, "memory_bytes", lambda: 1 << 20)  # a bomb, for a machine with so little
    error = batch("--output", "z.npy", status=2, inputs=("x=in.npz:zeros",))["error"]
    assert "does not fit into memory, where each worker has all of it: it has 10485760 bytes when it is unpacked" in error
    assert "fix: .npy or .zarr" in error


def test_an_array_that_memory_has_no_place_for(folder: Path, batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise MemoryError("Unable to allocate 15 GiB")

    np.savez("x.npz", x=rows(3))
    monkeypatch.setattr(np, "load", full)
    error = batch("--output", "y.npy", status=2, inputs=("x=x.npz",))["error"]
    assert "does not fit into memory, where each worker has all of it: Unable to allocate 15 GiB" in error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_no_file(folder: Path, batch: Run) -> None:
    os.mkfifo("in.npy")
    error = batch("--output", "y.npy", status=2, inputs=("x=in.npy",))["error"]
    assert "in.npy is a pipe or a device; fix: a file" in error


def test_paths(folder: Path, batch: Run) -> None:
    """Any name that the system takes is one, whatever its letters; others are refused."""
    x = rows(5)
    for name in ("名 前.npy", os.fsdecode(b"\xff.npy"), "a\nb.npy", "a=b.npy"):
        np.save(name, x)
        batch("--output", f"out {name}", inputs=(f"x={name}",))
        np.testing.assert_allclose(np.load(f"out {name}"), scores(x), rtol=1e-5)
    assert "embedded null byte; fix: another path" in batch("--output", "y.npy", status=2, inputs=("x=a\0.npy",))["error"]
    assert "there is a NUL in it" in batch("--output", "y\0.npy", status=2)["error"]
    assert "File name too long" in batch("--output", "a" * 250 + ".npy", status=2)["error"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_numpy_does_not_know(folder: Path, name: str, dtype: str) -> None:
    """They are bytes in .npy files, there and in what the command writes, and have their names in safetensors."""
    graph = jn.Graph("same", [jn.TensorType(jn.DType(dtype), ("batch", SIZE), "x")])
    (x,) = graph.inputs
    graph.output(x[:, ::-1], name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    values = rows(20).astype(getattr(ml_dtypes, dtype))
    raw = values.view(f"V{values.itemsize}")  # NumPy writes a name for float8_e5m2 that it cannot read
    np.save("x.npy", raw)
    np.savez("x.npz", x=raw)
    kind = {"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}[dtype]
    header = {"x": {"dtype": kind, "shape": values.shape, "data_offsets": [0, values.nbytes]}}
    text = json.dumps(header).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())
    assert main(["batch", "m.joinery", "--input", f"x={name}", "--output", "y.npy", "--block", "7", "--quiet"]) == 0
    found = np.load("y.npy").view(values.dtype)
    assert found.tobytes() == values[:, ::-1].tobytes()
    assert main(["batch", "m.joinery", "--input", "x=y.npy", "--output", "z.npy", "--quiet"]) == 0  # what it wrote
    assert np.load("z.npy").tobytes() == values.tobytes()


@pytest.mark.slow
def test_bfloat16_of_safetensors_in_a_process_of_its_own(folder: Path) -> None:
    """Which has not loaded ml_dtypes when it opens the file, as this one has."""
    graph = jn.Graph("double", [jn.TensorType(jn.bfloat16, ("batch", SIZE), "x")])
    graph.output(graph.inputs[0] + graph.inputs[0], name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    values = rows(20).astype(ml_dtypes.bfloat16)
    jn.save_safetensors({"x": values}, "x.safetensors")
    command = ["batch", "m.joinery", "--input", "x=x.safetensors", "--output", "y.npy", "--quiet"]
    done = subprocess.run([sys.executable, "-P", "-m", "joinery", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.load("y.npy").tobytes() == (values + values).tobytes()


def scaled(dtype: str = "float32") -> None:
    """Save a model of rows and a number."""
    kind = jn.DType(dtype)
    graph = jn.Graph("scaled", [jn.TensorType(kind, ("batch", SIZE), "x"), jn.TensorType(kind, (), "s")])
    x, s = graph.inputs
    graph.output(x * s, name="y")
    jn.compile(graph, device="cpu").save("m.joinery")


@pytest.mark.parametrize("name", ["s.npy", "s.npz", "s.safetensors", "s.zarr", "s2.zarr"])
def test_a_number_goes_to_each_block(folder: Path, batch: Run, name: str) -> None:
    scaled()
    number = np.array(3, np.float32)
    np.save("s.npy", number)
    np.savez("s.npz", s=number)
    if name.endswith(".zarr"):
        zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
        group = zarr.open_group(name, mode="w", zarr_format=2 if name == "s2.zarr" else 3)
        group.create_array("s", data=number)
    if name == "s.safetensors":
        jn.save_safetensors({"s": number}, name)
    assert batch("--output", "y.npy", "--block", "10", inputs=("x=x.npy", f"s={name}"))["blocks"] == 11
    assert np.array_equal(np.load("y.npy"), rows(103) * 3)


@pytest.mark.parametrize("name", ["s.npy", "s.npz"])
def test_a_number_of_bytes(folder: Path, batch: Run, name: str) -> None:
    scaled("bfloat16")
    x, number = rows(20).astype(ml_dtypes.bfloat16), np.array(3, ml_dtypes.bfloat16)
    np.save("x.npy", x)
    np.save("s.npy", number)
    np.savez("s.npz", s=number)
    batch("--output", "y.npy", "--block", "7", inputs=("x=x.npy", f"s={name}"))
    assert np.load("y.npy").tobytes() == (x * number).tobytes()


def test_a_number_and_an_array_in_each_others_place(folder: Path, batch: Run) -> None:
    """What each message says to do is what the other does not refuse."""
    scaled()
    np.save("s.npy", np.ones(1, np.float32))
    found = batch("--output", "y.npy", status=2, inputs=("x=x.npy", "s=s.npy"))["error"]
    assert "input s: float32[] has 0 axes" in found
    assert "s.npy has 1, (1,); fix: a file with a number, as numpy.save(path, array[0]) writes" in found
    np.save("s.npy", np.load("s.npy")[0])
    batch("--output", "y.npy", inputs=("x=x.npy", "s=s.npy"))
    found = batch("--output", "z.npy", status=2, inputs=("x=s.npy", "s=s.npy"))["error"]
    assert "input x: float32[batch, 16] has 2 axes" in found
    assert "s.npy is a number; fix: an array with these axes" in found


def test_bytes_of_another_size_stay_refused(folder: Path, batch: Run) -> None:
    np.save("x.npy", np.zeros((3, SIZE), "V4"))
    assert "expects x: float32[batch, 16], got |V4" in batch("--output", "y.npy", status=2)["error"]


def test_groups_and_shapes_of_zarr(folder: Path, batch: Run) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    x = rows(20)
    group = zarr.open_group("in.zarr", mode="w")
    group.create_array("a/b/x", shape=x.shape, dtype=x.dtype, chunks=(7, 5))[...] = x
    batch("--output", "y.npy", "--block", "6", inputs=("x=in.zarr/a/b/x",))
    np.testing.assert_allclose(np.load("y.npy"), scores(x), rtol=1e-5)
    for member in ("", "/a"):
        error = batch("--output", "z.npy", status=2, inputs=(f"x=in.zarr{member}",))["error"]
        assert f"has no {member[1:] or 'x'!r}" in error
    assert "fix: one of a/b/x" in batch("--output", "z.npy", status=2, inputs=("x=in.zarr",))["error"]
    error = batch("--output", "z.npy", status=2, inputs=("x=in.zarr/../in.zarr",))["error"]
    assert "../in.zarr is no name in a group" in error
    path = folder / "in.zarr" / "a" / "b" / "x" / "zarr.json"
    metadata = json.loads(path.read_text())
    metadata["shape"] = [10**15, SIZE]
    path.write_text(json.dumps(metadata))
    error = batch("--output", "z.zarr", status=2, inputs=("x=in.zarr/a/b/x",))["error"]
    assert "1000000000000000 rows are " in error
    assert "a run has 100000000 at most; fix: a larger --block" in error
    metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"] = [20, SIZE], [0, SIZE]
    path.write_text(json.dumps(metadata))
    error = batch("--output", "z.npy", status=2, inputs=("x=in.zarr/a/b/x",))["error"]
    assert "its shape is (20, 16), its chunks are (0, 16); fix: write it anew" in error


def test_a_column_that_is_there_twice(folder: Path, batch: Run) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = pyarrow.array(np.zeros(3, np.float32))
    parquet.write_table(pyarrow.Table.from_arrays([column, column], names=["x", "x"]), "in.parquet")
    error = batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]
    assert "column 'x' is there 2 times" in error


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file systems there take UTF-8 alone")
@pytest.mark.parametrize("where", ["file", "folder", "folder above", "file in a folder"])
def test_names_that_parquet_does_not_take(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """pyarrow takes UTF-8 alone: each block failed four times, and inputs were said to be no files of Parquet."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    name = os.fsdecode(b"\xff")
    table = pyarrow.table({"x": pyarrow.FixedSizeListArray.from_arrays(rows(5).reshape(-1), SIZE)})
    parquet.write_table(table, "in.parquet")
    path = {
        "file": f"{name}.parquet", "folder": f"{name}/a.parquet", "folder above": f"{name}/a.parquet",
        "file in a folder": f"in/{name}.parquet",
    }[where]  # fmt: skip
    Path(path).parent.mkdir(exist_ok=True)
    os.rename("in.parquet", path)
    given = {"folder": name, "file in a folder": "in"}.get(where, path)
    error = batch("--output", "y.npy", inputs=(f"x={given}",), status=2)["error"]
    assert f"input 'x': {str(folder / path)!r} is no UTF-8, and Parquet takes no other paths; fix: rename it" in error
    if where in ("file", "folder above"):
        output = path.replace(".parquet", "2.parquet")
        monkeypatch.setattr(jobs, "run_block", None)  # nothing runs
        error = batch("--output", output, status=2)["error"]
        assert f"--output: {str(folder / output)!r} is no UTF-8" in error
    assert [each for each in os.listdir(folder) if each.endswith((".partial", ".npy"))] == ["x.npy"]


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file systems there take UTF-8 alone")
@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_names_of_other_formats_are_bytes(batch: Run, suffix: str) -> None:
    if suffix == "zarr":
        pytest.importorskip("zarr", reason="the extra dask is not installed")
    name = os.fsdecode(b"\xff")
    os.rename("x.npy", f"{name}.npy")
    expected = batch("--output", "y.npy", inputs=(f"x={name}.npy",))["digest"]
    options = ("--output", f"{name}2.{suffix}", "--resume")
    assert batch(*options, inputs=(f"x={name}.npy",))["digest"] == expected
    assert batch(*options, inputs=(f"x={name}.npy",))["before"] == 1


def test_a_variable_that_is_no_number_of_threads_is_seen_before_a_cluster_starts(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["batch", "m.joinery", "--trusted", "--input", "x=x.npy", "--output", "y.npy", "--quiet"]
    monkeypatch.setenv("JOINERY_THREADS", "many")
    monkeypatch.setattr(running, "_engine", None)  # no cluster, and no block
    for workers in ("0", "2"):
        assert main([*arguments, "--workers", workers]) == 2
        assert "JOINERY_THREADS is 'many'; fix: a number" in " ".join(capsys.readouterr().err.split())
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy"]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("JOINERY_THREADS", "many")
    assert batch("--output", "y.npy")["computed"] == 1  # --threads is above it
