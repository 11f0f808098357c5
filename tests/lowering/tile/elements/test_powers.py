"""Powers with a known exponent or base, against exact powers of fractions and C's results for zeros, infinities and NaN."""

import math
from fractions import Fraction

import joinery as jn
import mpmath
import numpy as np
import pytest
from joinery.lowering.tile.elements.powers import has_logarithm, is_multiplied_out
from joinery.promotion.dtype import DType

FLOATS = ["float16", "bfloat16", "float32", "float64"]
EXPONENTS = [-64.0, -7.0, -3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 16.5, 31.0, 63.0, 64.0]
PLAIN = {-0.5: Fraction(3, 2), 3.0: Fraction(13, 10), -2.0: Fraction(192, 100)}
"""The errors of powers that take along no rounding, in units of the last place."""
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]


def bases(dtype, exponent):
    """Special values, and random ones over the whole range of the dtype and of the results, and about 1."""
    rng = np.random.default_rng(7)
    limits = np.finfo(np.float32) if dtype.name == "bfloat16" else np.finfo(dtype.numpy)
    low, high = math.log2(float(limits.smallest_subnormal)), math.log2(float(limits.max))
    ends = [low, high, low / exponent, high / exponent]
    exponents = np.concatenate([
        rng.uniform(low, high, 300), rng.uniform(-1, 1, 300), *[rng.uniform(end - 3, end + 3, 200) for end in ends]
    ])  # fmt: skip
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp2(np.clip(exponents, -1074, 1023)) * rng.choice([-1.0, 1.0], exponents.size)
        return np.concatenate([np.array([*SPECIAL, *values]).astype(dtype.numpy), *map(around, edges(dtype, exponent))])


def edges(dtype, exponent):
    """Where the result becomes infinite, as nearly as a root in float64 tells, of both signs."""
    if exponent in (-0.5, 0.5, 1.0):
        return []
    edge = float(dtype.max_value) ** (1 / exponent)
    return [np.array([sign * edge]).astype(dtype.numpy) for sign in (1, -1)]


def around(edge):
    """An array of one number → that and the 20 on either side."""
    return (edge.view(f"i{edge.itemsize}") + np.arange(-20, 21)).astype(f"i{edge.itemsize}").view(edge.dtype)


def powers(body, values, exponent, dtype):
    b = body(i=len(values))
    b.store(b.op("pow", b.load(values, ["i"]), b.const(exponent, dtype)), ["i"])
    return b.run()[0]


