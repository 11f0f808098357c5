"""Messages for those who come from NumPy, JAX, torch or ONNX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.names.aliases import ALIASES, PLANNED
from joinery.graph.functions.names.exports import EXPORTS


@pytest.fixture
def x() -> Any:
    (symbol,) = jn.Graph("g", inputs=[jn.TensorType("float32", (3, 4), name="x")]).inputs
    return symbol


ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_aliases_lead_to_functions_and_shadow_none() -> None:
    assert len(ALIASES) > 100
    assert {name: target for name, target in ALIASES.items() if target not in EXPORTS} == {}
    assert set(EXPORTS) & (ALIASES.keys() | PLANNED) == set()
    assert ALIASES.keys() & PLANNED == set()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("take", "gather"), ("expand_dims", "unsqueeze"), ("power", "pow"), ("absolute", "abs"), ("swapaxes", "transpose"),
        ("concatenate", "concat"), ("cat", "concat"), ("clamp", "clip"), ("arctan2", "atan2"), ("std", "stdev"),
        ("ReduceMean", "mean"), ("Unsqueeze", "unsqueeze"), ("GatherElements", "take_along_axis"), ("Mul", "mul"),
        ("LayerNormalization", "layer_norm"), ("population_count", "popcount"), ("log_softmax", "logsoftmax"),
    ],
)  # fmt: skip
def test_names_of_other_libraries_are_known(name: str, own: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; did you mean {own}\?"):
        getattr(jn, name)
    with pytest.raises(jn.UserError, match=rf"no operation '{name}'; did you mean {own}\?"):
        jn.result_type(name, "float32")


def test_symbols_know_them_too(x: Any) -> None:
    for name, hint in (
        ("std", r"did you mean \.stdev\?"),
        ("take", r"call the function joinery\.gather"),
        ("softmax", r"call the function joinery\.softmax"),
        ("reshpae", r"did you mean \.reshape or \.shape\?"),
    ):
        with pytest.raises(AttributeError, match=f"a Symbol has no attribute '{name}'; (fix: )?{hint}"):
            getattr(x, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        x.zzz  # noqa: B018
    assert not hasattr(x, "__dlpack__")
    assert not hasattr(x, "_private")


@pytest.mark.parametrize(
    ("call", "shown", "fix"),
    [
        (np.sin, "numpy.sin", "joinery.sin does this"),
        (np.absolute, "numpy.absolute", "joinery.abs does this"),
        (np.sum, "numpy.sum", "joinery.sum does this"),
        (np.add.reduce, "numpy.add", "joinery.sum does this"),
        (lambda x: np.concatenate([x, x]), "numpy.concatenate", "joinery.concat does this"),
        (lambda x: np.where(x, x, x), "numpy.where", "joinery.where does this"),
        (lambda x: np.maximum(ARRAY, x), "numpy.maximum", "joinery.maximum does this"),
        (lambda x: np.linalg.svd(x), "numpy.svd", "use joinery's functions inside the graph"),
        (lambda x: np.add(ARRAY, x, where=ARRAY > 0), "numpy.add", "inside the graph"),
    ],
)
def test_numpy_functions_are_refused_by_name(x: Any, call: Callable[[Any], Any], shown: str, fix: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        call(x)
    message = str(caught.value)
    assert message.startswith(f"{shown} computes with values, which a Symbol does not have")
    assert fix in message
    assert "float32 (3, 4)" in message


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: a**b, lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b,
    lambda a, b: a >= b, lambda a, b: a @ b.T,
]  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_with_arrays_on_either_side_are_the_graphs(run: Callable[..., Any], operator: Callable[..., Any]) -> None:
    other = np.float32([[1, 2, 3, 0.5]] * 3)
    np.testing.assert_allclose(run(lambda x: operator(other, x), ARRAY + 9), operator(other, ARRAY + 9), rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: operator(x, other), ARRAY + 9), operator(ARRAY + 9, other), rtol=1e-6)
    bits = np.int32([1, 6, 12])
    for integer in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b):
        np.testing.assert_array_equal(run(lambda i, f=integer: f(bits, i), bits[::-1] % 7), integer(bits, bits[::-1] % 7))


def test_shapes_are_told_to_numpy_and_arrays_become_symbols_in_place(x: Any) -> None:
    assert (np.ndim(x), np.shape(x)) == (2, (3, 4))
    total = ARRAY.copy()
    total += x
    assert total.dtype is jn.float32
    assert (np.float64(2) * x).dtype is jn.float32


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: jn.TensorType(("n", 8), jn.float32), r"dtype and shape are swapped; fix: TensorType\(float32, \(n, 8\)\)"),
        (lambda: jn.zeros((3,)), r"zeros: the first argument must be a graph(.|\n)*fix: zeros\(graph, shape\)"),
        (lambda: jn.ones(), r"ones: the first argument must be a graph"),
        (lambda: jn.Graph(inputs=[]), r"Graph: it has no name; fix: Graph\('model', inputs=\[TensorType"),
        (lambda: jn.Graph("g", inputs={"x": jn.TensorType("int8", ())}), r"Graph: inputs is a dict; expected a list"),
        (lambda: jn.Graph("g", inputs=[("float32", (2,))]), r"the input \('float32', \(2,\)\) is a tuple"),
        (lambda: jn.Graph("g", inputs="x"), r"Graph: inputs is str 'x'; expected a list of TensorType"),
        (lambda: jn.dim("b-1"), r"'b-1' is not a dim name but an expression; fix: (.|\n)*Dim.parse\('b-1'\)"),
        (lambda: jn.dim("2*b"), r"'2\*b' is not a dim name but an expression"),
        (lambda: jn.dim("7"), r"'7' is not a dim name; expected letters"),
        (lambda: jn.dim("a b"), r"'a b' is not a dim name; expected letters"),
    ],
)
def test_what_other_libraries_would_accept_is_explained(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        build()


def test_a_graph_is_no_context() -> None:
    with pytest.raises(jn.UserError, match=re.escape("no current graph")), jn.Graph("g"):
        raise AssertionError("unreachable")


def test_missing_arguments_are_reported_under_the_public_name(x: Any) -> None:
    with pytest.raises(TypeError, match=r"^sum\(\) got an unexpected keyword argument 'dim'"):
        jn.sum(x, dim=1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: jn.sum(x, dim=1), r"^sum\(\) got an unexpected keyword argument 'dim'; did you mean axis\?$"),
        (lambda x: jn.mean(x, 1, keep_dim=True), r"^mean\(\) got .* 'keep_dim'; did you mean keepdims\?$"),
        (lambda x: jn.pad(x, 1, constant_values=2), r"^pad\(\) got .* 'constant_values'; did you mean value\?$"),
        (lambda x: jn.transpose(x, 0, 1, conjugate=True), r"'conjugate'; its arguments are x, axis_1, axis_2$"),
        (lambda x: jn.softmax(x, qqq=1), r"^softmax\(\) got .* 'qqq'; its arguments are x, axis$"),
    ],
)
def test_unknown_keywords_are_answered_with_those_there_are(x: Any, build: Callable[[Any], Any], message: str) -> None:
    before = len(x.graph.symbols)
    with pytest.raises(TypeError, match=message):
        build(x)
    assert len(x.graph.symbols) == before


def test_errors_of_other_calls_keep_their_text(x: Any) -> None:
    with pytest.raises(TypeError, match=r"^pad\(\) missing 1 required positional argument: 'widths'$"):
        jn.pad(x)
    with pytest.raises(TypeError, match=r"^pad\(\) got multiple values for argument 'x'$"):
        jn.pad(x, 1, x=x)
