"""Rows of files: row groups and chunks are decoded once, rows that are no numbers fail alone, files that are none say so."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.interface.distributed.batch import columns, parquet_columns, sources
from joinery.interface.distributed.failures import RunError

from .conftest import SIZE, Run, rows, scores

pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
parquet = pytest.importorskip("pyarrow.parquet")
zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")


def vectors(x: np.ndarray) -> object:
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.ravel()), SIZE)


def opened(folder: Path, name: str) -> sources.Column:
    columns.opened.cache_clear()
    return columns.opened(sources.source("x", str(folder / name)))


# --- Parquet


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are decoded, piece by piece."""
    real, found = parquet_columns.ParquetColumn._decoded, []

    def pieces(self: parquet_columns.ParquetColumn, group: int) -> object:
        for row, piece in real(self, group):
            found.append(len(piece))
            yield row, piece

    monkeypatch.setattr(parquet_columns.ParquetColumn, "_decoded", pieces)
    monkeypatch.setattr(parquet_columns, "_PIECE_BYTES", 50 * SIZE * 4)
    return found


@pytest.mark.parametrize("group", [7, 100, 1000])
@pytest.mark.parametrize("lists", [False, True])
def test_row_groups_are_decoded_once_for_all_their_blocks(
    tmp_path: Path, decoded: list[int], group: int, lists: bool
) -> None:
    x = rows(1000)
    column = pyarrow.array(list(x)) if lists else vectors(x)
    parquet.write_table(pyarrow.table({"x": column}), tmp_path / "in.parquet", row_group_size=group, use_dictionary=False)
    opened_column = opened(tmp_path, "in.parquet")
    for at in range(0, 1000, 30):
        found = opened_column.read(at, min(at + 30, 1000))
        values = found.values.reshape(-1, SIZE) if lists else found
        assert np.array_equal(values, x[at : at + 30])
    assert sum(decoded) == 1000
    assert max(decoded) <= 80  # a part of a group of 1000 rows


def test_blocks_in_any_order(tmp_path: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_columns, "_KEPT_BYTES", 100 * SIZE * 4)
    x = rows(1000)
    for number in range(2):
        table = pyarrow.table({"x": vectors(x[number * 500 : number * 500 + 500])})
        (tmp_path / "in.parquet").mkdir(exist_ok=True)
        parquet.write_table(table, tmp_path / "in.parquet" / f"{number}.parquet", row_group_size=200, use_dictionary=False)
    column = opened(tmp_path, "in.parquet")
    for at in np.random.default_rng(0).permutation(990):
        assert np.array_equal(column.read(int(at), int(at) + 10), x[at : at + 10])
        assert sum(piece.nbytes for _, piece in column._kept) <= 200 * SIZE * 4  # type: ignore[attr-defined]
    assert column.read(1000, 1000).shape == (0, SIZE)
    assert [path.name for path in column.files(490, 510)] == ["0.parquet", "1.parquet"]


def test_a_null_fails_its_block_alone(batch: Run, folder: Path) -> None:
    x = rows(103).tolist()
    x[25] = None
    x[57][3] = None
    parquet.write_table(pyarrow.table({"x": pyarrow.array(x, pyarrow.list_(pyarrow.float32(), SIZE))}), "in.parquet")
    summary = batch("--output", "y.npy", "--block", "10", status=1, inputs=("x=in.parquet",))
    assert [(each["block"], each["attempts"]) for each in summary["failed"]] == [(2, 1), (5, 1)]
    for each, row in zip(summary["failed"], (25, 57), strict=True):
        assert f"row {row} of {folder / 'in.parquet'}:x is null, or has a null; fix: fill it" in each["error"]
    assert summary["computed"] == 9


