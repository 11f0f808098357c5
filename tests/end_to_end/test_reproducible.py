"""`numerics="reproducible"`: graphs and kernels give the same bits on hosts of any vector width, with any number of threads,
and on simulated GPUs of several targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface import kernel
from joinery.interface.opening import devices
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.target import HostTarget

from ..support.tiers import both_tiers, each, share

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(77)
AVX2_FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt", "sse4.1", "sse4.2")


@pytest.fixture
def narrow_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Called, makes the host one with half the vector width from then on; whether this machine can be that."""

    def change() -> bool:
        own = host_target()
        if not own.has("avx2", "fma") or own.vector_bytes <= 32:
            return False
        narrow = HostTarget(own.triple, "haswell", frozenset(AVX2_FEATURES), 32)
        for module in (devices, kernel):
            monkeypatch.setattr(module, "host_target", lambda: narrow)
        return True

    return change


def bits(results: Any) -> list[tuple[tuple[int, ...], bytes]]:
    """Shapes and bytes, with one NaN."""
    found = []
    for result in results if isinstance(results, tuple) else (results,):
        result = np.asarray(result)
        kept = np.where(np.isnan(result), np.full_like(result, np.nan), result) if result.dtype.kind == "f" else result
        found.append((result.shape, kept.astype(result.dtype).tobytes()))
    return found


def graph(build: Any, arrays: tuple[Array, ...], symbolic: bool) -> jn.Graph:
    inputs = [
        jn.TensorType(str(each.dtype), tuple(f"d{n}" for n in each.shape) if symbolic else each.shape, name=f"x{i}")
        for i, each in enumerate(arrays)
    ]
    g = jn.Graph("g", inputs)
    g.output(build(*g.inputs))
    return g


def normal(*shape: int, dtype: Any = np.float32, scale: float = 3.0) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def wild(*shape: int) -> Array:
    """Of many magnitudes, so that every order of a sum shows."""
    return (RNG.standard_normal(shape) * np.exp(RNG.standard_normal(shape) * 6)).astype(np.float32)


def attention(q: Any, k: Any, v: Any) -> Any:
    return jn.softmax((q @ jn.permute(k, (0, 2, 1))) * 0.25, axis=-1) @ v


CASES: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "sum": (lambda x: jn.sum(x, axis=1), (wild(3, 300),)),
    "sum of columns": (lambda x: jn.sum(x, axis=0), (wild(70, 9),)),
    "sum of all": (lambda x: jn.sum(x), (wild(5, 67),)),
    "sum of a long row": (lambda x: jn.sum(x, axis=1), (wild(2, 5000),)),
    "prod": (lambda x: jn.prod(x, axis=1), (normal(3, 65, scale=1.0),)),
    "mean of float16": (lambda x: jn.mean(x, axis=1), (normal(4, 129, dtype=np.float16),)),
    "softmax": (lambda x: jn.softmax(x, axis=1), (normal(3, 300),)),
    "softmax of a long row": (lambda x: jn.softmax(x, axis=1), (normal(2, 4500),)),
    "layer_norm": (lambda x: jn.layer_norm(x), (normal(3, 257),)),
    "cumsum": (lambda x: jn.cumsum(x, axis=1), (wild(3, 2100),)),
    "reverse cumsum": (lambda x: jn.cumsum(x, axis=0, reverse=True), (wild(100, 5),)),
    "matmul": (lambda x, y: x @ y, (wild(17, 133), wild(133, 40))),
    "matmul of float16": (lambda x, y: jn.gelu(x @ y), (normal(17, 70, dtype=np.float16), normal(70, 33, dtype=np.float16))),
    "matmul of float64": (lambda x, y: x @ y, (normal(17, 40, dtype=np.float64), normal(40, 20, dtype=np.float64))),
    "matrix and vector": (lambda x, y: x @ y, (wild(33, 133), wild(133))),
    "vector and matrix": (lambda x, y: x @ y, (wild(133), wild(133, 33))),
    "dot": (lambda x, y: x @ y, (wild(500), wild(500))),
    "attention": (attention, (normal(2, 40, 16, scale=1.0), normal(2, 150, 16, scale=1.0), normal(2, 150, 16))),
    "max": (lambda x: jn.max(x, axis=1), (np.where(RNG.random((5, 130)) < 0.5, -0.0, 0.0).astype(np.float32),)),
    "argmax": (lambda x: jn.argmax(x, axis=1), (normal(4, 70).round(),)),
}
DEVICES: tuple[dict[str, Any], ...] = (
    {"device": "cpu", "threads": 1}, {"device": "cpu", "threads": 2}, {"device": "ptxsim", "target": "sm_80"},
    {"device": "ptxsim", "target": "sm_90a"},
)  # fmt: skip


@pytest.mark.one_in(24)
@pytest.mark.parametrize("symbolic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", CASES)
@both_tiers
def test_graphs(name: str, symbolic: bool, in_full: bool, narrow_host: Callable[[], bool]) -> None:
    build, arrays = CASES[name]
    g = graph(build, arrays, symbolic)
    first = bits(jn.compile(g, numerics="reproducible", cache=False, **DEVICES[0])(*arrays))
    for options in share(DEVICES[1:], list(CASES).index(name), 2, in_full):
        assert bits(jn.compile(g, numerics="reproducible", cache=False, **options)(*arrays)) == first, options
    if narrow_host():
        assert bits(jn.compile(g, "cpu", numerics="reproducible", cache=False)(*arrays)) == first


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-42, 3e38, 1e5, -1e6, 88.7, -103.9, 0.9999999, 2.0**-26]
FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "tanh", "sinh", "cosh", "erf",
    "sigmoid", "sqrt", "rsqrt", "gelu", "silu", "softplus",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions(dtype: str) -> None:
    x = np.concatenate([SPECIAL, RNG.standard_normal(200), RNG.standard_normal(200) * 50]).astype(dtype)

    def build(x: Any) -> Any:
        return jn.stack([getattr(jn, name)(x) for name in FUNCTIONS])

    g = graph(build, (x,), False)
    results = [np.asarray(jn.compile(g, numerics="reproducible", cache=False, **options)(x)) for options in DEVICES[1:3]]
    for name, own, other in zip(FUNCTIONS, *results, strict=True):
        assert bits(own) == bits(other), name


