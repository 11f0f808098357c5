"""Programs that are planned for many threads: there are more of them, and results have the same bits as those of few."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.choices.options import planned_threads
from joinery.runtime.storage import artifact_file

rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


W, FILTERS, POINTWISE = floats(256, 192), floats(3, 3, 64, 64), floats(192, 48)
Q = floats(2, 50, 64)


def heads(x: jn.Symbol) -> jn.Symbol:
    q = jn.permute(jn.reshape(x, (2, 50, 4, 16)), (0, 2, 1, 3))
    return jn.attention(q, q * 2, q - 1)


CASES = {
    "linear": (lambda x: jn.gelu(x @ x.graph.constant(W)), (250, 256)),
    "linear of 49 rows": (lambda x: jn.relu(x @ x.graph.constant(W) + 1), (49, 256)),
    "linear of few rows": (lambda x: x @ x.graph.constant(W), (5, 256)),
    "linear of one row": (lambda x: x @ x.graph.constant(W), (1, 256)),
    "two layers": (lambda x: jn.relu(x @ x.graph.constant(W)) @ x.graph.constant(POINTWISE), (300, 256)),
    "computed operands": (lambda x: (x @ jn.transpose(x, 0, 1)) @ jn.exp(x * 0.1), (150, 256)),
    "convolution": (lambda x: jn.conv2d(x, x.graph.constant(FILTERS), padding=1), (1, 14, 14, 64)),
    "convolution with steps": (lambda x: jn.relu(jn.conv2d(x, x.graph.constant(FILTERS), stride=2)), (2, 15, 15, 64)),
    "attention": (heads, (2, 50, 64)),
    "softmax": (lambda x: jn.softmax(x * 3), (40, 1000)),
    "layer norm": (lambda x: jn.layer_norm(x), (300, 513)),
    "layer norm of few rows": (lambda x: jn.layer_norm(x), (17, 384)),
    "layer norm of 49 rows": (lambda x: jn.layer_norm(x), (49, 384)),
    "layer norm of short rows": (lambda x: jn.layer_norm(x), (100, 128)),
    "deviation in float64": (lambda x: jn.stdev(jn.cast(x, jn.float64), axis=1), (77, 384)),
    "scan of rows": (lambda x: jn.cumsum(x, axis=1), (77, 384)),
    "means of gathered rows": (
        lambda x: jn.mean(jn.gather(x, jn.cast(jn.abs(x[:20]) * 9, jn.int64), axis=0), axis=1), (60, 192),
    ),
    "sums of columns": (lambda x: jn.sum(x, axis=0), (3000, 700)),
    "deviation of columns": (lambda x: jn.stdev(x, axis=0), (300, 700)),
    "sum of all": (lambda x: jn.sum(x), (3000, 70)),
    "scan of columns": (lambda x: jn.cumsum(x, axis=0), (300, 700)),
    "transposed": (lambda x: jn.transpose(x, 0, 1) + 1, (700, 900)),
    "scatter": (
        lambda x: jn.scatter_add(x * 0, x, jn.cast(jn.abs(x) * 50, jn.int64) % 200, axis=0), (200, 300),
    ),
    "integers": (lambda x: jn.cast(x * 20, jn.int8) @ x.graph.constant((W * 20).astype(np.int8)), (70, 256)),
    "bfloat16": (lambda x: jn.cast(x, jn.bfloat16) @ jn.cast(x.graph.constant(W), jn.bfloat16), (70, 256)),
    "float64": (lambda x: jn.cast(x, jn.float64) @ x.graph.constant(W.astype(np.float64)), (70, 256)),
}  # fmt: skip


def made(name: str, threads: int, numerics: str, symbolic: bool) -> jn.Model:
    build, shape = CASES[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", *shape[1:]) if symbolic else shape, "x")])
    graph.output(build(graph.inputs[0]), name="y")
    return jn.compile(graph, device="cpu", threads=threads, numerics=numerics)


@pytest.mark.one_in(108)
@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
@pytest.mark.parametrize("name", CASES)
def test_results_have_the_same_bits(name: str, numerics: str) -> None:
    x = floats(*CASES[name][1])
    with jn.limit_threads(2):
        expected = made(name, 2, numerics, False)(x)
        for threads in (8, 64):
            np.testing.assert_array_equal(made(name, threads, numerics, False)(x), expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["linear", "convolution with steps", "softmax", "sums of columns"])
def test_sizes_that_are_known_at_the_call(name: str) -> None:
    x = floats(*CASES[name][1])
    with jn.limit_threads(2):
        expected = made(name, 2, "strict", True)(x)
        np.testing.assert_array_equal(made(name, 64, "strict", True)(x), expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["linear", "two layers", "convolution", "attention"])
def test_many_threads_get_more_programs(name: str) -> None:
    few, many = ([kernel.grid for kernel in made(name, threads, "strict", False).kernels] for threads in (2, 64))
    assert all(isinstance(a, int) and isinstance(b, int) and a <= b for a, b in zip(few, many, strict=True))
    assert sum(many) > sum(few)  # type: ignore[arg-type]


def test_up_to_four_threads_share_their_code(tmp_path: Path) -> None:
    assert [planned_threads(n) for n in (1, 2, 4, 5, 7, 8, 15, 16, 31, 63, 64, 65, 1024)] == [
        2, 2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 64, 64,
    ]  # fmt: skip
    models = [made("linear", threads, "strict", False) for threads in (1, 4, 64)]
    assert models[0].compiled.object_code == models[1].compiled.object_code != models[2].compiled.object_code
    assert models[0].digest == models[1].digest != models[2].digest


def test_a_file_says_what_its_code_was_planned_for(tmp_path: Path) -> None:
    model = made("linear", 64, "strict", False)
    path = tmp_path / "m.joinery"
    model.save(path)
    assert artifact_file.load(path).manifest.metadata["cpu_threads"] == "64"
    opened = jn.load(path, device="cpu", threads=1, trusted=True)
    assert opened.compiled.object_code == model.compiled.object_code
    assert str(opened.schedule) == str(model.schedule)
    few = jn.load(path, device="cpu", threads=1)
    assert str(few.schedule) == str(made("linear", 1, "strict", False).schedule) != str(model.schedule)
    few.save(tmp_path / "few.joinery")
    assert "cpu_threads" not in artifact_file.load(tmp_path / "few.joinery").manifest.metadata
    opened.save(tmp_path / "again.joinery")
    assert (tmp_path / "again.joinery").read_bytes() == path.read_bytes()
    jn.load(path, device="cpu", threads=1, trusted=True, budget=jn.Budget()).save(tmp_path / "anew.joinery")
    anew = artifact_file.load(tmp_path / "anew.joinery", trusted=True)
    assert "cpu_threads" not in anew.manifest.metadata
    assert anew.compiled is not None
    assert anew.compiled.object_code == made("linear", 1, "strict", False).compiled.object_code
    model.save(tmp_path / "both.joinery", targets=("cpu", "sm_80"))
    both = artifact_file.load(tmp_path / "both.joinery", trusted=True)
    assert both.manifest.metadata["cpu_threads"] == "64"
    assert both.compiled is not None
    assert both.compiled.object_code == model.compiled.object_code


@pytest.mark.parametrize("written", ["", "0", "-1", "x", "1025", "99999999999", "²"])
def test_a_number_of_threads_that_is_none_is_refused(tmp_path: Path, written: str) -> None:
    model = made("linear", 2, "strict", False)
    codes, text, arrays, metadata = model._archive()
    path = tmp_path / "m.joinery"
    artifact_file.save(path, "g", text, codes, arrays, {**metadata, "cpu_threads": written})
    with pytest.raises(jn.UserError, match="cpu_threads"):
        jn.load(path, device="cpu")