def exact(x, exponent):
    """x ** exponent of a positive finite double: a fraction; of halves to 300 bits."""
    base = Fraction(x)
    if exponent == int(exponent):
        return base ** int(exponent)
    scale = 1 << 1500
    root = Fraction(math.isqrt(base.numerator * scale * scale // base.denominator), scale)
    return root ** int(2 * exponent)


@pytest.mark.one_in(21)
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("name", FLOATS)
def test_results_are_close_to_the_exact_ones(body, name, exponent):
    dtype = DType(name)
    values = bases(dtype, exponent)
    found = powers(body, values, exponent, dtype).astype(np.float64)
    limits = np.finfo(np.float32) if name == "bfloat16" else np.finfo(dtype.numpy)
    bits = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[name]
    least = Fraction(float(limits.smallest_subnormal)) * (2**16 if name == "bfloat16" else 1)
    checked = 0
    for x, y in zip(values.astype(np.float64), found, strict=True):
        if not math.isfinite(x) or x == 0 or (x < 0 and exponent != int(exponent)):
            with np.errstate(invalid="ignore"):
                expected = np.float_power(x, exponent) if x else math.inf if exponent < 0 else 0.0
            if not x and exponent == int(exponent) and int(exponent) % 2:
                expected = math.copysign(expected, x)
            same = (y, math.copysign(1, y)) == (expected, math.copysign(1, expected))
            assert same or (math.isnan(y) and math.isnan(expected))
            continue
        truth = exact(abs(x), exponent)
        negative = x < 0 and int(exponent) % 2 == 1
        assert math.copysign(1, y) == (-1 if negative else 1), (x, y)
        if math.isinf(y):
            assert truth >= Fraction(float(dtype.max_value)) * (1 + Fraction(1, 2 ** (bits + 1)) - Fraction(1, 2 ** (bits + 3)))
            continue
        unit = max(least, Fraction(2) ** (_exponent(truth) - bits + 1))
        is_small = truth < least * 2 ** (2 * bits)  # what roundings lost underflows
        allowed = PLAIN.get(exponent, Fraction(3, 2) if is_small else Fraction(3, 5))
        assert abs(abs(Fraction(y)) - truth) <= allowed * unit, (x, y)
        checked += 1
    assert checked > 300


def _exponent(value):
    """floor(log2(value)) of a positive fraction."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_most_results_are_rounded_correctly(body, name):
    """A chain of products would miss a third of them."""
    dtype = DType(name)
    values = np.random.default_rng(1).uniform(0.9, 1.1, 2000).astype(dtype.numpy)
    found = powers(body, values, 10.0, dtype)
    truths = [_rounded(Fraction(float(x)) ** 10, dtype) for x in values]
    right = [float(y) == truth for y, truth in zip(found, truths, strict=True)]
    assert np.mean(right) > 0.999


def _rounded(value, dtype):
    """The nearest float of the dtype to a fraction about 1."""
    unit = Fraction(2) ** (_exponent(value) - (23 if dtype.name == "float32" else 52))
    return float(round(value / unit) * unit)


def test_other_exponents_are_not_multiplied_out():
    assert not any(map(is_multiplied_out, [0.0, -0.0, 65.0, -65.0, -1.5, 17.5, 1 / 3, math.inf, -math.inf, math.nan, 2.25]))
    assert all(map(is_multiplied_out, EXPONENTS))


@pytest.mark.parametrize("exponent", [0.0, 65.0, 1 / 3, 17.5, math.inf, -math.inf, math.nan])
def test_other_exponents_give_what_c_gives(body, exponent):
    values = np.array([*SPECIAL, 0.5, 2.0, 1.01], np.float32)
    found = powers(body, values, exponent, DType("float32"))
    with np.errstate(all="ignore"):
        expected = np.float_power(values.astype(np.float64), np.float64(np.float32(exponent)))
        np.testing.assert_allclose(found, expected.astype(np.float32), rtol=2.5e-7)


BASES = [2.0, 0.5, 4.0, 10.0, 0.1, math.e, 1.05, 1.001, 0.999, 2.0**-64, 2.0**64, 3e-19]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", FLOATS)
def test_powers_of_a_known_base_are_close_to_the_exact_ones(body, name, base):
    dtype = DType(name)
    limits = np.finfo(np.float32) if name == "bfloat16" else np.finfo(dtype.numpy)
    with np.errstate(over="ignore"):
        base = float(np.array(base).astype(dtype.numpy))
    if not (has_logarithm(base) and limits.smallest_normal <= base <= limits.max):
        pytest.skip("the base is no number of the dtype that has a logarithm here")
    bits = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[name]
    rng = np.random.default_rng(11)
    end = float(np.log2(limits.max)) / abs(math.log2(base))
    small = (-1 if base > 1 else 1) * (bits + float(-np.log2(limits.smallest_normal))) / abs(math.log2(base))
    with np.errstate(over="ignore"):
        values = np.array([
            *SPECIAL, *rng.uniform(-end, end, 300), *rng.uniform(-1, 1, 100), *(rng.uniform(0.99, 1.01, 200) * end),
            *(-rng.uniform(0.99, 1.01, 200) * end), *(rng.uniform(0.8, 1.02, 200) * small), limits.max, -limits.max,
            limits.smallest_normal,
        ]).astype(dtype.numpy)  # fmt: skip
    b = body(i=len(values))
    b.store(b.op("pow", b.const(base, dtype), b.load(values, ["i"])), ["i"])
    found = b.run()[0].astype(np.float64)
    for x, y in zip(values.astype(np.float64), found, strict=True):
        if not math.isfinite(x) or x == 0:
            with np.errstate(all="ignore"):
                np.testing.assert_equal(y, np.float_power(base, x))
            continue
        with mpmath.workprec(160):
            truth = mpmath.power(mpmath.mpf(base), mpmath.mpf(x))
            if math.isinf(y):
                assert truth >= mpmath.mpf(float(limits.max)) * (1 - mpmath.mpf(2) ** -bits), x
                continue
            exponent = int(mpmath.floor(mpmath.log(truth, 2)))
            unit = mpmath.mpf(2) ** max(exponent - bits + 1, int(np.log2(limits.smallest_normal)) - bits + 1)
            assert abs(mpmath.mpf(float(y)) - truth) <= mpmath.mpf(1.5) * unit, (x, y, truth)


def test_other_bases_are_no_powers_of_two():
    assert not any(map(has_logarithm, [0.0, -0.0, -2.0, 1.0, 1.0005, 2.0**-65, 2.0**65, math.inf, -math.inf, math.nan]))
    assert all(map(has_logarithm, BASES))


@pytest.mark.parametrize(("exponent", "calls"), [(7.0, False), (2.5, False), (2.25, True)])
def test_a_known_exponent_calls_no_function(exponent, calls):
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (100,), "x")])
    graph.output(graph.inputs[0] ** exponent)
    assert ("math.powf" in jn.compile(graph, device="cpu", cache=False).kernels[0].ttir) is calls


@pytest.mark.parametrize(("base", "calls"), [(2.0, False), (10.0, False), (-2.0, True), (1.0, True), (0.0, True)])
def test_a_known_base_calls_no_power(base, calls):
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (100,), "x")])
    graph.output(base ** graph.inputs[0])
    assert ("math.powf" in jn.compile(graph, device="cpu", cache=False).kernels[0].ttir) is calls
