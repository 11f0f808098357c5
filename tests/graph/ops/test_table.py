"""The table itself, and dtype and value of every elementwise row against NumPy."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
import scipy.special
from joinery.graph.functions.names.exports import EXPORTS
from joinery.graph.ops.attributes import require_attributes
from joinery.graph.ops.opdef import VARIADIC
from joinery.graph.ops.table import OPS, op_named
from joinery.lowering.tile.elements.scalar import require_realisation
from joinery.promotion.dtype import DTYPES
from joinery.promotion.errors import InternalError

CONTRACT = {
    "source": "input constant weight dim_value",
    "map": (
        "add sub mul div floor_div mod trunc_div rem pow minimum maximum equal not_equal less less_equal greater greater_equal "
        "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right "
        "popcount where negate abs sign sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos asin acos atan tanh erf floor ceil "
        "round trunc is_nan cast bitcast relu sigmoid"
    ),
    "reduce": "reduce_sum reduce_prod reduce_max reduce_min argmax argmin",
    "scan": "cumsum",
    "contract": "matmul",
    "view": "reshape permute broadcast_to slice flip windows",
    "join": "concat pad",
    "index": "gather take_along_axis",
    "composite": "softmax logsoftmax logsumexp mean var gelu silu layer_norm rms_norm",
}
SUGAR = (
    "sum prod max min any all stdev reduce_l1 reduce_l2 sum_square log_sum count_nonzero norm square reciprocal fmod divmod "
    "logaddexp isclose bit_shift masked_fill is_inf is_finite tan sinh cosh asinh acosh atanh log10 cbrt erfc cast_like "
    "promote implicit_cast prelu leaky_relu elu selu celu mish softplus softsign hard_sigmoid hard_swish swiglu shrink "
    "thresholded_relu hardmax clip einsum gemm outer linear dot tensordot "
    "squeeze unsqueeze flatten transpose expand split chunk stack "
    "tile "
    "repeat_interleave size rebind shape_to_tensor zeros ones full zeros_like ones_like slice_tensor "
    "atan2 hypot copysign arange eye tril triu one_hot roll conv conv1d conv2d conv3d max_pool avg_pool"
)
NOT_PUBLIC = frozenset(
    ("input", "constant", "text_constant", "weight", "dim_value", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min",
     "slice")
)
"""Rows that functions of other names build."""


def test_the_table_has_the_agreed_rows() -> None:
    """These stay; rows may be added."""
    for kind, names in CONTRACT.items():
        for name in names.split():
            assert OPS[name].kind == kind
            assert "internal" not in OPS[name].traits, name


def test_every_public_function_exists_and_is_documented() -> None:
    assert set(SUGAR.split()) <= set(EXPORTS)
    assert {row.name for row in OPS.values() if "internal" not in row.traits} - NOT_PUBLIC <= set(EXPORTS)
    assert {row.name for row in OPS.values() if "internal" in row.traits}.isdisjoint(EXPORTS)
    for name in EXPORTS:
        function = getattr(jn, name)
        assert callable(function)
        assert len(function.__doc__ or "") > 10, name


def test_rows_are_consistent() -> None:
    for name, row in OPS.items():
        assert row.name == name
        assert row.doc.endswith(".") or row.doc[-1].isalnum(), name
        assert (row.expand is not None) == (row.kind == "composite"), name
        assert bool(row.emit) == (row.kind == "map"), name
        assert row.arity == VARIADIC or row.arity >= 0
        assert set(row.emit) <= {"bool", "int", "uint", "float"}
        assert (row.ulp == math.inf) == bool(row.bound)
        assert row.ulp >= 0.5
        for text in row.emit.values():
            require_realisation(name, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("math.sine", "row sine of graph/ops/elementwise.py names math.sine, which the block IR does not have; fix: name an"),
        ("arith.cmpk slt", "names arith.cmpk, which the block IR does not have"),
        ("@sine", "names @sine, which is no emitter; fix: name it in EMITTERS of lowering/tile/elements/scalar.py"),
    ],
)  # fmt: skip
def test_rows_that_name_what_does_not_exist_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InternalError, match=re.escape(expected)):
        require_realisation("sine", text)


def test_attributes_that_have_no_kind_are_refused() -> None:
    with pytest.raises(InternalError, match=r"'spacing'; fix: name it in KINDS and Attributes of graph/ops/attributes\.py"):
        require_attributes(("spacing",), {"spacing": 3})


def test_every_emitter_name_is_documented() -> None:
    from joinery.graph.ops import elementwise as ops_elementwise

    used = {text for row in OPS.values() for text in row.emit.values() if text.startswith("@")}
    documented = {word for word in (ops_elementwise.__doc__ or "").split() if word.startswith("@")}
    assert used == documented


def test_unknown_ops_name_the_nearest() -> None:
    with pytest.raises(jn.UserError, match=r"did you mean .*maximum"):
        op_named("maximun")


# ------------------------------------------------------------------------------------------------ dtypes and values


def shifted(x: Any, y: Any) -> Any:
    """e ** (x - y); in float32 with what its rounding to a power of two leaves, times 2 ** 64."""
    exact = np.exp(x.astype(np.float64) - y)
    left = y - np.rint(y / np.log(2)) * np.log(2)
    return (exact if x.dtype == np.float64 else exact * np.exp(left) * 2.0**64).astype(x.dtype)


def logistic(x: Any, slope: float, cubic: float = 0.0) -> Any:
    wide = x.astype(np.float64)
    return (wide * scipy.special.expit(slope * (wide + cubic * wide**3))).astype(x.dtype)


NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "floor_div": np.floor_divide, "mod": np.mod,
    "rem": np.fmod, "minimum": np.minimum, "maximum": np.maximum, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "where": np.where, "negate": np.negative, "abs": np.abs,
    "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "tanh": np.tanh, "erf": scipy.special.erf, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "trunc": np.trunc, "is_nan": np.isnan, "relu": lambda x: np.maximum(x, 0), "sigmoid":
    scipy.special.expit, "exp_shifted": shifted, "exp_shifted_unchecked": shifted,
    "one_unless_below": lambda x, y: np.where(x < y, x.dtype.type(0), x.dtype.type(1)),
    "where_below": lambda x, y, z: np.where(y < z, x, np.zeros_like(x)),
    "x_phi": lambda x: x * scipy.special.ndtr(x), "x_sigmoid": lambda x: logistic(x, 1.0),
    "x_sigmoid_quick": lambda x: logistic(x, 1.702), "div_approximate": np.true_divide, "atan_ratio": np.arctan,
    "contiguous": lambda x: x,
    "multiply_add": lambda x, y, z: (x.astype(np.longdouble) * y + z).astype(x.dtype),
    "x_sigmoid_tanh": lambda x: logistic(x, 2 * np.sqrt(2 / np.pi), 0.044715),
    "trunc_div": lambda x, y: np.trunc(np.true_divide(x, y)), "pow": np.power,
    "popcount": lambda x: sum((x >> bit) & 1 for bit in range(8 * x.itemsize)) if x.dtype.kind != "b" else x,
}  # fmt: skip
"""The witness of each map: its row's one line in the tests."""
ROWS = [row for row in OPS.values() if row.kind == "map" and not row.attrs]
VALUES = {
    "bool": [True, False, True],
    "int8": [3, -2, 7],
    "int32": [5, -3, 2],
    "uint8": [3, 200, 1],
    "uint32": [9, 4, 1],
    "float32": [0.5, -1.25, 2.0],
    "float64": [0.25, 0.75, -3.5],
}


