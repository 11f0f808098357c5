"""The option `numerics` of graphs: fast results on the host and on simulated GPUs, and where the option is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.lowering.keys import compile_key
from joinery.lowering.llvm.compile import host_target
from joinery.runtime.storage import artifact_file

Array = np.ndarray[Any, Any]
DEVICES = [("cpu", None), ("ptxsim", "sm_80"), ("ptxsim", "sm_90a")]
RNG = np.random.default_rng(21)


def graph(build: Any, *shapes: tuple[int, ...], dtype: jn.DType = jn.float32) -> jn.Graph:
    g = jn.Graph("g", [jn.TensorType(dtype, shape, name=f"x{i}") for i, shape in enumerate(shapes)])
    g.output(build(*g.inputs))
    return g


def run(g: jn.Graph, device: tuple[str, str | None], *arrays: Array, numerics: str = "fast") -> Array:
    result: Array = jn.compile(g, device[0], target=device[1], numerics=numerics, cache=False)(*arrays)
    return result


def softmax_of(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64))
        return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("device", DEVICES)
def test_softmax(device: tuple[str, str | None]) -> None:
    x = (RNG.standard_normal((5, 300)) * 20).astype(np.float32)
    x[1, 40:] = -np.inf
    x[2] = -3.5
    x[3] = x[3] * 1e8
    x[4] = -np.inf
    y = run(graph(lambda v: jn.softmax(v, axis=-1), x.shape), device, x)
    np.testing.assert_allclose(y, softmax_of(x), rtol=2e-5, atol=2.0**-126)
    assert (y[1, 40:] == 0).all()
    assert len(set(y[2])) == 1
    np.testing.assert_allclose(y[:4].astype(np.float64).sum(1), 1, rtol=1e-5)
    assert np.isnan(y[4]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_layer_norm_and_gelu(device: tuple[str, str | None]) -> None:
    x = RNG.standard_normal((7, 200)).astype(np.float32)

    def build(v: Any) -> Any:
        centred = v - jn.mean(v, axis=-1, keepdims=True)
        return jn.gelu(centred * jn.rsqrt(jn.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * 2.0 + 1.0)

    exact = jn.evaluate(graph(build, x.shape, dtype=jn.float64), x.astype(np.float64))
    np.testing.assert_allclose(run(graph(build, x.shape), device, x), exact, rtol=1e-4, atol=3e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("device", DEVICES)
def test_attention(device: tuple[str, str | None]) -> None:
    q, k, v = (RNG.standard_normal((2, 64, 32)).astype(np.float32) for _ in range(3))

    def build(q: Any, k: Any, v: Any) -> Any:
        return jn.softmax((q @ k.transpose(1, 2)) * 0.25, axis=-1) @ v

    wide = [each.astype(np.float64) for each in (q, k, v)]
    exact = softmax_of(wide[0] @ wide[1].transpose(0, 2, 1) * 0.25) @ wide[2]
    np.testing.assert_allclose(run(graph(build, q.shape, k.shape, v.shape), device, q, k, v), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1234.5678, 3.3e30])
def test_exp_of_a_difference_from_the_maximum_is_1_there(device: tuple[str, str | None], scale: float) -> None:
    """Also where the product is computed twice, once for the maximum and once for the difference."""
    x = RNG.uniform(-1e7, 1e7, (4, 500)).astype(np.float32)

    def build(v: Any) -> Any:
        scaled = v * scale + 17.0
        return jn.max(jn.exp(scaled - jn.max(scaled, axis=-1, keepdims=True)), axis=-1)

    np.testing.assert_array_equal(run(graph(build, x.shape), device, x), np.ones(4, np.float32))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("device", DEVICES)
def test_special_values_are_those_of_strict_numerics(device: tuple[str, str | None]) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38, 1.5, -2.0], np.float32)
    x, y = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(special, special))
    for build in (
        lambda a, b: a / b, lambda a, b: jn.maximum(a, b), lambda a, b: jn.minimum(a, b), lambda a, b: jn.exp(a) + b * 0.0,
        lambda a, b: a * b + 1.0, lambda a, b: jn.sqrt(a) * b, lambda a, b: jn.rsqrt(a) - b, lambda a, b: jn.log(a) - b,
    ):  # fmt: skip
        g = graph(build, x.shape, y.shape)
        fast, strict = run(g, device, x, y), run(g, device, x, y, numerics="strict")
        np.testing.assert_array_equal(np.isnan(fast), np.isnan(strict))
        np.testing.assert_array_equal(np.isinf(fast), np.isinf(strict))
        there = ~np.isnan(strict)
        np.testing.assert_array_equal(np.signbit(fast[there]), np.signbit(strict[there]))
        usual = there & np.isfinite(strict)
        np.testing.assert_allclose(fast[usual], strict[usual], rtol=1e-6, atol=2e-38)


def example() -> jn.Graph:
    return graph(lambda v: jn.softmax(v * 1.7 + 1.0, axis=-1) * v + (v * v - v), (4, 100))


def test_what_the_kernels_are() -> None:
    strict, fast = (jn.compile(example(), "cpu", numerics=each, cache=False) for each in ("strict", "fast"))
    assert (strict.numerics, fast.numerics) == ("strict", "fast")
    for kernel in strict.kernels:
        assert "fastmath" not in kernel.ttir
        assert not any(f" {flag} " in kernel.llvm_ir for flag in ("contract", "afn", "arcp", "fast"))
    assert any("math.fma" in kernel.ttir for kernel in fast.kernels)
    assert any("fastmath<arcp,contract,afn>" in kernel.ttir for kernel in fast.kernels)


def test_texts_of_kernels_can_be_read_again() -> None:
    for numerics in ("strict", "fast"):
        for kernel in jn.compile(example(), "cpu", numerics=numerics, cache=False).kernels:
            assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir


def test_keys_and_caches_tell_them_apart(tmp_path: Path) -> None:
    g = example()
    assert compile_key(g, host_target()) == compile_key(g, host_target(), "strict") != compile_key(g, host_target(), "fast")
    x = RNG.standard_normal((4, 100)).astype(np.float32)
    strict = jn.compile(g, "cpu", cache=tmp_path)(x)
    fast = jn.compile(g, "cpu", numerics="fast", cache=tmp_path)(x)
    assert (strict != fast).any()
    for numerics, expected in (("strict", strict), ("fast", fast)):
        m = jn.compile(example(), "cpu", numerics=numerics, cache=tmp_path)
        assert m.numerics == numerics
        np.testing.assert_array_equal(m(x), expected)


def test_kernels_that_share_a_cache(tmp_path: Path) -> None:
    pointers = "tensor<64x!tt.ptr<f32>>"
    text = f"""