def combining(kind: str, operation: str, shape: tuple[int, int], axis: int, reverse: bool) -> tuple[str, int]:
    """A kernel that reduces or scans a block, and how many results it has."""
    out = shape if kind == "scan" else (shape[1 - axis],)
    count, size = shape[0] * shape[1], int(np.prod(out))
    source, target = "x".join(map(str, shape)), "x".join(map(str, out))
    more = f", reverse = {str(reverse).lower()}" if kind == "scan" else ""

    def block(name: str, pointer: str, size: int) -> str:
        return f"""
  %{name}r = tt.make_range {{start = 0 : i32, end = {size} : i32}} : tensor<{size}xi32>
  %{name}s = tt.splat {pointer} : !tt.ptr<f32> -> tensor<{size}x!tt.ptr<f32>>
  %{name} = tt.addptr %{name}s, %{name}r : tensor<{size}x!tt.ptr<f32>>, tensor<{size}xi32>"""

    return f"""tt.func @k(%p: !tt.ptr<f32>, %o: !tt.ptr<f32>) {{{block("a", "%p", count)}
  %v = tt.load %a : tensor<{count}x!tt.ptr<f32>>
  %w = tt.reshape %v : tensor<{count}xf32> -> tensor<{source}xf32>
  %x = "tt.{kind}"(%w) <{{axis = {axis} : i32{more}}}> ({{
   ^bb0(%l: f32, %m: f32):
     %q = {operation} %l, %m : f32
     tt.{kind}.return %q : f32
  }}) : (tensor<{source}xf32>) -> tensor<{target}xf32>
  %f = tt.reshape %x : tensor<{target}xf32> -> tensor<{size}xf32>{block("b", "%o", size)}
  tt.store %b, %f : tensor<{size}x!tt.ptr<f32>>
  tt.return
}}""", size


LAUNCHES: tuple[dict[str, Any], ...] = (
    {"device": "cpu"},
    {"device": "ptxsim", "target": "sm_80", "warps": 1},
    {"device": "ptxsim", "target": "sm_90a", "warps": 4},
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shape"), each(["reduce", "scan"], [(4, 8), (2, 64), (1, 1024), (16, 2), (64, 8)]))
def test_the_interpreter_has_the_order(kind: str, shape: tuple[int, int], narrow_host: Callable[[], bool]) -> None:
    p = wild(shape[0] * shape[1])
    made: list[tuple[str, Array]] = []
    for axis in (0, 1):
        for reverse in (False, True) if kind == "scan" else (False,):
            # a difference is neither associative nor commutative: it shows the order, and sides that were swapped
            for operation in ("arith.addf", "arith.subf"):
                text, size = combining(kind, operation, shape, axis, reverse)
                wanted = np.zeros(size, np.float32)
                k = jn.kernel.from_ttir(text, numerics="reproducible", cache=False)
                k.interpret(1, p, wanted)
                made.append((text, wanted))
                for options in LAUNCHES:
                    got = np.zeros_like(wanted)
                    k.launch(1, p, got, **options)
                    assert got.tobytes() == wanted.tobytes(), (options, text)
    for text, wanted in made if narrow_host() else ():
        got = np.zeros_like(wanted)
        jn.kernel.from_ttir(text, numerics="reproducible", cache=False).launch(1, p, got)
        assert got.tobytes() == wanted.tobytes(), text


def test_strict_orders_differ() -> None:
    """Otherwise the tests above would show nothing."""
    x = wild(3, 2100)
    for build in (lambda x: jn.sum(x, axis=1), lambda x: jn.cumsum(x, axis=1), lambda x: jn.exp(x * 1e-3)):
        g = graph(build, (x,), False)
        results = {str(bits(jn.compile(g, cache=False, **options)(x))) for options in DEVICES[:3:2]}
        assert len(results) > 1


ATOMIC = """tt.func @k(%p: !tt.ptr<f32>, %v: f32) {
  %m = arith.constant true
  %r = tt.atomic_rmw fadd, relaxed, gpu, %p, %v, %m : (!tt.ptr<f32>, f32, i1) -> f32
  tt.return
}"""


def test_atomic_sums_are_refused() -> None:
    k = jn.kernel.from_ttir(ATOMIC, numerics="reproducible", cache=False)
    for device in ("cpu", "ptxsim"):
        with pytest.raises(jn.UnsupportedError, match=r"fadd.*in which they run; fix: store partial sums"):
            k.launch(2, np.zeros(1, np.float32), 1.0, device=device)
    total = np.zeros(1, np.float32)
    jn.kernel.from_ttir(ATOMIC, cache=False).launch(2, total, 1.0)
    assert total == 2


def test_the_option_is_kept(tmp_path: Any) -> None:
    x = wild(3, 300)
    g = graph(lambda x: jn.sum(x, axis=1), (x,), False)
    model = jn.compile(g, "cpu", numerics="reproducible", cache=False)
    model.save(tmp_path / "m.joinery")
    again = jn.load(tmp_path / "m.joinery", "cpu", cache=False)
    assert again.numerics == "reproducible"
    assert bits(again(x)) == bits(model(x))
    assert "joinery.ordered" in model.kernels[0].ttir