def test_every_elementwise_row_has_a_witness() -> None:
    missing = sorted({row.name for row in ROWS} - NUMPY.keys())
    assert not missing, f"{missing} have no witness; fix: a line each in NUMPY"
    assert NUMPY.keys() <= {row.name for row in ROWS}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_on_one_dtype_is_numpys(run: Callable[..., Any], row: Any, dtype: str) -> None:
    """Equal operand dtypes, where rule sets agree: the dtype is NumPy's but for the stated differences, the values are."""
    first = np.array(VALUES[dtype], dtype)
    operands = [first, np.array(VALUES[dtype][::-1], dtype)][: row.arity]
    if row.name in ("shift_left", "shift_right"):
        operands[1] = np.array([1, 2, 0], dtype)
    if row.name == "pow":
        operands[1] = np.array([1, 0, 2], dtype)
    if row.name in ("where_below", "multiply_add"):
        operands.append(np.roll(first, 1))
    if row.name == "where":
        operands = [np.array([True, False, True]), *operands]

    def build(*symbols: Any) -> Any:
        return symbols[0].graph.apply(row, symbols)

    kinds = OPS[row.name].emit
    kind = jn.DType(dtype).kind
    takes_all = row.promote.name in ("JOIN_FLOAT", "JOIN_QUOTIENT")
    if kind not in kinds and not takes_all:
        with pytest.raises(jn.UserError):
            run(build, *operands)
        return
    result = run(build, *operands)
    wide = [np.asarray(x, "float32" if takes_all and x.dtype.kind != "f" else x.dtype) for x in operands]
    if kind == "bool" and row.name in ("floor", "ceil", "round", "trunc", "sign", "relu", "abs"):
        expected = operands[0]
    else:
        with np.errstate(all="ignore"):
            expected = np.asarray(NUMPY[row.name](*wide))
    if row.name == "trunc_div" or row.name == "relu":
        expected = expected.astype(result.dtype)
    assert result.dtype == expected.dtype
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(result, expected, rtol=1e-6, equal_nan=True)
        assert np.array_equal(np.signbit(result), np.signbit(expected)) or np.isnan(expected).any()
    else:
        np.testing.assert_array_equal(result, expected)