tt.func @f(%p: !tt.ptr<f32>) {{
  %r = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32>
  %s = tt.splat %p : !tt.ptr<f32> -> {pointers}
  %a = tt.addptr %s, %r : {pointers}, tensor<64xi32>
  %x = tt.load %a : {pointers}
  %m = arith.mulf %x, %x : tensor<64xf32>
  %y = arith.subf %m, %x : tensor<64xf32>
  tt.store %a, %y : {pointers}
  tt.return
}}
"""
    x = RNG.standard_normal(64).astype(np.float32)
    for numerics in ("strict", "fast", "strict"):
        k = jn.kernel.from_ttir(text, numerics=numerics, cache=tmp_path)
        assert k.numerics == numerics
        y = x.copy()
        k.launch((1,), y)
        wide = x.astype(np.float64)
        expected = (wide * wide - wide).astype(np.float32) if numerics == "fast" else x * x - x
        np.testing.assert_array_equal(y, expected)
        k.interpret((1,), z := x.copy())
        np.testing.assert_array_equal(z, x * x - x)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("numerics", ["strict", "fast"])
@pytest.mark.parametrize("trusted", [True, False])
def test_saved_models_keep_it(numerics: str, trusted: bool, tmp_path: Path) -> None:
    x = RNG.standard_normal((4, 100)).astype(np.float32)
    m = jn.compile(example(), "cpu", numerics=numerics, cache=False)
    m.save(tmp_path / "first.joinery")
    again = jn.load(tmp_path / "first.joinery", "cpu", trusted=trusted, cache=False)
    assert again.numerics == numerics
    np.testing.assert_array_equal(again(x), m(x))
    again.save(tmp_path / "second.joinery")
    assert jn.load(tmp_path / "second.joinery", "cpu", cache=False).numerics == numerics
    on_gpu = jn.load(tmp_path / "first.joinery", "ptxsim", cache=False)
    assert any("rcp.rn.f32" in kernel.ptx for kernel in on_gpu.kernels) is (numerics == "strict")  # of the sum of weights


@pytest.mark.parametrize("numerics", ["Fast", "", None, True, 1, ["fast"], "ieee"])
def test_other_values_are_refused(numerics: Any) -> None:
    with pytest.raises(jn.UserError, match=r"compile: numerics .*; expected one of 'strict', 'fast', 'reproducible'; fix:"):
        jn.compile(example(), "cpu", numerics=numerics, cache=False)
    with pytest.raises(jn.UserError, match=r"from_ttir: numerics .*; expected one of 'strict', 'fast', 'reproducible'"):
        jn.kernel.from_ttir("module {}", numerics=numerics)


def test_a_file_that_asks_for_something_else(tmp_path: Path) -> None:
    m = jn.compile(example(), "cpu", cache=False)
    m.save(tmp_path / "good.joinery")
    opened = artifact_file.load(tmp_path / "good.joinery", trusted=True)
    assert opened.compiled is not None
    assert opened.manifest.metadata == {"numerics": "strict"}
    artifact_file.save(tmp_path / "bad.joinery", "g", opened.graph_text, [opened.compiled], [], {"numerics": "wild"})
    with pytest.raises(jn.UserError, match=r"bad\.joinery: numerics 'wild'; expected"):
        jn.load(tmp_path / "bad.joinery", "cpu", cache=False)
    artifact_file.save(tmp_path / "old.joinery", "g", opened.graph_text, [opened.compiled], [], {})
    assert jn.load(tmp_path / "old.joinery", "cpu", cache=False).numerics == "strict"


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "k.ttir"
    text.write_text(
        "tt.func @f(%p: !tt.ptr<f32>, %a: f32) {\n  %m = arith.mulf %a, %a : f32\n  %y = arith.addf %m, %a : f32\n"
        "  tt.store %p, %y : !tt.ptr<f32>\n  tt.return\n}\n"
    )
    for options, wanted in (([], False), (["--numerics", "fast"], True), (["--numerics", "strict"], False)):
        assert main(["compile", str(text), "--emit", "ptx", *options]) == 0
        assert ("fma.rn.f32" in capsys.readouterr().out) is wanted
    assert main(["compile", str(text), "--emit", "ttir", "--after", "contract", "--numerics", "fast"]) == 0
    assert "math.fma" in capsys.readouterr().out
    a = np.float32(1 + 2.0**-12)
    for options, expected in (([], a * a + a), (["--numerics", "fast"], np.float32(np.float64(a) * a + a))):
        out = tmp_path / "o.npy"
        arguments = ["--grid", "1", "zeros:float32:1", repr(float(a)), "--output", f"p={out}"]
        assert main(["run", str(text), *options, *arguments]) == 0
        assert np.load(out)[0] == expected
    with pytest.raises(SystemExit) as left:
        main(["compile", str(text), "--numerics", "quick"])
    assert left.value.code == 2
    assert main(["run", str(tmp_path / "m.joinery"), "--numerics", "fast"]) == 2
    assert "--numerics is for kernels" in capsys.readouterr().err


def test_the_file_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jn.compile(example(), "cpu", numerics="fast", cache=False).save(tmp_path / "m.joinery")
    assert main(["inspect", str(tmp_path / "m.joinery")]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[lines.index("numerics") + 1].strip() == "fast"
    content = (tmp_path / "m.joinery").read_bytes()
    length = int.from_bytes(content[16:24], "little")
    assert json.loads(content[56 : 56 + length])["metadata"] == {"numerics": "fast"}