def test_lists_of_one_length(batch: Run, folder: Path) -> None:
    x = rows(103)
    parquet.write_table(pyarrow.table({"x": pyarrow.array(list(x))}), "in.parquet", row_group_size=40)
    batch("--output", "y.npy", "--block", "10", inputs=("x=in.parquet",))
    np.testing.assert_allclose(np.load("y.npy"), scores(x), rtol=1e-5)
    parquet.write_table(pyarrow.table({"x": pyarrow.array([*x[:50], x[50][:9], *x[51:]])}), "in.parquet", row_group_size=40)
    (failed,) = batch("--output", "z.npy", "--block", "10", status=1, inputs=("x=in.parquet",))["failed"]
    assert (failed["block"], failed["rows"]) == (5, [50, 60])
    assert "row 50 of" in failed["error"]
    assert "has 9 elements, the model takes 16; fix: rows of 16" in failed["error"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (pyarrow.array([[1.0] * SIZE], pyarrow.list_(pyarrow.float64(), SIZE)), "b.parquet: column 'x' has fixed_size_list"),
        (None, "b.parquet: column 'x' has no such column; fix: files of one schema"),
    ],
)
def test_all_files_of_a_folder_are_looked_at_before_anything_runs(
    batch: Run, folder: Path, second: object, message: str
) -> None:
    (folder / "in.parquet").mkdir()
    parquet.write_table(pyarrow.table({"x": vectors(rows(20))}), "in.parquet/a.parquet")
    parquet.write_table(pyarrow.table({"z": [1.0]} if second is None else {"x": second}), "in.parquet/b.parquet")
    assert message in batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]
    assert not Path("y.npy.partial").exists()


@pytest.fixture
def many(folder: Path) -> Callable[[str, int, int], None]:
    """Write some rows of `rows(30)` to a file of the folder in.parquet."""

    def write(name: str, start: int, stop: int) -> None:
        path = folder / "in.parquet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({"x": vectors(rows(30)[start:stop])}), path)

    return write


@pytest.mark.parametrize("name", ["day=1", "sub.parquet"])
def test_folders_in_a_folder_are_refused_by_name(batch: Run, many: Callable[[str, int, int], None], name: str) -> None:
    many(f"{name}/a.parquet", 0, 10)
    error = f"in.parquet has a folder in it, {name}, and batch reads the files of one folder"
    assert error in batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]
    many("a.parquet", 10, 30)
    assert error in batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]
    assert not Path("y.npy.partial").exists()


def test_a_folder_that_leads_to_itself_is_refused(batch: Run, folder: Path, many: Callable[[str, int, int], None]) -> None:
    many("a.parquet", 0, 10)
    (folder / "in.parquet" / "loop").symlink_to(".")
    assert "has a folder in it, loop" in batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]


def test_names_of_a_folder_are_those_that_pyarrow_takes(
    batch: Run, folder: Path, many: Callable[[str, int, int], None]
) -> None:
    many("b.parquet", 10, 30)
    many("B.PARQUET", 0, 10)
    for name in ("_metadata.parquet", ".a.parquet", "_temporary/a.parquet", ".b/a.parquet"):
        many(name, 0, 5)
    batch("--output", "y.npy", inputs=("x=in.parquet",))
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(30)), rtol=1e-5)
    dataset = pytest.importorskip("pyarrow.dataset").dataset("in.parquet", format="parquet")
    assert np.array_equal(np.stack(dataset.to_table().column("x").to_numpy(zero_copy_only=False)), rows(30))
    column = sources.source("x", "in.parquet")
    assert column.stamp.files == 2
    many(".late.parquet", 0, 5)
    column.require_unchanged()
    many("c.PARQUET", 0, 5)
    with pytest.raises(RunError, match="is not what it was when the run was planned"):
        column.require_unchanged()


@pytest.mark.parametrize("text", ["scores", "scores/", "scores:x", "./scores/:x", "day:1:x", "day:1"])
def test_a_folder_of_parquet_of_any_name(batch: Run, folder: Path, text: str) -> None:
    """As Spark and Ray write them."""
    for name in ("scores", "day:1"):
        (folder / name).mkdir()
        parquet.write_table(pyarrow.table({"x": vectors(rows(7))}), folder / name / "part-0.parquet")
    found = batch("--output", "y.npy", "--block", "4", inputs=(f"x={text}",))
    assert found["digest"] == batch("--output", "z.npy", "--block", "4", inputs=("x=scores/part-0.parquet",))["digest"]
    (folder / "empty").mkdir()
    for other in ("empty", "empty:x", "scores.npy:x", ":x", "x.csv"):
        error = batch("--output", "v.npy", inputs=(f"x={other}",), status=2)["error"]
        assert "is in no format that batch reads" in error
        assert ".parquet:COLUMN, a folder of files .parquet, or" in error