SYMBOL_OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.eq,
    operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("function", SYMBOL_OPERATORS)
def test_operators_and_their_reflections_are_numpys(run: Callable[..., Any], function: Any) -> None:
    a, b = np.array([5.0, 3.0, 2.0]), np.array([2.0, 2.0, -4.0])
    np.testing.assert_array_equal(run(lambda x, y: function(x, y), a, b), function(a, b))
    np.testing.assert_array_equal(run(lambda x: function(x, b), a), function(a, b))
    np.testing.assert_array_equal(run(lambda y: function(a, y), b), function(a, b))
    np.testing.assert_array_equal(run(lambda y: function(2.5, y), b), function(2.5, b))
    np.testing.assert_array_equal(run(lambda x: function(x, 2.5), a), function(a, 2.5))


@pytest.mark.parametrize(
    "function", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
)
def test_bit_operators_are_numpys(run: Callable[..., Any], function: Any) -> None:
    a, b = np.array([5, -3, 2]), np.array([2, 1, 4])
    np.testing.assert_array_equal(run(lambda x, y: function(x, y), a, b), function(a, b))
    np.testing.assert_array_equal(run(lambda y: function(6, y), b), function(6, b))
    np.testing.assert_array_equal(run(lambda x: function(a, x), b), function(a, b))


def test_unary_operators_are_numpys(run: Callable[..., Any]) -> None:
    a = np.array([5, -3, 2], np.int16)
    for function in (operator.neg, abs, operator.invert):
        np.testing.assert_array_equal(run(function, a), function(a))
    matrix = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(run(lambda x: matrix @ x, matrix.T), matrix @ matrix.T)
    np.testing.assert_array_equal(run(lambda x: x @ matrix.T, matrix), matrix @ matrix.T)


def test_every_row_with_an_operator_has_it_on_symbols() -> None:
    for row in OPS.values():
        if row.dunder:
            assert hasattr(jn.Symbol, f"__{row.dunder}__"), row
            if row.arity == 2 and row.promote.name != "JOIN_TO_BOOL":
                assert hasattr(jn.Symbol, f"__r{row.dunder}__"), row


