"""Files of every version of the format are read, and compute what they did; one file serves several targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.storage import artifact_file, serialize

from ..support.saved_models import FOLDER, GRAPHS, INPUTS, VERSION, network, words

FILES = sorted(FOLDER.glob("*.joinery"))


def test_there_are_files_of_this_version() -> None:
    assert artifact_file.VERSION == VERSION
    assert {f"v{VERSION}_{name}" for name in GRAPHS} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_each_version_computes_what_it_did(path: Path) -> None:
    name = path.stem.partition("_")[2]
    model: Any = jn.load(path, device="cpu", cache=False)
    build, _ = GRAPHS[name]
    for got, want in zip(model(*INPUTS[name]), jn.evaluate(build(), *INPUTS[name]), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.hasobject:
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_code_in_a_file_of_each_version_is_read(path: Path) -> None:
    """Whether it is for this machine or not: what is in it can be looked at."""
    opened = artifact_file.load(path, trusted=True)
    assert len(opened.manifest.targets) == (2 if "network" in path.stem else 0)
    assert opened.manifest.metadata == {"numerics": "strict"}
    if opened.compiled is not None:
        assert [spec.name for spec in opened.compiled.outputs] == ["hidden", "total"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "two.joinery"
    jn.save(network(), path, ("sm_80", "cpu"), cache=False)
    return path


def test_one_file_has_code_for_several_targets(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trusted code of each target runs without a compiler."""
    monkeypatch.setattr("joinery.interface.compiling._compiled", lambda *_: pytest.fail("compiled anew"))
    want = jn.evaluate(network(), *INPUTS["network"])
    for device in ("cpu", "ptxsim"):
        model: Any = jn.load(two, device=device, trusted=True, cache=False)
        for got, expected in zip(model(*INPUTS["network"]), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_code_for_a_gpu_fits_others_of_its_kind(two: Path) -> None:
    """The number of multiprocessors is in the key, and no code depends on it."""
    (key,) = [target for target in artifact_file.load(two).manifest.targets if "nvptx" in target]
    from joinery.interface.opening.devices import same_code
    from joinery.lowering.llvm.nvptx.targets import gpu_target

    fits = same_code(gpu_target("sm_80"))
    assert fits(key)
    assert fits(key.rpartition("|")[0] + "|7")
    assert not fits(key.replace("sm_80", "sm_90a"))


def test_code_of_another_format_is_compiled_anew(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "FORMAT", serialize.FORMAT + 1)
    assert artifact_file.load(two, trusted=True).compiled is None
    model: Any = jn.load(two, device="cpu", trusted=True, cache=False)
    np.testing.assert_allclose(model(*INPUTS["network"])[1], jn.evaluate(network(), *INPUTS["network"])[1], rtol=1e-6)


def test_files_of_a_newer_version_are_refused(two: Path, tmp_path: Path) -> None:
    data = bytearray(two.read_bytes())
    data[8:12] = (VERSION + 1).to_bytes(4, "little")
    (tmp_path / "new.joinery").write_bytes(data)
    with pytest.raises(jn.UserError, match=rf"artifact version {VERSION + 1}; this joinery reads version {VERSION}"):
        jn.load(tmp_path / "new.joinery", device="cpu")


def test_the_layout_of_a_file_is_the_one_that_the_page_describes(two: Path) -> None:
    """An independent reader, from docs/artifact.md alone."""
    data = two.read_bytes()
    assert data[:8] == b"\x93JOINERY"
    assert int.from_bytes(data[8:12], "little") == 1
    length = int.from_bytes(data[16:24], "little")
    manifest = json.loads(data[56 : 56 + length])
    kinds = {}
    for kind, _target, offset, size, _digest in manifest["sections"]:
        assert offset % 64 == 0
        kinds.setdefault(kind, data[offset : offset + size])
    assert manifest["name"] == "network"
    assert kinds["graph"].decode().startswith("graph")
    header = int.from_bytes(kinds["weights"][:8], "little")
    tensors = json.loads(kinds["weights"][8 : 8 + header])
    entry = next(each for each in manifest["weights"] if each[1:] == ["float32", [20, 24], "plain"])
    low, high = tensors[entry[0]]["data_offsets"]
    raw = kinds["weights"][8 + header + low : 8 + header + high]
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32), (np.arange(480) % 7 - 3) / 4)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p: jn.save(jn.Graph("g"), p), jn.UserError, "expected a graph with outputs"),
        (lambda p: jn.save(network(), p, "cpu"), jn.UserError, "fix: different ones in a tuple"),
        (lambda p: jn.save(network(), p, ()), jn.UserError, "fix: different ones in a tuple"),
        (lambda p: jn.save(network(), p, ("cpu", "cpu")), jn.UserError, "fix: different ones in a tuple"),
        (lambda p: jn.save(network(), p, ("sm_1",)), jn.UserError, "sm_1"),
        (lambda p: jn.save(network(), p, numerics="loose"), jn.UserError, "loose"),
        (lambda p: jn.save(words(), p, ("sm_80",)), jn.UnsupportedError, "runs on the host"),
    ],
)
def test_mistakes(call: Any, kind: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=message):
        call(tmp_path / "x.joinery")
    assert not (tmp_path / "x.joinery").exists()
