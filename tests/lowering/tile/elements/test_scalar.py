"""Every elementwise op on every kind of dtype against Python integers and NumPy formulas: the numeric
contract."""

import math

import ml_dtypes
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.lowering.tile.elements.scalar import EMITTERS
from joinery.promotion.dtype import DTYPES, DType, bool_
from joinery.promotion.errors import UnsupportedError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def wrap(value, dtype):
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def integers(dtype):
    low, high = int(dtype.min_value), int(dtype.max_value)
    small = [v for v in range(-9, 10) if low <= v <= high]
    return np.array(
        [low, low + 1, high, high - 1, high // 2, high // 3, 100, 64, 63, 33, 32, 31, 8, *small], object
    ).astype(dtype.numpy)


def floats(dtype):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 7.25, -7.25, 1e-3, 1e4, -1e4, math.inf, -math.inf,
               math.nan, float(dtype.max_value), dtype.smallest_normal, dtype.smallest_subnormal]  # fmt: skip
    rng = np.random.default_rng(3)
    with np.errstate(over="ignore"):
        return np.array([*special, *rng.standard_normal(20) * 10], np.float64).astype(dtype.numpy)


def pairs(values):
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel(), b.ravel()


def apply(body, op, arrays, dtypes, result, **attrs):
    b = body(i=len(arrays[0]))
    loads = [b.load(array, ["i"], dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
    value = b.add(op, result, (0,), tuple(loads), **attrs)
    b.store(value, ["i"])
    return b.run()[0]


def same(found, expected):
    """Equal bit for bit, except that all NaNs are one."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(found, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a, b):
    if b >= 0:
        return a**b
    return 1 if a == 1 else (1 - 2 * (b & 1)) if a == -1 else 0


def shift_right(a, n, bits):
    return a >> n if 0 <= n < bits else (-1 if a < 0 else 0)


INTEGER_BINARY = {
    "add": lambda a, b, d: a + b,
    "sub": lambda a, b, d: a - b,
    "mul": lambda a, b, d: a * b,
    "floor_div": lambda a, b, d: a // b if b else 0,
    "mod": lambda a, b, d: a % b if b else a,
    "trunc_div": lambda a, b, d: truncated(a, b) if b else 0,
    "rem": lambda a, b, d: a - truncated(a, b) * b if b else a,
    "pow": lambda a, b, d: power(a, b) if b <= 300 else pow(a, b, 1 << d.bits),
    "minimum": lambda a, b, d: min(a, b),
    "maximum": lambda a, b, d: max(a, b),
    "bitwise_and": lambda a, b, d: a & b,
    "bitwise_or": lambda a, b, d: a | b,
    "bitwise_xor": lambda a, b, d: a ^ b,
    "shift_left": lambda a, b, d: a << b if 0 <= b < d.bits else 0,
    "shift_right": lambda a, b, d: shift_right(a, b, d.bits),
}
INTEGER_UNARY = {
    "negate": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "relu": lambda a: max(a, 0),
    "bitwise_not": lambda a: ~a,
    "floor": lambda a: a,
    "ceil": lambda a: a,
    "round": lambda a: a,
    "trunc": lambda a: a,
}
COMPARISONS = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal,
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_integer_binary(body, op, name):
    dtype = DType(name)
    a, b = pairs(integers(dtype))
    found = apply(body, op, [a, b], [dtype, dtype], dtype)
    expected = [
        wrap(INTEGER_BINARY[op](x, y, dtype), dtype) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert found.tolist() == expected


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_UNARY)
def test_integer_unary(body, op, name):
    dtype = DType(name)
    a = integers(dtype)
    found = apply(body, op, [a], [dtype], dtype)
    assert found.tolist() == [wrap(INTEGER_UNARY[op](x), dtype) for x in a.tolist()]


def test_division_identity_holds_everywhere(body):
    """a == (a // b) * b + a % b, also by zero and for the smallest number by -1."""
    dtype = DType("int8")
    a, b = pairs(np.arange(-128, 128).astype(np.int8))
    for quotient, remainder in (("floor_div", "mod"), ("trunc_div", "rem")):
        q, r = (apply(body, op, [a, b], [dtype, dtype], dtype) for op in (quotient, remainder))
        np.testing.assert_array_equal(q * b + r, a)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 63, 64, 65, -1, -2])
def test_integer_power_with_a_constant_exponent(body, exponent):
    dtype = DType("int32")
    a = integers(dtype)
    b = body(i=len(a))
    b.store(b.op("pow", b.load(a, ["i"]), b.const(exponent, dtype)), ["i"])
    found = b.run()[0]
    assert found.tolist() == [wrap(power(x, exponent), dtype) for x in a.tolist()]


def modulo(a, b):
    with np.errstate(all="ignore"):
        return np.mod(a, b)


FLOAT_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_div": np.floor_divide,
    "mod": modulo,
    "rem": np.fmod,
    "pow": lambda a, b: np.float_power(a.astype(np.float64), b.astype(np.float64)),
}