def test_integer_division_floors_and_the_trap_cases_are_defined(run: Callable[..., Any]) -> None:
    a, b = np.array([-7, 8, -8, 7], np.int32), np.array([2, -3, 3, 2], np.int32)
    np.testing.assert_array_equal(run(lambda x, y: x // y, a, b), [-4, -3, -3, 3])
    np.testing.assert_array_equal(run(jn.trunc_div, a, b), [-3, -2, -2, 3])
    np.testing.assert_array_equal(run(jn.rem, a, b), [-1, 2, -2, 1])
    low = np.array([-(2**31)], np.int32)
    assert run(lambda x: x // -1, low).tolist() == low.tolist()
    assert run(lambda x: x // 0, a).tolist() == [0] * 4
    assert run(lambda x: x % 0, a).tolist() == a.tolist()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not DTYPES[d].has_arithmetic])
def test_dtypes_that_are_only_stored_are_refused_by_arithmetic(make: Callable[..., Any], dtype: str) -> None:
    x = make((dtype, (2, 2))).inputs[0]
    builds = [lambda: jn.max(x), lambda: jn.maximum(x, x), lambda: jn.tanh(x)]
    if not x.dtype.is_complex:  # which is computed by parts
        builds += [lambda: x + x, lambda: jn.exp(x), lambda: x @ x]
    for build in builds:
        with pytest.raises((jn.UnsupportedError, jn.UserError)):
            build()
    assert x.T[0].reshape(2, 1).dtype.name == dtype


def test_refusals_of_kinds_name_the_alternative(make: Callable[..., Any]) -> None:
    flag = make(("bool", (2,))).inputs[0]
    with pytest.raises(jn.UserError, match="logical_xor"):
        jn.sub(flag, flag)
    with pytest.raises(jn.UserError, match="logical_not"):
        jn.negate(flag)
    with pytest.raises(jn.UserError, match="cast to int8"):
        jn.floor_div(flag, flag)


def test_shifts_beyond_the_width_are_defined(run: Callable[..., Any]) -> None:
    a = np.array([-5, 5, -5, 5], np.int8)
    b = np.array([8, 8, -1, 100], np.int8)
    assert run(lambda x, y: x << y, a, b).tolist() == [0, 0, 0, 0]
    assert run(lambda x, y: x >> y, a, b).tolist() == [-1, 0, -1, 0]


PROMOTED = [name for name in VALUES if name != "bool"]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(PROMOTED, PROMOTED)))
def test_binary_rows_take_their_dtype_from_the_lattice(
    make: Callable[..., Any], first: str, second: str
) -> None:
    x, y = make((first, (2,)), (second, (2,))).inputs
    join = jn.promotion.implicit_cast_type(jn.DType(first), jn.DType(second))
    for function in (
        jn.add,
        jn.maximum,
        jn.mul,
        lambda a, b: jn.where(a > b, a, b),
        lambda a, b: jn.concat([a, b]),
    ):
        assert function(x, y).dtype is join
    assert jn.less(x, y).dtype is jn.DType("bool")
    assert jn.div(x, y).dtype is (join if join.is_float else jn.float32)


def test_sums_and_means_of_integers(make: Callable[..., Any]) -> None:
    cases = {
        "bool": "int64",
        "int8": "int64",
        "uint8": "uint64",
        "int64": "int64",
        "float16": "float16",
        "bfloat16": "bfloat16",
    }
    for dtype, total in cases.items():
        x = make((dtype, (2, 3))).inputs[0]
        assert jn.sum(x).dtype.name == jn.prod(x).dtype.name == jn.cumsum(x).dtype.name == total
        assert jn.mean(x).dtype.name == (dtype if x.dtype.is_float else "float32")
        assert jn.max(x).dtype.name == dtype
        assert jn.argmax(x, axis=0).dtype is jn.int64
    x = make(("int8", (2, 3))).inputs[0]
    assert jn.sum(x, dtype=jn.int8).dtype is jn.int8
    assert jn.mean(x, dtype="float64").dtype is jn.float64


def test_matmul_dtypes(make: Callable[..., Any]) -> None:
    results = {
        "bool": "int32",
        "int8": "int32",
        "uint8": "int32",
        "int16": "int16",
        "float16": "float16",
        "float64": "float64",
    }
    for dtype, expected in results.items():
        x = make((dtype, (2, 2))).inputs[0]
        product = x @ x
        assert product.dtype.name == expected
        assert product.attrs["accumulate"].name == ("float32" if expected == "float16" else expected)


def test_sixteen_bit_sums_accumulate_in_float32(run: Callable[..., Any]) -> None:
    ones = np.full(65520, 1, np.float16)
    assert run(jn.mean, ones) == 1
    assert run(jn.sum, np.full(4096, 1, np.float16)) == 4096
    assert run(jn.sum, np.full(5000, 1, np.uint8)) == 5000
    assert run(jn.sum, np.ones((32, 32), bool)) == 1024


def test_nan_wins_and_literals_keep_sixteen_bits(make: Callable[..., Any], run: Callable[..., Any]) -> None:
    assert math.isnan(run(jn.max, np.array([np.nan, np.inf], np.float32)))
    assert math.isnan(run(jn.max, np.array([np.inf, np.nan], np.float32)))
    x = make(("float16", (2,))).inputs[0]
    for y in (x + 0.0, jn.maximum(x, 0.0), jn.where(x > 0.0, x, 0.0), jn.clip(x, 0, 1.0), x**2, 1 / x):
        assert y.dtype is jn.float16
