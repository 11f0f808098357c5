"""Code for levels of x86-64: what runs it, what a file with code for several kinds of CPUs gives, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.opening import devices
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.cpu_levels import LEVELS, fits, level_target, runs_level
from joinery.runtime.storage import artifact_file

HERE = host_target()
if not HERE.triple.startswith("x86_64"):
    pytest.skip("levels are those of x86-64", allow_module_level=True)
RUN = [name for name in LEVELS if runs_level(level_target(name, "test"), HERE)]
if "x86-64-v3" not in RUN:
    pytest.skip("this CPU has no AVX2", allow_module_level=True)
rng = np.random.default_rng(0)
WEIGHTS, X = rng.standard_normal((64, 100)).astype(np.float32), rng.standard_normal((5, 64)).astype(np.float32)


def graph() -> jn.Graph:
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 64), "x")])
    g.output(jn.softmax(jn.relu(g.inputs[0] @ g.constant(WEIGHTS)), -1))
    return g


def expected() -> Any:
    y = np.maximum(X.astype(np.float64) @ WEIGHTS, 0)
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def levels_of(path: Path) -> list[str]:
    targets = artifact_file.load(path).manifest.targets
    return [target.split("|")[1 if "x86_64" in target else 0] for target in targets]


@pytest.mark.parametrize("name", RUN)
def test_a_level_has_its_instructions_alone(name: str) -> None:
    model = jn.compile(graph(), "cpu", target=name, cache=False)
    np.testing.assert_allclose(model(X), expected(), rtol=1e-4, atol=1e-6)
    assert model.compiled.target == level_target(name, "test").key
    code = model.compiled.object_code
    evex = code.count(b"\x62\xf1")  # the prefix of AVX-512
    assert evex > 10 if name == "x86-64-v4" else evex <= 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
def test_products_of_bytes_and_of_bfloat16(numerics: str) -> None:
    """Which have instructions of their own on newer CPUs, and need other ones on a level."""
    codes, weights = rng.integers(-128, 128, (7, 37)).astype(np.int8), rng.integers(-128, 128, (37, 50)).astype(np.int8)
    g = jn.Graph("g", [jn.TensorType(jn.int8, codes.shape, "x"), jn.TensorType(jn.bfloat16, (7, 64), "y")])
    g.output(g.inputs[0] @ g.constant(weights), (g.inputs[1] @ g.constant(WEIGHTS).cast("bfloat16")).cast("float32"))
    y = X[[0, 1, 2, 3, 4, 0, 1]].astype(jn.bfloat16.numpy)
    for name in RUN:
        found = jn.compile(g, "cpu", target=name, numerics=numerics, cache=False)(codes, y)
        np.testing.assert_array_equal(found[0], codes.astype(np.int64) @ weights.astype(np.int64))
        np.testing.assert_allclose(found[1], y.astype(np.float64) @ WEIGHTS, rtol=0.02, atol=0.2)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("targets", "taken"),
    [
        (("x86-64-v3",), "x86-64-v3"), (("sm_80", "x86-64-v3"), "x86-64-v3"), (("x86-64-v3", "cpu"), HERE.cpu),
        (("x86-64-v3", "x86-64-v4"), RUN[-1]), (("x86-64-v4", "cpu", "x86-64-v3"), HERE.cpu),
    ],
)  # fmt: skip
def test_a_file_gives_the_code_that_fits_best(tmp_path: Path, targets: Sequence[str], taken: str) -> None:
    path = tmp_path / "m.joinery"
    jn.save(graph(), path, targets, cache=False)
    model = jn.load(path, "cpu", trusted=True, cache=False)
    assert model.compiled.target.split("|")[1] == taken
    np.testing.assert_allclose(model(X), expected(), rtol=1e-4, atol=1e-6)
    asked = jn.load(path, "cpu", target="x86-64-v3", trusted=True, cache=False)
    assert asked.compiled.target.split("|")[1] == "x86-64-v3"
    untrusted = jn.load(path, "cpu", cache=False)
    assert untrusted.compiled.target == HERE.key, "no code of a file runs that is not trusted"
    model.save(tmp_path / "again.joinery")
    assert (tmp_path / "again.joinery").read_bytes() == path.read_bytes()


def test_the_bits_of_a_level_are_those_of_its_code() -> None:
    """Whatever the machine says of its caches, the code is the same."""
    one = jn.compile(graph(), "cpu", target="x86-64-v3", cache=False)
    assert level_target("x86-64-v3", "test") == replace(level_target("x86-64-v3", "test"), l1_bytes=32 << 10, l2_bytes=1 << 20)
    assert one.compiled.object_code == jn.compile(graph(), "cpu", target="x86-64-v3", cache=False).compiled.object_code


def test_a_cpu_without_the_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jn.save(graph(), tmp_path / "m.joinery", ("x86-64-v3",), cache=False)
    less = replace(HERE, cpu="older", features=HERE.features - {"avx2"}, vector_bytes=16)
    key = level_target("x86-64-v3", "test").key
    assert fits(key, HERE)
    assert not fits(key, less)
    assert not fits(key.replace("+avx2,", ""), HERE), "a key that is no level's"
    assert not fits("sm_80|x86-64-v3|1", HERE)
    assert not devices.same_code(less)(key)
    monkeypatch.setattr(devices, "host_target", lambda: less)
    with pytest.raises(jn.UserError, match="this CPU, older, does not run code for x86-64-v3"):
        jn.compile(graph(), "cpu", target="x86-64-v3")


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64", "x86-64-v33", "skylake", ""])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(jn.UserError, match=r"target .* for a CPU; expected x86-64-v3, x86-64-v4 or none"):
        jn.compile(graph(), "cpu", target=name)
    with pytest.raises(jn.UserError, match="target"):
        jn.save(graph(), tmp_path / "m.joinery", (name,))
    with pytest.raises(jn.UserError, match="is for GPUs"):
        jn.compile(graph(), "cpu", target="sm_80")


def test_operations_of_the_host_between_parts() -> None:
    """Each part is for the level."""
    g = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    (x,) = g.inputs
    g.output(jn.nonzero(x > 0.0))
    model = jn.compile(g, "cpu", target="x86-64-v3")
    np.testing.assert_array_equal(np.asarray(model(np.float32([1, -1, 2]))).ravel(), [0, 2])