def test_the_suffix_of_a_file_in_any_case(batch: Run, folder: Path) -> None:
    parquet.write_table(pyarrow.table({"x": vectors(rows(30))}), "IN.Parquet")
    batch("--output", "y.npy", inputs=("x=IN.Parquet:x",))
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(30)), rtol=1e-5)


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([{"a": 1.0}]), pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        pyarrow.array(["a"]), pyarrow.array([[["a"]]]), pyarrow.array([1], pyarrow.timestamp("s")),
    ],
)  # fmt: skip
def test_columns_that_are_no_numbers(batch: Run, folder: Path, column: object) -> None:
    parquet.write_table(pyarrow.table({"x": column}), "in.parquet")
    error = batch("--output", "y.npy", status=2, inputs=("x=in.parquet",))["error"]
    assert "fix: a column of numbers or lists of them" in error


def test_no_rows_keep_the_columns(batch: Run, folder: Path) -> None:
    np.save("x.npy", rows(0))
    batch("--output", "y.parquet")
    found = parquet.read_table("y.parquet")
    assert (found.num_rows, found.schema.names) == (0, ["y"])
    assert found.schema.field("y").type == pyarrow.list_(pyarrow.float32(), 5)


# --- Zarr


@pytest.mark.parametrize("chunk", [1, 7, 30, 100, 103, 400])
@pytest.mark.parametrize("block", [1, 10, 30, 103])
def test_chunks_are_decoded_once_for_all_their_blocks(
    tmp_path: Path, chunk: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rows(103)
    zarr.open_group(tmp_path / "in.zarr", mode="w").create_array("x", data=x, chunks=(chunk, 5))
    column = opened(tmp_path, "in.zarr/x")
    real, read = columns._ArrayColumn.read, []

    def counted(self: columns._ArrayColumn, start: int, stop: int) -> np.ndarray:
        read.append((start, stop))
        return real(self, start, stop)

    monkeypatch.setattr(columns._ArrayColumn, "read", counted)
    for at in range(0, 103, block):
        assert np.array_equal(column.read(at, min(at + block, 103)), x[at : at + block])
    decoded = [number for start, stop in read for number in range(start // chunk, -(-stop // chunk))]
    assert sorted(decoded) == list(range(-(-103 // chunk)))


def test_large_chunks_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "KEPT_BYTES", 90 * SIZE * 4)
    x = rows(300)
    zarr.open_group(tmp_path / "in.zarr", mode="w").create_array("x", data=x, chunks=(100, SIZE))
    zarr.open_group(tmp_path / "small.zarr", mode="w").create_array("x", data=x, chunks=(40, SIZE))
    for name, most in (("in.zarr/x", 0), ("small.zarr/x", 2)):
        column = opened(tmp_path, name)
        for at in range(0, 300, 30):
            assert np.array_equal(column.read(at, at + 30), x[at : at + 30])
            assert len(column._kept) <= most  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": (40, SIZE)}])
def test_the_files_of_rows(tmp_path: Path, options: dict[str, object]) -> None:
    group = zarr.open_group(tmp_path / "in.zarr", mode="w", **{k: v for k, v in options.items() if k == "zarr_format"})
    shards = {key: value for key, value in options.items() if key == "shards"}
    group.create_array("x", shape=(100, SIZE), dtype="f4", chunks=(20, SIZE), **shards)[:] = rows(100)
    column = opened(tmp_path, "in.zarr/x")
    data = [path for path in column.files(30, 50) if path.name not in ("zarr.json", ".zarray")]
    assert len(data) == 2
    assert all(path.exists() for path in column.files(30, 50))


# --- what is none


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("x.npz", lambda path: path.write_bytes(b"PK and more"), "is no .npz file, or a part of one"),
        ("x.npy", lambda path: path.write_bytes(b""), "is no .npy file, or a part of one"),
        ("x.npy", lambda path: (np.save(path, rows(9)), path.write_bytes(path.read_bytes()[:300])), "is no .npy file"),
        ("x.npy", lambda path: np.save(path, np.array([{}], object)), "has Python objects, which are not unpacked"),
        ("x.parquet", lambda path: path.write_bytes(b"none"), "is no .parquet file, or a part of one"),
        ("x.parquet", lambda path: path.mkdir(), "has no files *.parquet; fix: another folder"),
        ("x.zarr/x", lambda path: path.parent.mkdir(), "x.zarr is no .zarr file"),
        ("x.zarr/x", lambda path: zarr.open_group(path.parent, mode="w"), "fix: another file, there is nothing in this one"),
    ],
)
def test_files_that_are_damaged_or_others(tmp_path: Path, name: str, write: Callable[[Path], object], message: str) -> None:
    write(tmp_path / name)
    with pytest.raises(RunError) as caught:
        opened(tmp_path, name)
    text = str(caught.value)
    assert message in text
    assert "allow_pickle" not in text
    assert "all workers see" not in text


@pytest.mark.parametrize("name", ["../../evil", "..", ".", "a/b", "zarr.json", "__x", "x" * 300])
def test_names_of_outputs_lead_to_no_other_folder(batch: Run, folder: Path, name: str) -> None:
    graph = jn.Graph("hostile", [jn.TensorType(jn.float32, ("batch", SIZE), "x")])
    graph.output(jn.relu(graph.inputs[0]), name=name)
    jn.compile(graph, device="cpu").save("m.joinery")
    before = sorted(path for path in folder.rglob("*"))
    assert "is no name for a file; fix" in batch("--output", "sub/y.zarr", status=2)["error"]
    if name not in ("zarr.json", "__x"):
        assert "is no name for a file; fix" in batch("--output", "sub/y", status=2)["error"]
    assert sorted(path for path in folder.rglob("*")) == before


def test_masks_of_what_has_none(batch: Run, folder: Path) -> None:
    graph = jn.Graph(
        "masked", [jn.TensorType(jn.int64, ("batch", "seq"), "ids"), jn.TensorType(jn.int64, ("batch", "seq"), "mask")]
    )
    graph.output(graph.inputs[0] * graph.inputs[1], name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    np.save("ids.npy", np.zeros((5, 3), np.int64))
    given = {"inputs": ("ids=ids.npy",), "status": 2}
    assert "and ids has rows of one length" in batch("--mask", "mask=ids", "--output", "y.npy", **given)["error"]
    assert "and no --input has the name nope" in batch("--mask", "mask=nope", "--output", "y.npy", **given)["error"]


@pytest.mark.parametrize(("shape", "block"), [((10, SIZE), 10), ((10, 8), 10), ((10, 8), 7)])
def test_a_damaged_chunk_is_named(batch: Run, folder: Path, shape: tuple[int, int], block: int) -> None:
    array = zarr.open_group("in.zarr", mode="w").create_array("x", shape=(60, SIZE), chunks=shape, dtype="f4")
    array[:] = rows(60)
    name = f"c/3/{SIZE // shape[1] - 1}"
    path = folder / "in.zarr" / "x" / name
    path.write_bytes(path.read_bytes()[:40])
    failed = batch("--output", "y.npy", "--block", str(block), status=1, inputs=("x=in.zarr/x",))["failed"]
    assert [each["block"] for each in failed] == ([3] if block == 10 else [4, 5])
    assert all(each["attempts"] == 1 for each in failed)
    assert all(f"input 'x': {path} cannot be decoded" in each["error"] for each in failed)


def test_files_of_a_working_directory_that_is_gone(
    batch: Run, folder: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    given = ["--quiet", "--trusted", "--input"]
    for rest, message in (
        ([f"x={folder / 'x.npy'}", "--output", "y.npy"], "--output y.npy: the working directory is gone"),
        (["x=x.npy", "--output", str(folder / "y.npy")], "input 'x': x.npy cannot be read: No such file"),
    ):
        assert message in failing(["batch", str(model_path), *given, *rest])


def failing(arguments: list[str]) -> str:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        assert main(arguments) == 2
    return " ".join(errors.getvalue().split())
