"""Functions of bytes that are looked up: which are, and that results have the bits of the operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering import pipeline
from joinery.lowering.llvm.compile import host_target

Make = Callable[[jn.Symbol], jn.Symbol]
HAS_TABLES = dict(host_target().tables)[2] > 0
needs_tables = pytest.mark.skipif(not HAS_TABLES, reason="needs AVX-512")


def gamma(x: jn.Symbol) -> jn.Symbol:
    return jn.cast(jn.sqrt(jn.cast(x, jn.float32) / 255) * 255, jn.uint8)


FUNCTIONS: dict[str, Make] = {
    "gamma": gamma,
    "contrast": lambda x: jn.cast(jn.clip((jn.cast(x, jn.float32) - 128) * 1.3 + 140, 0, 255), jn.uint8),
    "codes": lambda x: jn.cast(jn.round(jn.tanh((jn.cast(x, jn.float32) - 128) / 32) * 127), jn.int8),
    "of float64": lambda x: jn.cast(jn.exp(jn.cast(x, jn.float64) / 50), jn.uint8),
    "of float16": lambda x: jn.cast(jn.cast(x, jn.float16) * 0.5 + jn.sqrt(jn.cast(x, jn.float16)), jn.uint8),
    "chosen": lambda x: jn.where(jn.cast(x, jn.float32) * 0.7 > 50.0, gamma(x), x),
    "beyond": lambda x: jn.cast(jn.log(jn.cast(x, jn.float32)) * 100 - 50, jn.uint8),
    "read twice": lambda x: (lambda y: jn.cast(y * y - y * 3, jn.uint8))(jn.cast(x, jn.float32) / 7),
}
READERS: dict[str, Make] = {
    "as floats": lambda x: jn.cast(gamma(x), jn.float32) / 255,
    "permuted": lambda x: jn.permute(gamma(x), (1, 0)),
    "summed": lambda x: jn.sum(jn.cast(gamma(x), jn.int32), axis=0),
    "beside others": lambda x: jn.stack([gamma(x), x], axis=0),
    "of reversed ones": lambda x: gamma(jn.flip(x, 1)),
    "of a part": lambda x: gamma(x[3:, ::2]),
    "of a border": lambda x: gamma(jn.pad(x, 2)),
    "of picked ones": lambda x: gamma(jn.gather(x, np.arange(199, 0, -1))),
}
COMPUTED: dict[str, Make] = {
    "of integers": lambda x: jn.cast(jn.clip(jn.cast(x, jn.int32) * 300 // 256 - 5, 0, 255), jn.uint8),
    "of two arrays": lambda x: jn.cast(jn.cast(x, jn.float32) * 0.5 + jn.sqrt(jn.cast(jn.flip(x, 1), jn.float32)), jn.uint8),
    "to floats": lambda x: jn.sqrt(jn.cast(x, jn.float32) / 255),
    "of sums": lambda x: gamma(jn.cast(jn.sum(jn.cast(x, jn.int32), axis=0, keepdims=True) + jn.cast(x, jn.int32), jn.uint8)),
    "of few": lambda x: gamma(x[:4]),
    "whose floats are results": lambda x: jn.cast(jn.sqrt(jn.cast(x, jn.float32)) * 3, jn.uint8),
}


def made(make: Make, dtype: str, shape: tuple[int | str, ...], target: str | None = None) -> jn.Model:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    graph.output(make(graph.inputs[0]))
    return jn.compile(graph, device="cpu", target=target, cache=False)


def drawn(dtype: str) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (200, 300)).astype(np.uint8).view(dtype)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., jn.Model]:
    """Compiles a graph without tables."""

    def compiled(*given: object) -> jn.Model:
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "with_byte_tables", lambda graph, tables: graph)
            return made(*given)  # type: ignore[arg-type]

    return compiled


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in FUNCTIONS | READERS for dtype in ("uint8", "int8") if (name, dtype) != ("chosen", "int8")],
)
def test_bits(name: str, dtype: str, target: str | None, computed: Callable[..., jn.Model]) -> None:
    make, x = (FUNCTIONS | READERS)[name], drawn(dtype)
    for shape in (x.shape, ("m", "n")):
        expected = computed(make, dtype, shape, target)(x)
        np.testing.assert_array_equal(made(make, dtype, shape, target)(x), expected)


@needs_tables
@pytest.mark.parametrize("name", FUNCTIONS | READERS)
def test_they_are_looked_up(name: str, computed: Callable[..., jn.Model]) -> None:
    """By one kernel more, that computes the table."""
    make = (FUNCTIONS | READERS)[name]
    before, now = computed(make, "uint8", (200, 300)), made(make, "uint8", (200, 300))
    assert len(now.kernels) == len(before.kernels) + 1


@pytest.mark.parametrize("name", COMPUTED)
def test_others_are_computed(name: str, computed: Callable[..., jn.Model]) -> None:
    make, x = COMPUTED[name], drawn("uint8")
    if name == "whose floats are results":
        graph = jn.Graph("g", [jn.TensorType(jn.uint8, x.shape, "x")])
        floats = jn.sqrt(jn.cast(graph.inputs[0], jn.float32)) * 3
        graph.output(jn.cast(floats, jn.uint8), floats)
        assert len(jn.compile(graph, device="cpu").kernels) == 1
        return
    before, now = computed(make, "uint8", x.shape), made(make, "uint8", x.shape)
    assert len(now.kernels) == len(before.kernels)
    np.testing.assert_array_equal(now(x), before(x))


def test_with_numbers_that_calls_give() -> None:
    """A table is computed in each call."""
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, ("m", "n"), "x"), jn.TensorType(jn.float32, (1, 1), "power")])
    x, power = graph.inputs
    graph.output(jn.cast(jn.pow(jn.cast(x, jn.float32) / 255, power) * 255 + 0.5, jn.uint8))
    model = jn.compile(graph, device="cpu")
    for shape in ((200, 300), (1, 1), (0, 7), (3, 5)):
        image = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
        for exponent in (0.5, 2.2):
            given = np.full((1, 1), exponent, np.float32)
            expected = (image.astype(np.float64) / 255) ** np.float64(given) * 255 + 0.5
            is_apart = np.abs(expected - np.round(expected)) > 1e-3  # of what is rounded to another byte
            np.testing.assert_array_equal(model(image, given)[is_apart], expected.astype(np.uint8)[is_apart])


def test_saved_and_loaded(tmp_path: Path) -> None:
    model, x = made(FUNCTIONS["codes"], "int8", (200, 300)), drawn("int8")
    model.save(tmp_path / "m.joinery")
    np.testing.assert_array_equal(jn.load(tmp_path / "m.joinery", "cpu", trusted=True)(x), model(x))
