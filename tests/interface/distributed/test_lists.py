"""Rows of different lengths give what each of them gives alone, or fail by number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from .conftest import Run

pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

LENGTHS = [2, 3, 1, 3, 3, 3, 3, 3]
ROWS = [[-float(row + at + 1) for at in range(length)] for row, length in enumerate(LENGTHS)]
Build = Callable[..., jn.Symbol]


def saved(build: Build, *names: str, extents: tuple[str, ...] = ("seq", "seq")) -> None:
    inputs = [jn.TensorType(jn.float32, ("batch", extent), name) for name, extent in zip(names, extents, strict=False)]
    graph = jn.Graph("lists", inputs)
    graph.output(build(*graph.inputs), name="y")
    jn.compile(graph, device="cpu").save("m.joinery")


def written(**columns: list[list[float]]) -> tuple[str, ...]:
    arrays = {name: pyarrow.array(rows, pyarrow.list_(pyarrow.float32())) for name, rows in columns.items()}
    parquet.write_table(pyarrow.table(arrays), "in.parquet")
    return tuple([f"{name}=in.parquet" for name in columns])


MIXING: list[tuple[str, Build, Callable[[list[float]], float]]] = [
    ("max", lambda x: x.max(1), max),
    ("mean", lambda x: x.mean(1), lambda row: float(np.mean(row))),
    ("softmax", lambda x: jn.softmax(x).max(1), lambda row: float((np.exp(row) / np.exp(row).sum()).max())),
    ("last", lambda x: jn.flip(x, 1).max(1), max),
]


@pytest.mark.parametrize(("build", "alone"), [each[1:] for each in MIXING], ids=[each[0] for each in MIXING])
def test_what_takes_padding_for_values_needs_a_mask(
    batch: Run, folder: Path, build: Build, alone: Callable[..., float]
) -> None:
    saved(build, "x")
    inputs = written(x=ROWS)
    summary = batch("--output", "y.npy", "--block", "4", status=1, inputs=inputs)
    (failed,) = summary["failed"]  # all lists of the second block have one length
    assert (failed["block"], failed["attempts"]) == (0, 1)
    assert "input 'x': row 2 has 1 elements and would be padded with zeros to 3, which the model takes" in failed["error"]
    assert "fix: --mask NAME=x" in failed["error"]
    batch("--output", "one.npy", "--block", "4", "--batch", "1", inputs=inputs)
    np.testing.assert_allclose(np.load("one.npy"), [alone(row) for row in ROWS], rtol=1e-6)
    failed = batch("--output", "wide.npy", "--block", "4", "--batch", "1", "--pad-to", "4", status=1, inputs=inputs)["failed"]
    assert [each["block"] for each in failed] == [0, 1]


def test_what_counts_the_padding_needs_a_mask(batch: Run, folder: Path) -> None:
    """No element of a row is mixed with others, but all depend on how many there are."""
    size, table = jn.dim("seq"), np.arange(10, dtype=np.float32)
    saved(lambda x: x + x.graph.constant(table)[size - 1 : size], "x")
    inputs = written(x=[[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]])
    (failed,) = batch("--output", "y.npy", "--pad-to", "3", status=1, inputs=inputs)["failed"]
    assert "row 0 has 2 elements and would be padded with zeros to 3" in failed["error"]
    assert "computes with the number 'seq'" in failed["error"]
    batch("--output", "one.npy", "--pad-to", "3", inputs=written(x=[[4.0, 5.0, 6.0]]))
    np.testing.assert_array_equal(np.load("one.npy"), [[6.0, 7.0, 8.0]])


def test_a_row_without_elements_is_padding_alone(batch: Run, folder: Path) -> None:
    saved(lambda x: x.max(1), "x")
    inputs = written(x=[[-1.0], [], [-2.0]])
    (failed,) = batch("--output", "y.npy", "--batch", "1", status=1, inputs=inputs)["failed"]
    assert "row 1 has 0 elements" in failed["error"]
    assert "or leave out rows without elements" in failed["error"]


def test_elements_that_are_treated_alone_need_no_mask(batch: Run, folder: Path) -> None:
    saved(lambda x: jn.exp(x) * 2.0 + 1.0, "x")
    batch("--output", "y.npy", "--block", "4", "--pad-to", "3", inputs=written(x=ROWS))
    found = np.load("y.npy")
    for row, values in enumerate(ROWS):
        np.testing.assert_allclose(found[row, : len(values)], np.exp(values) * 2 + 1, rtol=1e-6)


def test_lists_of_one_dim_have_one_length_in_each_row(batch: Run, folder: Path) -> None:
    saved(lambda a, b: a + b, "a", "b")
    ones = [[1.0] * length for length in LENGTHS]
    batch("--output", "y.npy", "--pad-to", "3", inputs=written(a=ROWS, b=ones))
    assert np.load("y.npy").sum() == sum(map(sum, ROWS)) + sum(LENGTHS)
    inputs = written(a=ROWS, b=[*ones[:5], ones[5] + [1.0], *ones[6:]])
    for number, more in enumerate([(), ("--batch", "1")]):
        options = ("--output", f"{number}.npy", "--block", "4", "--pad-to", "4", *more)
        (failed,) = batch(*options, status=1, inputs=inputs)["failed"]
        assert (failed["block"], failed["rows"], failed["attempts"]) == (1, [4, 8], 1)
        assert "row 5 has 3 elements in input 'a', 4 in input 'b', and both are 'seq' in the model" in failed["error"]


def test_lists_of_two_dims_are_padded_apart(batch: Run, folder: Path) -> None:
    saved(lambda a, b: a.max(1) + b.max(1), "a", "b", extents=("seq", "other"))
    inputs = written(a=ROWS, b=[row * 2 for row in ROWS])
    batch("--output", "y.npy", "--batch", "1", inputs=inputs)
    np.testing.assert_array_equal(np.load("y.npy"), [2 * max(row) for row in ROWS])
    (failed,) = batch("--output", "z.npy", status=1, inputs=inputs)["failed"]
    assert "input 'a': row 2 has 1 elements" in failed["error"]


def test_lists_where_the_model_has_no_rows(batch: Run, folder: Path) -> None:
    inputs = [jn.TensorType(jn.float32, ("batch", "seq"), "x"), jn.TensorType(jn.float32, (len(ROWS), "m"), "w")]
    graph = jn.Graph("lists", inputs)
    graph.output(graph.inputs[0].max(1) + graph.inputs[1].max(), name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    written(w=ROWS)
    np.save("x.npy", np.ones((3, 2), np.float32))
    found = batch("--output", "y.npy", status=2, inputs=("x=x.npy", "w=in.parquet"))
    assert "in.parquet:w has lists of any length, input" in found["error"]
    assert "has no rows 'batch'; fix" in found["error"]
