"""Products whose axes are batch, row or column of either operand, in any order, against numpy.einsum.

What an axis is to a product decides how operands are stored and cut into blocks, so every pattern meets extents of 1 and around
the sizes of blocks, second operands that are constants, arguments, and of sizes known at the call only.
"""

from __future__ import annotations

import math
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import both_tiers

PATTERNS = (
    "bhd,hd->bh", "bhd,hd->hb", "bhd,bd->hb", "ij,ij->i", "ij,ij->j", "ij,ij->", "ij,ji->i", "bi,ij,bj->b", "bij,bj->bi",
    "bij,ij->bi", "bij,ij->j", "bij,bij->bi", "bij,bij->j", "ij,j->i", "i,ij->j", "ij,kj->ik", "ji,jk->ki", "bij,bjk->bik",
    "bij,jk->bik", "bij,jk->kbi", "ij,bjk->bik", "bij,kj->bki", "bhi,bhj->ibj", "abc,acd->abd", "abc,acd->dab", "abc,cb->ab",
    "abcd,abed->abce", "abcd,cbed->aceb",
)  # fmt: skip
SIZES = (1, 31, 32, 33, 63, 64, 65)
LARGEST = 1 << 20


def draws(pattern: str, seed: int, count: int) -> list[dict[str, int]]:
    """Extents by letter: from SIZES, small enough to multiply in no time; at least two of more than a panel's half."""
    rng = np.random.default_rng(seed)
    letters = sorted(set(pattern) - set(",->"))
    found: list[dict[str, int]] = []
    while len(found) < count:
        sizes = {letter: int(rng.choice(SIZES if rng.integers(3) else (2, 5, 40))) for letter in letters}
        if np.prod(list(sizes.values())) <= LARGEST and (len(letters) < 2 or sum(n > 32 for n in sizes.values()) >= 1):
            found.append(sizes)
    return found


def shapes(pattern: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    return [tuple([sizes[letter] for letter in operand]) for operand in pattern.split("->")[0].split(",")]


def close(pattern: str, result: np.ndarray, arrays: list[np.ndarray]) -> None:
    """Within n·eps·Σ|products|, the bound of sums of n terms in float32 in any order."""
    operands, kept = pattern.split("->")
    sizes: dict[str, int] = {}
    for letters, array in zip(operands.split(","), arrays, strict=True):
        sizes.update(zip(letters, array.shape, strict=True))
    terms = math.prod(n for letter, n in sizes.items() if letter not in kept)
    wide = [array.astype(np.float64) for array in arrays]
    allowed = (terms + len(arrays)) * 2.0**-24 * np.einsum(pattern, *map(np.abs, wide), optimize=True)
    assert (np.abs(result - np.einsum(pattern, *wide, optimize=True)) <= allowed).all(), pattern


def operands(pattern: str, sizes: dict[str, int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes(pattern, sizes)]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("pattern", PATTERNS)
@both_tiers
def test_constants_arguments_and_sizes_known_at_the_call(pattern: str, in_full: bool) -> None:
    left = pattern.split("->")[0].split(",")
    for number, sizes in enumerate(draws(pattern, PATTERNS.index(pattern), 2 if in_full else 1)):
        arrays = operands(pattern, sizes, number)
        first = sorted(sizes)[number % len(sizes)]
        named: dict[str, Any] = {**sizes, first: "n"}
        static = [jn.TensorType("float32", array.shape) for array in arrays]
        symbolic = [jn.TensorType("float32", tuple([named[letter] for letter in operand])) for operand in left]
        graph = jn.Graph("products", [*static, *symbolic])
        given, open_ones = graph.inputs[: len(arrays)], graph.inputs[len(arrays) :]
        graph.output(
            jn.einsum(pattern, *given),
            jn.einsum(pattern, given[0], *[graph.constant(array) for array in arrays[1:]]),
            jn.einsum(pattern, *open_ones),
        )
        for result in jn.compile(graph, "cpu", cache=False)(*arrays, *arrays):
            close(pattern, result, arrays)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("pattern", ["ij,ij->i", "ij,ij->j", "ij,kj->ik", "ij,j->i", "i,ij->j"])
def test_many_rows(pattern: str) -> None:
    """65,536 elements and more, from which on operands are copied into panels."""
    for sizes in ({"i": 65536, "j": 33, "k": 3}, {"i": 1024, "j": 64, "k": 1}, {"i": 33, "j": 65536, "k": 33}):
        arrays = operands(pattern, sizes, 0)
        graph = jn.Graph("products", [jn.TensorType("float32", array.shape) for array in arrays])
        a, b = graph.inputs
        graph.output(jn.einsum(pattern, a, b), jn.einsum(pattern, a, graph.constant(arrays[1])))
        for result in jn.compile(graph, "cpu", cache=False)(*arrays):
            close(pattern, result, arrays)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pattern", ["bhd,hd->bh", "ij,ij->i", "bi,ij,bj->b", "abc,cb->ab"])
def test_on_gpus(pattern: str) -> None:
    sizes = {**dict.fromkeys("acdhij", 33), "b": 3}
    arrays = operands(pattern, sizes, 0)
    graph = jn.Graph("products", [jn.TensorType("float32", array.shape) for array in arrays])
    graph.output(jn.einsum(pattern, *graph.inputs))
    for target in ("sm_80", "sm_90a"):
        close(pattern, jn.compile(graph, "ptxsim", target=target, cache=False)(*arrays), arrays)


def test_cosine_similarity() -> None:
    graph = jn.Graph("cosine", [jn.TensorType("float32", (4096, 384), name) for name in "ab"])
    a, b = graph.inputs
    lengths = jn.sqrt(jn.einsum("ij,ij->i", a, a)) * jn.sqrt(jn.einsum("ij,ij->i", b, b))
    graph.output(jn.einsum("ij,ij->i", a, b) / lengths)
    x, y = operands("ij,ij->i", {"i": 4096, "j": 384}, 0)
    wide = x.astype(np.float64), y.astype(np.float64)
    expected = (wide[0] * wide[1]).sum(1) / np.linalg.norm(wide[0], axis=1) / np.linalg.norm(wide[1], axis=1)
    np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(x, y), expected, rtol=1e-4, atol=1e-6)
