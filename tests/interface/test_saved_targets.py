"""`Model.save` for several targets, and of models that were loaded from files with code for several."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target
from joinery.runtime.storage import artifact_file

TARGETS = ("cpu", "x86-64-v3", "sm_80")
NAMES = ("x86-64-v3", "x86-64-v4", "sm_80", "sm_90a")
HERE = host_target().key
if not HERE.startswith("x86_64"):
    pytest.skip("levels are those of x86-64", allow_module_level=True)


def graph() -> jn.Graph:
    rng = np.random.default_rng(0)
    made = jn.Graph("mlp", [jn.TensorType(jn.float32, ("batch", 32), "x")])
    (x,) = made.inputs
    weights = rng.standard_normal((32, 48)).astype(np.float32)
    made.output(jn.gelu(x @ made.weight("w", weights)), name="y")
    return made


def targets_of(path: Path) -> tuple[str, ...]:
    """The targets of a file's code: "cpu" for this machine's own, the name of a level or of a GPU for others."""
    found = artifact_file.load(path).manifest.targets
    return tuple(["cpu" if each == HERE else next(name for name in NAMES if name in each) for each in found])


X = np.random.default_rng(1).standard_normal((5, 32)).astype(np.float32)


def test_a_model_is_saved_for_several_targets(tmp_path: Path) -> None:
    model = jn.compile(graph(), device="cpu")
    model.save(tmp_path / "m.joinery", targets=TARGETS)
    assert targets_of(tmp_path / "m.joinery") == TARGETS
    np.testing.assert_array_equal(jn.load(tmp_path / "m.joinery", device="cpu", trusted=True)(X), model(X))
    jn.save(graph(), tmp_path / "same.joinery", targets=TARGETS)
    assert (tmp_path / "same.joinery").read_bytes() == (tmp_path / "m.joinery").read_bytes()


def test_a_trusted_model_is_saved_as_it_was_loaded(tmp_path: Path) -> None:
    jn.save(graph(), tmp_path / "m.joinery", targets=TARGETS)
    data = (tmp_path / "m.joinery").read_bytes()
    digest = artifact_file.load(data).manifest.digest
    for number, model in enumerate([
        jn.load(tmp_path / "m.joinery", trusted=True), jn.load(data, trusted=True, digest=digest, verify=False),
        jn.load(tmp_path / "m.joinery", trusted=True, digest=digest),
        jn.load(tmp_path / "m.joinery", "ptxsim", target="sm_80", trusted=True),
    ]):  # fmt: skip
        model.save(tmp_path / f"{number}.joinery")
        assert (tmp_path / f"{number}.joinery").read_bytes() == data
        again = jn.load(tmp_path / f"{number}.joinery", device="cpu", trusted=True)
        np.testing.assert_array_equal(again(X), jn.compile(graph(), device="cpu")(X))


def test_code_of_a_file_that_is_not_trusted_is_not_handed_on(tmp_path: Path) -> None:
    jn.save(graph(), tmp_path / "m.joinery", targets=TARGETS)
    model = jn.load(tmp_path / "m.joinery", device="cpu")
    model.save(tmp_path / "own.joinery")
    assert targets_of(tmp_path / "own.joinery") == ("cpu",)
    model.save(tmp_path / "more.joinery", targets=("sm_90a",))
    assert targets_of(tmp_path / "more.joinery") == ("sm_90a",)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_reference_to_a_model_that_was_loaded(tmp_path: Path, trusted: bool) -> None:
    """The digest of the file that is written is not that of the one that was loaded, unless it was trusted."""
    jn.save(graph(), tmp_path / "m.joinery", targets=TARGETS)
    model = jn.load(tmp_path / "m.joinery", device="cpu", trusted=trusted)
    made = jn.distributed.reference(model, directory=tmp_path)
    assert (made.digest == model.digest) == trusted
    np.testing.assert_array_equal(made()(X), model(X))


def test_the_schedule_of_a_model_goes_with_it(tmp_path: Path) -> None:
    plain = jn.compile(graph(), device="cpu")
    schedule = plain.schedule
    kernel = next(iter(schedule.kernels))
    model = jn.compile(graph(), device="cpu", schedule=schedule)
    model.save(tmp_path / "m.joinery", targets=("cpu", "sm_80"))
    opened = jn.load(tmp_path / "m.joinery", device="cpu")
    assert str(opened.schedule) == str(model.schedule)
    assert kernel in opened.schedule.kernels
    assert "cpu_schedule" in artifact_file.load(tmp_path / "m.joinery").manifest.metadata


@pytest.mark.parametrize("targets", ["cpu", (), ("cpu", "cpu"), ("sm_1",), ("no such",), 5, [1]])
def test_targets_that_are_none(tmp_path: Path, targets: object) -> None:
    with pytest.raises(jn.UserError):
        jn.compile(graph(), device="cpu").save(tmp_path / "m.joinery", targets=targets)  # type: ignore[arg-type]
    assert not os.listdir(tmp_path)


def test_a_model_with_operations_of_the_host_has_no_code(tmp_path: Path) -> None:
    made = jn.Graph("staged", [jn.TensorType(jn.float32, ("n",), "x")])
    made.output(jn.nonzero(made.inputs[0]))
    model = jn.compile(made, device="cpu")
    model.save(tmp_path / "m.joinery", targets=("cpu", "sm_80"))
    assert targets_of(tmp_path / "m.joinery") == ()
    with pytest.raises(jn.UserError, match="no such"):
        model.save(tmp_path / "m.joinery", targets=("no such",))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("targets", [("cpu",), ("cpu", "sm_80"), ("x86-64-v3", "cpu")])
def test_a_graph_is_saved_with_the_code_that_compile_makes(tmp_path: Path, targets: tuple[str, ...]) -> None:
    """Products of codes are in integers in both, and weights in few bits stay so."""
    rng = np.random.default_rng(2)
    made = jn.Graph("codes", [jn.TensorType(jn.float32, ("batch", 64), "x")])
    (x,) = made.inputs
    codes = made.constant(rng.integers(-100, 100, (64, 48)).astype(np.int8))
    scale, zero, none = (made.constant(np.asarray(value)) for value in (np.float32(0.05), np.int8(3), np.int8(0)))
    rounded = jn.dequantize(jn.quantize(x, scale, zero), scale, zero)
    y = rounded @ jn.dequantize(codes, scale, none)
    few = made.constant(rng.integers(-100, 100, (48, 256)).astype(np.int8))
    made.output(jn.relu(y) @ jn.dequantize(few, scale, none), name="y")
    compiled = jn.compile(made, device="cpu")
    jn.save(made, tmp_path / "m.joinery", targets=targets)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    for trusted in (True, False):
        opened = jn.load(tmp_path / "m.joinery", device="cpu", trusted=trusted)
        assert [kernel.name for kernel in opened.kernels] == [kernel.name for kernel in compiled.kernels]
        if trusted:
            assert opened.compiled.object_code == compiled.compiled.object_code
        np.testing.assert_array_equal(opened(x), compiled(x))


def positions() -> jn.Graph:
    """A graph whose weight is used on the host."""
    made = jn.Graph("positions", [jn.TensorType(jn.float32, ("batch", 48), "x")])
    made.output(jn.nonzero(made.inputs[0] + made.weight("w", np.arange(48, dtype=np.float32))))
    return made


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(("build", "kind"), [(graph, "weights"), (graph, "graph"), (positions, "graph")])
def test_bytes_that_nobody_has_checked_are_not_saved_under_a_digest_of_their_own(
    tmp_path: Path, build: Callable[[], jn.Graph], kind: str, trusted: bool
) -> None:
    path = tmp_path / "m.joinery"
    jn.compile(build(), device="cpu").save(path)
    data = bytearray(path.read_bytes())
    digest = artifact_file.load(bytes(data)).manifest.digest
    good = jn.load(bytes(data), "cpu", trusted=trusted, digest=digest, verify=False)
    assert jn.distributed.reference(good, directory=tmp_path).digest == digest or not trusted
    (section,) = [each for each in artifact_file.load(path).manifest.sections if each.kind == kind]
    at = section.length - 1 if kind == "weights" else bytes(data[section.offset :]).index(b'"') + 1  # of the graph's name
    data[section.offset + at] ^= 1
    model = jn.load(bytes(data), "cpu", trusted=trusted, digest=digest, verify=False)
    there = sorted(tmp_path.iterdir())
    for save in (
        lambda: model.save(path), lambda: model.save(tmp_path / "more.joinery", targets=("x86-64-v3",)),
        lambda: jn.distributed.reference(model, directory=tmp_path / "kept"),
    ):  # fmt: skip
        with pytest.raises(jn.UserError, match=f"section '{kind}' does not match its SHA-256: it was damaged or changed"):
            save()
    assert sorted(each for each in tmp_path.iterdir() if each.is_file()) == there
    assert artifact_file.load(path).manifest.digest == digest
