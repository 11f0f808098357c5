"""einsum against NumPy, and which ops it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ...support.tiers import examples

SIZES = {"a": 2, "b": 3, "c": 4, "d": 1, "e": 2}

EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ji,jk", [(4, 3), (4, 5)]), ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("iii->i", [(3, 3, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("i,j->ij", [(3,), (4,)]), ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]), ("iij,j->i", [(3, 3, 4), (4,)]), ("ij,ij->", [(3, 4), (3, 4)]),
    ("ij,kj->k", [(3, 4), (5, 4)]), ("...,...->...", [(2, 3), (3,)]), ("ijij->ij", [(2, 3, 2, 3)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("a...,a...->...", [(3, 2), (3, 1)]), ("...i->...", [(2, 3, 4)]),
    ("i...j->j...i", [(2, 5, 3)]), ("ij,ik,il->jkl", [(3, 2), (3, 4), (3, 2)]), (" i j , j k -> i k ", [(2, 2), (2, 2)]),
    ("i,i,i->", [(3,), (3,), (3,)]), (",ij->ij", [(), (2, 3)]), ("ij,j->i", [(2, 3), (1,)]),
]  # fmt: skip


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_is_numpys(run: Callable[..., Any], equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [np.random.default_rng(position).normal(size=shape) for position, shape in enumerate(shapes)]
    result, expected = run(lambda *x: jn.einsum(equation, *x), *arrays), np.einsum(equation, *arrays)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=examples(120))
@given(st.lists(st.text("abcde", min_size=0, max_size=3), min_size=1, max_size=3), st.data())
def test_random_equations_are_numpys(terms: list[str], data: st.DataObject) -> None:
    labels = sorted({label for term in terms for label in term})
    output = "".join(data.draw(st.permutations(labels)))[: data.draw(st.integers(0, len(labels)))]
    equation = f"{','.join(terms)}->{output}"
    arrays = [
        np.random.default_rng(p).integers(-4, 5, [SIZES[label] for label in term])
        for p, term in enumerate(terms)
    ]
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, array.shape) for array in arrays])
    graph.output(jn.einsum(equation, *graph.inputs))
    np.testing.assert_array_equal(jn.evaluate(graph, *arrays), np.einsum(equation, *arrays))


def ops_of(equation: str, *shapes: tuple[Any, ...]) -> list[str]:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape) for shape in shapes])
    before = len(graph.symbols)
    jn.einsum(equation, *graph.inputs)
    return [symbol.op.name for symbol in graph.symbols[before:]]


def test_contractions_are_one_matmul_without_needless_views() -> None:
    assert ops_of("ij,jk->ik", (2, 3), (3, 4)) == ["matmul"]
    assert ops_of("bij,bjk->bik", ("b", 2, 3), ("b", 3, 4)) == ["matmul"]
    assert ops_of("bqd,bkd->bqk", ("b", 2, 3), ("b", 4, 3)) == ["permute", "matmul"]
    assert ops_of("ij->ji", (2, 3)) == ["permute"]
    assert ops_of("ij,ij->ij", (2, 3), (2, 3)) == ["mul"]
    assert "matmul" not in ops_of("i,j->ij", (2,), (3,))
    assert ops_of("ij->i", (2, 3)) == ["reduce_sum"]


def test_the_smallest_product_comes_first() -> None:
    graph = jn.Graph(
        "g", inputs=[jn.TensorType(jn.float32, shape) for shape in ((100, 2), (2, 100), (100, 1))]
    )
    jn.einsum("ab,bc,cd->ad", *graph.inputs)
    products = [symbol.shape for symbol in graph.symbols if symbol.op.name == "matmul"]
    assert products == [(2, 1), (100, 1)]


def test_symbolic_sizes() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", ("n", "n")), jn.TensorType("float32", ("n", 3))])
    x, y = graph.inputs
    graph.output(jn.einsum("ii->i", x), jn.einsum("ij,ik->jk", y, y), jn.einsum("ij,jk", x, y))
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones((4, 3), np.float32)
    diagonal, gram, product = jn.evaluate(graph, a, b)
    np.testing.assert_array_equal(diagonal, np.diag(a))
    np.testing.assert_array_equal(gram, b.T @ b)
    np.testing.assert_array_equal(product, a @ b)
    assert graph.checks == ()


def test_dtypes(run: Callable[..., Any]) -> None:
    small = np.full((2, 200), 100, np.int8)
    result = run(lambda x: jn.einsum("ij,kj->ik", x, x), small)
    assert result.dtype == np.int32
    assert (result == 2_000_000).all()
    half = np.ones((2, 4096), np.float16)
    assert run(lambda x: jn.einsum("ij->i", x), half).tolist() == [4096, 4096]
    assert run(lambda x: jn.einsum("ij->i", x), half).dtype == np.float16


@pytest.mark.parametrize(
    ("equation", "problem"),
    [
        ("ij,jk,kl->il", "describes 3 operands, 2 are given"),
        ("ij,j$->i", "malformed"),
        ("ij,jk->ii", "a label is repeated in the result"),
        ("ij,jk->iz", "the label 'z' of the result is in no operand"),
        ("ijk,jk->i", "labels 3 axes, the operand has 2"),
        ("ij,ik->jk", "label 'i' is 2 and 3"),
        ("ii,jk->ik", "a repeated label: 2 and 3 differ(.|\n)*expected: axes of one size"),
        ("...ij,jk->ik", ""),
        ("...abc,jk->k", "labels more than the 2 axes"),
        ("ij,...->ij", "the result drops the axes of '...'"),
    ],
)
def test_mistakes_are_named(equation: str, problem: str) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (2, 3)), jn.TensorType(jn.float32, (3, 4))])
    if not problem:
        assert jn.einsum(equation, *graph.inputs).shape == (2, 4)
        return
    with pytest.raises(
        jn.UserError, match=f"einsum(.|\n)*{problem.replace('$', '.').replace('...', '[.]{3}')}"
    ):
        jn.einsum(equation, *graph.inputs)


def test_more_letters_than_axes_say_how_many_are_expected() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (), "x")])
    with pytest.raises(jn.UserError, match=r"labels more than the 0 axes(.|\n)*expected: an axis for each letter"):
        jn.einsum("...ii->...i", *graph.inputs)


@pytest.mark.parametrize("equation", ["ijk,i->jk", "ijkl,ij->kl", "ijk,il->jkl", "ijk,jk->i", "i,ijk->jk", "bijk,bi->bjk"])
def test_operands_are_multiplied_as_they_lie(equation: str) -> None:
    terms = equation.split("->")[0].split(",")
    sizes = dict(zip("bijkl", (3, 40, 50, 60, 7), strict=True))
    arrays = [np.random.default_rng(1).standard_normal([sizes[label] for label in term]) for term in terms]
    graph = jn.Graph("g", [jn.TensorType("float64", array.shape, f"x{n}") for n, array in enumerate(arrays)])
    graph.output(jn.einsum(equation, *graph.inputs))
    model = jn.compile(graph, device="cpu")
    np.testing.assert_allclose(model(*arrays), np.einsum(equation, *arrays), rtol=1e-10, atol=1e-10)
    assert not any(kernel.name.startswith("map") for kernel in model.kernels)  # none copies
