"""Damaged files of Parquet: which blocks fail, what they say, and that all others are done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joinery.interface.distributed.batch.parquet_columns import ParquetColumn

from .conftest import SIZE, Run, rows, scores

pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="the extra dask is not installed")

ROWS, GROUP = 120, 30


def write(path: Path, **options: Any) -> np.ndarray:
    """Rows in four row groups, each of one page unless options say otherwise, with checksums."""
    x = rows(ROWS)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), SIZE)
    given = {"compression": "none", "use_dictionary": False, "write_page_checksum": True, **options}
    parquet.write_table(pyarrow.table({"x": column}), path, row_group_size=GROUP, **given)
    return x


def damage(path: Path, group: int, at: float, data: bytes) -> None:
    """Overwrite bytes of a row group, at a share of its length."""
    column = parquet.ParquetFile(path).metadata.row_group(group).column(0)
    start = column.data_page_offset + int(at * column.total_compressed_size)
    content = bytearray(path.read_bytes())
    content[start : start + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
@pytest.mark.parametrize(("at", "why"), [(0.5, "CRC checksum verification failed"), (0.0, "Deserializing page header failed")])
def test_blocks_of_a_damaged_row_group_fail_by_its_rows(
    folder: Path, batch: Run, compression: str, at: float, why: str
) -> None:
    x = write(folder / "x.parquet", compression=compression)
    damage(folder / "x.parquet", 2, at, b"\xff" * 8)
    found = batch("--block", "10", "--output", "y.zarr", inputs=("x=x.parquet",), status=1)
    assert [each["rows"] for each in found["failed"]] == [[60, 70], [70, 80], [80, 90]]
    for each in found["failed"]:
        assert each["attempts"] == 1
        assert f"row group 2 of {folder / 'x.parquet'}, rows 60 to 89, cannot be decoded from row 60 on" in each["error"]
        assert why in each["error"]
        assert each["error"].endswith("fix: write the file anew")
    assert found["computed"] == 9
    again = batch("--block", "10", "--output", "y.zarr", "--resume", inputs=("x=x.parquet",), status=1)
    assert (again["before"], again["computed"]) == (9, 0)
    zarr = pytest.importorskip("zarr")
    (data,) = (folder / "y.zarr.partial").glob("data-*")
    done = zarr.open_group(data, mode="r")["y"][:]
    kept = np.r_[0:60, 90:120]
    np.testing.assert_allclose(done[kept], scores(x)[kept], rtol=1e-5)


def test_rows_before_a_damaged_page_are_read(folder: Path, batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of several pages, in pieces of ten rows: those before the damage are there, and it is looked at once."""
    monkeypatch.setattr("joinery.interface.distributed.batch.parquet_columns._MAX_PIECE_ROWS", 10)
    write(folder / "x.parquet", data_page_size=10 * SIZE * 4, write_batch_size=10)
    damage(folder / "x.parquet", 1, 0.7, b"\xff" * 8)
    begun: list[int] = []
    chunks = ParquetColumn._chunks

    def counted(column: ParquetColumn, file: Any, group: int, count: int) -> Iterator[Any]:
        begun.append(group)
        return chunks(column, file, group, count)

    monkeypatch.setattr(ParquetColumn, "_chunks", counted)
    found = batch("--block", "5", "--output", "y.npy", inputs=("x=x.parquet",), status=1)
    first = found["failed"][0]["rows"][0]
    assert 30 < first < 60  # the pages of a group are not all lost
    assert [each["rows"][0] for each in found["failed"]] == list(range(first, 60, 5))
    assert all(f"from row {first} on" in each["error"] for each in found["failed"])
    assert begun == [0, 1, 2, 3]


def test_a_group_with_fewer_rows_than_its_footer_says(folder: Path, batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "x.parquet")
    chunks = ParquetColumn._chunks

    def short(column: ParquetColumn, file: Any, group: int, count: int) -> Iterator[Any]:
        return (each.slice(0, len(each) - (group == 1)) for each in chunks(column, file, group, count))

    monkeypatch.setattr(ParquetColumn, "_chunks", short)
    found = batch("--block", "10", "--output", "y.npy", inputs=("x=x.parquet",), status=1)
    assert [each["rows"][0] for each in found["failed"]] == [50]
    assert "it has 29 rows, its footer says 30" in found["failed"][0]["error"]


def test_a_disk_that_fails_is_tried_again(folder: Path, batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the number of an error of the system is not taken for damage."""
    x = write(folder / "x.parquet")
    chunks, failures = ParquetColumn._chunks, [OSError(5, "Input/output error")]

    def once(column: ParquetColumn, file: Any, group: int, count: int) -> Iterator[Any]:
        if group == 1 and failures:
            raise failures.pop()
        return chunks(column, file, group, count)

    monkeypatch.setattr(ParquetColumn, "_chunks", once)
    assert batch("--block", "10", "--output", "y.npy", inputs=("x=x.parquet",))["failed"] == []
    np.testing.assert_allclose(np.load(folder / "y.npy"), scores(x), rtol=1e-5)


@pytest.mark.parametrize("cut", [0, 4, 200])
def test_of_a_folder_the_damaged_file_is_named(folder: Path, batch: Run, cut: int) -> None:
    (folder / "x.parquet").mkdir()
    for name in "abc":
        write(folder / "x.parquet" / f"{name}.parquet")
    path = folder / "x.parquet" / "b.parquet"
    path.write_bytes(path.read_bytes()[:cut])
    error = batch("--output", "y.npy", inputs=("x=x.parquet",), status=2)["error"].replace("- ", "-")
    assert "b.parquet is no .parquet file, or a part of one" in error
    assert not (folder / "y.npy.partial").exists()
