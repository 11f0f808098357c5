"""NumPy scalars beside symbols: weak like Python scalars, unless the rule set says that they are strong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.promotion import rules
from joinery.promotion.presets import PRESETS

Make = Callable[..., Any]

SCALARS = [
    np.sqrt(64), np.float32(0.5), np.float16(2), ml_dtypes.bfloat16(1.5), np.int64(3), np.int8(1), np.uint64(2), np.bool_(True),
]  # fmt: skip
WEAK = [name for name in PRESETS if name != "numpy"]


def _built(graph: Any, row: Any, operands: list[Any]) -> Any:
    try:
        symbol = graph.apply(row, operands)
    except (jn.UserError, jn.UnsupportedError) as error:
        return type(error)
    return symbol.dtype, [operand.dtype for operand in symbol.inputs]


@pytest.mark.one_in(18)
@pytest.mark.parametrize("semantics", WEAK)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32"])
def test_every_operation_takes_a_numpy_scalar_for_the_number_it_holds(make: Make, semantics: str, dtype: str) -> None:
    graph = make((dtype, (2, 3)), ("bool", (2, 3)), semantics=semantics)
    x, mask = graph.inputs
    compared = 0
    for row in OPS.values():
        if row.kind != "map" or row.arity < 2 or row.attrs:
            continue
        for scalar in SCALARS:
            for place in (0, 1):
                written, plain = ([x, x] for _ in range(2))
                written[place], plain[place] = scalar, scalar.item()
                if row.arity == 3:
                    written, plain = [mask, *written], [mask, *plain]
                assert _built(graph, row, written) == _built(graph, row, plain), (row.name, scalar)
                compared += 1
    assert compared > 300


NUMBER_TAKING: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda x, v: jn.clip(x, v, v),
    "leaky_relu": jn.leaky_relu,
    "elu": jn.elu,
    "prelu": jn.prelu,
    "shrink": lambda x, v: jn.shrink(x, v, v),
    "masked_fill": lambda x, v: jn.masked_fill(x, x > v, v),
    "logaddexp": jn.logaddexp,
    "layer_norm": lambda x, v: jn.layer_norm(x, epsilon=v),
    "pad": lambda x, v: jn.pad(x, 1, value=v),
    "dot": jn.dot,
    "dot, reflected": lambda x, v: jn.dot(v, x),
    "outer": jn.outer,
    "gemm": lambda x, v: jn.gemm(x, x, v, alpha=v, beta=v),
    "var": lambda x, v: jn.var(x, correction=v),
    "promote": lambda x, v: jn.promote(x, v)[1],
    "power": lambda x, v: x**v,
    "reflected": lambda x, v: v / x,
    "where": lambda x, v: jn.where(x > v, v, x),
}


@pytest.mark.parametrize("name", NUMBER_TAKING)
def test_functions_take_numpy_scalars_where_they_take_numbers(run: Callable[..., Any], name: str) -> None:
    x = np.array([[1, -2], [0.25, 3]], np.float16)
    built = NUMBER_TAKING[name]
    found = run(lambda symbol: built(symbol, np.float64(0.5)), x)
    expected = run(lambda symbol: built(symbol, 0.5), x)
    assert found.dtype == expected.dtype == np.float16
    np.testing.assert_array_equal(found, expected)


def test_a_number_is_computed_in_the_dtype_of_the_tensor(make: Make) -> None:
    graph = make(("float32", (3,)))
    (x,) = graph.inputs
    graph.output(x / np.sqrt(64))
    assert not graph.casts()
    array = np.array([1, 2.5, -3], np.float32)
    for result in (jn.evaluate(graph, array), jn.compile(graph, device="cpu", cache=False)(array)):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, array / np.float32(8))


def test_the_value_must_fit_and_the_message_says_which(make: Make) -> None:
    (x,) = make(("int8", (2,))).inputs
    with pytest.raises(jn.UserError, match=r"literal 300 does not fit int8(.|\n)*operand 0"):
        x + np.int64(300)
    for value in (np.datetime64(1, "s"), np.timedelta64(1, "s"), np.str_("a")):
        with pytest.raises(jn.UserError, match="no joinery dtype"):
            x + value


def test_arrays_of_rank_0_are_arrays(make: Make) -> None:
    graph = make(("float32", (2,)))
    (x,) = graph.inputs
    assert (x * np.array(2.0)).dtype is jn.float64
    assert (x * graph.constant(np.float64(2))).dtype is jn.float64
    assert (x * graph.scalar(np.float64(2))).dtype is jn.float64
    assert (x * np.ones(2)).dtype is jn.float64


@pytest.mark.parametrize("order", [(np.ones(2), np.array(2.0)), (np.array(2.0), np.ones(2))])
def test_torch_counts_arrays_of_rank_0_as_such(make: Make, order: tuple[Any, Any]) -> None:
    (x,) = make(("float32", (2,)), semantics="torch").inputs
    assert [(x * array).dtype for array in order] == [jn.float32 if array.ndim == 0 else jn.float64 for array in order]


def test_numpy_scalars_follow_nep_50_in_the_rule_set_of_numpy(make: Make) -> None:
    (x,) = make(("float32", (2,)), semantics="numpy").inputs
    array = np.ones(2, np.float32)
    for scalar in (np.sqrt(64), np.float16(2), np.int64(3), np.bool_(True), 2.0):
        assert (x * scalar).dtype.numpy == (array * scalar).dtype
    assert rules("numpy").promote("float32", np.float64(1)) is jn.float64
    assert rules("max").promote("float32", np.float64(1)) is jn.float32
    assert jn.result_type("mul", "float32", np.float64(1)) is jn.float32
    assert jn.result_type("mul", "float32", np.float64(1), rules="numpy") is jn.float64


def test_scalars_that_meet_nothing_keep_their_dtype(make: Make) -> None:
    graph = make(("int32", (2,)))
    (x,) = graph.inputs
    assert jn.cast_like(x, np.float16(0)).dtype is jn.float16
    graph.output(np.float64(3))
    assert graph.outputs[0].dtype is jn.float64


@pytest.mark.parametrize("semantics", ["max", "jax", "torch", "exact", "numpy"])
def test_scalars_between_which_a_condition_selects_keep_a_dtype_that_was_chosen(make: Make, semantics: str) -> None:
    (x,) = make(("uint8", (4,)), semantics=semantics).inputs
    for low, high in [
        (np.uint8(0), np.uint8(255)), (np.uint8(0), 255), (0, np.int16(-3)), (np.float16(0.5), 2),
        (np.int8(-1), np.int16(1)), (np.float32(0), np.float16(1)), (np.uint64(1), np.uint64(2)),
    ]:  # fmt: skip
        assert jn.where(x > 127, high, low).dtype.numpy == np.where(np.zeros(4, bool), high, low).dtype
    assert jn.where(x > 127, ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(0)).dtype is jn.bfloat16
    assert jn.where(x > 127, np.uint8(255), x).dtype is jn.uint8


def test_scalars_of_default_dtypes_stay_weak_between_themselves(make: Make) -> None:
    (x,) = make(("float32", (4,))).inputs
    assert jn.where(x > 0, np.sqrt(2), np.float64(0)).dtype is jn.float32
    assert jn.where(x > 0, np.sqrt(2), np.float16(0)).dtype is jn.float16
    assert jn.where(x > 0, np.uint8(2), np.int64(3)).dtype is jn.uint8
    assert jn.where(x > 0, np.bool_(True), np.bool_(False)).dtype is jn.bool
    with pytest.raises(jn.UserError, match="literal 300 does not fit uint8"):
        jn.where(x > 0, np.uint8(2), np.int64(300))
    assert jn.result_type("where", "bool", np.uint8(1), np.uint8(0)) is jn.uint8
    assert jn.result_type("where", "bool", np.float64(1), np.float64(0), rules="numpy") is jn.float64
    with pytest.raises(jn.UserError, match="no joinery dtype"):
        jn.where(x > 0, np.uint8(1), np.datetime64(1, "s"))


def test_why_tells_that_a_numpy_scalar_was_weak_or_strong(make: Make) -> None:
    (x,) = make(("float32", (2,))).inputs
    text = (x / np.sqrt(64)).why()
    assert "operand 1: NumPy scalar float64 8.0, weak like a Python number in 'max', becomes float32" in text
    (x,) = make(("float32", (2,)), semantics="numpy").inputs
    text = (x / np.sqrt(64)).why()
    assert "operand 1: NumPy scalar float64 8.0, strong in 'numpy'; not cast" in text
    assert "float32 ∨ float64 = float64" in text
    (x,) = make(("float64", (2,)), semantics="numpy").inputs
    assert "NumPy scalar float32 0.5, strong in 'numpy'; cast to float64 (exact)" in (x * np.float32(0.5)).why()


def test_what_if_asks_about_what_was_written(make: Make) -> None:
    graph = make(("float32", (2,)))
    graph.output(graph.inputs[0] * np.float64(2))
    assert jn.what_if(graph, semantics="numpy").graph.outputs[0].dtype is jn.float64
    graph = make(("float32", (2,)), semantics="numpy")
    graph.output(graph.inputs[0] * np.float64(2))
    assert jn.what_if(graph, semantics="max").graph.outputs[0].dtype is jn.float32


@pytest.mark.parametrize("strong", [np.float64(8), np.array(8.0)])
def test_the_advice_is_to_make_the_number_weak(make: Make, strong: Any) -> None:
    (x,) = make(("float32", (2,)), semantics="numpy", policy="strict").inputs
    with pytest.raises(jn.UserError, match=r"fix: give operand 1 as a Python number, float\(value\), which takes"):
        x / strong
    assert (x / float(strong)).dtype is jn.float32


def test_the_field_survives_a_round_trip_and_enters_the_hash() -> None:
    ours = rules("max").definition.to_dict()
    strong = jn.promotion.RuleSet.from_dict(ours | {"numpy_scalars": "strong"})
    assert "numpy_scalars" not in ours
    assert strong.numpy_scalars == "strong"
    assert strong.hash != rules("max").hash
    assert jn.promotion.RuleSet.from_dict(strong.definition.to_dict()) == strong
