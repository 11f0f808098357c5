"""Arrays beside the model: which, where, shared, safe, and the same for whoever reads them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest
from joinery.graph.onnx.export import exporter

from ....support.onnx_export.structure import structure

F = np.float32
BIG = np.arange(600, dtype=F).reshape(20, 30)
SMALL = np.arange(30, dtype=F)


def graph(scale: float = 1.0) -> Any:
    made = jn.Graph("dense", [jn.TensorType(jn.float32, ("n", 20), "x")])
    (x,) = made.inputs
    made.output(x @ made.weight("big", BIG) * scale + made.weight("small", SMALL), name="y")
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_arrays_lie_in_files_named_by_what_they_hold(tmp_path: Path) -> None:
    model = jn.to_onnx(graph(), tmp_path / "a.onnx", external_data=True)
    name = f"weights/{hashlib.sha256(BIG.tobytes()).hexdigest()}.bin"
    assert list(files(tmp_path)) == ["a.onnx", name]
    assert files(tmp_path)[name] == BIG.tobytes()
    entry = next(each for each in model.graph.initializer if each.name == "big")
    assert {each.key: each.value for each in entry.external_data} == {"location": name, "offset": "0", "length": "2400"}
    onnx.checker.check_model(str(tmp_path / "a.onnx"), full_check=True)
    again = jn.from_onnx(tmp_path / "a.onnx")
    assert structure(again) == structure(graph())


def test_models_in_one_folder_share_equal_arrays(tmp_path: Path) -> None:
    jn.to_onnx(graph(), tmp_path / "a.onnx", external_data=True)
    (shared,) = (tmp_path / "weights").iterdir()
    before = shared.stat()
    jn.to_onnx(graph(2.0), tmp_path / "b.onnx", external_data=True)
    assert [path.name for path in (tmp_path / "weights").iterdir()] == [shared.name]
    assert (shared.stat().st_ino, shared.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    array = np.ones((1, 20), F)
    np.testing.assert_allclose(jn.evaluate(jn.from_onnx(tmp_path / "b.onnx"), array), 2 * array @ BIG + SMALL, rtol=1e-6)


@pytest.mark.parametrize(("limit", "count"), [(100, 2), (2400, 1), (2401, 0), (False, 0), ("auto", 0)])
def test_a_number_of_bytes_decides(tmp_path: Path, limit: Any, count: int) -> None:
    jn.to_onnx(graph(), tmp_path / "a.onnx", external_data=limit)
    assert len(files(tmp_path)) == 1 + count


def test_what_does_not_fit_into_a_file_goes_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_MAX_INLINE", 2000)
    jn.to_onnx(graph(), tmp_path / "a.onnx")
    assert len(files(tmp_path)) == 2
    with pytest.raises(jn.UserError, match=r"2524 bytes of arrays do not fit(.|\n)*fix: a path, and external_data=\"auto\""):
        jn.to_onnx(graph(), tmp_path / "b.onnx", external_data=False)
    with pytest.raises(jn.UserError, match="need a path; fix: to_onnx"):
        jn.to_onnx(graph())


def test_a_file_that_was_changed_is_written_again(tmp_path: Path) -> None:
    jn.to_onnx(graph(), tmp_path / "a.onnx", external_data=True)
    (shared,) = (tmp_path / "weights").iterdir()
    shared.write_bytes(bytes(2400))
    jn.to_onnx(graph(), tmp_path / "a.onnx", external_data=True)
    assert shared.read_bytes() == BIG.tobytes()


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_bytes(b"keep me")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").mkdir()
    target = folder / "weights" / f"{hashlib.sha256(BIG.tobytes()).hexdigest()}.bin"
    target.symlink_to(victim)
    (folder / "a.onnx").symlink_to(victim)
    jn.to_onnx(graph(), folder / "a.onnx", external_data=True)
    assert victim.read_bytes() == b"keep me"
    assert not target.is_symlink()
    assert not (folder / "a.onnx").is_symlink()
    target.unlink()
    (folder / "weights").rmdir()
    (folder / "weights").symlink_to(outside, target_is_directory=True)
    with pytest.raises(jn.UserError, match="is a link or a file, no folder for weights; fix: remove it"):
        jn.to_onnx(graph(), folder / "a.onnx", external_data=True)
    assert [path.name for path in outside.iterdir()] == ["victim"]


def test_a_failed_write_leaves_the_old_model_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jn.to_onnx(graph(), tmp_path / "a.onnx")
    before = files(tmp_path)

    def fail(*_: object) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(jn.UserError, match=r"a\.onnx' cannot be written \(disk is full\); fix: "):
        jn.to_onnx(graph(3.0), tmp_path / "a.onnx")
    assert files(tmp_path) == before


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(jn.UserError, match=r"cannot be written \(No such file or directory\); fix: "):
        jn.to_onnx(graph(), tmp_path / "none" / "a.onnx")


WIDTHS = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float8_e4m3fn", "bfloat16", "bool", "uint64", "complex64")


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("is_external", [False, True])
def test_arrays_of_every_width_are_stored_bit_by_bit(tmp_path: Path, name: str, is_external: bool) -> None:
    dtype = jn.DType(name)
    rng = np.random.default_rng(3)
    if dtype.is_integer and dtype.bits < 8:
        low, high = int(dtype.min_value), int(dtype.max_value)
        array = rng.integers(low, high + 1, 7).astype(dtype.numpy)
    elif dtype.bits < 8 and dtype.kind == "float":
        array = rng.integers(0, 16, 7).astype(np.uint8).view(dtype.numpy)
    else:
        array = (rng.normal(size=7) * 3).astype(np.complex64 if dtype.is_complex else F).astype(dtype.numpy)
    made = jn.Graph("g", [jn.TensorType(jn.float32, (), "x")])
    made.output(made.weight("w", array, dtype), made.inputs[0])
    jn.to_onnx(made, tmp_path / "a.onnx", external_data=0 if is_external else False)
    assert len(files(tmp_path)) == (2 if is_external else 1)
    assert structure(jn.from_onnx(tmp_path / "a.onnx")) == structure(made)
