"""Models in parts, between which operations run on the host: calls, errors, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest


def graph() -> Any:
    g = jn.Graph("filter", [jn.TensorType(jn.float32, ("n", "k"), name="x"), jn.TensorType("string", ("n",), name="labels")])
    x, labels = g.inputs
    w = g.weight("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    keep = jn.nonzero(jn.sum(x, axis=1) > 0)[0]
    g.output(jn.gather(x, keep) @ w, jn.gather(labels, keep), names=["rows", "names"])
    return g


X = np.array([[1, 2, 3], [-1, -2, -3], [0, 0, 1]], np.float32)
LABELS = np.array(["a", "b", "c"], dtype=object)


@pytest.fixture(scope="module")
def model() -> Any:
    return jn.compile(graph(), device="cpu", cache=False)


def test_every_way_to_call_gives_the_same(model: Any) -> None:
    named = {"x": X, "labels": LABELS}
    for rows, names in (model(X, LABELS), model(**named), tuple(model.run(named).values())):
        np.testing.assert_array_equal(rows, X[[0, 2]] @ np.arange(6, dtype=np.float32).reshape(3, 2))
        assert names.tolist() == ["a", "c"]
    assert isinstance(model, jn.Model)
    rows, names = model(X[:0], LABELS[:0])
    assert (rows.shape, names.shape) == ((0, 2), (0,))


def test_what_a_model_tells_of_itself(model: Any) -> None:
    assert [spec.dtype for spec in model.inputs] == ["float32", "string"]
    assert model.outputs[0].shape[0] not in model.dims
    assert [kernel.name for kernel in model.kernels] == [kernel.name for part in model.parts for kernel in part.kernels]
    assert "host: nonzero" in model.plan()
    assert repr(model).startswith("<joinery.StagedModel 'filter' (x: float32[n, k]")
    assert (model.numerics, model.name) == ("strict", "filter")


def test_files_keep_the_graph_and_its_weights(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "m.joinery")
    again = jn.load(tmp_path / "m.joinery", device="cpu", cache=False)
    for one, other in zip(model(X, LABELS), again(X, LABELS), strict=True):
        np.testing.assert_array_equal(one, other)
    tight = jn.load(tmp_path / "m.joinery", device="cpu", cache=False, budget=jn.Budget(bytes=80))
    with pytest.raises(jn.UserError, match="more bytes than the budget"):
        tight(np.ones((9, 3), np.float32), np.array(["x"] * 9, dtype=object))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: m(X), jn.UserError, r"model 'filter': graph 'filter' takes 2 inputs"),
        (lambda m: m(X, X), jn.UserError, r"input 'labels': expected strings"),
        (lambda m: m(X[:2], LABELS), jn.UserError, r"model 'filter': n is 2 .* but 3"),
        (lambda m: m(X[:, :2], LABELS), jn.UserError, r"model 'filter': .*k is 2, not 3"),
        (lambda m: m(X, labels=LABELS, x=X), jn.UserError, "by position and by name"),
        (lambda m: m.run([X]), jn.UserError, "run takes a mapping"),
        (lambda m: m.bind(X, LABELS), jn.UnsupportedError, "has no bound calls; fix: call the model"),
        (lambda m: m.sanitize(X, LABELS), jn.UnsupportedError, "sanitize its parts"),
        (lambda m: m.compiled, jn.UnsupportedError, "no single compiled form"),
    ],
)
def test_mistakes(model: Any, call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call(model)


def test_gpus_refuse_operations_of_the_host() -> None:
    with pytest.raises(jn.UnsupportedError, match=r"compile: nonzero, int64 .*runs on the host.*fix: device='cpu'"):
        jn.compile(graph(), device="ptxsim")
    with pytest.raises(jn.UserError, match="unknown device 'tpu'"):
        jn.compile(graph(), device="tpu")


def test_policies_and_rule_sets_hold_in_every_part() -> None:
    g = jn.Graph("g", [jn.TensorType(jn.int32, ("n",), name="x")], semantics="torch", policy="strict")
    kept = jn.gather(g.inputs[0], jn.nonzero(g.inputs[0])[0])
    g.output(kept // 2)
    assert jn.compile(g, device="cpu", cache=False)(np.array([-3, 0, 5], np.int32)).tolist() == [-2, 2]


def test_what_is_cheap_is_computed_again_and_not_carried_from_part_to_part() -> None:
    """Positions and ones are as long as x; of the first part only the largest element is taken, or what is dear."""
    g = jn.Graph("g", [jn.TensorType(jn.int64, (1000,), "x")])
    g.output(jn.bincount(g.inputs[0], minlength=5))
    counted = jn.compile(g, device="cpu", cache=False)
    assert all(np.prod(spec.shape, dtype=int) < 1000 for part in counted.parts[:-1] for spec in part.outputs)
    x = np.random.default_rng(3).integers(0, 40, 1000)
    np.testing.assert_array_equal(counted(x), np.bincount(x, minlength=5))

    g = jn.Graph("g", [jn.TensorType(jn.float32, (1000,), "x")])
    dear = jn.exp(jn.tanh(g.inputs[0]))
    found = jn.nonzero(dear > 1.0)[0]
    g.output(jn.gather(dear, found), dear)
    chosen = jn.compile(g, device="cpu", cache=False)
    y = np.linspace(-2, 2, 1000, dtype=np.float32)
    expected = np.exp(np.tanh(y))
    picked, whole = chosen(y)
    np.testing.assert_allclose(whole, expected, rtol=1e-5)
    np.testing.assert_array_equal(picked, whole[whole > 1])
    assert sum(["exp" in kernel.fused for kernel in chosen.kernels]) == 1