def working(a):
    return a.astype(np.float32) if a.dtype.itemsize == 2 else a


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", FLOAT_BINARY)
def test_float_binary(body, op, name):
    dtype = DType(name)
    a, b = pairs(floats(dtype))
    found = apply(body, op, [a, b], [dtype, dtype], dtype)
    with np.errstate(all="ignore"):
        expected = FLOAT_BINARY[op](working(a), working(b))
        if name in ("float16", "bfloat16"):
            expected = expected.astype(np.float32)
        same(found, expected.astype(dtype.numpy))


@pytest.mark.parametrize("name", FLOATS)
def test_float_trunc_div(body, name):
    dtype = DType(name)
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 7.0, 3.0, 100.0, -0.5, math.inf, -math.inf, math.nan]
    a, b = pairs(np.array(values).astype(dtype.numpy))
    found = apply(body, "trunc_div", [a, b], [dtype, dtype], dtype)
    with np.errstate(all="ignore"):
        same(found, np.trunc(a.astype(np.float64) / b.astype(np.float64)).astype(dtype.numpy))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(("op", "choose"), [("maximum", max), ("minimum", min)])
def test_float_extremes(body, op, choose, name):
    dtype = DType(name)
    a, b = pairs(floats(dtype))
    found = apply(body, op, [a, b], [dtype, dtype], dtype)
    wide = [
        math.nan
        if math.isnan(x) or math.isnan(y)
        else choose((x, math.copysign(1, x)), (y, math.copysign(1, y)))[0]
        for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True)
    ]
    same(found, np.array(wide).astype(dtype.numpy))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(body, op, name):
    dtype = DType(name)
    a, b = pairs(floats(dtype) if dtype.is_float else integers(dtype))
    found = apply(body, op, [a, b], [dtype, dtype], bool_)
    expected = COMPARISONS[op](working(a), working(b)) if dtype.is_float else COMPARISONS[op](a, b)
    np.testing.assert_array_equal(found, expected)


def logistic(x):
    return 1 / (1 + np.exp(-x))


FLOAT_UNARY = {
    "negate": (np.negative, 0), "abs": (np.abs, 0), "floor": (np.floor, 0), "ceil": (np.ceil, 0), "round": (np.rint, 0),
    "trunc": (np.trunc, 0), "sqrt": (np.sqrt, 0), "relu": (lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0)), 0),
    "sign": (lambda x: np.where(np.isnan(x) | (x == 0), x, np.sign(x)), 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1), "exp": (np.exp, 1), "exp2": (np.exp2, 1), "expm1": (np.expm1, 1),
    "log": (np.log, 1), "log2": (np.log2, 1), "log1p": (np.log1p, 1), "sin": (np.sin, 1), "cos": (np.cos, 1),
    "asin": (np.arcsin, 1),
    "acos": (np.arccos, 1), "atan": (np.arctan, 1), "tanh": (np.tanh, 1), "sigmoid": (logistic, 2),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", FLOAT_UNARY)
def test_float_unary(body, op, name):
    dtype = DType(name)
    a = floats(dtype)
    found = apply(body, op, [a], [dtype], dtype)
    function, ulps = FLOAT_UNARY[op]
    with np.errstate(all="ignore"):
        expected = function(a.astype(np.float64)).astype(dtype.numpy)
    if not ulps:
        same(found, expected)
        return
    wide = expected.astype(np.float64)
    spacing = 2.0**-dtype.mantissa_bits * np.maximum(np.abs(wide), dtype.smallest_normal)
    finite = np.isfinite(wide)
    np.testing.assert_array_equal(found.astype(np.float64)[~finite], wide[~finite])
    assert np.all(np.abs(found.astype(np.float64)[finite] - wide[finite]) <= ulps * spacing[finite])


@pytest.mark.parametrize("name", [*FLOATS, "int32", "bool"])
def test_is_nan(body, name):
    dtype = DType(name)
    a = floats(dtype) if dtype.is_float else np.array([0, 1, 1], dtype.numpy)
    expected = np.isnan(a.astype(np.float64))
    np.testing.assert_array_equal(apply(body, "is_nan", [a], [dtype], bool_), expected)


BOOLEANS = {
    "add": np.logical_or, "mul": np.logical_and, "minimum": np.logical_and, "maximum": np.logical_or,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "bitwise_and": np.logical_and,
    "bitwise_or": np.logical_or, "bitwise_xor": np.logical_xor, "equal": np.equal, "less": np.less,
    "greater_equal": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("op", BOOLEANS)
def test_booleans(body, op):
    a, b = pairs(np.array([False, True]))
    np.testing.assert_array_equal(apply(body, op, [a, b], [bool_, bool_], bool_), BOOLEANS[op](a, b))


@pytest.mark.parametrize(("op", "expected"), [("logical_not", [True, False]), ("abs", [False, True]), ("sign", [False, True]),
                                              ("bitwise_not", [True, False]), ("relu", [False, True])])  # fmt: skip
def test_boolean_unary(body, op, expected):
    assert apply(body, op, [np.array([False, True])], [bool_], bool_).tolist() == expected


def test_where_takes_any_dtype(body):
    for name in ("int8", "float16", "float8_e4m3fn", "bool", "complex64", "int4"):
        dtype = DType(name)
        a, b = np.array([1, 0, 1], dtype.numpy), np.array([0, 1, 1], dtype.numpy)
        c = np.array([True, False, True])
        found = apply(body, "where", [c, a, b], [bool_, dtype, dtype], dtype)
        np.testing.assert_array_equal(
            found.astype(np.complex64), np.where(c, a.astype(np.complex64), b.astype(np.complex64))
        )


def tensor_float32(values):
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (
        (bits + (np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)))) & np.uint32(0xFFFFE000)
    ).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), rounded)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_tensor_float32_rounds_after_every_operation(body, op):
    dtype = DType("tensor_float32")
    with np.errstate(all="ignore"):
        a, b = pairs(tensor_float32(floats(DType("float32"))))
        same(
            apply(body, op, [a, b], [dtype, dtype], dtype),
            tensor_float32(FLOAT_BINARY[op](a, b)).astype(np.float32),
        )


def test_every_emitter_of_the_op_table_exists():
    for row in OPS.values():
        for kind, text in row.emit.items():
            if text.startswith("@") and text not in ("@cast", "@bitcast"):
                assert kind in EMITTERS[text], (row.name, kind)


def test_storage_types_do_not_compute(body):
    dtype = DType("float8_e4m3fn")
    a = np.ones(3, dtype.numpy)
    with pytest.raises(UnsupportedError, match="add of float8_e4m3fn"):
        apply(body, "add", [a, a], [dtype, dtype], dtype)


def test_loads_and_stores_move_every_dtype_with_eight_bytes_or_less(body):
    rng = np.random.default_rng(0)
    for dtype in DTYPES.values():
        raw = rng.integers(0, 256, 37 * dtype.itemsize).astype(np.uint8)
        if dtype.bits < 8:
            raw &= (1 << dtype.bits) - 1
        x = raw.view(dtype.numpy)
        b = body(i=37)
        b.store(b.load(x, ["i"], dtype), ["i"])
        if dtype.itemsize > 8:
            with pytest.raises(UnsupportedError, match="complex128"):
                b.run()
            continue
        np.testing.assert_array_equal(b.run()[0].view(np.uint8), raw, err_msg=dtype.name)


def test_constants_of_eight_bit_floats(body):
    dtype = DType("float8_e5m2")
    b = body(i=4)
    b.store(b.add("const", dtype, (), value=ml_dtypes.float8_e5m2(1.75)), ["i"])
    assert b.run()[0].astype(np.float32).tolist() == [1.75] * 4
